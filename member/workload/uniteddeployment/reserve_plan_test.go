package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/spread"
)

// withReserved stores how many pods of subset a are reserved.
func withReserved(ud *appsv1beta1.UnitedDeployment, replicas, reserved int32) {
	storeClosed(ud, now.Add(-time.Minute))
	line := &ud.Status.SubsetStatuses[len(ud.Status.SubsetStatuses)-1]
	line.Replicas, line.ReservedPods = replicas, reserved
}

// reservingOf is adaptiveOf with reserveUnschedulablePods: the waiting pods are reserved, and others run in b in their place.
func reservingOf(t *testing.T, waiting int) observed {
	t.Helper()
	ud := web("a", "b")
	reserve(ud)
	o := adaptiveOf(t, ud, waiting, now.Add(-time.Minute))
	o.refreshRevision(t)
	withReserved(o.ud, 10, int32(waiting))
	for _, pod := range o.pods[o.children[0].GetUID()] {
		if _, ok := rejected(pod); ok {
			pod.Labels[keys.SubsetReserved] = "true"
		}
	}
	allowing(o, (10-waiting+4)/5+waiting)
	return o
}

// allowing sets maxUnavailable of the workload of subset a.
func allowing(o observed, n int) {
	o.children[0].workload.(*appsv1beta1.CloneSet).Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt(n))
}

func TestAdaptAroundReservedPods(t *testing.T) {
	t.Parallel()
	held := func(n ...int) (rooms []room) {
		for _, n := range n {
			rooms = append(rooms, room{closed: n > 0, reserved: reservation{count: n, held: n}})
		}
		return rooms
	}
	closedSubsets := func(n ...int) []room {
		rooms := held(n...)
		for i := range rooms {
			rooms[i].closed = true
		}
		return rooms
	}
	for _, tt := range []struct {
		name    string
		total   int
		current []int // of subsets a (at most 4), b (at least 1, at most 60%) and c, with reserved pods
		rooms   []room
		want    []int
		kept    []int
	}{
		{"replacements of reserved pods run in the next subset", 10, []int{4, 6, 0}, held(2, 0, 0), []int{4, 6, 2}, []int{2, 0, 0}},
		{"replacements of reserved pods stay", 10, []int{4, 6, 2}, held(2, 0, 0), []int{4, 6, 2}, []int{2, 0, 0}},
		{"a reserved pod that runs takes the place of a replacement", 10, []int{4, 6, 2}, held(1, 0, 0), []int{4, 6, 1}, []int{1, 0, 0}},
		{"all reserved pods that run take the places of replacements", 10, []int{4, 6, 2}, held(0, 0, 0), []int{4, 6, 0}, []int{0, 0, 0}},
		{"replacements may be reserved too", 10, []int{4, 6, 2}, held(2, 3, 0), []int{4, 6, 5}, []int{2, 3, 0}},
		{"pods in the last subset are reserved without replacements", 10, []int{4, 6, 5}, closedSubsets(2, 3, 1), []int{4, 6, 5}, []int{2, 3, 1}},
		{"a scale out fills the next subset", 15, []int{4, 6, 2}, held(2, 0, 0), []int{4, 9, 4}, []int{2, 0, 0}},
		{"a scale in removes other pods and excess reserved pods", 8, []int{4, 6, 2}, held(2, 0, 0), []int{4, 5, 1}, []int{2, 0, 0}},
		{"a scale in below the running pods leaves none reserved", 2, []int{4, 1, 2}, held(2, 0, 0), []int{1, 1, 0}, []int{0, 0, 0}},
		{"reserved pods count for the maximum", 10, []int{6, 4, 0}, held(5, 0, 0), []int{4, 6, 3}, []int{3, 0, 0}},
		{"new replicas wait too while all subsets are closed", 16, []int{4, 6, 3}, closedSubsets(2, 1, 1), []int{4, 9, 3}, []int{2, 1, 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			subsets := []spread.Subset{{Name: "a", Max: number("4")}, {Name: "b", Min: number("1"), Max: number("60%")}, {Name: "c"}}
			for i, n := range tt.current {
				subsets[i].Current = n
			}
			d, kept := adapt(tt.total, subsets, tt.rooms)
			require.False(t, d.Ineffective)
			require.Zero(t, d.Unallocated)
			require.Equal(t, tt.want, d.Targets)
			require.Equal(t, tt.kept, kept)

			for i := range subsets {
				subsets[i].Current = d.Targets[i]
				tt.rooms[i].reserved.held = kept[i]
			}
			d, kept = adapt(tt.total, subsets, tt.rooms)
			require.Equal(t, tt.want, d.Targets, "the division is stable")
			require.Equal(t, tt.kept, kept)
		})
	}
}

