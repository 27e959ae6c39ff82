package agent

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/agent/measure"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/plan/overlay"
	"github.com/flotilla-io/flotilla/pkg/plan/protect"
)

// reasonContended is the reason of a Degraded row whose object another writer keeps changing after each of our applies.
const reasonContended = "Contended"

// maxApplyDuration is the longest that an apiserver works on a request: the default of its --request-timeout. After that, an apply whose response was
// lost can no longer create anything.
const maxApplyDuration = time.Minute

// defaultReplicas is the default of spec.replicas.
const defaultReplicas = int64(1)

// recheckBlocked is how soon a blocked row is retried. No watch reports that the cause is gone.
const recheckBlocked = 15 * time.Second

// Limits for contention: the first appliesWithoutWait applies of the same bytes follow each other immediately, further ones after a wait that
// doubles each time. A row that was quiet for contentionExpiry starts over.
const (
	appliesWithoutWait = 3
	minApplyWait       = 2 * time.Second
	maxApplyWait       = 5 * time.Minute
	contentionExpiry   = 2 * maxApplyWait
)

const (
	// reportAfterFailures is how many consecutive attempts must fail before the failure is reported. A webhook that is only restarting is back by
	// then.
	reportAfterFailures = 5
	// messageLifetime is how long a reported failure message is kept. Each attempt may produce a different message.
	messageLifetime = time.Minute
)

// permission is what the binding allows the agent to do with rows.
type permission struct {
	// mayAct is false if nothing may be done: the cluster is unbound, bound to another hub, or not accepted.
	mayAct bool
	// leaving means that rows are only withdrawn, never applied.
	leaving bool
	// hubUID is the hub that the cluster is bound to.
	hubUID string
	// epoch is the highest epoch that this member has stored.
	epoch int64
	// hubEpoch is the epoch that the hub reports.
	hubEpoch int64
	// namespaces lists the namespaces that the hub's MemberCluster allows objects in; empty means all.
	namespaces []string
	// kinds lists the kinds of objects that the hub's MemberCluster allows; empty means all.
	kinds []schema.GroupKind
}

// mustStoreEpoch reports whether this member has yet to store the epoch of a grant. A leaving member stores none.
func (p permission) mustStoreEpoch(granted int64) bool { return !p.leaving && granted > p.epoch }

// waitReason returns why a row is neither processed nor reported until the binding changes; "" means that it need not wait.
func (p permission) waitReason(row *fleetv1alpha1.MemberWork) string {
	switch {
	case !p.mayAct:
		return "this cluster is not bound to the hub"
	case p.mustStoreEpoch(row.Spec.Grant.Epoch):
		return "the row's epoch must be stored first"
	case p.leaving && row.DeletionTimestamp.IsZero():
		return "the cluster is leaving"
	default:
		return ""
	}
}

// epochRegressed reports whether the epoch of a grant (0 means that none is stated) is lower than the epoch stored here, as happens with a hub
// that was restored from a backup.
func (p permission) epochRegressed(granted int64) bool {
	if granted == 0 {
		granted = p.hubEpoch
	}
	return granted < p.epoch
}

// contention counts how often the same bytes were applied.
type contention struct {
	hash  string
	count int
	last  time.Time
}

// waitBefore returns how long the next apply of hash has to wait.
func (c contention) waitBefore(hash string, now time.Time) time.Duration {
	since := now.Sub(c.last)
	if c.hash != hash || c.count < appliesWithoutWait || since > contentionExpiry {
		return 0
	}
	wait := min(minApplyWait<<min(c.count-appliesWithoutWait, 10), maxApplyWait)
	return max(wait-since, 0)
}

// afterApply returns the contention after one more apply of hash.
func (c contention) afterApply(hash string, now time.Time) contention {
	if c.hash != hash || now.Sub(c.last) > contentionExpiry {
		return contention{hash: hash, count: 1, last: now}
	}
	return contention{hash: hash, count: c.count + 1, last: now}
}

