package agent

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// leaver removes the binding: at the hub's request, or because of a tombstone after this cluster was away.
type leaver struct {
	link       link.Link
	clusterUID string
	ledger     *ledger
	writer     writer
	// released is set once the binding is removed. If the hub then denies access, this cluster has left.
	released *atomic.Bool
	// stop ends the agent with link.ErrLeft.
	stop func()
}

// remaining is what keeps a cluster from leaving, besides rows and objects that are being withdrawn.
type remaining struct {
	// protected explains, for each object protected by a label, why it stays.
	protected []string
	// seenEpoch is the epoch that the hub must reach before something is deleted; 0 means that there is nothing to delete, or that the hub has
	// reached it.
	seenEpoch int64
}

// release removes the binding of a leaving cluster once no row and no ledger line is left, and reports whether it did. The hub withdraws rows
// and their controller handles them; a line without a row is withdrawn here according to the cluster's policy.
func (l leaver) release(
	ctx context.Context, mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, p permission,
) (released bool, r remaining, err error) {
	as := withdrawal{policy: mc.Spec.Leave.Policy}
	if as.policy == fleetv1alpha1.LeaveDelete && p.epochRegressed(0) { // A restored hub must not delete anything.
		as.deleteNothing, r.seenEpoch = true, p.epoch
	}
	list := &fleetv1alpha1.MemberWorkList{}
	if err := l.link.Hub.GetAPIReader().List(ctx, list, client.InNamespace(l.link.Namespace()), client.Limit(1)); err != nil {
		return false, r, fmt.Errorf("list rows before the binding is removed: %w", err)
	}
	if len(list.Items) > 0 {
		return false, r, nil
	}
	left, err := l.withdrawAll(ctx, membership, p.hubUID, as)
	if r.protected = left.protected; left.lines > 0 || err != nil {
		return false, r, err
	}
	return true, remaining{}, l.deleteMembership(ctx, membership)
}

// withdrawAll withdraws all ledger lines of a hub. If a label protects objects, it records an event on the Membership, if there is one.
func (l leaver) withdrawAll(
	ctx context.Context, membership *fleetv1alpha1.Membership, hubUID string, as withdrawal,
) (leftovers, error) {
	left, err := l.writer.withdrawLines(ctx, l.ledger.linesOf(hubUID), as)
	if len(left.protected) > 0 && membership != nil && l.link.Events != nil {
		l.link.Events.Record(membership, protectedEvent(left.protected))
	}
	return left, err
}

// deleteMembership deletes the Membership, if there is one.
func (l leaver) deleteMembership(ctx context.Context, membership *fleetv1alpha1.Membership) error {
	if membership == nil {
		l.released.Store(true)
		return nil
	}
	uid := membership.UID
	err := l.writer.client.Delete(ctx, membership, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete the membership: %w", err)
	}
	l.released.Store(true)
	ctrl.LoggerFrom(ctx).Info("Removed binding", "cluster", l.link.Cluster)
	return nil
}

