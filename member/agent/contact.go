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
	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Only the member itself can report that it can't reach its hub. A pull member does so in the conditions of its Membership, which names no hub
// until the cluster is bound. If the cluster is bound to another hub, the Membership is not changed; an event is recorded on it.

// reportFailure reports in the member why an attempt to connect failed.
func (p *puller) reportFailure(ctx context.Context, err error) {
	if ctx.Err() != nil || errors.Is(err, link.ErrLeft) {
		return
	}
	membership, writeErr := getMembership(ctx, p.member)
	if writeErr == nil {
		c := connectedCondition(err)
		if bound := boundMembership(membership); bound != nil && !boundByPull(bound, p.options.Cluster) {
			p.events.Record(bound, refusedEvent(c.Message))
			return
		}
		writeErr = writeConditions(ctx, p.member, membership, []metav1.Condition{c}, p.options.Clock.Now())
	}
	if writeErr != nil {
		ctrl.LoggerFrom(ctx).Error(writeErr, "Failed to write the conditions of the Membership")
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

// note takes the outcome of a heartbeat. Success is reported at once, failure only after failureThreshold in a row.
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
	conditions := []metav1.Condition{connectedCondition(err)}
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
	werr := writeConditions(ctx, c.link.Member.GetClient(), m, conditions, c.link.Clock.Now())
	if apierrors.IsConflict(werr) || apierrors.IsAlreadyExists(werr) {
		return nil // The cache is stale; the next heartbeat writes again.
	}
	return werr
}

// boundMembership returns m if it names a hub, otherwise nil.
func boundMembership(m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
	if m == nil || m.Spec.Hub.UID == "" {
		return nil
	}
	return m
}

// connectedCondition returns the condition for the outcome of an attempt to reach the hub.
func connectedCondition(err error) metav1.Condition {
	c := metav1.Condition{
		Type: fleetv1alpha1.ConditionConnected, Status: report.ConditionStatus(err == nil), Reason: ReasonConnected, Message: "the hub answers",
	}
	var explained *connect.Error
	switch {
	case err == nil:
	case errors.As(err, &explained):
		c.Reason, c.Message = explained.Reason, explained.Message
	default: // The text of err may differ between attempts.
		c.Reason, c.Message = reasonConnectFailed, "the connection failed; see the log of flotilla-member"
	}
	return c
}
