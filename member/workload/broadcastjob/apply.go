package broadcastjob

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// applied is the result of a plan.
type applied struct {
	podcontrol.Results
	// job is the job as it was observed, or after the pause was written.
	job *appsv1beta1.BroadcastJob
	// changed means that the job has changed meanwhile, so nothing was done. gone means that it was deleted.
	changed, gone bool
}

// apply applies the plan. It is idempotent: a crash or a conflict in the middle does no harm.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	a := applied{job: o.job}
	if p.pause {
		a.job, a.Rest = r.pause(ctx, o.job)
		a.changed = a.job == nil
		return a
	}
	applier := podcontrol.Applier{
		Writer: &podcontrol.Writer{Client: r.Client, Live: r.Live, Expect: r.Expect, Parallel: r.Parallel},
		Owner:  o.job.UID, Guards: r.Guards,
	}
	applier.Delete(ctx, p.Steps, &a.Results)
	steps := p.Of(rollout.StepCreate)
	creates := make([]podcontrol.PodCreate, 0, len(steps))
	for _, s := range steps {
		creates = append(creates, podcontrol.PodCreate{Pod: newPod(o.job, s.Slot)})
	}
	applier.CreatePods(ctx, creates, &a.Results)
	a.Log(ctx, &p.Plan)
	if p.remove {
		a.gone = true
		a.Rest = control.RemoveJob(ctx, r.Client, o.job)
	}
	return a
}

// pause sets spec.paused if the job has not changed since it was observed. Otherwise it returns nil.
func (r *Reconciler) pause(ctx context.Context, job *appsv1beta1.BroadcastJob) (*appsv1beta1.BroadcastJob, error) {
	data, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": job.UID, "resourceVersion": job.ResourceVersion}, "spec": map[string]any{"paused": true},
	})
	if err != nil {
		return nil, fmt.Errorf("marshal pause: %w", err)
	}
	next := job.DeepCopy()
	switch err := r.Client.Patch(ctx, next, client.RawPatch(types.MergePatchType, data)); {
	case ownership.Passed(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("pause BroadcastJob: %w", err)
	}
	r.Expect.Written(next.UID, next)
	return next, nil
}

// newPod returns the pod of a job for a node.
func newPod(job *appsv1beta1.BroadcastJob, node string) *corev1.Pod {
	t := job.Spec.Template.DeepCopy()
	labels := map[string]string{}
	maps.Copy(labels, t.Labels)
	labels[keys.BroadcastJobName], labels[keys.BroadcastJobUID] = job.Name, string(job.UID)
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: podName(job, node), GenerateName: job.Name + "-", Namespace: job.Namespace, Labels: labels, Annotations: t.Annotations,
			Finalizers: t.Finalizers, OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(job, Kind())},
		},
		Spec: t.Spec,
	}
	podset.Pin(&pod.Spec, node)
	return pod
}

// hashLength is how many characters of a hash are appended to the name of a pod.
const hashLength = 10

// podName returns the name of a job's pod for a node. It is always the same, so that a second pod can't be created by mistake.
func podName(job *appsv1beta1.BroadcastJob, node string) string {
	sum := sha256.Sum256([]byte(string(job.UID) + "/" + node))
	return job.Name + "-" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:hashLength]
}