// checkLeft finds out whether this cluster has left, after the hub denied the agent something that members may do. If so, it stops the agent.
// A MemberCluster that can't be read proves nothing: without a tombstone nothing is done.
func (l leaver) checkLeft(ctx context.Context) error {
	err := l.link.Hub.GetAPIReader().Get(ctx, client.ObjectKey{Name: l.link.Cluster}, &fleetv1alpha1.MemberCluster{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("get member cluster %s: %w", l.link.Cluster, err)
	}
	if !l.released.Load() {
		if done, terr := l.actOnTombstone(ctx); !done || terr != nil {
			return terr
		}
	}
	l.stop()
	return nil
}

// errNotWithdrawn means that there is no tombstone any more, or that objects are still being deleted.
var errNotWithdrawn = errors.New("the tombstone is gone, or the objects it withdraws haven't been deleted yet")

// followTombstone follows the tombstone of a cluster whose agent the hub runs. It returns link.ErrLeft when nothing is left; after any other
// error the caller may retry.
func (l leaver) followTombstone(ctx context.Context) error {
	switch done, err := l.actOnTombstone(ctx); {
	case err != nil:
		return err
	case !done:
		return errNotWithdrawn
	default:
		return link.ErrLeft
	}
}

// actOnTombstone follows the tombstone of a cluster that was away while it left, a ConfigMap that the hub leaves for its agent, and reports whether
// that is complete.
func (l leaver) actOnTombstone(ctx context.Context) (bool, error) {
	cm := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.TombstoneName(l.clusterUID)}
	err := l.link.Hub.GetAPIReader().Get(ctx, key, cm)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("get tombstone %s: %w", key.Name, err)
	}
	membership, err := getMembership(ctx, l.link.Member.GetAPIReader())
	if err != nil {
		return false, err
	}
	policy, err := readTombstone(cm.Data, l.link.Cluster, boundMembership(membership))
	if err != nil {
		return false, err
	}
	if boundMembership(membership) == nil {
		return true, l.deleteMembership(ctx, membership) // Unbound: the ledger belongs to a binding that was removed by hand.
	}
	as := withdrawal{policy: policy}
	as.deleteNothing = policy == fleetv1alpha1.LeaveDelete && !mayDelete(cm.Data, membership)
	left, err := l.withdrawAll(ctx, membership, cm.Data[link.TombstoneHubUID], as)
	switch {
	case err != nil:
		return false, err
	case as.deleteNothing && left.lines > 0:
		err := &link.EpochError{Seen: membership.Status.Epoch}
		if l.link.Events != nil {
			l.link.Events.Record(membership, staleTombstoneEvent(cm.Name, err))
		}
		return false, fmt.Errorf("not following tombstone %s: %w", cm.Name, err)
	case len(left.protected) > 0:
		return false, errors.New(protectedText(left.protected))
	case left.lines > 0:
		return false, nil
	}
	return true, l.deleteMembership(ctx, membership)
}

// mayDelete reports whether the epoch of a tombstone is as high as the highest one that the member has seen (I20). A tombstone without an
// epoch was left by an older hub, which may have been restored from a backup since.
func mayDelete(data map[string]string, membership *fleetv1alpha1.Membership) bool {
	epoch, err := strconv.ParseInt(data[link.TombstoneEpoch], 10, 64)
	return err == nil && epoch >= membership.Status.Epoch
}

// readTombstone checks that a tombstone is for this membership (nil means that it is already deleted) and returns its policy.
func readTombstone(data map[string]string, cluster string, membership *fleetv1alpha1.Membership) (fleetv1alpha1.LeavePolicy, error) {
	if data[link.TombstoneCluster] != cluster {
		return "", fmt.Errorf("ignoring the tombstone: it is for cluster %q, not for %q", data[link.TombstoneCluster], cluster)
	}
	if membership != nil && membership.Spec.Hub.UID != data[link.TombstoneHubUID] {
		return "", fmt.Errorf("ignoring the tombstone: it belongs to hub %q, but the cluster is bound to hub %q",
			data[link.TombstoneHubUID], membership.Spec.Hub.UID)
	}
	if membership != nil && membership.Spec.Hub.Cluster != cluster {
		return "", fmt.Errorf("ignoring the tombstone: it is for cluster %q, but the cluster is bound as %q", cluster, membership.Spec.Hub.Cluster)
	}
	// A hub that was restored from a backup may have the tombstone of an earlier membership again.
	if membership != nil && membership.Spec.Hub.MemberClusterUID != data[link.TombstoneUID] {
		return "", fmt.Errorf("ignoring the tombstone: it belongs to the MemberCluster with UID %q, but the cluster joined with %q",
			data[link.TombstoneUID], membership.Spec.Hub.MemberClusterUID)
	}
	switch policy := fleetv1alpha1.LeavePolicy(data[link.TombstonePolicy]); policy {
	case fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete:
		return policy, nil
	default:
		return "", fmt.Errorf("ignoring the tombstone: this agent doesn't know its policy %q", policy)
	}
}
