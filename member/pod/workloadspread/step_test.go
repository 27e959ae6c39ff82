package workloadspread

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/admission"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// spreaderOf returns a spreader with these clients.
func spreaderOf(c client.Client, live client.Reader) *spreader {
	s := newSpreader("flotilla-system", versions{"deployment", "replicaset"}, true, clocktesting.NewFakeClock(noon))
	s.setClients(c, live)
	return s
}

// listing returns the ConfigMap with this text as the list of kinds.
func listing(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "flotilla-system", Name: scaletarget.ConfigMap}, Data: map[string]string{scaletarget.KeyWorkloadSpread: text},
	}
}

func deploymentOf() *appsv1.Deployment {
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "deployment"}, Spec: appsv1.DeploymentSpec{Replicas: new(int32(3))}}
}

func setOf(revision, hash string) *appsv1.ReplicaSet {
	return &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: "web-" + hash, UID: "rs", Labels: map[string]string{keys.PodTemplateHash: hash},
		Annotations:     map[string]string{"deployment.kubernetes.io/revision": revision},
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web", UID: "deployment", Controller: new(true)}},
	}}
}

func podOfSet() *corev1.Pod {
	pod := newPodOf("apps/v1", "ReplicaSet", "web-new", "rs")
	version("new")(pod)
	return pod
}

func ordinalPod(group, name string) *corev1.Pod {
	pod := newPodOf(group, "StatefulSet", "web", "sts")
	pod.GenerateName, pod.Name = "", name
	return pod
}