// attempts counts the latest consecutive failed attempts.
type attempts struct {
	failed int
	// message is the error to report, and since is when it occurred.
	message string
	since   time.Time
}

// afterFailure returns the attempts after one more failure.
func (a attempts) afterFailure(err error, now time.Time) attempts {
	a.failed++
	if a.message == "" || now.Sub(a.since) >= messageLifetime {
		a.message, a.since = event.Truncate(err.Error(), messageLimit), now
	}
	return a
}

func (a attempts) problem() *problem {
	return &problem{phase: fleetv1alpha1.WorkDegraded, reason: fleetv1alpha1.ReasonError, message: a.message}
}

// problem is why a row can't be applied, and what to do about it.
type problem struct {
	phase           fleetv1alpha1.WorkPhase
	reason, message string
	// watched means that a watch event starts the next reconcile when the cause is gone, so no recheck is needed.
	watched bool
}

func blocked(reason, format string, args ...any) *problem {
	return &problem{phase: fleetv1alpha1.WorkBlocked, reason: reason, message: fmt.Sprintf(format, args...)}
}

// observed is the read-only input for planning one row.
type observed struct {
	row        *fleetv1alpha1.MemberWork
	permission permission
	// limits and resources are what the member's own administrator allows. resource is the resource of the object; it is looked up only if resources
	// is set, and is empty if the kind is not served.
	limits    link.NamespaceLimits
	resources *link.ResourceLimits
	resource  schema.GroupResource
	// want is the object that the row asks for; nil if the row is withdrawn or can't be rendered.
	want *rendered
	// refused is a problem found while observing: the row can't be rendered, or its object can't be read or adopted.
	refused *problem
	// line is the row's line in the ledger, or nil.
	line *fleetv1alpha1.AppliedWork
	// live is the object in the member, or nil. fresh means that it was read from the apiserver, not from a cache.
	live  *unstructured.Unstructured
	fresh bool
	// pendingApply is how long an apply whose outcome is unknown may still create the object. It is set only if live is nil.
	pendingApply time.Duration
	// namespaceMissing means that the object's namespace doesn't exist. It is set only if live is nil.
	namespaceMissing bool
	// holderRow is the other row that the existing object was applied for, if any. differs lists the fields of the existing object that an apply
	// would change. Both are set only if the row may adopt the object.
	holderRow  string
	differs    []string
	contention contention
	// heldBack means that the withdrawal waits for confirmation: something other than the hub deleted this row and many others.
	heldBack bool
}

// action is what a reconcile does to the object.
type action string

const (
	// actNothing does nothing: the object is up to date, or must not be touched.
	actNothing action = "Nothing"
	// actApply writes the ledger if line is set, applies the object, and writes the ledger again.
	actApply action = "Apply"
	// actDelete deletes the object by UID, then does the same as actForget.
	actDelete action = "Delete"
	// actOrphan removes our annotation and managedFields from the object, then does the same as actForget.
	actOrphan action = "Orphan"
	// actForget deletes the ledger line; nothing of ours is left.
	actForget action = "Forget"
)

// planned is the next step for one row, and the reason for it.
type planned struct {
	action action
	// why explains the action in the log.
	why string
	// line is written to the ledger before the action; nil if the ledger already has it.
	line *fleetv1alpha1.AppliedWorkSpec
	// drift means that another writer changed what we had applied.
	drift bool
	// problem is why the row can't be applied; nil if it can.
	problem *problem
	// adopts means that the apply adopts an existing object.
	adopts bool
	// suspended means that nothing is done because the row is suspended.
	suspended bool
	// withdrawn means that nothing is left of a withdrawn row, and no action is needed.
	withdrawn bool
	// distrustEpoch is the epoch to store because the row is older than what was applied: the hub is trusted again from that epoch on. 0 means
	// none.
	distrustEpoch int64
	// recheck is when to reconcile again without a watch event; 0 means never.
	recheck time.Duration
}

