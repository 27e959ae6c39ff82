package uniteddeployment

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/spread"
	"github.com/flotilla-io/flotilla/testkit"
)

func withAdaptive(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment {
	ud.Spec.Topology.ScheduleStrategy.Type = appsv1beta1.ScheduleAdaptive
	return ud
}

func reserve(ud *appsv1beta1.UnitedDeployment) {
	withAdaptive(ud).Spec.Topology.ScheduleStrategy.Adaptive = &appsv1beta1.AdaptiveScheduleStrategy{ReserveUnschedulablePods: true}
}

// storeClosed stores that subset a has been closed since then.
func storeClosed(ud *appsv1beta1.UnitedDeployment, since time.Time) {
	ud.Status.SubsetStatuses = append(ud.Status.SubsetStatuses, appsv1beta1.SubsetStatus{
		Name: "a", Conditions: []appsv1beta1.SubsetCondition{{
			Type: appsv1beta1.SubsetSchedulable, Status: corev1.ConditionFalse, Reason: reasonReschedule, Message: "stored",
			LastTransitionTime: metav1.NewTime(since),
		}},
	})
}

// rejectedPod returns a pod for which the scheduler has found no node since then.
func rejectedPod(name string, since time.Time) *corev1.Pod {
	pod := testkit.Pod(name).Phase(corev1.PodPending).Obj()
	pod.Spec.NodeName = ""
	pod.Status.Conditions = []corev1.PodCondition{{
		Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(since),
	}}
	return pod
}

func placedPod(name string) *corev1.Pod { return testkit.Pod(name).Node("node-1").Ready(start).Obj() }

// adaptiveOf returns a complete object with Adaptive. waiting pods of its first subset have been rejected since then.
func adaptiveOf(t *testing.T, ud *appsv1beta1.UnitedDeployment, waiting int, since time.Time) observed {
	t.Helper()
	o := observedOf(t, withAdaptive(ud))
	o.pods = map[types.UID][]*corev1.Pod{}
	for i := range o.children {
		c := &o.children[i]
		for n := range c.replicas {
			pod := placedPod(fmt.Sprintf("%s-%d", c.GetName(), n))
			if i == 0 && n >= c.replicas-waiting {
				pod = rejectedPod(pod.Name, since)
			}
			pod.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(c.workload, appsv1beta1.GroupVersion.WithKind(c.kind.Kind))}
			pod.Labels = map[string]string{"app": "web", keys.SubsetName: c.subset}
			o.pods[c.GetUID()] = append(o.pods[c.GetUID()], pod)
		}
	}
	return o
}

func TestAdapt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		total   int
		current []int // of subsets a (at most 4), b (at least 1) and c
		rooms   []room
		want    []int
	}{
		{"nothing changes", 10, []int{1, 7, 2}, nil, []int{1, 7, 2}},
		{"a scale out fills the first that has room", 12, []int{1, 7, 2}, nil, []int{3, 7, 2}},
		{"a scale out fills the next once the first is full", 20, []int{1, 7, 2}, nil, []int{4, 14, 2}},
		{"a scale in removes from the last", 9, []int{1, 7, 2}, nil, []int{1, 7, 1}},
		{"a scale in continues with the subset before", 3, []int{1, 7, 2}, nil, []int{1, 2, 0}},
		{"a new object is filled in the order of its subsets", 10, []int{0, 0, 0}, nil, []int{4, 6, 0}},
		{"a lower maximum is kept", 10, []int{6, 2, 2}, nil, []int{4, 4, 2}},
		{"a higher minimum is kept", 10, []int{4, 0, 6}, nil, []int{4, 1, 5}},
		{"a closed subset whose pods run keeps them", 10, []int{1, 7, 2}, []room{{closed: true}, {}, {}}, []int{1, 7, 2}},
		{"a closed subset gets no more replicas", 13, []int{1, 7, 2}, []room{{closed: true}, {}, {}}, []int{1, 10, 2}},
		{"waiting replicas move to the next subset", 10, []int{4, 6, 0}, []room{{}, {closed: true, waiting: 5}, {}}, []int{4, 1, 5}},
		{"waiting replicas move to an earlier subset", 10, []int{2, 6, 2}, []room{{}, {closed: true, waiting: 5}, {}}, []int{4, 1, 5}},
		{"a minimum does not keep waiting replicas", 10, []int{4, 1, 5}, []room{{}, {closed: true, waiting: 1}, {}}, []int{4, 0, 6}},
		{"a minimum does not fill a closed subset", 10, []int{4, 0, 6}, []room{{}, {closed: true}, {}}, []int{4, 0, 6}},
		{"a scale in removes waiting replicas first", 7, []int{4, 6, 0}, []room{{}, {closed: true, waiting: 5}, {}}, []int{4, 1, 2}},
		{
			"waiting replicas that no other subset may take stay", 10,
			[]int{4, 4, 2},
			[]room{{closed: true, waiting: 1}, {closed: true, waiting: 2}, {closed: true, waiting: 2}},
			[]int{4, 4, 2},
		},
		{
			"waiting replicas move as far as an open subset may take them", 10,
			[]int{2, 6, 2},
			[]room{{}, {closed: true, waiting: 3}, {closed: true}},
			[]int{4, 4, 2},
		},
		{
			"new replicas that no open subset may take wait too", 12,
			[]int{4, 4, 2},
			[]room{{closed: true, waiting: 1}, {closed: true, waiting: 2}, {closed: true, waiting: 2}},
			[]int{4, 6, 2},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			subsets := []spread.Subset{{Name: "a", Max: number("4")}, {Name: "b", Min: number("1")}, {Name: "c"}}
			for i, n := range tt.current {
				subsets[i].Current = n
			}
			rooms := tt.rooms
			if rooms == nil {
				rooms = make([]room, len(subsets))
			}
			d, _ := adapt(tt.total, subsets, rooms)
			require.False(t, d.Ineffective)
			require.Zero(t, d.Unallocated)
			require.Empty(t, d.Why)
			require.Equal(t, tt.want, d.Targets)

			for i := range subsets { // The state after that, without the pods that waited.
				subsets[i].Current = d.Targets[i]
				rooms[i].waiting = max(rooms[i].waiting-(tt.current[i]-d.Targets[i]), 0)
			}
			d, _ = adapt(tt.total, subsets, rooms)
			require.Equal(t, tt.want, d.Targets, "the division is stable")
		})
	}
}

