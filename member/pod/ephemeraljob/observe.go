package ephemeraljob

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	job *appsv1alpha1.EphemeralJob
	// pods holds all pods of the namespace: the labels of a pod that has the containers may have changed since.
	pods []*corev1.Pod
	// invalid maps pods that the apiserver found invalid with the containers to the reason.
	invalid map[types.UID]string
}

// observe reads everything that a reconcile needs, from the cache, or from the apiserver if the cache has not shown our writes for too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{job: &appsv1alpha1.EphemeralJob{}}
	children := func(from client.Reader, _ bool) error {
		var err error
		o.pods, err = podsOf(ctx, from, key.Namespace)
		return err
	}
	if err := r.Expect.ReadFinalized(ctx, r.Client, r.Live, key, o.job, children, o.shown); err != nil {
		return o, fmt.Errorf("read EphemeralJob: %w", err)
	}
	o.invalid = r.memory.Get(o.job).invalidAt(o.job.Generation)
	return o, nil
}

// confirm reads the pods from the apiserver if the plan can't be undone: the end of the job, and the first plan by which this process adds
// containers. That first plan expects the cache to show the pods that it saw with containers. The process knows which containers it added
// itself, so later plans may use the cache. reread means that the plan has to be made again.
func (r *Reconciler) confirm(ctx context.Context, o *observed, p planned) (reread bool, err error) {
	first := len(p.add) > 0 && !r.memory.Get(o.job).read
	if p.ending == nil && !first {
		return false, nil
	}
	if o.pods, err = podsOf(ctx, r.Live, o.job.Namespace); err != nil {
		return false, err
	}
	if first {
		for _, pod := range o.pods {
			if has(pod, o.job.UID) {
				r.Expect.Written(o.job.UID, pod)
			}
		}
		r.memory.Change(o.job, func(k *known) { k.read = true })
	}
	return true, nil
}

// podsOf returns the pods of a namespace. Pods from a cache must not be modified.
func podsOf(ctx context.Context, from client.Reader, namespace string) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := from.List(ctx, &list, client.InNamespace(namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", namespace, err)
	}
	out := make([]*corev1.Pod, len(list.Items))
	for i := range list.Items {
		out[i] = &list.Items[i]
	}
	return out, nil
}

// shown yields all objects that expectations are about. The job is included: a plan from an outdated status would write the status again.
func (o *observed) shown() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) { _ = yield(o.job) && expect.Each(o.pods, yield) }
}