// safeFromCache reports whether the plan can be relied on even though it was made from a cache.
func (p planned) safeFromCache() bool { return p.action == actNothing && p.problem == nil }

func planNothing(why string) planned { return planned{action: actNothing, why: why} }

func planProblem(found *problem) planned {
	p := planned{action: actNothing, why: found.message, problem: found}
	if !found.watched {
		p.recheck = recheckBlocked
	}
	return p
}

// plan returns the next step for a row.
func plan(o observed, now time.Time) planned {
	if why := o.permission.waitReason(o.row); why != "" {
		return planNothing(why)
	}
	if epoch := o.distrustEpoch(); epoch > 0 {
		p := planNothing("the row is older than what was applied here")
		p.distrustEpoch = epoch
		return p
	}
	if !o.row.DeletionTimestamp.IsZero() {
		return planWithdrawal(o)
	}
	if o.row.Spec.Suspend {
		p := planNothing("the row is suspended")
		p.suspended = true
		return p
	}
	if o.refused != nil {
		return planProblem(o.refused)
	}
	if p := checkLimits(o); p != nil {
		return planProblem(p)
	}
	if o.live == nil {
		return planCreation(o)
	}
	if !ours(o.line, o.live) {
		return planAdoption(o)
	}
	if o.live.GetDeletionTimestamp() != nil {
		return planNothing("another client is deleting the object; it will be re-created afterwards")
	}
	if upToDate(o.line, o.want, o.live) {
		return planNothing("the object is up to date")
	}
	return planApply(o, now)
}

// distrustEpoch returns the epoch from which the hub is trusted again, if the row is older than what was applied for it at the same epoch.
// That happens when the hub was restored from a backup. Otherwise it returns 0. A row with a regressed epoch is not trusted anyway.
func (o observed) distrustEpoch() int64 {
	granted := o.row.Spec.Grant.Epoch
	if o.line == nil || granted > o.line.Spec.Epoch || o.permission.epochRegressed(granted) {
		return 0
	}
	applied := o.line.Spec
	older := o.row.Generation < applied.RowGeneration
	if applied.Row.UID != string(o.row.UID) {
		older = applied.Row.CreatedAt != nil && o.row.CreationTimestamp.Before(applied.Row.CreatedAt)
	}
	if !older {
		return 0
	}
	return o.permission.epoch + 1
}

// planWithdrawal handles a row that the hub has deleted.
func planWithdrawal(o observed) planned {
	switch {
	case o.line == nil:
		p := planNothing("nothing was applied for this row")
		p.withdrawn = true
		return p
	case o.refused != nil:
		return planProblem(o.refused)
	case o.live == nil && o.line.Spec.Object.UID == "" && o.pendingApply > 0:
		p := planNothing("an apply whose response was not received may be in progress")
		p.recheck = o.pendingApply
		return p
	case o.live == nil:
		return planned{action: actForget, why: "the object is gone"}
	case !ours(o.line, o.live):
		return planned{action: actForget, why: "another client re-created the object"}
	case o.row.Spec.DeletionPolicy == fleetv1alpha1.LeaveOrphan:
		return planned{action: actOrphan, why: "the row was withdrawn with deletionPolicy Orphan"}
	case o.permission.epochRegressed(o.row.Spec.Grant.Epoch):
		return planProblem(regressionProblem(o, "delete "+describe(o.live)))
	case o.live.GetDeletionTimestamp() != nil:
		return planNothing("the object is being deleted")
	case o.heldBack:
		return planProblem(blocked(fleetv1alpha1.ReasonDeletionsPaused,
			"many rows were deleted at once, and not by the hub: keeping %s; to delete it, set spec.withdrawn of this row to true", describe(o.live)))
	}
	if why := protect.Why(o.live); why != "" {
		return planProblem(blocked(fleetv1alpha1.ReasonDeleteProtected, "the hub withdrew the row, but %s is kept: %s", describe(o.live), why))
	}
	return planned{action: actDelete, why: "the row was withdrawn with deletionPolicy Delete"}
}

