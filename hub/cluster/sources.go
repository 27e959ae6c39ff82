package cluster

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// byLabel maps what the hub keeps for a cluster to that cluster.
func byLabel(_ context.Context, o client.Object) []reconcile.Request {
	cluster := o.GetLabels()[keys.FleetCluster]
	if cluster == "" || cluster == hubOwner {
		return nil
	}
	return []reconcile.Request{request(cluster)}
}

// byRequest maps a certificate request to the cluster whose name it has.
func byRequest(_ context.Context, o client.Object) []reconcile.Request {
	cluster, ok := strings.CutPrefix(o.GetName(), requestPrefix)
	if !ok {
		return nil
	}
	return []reconcile.Request{request(cluster)}
}

// byEpoch maps the epoch to all clusters: each is told.
func (r *reconciler) byEpoch(ctx context.Context, _ client.Object) []reconcile.Request {
	all := &fleetv1alpha1.MemberClusterList{}
	if err := r.client.List(ctx, all, client.UnsafeDisableDeepCopy); err != nil {
		return nil // only before the cache has started; then all clusters are looked at anyway
	}
	requests := make([]reconcile.Request, 0, len(all.Items))
	for i := range all.Items {
		requests = append(requests, request(all.Items[i].Name))
	}
	return requests
}

// gathered wakes the controller some time after a change of a row, once for all changes in between.
type gathered struct{ pause time.Duration }

// Create counts a new row.
func (g gathered) Create(_ context.Context, e event.CreateEvent, q queue) { g.add(e.Object, q) }

// Update counts a changed row.
func (g gathered) Update(_ context.Context, e event.UpdateEvent, q queue) { g.add(e.ObjectNew, q) }

// Delete counts a row that is gone.
func (g gathered) Delete(_ context.Context, e event.DeleteEvent, q queue) { g.add(e.Object, q) }

// Generic does not happen.
func (g gathered) Generic(context.Context, event.GenericEvent, queue) {}

func (g gathered) add(o client.Object, q queue) {
	if cluster, ok := strings.CutPrefix(o.GetNamespace(), fleetv1alpha1.Namespace("")); ok {
		q.AddAfter(request(cluster), g.pause)
	}
}

// firstEpoch makes the ConfigMap with the hub's epoch where there is none, once when the leader starts. A hub whose
// ConfigMap was lost goes on with the highest epoch that it told a member; a new hub begins with 1.
type firstEpoch struct {
	client client.Client
	reader client.Reader
}

// NeedLeaderElection says that only the leader writes.
func (f *firstEpoch) NeedLeaderElection() bool { return true }

// Start makes the ConfigMap and returns.
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
	epoch := int64(1)
	for i := range all.Items {
		if told := all.Items[i].Status.Hub; told != nil {
			epoch = max(epoch, told.Epoch)
		}
	}
	stored = &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Namespace: key.Namespace},
		Data:       map[string]string{epochKey: strconv.FormatInt(epoch, 10)},
	}
	if err := f.client.Create(ctx, stored); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create ConfigMap %s: %w", key, err)
	}
	return nil
}
