package cluster

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// errNamespaceTaken is reported in the status and doesn't cause a retry.
var errNamespaceTaken = errors.New("the namespace was not created for this MemberCluster")

// applied is the result of a plan.
type applied struct {
	// namespaceTaken: a namespace with that name exists that the hub did not create.
	namespaceTaken bool
	// released: this reconcile removed the finalizer.
	released bool
}

// apply executes a plan. It stops at the first error, because later steps depend on earlier ones. Each step is idempotent.
func (r *reconciler) apply(ctx context.Context, o observed, p planned) (applied, error) {
	var a applied
	mc, err := r.admit(ctx, o, p)
	if err != nil {
		return a, err
	}
	for _, w := range p.withdraw {
		if err := row.Withdraw(ctx, r.client, w, mc.Spec.Leave.Policy, o.hub.Epoch); err != nil {
			return a, err
		}
	}
	if p.namespace {
		if err := r.makeNamespace(ctx, mc); err != nil {
			a.namespaceTaken = errors.Is(err, errNamespaceTaken)
			if a.namespaceTaken {
				return a, nil
			}
			return a, err
		}
	}
	for _, have := range p.drop {
		if err := r.drop(ctx, mc.Name, have); err != nil {
			return a, err
		}
	}
	for _, want := range p.ensure {
		if err := r.ensure(ctx, mc.Name, want); err != nil {
			return a, err
		}
	}
	for _, w := range p.forget {
		if err := r.forget(ctx, w); err != nil {
			return a, err
		}
	}
	if p.identity == "" { // After it is set, the next reconcile removes a tombstone first.
		r.pusher.Set(mc.Name, targetOf(mc, p.connect))
	}
	if p.leave {
		return a, r.leave(ctx, mc)
	}
	if p.release {
		a.released, err = r.release(ctx, o, mc)
	}
	return a, err
}

// admit sets the finalizer and the identity in one write, before anything is created that needs cleanup.
func (r *reconciler) admit(ctx context.Context, o observed, p planned) (*fleetv1alpha1.MemberCluster, error) {
	if !p.addFinalizer && p.identity == "" {
		return o.mc, nil
	}
	mc := o.mc.DeepCopy()
	if p.addFinalizer {
		controllerutil.AddFinalizer(mc, keys.FleetLeave)
	}
	if p.identity != "" {
		mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: p.identity}
	}
	if err := r.client.Patch(ctx, mc, client.MergeFromWithOptions(o.mc, client.MergeFromWithOptimisticLock{})); err != nil {
		return o.mc, fmt.Errorf("set finalizer and identity of member cluster %s: %w", mc.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Admitted member cluster", "cluster", mc.Name)
	return mc, nil
}

// leave deletes a MemberCluster at the resource version that was observed. Its finalizer makes it leave.
func (r *reconciler) leave(ctx context.Context, mc *fleetv1alpha1.MemberCluster) error {
	err := r.client.Delete(ctx, mc, client.Preconditions{UID: &mc.UID, ResourceVersion: &mc.ResourceVersion})
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete member cluster %s: %w", mc.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted member cluster", "cluster", mc.Name, "reason", "Cluster API is deleting the cluster")
	return nil
}

// makeNamespace creates the cluster's namespace. It doesn't use an existing one: somebody else may have roles in it, and it would be deleted
// when the cluster leaves.
func (r *reconciler) makeNamespace(ctx context.Context, mc *fleetv1alpha1.MemberCluster) error {
	cluster := mc.Name
	namespace := &corev1.Namespace{ObjectMeta: objectMeta(cluster, "", fleetv1alpha1.Namespace(cluster))}
	namespace.Annotations = map[string]string{keys.FleetClusterUID: string(mc.UID)}
	err := r.client.Create(ctx, namespace)
	if err == nil {
		ctrl.LoggerFrom(ctx).Info("Created namespace", "cluster", cluster, "namespace", namespace.Name)
		return nil
	}
	if !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create namespace %s: %w", namespace.Name, err)
	}
	if err := r.reader.Get(ctx, client.ObjectKeyFromObject(namespace), namespace); err != nil {
		return fmt.Errorf("get namespace %s: %w", namespace.Name, err)
	}
	if !isNamespaceOf(namespace, mc) {
		return errNamespaceTaken
	}
	return nil // The cache was stale.
}

// ensure creates or repairs one object.
func (r *reconciler) ensure(ctx context.Context, cluster string, want object) error {
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return fmt.Errorf("convert %s: %w", want.GetName(), err)
	}
	u := &unstructured.Unstructured{Object: fields}
	unstructured.RemoveNestedField(u.Object, "metadata", "creationTimestamp")
	if u.GetKind() == "Lease" { // The agent owns its spec.
		unstructured.RemoveNestedField(u.Object, "spec")
	}
	err = r.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), client.FieldOwner(link.HubManager), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("apply %s %s/%s: %w", u.GetKind(), u.GetNamespace(), u.GetName(), err)
	}
	ctrl.LoggerFrom(ctx).Info("Applied object", "cluster", cluster, "kind", u.GetKind(), "namespace", u.GetNamespace(), "name", u.GetName())
	return nil
}

// drop deletes the observed object, but not another object with the same name.
func (r *reconciler) drop(ctx context.Context, cluster string, have object) error {
	s, uid := slotOf(have), have.GetUID()
	err := r.client.Delete(ctx, have, client.Preconditions{UID: &uid})
	if isGone(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("delete %s %s/%s: %w", s.kind, s.namespace, s.name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Deleted object", "cluster", cluster, "kind", s.kind, "namespace", s.namespace, "name", s.name)
	return nil
}

// forget removes the finalizer from a row of a member that will not answer. The row is then deleted with its namespace.
func (r *reconciler) forget(ctx context.Context, live *fleetv1alpha1.MemberWork) error {
	next := live.DeepCopy()
	controllerutil.RemoveFinalizer(next, keys.FleetRow)
	err := r.client.Patch(ctx, next, client.MergeFromWithOptions(live, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("forget row %s/%s: %w", live.Namespace, live.Name, err)
	}
	return nil
}

// release deletes the namespace and removes the MemberCluster's finalizer. It returns false if the finalizer is already gone.
func (r *reconciler) release(ctx context.Context, o observed, mc *fleetv1alpha1.MemberCluster) (bool, error) {
	if ns := o.namespace; ns != nil && ns.DeletionTimestamp.IsZero() {
		if err := r.client.Delete(ctx, ns, client.Preconditions{UID: &ns.UID}); err != nil && !isGone(err) {
			return false, fmt.Errorf("delete namespace %s: %w", ns.Name, err)
		}
	}
	next := mc.DeepCopy()
	if !controllerutil.RemoveFinalizer(next, keys.FleetLeave) {
		return false, nil
	}
	err := r.client.Patch(ctx, next, client.MergeFromWithOptions(mc, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("remove the finalizer of member cluster %s: %w", mc.Name, err)
	}
	ctrl.LoggerFrom(ctx).Info("Released member cluster", "cluster", mc.Name)
	return true, nil
}

// isGone reports whether the object to delete no longer exists. A conflict means that another object has its name.
func isGone(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
