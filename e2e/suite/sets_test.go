//go:build e2e

package suite

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit"
)

// awaitObject waits until an object in east meets a condition, and returns it.
func awaitObject[T client.Object](s *scene, o T, name string, done func(T) bool) T {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key(name), o); err != nil {
			return err.Error()
		}
		if !done(o) {
			text, _ := json.Marshal(o)
			return string(text)
		}
		return ""
	})
	return o
}

// statefulSet waits until a StatefulSet in east has that many pods, all available, and that many of them at the new revision.
func (s *scene) statefulSet(name string, replicas, updated int32) *appsv1beta1.StatefulSet {
	s.Helper()
	return awaitObject(s, &appsv1beta1.StatefulSet{}, name, func(set *appsv1beta1.StatefulSet) bool {
		st := set.Status
		return st.ObservedGeneration == set.Generation && st.Replicas == replicas && st.AvailableReplicas == replicas &&
			st.UpdatedAvailableReplicas == updated
	})
}

// daemonSet waits until a DaemonSet in east has an available pod on that many nodes, and that many of them at the new revision.
func (s *scene) daemonSet(name string, nodes, updated int32) *appsv1beta1.DaemonSet { //nolint:unparam // As with get.
	s.Helper()
	return awaitObject(s, &appsv1beta1.DaemonSet{}, name, func(set *appsv1beta1.DaemonSet) bool {
		st := set.Status
		return st.ObservedGeneration == set.Generation && st.DesiredNumberScheduled == nodes && st.NumberAvailable == nodes &&
			st.UpdatedNumberScheduled == updated
	})
}

// pvcs returns the UIDs of the scene's PVCs by name, except those that are being deleted.
func (s *scene) pvcs(c *fleet.Cluster) map[string]types.UID {
	s.Helper()
	list := &corev1.PersistentVolumeClaimList{}
	require.NoError(s, c.Client.List(s.ctx, list, client.InNamespace(s.namespace)))
	out := map[string]types.UID{}
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out[list.Items[i].Name] = list.Items[i].UID
		}
	}
	return out
}

// images returns the images of an app's pods in east, by pod.
func (s *scene) images(app string) map[string]string {
	s.Helper()
	out := map[string]string{}
	for name, p := range s.podsByName(app) {
		out[name] = p.Spec.Containers[0].Image
	}
	return out
}

// deleteAndAwait deletes an object in east and waits until none of its pods is left.
func (s *scene) deleteAndAwait(o client.Object, app string) {
	s.Helper()
	require.NoError(s, env.East.Client.Delete(s.ctx, o, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	s.until(func(context.Context) string {
		if n := len(s.pods(env.East, app)); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
}

const (
	dbOld = "registry.example/db:1.0"
	dbNew = "registry.example/db:2.0"
)

func TestStatefulSetIsScaledAndUpdatedInPlaceByPartitionAndKeepsItsPVCs(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "statefulset.yaml")
	set := s.statefulSet("db", 3, 3)
	first := s.pvcs(env.East)
	require.Equal(t, []string{"data-db-0", "data-db-1", "data-db-2"}, sorted(first))

	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.StatefulSet) { set.Spec.Replicas = new(int32(5)) })
	s.statefulSet("db", 5, 5)
	pods, pvcs := s.podsByName("db"), s.pvcs(env.East)
	require.Equal(t, []string{"db-0", "db-1", "db-2", "db-3", "db-4"}, sorted(pods))
	for name, uid := range first {
		require.Equal(t, uid, pvcs[name])
	}
	require.Len(t, pvcs, 5)

	away := s.watchUpdating("db", env.East)
	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.StatefulSet) {
		set.Spec.Template.Spec.Containers[0].Image = dbNew
		set.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(3))
	})
	s.statefulSet("db", 5, 2)
	require.Equal(t, 1, away(), "one at a time")
	s.awaitQuiet()
	require.Equal(t, map[string]string{"db-0": dbOld, "db-1": dbOld, "db-2": dbOld, "db-3": dbNew, "db-4": dbNew}, s.images("db"))

	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.StatefulSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	set = s.statefulSet("db", 5, 5)
	require.Equal(t, set.Status.UpdateRevision, set.Status.CurrentRevision)
	s.requireSamePods(pods, s.podsByName("db"))
	for name, p := range s.podsByName("db") {
		require.EqualValues(t, 1, restarts(p), name)
	}
	require.Equal(t, pvcs, s.pvcs(env.East))

	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.StatefulSet) { set.Spec.Replicas = new(int32(2)) })
	set = s.statefulSet("db", 2, 2)
	require.Equal(t, []string{"db-0", "db-1"}, sorted(s.podsByName("db")))
	require.Equal(t, pvcs, s.pvcs(env.East), "PVCs stay by default")
	s.deleteAndAwait(set, "db")
	s.awaitQuiet()
	require.Equal(t, pvcs, s.pvcs(env.East))
}

