//go:build e2e

package real

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// slot is a node resource that only the pods in this file request.
const slot = "example.com/slot"

// setCapacity sets how many pods that request one slot each node of a cluster can run.
func (s *scene) setCapacity(c *fleet.Cluster, n string) {
	s.Helper()
	nodes := &corev1.NodeList{}
	require.NoError(s, c.Client.List(s.ctx, nodes))
	for i := range nodes.Items {
		next := nodes.Items[i].DeepCopy()
		next.Status.Capacity[slot], next.Status.Allocatable[slot] = resource.MustParse(n), resource.MustParse(n)
		require.NoError(s, c.Client.Status().Patch(s.ctx, next, client.MergeFrom(&nodes.Items[i])))
	}
}

// TestWorkloadSpreadFillsTwoZonesOfEastAndThenWest has room for one pod in each zone of east, although two may run there: the rest runs in
// west. An image is updated in place everywhere, east goes away and comes back with the same pods, and a scale-in empties west first.
func TestWorkloadSpreadFillsTwoZonesOfEastAndThenWest(t *testing.T) {
	lab.Full(t) // e2e/suite tests the same with simulated nodes.
	s := newScene(t)
	s.restore()
	s.setCapacity(env.East, "1")
	s.setCapacity(env.West, "4")
	web := set("web", 6, app("app", port))
	web.Labels = map[string]string{keys.FleetTemplate: "true"}
	one := corev1.ResourceList{slot: resource.MustParse("1")}
	web.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{Requests: one, Limits: one}
	zone := func(name string) appsv1beta1.WorkloadSpreadSubset {
		return appsv1beta1.WorkloadSpreadSubset{
			Name: name, Cluster: fleet.EastName, MaxReplicas: new(intstr.FromInt32(2)),
			RequiredNodeSelector: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
				{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
			}},
		}
	}
	ws := &appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: appsv1beta1.GroupVersion.String(), Kind: "CloneSet", Name: "web"},
			ScheduleStrategy: appsv1beta1.WorkloadSpreadScheduleStrategy{
				Type: appsv1beta1.AdaptiveWorkloadSpread, Adaptive: &appsv1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(1))},
			},
			Subsets: []appsv1beta1.WorkloadSpreadSubset{zone("zone-a"), zone("zone-b"), {Name: "overflow", Cluster: fleet.WestName}},
		},
	}
	s.create(env.Hub, web)
	s.create(env.Hub, ws)
	t.Cleanup(func() { s.deleteAndAwait(ws, web) })
	// placed waits until the hub's status reports that many pods for the subsets, and east is stale or not.
	placed := func(stale bool, want shares) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, s.key("web"), ws); err != nil {
				return err.Error()
			}
			got := shares{}
			for _, line := range ws.Status.SubsetStatuses {
				got[line.Name] = line.Replicas - line.UnschedulableReplicas
				if line.Stale != (stale && line.Cluster == fleet.EastName) {
					return fmt.Sprintf("subset %s is stale: %t", line.Name, line.Stale)
				}
			}
			if fmt.Sprint(got) != fmt.Sprint(want) || ws.Status.ObservedGeneration != ws.Generation ||
				!report.IsConditionTrue(ws.Status.Conditions, appsv1beta1.WorkloadSpreadPlaced) {
				return fmt.Sprintf("the subsets have %v, not %v; conditions: %v", got, want, ws.Status.Conditions)
			}
			return ""
		})
	}
	// serving waits until the members run that many ready pods of one version, and no pod waits.
	serving := func(version string, east, west int) {
		t.Helper()
		s.until(func(context.Context) string {
			for c, want := range map[*fleet.Cluster]int{env.East: east, env.West: west} {
				pods := s.pods(c, "web")
				for name, p := range pods {
					if !ready(&p) || p.Spec.Containers[0].Image != version {
						return fmt.Sprintf("%s: pod %s has image %s, ready: %t", c.Name, name, p.Spec.Containers[0].Image, ready(&p))
					}
				}
				if len(pods) != want {
					return fmt.Sprintf("%s runs %d pods, not %d", c.Name, len(pods), want)
				}
			}
			return ""
		})
	}
	full := shares{"zone-a": 1, "zone-b": 1, "overflow": 4}
	serving(imageOld, 2, 4)
	placed(false, full)
	require.Empty(t, s.pods(env.Hub, "web"), "nothing runs the template on the hub")
	before := s.census("web", true)

	change(s, env.Hub, web, func(web *appsv1beta1.CloneSet) { image(&web.Spec.Template, imageNew) })
	serving(imageNew, 2, 4)
	s.awaitRollout(env.Hub, "web", 6, 6)
	updated := s.census("web", true)
	require.Len(t, updated, len(before))
	for pod, what := range before {
		require.Equal(t, restarted(what, "1"), updated[pod])
	}

	require.NoError(t, env.East.StopControlPlane(t.Context()))
	t.Cleanup(func() { // Also if the test fails before east is back.
		s.ctx = context.WithoutCancel(t.Context())
		s.restore()
	})
	require.NoError(t, env.AwaitPhase(t.Context(), fleet.EastName, fleetv1alpha1.ClusterUnreachable))
	change(s, env.Hub, web, func(web *appsv1beta1.CloneSet) { *web.Spec.Replicas = 7 })
	placed(true, shares{"zone-a": 1, "zone-b": 1, "overflow": 5})
	change(s, env.Hub, web, func(web *appsv1beta1.CloneSet) { *web.Spec.Replicas = 6 })
	placed(true, full)
	s.restore()
	placed(false, full)
	serving(imageNew, 2, 4)
	kept := 0
	for pod, what := range s.census("web", true) {
		if updated[pod] == what {
			kept++
		}
	}
	require.GreaterOrEqual(t, kept, 5, "the scale-in removed more than one of the earlier pods, or a pod was replaced")

	change(s, env.Hub, web, func(web *appsv1beta1.CloneSet) { *web.Spec.Replicas = 2 })
	serving(imageNew, 2, 0)
	placed(false, shares{"zone-a": 1, "zone-b": 1, "overflow": 0})
}

