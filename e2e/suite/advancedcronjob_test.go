//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit"
)

// TestAdvancedCronJobRunsJobsInBothVersions uses one in v1alpha1 with Jobs, which is paused, and one in v1beta1 with BroadcastJobs, whose
// jobs are deleted after their TTL. The status keeps what has run.
func TestAdvancedCronJobRunsJobsInBothVersions(t *testing.T) {
	s := parallel(t)
	pods := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "report", Image: "registry.example/report:1.0"}},
	}}
	succeeded := func(n int) func(*appsv1beta1.AdvancedCronJob) bool {
		return func(c *appsv1beta1.AdvancedCronJob) bool {
			for _, run := range c.Status.Runs {
				if run.Phase == appsv1beta1.AdvancedCronJobSucceeded {
					n--
				}
			}
			return n <= 0
		}
	}

	alpha := &appsv1alpha1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "alpha"}}
	alpha.Spec.Schedule, alpha.Spec.ConcurrencyPolicy = "@every 1s", appsv1beta1.AdvancedCronJobForbid
	alpha.Spec.Template.JobTemplate = &batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: pods}}
	require.NoError(t, env.East.Client.Create(s.ctx, alpha))
	require.Equal(t, int32(3), *alpha.Spec.SuccessfulJobsHistoryLimit, "defaults are set in v1alpha1 too")
	awaitObject(s, &appsv1beta1.AdvancedCronJob{}, "alpha", succeeded(2))
	// Patch as kubectl does: on a busy machine, an update could conflict again and again with the status that is written each second.
	patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"paused":true}}`))
	require.NoError(t, env.East.Client.Patch(s.ctx, alpha, patch))
	current := awaitObject(s, &appsv1beta1.AdvancedCronJob{}, "alpha", func(c *appsv1beta1.AdvancedCronJob) bool {
		return c.Status.ObservedGeneration == c.Generation && len(c.Status.Active) == 0 && c.Status.Pending == nil
	})
	jobs := &batchv1.JobList{}
	require.NoError(t, env.East.Client.List(s.ctx, jobs, client.InNamespace(s.namespace)))
	require.LessOrEqual(t, len(jobs.Items), 3+1, "more Jobs than the history limits and the failed one")
	require.NoError(t, env.East.Client.Delete(s.ctx, current))

	beta := &appsv1beta1.AdvancedCronJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "beta"}}
	beta.Spec.Schedule, beta.Spec.TimeZone, beta.Spec.ConcurrencyPolicy = "@every 2s", new("Asia/Tokyo"), appsv1beta1.AdvancedCronJobForbid
	beta.Spec.Template.BroadcastJobTemplate = &appsv1beta1.BroadcastJobTemplateSpec{Spec: appsv1beta1.BroadcastJobSpec{
		Template: pods, CompletionPolicy: appsv1beta1.BroadcastJobCompletionPolicy{TTLSecondsAfterFinished: new(int32(1))},
	}}
	require.NoError(t, env.East.Client.Create(s.ctx, beta))
	current = awaitObject(s, beta, "beta", func(c *appsv1beta1.AdvancedCronJob) bool { return len(c.Status.Runs) > 2 })
	require.Equal(t, appsv1beta1.AdvancedCronJobOfBroadcastJobs, current.Status.Type)
	require.NoError(t, env.East.Client.Delete(s.ctx, current))
}

// TestAdvancedCronJobRunsInTheClusterThatAPropagationNames moves an AdvancedCronJob from east to west.
func TestAdvancedCronJobRunsInTheClusterThatAPropagationNames(t *testing.T) {
	s := parallel(t)
	s.installCRD("apps.kruise.io_advancedcronjobs.yaml")
	cron := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "AdvancedCronJob",
		"metadata": map[string]any{"namespace": s.namespace, "name": "report"},
		"spec": map[string]any{
			"schedule": "@every 2s", "concurrencyPolicy": "Forbid",
			"template": map[string]any{"jobTemplate": map[string]any{"spec": map[string]any{"template": map[string]any{"spec": map[string]any{
				"restartPolicy": "Never", "containers": []any{map[string]any{"name": "report", "image": "registry.example/report:1.0"}},
			}}}}},
		},
	}}
	s.createNew(cron.DeepCopy())
	p := &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "report"},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors: []fleetv1alpha1.PropagationSelector{{APIVersion: "apps.kruise.io/v1beta1", Kind: "AdvancedCronJob", Name: "report"}},
			Clusters:  fleetv1alpha1.PropagationClusters{Names: []string{fleet.EastName}},
		},
	}
	require.NoError(t, env.Hub.Client.Create(s.ctx, p))
	runsIn := func(c *fleet.Cluster) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			current := &appsv1beta1.AdvancedCronJob{}
			if err := c.Client.Get(ctx, s.key("report"), current); err != nil {
				return err.Error()
			}
			for _, run := range current.Status.Runs {
				if run.Phase == appsv1beta1.AdvancedCronJobSucceeded {
					return ""
				}
			}
			return fmt.Sprintf("%s: nothing has succeeded: %+v", c.Name, current.Status)
		})
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
				return err.Error()
			}
			if p.Status.Desired != 1 || p.Status.Healthy != 1 {
				return fmt.Sprintf("wanted a healthy object: %+v", p.Status)
			}
			return ""
		})
	}
	gone := func(c *fleet.Cluster) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			if err := c.Client.Get(ctx, s.key("report"), &appsv1beta1.AdvancedCronJob{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s: it is still there: %v", c.Name, err)
			}
			jobs := &batchv1.JobList{}
			if err := c.Client.List(ctx, jobs, client.InNamespace(s.namespace)); err != nil || len(jobs.Items) > 0 {
				return fmt.Sprintf("%s: there are %d Jobs (%v)", c.Name, len(jobs.Items), err)
			}
			return ""
		})
	}
	runsIn(env.East)
	gone(env.West)
	testkit.Change(t, env.Hub.Client, p, func(p *fleetv1alpha1.Propagation) { p.Spec.Clusters.Names = []string{fleet.WestName} })
	runsIn(env.West)
	gone(env.East)
	require.NoError(t, env.Hub.Client.Delete(s.ctx, p))
	gone(env.West)
}
