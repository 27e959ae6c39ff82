package cluster

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

// recheckSpent is how often to check whether a cluster that joined has renewed its Lease. Its account is deleted then.
const recheckSpent = 10 * time.Second

// planned is the next step for one MemberCluster.
type planned struct {
	// identity is the UID to write to the spec, or "".
	addFinalizer bool
	identity     string
	// namespace creates the cluster's namespace.
	namespace bool
	// drop are objects to delete, by UID. They are deleted before the objects in ensure are created or repaired.
	drop, ensure []object
	// connect runs the agent of a push member.
	connect bool
	// withdraw are rows that get the leave policy and are deleted.
	withdraw []*fleetv1alpha1.MemberWork
	// forget are rows of a member that no longer reports. Their finalizer is removed.
	forget []*fleetv1alpha1.MemberWork
	// tombstone is the name of the tombstone that stays, or "".
	tombstone string
	// leave deletes the MemberCluster, which then leaves.
	leave bool
	// unanswered says why the member is released without an answer and without a tombstone, or "".
	unanswered string
	// release deletes the namespace and removes the finalizer.
	release bool
	// why is what the step waits for, or empty if it waits for nothing.
	why string
	// recheck is how soon to plan again even if nothing changes; 0 means never.
	recheck time.Duration
}

// plan returns the next step. It never withdraws a row because a member doesn't answer or because an object is missing.
func plan(o observed, now time.Time) planned {
	switch {
	case o.lost:
		return planWithoutEpoch(o)
	case !o.mc.DeletionTimestamp.IsZero():
		return planLeaving(o)
	case !o.mc.Spec.Accepted:
		return planNotAccepted(o)
	default:
		return planMember(o, now)
	}
}

// planWithoutEpoch changes only the permissions of a cluster that is not accepted, and releases no member. A hub that has lost its epoch
// can't distinguish its grants from older ones until an administrator restores it. Connections stay.
func planWithoutEpoch(o observed) planned {
	var drop []object
	if !o.mc.Spec.Accepted {
		drop = planNotAccepted(o).drop // Permissions can be revoked without an epoch.
	}
	return planned{
		drop: drop, connect: o.mc.Spec.Accepted && o.mc.Spec.Mode == fleetv1alpha1.ModePush && mayConnect(o),
		why: fmt.Sprintf("ConfigMap %[1]s/%[2]s is gone, so the hub changes nothing in the fleet; upgrade the chart's release again if namespace %[1]s "+
			"is gone too, then restore the last epoch: kubectl -n %[1]s create configmap %[2]s --from-literal=%[3]s=%[4]d",
			fleetv1alpha1.SystemNamespace, fleetv1alpha1.EpochConfigMap, epochKey, max(o.hub.Epoch, 1)),
	}
}

// planMember plans for an accepted cluster.
func planMember(o observed, now time.Time) planned {
	p := planned{addFinalizer: !slices.Contains(o.mc.Finalizers, keys.FleetLeave), recheck: o.unsteadyFor}
	if terminating(o) {
		p.why = "namespace " + fleetv1alpha1.Namespace(o.mc.Name) + " of an earlier cluster with that name is still being deleted"
		return p
	}
	p.namespace = o.namespace == nil
	want := forMember(o.mc)
	if wantsBootstrap(o) {
		want = append(want, forBootstrap(o.mc.Name)...)
	}
	p.drop, p.ensure = changes(o, want)
	if o.mc.Spec.Mode == fleetv1alpha1.ModePush {
		p.connect = mayConnect(o)
		p.leave = clusterDeleted(o.mc)
		if o.mc.Spec.Identity == nil && o.holder == "" {
			p.identity = o.push.clusterUID
		}
		return p
	}
	if end, ok := certificateEnd(o.mc); ok && end.After(now) {
		p.recheck = timing.Sooner(p.recheck, end.Sub(now))
	}
	if o.spent() && wantsBootstrap(o) {
		p.recheck = timing.Sooner(p.recheck, recheckSpent) // A renewal alone doesn't enqueue the cluster.
	}
	return p
}

// planNotAccepted removes the permissions of a cluster. Its namespace, Lease and rows stay as they are.
func planNotAccepted(o observed) planned {
	var p planned
	for _, candidate := range candidates(o.mc, o.hub) {
		if have := o.have[slotOf(candidate)]; have != nil && slotOf(candidate).kind != "Lease" {
			p.drop = append(p.drop, have)
		}
	}
	return p
}