func TestAdaptWithoutNumbersFillsTheFirst(t *testing.T) {
	t.Parallel()
	subsets := []spread.Subset{{Name: "a"}, {Name: "b"}}
	d, _ := adapt(5, subsets, make([]room, 2))
	require.Equal(t, []int{5, 0}, d.Targets)
	d, _ = adapt(5, subsets, []room{{closed: true}, {}})
	require.Equal(t, []int{0, 5}, d.Targets)
}

func TestMovable(t *testing.T) {
	t.Parallel()
	cs, ds := cloneSets().GroupKind(), deployments().GroupKind()
	ns, as := statefulSets().GroupKind(), advancedSets().GroupKind()
	pods := func(say string) (out []*corev1.Pod) {
		for i, c := range say {
			name := fmt.Sprintf("web-%d", i)
			switch c {
			case 'P':
				out = append(out, placedPod(name))
			case 'w':
				out = append(out, rejectedPod(name, start))
			case 'n': // not looked at by the scheduler yet
				pod := rejectedPod(name, start)
				pod.Status.Conditions = nil
				out = append(out, pod)
			case 'g': // gated
				pod := rejectedPod(name, start)
				pod.Status.Conditions[0].Reason = corev1.PodReasonSchedulingGated
				out = append(out, pod)
			case 't':
				pod := rejectedPod(name, start)
				pod.DeletionTimestamp = &metav1.Time{Time: start}
				out = append(out, pod)
			}
		}
		return out
	}
	for _, tt := range []struct {
		name   string
		child  child
		pods   string // P: has a node, w: waits, n: new, g: gated, t: terminating; in the order of ordinals
		counts counts
		want   int
	}{
		{"waiting pods of a CloneSet", child{kind: cs, replicas: 4}, "PPww", counts{pods: 4, updated: 4}, 2},
		{"waiting pods of a Deployment", child{kind: ds, replicas: 4}, "PPww", counts{pods: 4, updated: 4}, 2},
		{"no waiting pods", child{kind: cs, replicas: 4}, "PPng", counts{pods: 4, updated: 4}, 0},
		{"surplus pods are deleted anyway", child{kind: cs, replicas: 3}, "PPww", counts{pods: 4, updated: 4}, 1},
		{"at most as many as have no node", child{kind: cs, replicas: 2}, "PPww", counts{pods: 4, updated: 4}, 0},
		{"terminating pods don't count", child{kind: cs, replicas: 2}, "PPt", counts{pods: 2, updated: 2}, 0},
		{"replicas without a pod behind a waiting pod", child{kind: cs, replicas: 5}, "Pw", counts{pods: 2, updated: 2}, 4},
		{"replicas without a pod while the cache lags", child{kind: cs, replicas: 5}, "Pw", counts{pods: 4, updated: 4}, 1},
		{"pods of two revisions", child{kind: cs, replicas: 4}, "PPPw", counts{pods: 4, updated: 1}, 0},
		{"pods of the old revision only", child{kind: cs, replicas: 4}, "PPPw", counts{pods: 4}, 1},
		{"the controller has not observed the spec", child{kind: cs, replicas: 4, observed: -1}, "PPww", counts{pods: 4, updated: 4}, 0},
		{"waiting pods of the highest ordinals", child{kind: ns, replicas: 4}, "PPww", counts{pods: 4, updated: 4}, 2},
		{"no waiting pod below a pod with a node", child{kind: as, replicas: 4}, "wPPw", counts{pods: 4, updated: 4}, 1},
		{"a waiting pod below a pod with a node", child{kind: ns, replicas: 3}, "PwP", counts{pods: 3, updated: 3}, 0},
		{"replicas that an ordered StatefulSet has not created", child{kind: ns, replicas: 5}, "Pw", counts{pods: 2, updated: 2}, 4},
		{"waiting pods of a StatefulSet during an update", child{kind: ns, replicas: 3}, "PPw", counts{pods: 3, updated: 1}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := tt.child
			c.workload, c.counts = &appsv1.Deployment{}, tt.counts
			require.Equal(t, tt.want, c.movable(pods(tt.pods)))
		})
	}
}

