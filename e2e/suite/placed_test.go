//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// TestCloneSetIsPlacedByAWorkloadSpread fills two zones of east, and west with the rest; scaling in empties west first, and the
// workload outlives its WorkloadSpread.
func TestCloneSetIsPlacedByAWorkloadSpread(t *testing.T) {
	s := parallel(t)
	for _, example := range []string{"spread-over-clusters.yaml", "placed-cloneset.yaml"} {
		_, err := env.Hub.ApplyFile(s.ctx, env.Example(example), func(o *unstructured.Unstructured) { o.SetNamespace(s.namespace) })
		require.NoError(s, err)
	}
	set := &appsv1beta1.CloneSet{}
	runs := func(east, west int) {
		s.Helper()
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, s.key("web"), set); err != nil {
				return err.Error()
			}
			e, w := len(s.pods(env.East, "web")), len(s.pods(env.West, "web"))
			if e == east && w == west && int(set.Status.AvailableReplicas) == east+west {
				return ""
			}
			return fmt.Sprintf("east has %d pods, west %d, and the hub reports %d", e, w, set.Status.AvailableReplicas)
		})
	}
	runs(6, 2)
	for _, pod := range s.pods(env.East, "web") {
		require.Contains(t, pod.Annotations["apps.kruise.io/matched-workloadspread"], `"zone-`, "no pod misses its WorkloadSpread")
	}
	require.Empty(t, s.pods(env.Hub, "web"), "nothing runs the template on the hub")

	scale := func(n int32) {
		s.Helper()
		before := set.DeepCopy()
		set.Spec.Replicas = &n
		require.NoError(t, env.Hub.Client.Patch(s.ctx, set, client.MergeFrom(before)))
	}
	scale(7)
	runs(6, 1)
	scale(4)
	runs(4, 0)

	ws := &appsv1beta1.WorkloadSpread{}
	ws.SetNamespace(s.namespace)
	ws.SetName("web")
	require.NoError(t, env.Hub.Client.Delete(s.ctx, ws))
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key("web"), ws); client.IgnoreNotFound(err) != nil || err == nil {
			return "the WorkloadSpread is still there"
		}
		return ""
	})
	runs(4, 0)
	require.NoError(t, env.Hub.Client.Delete(s.ctx, set))
	s.until(func(context.Context) string {
		if n := len(s.pods(env.East, "web")); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
}

// TestDeploymentThatIsATemplateMakesNoReplicaSet has kube-controller-manager on the hub, and creates the Deployment first.
func TestDeploymentThatIsATemplateMakesNoReplicaSet(t *testing.T) {
	s := parallel(t)
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web", Labels: map[string]string{keys.FleetTemplate: "true"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(5)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx:1.27"}}},
			},
		},
	}
	require.NoError(t, env.Hub.Client.Create(s.ctx, d))
	require.True(t, d.Spec.Paused)
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key("web"), d); err != nil || d.Status.ObservedGeneration < d.Generation {
			return "kube-controller-manager has not seen it"
		}
		return ""
	})
	require.NoError(t, env.Hub.Client.Create(s.ctx, &appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			Subsets: []appsv1beta1.WorkloadSpreadSubset{
				{Name: "first", Cluster: "east", MaxReplicas: new(intstr.FromInt32(3))}, {Name: "rest", Cluster: "west"},
			},
		},
	}))
	s.until(func(context.Context) string {
		if e, w := len(s.pods(env.East, "web")), len(s.pods(env.West, "web")); e != 3 || w != 2 {
			return fmt.Sprintf("east has %d pods, west %d", e, w)
		}
		return ""
	})
	sets := &appsv1.ReplicaSetList{}
	require.NoError(t, env.Hub.Client.List(s.ctx, sets, client.InNamespace(s.namespace)))
	require.Empty(t, sets.Items)
	require.NoError(t, env.Hub.Client.Delete(s.ctx, d))
	s.until(func(context.Context) string {
		if n := len(s.pods(env.East, "web")) + len(s.pods(env.West, "web")); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
}