// planCreation creates the object, for the first time or again.
func planCreation(o observed) planned {
	if o.namespaceMissing {
		return planProblem(blocked(fleetv1alpha1.ReasonNamespaceNotFound,
			"namespace %s doesn't exist: create it in this cluster", o.want.object.GetNamespace()))
	}
	p := planned{action: actApply, why: "the object does not exist", line: newLineIfChanged(o)}
	if o.line != nil && o.line.Spec.Object.UID != "" {
		p.why, p.drift = "the object was deleted here", true
	}
	return p
}

// planAdoption adopts an existing object if the row allows it. The line written beforehand has no UID: until the apply has put our
// annotation on the object, it is not ours and is not deleted with the row.
func planAdoption(o observed) planned {
	foreign := func(format string, args ...any) planned {
		return planProblem(blocked(fleetv1alpha1.ReasonForeignObject,
			"%s exists here and was not created by this hub: "+format, append([]any{describe(o.live)}, args...)...))
	}
	how := adoption(o.row)
	switch {
	case how == fleetv1alpha1.AdoptNever:
		return foreign("delete or rename one of the two")
	case o.live.GetDeletionTimestamp() != nil:
		return foreign("it is being deleted")
	case o.holderRow != "":
		return planProblem(blocked(fleetv1alpha1.ReasonForeignObject,
			"%s was applied for row %s already: place it with only one object on the hub", describe(o.live), o.holderRow))
	case how == fleetv1alpha1.AdoptIfEqual && len(o.differs) > 0:
		return foreign("it would be adopted only if equal, but differs in %s: make it equal, or choose another adoption policy", event.Names(o.differs))
	}
	if o.permission.epochRegressed(o.row.Spec.Grant.Epoch) {
		if field := shrunkField(o); field != "" {
			return planProblem(regressionProblem(o, "lower "+field))
		}
	}
	return planned{action: actApply, adopts: true, why: "the object is adopted", line: newLineIfChanged(o)}
}

// planApply updates an object that is ours.
func planApply(o observed, now time.Time) planned {
	unchanged := o.line.Spec.AppliedHash == o.want.hash
	if o.permission.epochRegressed(o.row.Spec.Grant.Epoch) {
		if field := shrunkField(o); field != "" {
			return planProblem(regressionProblem(o, "lower "+field))
		}
	}
	if wait := o.contention.waitBefore(o.want.hash, now); wait > 0 {
		return planned{
			action: actNothing, why: "waiting before the next apply", recheck: wait,
			problem: &problem{
				phase: fleetv1alpha1.WorkDegraded, reason: reasonContended,
				message: fmt.Sprintf("something in this cluster changed %s after each of %d applies; check its managedFields and mutating webhooks",
					describe(o.live), o.contention.count),
			},
		}
	}
	p := planned{action: actApply, why: "the row has changed since the last apply", drift: unchanged}
	if unchanged {
		p.why = "the object was changed here"
	}
	return p
}

