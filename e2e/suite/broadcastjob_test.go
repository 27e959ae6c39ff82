//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit"
)

// broadcastJob waits until a job in east has a phase, and its pods have succeeded on that many nodes.
func (s *scene) broadcastJob(name string, phase appsv1beta1.BroadcastJobPhase, succeeded int32) *appsv1beta1.BroadcastJob {
	s.Helper()
	return awaitObject(s, &appsv1beta1.BroadcastJob{}, name, func(job *appsv1beta1.BroadcastJob) bool {
		return job.Status.Phase == phase && job.Status.Succeeded == succeeded
	})
}

// nodesOf returns the nodes of a job's pods, each once.
func (s *scene) nodesOf(job string) map[string]corev1.PodPhase {
	s.Helper()
	list := &corev1.PodList{}
	require.NoError(s, env.East.Client.List(s.ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"broadcastjob-name": job}))
	out := map[string]corev1.PodPhase{}
	for i := range list.Items {
		require.NotContains(s, out, list.Items[i].Spec.NodeName)
		out[list.Items[i].Spec.NodeName] = list.Items[i].Status.Phase
	}
	return out
}

// TestBroadcastJobRunsOnEachNodeInBothVersions uses one job in each version: one that completes, is changed in the other version and deleted
// after its TTL, and one that never completes, is paused by a failure and resumed.
func TestBroadcastJobRunsOnEachNodeInBothVersions(t *testing.T) {
	s := parallel(t)
	nodes := &corev1.NodeList{}
	require.NoError(t, env.East.Client.List(s.ctx, nodes))
	// Other tests cordon and add nodes meanwhile, so these jobs are for two nodes.
	all := []string{nodes.Items[0].Name, nodes.Items[1].Name}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "scan", Image: "registry.example/scan:1.0"}},
		Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
			NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: []corev1.NodeSelectorRequirement{{
				Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: all,
			}}}},
		}}},
	}}

	alpha := &appsv1alpha1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "alpha"}}
	alpha.Spec.Template, alpha.Spec.Parallelism = template, new(intstr.FromString("50%"))
	require.NoError(t, env.East.Client.Create(s.ctx, alpha))
	require.Equal(t, appsv1beta1.BroadcastJobFailFast, alpha.Spec.FailurePolicy.Type, "defaults are set in v1alpha1 too")
	done := s.broadcastJob("alpha", appsv1beta1.BroadcastJobCompleted, 2)
	require.Len(t, s.nodesOf("alpha"), 2)
	require.Equal(t, appsv1beta1.BroadcastJobConditionComplete, done.Status.Conditions[0].Type)
	require.NoError(t, env.East.Client.Get(s.ctx, client.ObjectKeyFromObject(alpha), alpha))
	require.Equal(t, done.Status, alpha.Status)
	testkit.Change(t, env.East.Client, alpha, func(job *appsv1alpha1.BroadcastJob) {
		job.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(0))
	})
	s.awaitGone(done)

	beta := &appsv1beta1.BroadcastJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "beta"}}
	beta.Spec.Template, beta.Spec.Parallelism = *template.DeepCopy(), new(intstr.FromInt32(1))
	beta.Spec.Template.Annotations = map[string]string{"lab.flotilla.io/run-for": "1h"}
	beta.Spec.CompletionPolicy.Type, beta.Spec.FailurePolicy.Type = appsv1beta1.BroadcastJobNever, appsv1beta1.BroadcastJobPause
	require.NoError(t, env.East.Client.Create(s.ctx, beta))
	awaitObject(s, beta, "beta", func(job *appsv1beta1.BroadcastJob) bool { return job.Status.Active == 1 })
	list := &corev1.PodList{}
	require.NoError(t, env.East.Client.List(s.ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{"broadcastjob-name": "beta"}))
	require.Len(t, list.Items, 1, "parallelism is 1")
	failed := &list.Items[0]
	before := failed.DeepCopy()
	failed.Status.Phase = corev1.PodFailed
	require.NoError(t, env.East.Client.Status().Patch(s.ctx, failed, client.MergeFrom(before)))
	require.True(t, s.broadcastJob("beta", appsv1beta1.BroadcastJobPaused, 0).Spec.Paused)
	testkit.Change(t, env.East.Client, beta, func(job *appsv1beta1.BroadcastJob) {
		job.Spec.Paused, job.Spec.Template.Annotations = false, nil
	})
	after := s.broadcastJob("beta", appsv1beta1.BroadcastJobRunning, 1)
	require.Equal(t, [3]int32{2, 1, 1}, [3]int32{after.Status.Desired, after.Status.Failed, after.Status.AcceptedFailures})
	require.NoError(t, env.East.Client.Delete(s.ctx, failed), "after the failed pod is deleted, its node gets another one")
	after = s.broadcastJob("beta", appsv1beta1.BroadcastJobRunning, 2)
	require.Equal(t, [2]int32{0, 0}, [2]int32{after.Status.Failed, after.Status.AcceptedFailures})
	require.Len(t, after.Status.SucceededNodes, 2)
	require.NoError(t, env.East.Client.Delete(s.ctx, after))
}

// TestBroadcastJobIsPropagated uses a hub to which the CRD was applied, without a controller. A job with a TTL is not placed.
func TestBroadcastJobIsPropagated(t *testing.T) {
	s := parallel(t)
	s.installCRD("apps.kruise.io_broadcastjobs.yaml")
	job := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "BroadcastJob",
		"metadata": map[string]any{"namespace": s.namespace, "name": "scan"},
		"spec": map[string]any{
			"completionPolicy": map[string]any{"ttlSecondsAfterFinished": int64(1)},
			"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never", "containers": []any{map[string]any{"name": "scan", "image": "registry.example/scan:1.0"}},
			}},
		},
	}}
	s.createNew(job.DeepCopy())
	p := &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "scan"},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors: []fleetv1alpha1.PropagationSelector{{APIVersion: "apps.kruise.io/v1beta1", Kind: "BroadcastJob", Name: "scan"}},
			Clusters:  fleetv1alpha1.PropagationClusters{Names: []string{fleet.EastName, fleet.WestName}},
		},
	}
	require.NoError(t, env.Hub.Client.Create(s.ctx, p))
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err.Error()
		}
		if len(p.Status.Problems) != 1 || p.Status.Problems[0].Reason != fleetv1alpha1.ReasonInvalid {
			return fmt.Sprintf("the TTL is not reported as a problem: %+v", p.Status)
		}
		return ""
	})
	s.patch(env.Hub, job.DeepCopy(), "scan", `{"spec":{"completionPolicy":{"ttlSecondsAfterFinished":null}}}`)
	s.awaitPropagated("scan", 2, 2)
	for _, c := range env.Members() {
		s.until(func(ctx context.Context) string {
			current := &appsv1beta1.BroadcastJob{}
			if err := c.Client.Get(ctx, s.key("scan"), current); err != nil {
				return err.Error()
			}
			st := current.Status
			if st.Phase != appsv1beta1.BroadcastJobCompleted || st.Succeeded == 0 || st.Succeeded < st.Desired {
				return fmt.Sprintf("%s: %+v", c.Name, current.Status)
			}
			return ""
		})
	}
	require.NoError(t, env.Hub.Client.Delete(s.ctx, p))
	for _, c := range env.Members() {
		s.until(func(ctx context.Context) string {
			if err := c.Client.Get(ctx, s.key("scan"), &appsv1beta1.BroadcastJob{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s: the job is still there: %v", c.Name, err)
			}
			return ""
		})
	}
}
