package ephemeraljob

import (
	"context"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/expect"
)

// observed is what one reconcile has read. All objects are the cache's own: they may not be changed.
type observed struct {
	job *appsv1alpha1.EphemeralJob
	// pods are all pods of the namespace: labels of a pod that has the containers may have changed since.
	pods []*corev1.Pod
	// invalid are pods that the apiserver has found to be invalid with the containers, and why.
	invalid map[types.UID]string
}

// observe reads what a reconcile needs: from the cache, or from the apiserver if the cache has not shown our writes for too long.
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
	o.invalid = r.memory.invalid(o.job)
	return o, nil
}

// planned returns the plan. One that can't be undone is made of the pods that the apiserver has: the end of the job, and the first one by
// which this process adds containers. It expects the cache to show what it has read of pods that have the containers, and knows of those
// that it adds itself, so the plans after the first one may go by the cache.
func (r *Reconciler) planned(ctx context.Context, o *observed, now time.Time) (planned, error) {
	p := plan(*o, now)
	first := len(p.add) > 0 && !r.memory.isRead(o.job)
	if p.ending == nil && !first {
		return p, nil
	}
	var err error
	if o.pods, err = podsOf(ctx, r.Live, o.job.Namespace); err != nil {
		return p, err
	}
	if first {
		for _, pod := range o.pods {
			if has(pod, o.job.UID) {
				r.Expect.Written(o.job.UID, pod)
			}
		}
		r.memory.setRead(o.job)
	}
	return plan(*o, now), nil
}

// podsOf returns the pods of a namespace. Those of a cache are its own.
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

// shown yields all objects that expectations are about. The job is one of them: a plan from an old status would write the status again.
func (o *observed) shown() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) { _ = yield(o.job) && expect.Each(o.pods, yield) }
}