// deleteAndAwait deletes objects on the hub, and waits until they and what they run in the members are gone.
func (s *scene) deleteAndAwait(objects ...client.Object) {
	s.Helper()
	s.ctx = context.WithoutCancel(s.ctx)
	for _, o := range objects {
		require.NoError(s, client.IgnoreNotFound(env.Hub.Client.Delete(s.ctx, o)))
	}
	s.until(func(ctx context.Context) string {
		for _, o := range objects {
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
				return fmt.Sprintf("%T %s is still on the hub (%v)", o, o.GetName(), err)
			}
		}
		return ""
	})
}

// TestASecretReachesThreeOfFourClusters uses four clusters with the same label, one of which is excluded, with 20 namespaces each.
func TestASecretReachesThreeOfFourClusters(t *testing.T) {
	lab.Full(t) // It starts two more clusters with real nodes. e2e/suite tests the same with simulated ones.
	t.Parallel()
	s := newScene(t)
	const label, excluded, namespaces = "example.com/registry", "south", 20
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		for _, name := range []string{"third", excluded} {
			require.NoError(t, env.LeaveAnother(ctx, name))
		}
	})
	clusters := map[string]*fleet.Cluster{fleet.EastName: env.East, fleet.WestName: env.West}
	for _, name := range []string{"third", excluded} {
		c, err := env.JoinAnother(t.Context(), name, "real:1")
		require.NoError(t, err)
		clusters[name] = c
	}
	for name, c := range clusters {
		mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: name}}
		change(s, env.Hub, mc, func(mc *fleetv1alpha1.MemberCluster) { metav1.SetMetaDataLabel(&mc.ObjectMeta, label, "true") })
		for i := range namespaces {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("registry-%d", i), Labels: map[string]string{label: "true"}}}
			require.NoError(t, c.Client.Create(t.Context(), ns))
			t.Cleanup(func() {
				if name == fleet.EastName || name == fleet.WestName { // The others are gone.
					require.NoError(t, c.Client.Delete(context.WithoutCancel(t.Context()), ns))
				}
			})
		}
	}
	matches := metav1.LabelSelector{MatchLabels: map[string]string{label: "true"}}
	rd := &appsv1beta1.ResourceDistribution{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: appsv1beta1.ResourceDistributionSpec{
			Resource: runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"registry"},"data":{"password":%q}}`,
				base64.StdEncoding.EncodeToString([]byte("open sesame")))},
			Targets: appsv1beta1.ResourceDistributionTargets{
				NamespaceSelector: matches,
				Clusters:          &appsv1beta1.ResourceDistributionClusters{Selector: &matches, Excluded: []string{excluded}},
			},
		},
	}
	require.NoError(t, env.Hub.Client.Create(t.Context(), rd))
	t.Cleanup(func() { s.deleteAndAwait(rd) })
	// holds returns the number of namespaces in a cluster that have the Secret, or -1 if one can't be read.
	holds := func(ctx context.Context, c *fleet.Cluster) int {
		n := 0
		for i := range namespaces {
			current := &corev1.Secret{}
			err := c.Client.Get(ctx, client.ObjectKey{Namespace: fmt.Sprintf("registry-%d", i), Name: "registry"}, current)
			if client.IgnoreNotFound(err) != nil {
				return -1
			}
			if string(current.Data["password"]) == "open sesame" {
				n++
			}
		}
		return n
	}
	s.until(func(ctx context.Context) string {
		for name, c := range clusters {
			if n := holds(ctx, c); name != excluded && n != namespaces {
				return fmt.Sprintf("%s has the Secret in %d namespaces", name, n)
			}
		}
		if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(rd), rd); err != nil {
			return err.Error()
		}
		if st := rd.Status; st.Desired != 3*namespaces || st.Succeeded != 3*namespaces || st.SelectedClusters != 3 || st.ObservedGeneration != rd.Generation {
			return fmt.Sprintf("%+v", st)
		}
		return ""
	})
	require.Zero(t, holds(t.Context(), clusters[excluded]))
	held := &fleetv1alpha1.MemberWorkList{}
	require.NoError(t, env.Hub.Client.List(t.Context(), held, client.InNamespace(fleetv1alpha1.Namespace(excluded))))
	require.Empty(t, held.Items, "the excluded cluster has no row")

	s.deleteAndAwait(rd)
	s.until(func(ctx context.Context) string { // The garbage collector in each cluster deletes the copies.
		for name, c := range clusters {
			if n := holds(ctx, c); n != 0 {
				return fmt.Sprintf("%s still has the Secret in %d namespaces", name, n)
			}
		}
		return ""
	})
}
