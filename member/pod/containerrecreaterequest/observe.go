package containerrecreaterequest

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

// observed is what one reconcile has read. All objects are shared with the cache and must not be modified.
type observed struct {
	// request is nil if it doesn't exist.
	request *appsv1beta1.ContainerRecreateRequest
	// pod is nil if it is gone or being deleted, or if another pod now has its name.
	pod *corev1.Pod
}

// observe reads a request and its pod.
func observe(ctx context.Context, from client.Reader, key types.NamespacedName) (observed, error) {
	o := observed{request: &appsv1beta1.ContainerRecreateRequest{}}
	if found, err := ownership.Get(ctx, from, key, o.request); err != nil || !found {
		return observed{}, err
	}
	pod := &corev1.Pod{}
	found, err := ownership.Get(ctx, from, types.NamespacedName{Namespace: key.Namespace, Name: o.request.Spec.PodName}, pod)
	if found && string(pod.UID) == o.request.Labels[keys.RecreatePodUID] && pod.DeletionTimestamp == nil {
		o.pod = pod
	}
	return o, err
}

// heldPods returns the cached pods that a request keeps unready.
func (r *Reconciler) heldPods(ctx context.Context, key types.NamespacedName) ([]*corev1.Pod, error) {
	var list corev1.PodList
	if err := r.Client.List(ctx, &list, client.InNamespace(key.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return nil, fmt.Errorf("list pods of namespace %s: %w", key.Namespace, err)
	}
	var out []*corev1.Pod
	for i := range list.Items {
		if lifecycle.Blocks(&list.Items[i], recreate.Agent, key.String()) {
			out = append(out, &list.Items[i])
		}
	}
	return out, nil
}