func TestStep(t *testing.T) {
	t.Parallel()
	two := func() *appsv1beta1.WorkloadSpread {
		return spreading(ours, "CloneSet", subset("a", 1), subset("b", unlimited))
	}
	refuses := func(ws *appsv1beta1.WorkloadSpread) { ws.Spec.OverflowPolicy = appsv1beta1.OverflowRefuse }
	games := `{"workloads":[{"Group":"game.kruise.io","Version":"v1","Kind":"GameServerSet"}]}`
	advanced := &appsv1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "sts"},
		Spec: appsv1beta1.StatefulSetSpec{
			Ordinals: &appsv1.StatefulSetOrdinals{Start: 5}, ReserveOrdinals: []intstr.IntOrString{intstr.FromInt(6), intstr.FromString("8-9")},
		},
	}
	native := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "sts"}, Spec: appsv1.StatefulSetSpec{Ordinals: &appsv1.StatefulSetOrdinals{Start: 3}},
	}
	for _, tc := range []struct {
		name    string
		known   []client.Object
		pod     *corev1.Pod
		subset  string
		writes  int
		why     string
		refused string
		fault   string
	}{
		{name: "a pod without a controller", known: []client.Object{two()}, pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace}}, why: "the pod has no controller"},
		{name: "a namespace without a WorkloadSpread", pod: newPodOf(ours, "CloneSet", "web", "set"), why: "the namespace has no WorkloadSpread"},
		{name: "a pod of another workload", known: []client.Object{two()}, pod: newPodOf("batch/v1", "Job", "other", "job"), why: "no WorkloadSpread has Job.batch other as its target"},
		{name: "a place is taken", known: []client.Object{two(), cloneSetOf(3)}, pod: newPodOf(ours, "CloneSet", "web", "set"), subset: "a", writes: 1, why: "web assigns it to subset a"},
		{name: "another version of the kind", known: []client.Object{two(), cloneSetOf(3)}, pod: newPodOf("apps.kruise.io/v1alpha1", "CloneSet", "web", "set"), subset: "a", writes: 1},
		{
			name: "places without a limit take no write", known: []client.Object{ledger(two(), versionIgnored, line("a", 1, 0), line("b", 0, unlimited)), cloneSetOf(3)},
			pod: newPodOf(ours, "CloneSet", "web", "set"), subset: "b",
		},
		{name: "the only subset takes no write", known: []client.Object{spreading(ours, "CloneSet", subset("a", unlimited))}, pod: newPodOf(ours, "CloneSet", "web", "set"), subset: "a"},
		{
			name: "all subsets are full", known: []client.Object{ledger(spreading(ours, "CloneSet", subset("a", 1)), versionIgnored, line("a", 1, 0)), cloneSetOf(3)},
			pod: newPodOf(ours, "CloneSet", "web", "set"), why: "all subsets of web are full",
		},
		{
			name: "all subsets are full, for a pod whose template names a subset", known: []client.Object{ledger(spreading(ours, "CloneSet", subset("a", 1)), versionIgnored, line("a", 1, 0)), cloneSetOf(3)},
			pod: func() *corev1.Pod {
				pod := newPodOf(ours, "CloneSet", "web", "set")
				pod.Annotations = map[string]string{keys.MatchedWorkloadSpread: matched{Name: "web", Subset: "a"}.String()}
				return pod
			}(), why: "all subsets of web are full",
		},
		{
			name: "all subsets are full, with overflowPolicy Refuse", known: []client.Object{with(ledger(spreading(ours, "CloneSet", subset("a", 1)), versionIgnored, line("a", 1, 0)), refuses), cloneSetOf(3)},
			pod: newPodOf(ours, "CloneSet", "web", "set"), refused: "all subsets of web are full, and its overflowPolicy is Refuse",
		},
		{name: "percentages of a CloneSet", known: []client.Object{spreading(ours, "CloneSet", subset("a", "0%"), subset("b", "100%")), cloneSetOf(3)}, pod: newPodOf(ours, "CloneSet", "web", "set"), subset: "b", writes: 1},
		{
			name: "percentages of a Job, which is read from the apiserver", known: []client.Object{spreading("batch/v1", "Job", subset("a", "0%"), subset("b", "100%")), jobOf(4)},
			pod: newPodOf("batch/v1", "Job", "web", "job"), subset: "b", writes: 1, why: "assigns it to subset b",
		},
		{
			name: "a pod of a Deployment by its version", known: []client.Object{
				ledger(spreading("apps/v1", "Deployment", subset("a", 1), subset("b", 9)), "old", line("a", 1, 0), line("b", 1, 8)), deploymentOf(), setOf("2", "new"),
			}, pod: podOfSet(), subset: "a", writes: 1,
		},
		{name: "a ReplicaSet that neither the cache nor the apiserver has", known: []client.Object{spreading("apps/v1", "Deployment", subset("a", 1)), deploymentOf()}, pod: podOfSet(), why: "ReplicaSet.apps web-new, a controller of the pod, is unknown"},
		{name: "an ordinal after start and reserved ones", known: []client.Object{spreading(ours, "StatefulSet", subset("a", 2), subset("b", 2)), advanced}, pod: ordinalPod(ours, "web-7"), subset: "a"},
		{name: "the next ordinal", known: []client.Object{spreading(ours, "StatefulSet", subset("a", 2), subset("b", 2)), advanced}, pod: ordinalPod(ours, "web-10"), subset: "b"},
		{name: "an ordinal of a StatefulSet of apps", known: []client.Object{spreading("apps/v1", "StatefulSet", subset("a", 2), subset("b", 2)), native}, pod: ordinalPod("apps/v1", "web-5"), subset: "b"},
		{name: "an ordinal without room", known: []client.Object{spreading("apps/v1", "StatefulSet", subset("a", 2), subset("b", 2)), native}, pod: ordinalPod("apps/v1", "web-7"), why: "full"},
		{name: "a kind that is no longer listed", known: []client.Object{spreading("game.kruise.io/v1", "GameServerSet", subset("a", 1))}, pod: newPodOf("game.kruise.io/v1", "GameServerSet", "web", "g"), why: "GameServerSet.game.kruise.io is not listed in ConfigMap kruise-configuration"},
		{name: "a kind that is listed", known: []client.Object{spreading("game.kruise.io/v1", "GameServerSet", subset("a", 1)), listing(games)}, pod: newPodOf("game.kruise.io/v1", "GameServerSet", "web", "g"), subset: "a", writes: 1},
		{
			name: "a filter", known: []client.Object{with(two(), func(ws *appsv1beta1.WorkloadSpread) {
				ws.Spec.TargetFilter = &appsv1beta1.WorkloadSpreadTargetFilter{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"role": "worker"}}}
			}), cloneSetOf(1)}, pod: newPodOf(ours, "CloneSet", "web", "set"), why: "web does not select the pod",
		},
		{name: "an invalid patch refuses the pod", known: []client.Object{spreading(ours, "CloneSet", subset("a", unlimited, patching(`{"spec":{"containers":7}}`)))}, pod: newPodOf(ours, "CloneSet", "web", "set"), fault: "subset a of WorkloadSpread web: read the patched pod"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			writes := 0
			c := interceptor.NewClient(store(t, tc.known...), interceptor.Funcs{
				SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
					writes++
					return c.SubResource(sub).Update(ctx, o, opts...)
				},
			})
			s := spreaderOf(c, c)
			before := tc.pod.DeepCopy()
			f, err := s.step().Observe(t.Context(), c, tc.pod)
			require.NoError(t, err)
			dry := tc.pod.DeepCopy()
			f.Change(dry)
			require.Zero(t, writes, "a dry run writes nothing")
			if r, ok := f.(podwebhook.Reserver); ok {
				err = r.Reserve(t.Context(), tc.pod)
			}
			require.Empty(t, cmp.Diff(before, tc.pod), "only Change changes the pod")
			var refused podwebhook.RefusedError
			if tc.refused != "" {
				require.ErrorAs(t, err, &refused)
				require.ErrorContains(t, err, tc.refused)
				return
			}
			if tc.fault != "" {
				require.ErrorContains(t, err, tc.fault)
				return
			}
			require.NoError(t, err)
			why := f.Change(tc.pod)
			require.Contains(t, why, tc.why)
			require.Equal(t, tc.writes, writes)
			m, has := matchedOf(tc.pod)
			require.Equal(t, tc.subset != "", has, why)
			if !has {
				delete(before.Annotations, keys.MatchedWorkloadSpread)
				if strings.Contains(why, "full") && usesDeletionCost(tc.pod) {
					cost("-200")(before)
				}
				require.Empty(t, cmp.Diff(before, tc.pod))
				return
			}
			require.Equal(t, tc.subset, m.Subset)
			require.Equal(t, "web", m.Name)
			if tc.writes > 0 {
				var ws appsv1beta1.WorkloadSpread
				require.NoError(t, c.Get(t.Context(), key, &ws))
				v := s.versions.versionOf(scaletarget.SpreadTarget(&ws).Kind.GroupKind(), tc.pod)
				require.Contains(t, statusOf(ws.Status.VersionedSubsetStatuses[v], tc.subset).CreatingPods, m.UID)
			}
			if usesDeletionCost(tc.pod) {
				require.NotEmpty(t, tc.pod.Annotations[keys.PodDeletionCost], "the controller doesn't have to write the cost")
			}
		})
	}
}

