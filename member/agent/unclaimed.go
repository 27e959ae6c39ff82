package agent

import (
	"context"
	"fmt"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// A ledger line without a row is unclaimed. Either the member was restored from a backup with objects that the hub has withdrawn since, or the
// hub was restored, or somebody removed the row by force. The agent counts such lines and reports them. Absence does not prove a withdrawal,
// so their objects stay until an administrator of the member decides.

// handleUnclaimed returns how many ledger lines are unclaimed, after withdrawing them if the Membership says so. No watch reports when the
// remaining ones can go, so recheck is when to try again.
func (b *bindingReconciler) handleUnclaimed(ctx context.Context, membership *fleetv1alpha1.Membership) (count int, recheck time.Duration, err error) {
	lines, err := b.unclaimedLines(ctx, membership.Spec.Hub.UID)
	if err != nil {
		return 0, 0, err
	}
	decision, decided := membership.Annotations[link.AnnotationUnclaimed]
	policy := fleetv1alpha1.LeavePolicy(decision)
	switch {
	case decided && policy != fleetv1alpha1.LeaveOrphan && policy != fleetv1alpha1.LeaveDelete:
		b.link.Events.Record(membership, invalidDecisionEvent(decision))
	case decided:
		left, err := b.leave.writer.withdrawLines(ctx, lines, withdrawal{policy: policy})
		if err != nil {
			return len(lines), 0, err
		}
		if len(left.protected) > 0 {
			b.link.Events.Record(membership, protectedEvent(left.protected))
		}
		if left.lines > 0 {
			unclaimedObjects.WithLabelValues(b.link.Cluster).Set(float64(left.lines))
			return left.lines, recheckBlocked, nil
		}
		return 0, 0, b.clearDecision(ctx, membership)
	}
	unclaimedObjects.WithLabelValues(b.link.Cluster).Set(float64(len(lines)))
	if len(lines) > 0 && len(lines) != b.unclaimedLast {
		b.link.Events.Record(membership, unclaimedEvent(lines))
	}
	b.unclaimedLast = len(lines)
	return len(lines), 0, nil
}

// unclaimedLines returns the lines of a hub that have no row. Absence from the cache is confirmed by the apiserver.
func (b *bindingReconciler) unclaimedLines(ctx context.Context, hubUID string) ([]*fleetv1alpha1.AppliedWork, error) {
	lines := b.leave.ledger.linesOf(hubUID)
	for _, reader := range []client.Reader{b.link.Hub.GetCache(), b.link.Hub.GetAPIReader()} {
		if len(lines) == 0 {
			return nil, nil
		}
		rows := &fleetv1alpha1.MemberWorkList{}
		if err := reader.List(ctx, rows, client.InNamespace(b.link.Namespace())); err != nil {
			return nil, fmt.Errorf("list rows: %w", err)
		}
		claimed := make(map[string]bool, len(rows.Items))
		for i := range rows.Items {
			claimed[rows.Items[i].Name] = true
		}
		var left []*fleetv1alpha1.AppliedWork
		for _, line := range lines {
			if !claimed[line.Name] {
				left = append(left, line)
			}
		}
		lines = left
	}
	return lines, nil
}

// clearDecision removes the decision, so that it does not apply to objects that become unclaimed later.
func (b *bindingReconciler) clearDecision(ctx context.Context, membership *fleetv1alpha1.Membership) error {
	next := membership.DeepCopy()
	delete(next.Annotations, link.AnnotationUnclaimed)
	if err := b.link.Member.GetClient().Update(ctx, next); err != nil {
		return fmt.Errorf("remove annotation %s of Membership %s: %w", link.AnnotationUnclaimed, membership.Name, err)
	}
	unclaimedObjects.WithLabelValues(b.link.Cluster).Set(0)
	b.unclaimedLast = 0
	ctrl.LoggerFrom(ctx).Info("Withdrew unclaimed objects", "cluster", b.link.Cluster)
	return nil
}
