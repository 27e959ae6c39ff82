package launchpriority

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// retryTaken is when to check again for a ConfigMap that doesn't belong to the pod. No watch reports that it is gone.
const retryTaken = 15 * time.Second

// takenError means that a ConfigMap doesn't belong to the pod.
type takenError struct{ message string }

func (e takenError) Error() string { return e.message }

// apply lets the next containers start. It writes the ConfigMap first, because the annotation says that the ConfigMap is written. After a
// crash in between, the first write is repeated.
func (r *Reconciler) apply(ctx context.Context, pod *corev1.Pod, p planned) error {
	if len(p.keys) == 0 {
		return nil
	}
	if err := r.release(ctx, pod, p); err != nil {
		return err
	}
	body := podpatch.New(pod)
	body.Observed(pod) // A late write must not revert a later one.
	body.Metadata.Annotations[keys.ContainerLaunchPriorityReached] = &p.reached
	if p.done {
		body.Metadata.Annotations[keys.ContainerLaunchPriorityCompleted] = new("true")
	}
	patch, err := body.Patch(pod, "")
	if err != nil {
		return err
	}
	next := pod.DeepCopy()
	switch err := r.Client.Patch(ctx, next, client.RawPatch(patch.Type, patch.Data)); {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil // The pod is gone or has changed. Its event is coming.
	case err != nil:
		return fmt.Errorf("annotate pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	r.Expect.Written(pod.UID, next)
	measure.Count(stepLaunch, reasonReady, 1)
	return nil
}

// release writes the keys of the ConfigMap.
func (r *Reconciler) release(ctx context.Context, pod *corev1.Pod, p planned) error {
	data := make(map[string]string, len(p.keys))
	for _, key := range p.keys {
		data[key] = "true"
	}
	cm := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: pod.Namespace, Name: p.configMap, OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID,
			}},
		},
		Data: data,
	}
	err := r.Client.Create(ctx, cm)
	if apierrors.IsAlreadyExists(err) {
		err = r.add(ctx, pod, cm)
	}
	switch {
	case err == nil || errors.As(err, new(takenError)):
		return err
	case r.Expect.Refused(pod.UID, err):
		return nil // The namespace is being deleted.
	default:
		return fmt.Errorf("write ConfigMap %s/%s: %w", pod.Namespace, p.configMap, err)
	}
}

// add adds the keys to an existing ConfigMap. It reads the ConfigMap through a dry run, so that the manager needs no permission to read
// ConfigMaps: a policy in the chart limits which ones it may write.
func (r *Reconciler) add(ctx context.Context, pod *corev1.Pod, want *corev1.ConfigMap) error {
	live := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: want.Namespace, Name: want.Name}}
	if err := r.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, []byte("{}")), client.DryRunAll); err != nil {
		return err
	}
	owned, former := false, false
	for _, ref := range live.OwnerReferences {
		owned = owned || ref.UID == pod.UID
		former = former || ref.Kind == "Pod" && ref.Name == pod.Name && ref.UID != pod.UID
	}
	switch {
	case former && !owned:
		return takenError{fmt.Sprintf("ConfigMap %s belongs to a former pod with the same name and is not removed yet", live.Name)}
	case !owned:
		return takenError{fmt.Sprintf("ConfigMap %s exists but does not belong to the pod: delete it, so that the pod's containers can start in order",
			live.Name)}
	}
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": live.UID, "resourceVersion": live.ResourceVersion}, "data": want.Data,
	})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	return r.Client.Patch(ctx, live, client.RawPatch(types.MergePatchType, data))
}
