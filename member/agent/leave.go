package agent

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/link"
)

// leaver ends a membership: in order, while the hub waits; or by a tombstone, when this cluster was away meanwhile.
type leaver struct {
	link       link.Link
	clusterUID string
	ledger     *ledger
	hands      hands
	// released is set once the claim was dropped: what the hub then takes away (rights, objects) means that it is done.
	released *atomic.Bool
	// left ends the agent.
	left func()
}

// release works off a leaving cluster and drops the claim once no row and no line is left. It tells whether it did.
// Rows are withdrawn by the hub and worked off by their controller; a line without a row is withdrawn here by the
// cluster's policy.
func (l leaver) release(ctx context.Context, mc *fleetv1alpha1.MemberCluster, membership *fleetv1alpha1.Membership, v view) (bool, error) {
	list := &fleetv1alpha1.MemberWorkList{}
	if err := l.link.Hub.GetAPIReader().List(ctx, list, client.InNamespace(l.link.Namespace()), client.Limit(1)); err != nil {
		return false, fmt.Errorf("list rows before the claim is dropped: %w", err)
	}
	if len(list.Items) > 0 {
		return false, nil
	}
	policy := mc.Spec.Leave.Policy
	if policy == fleetv1alpha1.LeaveDelete && v.regressed(0) {
		return false, nil // A restored hub deletes nothing.
	}
	if gone, err := l.clear(ctx, v.hubUID, policy); !gone || err != nil {
		return false, err
	}
	return true, l.drop(ctx, membership)
}

// clear withdraws all lines of a hub and tells whether none is left.
func (l leaver) clear(ctx context.Context, hubUID string, policy fleetv1alpha1.LeavePolicy) (bool, error) {
	all := true
	for _, line := range l.ledger.of(hubUID) {
		gone, err := l.hands.withdrawLine(ctx, line, policy)
		if err != nil {
			return false, err
		}
		all = all && gone
	}
	return all, nil
}

// drop deletes the claim, if there is one.
func (l leaver) drop(ctx context.Context, membership *fleetv1alpha1.Membership) error {
	if membership == nil {
		l.released.Store(true)
		return nil
	}
	uid := membership.UID
	err := l.hands.client.Delete(ctx, membership, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("drop the claim: %w", err)
	}
	l.released.Store(true)
	ctrl.LoggerFrom(ctx).Info("Dropped claim", "cluster", l.link.Cluster)
	return nil
}

// check finds out whether this cluster has left, after the hub refused the agent something that it may do while it is a
// member. It ends the agent if so. That the MemberCluster can't be read proves nothing by itself: without a tombstone
// nothing is done.
func (l leaver) check(ctx context.Context) error {
	err := l.link.Hub.GetAPIReader().Get(ctx, client.ObjectKey{Name: l.link.Cluster}, &fleetv1alpha1.MemberCluster{})
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return fmt.Errorf("get member cluster %s: %w", l.link.Cluster, err)
	}
	if !l.released.Load() {
		if done, terr := l.tombstone(ctx); !done || terr != nil {
			return terr
		}
	}
	l.left()
	return nil
}

// errGoing says that objects are still on their way out.
var errGoing = errors.New("the tombstone is gone, or objects that it withdraws are not gone yet")

// obey works off the tombstone of a cluster that the hub runs this agent for. It ends with link.ErrLeft when nothing is
// left; after another error the caller may try again.
func (l leaver) obey(ctx context.Context) error {
	switch done, err := l.tombstone(ctx); {
	case err != nil:
		return err
	case !done:
		return errGoing
	default:
		return link.ErrLeft
	}
}

// tombstone obeys what the hub left for a cluster that was away while it left. It tells whether that is done.
func (l leaver) tombstone(ctx context.Context) (bool, error) {
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
	policy, err := readTombstone(cm.Data, l.link.Cluster, claimOf(membership))
	if err != nil {
		return false, err
	}
	gone, err := l.clear(ctx, cm.Data[link.TombstoneHubUID], policy)
	if !gone || err != nil {
		return false, err
	}
	return true, l.drop(ctx, membership)
}

// readTombstone checks that a tombstone is about this membership (nil: the claim was dropped already) and returns its
// policy.
func readTombstone(data map[string]string, cluster string, membership *fleetv1alpha1.Membership) (fleetv1alpha1.LeavePolicy, error) {
	if data[link.TombstoneCluster] != cluster {
		return "", fmt.Errorf("the tombstone is for cluster %q and not for %q: it is not obeyed", data[link.TombstoneCluster], cluster)
	}
	if membership != nil && membership.Spec.Hub.UID != data[link.TombstoneHubUID] {
		return "", fmt.Errorf("the tombstone is of hub %q and the claim of hub %q: it is not obeyed", data[link.TombstoneHubUID], membership.Spec.Hub.UID)
	}
	if membership != nil && membership.Spec.Hub.Cluster != cluster {
		return "", fmt.Errorf("the tombstone is for cluster %q and the claim for %q: it is not obeyed", cluster, membership.Spec.Hub.Cluster)
	}
	switch policy := fleetv1alpha1.LeavePolicy(data[link.TombstonePolicy]); policy {
	case fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete:
		return policy, nil
	default:
		return "", fmt.Errorf("the tombstone has policy %q, which this agent does not know: it is not obeyed", policy)
	}
}
