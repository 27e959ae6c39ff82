package workloadspread

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// thirds returns the WorkloadSpread in testdata/percentages.yaml.
func thirds(t *testing.T) *appsv1beta1.WorkloadSpread {
	t.Helper()
	text, err := os.ReadFile("testdata/percentages.yaml")
	require.NoError(t, err)
	first, _, _ := strings.Cut(string(text), "---")
	in, out := &appsv1alpha1.WorkloadSpread{}, &appsv1beta1.WorkloadSpread{}
	require.NoError(t, yaml.UnmarshalStrict([]byte(first), in))
	require.NoError(t, appsv1alpha1.WorkloadSpreadToHub(t.Context(), in, out))
	require.Empty(t, validate(&out.Spec))
	out.Namespace, out.Name, out.UID = key.Namespace, key.Name, "ws"
	return out
}

// division returns the number of pods in each subset.
func division(ws *appsv1beta1.WorkloadSpread, pods []*corev1.Pod) []int {
	out := make([]int, len(ws.Spec.Subsets))
	for _, pod := range pods {
		out[subsetOf(ws, pod)]++
	}
	return out
}

// filled creates the pods of a workload with that many replicas, one after the other.
func filled(ws *appsv1beta1.WorkloadSpread, total int32) observed {
	o := observedFor(ws)
	o.total, o.target = total, cloneSetOf(total)
	for n := range int(total) {
		p := plan(o, noon)
		o.ws.Status, _ = status(o, p, noon)
		i := chooseSubset(o.ws, versionIgnored, total)
		o.pods = append(o.pods, stored(fmt.Sprintf("%03d", n), ws.Spec.Subsets[i].Name))
	}
	return o
}

// price writes the planned metadata to the pods, and returns how many were written.
func price(o observed) int {
	p := plan(o, noon)
	for _, to := range p.patches {
		cost(to.annotations[keys.PodDeletionCost])(to.pod)
	}
	return len(p.patches)
}

// owned gives a pod another controller.
func owned(group, kind string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = group, kind }
}

// scaleIn deletes the pods with the lowest cost until n are left.
func scaleIn(o *observed, n int) {
	slices.SortStableFunc(o.pods, func(a, b *corev1.Pod) int {
		deletionCost := func(p *corev1.Pod) int { n, _ := strconv.Atoi(p.Annotations[keys.PodDeletionCost]); return n }
		return cmp.Compare(deletionCost(b), deletionCost(a))
	})
	o.pods = o.pods[:n]
}

// Workloads delete all surplus pods at once, before anyone could write new costs.
func TestScaleInLeavesTheSharesOfFewerReplicas(t *testing.T) {
	t.Parallel()
	t.Run("34 %, 33 %, 33 % from 9 to 3", func(t *testing.T) {
		t.Parallel()
		o := filled(thirds(t), 9)
		require.Equal(t, []int{4, 3, 2}, division(o.ws, o.pods))
		price(o)
		scaleIn(&o, 3)
		require.Equal(t, []int{2, 1, 0}, division(o.ws, o.pods))
		o.total = 3
		require.Zero(t, price(o), "the costs of the remaining pods are right")
	})
	var tenths []appsv1beta1.WorkloadSpreadSubset
	for i := range 10 {
		tenths = append(tenths, subset(strconv.Itoa(i), "10%"))
	}
	for _, tc := range []struct {
		name    string
		subsets []appsv1beta1.WorkloadSpreadSubset
		// alike means that the remaining pods are spread as in a new workload with fewer replicas. Otherwise rounding may make other subsets
		// larger.
		alike bool
	}{
		{"percentages", []appsv1beta1.WorkloadSpreadSubset{subset("a", "34%"), subset("b", "33%"), subset("c", "33%")}, true},
		{"percentages, the last one has no limit", []appsv1beta1.WorkloadSpreadSubset{subset("a", "30%"), subset("b", "20%"), subset("c", unlimited)}, false},
		{"numbers", []appsv1beta1.WorkloadSpreadSubset{subset("a", 3), subset("b", 5), subset("c", unlimited)}, true},
		{"numbers and percentages, as in older objects", []appsv1beta1.WorkloadSpreadSubset{subset("a", 3), subset("b", "50%"), subset("c", unlimited)}, true},
		{"halves", []appsv1beta1.WorkloadSpreadSubset{subset("a", "50%"), subset("b", "50%")}, true},
		{"no pod in the first subset", []appsv1beta1.WorkloadSpreadSubset{subset("a", "0%"), subset("b", "60%"), subset("c", "40%")}, true},
		{"ten tenths", tenths, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			for from := range int32(30) {
				for to := range from {
					o := filled(spreading(ours, "CloneSet", tc.subsets...), from)
					price(o)
					over := func() (n int) {
						for i, has := range division(o.ws, o.pods) {
							if most := limit(&o.ws.Spec.Subsets[i], to); most != unlimited {
								n += max(has-int(most), 0)
							}
						}
						return n
					}
					before := over()
					scaleIn(&o, int(to))
					got := division(o.ws, o.pods)
					require.LessOrEqual(t, over(), max(before-int(from-to), 0), "%d to %d: %v: each deletion is one from a subset with too many", from, to, got)
					if tc.alike {
						require.Equal(t, fillSubsets(o.ws, to), got, "%d to %d", from, to)
					}
				}
			}
		})
	}
}

