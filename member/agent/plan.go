package agent

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// reasonContended is the reason of a Degraded row whose object is changed back after each of our writes.
const reasonContended = "Contended"

// recheckBlocked is how soon a blocked row is tried again where no watch tells that the way is free.
const recheckBlocked = 15 * time.Second

// The contention guard: the first applies of the same bytes come at once, further ones after a wait that doubles. A row
// that was quiet for long starts anew.
const (
	freeApplies    = 3
	firstWait      = 2 * time.Second
	longestWait    = 5 * time.Minute
	quietForgetful = 2 * longestWait
)

// view is what the claim allows, as the rows see it.
type view struct {
	// act is false where nothing may be done here: not claimed (yet), claimed by another hub, or not accepted.
	act bool
	// leaving: rows are withdrawn only, none is applied.
	leaving bool
	// hubUID is the hub that holds the claim.
	hubUID string
	// epoch is the highest epoch that this member has seen.
	epoch int64
	// hubEpoch is the epoch that the hub says it has.
	hubEpoch int64
	// namespaces are those that objects may be placed in; empty for all.
	namespaces []string
}

// regressed tells whether what is granted at an epoch (0: none stated) comes from before one that was seen here.
func (v view) regressed(granted int64) bool {
	if granted == 0 {
		granted = v.hubEpoch
	}
	return granted < v.epoch
}

// contention counts applies of the same bytes.
type contention struct {
	hash  string
	count int
	last  time.Time
}

// wait is how long the next apply of hash has to wait.
func (c contention) wait(hash string, now time.Time) time.Duration {
	since := now.Sub(c.last)
	if c.hash != hash || c.count < freeApplies || since > quietForgetful {
		return 0
	}
	wait := min(firstWait<<min(c.count-freeApplies, 10), longestWait)
	return max(wait-since, 0)
}

// next is the count after one more apply.
func (c contention) next(hash string, now time.Time) contention {
	if c.hash != hash || now.Sub(c.last) > quietForgetful {
		return contention{hash: hash, count: 1, last: now}
	}
	return contention{hash: hash, count: c.count + 1, last: now}
}

// verdict is why a row can't go on, and the way out.
type verdict struct {
	phase           fleetv1alpha1.WorkPhase
	reason, message string
}

func blocked(reason, format string, args ...any) *verdict {
	return &verdict{phase: fleetv1alpha1.WorkBlocked, reason: reason, message: fmt.Sprintf(format, args...)}
}

// observed is all that a plan for one row is made of. Nobody changes what the pointers lead to.
type observed struct {
	row  *fleetv1alpha1.MemberWork
	view view
	// want is what the row asks for; nil while the row is withdrawn or where refused says why it can't be told.
	want    *rendered
	refused *verdict
	// line is the row's line in the ledger, or nil.
	line *fleetv1alpha1.AppliedWork
	// live is the object in the member, or nil. fresh tells that it was read from the apiserver and not from a cache.
	live  *unstructured.Unstructured
	fresh bool
	// noNamespace tells that the object's namespace does not exist. Only looked for where live is nil.
	noNamespace bool
	contention  contention
}

// act is the one thing that a reconcile does.
type act string

const (
	// actNothing: the row is as it should be, or may not be touched.
	actNothing act = "Nothing"
	// actApply: write the ledger if line is set, apply the object, write the ledger.
	actApply act = "Apply"
	// actDelete: delete the object by UID; then as actForget.
	actDelete act = "Delete"
	// actOrphan: take our marks off the object; then as actForget.
	actOrphan act = "Orphan"
	// actForget: nothing of ours is there; drop the line.
	actForget act = "Forget"
)

// planned is the next step for one row, and why.
type planned struct {
	act act
	// why says it with names and numbers, for the log.
	why string
	// line is to be written to the ledger before the act; nil if it says so already.
	line *fleetv1alpha1.AppliedWorkSpec
	// drift tells that somebody changed what we had applied.
	drift bool
	// stopped is why the row can't go on; nil if it can.
	stopped *verdict
	// withdrawn tells that nothing of a withdrawn row is here, without an act.
	withdrawn bool
	// recheck is when time alone may change the plan; 0 for never.
	recheck time.Duration
}

// atRest tells whether the plan may be believed when it was made on what a cache shows.
func (p planned) atRest() bool { return p.act == actNothing && p.stopped == nil }

func nothing(why string) planned { return planned{act: actNothing, why: why} }

func stop(v *verdict) planned {
	return planned{act: actNothing, why: v.message, stopped: v, recheck: recheckBlocked}
}

// plan says what to do next for a row.
func plan(o observed, now time.Time) planned {
	if !o.view.act {
		return nothing("this cluster is not claimed for the hub")
	}
	if !o.row.DeletionTimestamp.IsZero() {
		return planWithdrawal(o)
	}
	if o.view.leaving {
		return nothing("the cluster is leaving")
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
		return stop(blocked(fleetv1alpha1.ReasonForeignObject,
			"%s exists here and was not made by this hub: delete or rename one of the two", describe(o.live)))
	}
	if o.live.GetDeletionTimestamp() != nil {
		return nothing("the object is being deleted by somebody else and is made again after that")
	}
	if inPlace(o.line, o.want, o.live) {
		return nothing("the object is as asked")
	}
	return planApply(o, now)
}

