package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// Only the member itself can report that it can't reach its hub. A pull member does so in the conditions of its Membership, which names no hub
// until the cluster is bound. If the cluster is bound to another hub, the Membership is not changed; an event is recorded on it.

// reportFailure reports in the member why an attempt to connect failed.
func (o Options) reportFailure(ctx context.Context, err error) {
	if o.Reader == nil || o.Clock == nil || ctx.Err() != nil || errors.Is(err, link.ErrLeft) {
		return
	}
	membership, terr := getMembership(ctx, o.Reader)
	if terr == nil {
		c := connected(err)
		if bound := boundMembership(membership); bound != nil && !boundByPull(bound, o.Cluster) {
			if o.Events != nil {
				o.Events.Record(bound, refusedEvent(c.Message))
			}
			return
		}
		terr = writeConditions(ctx, o.Member, membership, []metav1.Condition{c}, o.Clock.Now())
	}
	if terr != nil {
		ctrl.LoggerFrom(ctx).Error(terr, "Could not write the conditions of the membership")
	}
}

// boundByPull reports whether the cluster's own agent created this binding under that name. A binding to a hub that connects by itself (Push)
// has no address; its agent doesn't run here.
func boundByPull(m *fleetv1alpha1.Membership, cluster string) bool {
	return m.Spec.Hub.Cluster == cluster && m.Spec.Hub.URL != ""
}

// writeConditions writes conditions of the Membership if they changed. If there is no Membership, it creates one without a hub.
func writeConditions(ctx context.Context, member client.Client, m *fleetv1alpha1.Membership, conditions []metav1.Condition, now time.Time) error {
	if m == nil {
		m = &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
		if err := member.Create(ctx, m); err != nil {
			return fmt.Errorf("create a Membership without a hub: %w", err)
		}
	}
	next := m.DeepCopy()
	for _, c := range conditions {
		c.ObservedGeneration = m.Generation
		next.Status.Conditions = report.SetCondition(next.Status.Conditions, c, now)
	}
	if equality.Semantic.DeepEqual(m.Status, next.Status) {
		return nil
	}
	patch := client.MergeFromWithOptions(m, client.MergeFromWithOptimisticLock{})
	if err := member.Status().Patch(ctx, next, patch, client.FieldOwner(link.AgentManager)); err != nil {
		return fmt.Errorf("write conditions of the Membership: %w", err)
	}
	return nil
}

// contact reports, in a pull member, whether the hub is reachable.
type contact struct {
	link link.Link
	// binding holds the version skew.
	binding *binding
	// lost counts consecutive heartbeats that did not reach the hub.
	lost int
}

// note takes the outcome of a heartbeat. Success is reported at once, a failure only after failureThreshold of them.
func (c *contact) note(ctx context.Context, err error) error {
	if c.link.URL == "" {
		return nil
	}
	if err == nil {
		c.lost = 0
	} else if c.lost++; c.lost < failureThreshold {
		return nil
	}
	mc := &fleetv1alpha1.MemberCluster{}
	if gerr := c.link.Hub.GetCache().Get(ctx, client.ObjectKey{Name: c.link.Cluster}, mc); gerr != nil || !mc.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(gerr) // It is leaving, and the conditions go away with the Membership.
	}
	m, gerr := getMembership(ctx, c.link.Member.GetCache())
	if gerr != nil {
		return gerr
	}
	conditions := []metav1.Condition{connected(err)}
	skew := c.binding.skew()
	known := skew.Reason != ""
	if known {
		conditions = append(conditions, metav1.Condition{
			Type: fleetv1alpha1.ConditionSkewSupported, Status: report.ConditionStatus(skew.Supported), Reason: skew.Reason, Message: skew.Message,
		})
	}
	switch bound := boundMembership(m); {
	case bound != nil && (!boundByPull(bound, c.link.Cluster) || mc.Status.Hub != nil && bound.Spec.Hub.UID != mc.Status.Hub.UID):
		return nil // It is bound to another hub.
	case m == nil && err == nil && (skew.Supported || !known):
		return nil // The binding is about to be created.
	}
	if werr := writeConditions(ctx, c.link.Member.GetClient(), m, conditions, c.link.Clock.Now()); !apierrors.IsConflict(werr) && !apierrors.IsAlreadyExists(werr) {
		return werr
	}
	return nil // The cache is stale; the next heartbeat writes again.
}

// boundMembership returns m if it names a hub, otherwise nil.
func boundMembership(m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
	if m == nil || m.Spec.Hub.UID == "" {
		return nil
	}
	return m
}