func sorted[V any](byName map[string]V) []string {
	out := make([]string, 0, len(byName))
	for name := range byName {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

func TestDaemonSetIsUpdatedInPlaceByPartitionAndFollowsItsNodes(t *testing.T) {
	s := parallel(t)
	nodes := &corev1.NodeList{}
	require.NoError(t, env.East.Client.List(t.Context(), nodes))
	all := int32(len(nodes.Items))
	require.Greater(t, all, int32(3))
	s.apply(env.East, "daemonset.yaml")
	set := s.daemonSet("agent", all, all)
	before := s.podsByName("agent")
	on := map[string]bool{}
	for _, p := range before {
		on[p.Spec.NodeName] = true
	}
	require.Len(t, on, int(all), "one pod on each node")

	const old, fresh = "registry.example/agent:1.0", "registry.example/agent:2.0"
	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.DaemonSet) {
		set.Spec.Template.Spec.Containers[0].Image = fresh
		set.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(all - 2))
	})
	s.daemonSet("agent", all, 2)
	s.awaitQuiet()
	count := map[string]int32{}
	for _, image := range s.images("agent") {
		count[image]++
	}
	require.Equal(t, map[string]int32{old: all - 2, fresh: 2}, count)

	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.DaemonSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	set = s.daemonSet("agent", all, all)
	s.requireSamePods(before, s.podsByName("agent"))
	for name, p := range s.podsByName("agent") {
		require.Equal(t, fresh, p.Spec.Containers[0].Image)
		require.EqualValues(t, 1, restarts(p), name)
	}

	// A DaemonSet is scaled by its nodes.
	chosen := nodes.Items[0].Name
	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.DaemonSet) {
		set.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: nodes.Items[0].Labels[corev1.LabelHostname]}
	})
	set = s.daemonSet("agent", 1, 1)
	s.until(func(context.Context) string {
		if n := len(s.pods(env.East, "agent")); n != 1 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
	require.Equal(t, chosen, s.pods(env.East, "agent")[0].Spec.NodeName)
	s.deleteAndAwait(set, "agent")
}

// ordinals returns the ordinals of an app's pods in a cluster.
func (s *scene) ordinals(c *fleet.Cluster, app string) []int {
	s.Helper()
	var out []int
	for _, p := range s.pods(c, app) {
		n, err := strconv.Atoi(p.Labels["apps.kubernetes.io/pod-index"])
		require.NoError(s, err, "pod %s has its ordinal as a label", p.Name)
		out = append(out, n)
	}
	slices.SortFunc(out, cmp.Compare)
	return out
}

func TestStatefulSetsOfTwoMembersHaveOrdinalsOfTheirOwn(t *testing.T) {
	s := parallel(t)
	s.apply(env.Hub, "uniteddeployment-ordinals.yaml")
	all := shares{"east": 3, "west": 2}
	s.awaitSettled("db", all, nil)
	holds := func(east, west []int) {
		t.Helper()
		require.Equal(t, east, s.ordinals(env.East, "db"))
		require.Equal(t, west, s.ordinals(env.West, "db"))
	}
	holds([]int{0, 2, 3}, []int{10000, 10001})
	before := s.census("db")
	pvcs := []map[string]types.UID{s.pvcs(env.East), s.pvcs(env.West)}
	require.Len(t, pvcs[0], 3)
	require.Len(t, pvcs[1], 2)

	s.change("db", func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.Template.Spec.Containers[0].Image = dbNew
		partitions(ud, map[string]int32{"east": 1, "west": 2})
	})
	s.awaitSettled("db", all, shares{"east": 2, "west": 0})
	s.change("db", func(ud *appsv1beta1.UnitedDeployment) { partitions(ud, nil) })
	s.awaitSettled("db", all, nil)
	after := s.census("db")
	require.Equal(t, before.uids(), after.uids(), "the same pods")
	for pod, what := range after {
		require.Contains(t, what, ", 1 restarts", pod)
	}

	s.change("db", func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = new(int32(7)) })
	s.awaitSettled("db", shares{"east": 3, "west": 4}, nil)
	holds([]int{0, 2, 3}, []int{10000, 10001, 10002, 10003})
	// The replicas move, but the ranges don't.
	s.change("db", func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Replicas, ud.Spec.Topology.Subsets[0].Replicas = new(int32(5)), new(intstr.FromInt32(4))
	})
	s.awaitSettled("db", shares{"east": 4, "west": 1}, nil)
	holds([]int{0, 2, 3, 4}, []int{10000})
	for i, m := range env.Members() {
		now := s.pvcs(m)
		for name, uid := range pvcs[i] {
			require.Equal(t, uid, now[name], "PVC %s of %s", name, m.Name)
		}
	}
	s.remove("db")
}