// TestExplained tests what kubectl kruise explain shows.
func TestExplained(t *testing.T) {
	t.Parallel()
	full := ledger(spreading(ours, "CloneSet", subset("a", 1)), versionIgnored, line("a", 1, 0))
	for _, tc := range []struct {
		name  string
		known []client.Object
		pod   *corev1.Pod
		want  admission.Outcome
	}{
		{
			name: "a subset with a limit", known: []client.Object{spreading(ours, "CloneSet", subset("a", 1)), cloneSetOf(3)}, pod: newPodOf(ours, "CloneSet", "web", "set"),
			want: admission.Outcome{Changed: true, Why: "web assigns it to subset a"},
		},
		{
			name: "no room", known: []client.Object{full.DeepCopy(), cloneSetOf(3)}, pod: newPodOf(ours, "CloneSet", "web", "set"),
			want: admission.Outcome{Changed: true, Why: "all subsets of web are full: it is assigned to none"},
		},
		{
			name: "percentages of a kind that is not cached", known: []client.Object{spreading("batch/v1", "Job", subset("a", "100%")), jobOf(4)}, pod: newPodOf("batch/v1", "Job", "web", "job"),
			want: admission.Outcome{Why: "web chooses by a percentage of the workload's replicas, which a dry run does not read"},
		},
		{
			name: "another workload", known: []client.Object{full.DeepCopy()}, pod: newPodOf("batch/v1", "Job", "other", "job"),
			want: admission.Outcome{Why: "no WorkloadSpread has Job.batch other as its target"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := store(t, tc.known...)
			_, out := admission.Run(t.Context(), c, []podwebhook.Step{spreaderOf(c, c).step()}, tc.pod, true)
			tc.want.Feature = Feature
			require.Equal(t, []admission.Outcome{tc.want}, out)
			var live appsv1beta1.WorkloadSpread
			require.NoError(t, c.Get(t.Context(), key, &live))
			for _, s := range live.Status.VersionedSubsetStatuses[versionIgnored] {
				require.Empty(t, s.CreatingPods, "no place is taken")
			}
		})
	}
}

