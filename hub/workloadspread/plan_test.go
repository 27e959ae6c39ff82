package workloadspread

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// world is a hub with members that do what they are granted when they are served.
type world struct {
	o   *observed
	now time.Time
	// fits is how many pods a cluster can schedule. A cluster that is not in it schedules any number.
	fits map[string]int32
	// copies are what the rows request, by cluster.
	copies map[string]*appsv1beta1.CloneSet
	slices map[string]*appsv1beta1.WorkloadSpread
}

func newWorld(replicas int32, subsets ...appsv1beta1.WorkloadSpreadSubset) *world {
	labels := map[string]string{"app": "web"}
	set := &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "shop", UID: "set", Generation: 1, Finalizers: []string{keys.FleetRow},
			Labels: map[string]string{keys.FleetTemplate: "true", "team": "a"}, Annotations: map[string]string{"kubectl.kubernetes.io/x": "y", "note": "n"},
		},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template:       corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}},
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{}},
		},
	}
	ws := &appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Name: "spread", Namespace: "shop", UID: "ws", Generation: 1, Finalizers: []string{keys.FleetRow}},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web"}, Subsets: subsets,
		},
	}
	clusters := map[string]*fleetv1alpha1.MemberCluster{}
	return &world{
		o: &observed{
			kind: cloneSets(), key: client.ObjectKeyFromObject(set), ws: ws, target: set,
			slices: placement.Fleet{Clusters: clusters, Rows: map[string]*fleetv1alpha1.MemberWork{}},
			copies: placement.Fleet{Clusters: clusters, Rows: map[string]*fleetv1alpha1.MemberWork{}},
		},
		now: time.Unix(1_000_000, 0), fits: map[string]int32{},
		copies: map[string]*appsv1beta1.CloneSet{}, slices: map[string]*appsv1beta1.WorkloadSpread{},
	}
}

// subsetIn returns a subset of a cluster. most is maxReplicas, "" for none.
func subsetIn(name, cluster, most string) appsv1beta1.WorkloadSpreadSubset {
	s := appsv1beta1.WorkloadSpreadSubset{Name: name, Cluster: cluster}
	if most != "" {
		s.MaxReplicas = new(intstr.Parse(most))
	}
	return s
}

func (w *world) cluster(names ...string) *world {
	for _, name := range names {
		w.o.slices.Clusters[name] = &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name, "region": "eu"}},
			Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true},
			Status: fleetv1alpha1.MemberClusterStatus{
				Phase: fleetv1alpha1.ClusterReady, Hub: &fleetv1alpha1.HubIdentity{UID: "hub", Epoch: 1},
				Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: metav1.ConditionTrue}},
			},
		}
	}
	return w
}

func (w *world) dark(name string, down bool) {
	c := w.o.slices.Clusters[name].DeepCopy()
	c.Status.Conditions[0].Status = report.ConditionStatus(!down)
	w.o.slices.Clusters[name] = c
}

func (w *world) adaptive() *world {
	w.o.ws.Spec.ScheduleStrategy = appsv1beta1.WorkloadSpreadScheduleStrategy{
		Type: appsv1beta1.AdaptiveWorkloadSpread, Adaptive: &appsv1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(30))},
	}
	return w
}

func (w *world) scale(n int32) {
	set := w.o.target.DeepCopyObject().(*appsv1beta1.CloneSet)
	set.Spec.Replicas, set.Generation = &n, set.Generation+1
	w.o.target = set
}

