package ephemeraljob

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
)

// subresource is the pod subresource that accepts only ephemeral containers.
const subresource = "ephemeralcontainers"

// applied is the result of a plan.
type applied struct {
	podcontrol.Results
	// added holds the names of the pods that got the containers.
	added []string
	// refused means that a pod can't have the containers, so the plan has changed. skipped means that a pod changed since it was observed.
	refused, skipped bool
}

// apply applies the plan. It is idempotent: a crash or a conflict halfway does no harm.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	var a applied
	switch {
	case p.release:
		a.Rest = r.release(ctx, o.job)
	case p.remove:
		a.Rest = control.RemoveJob(ctx, r.Client, o.job)
	case len(p.add) > 0:
		r.addContainers(ctx, o, p.add, &a)
	}
	return a
}

// addContainers adds the containers to pods. The apiserver rejects the write if the pod has changed since it was observed, for example
// because it already got the containers.
func (r *Reconciler) addContainers(ctx context.Context, o observed, pods []*corev1.Pod, a *applied) {
	job := o.job
	containers := containersOf(job)
	patches := make([]podcontrol.Patch, 0, len(pods))
	for _, pod := range pods {
		data, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": pod.UID, "resourceVersion": pod.ResourceVersion},
			"spec":     map[string]any{"ephemeralContainers": containers},
		})
		if err != nil {
			a.Rest = fmt.Errorf("marshal containers for pod %s: %w", pod.Name, err)
			return
		}
		patches = append(patches, podcontrol.Patch{
			Object: pod, Patch: podpatch.Patch{Type: types.StrategicMergePatchType, Data: data, Subresource: subresource},
			Invalid: func(err error) {
				r.memory.Change(job, func(k *known) { k.refuse(job.Generation, pod.UID, err.Error()) })
			},
		})
	}
	w := podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel}
	result := w.Patch(ctx, job.UID, patches)
	a.Add(result)
	a.added, a.skipped = result.Done, result.Skipped > 0
	a.refused = len(r.memory.Get(job).invalidAt(job.Generation)) > len(o.invalid)
	if len(a.added) > 0 {
		ctrl.LoggerFrom(ctx).Info("Added ephemeral containers to pods", "count", len(a.added), "pods", a.added)
	}
}

// containersOf returns a job's containers in the form that pods get them.
func containersOf(job *appsv1alpha1.EphemeralJob) []corev1.EphemeralContainer {
	out := make([]corev1.EphemeralContainer, 0, len(job.Spec.Template.EphemeralContainers))
	for i := range job.Spec.Template.EphemeralContainers {
		c := *job.Spec.Template.EphemeralContainers[i].DeepCopy()
		c.Env = append(c.Env, corev1.EnvVar{Name: keys.EphemeralJobID, Value: string(job.UID)})
		out = append(out, c)
	}
	return out
}

// release removes OpenKruise's finalizer from a job that is being deleted. A conflict is not an error: the event for the other write starts a
// reconcile.
func (r *Reconciler) release(ctx context.Context, job *appsv1alpha1.EphemeralJob) error {
	next := job.DeepCopy()
	next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == keys.EphemeralJobCleanup })
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(job, client.MergeFromWithOptimisticLock{}))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("remove the finalizer from EphemeralJob %s: %w", job.Name, err)
	}
	return nil
}