// TestOrdinalsOfAStatefulSetThatTheCacheDoesNotShow: the first pods of the StatefulSet are created at once.
func TestOrdinalsOfAStatefulSetThatTheCacheDoesNotShow(t *testing.T) {
	t.Parallel()
	ws := spreading("apps/v1", "StatefulSet", subset("a", 2), subset("b", 2))
	set := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "sts"}, Spec: appsv1.StatefulSetSpec{Ordinals: &appsv1.StatefulSetOrdinals{Start: 3}},
	}
	cache := store(t, ws)
	s := spreaderOf(cache, store(t, ws, set))
	pod := ordinalPod("apps/v1", "web-3")
	f, err := s.observe(t.Context(), cache, pod)
	require.NoError(t, err)
	require.NoError(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod))
	f.Change(pod)
	m, _ := matchedOf(pod)
	require.Equal(t, "a", m.Subset)
}

// The cache of a replica shows the workload and the status from before a scale-out.
func TestNoPodIsLeftOutByAnOutdatedNumberOfReplicas(t *testing.T) {
	t.Parallel()
	ws := spreading(ours, "CloneSet", subset("a", "50%"), subset("b", "50%"))
	live := store(t, ws, cloneSetOf(10))
	var stale, current appsv1beta1.WorkloadSpread
	require.NoError(t, live.Get(t.Context(), key, &stale))
	stale.DeepCopyInto(&current)
	ledger(&current, versionIgnored, line("a", 1, 0), line("b", 1, 0))
	require.NoError(t, live.Status().Update(t.Context(), &current))
	behind := interceptor.NewClient(live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			switch into := into.(type) {
			case *appsv1beta1.WorkloadSpread:
				stale.DeepCopyInto(into)
				return nil
			case *appsv1beta1.CloneSet:
				cloneSetOf(2).DeepCopyInto(into)
				return nil
			}
			return c.Get(ctx, k, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if spreads, ok := into.(*appsv1beta1.WorkloadSpreadList); ok {
				spreads.Items = []appsv1beta1.WorkloadSpread{*stale.DeepCopy()}
				return nil
			}
			return c.List(ctx, into, opts...)
		},
	})
	pod := newPodOf(ours, "CloneSet", "web", "set")
	f, err := spreaderOf(behind, live).observe(t.Context(), behind, pod)
	require.NoError(t, err)
	require.NoError(t, f.(podwebhook.Reserver).Reserve(t.Context(), pod))
	require.Equal(t, "web assigns it to subset a", f.Change(pod))
}

// TestTwoReplicasNeverPromiseTheSamePlace admits pods in two replicas, one of which has a cache that never changes.
func TestTwoReplicasNeverPromiseTheSamePlace(t *testing.T) {
	t.Parallel()
	const pods, most = 200, 37
	ws := spreading(ours, "CloneSet", subset("a", most), subset("b", most), subset("c", unlimited))
	live := store(t, ws, cloneSetOf(pods))
	var stale appsv1beta1.WorkloadSpread
	require.NoError(t, live.Get(t.Context(), key, &stale))
	old := interceptor.NewClient(live, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, k client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if spread, ok := into.(*appsv1beta1.WorkloadSpread); ok {
				stale.DeepCopyInto(spread)
				return nil
			}
			return c.Get(ctx, k, into, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, into client.ObjectList, opts ...client.ListOption) error {
			if spread, ok := into.(*appsv1beta1.WorkloadSpreadList); ok {
				spread.Items = []appsv1beta1.WorkloadSpread{*stale.DeepCopy()}
				return nil
			}
			return c.List(ctx, into, opts...)
		},
	})
	replicas := []*spreader{spreaderOf(live, live), spreaderOf(old, live)}
	caches := []client.Client{live, old}
	var mu sync.Mutex
	got := map[string]int{}
	var all sync.WaitGroup
	for i := range pods {
		all.Go(func() {
			pod := newPodOf(ours, "CloneSet", "web", "set")
			f, err := replicas[i%2].observe(t.Context(), caches[i%2], pod)
			if err == nil {
				err = f.(podwebhook.Reserver).Reserve(t.Context(), pod)
			}
			if err != nil {
				t.Error(err)
				return
			}
			f.Change(pod)
			m, _ := matchedOf(pod)
			mu.Lock()
			got[m.Subset]++
			mu.Unlock()
		})
	}
	all.Wait()
	require.Equal(t, map[string]int{"a": most, "b": most, "c": pods - 2*most}, got)
	var written appsv1beta1.WorkloadSpread
	require.NoError(t, live.Get(t.Context(), key, &written))
	require.Len(t, statusOf(written.Status.VersionedSubsetStatuses[versionIgnored], "a").CreatingPods, most, fmt.Sprint(written.Status))
}