// planLeaving plans for a cluster whose MemberCluster is being deleted.
func planLeaving(o observed) planned {
	mc := o.mc
	// The deletion timestamp is based on the apiserver's clock.
	left := time.Duration(mc.Spec.Leave.TimeoutSeconds)*time.Second - o.leavingFor
	switch {
	case mc.Spec.Identity == nil:
		return planRelease(o, nil)
	case len(o.rows) == 0 && report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReleased):
		return planRelease(o, nil)
	case o.gone:
		p := planRelease(o, nil)
		p.unanswered = "Cluster API has deleted the cluster"
		return p
	case left <= 0 && clusterDeleted(mc): // Nobody will be back to follow a tombstone.
		p := planRelease(o, nil)
		p.unanswered = "Cluster API is deleting the cluster, and its member did not answer in time"
		return p
	case left <= 0:
		p := planRelease(o, forTombstone(mc, o.hub))
		p.tombstone = fleetv1alpha1.TombstoneName(mc.Spec.Identity.ClusterUID)
		return p
	}
	p := planned{connect: mc.Spec.Accepted && mc.Spec.Mode == fleetv1alpha1.ModePush, recheck: left}
	if mc.Spec.Accepted && o.namespace != nil && !terminating(o) {
		p.drop, p.ensure = changes(o, forMember(mc))
	}
	for _, row := range o.rows {
		granted := row.Spec.Grant.Epoch // 0 counts as the hub's own epoch
		if row.DeletionTimestamp.IsZero() || row.Spec.DeletionPolicy != mc.Spec.Leave.Policy || granted != 0 && granted != o.hub.Epoch {
			p.withdraw = append(p.withdraw, row)
		}
	}
	p.why = fmt.Sprintf("waiting for the member to withdraw all rows (%d) with policy %s", len(o.rows), mc.Spec.Leave.Policy)
	if len(o.rows) == 0 {
		p.why = "waiting for the member to remove its binding"
	}
	if c := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionReleased); c != nil && needsAdministrator(c.Reason) {
		p.why += ": " + event.Truncate(c.Message, maxMessage)
	}
	return p
}

// maxMessage is how many bytes of a member's message the hub repeats at most.
const maxMessage = 1024

// needsAdministrator reports whether a member that has this reason for its condition Released waits until an administrator acts.
func needsAdministrator(reason string) bool {
	return reason == fleetv1alpha1.ReasonDeleteProtected || reason == fleetv1alpha1.ReasonEpochRegression
}

// planRelease deletes everything except stay.
func planRelease(o observed, stay []object) planned {
	p := planned{release: true}
	p.drop, p.ensure = changes(o, stay)
	for _, row := range o.rows {
		if slices.Contains(row.Finalizers, keys.FleetRow) {
			p.forget = append(p.forget, row)
		}
	}
	return p
}

// candidates returns all objects that the hub may keep for a cluster, regardless of its state.
func candidates(mc *fleetv1alpha1.MemberCluster, hub fleetv1alpha1.HubIdentity) []object {
	pull := mc.DeepCopy()
	pull.Spec.Mode = fleetv1alpha1.ModePull
	all := append(forMember(pull), forBootstrap(mc.Name)...)
	if mc.Spec.Identity != nil {
		// The tombstone of a cluster that has joined again must be deleted. Otherwise its agent would follow it.
		all = append(all, forTombstone(pull, hub)...)
	}
	return all
}

// changes compares the existing objects with the desired ones. A binding of another role is in both lists.
func changes(o observed, want []object) (drop, ensure []object) {
	wanted := map[slot]bool{}
	for _, w := range want {
		wanted[slotOf(w)] = true
		have := o.have[slotOf(w)]
		if have != nil && bindingChanged(have, w) {
			drop = append(drop, have)
		}
		if have == nil || !sameContent(have, w) {
			ensure = append(ensure, w)
		}
	}
	for _, candidate := range candidates(o.mc, o.hub) {
		if have := o.have[slotOf(candidate)]; have != nil && !wanted[slotOf(candidate)] {
			drop = append(drop, have)
		}
	}
	return drop, ensure
}

// wantsBootstrap reports whether a join token may be in use. That is the case before the first join, and later while an account exists
// because a user created it again. An account is deleted once its token is used and the member has renewed its Lease since then.
func wantsBootstrap(o observed) bool {
	if o.mc.Spec.Mode == fleetv1alpha1.ModePush {
		return false
	}
	account := o.account()
	if account == nil {
		return o.mc.Spec.Identity == nil
	}
	lease, _ := o.have[slotOf(forMember(o.mc)[0])].(*coordinationv1.Lease)
	return !used(account, lease)
}

// account returns the bootstrap ServiceAccount, or nil.
func (o observed) account() *corev1.ServiceAccount {
	account, _ := o.have[slotOf(forBootstrap(o.mc.Name)[0])].(*corev1.ServiceAccount)
	return account
}

// spent reports whether a request was approved for the existing account.
func (o observed) spent() bool {
	account := o.account()
	return account != nil && account.Annotations[annotationSpent] != ""
}

func terminating(o observed) bool {
	return o.namespace != nil && !o.namespace.DeletionTimestamp.IsZero()
}

// certificateEnd returns when the certificate of a pull member expires, as its agent reports.
func certificateEnd(mc *fleetv1alpha1.MemberCluster) (time.Time, bool) {
	c := mc.Status.Credential
	if c == nil || c.NotAfter == nil {
		return time.Time{}, false
	}
	return c.NotAfter.Time, true
}
