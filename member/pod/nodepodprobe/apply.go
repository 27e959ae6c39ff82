package nodepodprobe

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-nodepodprobe")

// cacheIsBehind reports whether the apiserver has an object that the plan assumes to be gone because the cache lacks it.
func (r *Reconciler) cacheIsBehind(ctx context.Context, node string, p planned) (bool, error) {
	if p.step == stepRemove {
		return ownership.Get(ctx, r.Live, types.NamespacedName{Name: node}, &corev1.Node{})
	}
	for i := range p.pods {
		pod := &corev1.Pod{}
		found, err := ownership.Get(ctx, r.Live, types.NamespacedName{Namespace: p.pods[i].Namespace, Name: p.pods[i].Name}, pod)
		if err != nil || found && pod.UID == p.pods[i].UID && pod.DeletionTimestamp == nil {
			return found, err
		}
	}
	for _, key := range p.markers {
		m := &appsv1alpha1.PodProbeMarker{}
		found, err := ownership.Get(ctx, r.Live, key, m)
		if err != nil || found && len(podprobe.MarkersOf([]appsv1alpha1.PodProbeMarker{*m})) > 0 {
			return found, err
		}
	}
	return false, nil
}

// apply does the write. It ignores errors for objects that have changed or are gone: an event is coming.
func (r *Reconciler) apply(ctx context.Context, name string, o observed, p planned) error {
	var err error
	switch p.step {
	case stepCreate:
		err = r.Client.Create(ctx, &appsv1alpha1.NodePodProbe{
			ObjectMeta: metav1.ObjectMeta{Name: name, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Node", Name: name, UID: o.node.UID,
			}}},
			Spec: appsv1alpha1.NodePodProbeSpec{PodProbes: p.podProbes},
		}, fieldOwner)
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
	case stepWrite:
		if p.podProbes == nil {
			p.podProbes = []appsv1alpha1.PodProbe{}
		}
		var data []byte
		data, err = json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": o.probe.UID}, "spec": map[string]any{"podProbes": p.podProbes},
		})
		if err == nil {
			err = r.Client.Patch(ctx, o.probe.DeepCopy(), client.RawPatch(types.MergePatchType, data), fieldOwner)
		}
	case stepRemove:
		err = r.Client.Delete(ctx, o.probe, client.Preconditions{UID: &o.probe.UID})
	}
	if err != nil && !ownership.Passed(err) {
		return fmt.Errorf("%s %s %s: %w", p.step, kind, name, err)
	}
	return nil
}