func TestReservedPods(t *testing.T) {
	t.Parallel()
	ago := func(s int) time.Time { return now.Add(-time.Duration(s) * time.Second) }
	for _, tt := range []struct {
		name string
		// R: ready, n: has a node and is not ready, w: waits for 10 s, W: waits for 30 s; r: reserved and waits, p: reserved and ready for
		// 299 s, P: for 300 s, t: reserved and terminating
		pods                   string
		replicas, stored, want int
		mark, release          []string
		open                   bool
		recheck                int
	}{
		{name: "pods that wait for a short time are not reserved", pods: "RRww", replicas: 4},
		{name: "pods that wait for long enough are reserved", pods: "RRWW", replicas: 4, open: true, want: 2, mark: []string{"p2", "p3"}},
		{name: "reserved pods that wait stay reserved", pods: "RRrr", replicas: 4, stored: 2, want: 2},
		{name: "a reserved pod with a node stays reserved until it has been ready for a while", pods: "RRrp", replicas: 4, stored: 2, want: 2, recheck: 1},
		{name: "a reserved pod that has been ready is released, and counts until that is stored", pods: "RRrP", replicas: 4, stored: 2, want: 2, release: []string{"p3"}},
		{name: "a released pod no longer counts once that is stored", pods: "RRrR", replicas: 4, stored: 2, want: 1},
		{name: "a reserved pod that is being deleted still counts", pods: "RRtr", replicas: 4, stored: 2, want: 2},
		{name: "a reserved pod that is not re-created yet still counts", pods: "RRr", replicas: 4, stored: 2, want: 2},
		{name: "a re-created pod is reserved at once", pods: "RRrw", replicas: 4, stored: 2, want: 2, mark: []string{"p3"}},
		{name: "a re-created pod with a node is not reserved", pods: "RRrn", replicas: 4, stored: 2, want: 2},
		{name: "a running pod that is re-created changes nothing", pods: "Rrrw", replicas: 4, stored: 2, want: 2},
		{name: "surplus pods may be reserved or not", pods: "RRRrr", replicas: 4, stored: 2, want: 2},
		{name: "reserved pods count even if the stored number is behind", pods: "RRrr", replicas: 4, want: 2},
		{name: "fewer replicas have fewer reserved pods", pods: "RRrr", replicas: 3, stored: 1, want: 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ud := web("a")
			reserve(ud)
			withReserved(ud, int32(tt.replicas), int32(tt.stored))
			c := &child{kind: cloneSets().GroupKind(), replicas: tt.replicas}
			var pods []*corev1.Pod
			for i, state := range tt.pods {
				name := fmt.Sprintf("p%d", i)
				pod := placedPod(name)
				switch state {
				case 'n':
					pod.Status.Conditions = nil
				case 'w', 'r', 't':
					pod = rejectedPod(name, ago(10))
				case 'W':
					pod = rejectedPod(name, ago(30))
				case 'p', 'P':
					for j := range pod.Status.Conditions {
						pod.Status.Conditions[j].LastTransitionTime = metav1.NewTime(ago(map[rune]int{'p': 299, 'P': 300}[state]))
					}
				}
				switch state {
				case 't':
					pod.DeletionTimestamp = &metav1.Time{Time: now}
					fallthrough
				case 'r', 'p', 'P':
					pod.Labels = map[string]string{keys.SubsetReserved: "true"}
				}
				pods = append([]*corev1.Pod{pod}, pods...)
			}
			names := func(pods []*corev1.Pod) (out []string) {
				for _, p := range pods {
					out = append(out, p.Name)
				}
				return out
			}
			r := reservationOf(ud, "a", c, pods, !tt.open, now)
			require.Equal(t, tt.want, r.count)
			labelled := strings.Count(tt.pods, "r") + strings.Count(tt.pods, "p") + strings.Count(tt.pods, "P")
			require.Equal(t, min(tt.want, max(tt.stored, labelled)), r.held, "replicas are divided by the stored number")
			require.Equal(t, tt.mark, names(r.mark))
			require.Equal(t, tt.release, names(r.release))
			require.Equal(t, time.Duration(tt.recheck)*time.Second, r.recheck)
		})
	}
}

