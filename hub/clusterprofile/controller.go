package clusterprofile

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlevent "sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/hub/crd"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/pkg/plan/overlay"
)

// eventForeign is the reason of the event on a MemberCluster whose ClusterProfile belongs to another cluster manager.
const eventForeign = "ForeignClusterProfile"

// Options configures Setup. All fields are required.
type Options struct {
	// Namespace is where ClusterProfiles are written. It must match the chart's roles.
	Namespace string
	Events    event.Recorder
}

// Setup starts the controller in mgr, whose scheme must include MemberClusters and CustomResourceDefinitions.
func Setup(mgr ctrl.Manager, o Options) error {
	r := &reconciler{
		client: mgr.GetClient(), live: mgr.GetAPIReader(), events: o.Events, namespace: o.Namespace,
		wake: make(chan ctrlevent.GenericEvent), profiles: map[string]*unstructured.Unstructured{}, warned: map[string]types.UID{},
	}
	r.watch = crd.Watch[*unstructured.Unstructured]{
		Hub: mgr, CRD: crds, Kind: groupKind(), Versions: versions(), New: newProfile, Namespaces: []string{o.Namespace},
		Served: r.reset, Seen: r.observe, Synced: r.sync,
	}
	err := ctrl.NewControllerManagedBy(mgr).Named("clusterprofile").
		For(&fleetv1alpha1.MemberCluster{}).
		WatchesRawSource(source.Channel(r.wake, &handler.EnqueueRequestForObject{})).
		Complete(r)
	if err == nil {
		err = mgr.Add(r.watch)
	}
	if err != nil {
		return fmt.Errorf("set up cluster profiles: %w", err)
	}
	return nil
}

type reconciler struct {
	client    client.Client
	live      client.Reader
	events    event.Recorder
	namespace string
	watch     crd.Watch[*unstructured.Unstructured]
	// wake takes MemberClusters, of which only the names are read.
	wake chan ctrlevent.GenericEvent

	mu       sync.Mutex
	version  string
	synced   bool
	profiles map[string]*unstructured.Unstructured
	// warned are the UIDs of other managers' ClusterProfiles that were already reported, by name.
	warned map[string]types.UID
}

// Reconcile reconciles the ClusterProfile of one MemberCluster.
func (r *reconciler) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	version, profile := r.profile(req.Name)
	if version == "" {
		return ctrl.Result{}, nil // Once all ClusterProfiles are read, everything is enqueued.
	}
	mc := &fleetv1alpha1.MemberCluster{}
	err := r.client.Get(ctx, req.NamespacedName, mc)
	switch {
	case apierrors.IsNotFound(err):
		err = r.withdraw(ctx, req.NamespacedName, profile)
	case err == nil && profile != nil && !isManaged(profile):
		r.warn(mc, profile)
	case err == nil:
		err = r.publish(ctx, mc, version, profile)
	}
	if apierrors.IsConflict(err) { // The cache is stale. Its next event enqueues the cluster again.
		return ctrl.Result{}, nil
	}
	return ctrl.Result{}, err
}

// warn records an event, once for each ClusterProfile of another manager that is in the way.
func (r *reconciler) warn(mc *fleetv1alpha1.MemberCluster, profile *unstructured.Unstructured) {
	r.mu.Lock()
	known := r.warned[mc.Name] == profile.GetUID()
	r.warned[mc.Name] = profile.GetUID()
	r.mu.Unlock()
	if !known {
		r.events.Record(mc, event.Warning(eventForeign, "Publish",
			"ClusterProfile %s/%s belongs to another cluster manager and is left unchanged: delete it to have this cluster published", r.namespace, mc.Name))
	}
}

// publish writes the differences. profile is the cached ClusterProfile, or nil.
func (r *reconciler) publish(ctx context.Context, mc *fleetv1alpha1.MemberCluster, version string, profile *unstructured.Unstructured) error {
	live := profile
	if want := specOf(mc, r.namespace, version); live == nil || len(overlay.Paths(live.Object, want.Object)) > 0 {
		options := []client.ApplyOption{client.FieldOwner(link.HubManager)}
		if live != nil {
			want.SetUID(live.GetUID())
			options = append(options, client.ForceOwnership)
		}
		if err := r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(want), options...); err != nil {
			return fmt.Errorf("apply ClusterProfile %s: %w", mc.Name, err)
		}
		live = want
	}
	status := map[string]any{"status": statusOf(mc)}
	if len(overlay.Paths(live.Object, status)) == 0 {
		return nil
	}
	next := newProfile(version)
	next.SetName(mc.Name)
	next.SetNamespace(r.namespace)
	next.SetUID(live.GetUID())
	next.Object["status"] = status["status"]
	err := r.client.Status().Apply(ctx, client.ApplyConfigurationFromUnstructured(next), client.FieldOwner(link.HubManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply the status of ClusterProfile %s: %w", mc.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Published a cluster", "cluster", mc.Name)
	return nil
}

// withdraw deletes the ClusterProfile of a MemberCluster that doesn't exist. It asks the apiserver, since a cache is no proof.
func (r *reconciler) withdraw(ctx context.Context, key client.ObjectKey, profile *unstructured.Unstructured) error {
	if profile == nil || !isManaged(profile) {
		return nil
	}
	err := r.live.Get(ctx, key, &fleetv1alpha1.MemberCluster{})
	if err == nil {
		return nil // The event of the MemberCluster enqueues it.
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("get member cluster %s: %w", key.Name, err)
	}
	if err := r.client.Delete(ctx, profile, client.Preconditions{UID: new(profile.GetUID())}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete ClusterProfile %s: %w", key.Name, err)
	}
	return nil
}

// profile returns the version to write and the ClusterProfile with that name. The version is "" until all ClusterProfiles are read.
func (r *reconciler) profile(name string) (version string, profile *unstructured.Unstructured) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.synced {
		return "", nil
	}
	return r.version, r.profiles[name]
}

// reset forgets all ClusterProfiles, because they are read in a different version from now on.
func (r *reconciler) reset(_ context.Context, version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version, r.synced = version, false
	clear(r.profiles)
	clear(r.warned)
}

// observe stores a ClusterProfile.
func (r *reconciler) observe(ctx context.Context, profile *unstructured.Unstructured, exists bool) {
	name := profile.GetName()
	r.mu.Lock()
	if exists {
		r.profiles[name] = profile
	} else {
		delete(r.profiles, name)
	}
	synced := r.synced
	r.mu.Unlock()
	if synced {
		r.enqueue(ctx, name)
	}
}

// sync enqueues all clusters, and the names of ClusterProfiles without a MemberCluster.
func (r *reconciler) sync(ctx context.Context) {
	clusters := &fleetv1alpha1.MemberClusterList{}
	if err := r.client.List(ctx, clusters, client.UnsafeDisableDeepCopy); err != nil { // Only when the manager stops.
		ctrl.LoggerFrom(ctx).Error(err, "Could not list member clusters")
		return
	}
	names := map[string]bool{}
	for i := range clusters.Items {
		names[clusters.Items[i].Name] = true
	}
	r.mu.Lock()
	r.synced = true
	for name := range r.profiles {
		names[name] = true
	}
	r.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(names)) {
		r.enqueue(ctx, name)
	}
}

func (r *reconciler) enqueue(ctx context.Context, name string) {
	select {
	case r.wake <- ctrlevent.GenericEvent{Object: &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}}:
	case <-ctx.Done():
	}
}
