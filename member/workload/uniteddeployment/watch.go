package uniteddeployment

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// forPod returns the objects with Adaptive that a subset's pod may belong to. Other objects need no pod events.
func (r *Reconciler) forPod(ctx context.Context, pod client.Object) []ctrl.Request {
	if pod.GetLabels()[keys.SubsetName] == "" {
		return nil
	}
	var list appsv1beta1.UnitedDeploymentList
	if err := r.Client.List(ctx, &list, client.InNamespace(pod.GetNamespace()), client.UnsafeDisableDeepCopy); err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to list UnitedDeployments for a pod", "pod", client.ObjectKeyFromObject(pod))
		return nil
	}
	var out []ctrl.Request
	for i := range list.Items {
		ud := &list.Items[i]
		if reschedules(ud) && !united.OfHub(ud) && ownership.Selects(ud.Spec.Selector, pod) {
			out = append(out, ctrl.Request{NamespacedName: types.NamespacedName{Namespace: ud.Namespace, Name: ud.Name}})
		}
	}
	return out
}

// placementChanged reports whether an update of a pod changes what the scheduler says about it, or whether it counts, is ready or is reserved.
func placementChanged(old, updated client.Object) bool {
	before, wasPod := old.(*corev1.Pod)
	after, isPod := updated.(*corev1.Pod)
	if !wasPod || !isPod {
		return true
	}
	_, wasRejected := rejected(before)
	_, isRejected := rejected(after)
	return wasRejected != isRejected || before.Spec.NodeName != after.Spec.NodeName || podpatch.Active(before) != podpatch.Active(after) ||
		podpatch.Ready(before) != podpatch.Ready(after) || reserved(before) != reserved(after)
}
