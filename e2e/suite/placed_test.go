//go:build e2e

package suite

import (
	"context"
	"fmt"
	"maps"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// TestCloneSetIsPlacedByAWorkloadSpread fills two zones of east, and west with the rest. Scaling in empties west first, and the workload
// outlives its WorkloadSpread.
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
		require.Contains(t, pod.Annotations["apps.kruise.io/matched-workloadspread"], `"zone-`, "every pod was assigned to a subset")
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
	s.awaitNoPods(s.namespace, env.East)
}

// TestDeploymentThatIsATemplateMakesNoReplicaSet runs kube-controller-manager on the hub, and creates the Deployment first.
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
			return "kube-controller-manager has not observed the Deployment"
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
	s.awaitNoPods(s.namespace, env.Members()...)
}

func TestWorkloadSpreadOverflowsFromAFullCluster(t *testing.T) {
	s := newOverflow(t)
	closed := report.GetCondition(s.ws.Status.SubsetStatuses[0].Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable)
	require.Equal(t, "PodUnschedulable", closed.Reason)
}

func TestWorkloadSpreadKeepsThePodsOfAFullClusterThatIsDark(t *testing.T) {
	lab.Full(t) // hub/workloadspread plans without the rows of clusters that don't answer.
	s := newOverflow(t)
	before := s.census("web")
	require.NoError(t, env.East.StopControlPlane(t.Context()))
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterUnreachable))
	s.scale(9)
	s.awaitPlaced(true, shares{"zone-a": 2, "zone-b": 2, "overflow": 5})
	s.scale(8)
	s.awaitPlaced(true, shares{"zone-a": 2, "zone-b": 2, "overflow": 4})

	require.NoError(t, env.East.StartControlPlane(t.Context()))
	require.NoError(t, env.East.Manager.Start(t.Context())) // It may have lost its leadership meanwhile.
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterReady))
	s.awaitPlaced(false, shares{"zone-a": 2, "zone-b": 2, "overflow": 4})
	after, kept := s.census("web"), 0
	for name, pod := range before {
		if after[name] == pod {
			kept++
		}
	}
	require.GreaterOrEqual(t, kept, 7, "the scale-in removed more than one of the earlier pods, or a pod was replaced")
}

// overflowScene is a CloneSet with eight pods: east runs four, and west the rest.
type overflowScene struct {
	*scene

	set *appsv1beta1.CloneSet
	ws  *appsv1beta1.WorkloadSpread
}

// newOverflow limits each node to one pod, so that two zones in east run four of the six pods that they may have.
func newOverflow(t *testing.T) *overflowScene {
	t.Helper()
	s := alone(t)
	labels := map[string]string{"app": "web"}
	set := &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web", Labels: map[string]string{keys.FleetTemplate: "true"}},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: new(int32(8)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "nginx:1.27",
					Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20")}},
				}}},
			},
		},
	}
	zone := func(name string) appsv1beta1.WorkloadSpreadSubset {
		return appsv1beta1.WorkloadSpreadSubset{
			Name: name, Cluster: "east", MaxReplicas: new(intstr.FromInt32(3)),
			RequiredNodeSelector: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
			}},
		}
	}
	ws := &appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "web"},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"},
			ScheduleStrategy: appsv1beta1.WorkloadSpreadScheduleStrategy{
				Type: appsv1beta1.AdaptiveWorkloadSpread, Adaptive: &appsv1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(1))},
			},
			Subsets: []appsv1beta1.WorkloadSpreadSubset{zone("zone-a"), zone("zone-b"), {Name: "overflow", Cluster: "west"}},
		},
	}
	require.NoError(t, env.Hub.Client.Create(s.ctx, set))
	require.NoError(t, env.Hub.Client.Create(s.ctx, ws))
	s.Cleanup(func() {
		s.ctx = context.WithoutCancel(s.ctx)
		require.NoError(t, client.IgnoreNotFound(env.Hub.Client.Delete(s.ctx, set)))
		require.NoError(t, client.IgnoreNotFound(env.Hub.Client.Delete(s.ctx, ws)))
		s.awaitNoPods(s.namespace, env.Members()...) // The next test needs the nodes.
	})
	o := &overflowScene{scene: s, set: set, ws: ws}
	running := func(c *fleet.Cluster) (n int) {
		for _, pod := range s.pods(c, "web") {
			if pod.Status.Phase == corev1.PodRunning {
				n++
			}
		}
		return n
	}
	s.until(func(context.Context) string {
		if e, w := running(env.East), running(env.West); e != 4 || w != 4 || len(s.pods(env.East, "web")) != 4 {
			return fmt.Sprintf("east runs %d pods, west %d", e, w)
		}
		return ""
	})
	o.awaitPlaced(false, shares{"zone-a": 2, "zone-b": 2, "overflow": 4})
	return o
}

// awaitPlaced waits until the hub reports that many pods for the subsets, and east is stale or not.
func (s *overflowScene) awaitPlaced(stale bool, want shares) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key("web"), s.ws); err != nil {
			return err.Error()
		}
		got, status := shares{}, &s.ws.Status
		for _, line := range status.SubsetStatuses {
			got[line.Name] = line.Replicas - line.UnschedulableReplicas
			if line.Stale != (stale && line.Cluster == "east") {
				return fmt.Sprintf("subset %s is stale: %t", line.Name, line.Stale)
			}
		}
		if !maps.Equal(got, want) || status.ObservedGeneration != s.ws.Generation || !report.IsConditionTrue(status.Conditions, appsv1beta1.WorkloadSpreadPlaced) {
			return fmt.Sprintf("the subsets have %v, not %v; conditions: %v", got, want, status.Conditions)
		}
		return ""
	})
}

// scale changes the CloneSet's replicas.
func (s *overflowScene) scale(n int32) {
	s.Helper()
	require.NoError(s, env.Hub.Client.Get(s.ctx, s.key("web"), s.set))
	before := s.set.DeepCopy()
	s.set.Spec.Replicas = &n
	require.NoError(s, env.Hub.Client.Patch(s.ctx, s.set, client.MergeFrom(before)))
}
