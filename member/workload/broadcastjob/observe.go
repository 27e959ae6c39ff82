package broadcastjob

import (
	"context"
	"fmt"
	"iter"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podstep"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	job *appsv1beta1.BroadcastJob
	// pods are the pods that the job controls.
	pods []*corev1.Pod
	// nodes are all nodes, sorted by name.
	nodes []*corev1.Node
	// succeeded are nodes on which the pod has succeeded, according to the status or because this process has seen it. Nodes that are gone are
	// left out, unless the job has ended.
	succeeded map[string]bool
	// awaited is why new pods wait until the apiserver sends them to the pod webhook.
	awaited podstep.Wait
}

// observe reads what a reconcile needs: from the cache, or from the apiserver if the cache has not shown our writes for too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{job: &appsv1beta1.BroadcastJob{}}
	children := func(from client.Reader, live bool) error {
		var err error
		o.pods, err = ownership.Pods(ctx, from, o.job, Kind(), live)
		return err
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.job, children, o.shown); err != nil {
		return o, fmt.Errorf("read BroadcastJob: %w", err)
	}
	var err error
	if o.nodes, err = ownership.Nodes(ctx, r.Client); err != nil {
		return o, err
	}
	if o.awaited, err = r.Awaited(ctx, key); err != nil {
		return o, err
	}
	return o, r.recall(ctx, key, &o)
}

// planned returns the plan. Ending the job is final, and a pause stops it until a user intervenes. Such a plan is made again from the pods on
// the apiserver, because the cache may still contain a failed pod that was deleted to retry its node.
func (r *Reconciler) planned(ctx context.Context, o *observed, now time.Time) (planned, error) {
	p := plan(*o, now)
	if p.ending == nil && !p.pause {
		return p, nil
	}
	var err error
	if o.pods, err = ownership.Pods(ctx, r.Live, o.job, Kind(), true); err != nil {
		return p, fmt.Errorf("read pods of BroadcastJob: %w", err)
	}
	return plan(*o, now), nil
}

// recall collects the nodes on which the pod has succeeded. The cache may be missing a node that exists, so the apiserver is asked before a
// node is forgotten.
func (r *Reconciler) recall(ctx context.Context, key types.NamespacedName, o *observed) error {
	exists := make(map[string]bool, len(o.nodes))
	for _, n := range o.nodes {
		exists[n.Name] = true
	}
	o.succeeded = make(map[string]bool, len(o.job.Status.SucceededNodes))
	for _, name := range o.job.Status.SucceededNodes {
		o.succeeded[name] = true
	}
	for name := range r.memory.nodes(key, o.job.UID) {
		o.succeeded[name] = true
	}
	if finished(o.job) {
		return nil
	}
	for name := range o.succeeded {
		if exists[name] {
			continue
		}
		node := &metav1.PartialObjectMetadata{}
		node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
		switch err := r.Live.Get(ctx, types.NamespacedName{Name: name}, node); {
		case apierrors.IsNotFound(err):
			delete(o.succeeded, name)
		case err != nil:
			return fmt.Errorf("look whether node %s is gone: %w", name, err)
		}
	}
	return nil
}

// shown yields all objects that expectations track. The job is one of them, because a plan made from an old status would write the status
// again.
func (o *observed) shown() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) { _ = yield(o.job) && expect.Each(o.pods, yield) }
}