func TestReservedPodsAreNotInTheSums(t *testing.T) {
	t.Parallel()
	o := reservingOf(t, 4)
	o.children[1].replicas = 4
	*o.children[1].workload.(*appsv1beta1.CloneSet).Spec.Replicas = 4
	for i, c := range o.pods[o.children[0].GetUID()] {
		if i == 6 { // One pod has got a node, and must prove itself.
			placed := placedPod(c.Name)
			c.Spec, c.Status = placed.Spec, placed.Status
			c.Labels[keys.SubsetRevision] = o.wanted.Name
			for j := range c.Status.Conditions {
				c.Status.Conditions[j].LastTransitionTime = metav1.NewTime(now)
			}
		}
	}
	allowing(o, 5)
	a, b := &o.children[0], &o.children[1]
	a.counts = counts{pods: 10, ready: 7, available: 7, updated: 10, updatedReady: 7, updatedAvailable: 7}
	b.counts = counts{pods: 4, ready: 4, available: 4, updated: 4, updatedReady: 4, updatedAvailable: 4}
	p, d := reconcileStatus(o)
	s, _ := status(o, p, d, now)
	require.Equal(t, "app=web,"+keys.SubsetReserved+"!=true", s.LabelSelector)
	require.Equal(t, int32(4), s.ReservedPods)
	require.Equal(t, []int32{10, 4}, []int32{s.SubsetStatuses[0].Replicas, s.SubsetStatuses[0].ReservedPods})
	require.Equal(t, int32(7), s.SubsetStatuses[0].ReadyReplicas)
	require.Equal(t, int32(10), s.Replicas)
	require.Equal(t, int32(10), s.ReadyReplicas)
	require.Equal(t, int32(10), s.AvailableReplicas)
	require.Equal(t, int32(10), s.UpdatedReadyReplicas)
	require.Equal(t, int32(10), s.UpdatedAvailableReplicas)
	require.Equal(t, s.UpdatedRevision, s.CurrentRevision)
	old := s.DeepCopy()
	old.SubsetStatuses[0].ReservedPods = 3
	require.False(t, mayWait(*old, s, planned{wanted: 99}), "the next reconcile divides by the number")
}

func TestTakeoverOfReservedPodsChangesNothing(t *testing.T) {
	t.Parallel()
	o := reservingOf(t, 4) // With the status and the labels that OpenKruise writes.
	o.children[1].replicas = 4
	*o.children[1].workload.(*appsv1beta1.CloneSet).Spec.Replicas = 4
	o.ud.Status.ReservedPods = 4
	for _, pods := range o.pods {
		for _, pod := range pods {
			if !reserved(pod) {
				pod.Labels[keys.SubsetReserved] = "false"
			}
		}
	}
	p := plan(o, now)
	for i := range p.subsets {
		s := &p.subsets[i]
		require.Empty(t, s.reason, s.why)
		require.False(t, s.room.turned)
		require.Empty(t, s.room.reserved.mark)
		require.Empty(t, s.room.reserved.release)
	}
	require.Equal(t, []int{10, 4}, p.division.Targets)
}

func TestNoPodIsTakenThatRunsInPlaceOfAReservedOne(t *testing.T) {
	t.Parallel()
	// The cache does not show yet that the pods are reserved. The apiserver either does or does not.
	for _, known := range []bool{true, false} {
		o := reservingOf(t, 4)
		o.children[1].replicas = 4
		*o.children[1].workload.(*appsv1beta1.CloneSet).Spec.Replicas = 4
		var live []client.Object
		live = append(live, o.history[0].DeepCopy())
		for _, c := range o.children {
			live = append(live, c.DeepCopyObject().(client.Object))
		}
		for i, pod := range o.pods[o.children[0].GetUID()] {
			created := pod.DeepCopy()
			if _, waits := rejected(pod); waits {
				delete(pod.Labels, keys.SubsetReserved)
				placed := placedPod(pod.Name)
				pod.Spec, pod.Status = placed.Spec, placed.Status
				if !known {
					created = pod.DeepCopy()
				}
			}
			created.UID = types.UID(fmt.Sprint("pod-", i))
			live = append(live, created)
		}
		ud := o.ud.DeepCopy()
		ud.ResourceVersion = ""
		r, _ := reconciler(t, func(client.Object) error { return nil }, append(live, ud)...)
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(o.ud), o.ud))
		d := r.apply(t.Context(), o, plan(o, now), now)
		require.NoError(t, d.err())
		require.Equal(t, known, d.late)
		s, _ := status(o, plan(o, now), d, now)
		require.Equal(t, map[bool]int32{true: 4, false: 0}[known], s.ReservedPods)
		require.Equal(t, s.ReservedPods, s.SubsetStatuses[0].ReservedPods)
		set := &appsv1beta1.CloneSet{}
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(o.children[1]), set))
		require.Equal(t, map[bool]int32{true: 4, false: 0}[known], *set.Spec.Replicas)
	}
}

