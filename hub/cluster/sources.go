package cluster

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// byLabel maps an object that the hub keeps for a cluster to that cluster.
func byLabel(_ context.Context, o client.Object) []reconcile.Request {
	cluster := o.GetLabels()[keys.FleetCluster]
	if cluster == "" || cluster == hubOwner {
		return nil
	}
	return []reconcile.Request{request(cluster)}
}

// byRequest maps a certificate request to the cluster in its name.
func byRequest(_ context.Context, o client.Object) []reconcile.Request {
	cluster, ok := strings.CutPrefix(o.GetName(), requestPrefix)
	if !ok {
		return nil
	}
	return []reconcile.Request{request(cluster)}
}

// byEpoch maps the epoch to all clusters, because the status of each cluster contains it.
func (r *reconciler) byEpoch(ctx context.Context, _ client.Object) []reconcile.Request {
	all := &fleetv1alpha1.MemberClusterList{}
	if err := r.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // This happens only before the cache has started. Its start enqueues all clusters.
	}
	requests := make([]reconcile.Request, 0, len(all.Items))
	for i := range all.Items {
		requests = append(requests, request(all.Items[i].Name))
	}
	return requests
}

// gathered enqueues a cluster some time after a row changed, once for all changes in between.
type gathered struct{ pause time.Duration }

// Create handles a new row.
func (g gathered) Create(_ context.Context, e event.CreateEvent, q queue) { g.add(e.Object, q) }

// Update handles a changed row.
func (g gathered) Update(_ context.Context, e event.UpdateEvent, q queue) { g.add(e.ObjectNew, q) }

// Delete handles a row that is gone.
func (g gathered) Delete(_ context.Context, e event.DeleteEvent, q queue) { g.add(e.Object, q) }

// Generic is never called.
func (g gathered) Generic(context.Context, event.GenericEvent, queue) {}

func (g gathered) add(o client.Object, q queue) {
	if cluster, ok := strings.CutPrefix(o.GetNamespace(), fleetv1alpha1.Namespace("")); ok {
		q.AddAfter(request(cluster), g.pause)
	}
}

// firstEpoch creates the ConfigMap with the epoch of a new hub when the leader starts. If the hub has published an epoch before, it creates
// none: an administrator has to restore it.
type firstEpoch struct {
	client client.Client
	reader client.Reader
}

// NeedLeaderElection returns true: only the leader writes.
func (f *firstEpoch) NeedLeaderElection() bool { return true }

// Start creates the ConfigMap and returns.
func (f *firstEpoch) Start(ctx context.Context) error {
	stored := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.EpochConfigMap}
	err := f.reader.Get(ctx, key, stored)
	if err == nil {
		return nil
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get ConfigMap %s: %w", key, err)
	}
	all := &fleetv1alpha1.MemberClusterList{}
	if err := f.reader.List(ctx, all); err != nil {
		return fmt.Errorf("list member clusters: %w", err)
	}
	for i := range all.Items {
		if published := all.Items[i].Status.Hub; published != nil {
			ctrl.LoggerFrom(ctx).Error(nil, "Lost the hub's epoch: nothing is changed until an administrator restores it",
				"namespace", key.Namespace, "name", key.Name, "cluster", all.Items[i].Name, "epoch", published.Epoch)
			return nil
		}
	}
	stored = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
		Data:       map[string]string{epochKey: "1"},
	}
	if err := f.client.Create(ctx, stored); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ConfigMap %s: %w", key, err)
	}
	return nil
}
