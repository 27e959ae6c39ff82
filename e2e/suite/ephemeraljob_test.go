//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit"
)

// finishDump waits until a pod in a cluster has a container of a job, and ends it with an exit code, as a kubelet does.
func (s *scene) finishDump(c *fleet.Cluster, pod string, job client.Object, code int32) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		after := &corev1.Pod{}
		if err := c.Client.Get(ctx, s.key(pod), after); err != nil {
			return err.Error()
		}
		if len(after.Spec.EphemeralContainers) != 1 || after.Spec.EphemeralContainers[0].Env[0] != (corev1.EnvVar{Name: keys.EphemeralJobID, Value: string(job.GetUID())}) {
			return fmt.Sprintf("pod %s has %+v", pod, after.Spec.EphemeralContainers)
		}
		before := after.DeepCopy()
		after.Status.EphemeralContainerStatuses = []corev1.ContainerStatus{{
			Name: "dump", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code}},
		}}
		if err := c.Client.Status().Patch(ctx, after, client.MergeFrom(before)); err != nil {
			return err.Error()
		}
		return ""
	})
}

// ephemeralJob waits until a job in east has a phase, and its containers have succeeded and failed in that many pods.
func (s *scene) ephemeralJob(name string, phase appsv1alpha1.EphemeralJobPhase, succeeded, failed int32) *appsv1alpha1.EphemeralJob {
	s.Helper()
	return awaitObject(s, &appsv1alpha1.EphemeralJob{}, name, func(job *appsv1alpha1.EphemeralJob) bool {
		return job.Status.Phase == phase && job.Status.Succeeded == succeeded && job.Status.Failed == failed
	})
}

func dump(namespace, app string) *appsv1alpha1.EphemeralJob {
	return &appsv1alpha1.EphemeralJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: app},
		Spec: appsv1alpha1.EphemeralJobSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"dump": app}},
			Template: appsv1alpha1.EphemeralContainerTemplateSpec{EphemeralContainers: []corev1.EphemeralContainer{{
				EphemeralContainerCommon: corev1.EphemeralContainerCommon{Name: "dump", Image: "registry.example/dump:1.0"},
			}}},
		},
	}
}

// createSelectedPod creates a pod in a cluster that the job with that name selects, and waits until it has a node.
func (s *scene) createSelectedPod(c *fleet.Cluster, name, job string) {
	s.Helper()
	p := bare(s.namespace, name)
	p.Labels = map[string]string{"dump": job}
	require.NoError(s, c.Client.Create(s.ctx, p))
	s.until(func(ctx context.Context) string {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil || p.Spec.NodeName == "" {
			return fmt.Sprintf("pod %s has no node (%v)", name, err)
		}
		return ""
	})
}

// TestEphemeralJobRunsInOnePodAfterTheOther uses a job for two of three pods. It is extended to a third one, ends although one has failed,
// and is deleted after its TTL, with OpenKruise's finalizer.
func TestEphemeralJobRunsInOnePodAfterTheOther(t *testing.T) {
	s := parallel(t)
	for _, name := range []string{"a", "b", "c"} {
		s.createSelectedPod(env.East, name, "dump")
	}
	job := dump(s.namespace, "dump")
	job.Spec.Replicas, job.Finalizers = new(int32(2)), []string{keys.EphemeralJobCleanup}
	require.NoError(t, env.East.Client.Create(s.ctx, job))
	s.finishDump(env.East, "a", job, 0)
	current := s.ephemeralJob("dump", appsv1alpha1.EphemeralJobRunning, 1, 0)
	require.Equal(t, [2]int32{2, 1}, [2]int32{current.Status.Matches, current.Status.Waiting})
	testkit.Change(t, env.East.Client, job, func(job *appsv1alpha1.EphemeralJob) { job.Spec.Replicas = nil })
	s.finishDump(env.East, "b", job, 3)
	s.finishDump(env.East, "c", job, 0)
	current = s.ephemeralJob("dump", appsv1alpha1.EphemeralJobFailed, 2, 1)
	at := slices.IndexFunc(current.Status.Conditions, func(c appsv1alpha1.EphemeralJobCondition) bool {
		return c.Type == appsv1alpha1.EphemeralJobConditionFailed
	})
	require.GreaterOrEqual(t, at, 0)
	require.Equal(t, "of 3 pods, the containers have succeeded in 2 and failed in 1 (b: dump ended with exit code 3)",
		current.Status.Conditions[at].Message)
	testkit.Change(t, env.East.Client, current, func(job *appsv1alpha1.EphemeralJob) { job.Spec.TTLSecondsAfterFinished = new(int32(0)) })
	s.awaitGone(current)
	pod := &corev1.Pod{}
	require.NoError(t, env.East.Client.Get(s.ctx, s.key("a"), pod))
	require.Len(t, pod.Spec.EphemeralContainers, 1, "an ephemeral container can't be removed from a pod")
}

// TestEphemeralJobIsPropagated uses a hub to which the CRD was applied, without a controller. A job with a TTL is not placed.
func TestEphemeralJobIsPropagated(t *testing.T) {
	s := parallel(t)
	s.installCRD("apps.kruise.io_ephemeraljobs.yaml")
	for _, c := range env.Members() {
		s.createSelectedPod(c, "a", "dump")
	}
	source := dump(s.namespace, "dump")
	source.Spec.TTLSecondsAfterFinished = new(int32(1))
	s.createNew(source.DeepCopy())
	p := &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "dump"},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors: []fleetv1alpha1.PropagationSelector{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "EphemeralJob", Name: "dump"}},
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
	job := &unstructured.Unstructured{}
	job.SetGroupVersionKind(appsv1alpha1.GroupVersion.WithKind("EphemeralJob"))
	job.SetNamespace(s.namespace)
	job.SetName("dump")
	s.patch(env.Hub, job, "dump", `{"spec":{"ttlSecondsAfterFinished":null}}`)
	s.awaitPropagated("dump", 2, 2)
	for _, c := range env.Members() {
		job := &appsv1alpha1.EphemeralJob{}
		require.NoError(t, c.Client.Get(s.ctx, s.key("dump"), job))
		s.finishDump(c, "a", job, 0)
		s.until(func(ctx context.Context) string {
			if err := c.Client.Get(ctx, s.key("dump"), job); err != nil || job.Status.Phase != appsv1alpha1.EphemeralJobSucceeded {
				return fmt.Sprintf("%s: %+v (%v)", c.Name, job.Status, err)
			}
			return ""
		})
	}
	require.NoError(t, env.Hub.Client.Delete(s.ctx, p))
	for _, c := range env.Members() {
		s.until(func(ctx context.Context) string {
			if err := c.Client.Get(ctx, s.key("dump"), &appsv1alpha1.EphemeralJob{}); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%s: the job is still there: %v", c.Name, err)
			}
			return ""
		})
	}
}
