package cluster

import (
	"fmt"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// recheckSpent is how often it is looked whether a member that joined renews its Lease, for its account to go.
const recheckSpent = 10 * time.Second

// plan is the next step for one MemberCluster.
type plan struct {
	// hold sets the finalizer; identity is the UID to write into the spec, or "".
	hold     bool
	identity string
	// namespace makes the cluster's namespace.
	namespace bool
	// drop are objects to delete, by UID, before those of ensure are made or mended.
	drop, ensure []object
	// connect runs the agent of a push member.
	connect bool
	// withdraw are rows that get the leave policy and are deleted.
	withdraw []*fleetv1alpha1.MemberWork
	// forget are rows that nobody will report on any more: their finalizer is taken off.
	forget []*fleetv1alpha1.MemberWork
	// tombstone is the name of the tombstone that stays, or "".
	tombstone string
	// release ends the leaving: the namespace is deleted and the finalizer taken off.
	release bool
	// why says what the step waits for, for people; empty where nothing is waited for.
	why string
	// recheck is when time alone changes the answer; 0 is never.
	recheck time.Duration
}

// next plans one step. It never withdraws a row because a member is silent, and never takes a missing object for a sign.
func next(o observed, now time.Time) plan {
	switch {
	case o.lost:
		return halt(o)
	case !o.mc.DeletionTimestamp.IsZero():
		return leave(o, now)
	case !o.mc.Spec.Accepted:
		return holdOut(o)
	default:
		return keepMember(o, now)
	}
}

// halt is the plan of a hub that does not know any more how far it had come: it changes nothing and lets nobody go until
// an administrator says so. Connections stay.
func halt(o observed) plan {
	return plan{
		connect: o.mc.Spec.Accepted && o.mc.Spec.Mode == fleetv1alpha1.ModePush,
		why: fmt.Sprintf("ConfigMap %[1]s/%[2]s is gone, so the hub changes nothing in the fleet; mend the chart's release if namespace %[1]s "+
			"is gone too, then say how far the hub had come: kubectl -n %[1]s create configmap %[2]s --from-literal=%[3]s=%[4]d",
			fleetv1alpha1.SystemNamespace, fleetv1alpha1.EpochConfigMap, epochKey, max(o.hub.Epoch, 1)),
	}
}

// keepMember is the plan for a cluster that is let in.
func keepMember(o observed, now time.Time) plan {
	p := plan{hold: !slices.Contains(o.mc.Finalizers, keys.FleetLeave)}
	if terminating(o) {
		p.why = "namespace " + fleetv1alpha1.Namespace(o.mc.Name) + " of an earlier cluster of that name is still being deleted"
		return p
	}
	p.namespace = o.namespace == nil
	want := forMember(o.mc)
	if wantsBootstrap(o) {
		want = append(want, forBootstrap(o.mc.Name)...)
	}
	p.drop, p.ensure = settle(o, want)
	if o.mc.Spec.Mode == fleetv1alpha1.ModePush {
		p.connect = true
		if o.mc.Spec.Identity == nil && o.holder == "" {
			p.identity = o.push.clusterUID
		}
		return p
	}
	if end, ok := certificateEnd(o.mc); ok && end.After(now) {
		p.recheck = end.Sub(now)
	}
	if o.spent() && wantsBootstrap(o) && (p.recheck == 0 || p.recheck > recheckSpent) {
		p.recheck = recheckSpent // A renewal alone wakes nobody.
	}
	return p
}

// holdOut is the plan for a cluster that is not accepted: it loses its rights; its namespace, Lease and rows stay as
// they are.
func holdOut(o observed) plan {
	var p plan
	for _, candidate := range candidates(o.mc, o.hub.UID) {
		if have := o.have[slotOf(candidate)]; have != nil && slotOf(candidate).kind != "Lease" {
			p.drop = append(p.drop, have)
		}
	}
	return p
}

// leave is the plan for a cluster whose MemberCluster is being deleted.
func leave(o observed, now time.Time) plan {
	mc := o.mc
	deadline := mc.DeletionTimestamp.Add(time.Duration(mc.Spec.Leave.TimeoutSeconds) * time.Second)
	switch {
	case mc.Spec.Identity == nil:
		return release(o, nil)
	case len(o.rows) == 0 && report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReleased):
		return release(o, nil)
	case !now.Before(deadline):
		p := release(o, forTombstone(mc, o.hub.UID))
		p.tombstone = fleetv1alpha1.TombstoneName(mc.Spec.Identity.ClusterUID)
		return p
	}
	p := plan{connect: mc.Spec.Accepted && mc.Spec.Mode == fleetv1alpha1.ModePush, recheck: deadline.Sub(now)}
	if mc.Spec.Accepted && o.namespace != nil && !terminating(o) {
		p.drop, p.ensure = settle(o, forMember(mc))
	}
	for _, row := range o.rows {
		granted := row.Spec.Grant.Epoch // 0 counts as the hub's own
		if row.DeletionTimestamp.IsZero() || row.Spec.DeletionPolicy != mc.Spec.Leave.Policy || granted != 0 && granted != o.hub.Epoch {
			p.withdraw = append(p.withdraw, row)
		}
	}
	p.why = fmt.Sprintf("waits for the member to let %d rows go with policy %s", len(o.rows), mc.Spec.Leave.Policy)
	if len(o.rows) == 0 {
		p.why = "waits for the member to remove its binding"
	}
	return p
}