// plugin runs the kubectl plugin in the test's namespace in east.
func (s *scene) plugin(args ...string) string {
	s.Helper()
	// The last occurrence of a repeated flag counts, and the hub's kubeconfig comes first.
	out, err := env.Plugin(s.ctx, append(args, "--kubeconfig="+env.East.Lab.Kubeconfig, "--namespace="+s.namespace)...)
	require.NoError(s, err)
	return out
}

func TestPluginServesStatefulSetAndDaemonSet(t *testing.T) {
	s := parallel(t)
	nodes := &corev1.NodeList{}
	require.NoError(t, env.East.Client.List(t.Context(), nodes))
	s.apply(env.East, "statefulset.yaml")
	s.apply(env.East, "daemonset.yaml")
	for _, c := range []struct {
		set, app, container, kept, fresh string
		pods                             int
	}{
		{"asts/db", "db", "db", dbOld, dbNew, 3},
		{"ads/agent", "agent", "agent", "registry.example/agent:1.0", "registry.example/agent:2.0", len(nodes.Items)},
	} {
		t.Run(c.app, func(t *testing.T) {
			s := s.on(t)
			requireImage := func(image string) {
				t.Helper()
				s.plugin("rollout", "status", c.set, "--timeout=2m")
				require.Len(t, s.images(c.app), c.pods)
				for pod, got := range s.images(c.app) {
					require.Equal(t, image, got, pod)
				}
			}
			requireImage(c.kept)
			before := s.podsByName(c.app)

			s.plugin("rollout", "pause", c.set)
			s.plugin("set", "image", c.set, c.container+"="+c.fresh)
			s.awaitQuiet()
			for pod, got := range s.images(c.app) {
				require.Equal(t, c.kept, got, "%s belongs to a paused set and must keep its image", pod)
			}
			s.plugin("rollout", "resume", c.set)
			requireImage(c.fresh)
			s.requireSamePods(before, s.podsByName(c.app))

			require.Contains(t, s.plugin("rollout", "history", c.set), "REVISION")
			s.plugin("rollout", "undo", c.set)
			requireImage(c.kept)
			s.requireSamePods(before, s.podsByName(c.app))
		})
	}
	s.plugin("scale", "asts/db", "--replicas=4")
	s.plugin("rollout", "status", "asts/db", "--timeout=2m")
	require.Equal(t, []string{"db-0", "db-1", "db-2", "db-3"}, sorted(s.podsByName("db")))
	s.deleteAndAwait(&appsv1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "db"}}, "db")
	s.deleteAndAwait(&appsv1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "agent"}}, "agent")
}

func TestStatefulSetSkipsReservedOrdinalsAndKeepsTheOthers(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "statefulset-reserve.yaml")
	s.statefulSet("reserve", 5, 5)
	require.Equal(t, []int{0, 2, 3, 7, 8}, s.ordinals(env.East, "reserve"))
	before := s.podsByName("reserve")
	_, err := env.East.ApplyFile(t.Context(), env.Example("statefulset-reserve.yaml"), func(o *unstructured.Unstructured) {
		o.SetNamespace(s.namespace)
		require.NoError(t, unstructured.SetNestedSlice(o.Object, []any{int64(1), int64(2), "4-6"}, "spec", "reserveOrdinals"))
	})
	require.NoError(t, err)
	s.until(func(context.Context) string {
		if got := s.ordinals(env.East, "reserve"); !slices.Equal(got, []int{0, 3, 7, 8, 9}) {
			return fmt.Sprintf("ordinals %v", got)
		}
		return ""
	})
	set := s.statefulSet("reserve", 5, 5)
	s.requireSamePods(before, s.podsByName("reserve"), "reserve-2")
	s.deleteAndAwait(set, "reserve")
}