func TestRoomOpensAndCloses(t *testing.T) {
	t.Parallel()
	ago := func(seconds int) time.Time { return now.Add(-time.Duration(seconds) * time.Second) }
	open := func(ud *appsv1beta1.UnitedDeployment) {
		storeClosed(ud, ago(1000))
		ud.Status.SubsetStatuses[0].Conditions[0].Status = corev1.ConditionTrue
	}
	closed := func(seconds int) func(*appsv1beta1.UnitedDeployment) {
		return func(ud *appsv1beta1.UnitedDeployment) { storeClosed(ud, ago(seconds)) }
	}
	tuned := func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Topology.ScheduleStrategy.Adaptive = &appsv1beta1.AdaptiveScheduleStrategy{
			RescheduleCriticalSeconds: ptr.To[int32](10), UnschedulableDuration: ptr.To[int32](60),
		}
	}
	for _, tt := range []struct {
		name    string
		change  []func(*appsv1beta1.UnitedDeployment)
		waits   []int // seconds since pods were rejected
		status  corev1.ConditionStatus
		turned  bool
		recheck int
	}{
		{name: "a subset without waiting pods has no condition"},
		{name: "a subset with waiting pods is rechecked after the duration", waits: []int{5, 12}, recheck: 18},
		{name: "a subset closes after the duration", waits: []int{5, 30}, status: corev1.ConditionFalse, turned: true, recheck: 25},
		{name: "the duration until a subset closes can be set", change: []func(*appsv1beta1.UnitedDeployment){tuned}, waits: []int{10}, status: corev1.ConditionFalse, turned: true},
		{name: "a subset that was closed before closes again", change: []func(*appsv1beta1.UnitedDeployment){open}, waits: []int{31}, status: corev1.ConditionFalse, turned: true},
		{name: "an open subset stays open", change: []func(*appsv1beta1.UnitedDeployment){open}, status: corev1.ConditionTrue},
		{name: "a closed subset is rechecked when it is to open", change: []func(*appsv1beta1.UnitedDeployment){closed(100)}, status: corev1.ConditionFalse, recheck: 200},
		{name: "a closed subset opens after the duration", change: []func(*appsv1beta1.UnitedDeployment){closed(300)}, status: corev1.ConditionTrue, turned: true},
		{name: "the duration until a subset opens can be set", change: []func(*appsv1beta1.UnitedDeployment){closed(60), tuned}, status: corev1.ConditionTrue, turned: true},
		{name: "a closed subset stays closed while pods wait in it", change: []func(*appsv1beta1.UnitedDeployment){closed(900)}, waits: []int{500}, status: corev1.ConditionFalse},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := withAdaptive(web("a"))
			for _, c := range tt.change {
				c(ud)
			}
			var pods []*corev1.Pod
			for i, s := range tt.waits {
				pods = append(pods, rejectedPod(fmt.Sprint("p", i), ago(s)))
			}
			before := ud.DeepCopy()
			r := roomOf(ud, "a", nil, pods, now)
			require.Equal(t, before, ud)
			require.Equal(t, tt.turned, r.turned)
			require.Equal(t, time.Duration(tt.recheck)*time.Second, r.recheck)
			if tt.status == "" {
				require.Nil(t, r.condition)
				return
			}
			require.Equal(t, tt.status, r.condition.Status)
			if tt.turned {
				require.Equal(t, now.Truncate(time.Second), r.condition.LastTransitionTime.Time)
			}
			require.Equal(t, r, roomOf(ud, "a", nil, pods, now))
		})
	}
}

func TestWithFixedNoSubsetHasACondition(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a"))
	storeClosed(o.ud, now)
	p, d := reconcileStatus(o)
	s, _ := status(o, p, d, now)
	require.Empty(t, s.SubsetStatuses[0].Conditions)
	s.Replicas--
	require.False(t, mayWait(o.ud.Status, s, p))
}

