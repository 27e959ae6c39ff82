package broadcastjob

import (
	"context"
	"fmt"
	"iter"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
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
	awaited podwebhook.Wait
}

// observe reads what a reconcile needs: from the cache, or from the apiserver if the cache has not shown our writes for too long.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{job: &appsv1beta1.BroadcastJob{}}
	children := func(from client.Reader, live bool) error {
		var err error
		o.pods, err = ownership.Pods(ctx, from, o.job, Kind(), live)
		return err
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.job, children, o.tracked); err != nil {
		return o, fmt.Errorf("read BroadcastJob: %w", err)
	}
	var err error
	if o.nodes, err = ownership.Nodes(ctx, r.Client); err != nil {
		return o, err
	}
	if o.awaited, err = r.Awaited(ctx, key); err != nil {
		return o, err
	}
	return o, r.collectSucceeded(ctx, &o)
}

// confirm reads the pods from the apiserver if the plan ends the job, which is final, or pauses it, which stops it until a user intervenes: the
// cache may still contain a failed pod that was deleted to retry its node. reread means that the plan has to be made again.
func (r *Reconciler) confirm(ctx context.Context, o *observed, p planned) (reread bool, err error) {
	if p.ending == nil && !p.pause {
		return false, nil
	}
	if o.pods, err = ownership.Pods(ctx, r.Live, o.job, Kind(), true); err != nil {
		return false, fmt.Errorf("read pods of BroadcastJob: %w", err)
	}
	return true, nil
}

// collectSucceeded collects the nodes on which the pod has succeeded. The cache may be missing a node that exists, so the apiserver is asked before a
// node is forgotten.
func (r *Reconciler) collectSucceeded(ctx context.Context, o *observed) error {
	exists := make(map[string]bool, len(o.nodes))
	for _, n := range o.nodes {
		exists[n.Name] = true
	}
	o.succeeded = make(map[string]bool, len(o.job.Status.SucceededNodes))
	for _, name := range o.job.Status.SucceededNodes {
		o.succeeded[name] = true
	}
	for name := range r.memory.Get(o.job).succeeded {
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
			return fmt.Errorf("check whether node %s is gone: %w", name, err)
		}
	}
	return nil
}

// tracked yields all objects that expectations track. The job is one of them, because a plan made from an old status would write the status
// again.
func (o *observed) tracked() iter.Seq[metav1.Object] {
	return func(yield func(metav1.Object) bool) { _ = yield(o.job) && expect.Each(o.pods, yield) }
}
