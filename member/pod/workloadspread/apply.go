package workloadspread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-workloadspread")

// patchesAtOnce is how many pods one reconcile patches. A longer loop would let the places in the status become outdated.
const patchesAtOnce = 100

// applied is the result of a plan.
type applied struct {
	deleted []string
	// more means that not all pods are patched yet. skipped means that a pod has changed since it was judged.
	more, skipped bool
	// failed lists the pods that could not be patched. err is why, or why a pod could not be deleted.
	failed []string
	err    error
}

// apply patches and deletes pods. It is idempotent.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	var a applied
	for _, pod := range p.deletes {
		// Delete only at the judged version: the scheduler may have found a node that the cache doesn't show yet.
		asRead := client.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion}
		switch err := r.Client.Delete(ctx, pod.DeepCopy(), asRead); {
		case err == nil:
			a.deleted = append(a.deleted, pod.Name)
			r.Expect.Deleted(o.ws.UID, pod)
		case apierrors.IsConflict(err):
			a.skipped = true
		case !apierrors.IsNotFound(err):
			a.err = errors.Join(a.err, fmt.Errorf("delete pod %s: %w", pod.Name, err))
		}
	}
	for i, to := range p.patches {
		if i == patchesAtOnce {
			a.more = true
			break
		}
		if err := r.patch(ctx, o, to); err != nil {
			a.failed = append(a.failed, to.pod.Name)
			a.err = errors.Join(a.err, err)
		}
	}
	return a
}

func (r *Reconciler) patch(ctx context.Context, o observed, to patch) error {
	var body struct {
		Metadata struct {
			UID         types.UID         `json:"uid"`
			Labels      map[string]string `json:"labels,omitempty"`
			Annotations map[string]string `json:"annotations,omitempty"`
		} `json:"metadata"`
	}
	body.Metadata.UID, body.Metadata.Labels, body.Metadata.Annotations = to.pod.UID, to.labels, to.annotations
	data, err := json.Marshal(body)
	if err != nil {
		return fmt.Errorf("write a patch of pod %s: %w", to.pod.Name, err)
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, pod.UID = to.pod.Namespace, to.pod.Name, to.pod.UID
	switch err := r.Client.Patch(ctx, pod, client.RawPatch(types.MergePatchType, data), fieldOwner); {
	case ownership.Passed(err):
		return nil
	case err != nil:
		return fmt.Errorf("patch pod %s: %w", to.pod.Name, err)
	}
	r.Expect.Written(o.ws.UID, pod)
	return nil
}