// write applies the writes of one plan, as row.Store would, and returns how many there were.
func (w *world) write(tb testing.TB, rows map[string]*fleetv1alpha1.MemberWork, p placement.Plan) (writes int) {
	tb.Helper()
	for _, want := range p.Wants {
		live := rows[want.Cluster]
		if live == nil {
			live = &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{
				Name: want.Name(), Namespace: fleetv1alpha1.Namespace(want.Cluster), UID: types.UID(want.Cluster),
				Labels: map[string]string{keys.FleetCluster: want.Cluster},
			}}
		}
		next := live.DeepCopy()
		next.Spec.Source, next.Spec.Grant, next.Spec.Patch.Raw = want.Source, want.Grant, want.Patch
		manifest, err := row.Merge(want.Manifest, want.Patch)
		require.NoError(tb, err)
		if live.Generation == 0 || string(live.Spec.Patch.Raw) != string(want.Patch) || live.Annotations["manifest"] != string(want.Manifest) {
			next.Annotations = map[string]string{"manifest": string(want.Manifest)}
			next.Generation++
			writes++
			rows[want.Cluster] = next
		}
		if want.Source.Kind == "CloneSet" {
			w.copies[want.Cluster] = &appsv1beta1.CloneSet{}
			require.NoError(tb, json.Unmarshal(manifest, w.copies[want.Cluster]))
		} else {
			w.slices[want.Cluster] = &appsv1beta1.WorkloadSpread{}
			require.NoError(tb, json.Unmarshal(manifest, w.slices[want.Cluster]))
		}
	}
	for _, gone := range p.Withdrawals {
		delete(rows, gone.Row.Labels[keys.FleetCluster])
		writes++
	}
	return writes
}

// step plans, writes and reports once.
func (w *world) step(tb testing.TB) (p planned, writes int) {
	tb.Helper()
	p = plan(w.o, w.now)
	writes += w.write(tb, w.o.slices.Rows, p.slices)
	a := applied{slices: placement.Summarize(w.o.slices, p.slices, placement.Result{Rows: w.o.slices.Rows})}
	p.place(w.o, a.slices)
	writes += w.write(tb, w.o.copies.Rows, p.copies)
	a.copies = placement.Summarize(w.o.copies, p.copies, placement.Result{Rows: w.o.copies.Rows})
	ws := w.o.ws.DeepCopy()
	ws.Status = status(w.o, p, a, w.now)
	w.o.ws = ws
	return p, writes
}

// applyRows lets a member act on its rows, if it answers.
func (w *world) applyRows(name string) {
	if !report.IsConditionTrue(w.o.slices.Clusters[name].Status.Conditions, fleetv1alpha1.ConditionReady) {
		return
	}
	var granted int32
	if r := w.o.copies.Rows[name]; r != nil {
		granted = r.Spec.Grant.Replicas
		runs := granted
		if most, ok := w.fits[name]; ok {
			runs = min(runs, most)
		}
		next := r.DeepCopy()
		next.Status = fleetv1alpha1.MemberWorkStatus{ObservedGeneration: r.Generation, Phase: fleetv1alpha1.WorkHealthy, Revision: "web-1", Counts: fleetv1alpha1.WorkCounts{
			Desired: granted, Replicas: granted, Ready: runs, Available: runs, Updated: granted - r.Spec.Grant.Subsets[0].Partition, UpdatedReady: runs,
		}}
		w.o.copies.Rows[name] = next
	}
	if r := w.o.slices.Rows[name]; r != nil {
		next := r.DeepCopy()
		next.Status = fleetv1alpha1.MemberWorkStatus{ObservedGeneration: r.Generation, Phase: fleetv1alpha1.WorkHealthy}
		left, fits := granted, granted
		if most, ok := w.fits[name]; ok {
			fits = min(fits, most)
		}
		all := w.slices[name].Spec.Subsets
		for i, s := range all {
			n := left
			if s.MaxReplicas != nil && i < len(all)-1 {
				n = min(left, s.MaxReplicas.IntVal)
			}
			c := fleetv1alpha1.WorkCounts{Replicas: n}
			if i == len(all)-1 {
				c.Unschedulable = granted - fits
			}
			left -= n
			next.Status.Subsets = append(next.Status.Subsets, fleetv1alpha1.SubsetCounts{Name: s.Name, WorkCounts: c})
		}
		w.o.slices.Rows[name] = next
	}
}

// settle plans and serves until nothing is written anymore.
func (w *world) settle(tb testing.TB) {
	tb.Helper()
	for quiet := 0; quiet < 3; {
		if _, writes := w.step(tb); writes == 0 {
			quiet++
		} else {
			quiet = 0
		}
		for name := range w.o.slices.Clusters {
			w.applyRows(name)
		}
	}
}

