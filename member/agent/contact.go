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

// Where a member can't reach its hub, it alone can tell. A pull member does so in the conditions of its Membership. While
// no hub has come that one has no claim in it; the claim of another hub is left as it is, and an event on it tells.

// tell says in the member why an attempt to connect has failed.
func (o Options) tell(ctx context.Context, err error) {
	if o.Reader == nil || o.Clock == nil || ctx.Err() != nil || errors.Is(err, link.ErrLeft) {
		return
	}
	membership, terr := getMembership(ctx, o.Reader)
	if terr == nil {
		c := connected(err)
		if claim := claimOf(membership); claim != nil && !ownClaim(claim, o.Cluster) {
			if o.Events != nil {
				o.Events.Record(claim, refusedEvent(c.Message))
			}
			return
		}
		terr = show(ctx, o.Member, membership, []metav1.Condition{c}, o.Clock.Now())
	}
	if terr != nil {
		ctrl.LoggerFrom(ctx).Error(terr, "Could not tell of the connection")
	}
}

// ownClaim tells whether a claim is that of a hub which this cluster's own agent calls by that name. A hub that dials
// (Push) has no address in its claim; its agent is not here.
func ownClaim(claim *fleetv1alpha1.Membership, cluster string) bool {
	return claim.Spec.Hub.Cluster == cluster && claim.Spec.Hub.URL != ""
}

// show puts conditions into the Membership; where there is none it makes one that nobody claims. It writes only what
// differs.
func show(ctx context.Context, member client.Client, m *fleetv1alpha1.Membership, conditions []metav1.Condition, now time.Time) error {
	if m == nil {
		m = &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
		if err := member.Create(ctx, m); err != nil {
			return fmt.Errorf("make a Membership without a claim: %w", err)
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

// contact tells in a pull member how its running connection fares.
type contact struct {
	link link.Link
	// claim has the verdict on versions.
	claim *claimed
	// lost counts beats in a row that did not reach the hub.
	lost int
}

// note takes the outcome of a beat. A hub that answers is told at once, one that does not after a second beat.
func (c *contact) note(ctx context.Context, err error) error {
	if c.link.URL == "" {
		return nil
	}
	if err == nil {
		c.lost = 0
	} else if c.lost++; c.lost < failuresToTell {
		return nil
	}
	mc := &fleetv1alpha1.MemberCluster{}
	if gerr := c.link.Hub.GetCache().Get(ctx, client.ObjectKey{Name: c.link.Cluster}, mc); gerr != nil || !mc.DeletionTimestamp.IsZero() {
		return client.IgnoreNotFound(gerr) // It leaves: what is told goes with the claim.
	}
	m, gerr := getMembership(ctx, c.link.Member.GetCache())
	if gerr != nil {
		return gerr
	}
	conditions := []metav1.Condition{connected(err)}
	verdict := c.claim.skew()
	judged := verdict.Reason != ""
	if judged {
		conditions = append(conditions, metav1.Condition{
			Type: fleetv1alpha1.ConditionSkewSupported, Status: report.ConditionStatus(verdict.Supported), Reason: verdict.Reason, Message: verdict.Message,
		})
	}
	switch claim := claimOf(m); {
	case claim != nil && (!ownClaim(claim, c.link.Cluster) || mc.Status.Hub != nil && claim.Spec.Hub.UID != mc.Status.Hub.UID):
		return nil // The claim of another hub.
	case m == nil && err == nil && (verdict.Supported || !judged):
		return nil // The claim is about to be made.
	}
	if werr := show(ctx, c.link.Member.GetClient(), m, conditions, c.link.Clock.Now()); !apierrors.IsConflict(werr) && !apierrors.IsAlreadyExists(werr) {
		return werr
	}
	return nil // The cache is behind: the next beat looks again.
}

// claimOf is m where a hub has claimed this cluster by it, and nil where none has.
func claimOf(m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
	if m == nil || m.Spec.Hub.UID == "" {
		return nil
	}
	return m
}
