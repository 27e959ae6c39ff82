package statefulset

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	set *appsv1beta1.StatefulSet
	// wanted is the revision of the set's template, without a number.
	wanted *appsv1.ControllerRevision
	// history and pods are controlled by the set. history is in the order of revision.Sort.
	history []*appsv1.ControllerRevision
	pods    []*corev1.Pod
	// pvcs are the PVCs whose names belong to the set, by name.
	pvcs map[string]*corev1.PersistentVolumeClaim
	// classes maps the names of storage classes to whether they allow resizing. It contains only the classes that matter.
	classes map[string]bool
	// overlap has the pods that the selector matches but the set does not control.
	overlap ownership.Overlap
	// orphanedRevisions are revisions that an earlier set of this name has left.
	orphanedRevisions []*appsv1.ControllerRevision
	// daemons contains the pods' nodes on which a node daemon is alive.
	daemons map[string]bool
	// memory has the facts about pods that have not changed since the last reconcile.
	memory *podset.Memory
	// awaited is why new pods wait until the apiserver sends them to the pod webhook.
	awaited podwebhook.Wait
	// gates are the controller's gates. inPlace says what may be updated in place.
	gates   Gates
	inPlace inplace.Options
}

// observe reads what a reconcile needs: from the cache, or from the apiserver if the cache has not shown our writes for too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{set: &appsv1beta1.StatefulSet{}, gates: r.Gates, inPlace: r.InPlace, memory: r.Memory(key)}
	children := func(from client.Reader, live bool) error { return o.readChildren(ctx, from, live) }
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.set, children, o.tracked); err != nil {
		return o, fmt.Errorf("read StatefulSet: %w", err)
	}
	return o, r.readUncontrolled(ctx, &o)
}

// readUncontrolled reads what the set does not control.
func (r *Reconciler) readUncontrolled(ctx context.Context, o *observed) error {
	var err error
	if o.wanted, err = wantedRevision(o.set); err != nil {
		return err
	}
	if o.overlap, err = r.Overlaps.Scan(ctx, r.Client, o.set, Kind(), o.set.Spec.Selector, r.Clock.Now()); err != nil {
		return err
	}
	// The revisions of an earlier set are found before this set has acted, or together with its pods. A new set has -1, from the schema.
	if o.set.Status.ObservedGeneration <= 0 || len(o.overlap.Orphans) > 0 {
		if o.orphanedRevisions, err = revision.Orphans(ctx, r.Client, o.set, o.set.Spec.Selector); err != nil {
			return err
		}
	}
	o.daemons = r.DaemonNodes(o.pods)
	if o.awaited, err = r.Awaited(ctx, client.ObjectKeyFromObject(o.set)); err != nil {
		return err
	}
	return o.readClasses(ctx, r.Client)
}

// readChildren reads history, pods and PVCs. live means that the reader is the apiserver, which has no index.
func (o *observed) readChildren(ctx context.Context, r client.Reader, live bool) error {
	var err error
	if o.history, err = revision.List(ctx, r, o.set, ownership.OwnedBy(o.set, live)...); err != nil {
		return err
	}
	if o.pods, err = ownership.Pods(ctx, r, o.set, Kind(), live); err != nil {
		return err
	}
	// PVCs outlive their pods and their set, and most have no owner, so they are found by name.
	all, how := corev1.PersistentVolumeClaimList{}, []client.ListOption{client.InNamespace(o.set.Namespace)}
	if !live {
		how = append(how, client.UnsafeDisableDeepCopy)
	}
	if err := r.List(ctx, &all, how...); err != nil {
		return fmt.Errorf("list PVCs: %w", err)
	}
	o.pvcs = map[string]*corev1.PersistentVolumeClaim{}
	for i := range all.Items {
		if c := &all.Items[i]; podOfPVC(o.set, c.Name) != "" {
			o.pvcs[c.Name] = c
		}
	}
	return nil
}

// tracked yields all objects that expectations track. The set is one of them, because a plan made from an old status would write the status
// again.
func (o *observed) tracked() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) {
		pvcs := slices.Collect(maps.Values(o.pvcs))
		_ = yield(o.set) && expect.Each(o.pods, yield) && expect.Each(pvcs, yield) && expect.Each(o.history, yield)
	}
}

// readClasses reads the storage classes of PVCs that are smaller than wanted, from a cache that starts when it is first needed.
func (o *observed) readClasses(ctx context.Context, r client.Reader) error {
	if !o.resizes() {
		return nil
	}
	o.classes = map[string]bool{"": false}
	for name, c := range o.pvcs {
		class := ptr.Deref(c.Spec.StorageClassName, "")
		if _, known := o.classes[class]; known || compare(c, o.template(name)) != pvcTooSmall {
			continue
		}
		var storageClass storagev1.StorageClass
		err := r.Get(ctx, client.ObjectKey{Name: class}, &storageClass)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get storage class: %w", err)
		}
		o.classes[class] = ptr.Deref(storageClass.AllowVolumeExpansion, false)
	}
	return nil
}

// requestsForPVC finds the sets that a PVC belongs to by its name.
func (r *Reconciler) requestsForPVC(ctx context.Context, pvc client.Object) []ctrl.Request {
	return ownership.RequestsFor(ctx, r.Client, &appsv1beta1.StatefulSetList{}, pvc.GetNamespace(), func(set *appsv1beta1.StatefulSet) bool {
		return podOfPVC(set, pvc.GetName()) != ""
	})
}

// requestsForOrphan finds the sets that may adopt a pod.
func (r *Reconciler) requestsForOrphan(ctx context.Context, pod client.Object) []ctrl.Request {
	return ownership.RequestsForOrphan(ctx, r.Client, &r.Overlaps, &appsv1beta1.StatefulSetList{},
		func(set *appsv1beta1.StatefulSet) *metav1.LabelSelector { return set.Spec.Selector }, pod)
}
