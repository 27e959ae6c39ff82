package sidecarterminator

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// apply writes to the pod, conditional on the version that was read. A conflict means that the pod has changed: its event is coming.
func (r *Reconciler) apply(ctx context.Context, pod *corev1.Pod, p planned, now time.Time) error {
	b, subresource, step := podpatch.New(pod), "", stepImage
	b.Observed(pod)
	if p.phase != "" {
		subresource, step = podpatch.Status, stepPhase
		b.Status.Phase = p.phase
		b.Set(pod, condition, corev1.ConditionTrue, "", "Terminated by Sidecar Terminator", now)
	} else {
		b.Spec = map[string]any{"containers": containers(p.images)}
	}
	patch, err := b.Patch(pod, subresource)
	if err != nil {
		return err
	}
	next := pod.DeepCopy()
	if subresource == "" {
		err = r.Client.Patch(ctx, next, client.RawPatch(patch.Type, patch.Data))
	} else {
		err = r.Client.Status().Patch(ctx, next, client.RawPatch(patch.Type, patch.Data))
	}
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return nil
	case err != nil:
		return fmt.Errorf("end the sidecars of pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	measure.Count(step, reasonEnded, 1)
	r.Events.Record(pod, event.Normal(eventEnded, action, "%s", p.why))
	return nil
}

// containers returns the patches of containers, sorted by name.
func containers(images map[string]string) []map[string]string {
	out := make([]map[string]string, 0, len(images))
	for _, name := range slices.Sorted(maps.Keys(images)) {
		out = append(out, map[string]string{"name": name, "image": images[name]})
	}
	return out
}