// granted returns what each cluster runs, as text.
func (w *world) granted() string {
	out := map[string]int32{}
	for name, r := range w.o.copies.Rows {
		out[name] = r.Spec.Grant.Replicas
	}
	return fmt.Sprint(out)
}

func TestSubsetsAreFilledInTheirOrder(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		replicas int32
		subsets  []appsv1beta1.WorkloadSpreadSubset
		want     string
	}{
		{"the first subset is filled up to its maximum", 3, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", "5"), subsetIn("b", "west", "")}, "map[east:3]"},
		{"the rest goes to the last subset", 9, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", "5"), subsetIn("b", "west", "")}, "map[east:5 west:4]"},
		{"two subsets of a cluster share its copy", 9, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", "3"), subsetIn("b", "east", "2"), subsetIn("c", "west", "")}, "map[east:5 west:4]"},
		{"a cluster has a subset before and after another cluster", 9, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", "3"), subsetIn("b", "west", "2"), subsetIn("c", "east", "")}, "map[east:7 west:2]"},
		{"percentages are rounded up", 9, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", "30%"), subsetIn("b", "west", "")}, "map[east:3 west:6]"},
		{"without maximums all replicas go to the first subset", 9, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", ""), subsetIn("b", "west", "")}, "map[east:9]"},
		{"replicas that fit nowhere are not created", 9, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "east", "3"), subsetIn("b", "west", "2")}, "map[east:3 west:2]"},
		{"a cluster that does not exist yet is left out", 4, []appsv1beta1.WorkloadSpreadSubset{subsetIn("a", "south", "3"), subsetIn("b", "west", "")}, "map[west:4]"},
		{"clusters of a selector share evenly", 9, []appsv1beta1.WorkloadSpreadSubset{
			{Name: "a", ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"region": "eu"}}, MaxReplicas: new(intstr.FromInt32(6))},
			subsetIn("b", "west", ""),
		}, "map[east:3 west:6]"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(tt.replicas, tt.subsets...).cluster("east", "west")
			w.settle(t)
			require.Equal(t, tt.want, w.granted())
			_, writes := w.step(t)
			require.Zero(t, writes, "I8: nothing is written once nothing changes")
			require.EqualValues(t, 1, w.o.ws.Status.ObservedGeneration)
		})
	}
}

func TestACopyIsMadeOnceTheSliceIsApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(4, subsetIn("a", "east", "3"), subsetIn("b", "west", "")).cluster("east", "west")
	p, _ := w.step(t)
	require.Len(t, w.o.slices.Rows, 2)
	require.Empty(t, w.o.copies.Rows)
	require.Contains(t, p.moves[0], "has not applied its WorkloadSpread yet")
	require.Zero(t, w.o.ws.Status.ObservedGeneration, "I28")
	w.applyRows("west")
	w.step(t)
	require.Equal(t, "map[west:1]", w.granted())
	w.applyRows("east")
	w.step(t)
	require.Equal(t, "map[east:3 west:1]", w.granted())

	copied := w.copies["east"]
	require.Equal(t, map[string]string{"team": "a"}, copied.Labels, "the label of a template stays on the hub")
	require.Equal(t, map[string]string{"note": "n"}, copied.Annotations)
	require.Nil(t, w.slices["east"].Spec.Subsets[0].MaxReplicas, "the last subset of a cluster takes the pods that a rollout adds")
	require.Empty(t, w.slices["east"].Spec.Subsets[0].Cluster)
}

