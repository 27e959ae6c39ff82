package probedpod

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-probedpod")

// apply writes conditions and metadata separately: an apiserver may ignore metadata in a status write, and one write may be rejected without
// the other. It ignores a pod that is gone or was replaced.
func (r *Reconciler) apply(ctx context.Context, pod *corev1.Pod, p planned) error {
	var all error
	if len(p.conditions) > 0 {
		b := podpatch.New(pod)
		b.Status.Conditions = p.conditions
		measure.Count(stepConditions, reasonResult, 1)
		all = r.write(ctx, pod, b, podpatch.Status)
	}
	if len(p.labels)+len(p.annotations) > 0 {
		b := podpatch.New(pod)
		b.Metadata.Labels, b.Metadata.Annotations = p.labels, p.annotations
		measure.Count(stepMetadata, reasonResult, 1)
		all = errors.Join(all, r.write(ctx, pod, b, ""))
	}
	return all
}

func (r *Reconciler) write(ctx context.Context, pod *corev1.Pod, b podpatch.Body, subresource string) error {
	patch, err := b.Patch(pod, subresource)
	if err != nil {
		return err
	}
	to, what := pod.DeepCopy(), "labels and annotations"
	if subresource == podpatch.Status {
		what = "conditions"
		err = r.Client.Status().Patch(ctx, to, client.RawPatch(patch.Type, patch.Data), fieldOwner)
	} else {
		err = r.Client.Patch(ctx, to, client.RawPatch(patch.Type, patch.Data), fieldOwner)
	}
	switch {
	case err == nil:
		r.Expect.Written(pod.UID, to)
		return nil
	case ownership.Passed(err):
		return nil
	case apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		r.Events.Record(pod, event.Warning(reasonFailed, actionMark, "could not write the %s of probes: %v", what, err))
	}
	return fmt.Errorf("patch %s of pod %s: %w", what, client.ObjectKeyFromObject(pod), err)
}