func TestASubsetThatClosesIsStoredAtOnceAndReported(t *testing.T) {
	t.Parallel()
	o := adaptiveOf(t, web("a", "b"), 4, now.Add(-31*time.Second))
	p, d := reconcileStatus(o)
	s, events := status(o, p, d, now)
	require.Equal(t, []appsv1beta1.SubsetCondition{{
		Type: appsv1beta1.SubsetSchedulable, Status: corev1.ConditionFalse, Reason: "reschedule",
		Message: "4 pod(s) could not be scheduled within 30s", LastTransitionTime: metav1.NewTime(now.Truncate(time.Second)),
	}}, s.SubsetStatuses[0].Conditions)
	require.Empty(t, s.SubsetStatuses[1].Conditions)
	require.Len(t, events, 1)
	require.Equal(t, reasonSubsetUnschedulable, events[0].Reason)
	s.AvailableReplicas--
	require.False(t, mayWait(o.ud.Status, s, p))
	require.Equal(t, int32(10), p.subsets[0].replicas, "the subset keeps its replicas until the condition is stored")
}

func TestNoReplicaLeavesWithAPodThatHasGotANode(t *testing.T) {
	t.Parallel()
	o := adaptiveOf(t, web("a", "b"), 4, now.Add(-31*time.Second))
	storeClosed(o.ud, now)
	a, b := o.children[0], o.children[1]
	live := func(waiting int) (*Reconciler, applied) {
		var known []client.Object
		for _, c := range []child{a, b} {
			w := c.DeepCopyObject().(client.Object)
			known = append(known, w)
		}
		known = append(known, o.history[0].DeepCopy())
		for i, pod := range o.pods[a.GetUID()] {
			scheduled := pod.DeepCopy()
			if _, waits := rejected(pod); waits && i < len(o.pods[a.GetUID()])-waiting {
				scheduled.Spec.NodeName = "node-1"
			}
			known = append(known, scheduled)
		}
		r, _ := reconciler(t, func(client.Object) error { return nil }, known...)
		return r, r.apply(t.Context(), o, plan(o, now), now)
	}
	replicas := func(r *Reconciler, c child) int32 {
		set := &appsv1beta1.CloneSet{}
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(c), set))
		return *set.Spec.Replicas
	}

	r, d := live(3)
	require.NoError(t, d.err())
	require.True(t, d.late, "the watch event of the pod starts the next reconcile")
	require.Equal(t, int32(10), replicas(r, a), "the cache has 4 waiting pods, the apiserver 3")
	require.Zero(t, replicas(r, b))

	r, d = live(4)
	require.NoError(t, d.err())
	require.False(t, d.late)
	require.Equal(t, int32(6), replicas(r, a))
	require.Equal(t, int32(4), replicas(r, b))
}

func TestPodsOfADeploymentAreThoseOfItsReplicaSets(t *testing.T) {
	t.Parallel()
	o := observedOf(t, asDeployment(web("a")))
	pod := placedPod("web-a-5d4-x")
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-a-5d4", UID: "rs", Controller: new(true)}}
	require.True(t, o.children[0].controls(pod))
	pod.OwnerReferences[0].Name = "web-ab-5d4"
	require.False(t, o.children[0].controls(pod))
	pod.OwnerReferences[0].Kind = "Job"
	require.False(t, o.children[0].controls(pod))
}

func TestPodEventsOfAdaptiveObjects(t *testing.T) {
	t.Parallel()
	pod := placedPod("web-a-1")
	require.False(t, placementChanged(pod, pod.DeepCopy()))
	waits := rejectedPod("web-a-1", start)
	require.True(t, placementChanged(waits, pod))
	terminating := pod.DeepCopy()
	terminating.DeletionTimestamp = &metav1.Time{Time: start}
	require.True(t, placementChanged(pod, terminating))

	own, fixed, federated := withAdaptive(web("a")), web("a"), withAdaptive(web("a"))
	fixed.Name, federated.Name = "fixed", "federated"
	federated.Spec.Topology.Subsets[0].Cluster = "east"
	r, _ := reconciler(t, func(client.Object) error { return nil }, own, fixed, federated)
	pod.Namespace, pod.Labels = own.Namespace, map[string]string{"app": "web"}
	require.Empty(t, r.forPod(t.Context(), pod), "the pod belongs to no subset")
	pod.Labels[keys.SubsetName] = "a"
	requests := r.forPod(t.Context(), pod)
	require.Len(t, requests, 1)
	require.Equal(t, "web", requests[0].Name)
	pod.Labels["app"] = "shop"
	require.Empty(t, r.forPod(t.Context(), pod))
}