func TestScaleInEmptiesInReverse(t *testing.T) {
	t.Parallel()
	w := newWorld(9, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west")
	w.settle(t)
	w.scale(6)
	w.settle(t)
	require.Equal(t, "map[east:5 west:1]", w.granted())
	w.scale(2)
	w.settle(t)
	require.Equal(t, "map[east:2 west:0]", w.granted())
}

func TestI06ADarkClusterKeepsItsNumber(t *testing.T) {
	t.Parallel()
	w := newWorld(9, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west")
	w.settle(t)
	w.dark("east", true)
	w.scale(12)
	w.settle(t)
	require.Equal(t, "map[east:5 west:7]", w.granted())
	w.scale(6)
	w.settle(t)
	require.Equal(t, "map[east:5 west:1]", w.granted())
	require.True(t, w.o.ws.Status.SubsetStatuses[0].Stale)
	w.dark("east", false)
	w.scale(3)
	w.settle(t)
	require.Equal(t, "map[east:3 west:0]", w.granted())
}

func TestARemovedSubsetIsEmptiedFirst(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west")
	w.settle(t)
	w.o.ws.Spec.Subsets = w.o.ws.Spec.Subsets[1:]
	w.step(t)
	require.EqualValues(t, 5, w.o.copies.Rows["east"].Spec.Grant.Replicas, "I5: nothing shrinks before others are available")
	w.settle(t)
	require.Equal(t, "map[west:8]", w.granted())
	require.NotContains(t, w.o.slices.Rows, "east")
}

func TestAdaptiveMovesWhatCanNotBeScheduled(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west").adaptive()
	w.fits["east"] = 3
	w.settle(t)
	require.Equal(t, "map[east:3 west:5]", w.granted())
	closed := w.o.ws.Status.SubsetStatuses[0].Conditions[0]
	require.Equal(t, metav1.ConditionFalse, closed.Status)
	require.Equal(t, reasonUnschedulable, closed.Reason)

	w.scale(9)
	w.settle(t)
	require.Equal(t, "map[east:3 west:6]", w.granted(), "a closed cluster gets no new pods")

	w.fits["east"] = 10
	w.now = w.now.Add(recovery)
	w.settle(t)
	require.Equal(t, "map[east:3 west:6]", w.granted(), "I8: replicas that have moved stay")
	require.Equal(t, reasonRecovered, w.o.ws.Status.SubsetStatuses[0].Conditions[0].Reason)
	w.scale(11)
	w.settle(t)
	require.Equal(t, "map[east:5 west:6]", w.granted(), "the cluster gets new replicas after some time")
}

func TestFixedLeavesUnschedulablePodsWhereTheyAre(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west")
	w.fits["east"] = 3
	w.settle(t)
	require.Equal(t, "map[east:5 west:3]", w.granted())
}

func TestWithoutItsWorkloadSpreadAWorkloadRunsOn(t *testing.T) {
	t.Parallel()
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")).cluster("east", "west")
	w.settle(t)
	before := w.granted()
	w.o.ws = w.o.ws.DeepCopy()
	w.o.ws.DeletionTimestamp = &metav1.Time{Time: w.now}
	w.settle(t)
	require.Empty(t, w.o.slices.Rows)
	require.Equal(t, before, w.granted())
	w.o.ws = nil
	p := plan(w.o, w.now)
	p.place(w.o, placement.Summary{})
	require.Empty(t, p.copies.Withdrawals)

	w.o.target.SetDeletionTimestamp(&metav1.Time{Time: w.now})
	p = plan(w.o, w.now)
	p.place(w.o, placement.Summary{})
	require.Len(t, p.copies.Withdrawals, 2)
	require.Equal(t, fleetv1alpha1.LeaveDelete, p.copies.Withdrawals[0].Policy)
	w.o.namespaceTerminating = true
	require.Equal(t, fleetv1alpha1.LeaveOrphan, plan(w.o, w.now).copies.Withdrawals[0].Policy, "I14")
}

func TestI32NonsenseIsCut(t *testing.T) {
	t.Parallel()
	w := newWorld(4, subsetIn("a", "east", "3"), subsetIn("b", "west", "")).cluster("east", "west")
	w.settle(t)
	r := w.o.slices.Rows["east"].DeepCopy()
	r.Status.Subsets[0].Replicas, r.Status.Subsets[0].Unschedulable = 1<<30, -4
	w.o.slices.Rows["east"] = r
	w.step(t)
	require.LessOrEqual(t, w.o.ws.Status.SubsetStatuses[0].Replicas, placement.PlausibleFor(3).Cut(math.MaxInt32))
	require.Equal(t, fleetv1alpha1.ReasonImplausibleCounts, report.GetCondition(w.o.ws.Status.Conditions, appsv1beta1.WorkloadSpreadFailure).Reason)
	require.Equal(t, "map[east:3 west:1]", w.granted())
}

func TestWhyNothingIsPlaced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(o *observed)
		reason string
	}{
		{"no workload", func(o *observed) { o.target = nil }, reasonTargetGone},
		{"a workload without the label", func(o *observed) { o.target, o.unmarked = nil, true }, reasonTargetNoTemplate},
		{"a workload that is being deleted", func(o *observed) { o.target.SetDeletionTimestamp(&metav1.Time{Time: time.Unix(1, 0)}) }, reasonTargetGone},
		{"no clusters", func(o *observed) { o.ws.Spec.Subsets[0].Cluster = "" }, reasonNoCluster},
		{"a Deployment that is not paused", func(o *observed) { o.kind, o.target = deployments(), &appsv1.Deployment{} }, reasonTargetRunsHere},
		{"a Deployment with pods", func(o *observed) {
			o.kind, o.target = deployments(), &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Paused: true}, Status: appsv1.DeploymentStatus{Replicas: 2}}
		}, reasonTargetRunsHere},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(4, subsetIn("a", "east", "")).cluster("east")
			tt.change(w.o)
			p, writes := w.step(t)
			require.Zero(t, writes)
			require.Empty(t, p.copies.Wants)
			active := report.GetCondition(w.o.ws.Status.Conditions, appsv1beta1.WorkloadSpreadActive)
			require.Equal(t, metav1.ConditionFalse, active.Status)
			require.Equal(t, tt.reason, active.Reason)
			require.NotEmpty(t, active.Message)
		})
	}
}