// checkLimits checks that a row doesn't change its object's identity, and that it stays within the limits of the cluster, both those set on the hub
// and those set by the member's own administrator. A change that only lowers numbers of an object of ours is exempt from the limits on namespaces and
// from spec.limits.allowedKinds; otherwise the hub could never move the object away.
func checkLimits(o observed) *problem {
	object := o.want.object
	if o.line != nil {
		old := o.line.Spec.Object
		oldKind := schema.FromAPIVersionAndKind(old.APIVersion, old.Kind).GroupKind()
		if kind := object.GroupVersionKind().GroupKind(); oldKind != kind || old.Name != object.GetName() || old.Namespace != object.GetNamespace() {
			return blocked(fleetv1alpha1.ReasonInvalid,
				"the row now has %s of %s, but was applied as %s %s/%s of %s: the kind and name of a row's object can't change",
				describe(object), groupName(kind.Group), old.Kind, old.Namespace, old.Name, groupName(oldKind.Group))
		}
	}
	if p := kindProblem(o); p != nil {
		return p
	}
	onlyShrinks := func() bool {
		return o.live != nil && ours(o.line, o.live) && measure.KindOf(o.live.GroupVersionKind()).OnlyShrinks(object, o.live)
	}
	if gk := object.GroupVersionKind().GroupKind(); len(o.permission.kinds) > 0 && !slices.Contains(o.permission.kinds, gk) && !onlyShrinks() {
		return blocked(fleetv1alpha1.ReasonKindNotAllowed,
			"kind %s of %s isn't in spec.limits.allowedKinds of this cluster's MemberCluster", gk.Kind, groupName(gk.Group))
	}
	why, err := namespaceRefusal(o)
	if err != nil {
		return blocked(fleetv1alpha1.ReasonInvalid, "the row from the hub is invalid: %v", err)
	}
	if why == "" || onlyShrinks() {
		return nil
	}
	return blocked(fleetv1alpha1.ReasonNamespaceNotAllowed, "%s", why)
}

// kindProblem returns why objects of the row's kind are never placed in this cluster, regardless of what already exists; nil if they may be placed.
func kindProblem(o observed) *problem {
	if o.want == nil {
		return nil
	}
	why := link.NeverPlaced(o.want.object.GroupVersionKind().GroupKind())
	if why == "" && o.resource.Resource != "" {
		why = o.resources.Refuses(o.resource)
	}
	if why == "" {
		return nil
	}
	return blocked(fleetv1alpha1.ReasonKindNotAllowed, "%s can't be placed: %s", describe(o.want.object), why)
}

// namespaceRefusal returns why the namespace limits don't allow placing the object, or "".
func namespaceRefusal(o observed) (string, error) {
	in, err := measure.KindOf(o.want.object.GroupVersionKind()).Targets(o.want.object)
	if err != nil {
		return "", err
	}
	allowed := o.permission.namespaces
	for _, ns := range in.Named {
		if why := o.limits.Refuses(ns); why != "" {
			return why, nil
		}
		if len(allowed) > 0 && !slices.Contains(allowed, ns) {
			return fmt.Sprintf("namespace %q isn't in spec.limits.allowedNamespaces of this cluster's MemberCluster", ns), nil
		}
	}
	switch {
	case in.Everywhere && len(allowed) > 0:
		return "the object is cluster-scoped, but spec.limits.allowedNamespaces of this cluster's MemberCluster limits objects to namespaces", nil
	case in.Everywhere:
		return o.limits.RefusesClusterScoped(), nil
	case in.Any && len(allowed) > 0:
		return "spec.limits.allowedNamespaces of this cluster's MemberCluster lists namespaces: select these by name, and no others", nil
	case in.Any:
		return o.limits.RefusesAny(in.Excluded), nil
	}
	return "", nil
}

// shrunkField returns the first field by which an apply would take replicas away, or "". A field that is left out is removed if only the agent
// owns it, and the apiserver sets the default.
func shrunkField(o observed) string {
	want, replicas := o.want.object, []string{"spec", "replicas"}
	if _, asked, _ := unstructured.NestedFieldNoCopy(want.Object, replicas...); !asked && removes(o, replicas) {
		want = want.DeepCopy()
		if err := unstructured.SetNestedField(want.Object, defaultReplicas, replicas...); err != nil {
			return joinPath(replicas)
		}
	}
	return measure.KindOf(o.live.GroupVersionKind()).ShrunkField(want, o.live)
}