func TestCostsAreForWorkloadsThatReadThem(t *testing.T) {
	t.Parallel()
	for owner, reads := range map[[2]string]bool{
		{"apps/v1", "ReplicaSet"}: true, {"apps.kruise.io/v1alpha1", "CloneSet"}: true, {ours, "CloneSet"}: true,
		{"apps/v1", "StatefulSet"}: false, {ours, "StatefulSet"}: false, {"batch/v1", "Job"}: false, {"game.kruise.io/v1", "GameServer"}: false,
	} {
		for _, most := range []any{5, "50%"} {
			o := observedFor(spreading("argoproj.io/v1alpha1", "Rollout", subset("a", most), subset("b", unlimited)), stored("1", "a", owned(owner[0], owner[1])))
			o.listed = []scaletarget.Listed{{Kind: schema.GroupVersionKind{Group: "argoproj.io", Version: "v1alpha1", Kind: "Rollout"}}}
			require.Equal(t, reads, price(o) > 0, "%s %s", owner[1], most)
		}
	}
}

func TestPodsThatAreNotReadyHaveTheLowestCostsOfTheirSubset(t *testing.T) {
	t.Parallel()
	o := filled(thirds(t), 9)
	for _, pod := range o.pods {
		ready(pod)
	}
	price(o)
	require.Zero(t, price(o))
	o.pods[0].Status.Conditions = nil
	require.Equal(t, 2, price(o), "the pod and another one swap costs")
	for _, pod := range o.pods[1:4] { // Pods of the first subset.
		require.Greater(t, pod.Annotations[keys.PodDeletionCost], o.pods[0].Annotations[keys.PodDeletionCost])
	}
}

// The webhook predicts the controller's cost, so that the controller need not write to each new pod.
func TestNewPodsGetTheCostThatTheControllerGives(t *testing.T) {
	t.Parallel()
	o := observedFor(thirds(t))
	o.total, o.target = 9, cloneSetOf(9)
	c := store(t, o.ws, o.target)
	s := spreaderOf(c, c)
	for n := range 9 {
		pod := newPodOf(ours, "CloneSet", "web", "set")
		pod.Name = strconv.Itoa(n)
		f, err := s.observe(t.Context(), c, pod)
		require.NoError(t, err)
		require.NoError(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod))
		f.Change(pod)
		o.pods = append(o.pods, pod)
		require.Zero(t, price(o))
	}
	require.Equal(t, []int{4, 3, 2}, division(o.ws, o.pods))
}

// Raising replicas from 3 to 6 creates three pods before the controller has counted with the new number.
func TestAHigherPercentageCountsAtOnce(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		kind   string
		target client.Object
		cached bool
	}{
		{"CloneSet", cloneSetOf(6), true},
		{"CloneSet", cloneSetOf(6), false},
		{"Job", jobOf(6), false},
	} {
		t.Run(fmt.Sprint(tc.kind, tc.cached), func(t *testing.T) {
			t.Parallel()
			group := map[bool]string{true: "batch/v1", false: ours}[tc.kind == "Job"]
			ws := thirds(t)
			ws.Spec.TargetRef.APIVersion, ws.Spec.TargetRef.Kind = group, tc.kind
			ledger(ws, versionIgnored, line("a", 2, 0), line("b", 1, 0), line("c", 0, 1))
			live := store(t, ws, tc.target)
			cache := live
			if !tc.cached {
				cache = interceptor.NewClient(live, interceptor.Funcs{
					Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, into client.Object, opts ...client.GetOption) error {
						if set, ok := into.(*appsv1beta1.CloneSet); ok {
							cloneSetOf(3).DeepCopyInto(set)
							return nil
						}
						return c.Get(ctx, k, into, opts...)
					},
				})
			}
			s := spreaderOf(cache, live)
			got := map[string]int{}
			for range 3 {
				pod := newPodOf(group, tc.kind, "web", tc.target.GetUID())
				f, err := s.observe(t.Context(), cache, pod)
				require.NoError(t, err)
				require.NoError(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod))
				f.Change(pod)
				m, _ := matchedOf(pod)
				got[m.Subset]++
			}
			require.Equal(t, map[string]int{"a": 1, "b": 1, "c": 1}, got)
		})
	}
}
