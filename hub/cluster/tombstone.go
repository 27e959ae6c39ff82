package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Keys of a push member's tombstone, in addition to those in package link. They say how to connect to the member when its MemberCluster is
// isGone. The credential itself stays in its Secret.
const (
	stoneMode            = "mode"
	stoneIdentity        = "clusterUID"
	stoneSecretNamespace = "kubeconfigSecretNamespace"
	stoneSecretName      = "kubeconfigSecretName"
	stoneSecretKey       = "kubeconfigSecretKey"
	stoneQPS             = "qps"
	stoneBurst           = "burst"
)

// writeAccess writes how to connect to the member to a tombstone.
func writeAccess(data map[string]string, mc *fleetv1alpha1.MemberCluster) {
	t := targetOf(mc, true)
	if t == nil {
		return
	}
	data[stoneMode] = string(fleetv1alpha1.ModePush)
	data[stoneIdentity] = t.identity
	data[stoneSecretNamespace], data[stoneSecretName], data[stoneSecretKey] = t.secret.Namespace, t.secret.Name, t.secret.Key
	data[stoneQPS], data[stoneBurst] = strconv.Itoa(int(t.qps)), strconv.Itoa(int(t.burst))
}

// readAccess returns how to connect to the member of a tombstone. It returns nil for a tombstone of a pull member or of another hub.
func readAccess(stone *corev1.ConfigMap, hubUID string) *target {
	data := stone.Data
	if data[stoneMode] != string(fleetv1alpha1.ModePush) || data[link.TombstoneHubUID] != hubUID ||
		stone.Name != fleetv1alpha1.TombstoneName(data[stoneIdentity]) || !stone.DeletionTimestamp.IsZero() {
		return nil
	}
	return &target{
		cluster: data[link.TombstoneCluster],
		secret: fleetv1alpha1.SecretKeyRef{
			Namespace: data[stoneSecretNamespace], Name: data[stoneSecretName], Key: data[stoneSecretKey],
		},
		qps: number(data[stoneQPS]), burst: number(data[stoneBurst]),
		identity: data[stoneIdentity], tombstone: stone.UID,
	}
}

// number parses a limit. An invalid one counts as 0, the default.
func number(text string) int32 {
	n, err := strconv.ParseInt(text, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// tombstones is the controller for tombstones. It keeps the hub's epoch in them: as for rows, what the hub asks for counts again once an
// administrator has raised the epoch. The hub runs the agent of a push member until it has followed its tombstone, and then deletes the
// tombstone.
type tombstones struct {
	client client.Client
	events event.Recorder
	pusher *pusher
	hubUID string
}

// Reconcile reconciles one tombstone.
func (s *tombstones) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	stone := &corev1.ConfigMap{}
	err := s.client.Get(ctx, client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: req.Name}, stone)
	if client.IgnoreNotFound(err) != nil {
		return ctrl.Result{}, fmt.Errorf("get tombstone %s: %w", req.Name, err)
	}
	if err == nil {
		if err := s.updateEpoch(ctx, stone); err != nil {
			return ctrl.Result{}, client.IgnoreNotFound(err)
		}
	}
	t := readAccess(stone, s.hubUID)
	if t == nil {
		s.pusher.Set(req.Name, nil)
		return ctrl.Result{}, nil
	}
	state := s.pusher.State(req.Name)
	if state.left == t.tombstone {
		return ctrl.Result{}, s.finish(ctx, stone)
	}
	all := &fleetv1alpha1.MemberClusterList{}
	if err := s.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return ctrl.Result{}, fmt.Errorf("list member clusters: %w", err)
	}
	if holder(all.Items, "", t.identity) != "" { // The member is not released yet, or has joined again, which removes the tombstone.
		s.pusher.Set(req.Name, nil)
		return ctrl.Result{}, nil
	}
	s.pusher.Set(req.Name, t)
	switch {
	case state.refused != nil:
		s.events.Record(stone, tombstoneWaits(state.refused.message))
	case state.problem != "":
		s.events.Record(stone, tombstoneWaits(state.problem))
	}
	return ctrl.Result{}, nil
}

// updateEpoch writes the hub's epoch into a tombstone of this hub. Without an epoch the hub changes nothing.
func (s *tombstones) updateEpoch(ctx context.Context, stone *corev1.ConfigMap) error {
	epoch, found, err := readEpoch(ctx, s.client)
	if err != nil || !found || stone.Data[link.TombstoneHubUID] != s.hubUID || !stone.DeletionTimestamp.IsZero() ||
		stone.Data[link.TombstoneEpoch] == formatEpoch(epoch) {
		return err
	}
	next := stone.DeepCopy()
	next.Data[link.TombstoneEpoch] = formatEpoch(epoch)
	patch := client.MergeFromWithOptions(stone, client.MergeFromWithOptimisticLock{})
	if err := s.client.Patch(ctx, next, patch, client.FieldOwner(link.HubManager)); err != nil {
		return fmt.Errorf("write epoch %d into tombstone %s: %w", epoch, stone.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Wrote epoch into tombstone", "cluster", stone.Data[link.TombstoneCluster], "name", stone.Name, "epoch", epoch)
	return nil
}

// byEpoch maps the epoch to all tombstones.
func (s *tombstones) byEpoch(ctx context.Context) []reconcile.Request {
	all := &corev1.ConfigMapList{}
	if err := s.client.List(ctx, all, client.InNamespace(fleetv1alpha1.SystemNamespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil // This happens only before the cache has started. Its start enqueues all tombstones.
	}
	var requests []reconcile.Request
	for i := range all.Items {
		requests = append(requests, byTombstone(all.Items[i].Name)...)
	}
	return requests
}

// byTombstone returns the request for a ConfigMap if its name is a tombstone name.
func byTombstone(name string) []reconcile.Request {
	if !strings.HasPrefix(name, fleetv1alpha1.TombstoneName("")) {
		return nil
	}
	return []reconcile.Request{request(name)}
}

// finish deletes a tombstone that was followed.
func (s *tombstones) finish(ctx context.Context, stone *corev1.ConfigMap) error {
	if err := s.client.Delete(ctx, stone, client.Preconditions{UID: &stone.UID}); err != nil {
		if isGone(err) {
			return nil
		}
		return fmt.Errorf("delete tombstone %s: %w", stone.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted tombstone", "cluster", stone.Data[link.TombstoneCluster], "name", stone.Name, "reason", "it was followed")
	s.events.Record(stone, tombstoneObeyed(stone.Data[link.TombstoneCluster], stone.Data[link.TombstonePolicy]))
	return nil
}

// setup starts the controller in mgr. sessions is fired with the name of a tombstone.
func (s *tombstones) setup(mgr ctrl.Manager, sessions *trigger) error {
	err := ctrl.NewControllerManagedBy(mgr).Named("tombstone").
		Watches(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(func(ctx context.Context, o client.Object) []reconcile.Request {
			if o.GetName() == fleetv1alpha1.EpochConfigMap {
				return s.byEpoch(ctx)
			}
			return byTombstone(o.GetName())
		})).
		Watches(&fleetv1alpha1.MemberCluster{}, handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
			id := o.(*fleetv1alpha1.MemberCluster).Spec.Identity
			if id == nil {
				return nil
			}
			return byTombstone(fleetv1alpha1.TombstoneName(id.ClusterUID))
		})).
		WatchesRawSource(sessions).
		Complete(s)
	if err != nil {
		return fmt.Errorf("set up tombstones: %w", err)
	}
	return nil
}