// TestNothingIsLostWhateverIsLate lets members answer late, or not for a while, loses steps of the hub between two writes, and changes
// numbers and subsets in the meantime.
func TestNothingIsLostWhateverIsLate(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		draw := rand.New(rand.NewPCG(seed, 1))
		w := newWorld(8, subsetIn("a", "east", "4"), subsetIn("b", "west", "3"), subsetIn("c", "north", "")).cluster("east", "west", "north")
		if seed%2 == 0 {
			w.adaptive()
		}
		names := []string{"east", "west", "north"}
		w.settle(t)
		for range 40 {
			switch draw.IntN(12) {
			case 0:
				w.dark(names[draw.IntN(2)], draw.IntN(2) == 0)
			case 1:
				w.fits["east"] = int32(1 + draw.IntN(5))
			case 2:
				w.o.ws.Spec.Subsets[0].MaxReplicas = new(intstr.FromInt(1 + draw.IntN(6)))
			case 3:
				w.now = w.now.Add(time.Duration(draw.IntN(400)) * time.Second)
			default:
			}
			available := func() (n int32) {
				for _, r := range w.o.copies.Rows {
					sure := r.Spec.Grant.Replicas
					if !placement.Acknowledged(r) { // The member may have acted on a smaller grant.
						sure = min(sure, r.Spec.Grant.Subsets[0].Lower)
					}
					n += min(r.Status.Counts.Available, sure)
				}
				return n
			}
			before := available()
			p := plan(w.o, w.now)
			w.write(t, w.o.slices.Rows, p.slices)
			if draw.IntN(5) > 0 { // Otherwise the hub is killed here.
				w.step(t)
			}
			require.GreaterOrEqual(t, available(), min(before, 8), "seed %d: I4, I5: %s", seed, w.granted())
			if draw.IntN(2) == 0 {
				w.applyRows(names[draw.IntN(3)])
			}
		}
		for _, name := range names {
			w.dark(name, false)
		}
		delete(w.fits, "east")
		w.settle(t)
		total := int32(0)
		for _, r := range w.o.copies.Rows {
			total += r.Spec.Grant.Replicas
		}
		require.EqualValues(t, 8, total, "seed %d: I1: %s", seed, w.granted())
	}
}
