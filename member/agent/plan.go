package agent

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/overlay"
	"github.com/flotilla-io/flotilla/pkg/protect"
)

// reasonContended is the reason of a Degraded row whose object another writer keeps changing after each of our applies.
const reasonContended = "Contended"

// applyLasts is how long an apiserver works on a request at most: the default of its --request-timeout. After that, an apply whose answer was
// lost can no longer create anything.
const applyLasts = time.Minute

// recheckBlocked is how soon a blocked row is retried. No watch reports that the cause is gone.
const recheckBlocked = 15 * time.Second

// Limits for contention: the first freeApplies applies of the same bytes follow each other immediately, further ones after a wait that doubles
// each time. A row that was quiet for quietForgetful starts over.
const (
	freeApplies    = 3
	firstWait      = 2 * time.Second
	longestWait    = 5 * time.Minute
	quietForgetful = 2 * longestWait
)

const (
	// reportedFailures is how many consecutive attempts must fail before the failure is reported. A webhook that is only restarting is back by
	// then.
	reportedFailures = 5
	// messageLasts is how long a reported failure message is kept. Each attempt may produce a different message.
	messageLasts = time.Minute
)

// permission is what the binding allows the agent to do with rows.
type permission struct {
	// act is false if nothing may be done: the cluster is unbound, bound to another hub, or not accepted.
	act bool
	// leaving means that rows are only withdrawn; none is applied.
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

// unstored reports whether this member has yet to store the epoch of a grant. A leaving member stores none.
func (p permission) unstored(granted int64) bool { return !p.leaving && granted > p.epoch }

// waits returns why a row is neither processed nor reported until the binding changes; "" means that it need not wait.
func (p permission) waits(row *fleetv1alpha1.MemberWork) string {
	switch {
	case !p.act:
		return "this cluster is not bound to the hub"
	case p.unstored(row.Spec.Grant.Epoch):
		return "the epoch of the row is stored first"
	case p.leaving && row.DeletionTimestamp.IsZero():
		return "the cluster is leaving"
	default:
		return ""
	}
}

// regressed reports whether the epoch of a grant (0 means that none is stated) is lower than the epoch stored here, as happens with a hub that
// was restored from a backup.
func (p permission) regressed(granted int64) bool {
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

// wait returns how long the next apply of hash has to wait.
func (c contention) wait(hash string, now time.Time) time.Duration {
	since := now.Sub(c.last)
	if c.hash != hash || c.count < freeApplies || since > quietForgetful {
		return 0
	}
	wait := min(firstWait<<min(c.count-freeApplies, 10), longestWait)
	return max(wait-since, 0)
}

// next returns the contention after one more apply of hash.
func (c contention) next(hash string, now time.Time) contention {
	if c.hash != hash || now.Sub(c.last) > quietForgetful {
		return contention{hash: hash, count: 1, last: now}
	}
	return contention{hash: hash, count: c.count + 1, last: now}
}

// attempts counts the latest consecutive failed attempts.
type attempts struct {
	failed int
	// message is the error of the attempt at the time since.
	message string
	since   time.Time
}

// next returns the attempts after one more failure.
func (a attempts) next(err error, now time.Time) attempts {
	a.failed++
	if a.message == "" || now.Sub(a.since) >= messageLasts {
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
	// watched means that a watch event tells when the cause is gone.
	watched bool
}

func blocked(reason, format string, args ...any) *problem {
	return &problem{phase: fleetv1alpha1.WorkBlocked, reason: reason, message: fmt.Sprintf(format, args...)}
}

// observed is the read-only input for planning one row.
type observed struct {
	row        *fleetv1alpha1.MemberWork
	permission permission
	// limits and resources are what the member's own administrator allows. resource is the resource of the object; it is read only if resources
	// is not nil, and empty if the kind is not served.
	limits    link.NamespaceLimits
	resources *link.ResourceLimits
	resource  schema.GroupResource
	// want is the object that the row asks for. It is nil if the row is withdrawn or can't be rendered (refused says why).
	want    *rendered
	refused *problem
	// line is the row's line in the ledger, or nil.
	line *fleetv1alpha1.AppliedWork
	// live is the object in the member, or nil. fresh means that it was read from the apiserver, not from a cache.
	live  *unstructured.Unstructured
	fresh bool
	// underWay is how long an apply may still create the object. It is read only if live is nil.
	underWay time.Duration
	// noNamespace means that the object's namespace doesn't exist. It is read only if live is nil.
	noNamespace bool
	// holder is the row that applied an existing object that is not ours. differs lists the fields of such an object that an apply would change.
	// Both are read only if the object may be adopted.
	holder     string
	differs    []string
	contention contention
	// heldBack means that something other than the hub deleted the row, along with many others.
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
	act action
	// why explains the action in the log.
	why string
	// line is written to the ledger before the action; nil if the ledger already has it.
	line *fleetv1alpha1.AppliedWorkSpec
	// drift means that another writer changed what we had applied.
	drift bool
	// stopped is why the row can't be applied; nil if it can.
	stopped *problem
	// adopts means that the object existed before.
	adopts bool
	// suspended means that the row is suspended.
	suspended bool
	// withdrawn means that nothing is left of a withdrawn row, and no action is needed.
	withdrawn bool
	// distrust is the epoch to store because the row is older than what was applied; 0 means none.
	distrust int64
	// recheck is when to reconcile again without a watch event; 0 means never.
	recheck time.Duration
}

// atRest reports whether the plan can be relied on even though it was made from a cache.
func (p planned) atRest() bool { return p.act == actNothing && p.stopped == nil }

func nothing(why string) planned { return planned{act: actNothing, why: why} }

func stop(v *problem) planned {
	p := planned{act: actNothing, why: v.message, stopped: v}
	if !v.watched {
		p.recheck = recheckBlocked
	}
	return p
}

// plan returns the next step for a row.
func plan(o observed, now time.Time) planned {
	if why := o.permission.waits(o.row); why != "" {
		return nothing(why)
	}
	if epoch := o.fromBackup(); epoch > 0 {
		p := nothing("the row is older than what was applied here")
		p.distrust = epoch
		return p
	}
	if !o.row.DeletionTimestamp.IsZero() {
		return planWithdrawal(o)
	}
	if o.row.Spec.Suspend {
		p := nothing("the row is suspended")
		p.suspended = true
		return p
	}
	if o.refused != nil {
		return stop(o.refused)
	}
	if v := allowed(o); v != nil {
		return stop(v)
	}
	if o.live == nil {
		return planCreation(o)
	}
	if !ours(o.line, o.live) {
		return planAdoption(o)
	}
	if o.live.GetDeletionTimestamp() != nil {
		return nothing("another client is deleting the object; it is re-created afterwards")
	}
	if upToDate(o.line, o.want, o.live) {
		return nothing("the object is up to date")
	}
	return planApply(o, now)
}

// fromBackup returns the epoch from which the hub is trusted again, if the row is older than what was applied for it at the same epoch. That
// happens when the hub was restored from a backup. Otherwise it returns 0. A row with a regressed epoch is not trusted anyway.
func (o observed) fromBackup() int64 {
	granted := o.row.Spec.Grant.Epoch
	if o.line == nil || granted > o.line.Spec.Epoch || o.permission.regressed(granted) {
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
		p := nothing("nothing was applied for this row")
		p.withdrawn = true
		return p
	case o.refused != nil:
		return stop(o.refused)
	case o.live == nil && o.line.Spec.Object.UID == "" && o.underWay > 0:
		p := nothing("an apply may be under way, whose answer was not received")
		p.recheck = o.underWay
		return p
	case o.live == nil:
		return planned{act: actForget, why: "the object is gone"}
	case !ours(o.line, o.live):
		return planned{act: actForget, why: "another client has re-created the object"}
	case o.row.Spec.DeletionPolicy == fleetv1alpha1.LeaveOrphan:
		return planned{act: actOrphan, why: "the row was withdrawn with deletionPolicy Orphan"}
	case o.permission.regressed(o.row.Spec.Grant.Epoch):
		return stop(regression(o, "delete "+describe(o.live)))
	case o.live.GetDeletionTimestamp() != nil:
		return nothing("the object is being deleted")
	case o.heldBack:
		return stop(blocked(fleetv1alpha1.ReasonDeletionsPaused,
			"many rows were deleted at once, and not by the hub: %s stays; if its deletion is meant, set spec.withdrawn of this row to true", describe(o.live)))
	}
	if why := protect.Why(o.live); why != "" {
		return stop(blocked(fleetv1alpha1.ReasonDeleteProtected, "the hub withdrew the row, and %s stays: %s", describe(o.live), why))
	}
	return planned{act: actDelete, why: "the row was withdrawn with deletionPolicy Delete"}
}

// planCreation creates the object, for the first time or again.
func planCreation(o observed) planned {
	if o.noNamespace {
		return stop(blocked(fleetv1alpha1.ReasonNamespaceNotFound,
			"namespace %s does not exist here: create it in this cluster", o.want.object.GetNamespace()))
	}
	p := planned{act: actApply, why: "the object does not exist"}
	if o.line != nil && o.line.Spec.Object.UID != "" {
		p.why, p.drift = "the object was deleted here", true
	}
	line := newLine(o)
	if o.line == nil || !equality.Semantic.DeepEqual(o.line.Spec, line) {
		p.line = &line
	}
	return p
}

// planAdoption takes over an existing object if the row allows it. The line written beforehand has no UID: until the apply has put our
// annotation on the object, it is not ours and is not deleted with the row.
func planAdoption(o observed) planned {
	foreign := func(format string, args ...any) planned {
		return stop(blocked(fleetv1alpha1.ReasonForeignObject, "%s exists here and was not made by this hub: "+format, append([]any{describe(o.live)}, args...)...))
	}
	how := adoption(o.row)
	switch {
	case how == fleetv1alpha1.AdoptNever:
		return foreign("delete or rename one of the two")
	case o.live.GetDeletionTimestamp() != nil:
		return foreign("it is being deleted")
	case o.holder != "":
		return stop(blocked(fleetv1alpha1.ReasonForeignObject,
			"%s was applied for row %s, which has it: place it by one object of the hub only", describe(o.live), o.holder))
	case how == fleetv1alpha1.AdoptIfEqual && len(o.differs) > 0:
		return foreign("it is adopted if it is equal, and differs in %s: make it equal, or choose another adoption", event.Names(o.differs))
	}
	if o.permission.regressed(o.row.Spec.Grant.Epoch) {
		if field := kindOf(o.live.GroupVersionKind()).shrinks(o.want.object, o.live); field != "" {
			return stop(regression(o, "lower "+field))
		}
	}
	p := planned{act: actApply, adopts: true, why: "the object is adopted"}
	if line := newLine(o); o.line == nil || !equality.Semantic.DeepEqual(o.line.Spec, line) {
		p.line = &line
	}
	return p
}

// planApply updates an object that is ours.
func planApply(o observed, now time.Time) planned {
	same := o.line.Spec.AppliedHash == o.want.hash
	if o.permission.regressed(o.row.Spec.Grant.Epoch) {
		if field := kindOf(o.live.GroupVersionKind()).shrinks(o.want.object, o.live); field != "" {
			return stop(regression(o, "lower "+field))
		}
	}
	if wait := o.contention.wait(o.want.hash, now); wait > 0 {
		return planned{
			act: actNothing, why: "wait before the next apply", recheck: wait,
			stopped: &problem{
				phase: fleetv1alpha1.WorkDegraded, reason: reasonContended,
				message: fmt.Sprintf("something in this cluster changes %s after each of %d applies; look at its managedFields and at mutating webhooks",
					describe(o.live), o.contention.count),
			},
		}
	}
	p := planned{act: actApply, why: "the row has changed since the last apply", drift: same}
	if same {
		p.why = "the object was changed here"
	}
	return p
}

// allowed checks that a row doesn't change its object's identity, and that it stays within the limits of the cluster, both those set on the
// hub and those set by the member's own administrator. A change that only lowers numbers of an object of ours passes in any namespace;
// otherwise the hub could never move the object away.
func allowed(o observed) *problem {
	ns := o.want.object.GetNamespace()
	if o.line != nil {
		was, is := o.line.Spec.Object, o.want.object
		if was.Kind != is.GetKind() || was.Name != is.GetName() || was.Namespace != ns {
			return blocked(fleetv1alpha1.ReasonInvalid,
				"the row asks for %s, but was applied as %s %s/%s: the kind and name of a row's object can't change", describe(is), was.Kind, was.Namespace, was.Name)
		}
	}
	if p := closedKind(o); p != nil {
		return p
	}
	lowers := func() bool {
		return o.live != nil && ours(o.line, o.live) && kindOf(o.live.GroupVersionKind()).lowers(o.want.object, o.live)
	}
	if gk := o.want.object.GroupVersionKind().GroupKind(); len(o.permission.kinds) > 0 && !slices.Contains(o.permission.kinds, gk) && !lowers() {
		return blocked(fleetv1alpha1.ReasonKindNotAllowed,
			"kind %s of %s is not in spec.limits.allowedKinds of this cluster's MemberCluster", gk.Kind, groupName(gk.Group))
	}
	why, err := refuses(o)
	if err != nil {
		return blocked(fleetv1alpha1.ReasonInvalid, "the hub's row can't be read: %v", err)
	}
	if why == "" || lowers() {
		return nil
	}
	return blocked(fleetv1alpha1.ReasonNamespaceNotAllowed, "%s", why)
}

// closedKind returns why objects of the row's kind are never placed in this cluster, regardless of what already exists; nil if they may be.
func closedKind(o observed) *problem {
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
	return blocked(fleetv1alpha1.ReasonKindNotAllowed, "%s is not placed: %s", describe(o.want.object), why)
}

// refuses returns why the namespace limits don't allow placing the object, or "".
func refuses(o observed) (string, error) {
	in := targets{named: []string{o.want.object.GetNamespace()}}
	if in.named[0] == "" { // It affects all namespaces.
		in = targets{everywhere: true}
	}
	if of := kindOf(o.want.object.GroupVersionKind()).targets; of != nil {
		var err error
		if in, err = of(o.want.object); err != nil {
			return "", err
		}
	}
	for _, ns := range in.named {
		if why := o.limits.Refuses(ns); why != "" {
			return why, nil
		}
		if len(o.permission.namespaces) > 0 && !slices.Contains(o.permission.namespaces, ns) {
			return fmt.Sprintf("namespace %q is not in spec.limits.allowedNamespaces of this cluster's MemberCluster", ns), nil
		}
	}
	if in.everywhere {
		if len(o.permission.namespaces) > 0 {
			return "spec.limits.allowedNamespaces of this cluster's MemberCluster names namespaces, and the object is in none", nil
		}
		return o.limits.RefusesClusterScoped(), nil
	}
	if !in.any {
		return "", nil
	}
	if len(o.permission.namespaces) > 0 {
		return "spec.limits.allowedNamespaces of this cluster's MemberCluster names namespaces: select these by name, and no others", nil
	}
	return o.limits.RefusesAny(in.excluded), nil
}

func regression(o observed, doing string) *problem {
	return blocked(fleetv1alpha1.ReasonEpochRegression,
		"the hub asks to %s at an epoch lower than %d, which this cluster has seen; raise the hub's epoch if it is the right one",
		doing, o.permission.epoch)
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
	is := kept(line.Spec, want)
	if live.GetGeneration() > 0 && line.Spec.AppliedGeneration == live.GetGeneration() {
		return !metadataDiffers(is, live)
	}
	return len(overlay.Paths(live.Object, is.Object)) == 0
}

// kept returns the wanted object without the fields that the last apply left to others.
func kept(line fleetv1alpha1.AppliedWorkSpec, want *rendered) *unstructured.Unstructured {
	if len(line.Left) == 0 {
		return want.object
	}
	is := want.object.DeepCopy()
	for _, path := range line.Left {
		if names, ok := splitPath(path); ok {
			cutOne(is.Object, names)
		}
	}
	return is
}

// newLine returns the line to write before the object exists; it has no UID.
func newLine(o observed) fleetv1alpha1.AppliedWorkSpec {
	is := o.want.object
	return fleetv1alpha1.AppliedWorkSpec{
		HubUID: o.permission.hubUID,
		Row:    fleetv1alpha1.LedgerRow{Name: o.row.Name, UID: string(o.row.UID), CreatedAt: &o.row.CreationTimestamp},
		Object: fleetv1alpha1.LedgerObject{
			APIVersion: is.GetAPIVersion(), Kind: is.GetKind(), Namespace: is.GetNamespace(), Name: is.GetName(),
		},
		FieldManager: link.AgentManager,
	}
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