// removes reports whether an apply that leaves out a field removes it.
func removes(o observed, field []string) bool {
	if slices.ContainsFunc(o.want.ignored, func(names []string) bool { return len(names) <= len(field) && slices.Equal(names, field[:len(names)]) }) {
		return false
	}
	isOurs := func(e metav1.ManagedFieldsEntry) bool { return e.Manager == link.AgentManager }
	mine, err := fieldsOf(o.live, isOurs)
	others, othersErr := fieldsOf(o.live, func(e metav1.ManagedFieldsEntry) bool { return !isOurs(e) })
	return err != nil || othersErr != nil || owns(mine, field) && !owns(others, field)
}

func regressionProblem(o observed, doing string) *problem {
	return blocked(fleetv1alpha1.ReasonEpochRegression,
		"the hub asks to %s at an epoch lower than %d, which this cluster has seen; %s", doing, o.permission.epoch, link.RaiseEpoch)
}

// ours reports whether live is the object of the ledger line. It compares the UID or, while the line has no UID yet, our annotation.
func ours(line *fleetv1alpha1.AppliedWork, live *unstructured.Unstructured) bool {
	switch {
	case line == nil:
		return false
	case line.Spec.Object.UID != "":
		return line.Spec.Object.UID == string(live.GetUID())
	default:
		return live.GetAnnotations()[keys.FleetRowUID] == line.Spec.Row.UID
	}
}

// upToDate reports whether the last apply was of want and live still matches it: either live hasn't changed since, or each field in want has
// the wanted value. Other fields, such as replicas that the row ignores, are not ours. Fields that were left to others don't count.
func upToDate(line *fleetv1alpha1.AppliedWork, want *rendered, live *unstructured.Unstructured) bool {
	if line == nil || want == nil || line.Spec.Object.UID != string(live.GetUID()) || line.Spec.AppliedHash != want.hash {
		return false
	}
	applied := withoutLeftFields(line.Spec, want)
	if live.GetGeneration() > 0 && line.Spec.AppliedGeneration == live.GetGeneration() {
		return !metadataDiffers(applied, live)
	}
	return len(overlay.Paths(live.Object, applied.Object)) == 0
}

// withoutLeftFields returns the wanted object without the fields that the last apply left to others.
func withoutLeftFields(line fleetv1alpha1.AppliedWorkSpec, want *rendered) *unstructured.Unstructured {
	if len(line.Left) == 0 {
		return want.object
	}
	object := want.object.DeepCopy()
	for _, path := range line.Left {
		if names, ok := splitPath(path); ok {
			removeField(object.Object, names)
		}
	}
	return object
}

// newLine returns the line to write before the object exists; it has no UID.
func newLine(o observed) fleetv1alpha1.AppliedWorkSpec {
	object := o.want.object
	return fleetv1alpha1.AppliedWorkSpec{
		HubUID: o.permission.hubUID,
		Row:    fleetv1alpha1.LedgerRow{Name: o.row.Name, UID: string(o.row.UID), CreatedAt: &o.row.CreationTimestamp},
		Object: fleetv1alpha1.LedgerObject{
			APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: object.GetNamespace(), Name: object.GetName(),
		},
		FieldManager: link.AgentManager,
	}
}

// newLineIfChanged is newLine, or nil if the ledger has that line already.
func newLineIfChanged(o observed) *fleetv1alpha1.AppliedWorkSpec {
	line := newLine(o)
	if o.line != nil && equality.Semantic.DeepEqual(o.line.Spec, line) {
		return nil
	}
	return &line
}

// appliedLine returns the line to write after the apply that produced live.
func appliedLine(o observed, live *unstructured.Unstructured) fleetv1alpha1.AppliedWorkSpec {
	line := newLine(o)
	line.Object.UID = string(live.GetUID())
	line.AppliedHash, line.AppliedGeneration = o.want.hash, live.GetGeneration()
	line.RowGeneration, line.Epoch = o.row.Generation, o.row.Spec.Grant.Epoch
	return line
}

func describe(o *unstructured.Unstructured) string {
	name := o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return o.GetKind() + " " + name
}