func TestAPodIsReservedInTheVersionThatWaits(t *testing.T) {
	t.Parallel()
	o := reservingOf(t, 4)
	waiting := o.pods[o.children[0].GetUID()][9]
	delete(waiting.Labels, keys.SubsetReserved)
	live := waiting.DeepCopy()
	r, _ := reconciler(t, func(client.Object) error { return nil }, live)
	p := plan(o, now)
	require.Len(t, p.subsets[0].room.reserved.mark, 1)
	label := func() string {
		require.NoError(t, r.Client.Get(t.Context(), client.ObjectKeyFromObject(live), live))
		return live.Labels[keys.SubsetReserved]
	}
	inner := r.Client
	r.Client = interceptor.NewClient(inner.(client.WithWatch), interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, opts ...client.PatchOption) error {
			data, err := patch.Data(o)
			require.NoError(t, err)
			require.Contains(t, string(data), fmt.Sprintf(`"resourceVersion":%q`, waiting.ResourceVersion))
			if waiting.ResourceVersion != live.ResourceVersion {
				return apierrors.NewConflict(corev1.Resource("pods"), o.GetName(), errors.New("another version"))
			}
			return c.Patch(ctx, o, patch, opts...)
		},
	})
	require.Empty(t, label())
	waiting.ResourceVersion = "0"
	var a applied
	require.NoError(t, r.reserve(t.Context(), p, &a))
	require.True(t, a.late)
	require.Equal(t, podRetry, a.retry)
	require.Empty(t, label())

	waiting.ResourceVersion = live.ResourceVersion
	require.NoError(t, r.reserve(t.Context(), p, &applied{}))
	require.Equal(t, "true", label())
}

// The serving pods are updated within the template's own maxUnavailable, however many others wait for a node.
func TestReservedPodsAreBesideMaxUnavailable(t *testing.T) {
	t.Parallel()
	number := func(v string) *intstr.IntOrString {
		if v == "" {
			return nil
		}
		return new(intstr.Parse(v))
	}
	for _, tt := range []struct {
		name               string
		template, current  string // maxUnavailable
		surge              string
		replicas, reserved int
		cloneSet, native   string
	}{
		{"a number", "2", "2", "", 10, 4, "6", "6"},
		{"a percentage applies to the pods that are not reserved", "50%", "50%", "", 10, 4, "7", "7"},
		{"the default rounds up for a CloneSet and down for a Deployment", "", "", "", 10, 4, "6", "5"},
		{"0 with a surge", "0", "0", "1", 10, 4, "4", "4"},
		{"0 without a surge becomes 1 for a Deployment", "0", "0", "0", 10, 4, "4", "5"},
		{"no pod is reserved", "20%", "6", "", 10, 0, "20%", "20%"},
		{"no pod is reserved anymore, and the template has no value", "", "6", "", 10, 0, "20%", "25%"},
		{"no pod was ever reserved", "", "30%", "", 10, 0, "", ""},
		{"all pods are reserved", "1", "1", "", 4, 4, "5", "5"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := func(v string) *appsv1beta1.CloneSet {
				s := &appsv1beta1.CloneSet{}
				s.Spec.UpdateStrategy.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{MaxUnavailable: number(v), MaxSurge: number(tt.surge)}
				return s
			}
			deployment := func(v string) *appsv1.Deployment {
				d := &appsv1.Deployment{}
				d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: number(v), MaxSurge: number(tt.surge)}
				return d
			}
			c, d := set(tt.template), deployment(tt.template)
			exempt(c, set(tt.current), tt.replicas, tt.reserved)
			exempt(d, deployment(tt.current), tt.replicas, tt.reserved)
			require.Equal(t, number(tt.cloneSet), c.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable)
			require.Equal(t, number(tt.native), d.Spec.Strategy.RollingUpdate.MaxUnavailable)
		})
	}

	o := reservingOf(t, 4)
	allowing(o, 2)
	raised := func() string {
		p := plan(o, now)
		require.NotNil(t, p.subsets[0].update, p.subsets[0].why)
		require.Equal(t, reasonReplicas, p.subsets[0].reason, "the template is not new")
		return p.subsets[0].update.next.(*appsv1beta1.CloneSet).Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String()
	}
	require.Equal(t, "6", raised(), "20% of the 6 others, and 4")
	waiting := o.pods[o.children[0].GetUID()][9]
	placed := placedPod(waiting.Name)
	waiting.Spec, waiting.Status = placed.Spec, placed.Status
	for i := range waiting.Status.Conditions {
		waiting.Status.Conditions[i].LastTransitionTime = metav1.NewTime(now)
	}
	require.Equal(t, "5", raised(), "a reserved pod that has become ready counts with the others before it is released")
}