// planWithdrawal works off a row that the hub deleted.
func planWithdrawal(o observed) planned {
	switch {
	case o.line == nil:
		p := nothing("nothing was applied for this row")
		p.withdrawn = true
		return p
	case o.refused != nil:
		return stop(o.refused)
	case o.live == nil:
		return planned{act: actForget, why: "the object is gone"}
	case !ours(o.line, o.live):
		return planned{act: actForget, why: "the object was made again by somebody else"}
	case o.row.Spec.Deletion == fleetv1alpha1.LeaveOrphan:
		return planned{act: actOrphan, why: "the row was withdrawn with deletion Orphan"}
	case o.view.regressed(o.row.Spec.Grant.Epoch):
		return stop(regression(o, "delete "+describe(o.live)))
	case o.live.GetDeletionTimestamp() != nil:
		return nothing("the object is being deleted")
	default:
		return planned{act: actDelete, why: "the row was withdrawn with deletion Delete"}
	}
}

// planCreation makes the object, for the first time or again.
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
	if o.line == nil || o.line.Spec != line {
		p.line = &line
	}
	return p
}

// planApply changes an object that is ours.
func planApply(o observed, now time.Time) planned {
	same := o.line.Spec.AppliedHash == o.want.hash
	if o.view.regressed(o.row.Spec.Grant.Epoch) {
		if where := scalesIn(o.want.object, o.live); where != "" {
			return stop(regression(o, "lower "+where))
		}
	}
	if wait := o.contention.wait(o.want.hash, now); wait > 0 {
		return planned{
			act: actNothing, why: "waits before the next apply", recheck: wait,
			stopped: &verdict{
				phase: fleetv1alpha1.WorkDegraded, reason: reasonContended,
				message: fmt.Sprintf("something in this cluster changes %s after each of %d applies; look at its managedFields and at mutating webhooks",
					describe(o.live), o.contention.count),
			},
		}
	}
	p := planned{act: actApply, why: "the row asks for something else than was applied last", drift: same}
	if same {
		p.why = "the object was changed here"
	}
	return p
}

// allowed checks the limits of the cluster and that a row stays with its object.
func allowed(o observed) *verdict {
	ns := o.want.object.GetNamespace()
	if len(o.view.namespaces) > 0 && !slices.Contains(o.view.namespaces, ns) {
		return blocked(fleetv1alpha1.ReasonNamespaceNotAllowed,
			"namespace %q is not in spec.limits.allowedNamespaces of this cluster's MemberCluster", ns)
	}
	if o.line == nil {
		return nil
	}
	was, is := o.line.Spec.Object, o.want.object
	if was.Kind != is.GetKind() || was.Name != is.GetName() || was.Namespace != ns {
		return blocked(fleetv1alpha1.ReasonInvalid,
			"the row asks for %s, but was applied as %s %s/%s: a row keeps its object", describe(is), was.Kind, was.Namespace, was.Name)
	}
	return nil
}

func regression(o observed, doing string) *verdict {
	return blocked(fleetv1alpha1.ReasonEpochRegression,
		"the hub asks to %s at an epoch lower than %d, which this cluster has seen; raise the hub's epoch if it is the right one",
		doing, o.view.epoch)
}

// ours tells whether live is the object that the line is about: by UID, or, before the UID was written down, by our mark.
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

// inPlace tells whether live still is what the last apply left, and that was what is wanted. Kinds without a generation
// (ConfigMap) are compared field by field.
func inPlace(line *fleetv1alpha1.AppliedWork, want *rendered, live *unstructured.Unstructured) bool {
	if line == nil || want == nil || line.Spec.Object.UID != string(live.GetUID()) || line.Spec.AppliedHash != want.hash {
		return false
	}
	if live.GetGeneration() == 0 {
		return len(differences(want.object.Object, live.Object)) == 0
	}
	return line.Spec.AppliedGeneration == live.GetGeneration() && !metadataDiffers(want.object, live)
}

// newLine is the line to write before the object exists: it has no UID.
func newLine(o observed) fleetv1alpha1.AppliedWorkSpec {
	is := o.want.object
	return fleetv1alpha1.AppliedWorkSpec{
		HubUID: o.view.hubUID,
		Row:    fleetv1alpha1.LedgerRow{Name: o.row.Name, UID: string(o.row.UID)},
		Object: fleetv1alpha1.LedgerObject{
			APIVersion: is.GetAPIVersion(), Kind: is.GetKind(), Namespace: is.GetNamespace(), Name: is.GetName(),
		},
		FieldManager: link.AgentManager,
	}
}

// appliedLine is the line to write after the apply that left live.
func appliedLine(o observed, live *unstructured.Unstructured) fleetv1alpha1.AppliedWorkSpec {
	line := newLine(o)
	line.Object.UID = string(live.GetUID())
	line.AppliedHash, line.AppliedGeneration, line.RowGeneration = o.want.hash, live.GetGeneration(), o.row.Generation
	return line
}

func describe(o *unstructured.Unstructured) string {
	name := o.GetName()
	if ns := o.GetNamespace(); ns != "" {
		name = ns + "/" + name
	}
	return o.GetKind() + " " + name
}