// release ends the leaving: all but stay goes.
func release(o observed, stay []object) plan {
	p := plan{release: true}
	p.drop, p.ensure = settle(o, stay)
	for _, row := range o.rows {
		if slices.Contains(row.Finalizers, keys.FleetRow) {
			p.forget = append(p.forget, row)
		}
	}
	return p
}

// candidates are all objects that the hub may keep for a cluster, in any state of it.
func candidates(mc *fleetv1alpha1.MemberCluster, hubUID string) []object {
	pull := mc.DeepCopy()
	pull.Spec.Mode = fleetv1alpha1.ModePull
	all := append(forMember(pull), forBootstrap(mc.Name)...)
	if mc.Spec.Identity != nil {
		// A tombstone of a cluster that has joined again must go: its agent would obey it.
		all = append(all, forTombstone(pull, hubUID)...)
	}
	return all
}

// settle compares what there is with what is wanted. A binding to another role is in both lists.
func settle(o observed, want []object) (drop, ensure []object) {
	wanted := map[slot]bool{}
	for _, w := range want {
		wanted[slotOf(w)] = true
		have := o.have[slotOf(w)]
		if have != nil && rebound(have, w) {
			drop = append(drop, have)
		}
		if have == nil || !same(have, w) {
			ensure = append(ensure, w)
		}
	}
	for _, candidate := range candidates(o.mc, o.hub.UID) {
		if have := o.have[slotOf(candidate)]; have != nil && !wanted[slotOf(candidate)] {
			drop = append(drop, have)
		}
	}
	return drop, ensure
}

// wantsBootstrap tells whether a join token may be in use: before the first join, and later while there is an account
// that somebody made anew. An account goes when its token is spent and the member has renewed its Lease since.
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

// account is the bootstrap ServiceAccount, or nil.
func (o observed) account() *corev1.ServiceAccount {
	account, _ := o.have[slotOf(forBootstrap(o.mc.Name)[0])].(*corev1.ServiceAccount)
	return account
}

// spent tells whether a request was approved for the account that there is.
func (o observed) spent() bool {
	account := o.account()
	return account != nil && account.Annotations[annotationSpent] != ""
}

func terminating(o observed) bool {
	return o.namespace != nil && !o.namespace.DeletionTimestamp.IsZero()
}

// certificateEnd is when the certificate of a pull member ends, as its agent reports it.
func certificateEnd(mc *fleetv1alpha1.MemberCluster) (time.Time, bool) {
	c := mc.Status.Credential
	if c == nil || c.NotAfter == nil {
		return time.Time{}, false
	}
	return c.NotAfter.Time, true
}
