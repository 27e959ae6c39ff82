package propagation

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func rawJSON(text string) *apiextensionsv1.JSON { return &apiextensionsv1.JSON{Raw: []byte(text)} }

// report returns the status of a world in which the plan was carried out to the extent that rows exist, and its conditions in a few words.
func (w *world) report(a placement.Result) (fleetv1alpha1.PropagationStatus, string) {
	if a.Rows == nil {
		a.Rows = w.Rows
	}
	p := plan(w.observed, w.Now)
	s := status(w.observed, p, placement.Summarize(w.Fleet, p.Plan, a), time.Unix(2000, 0))
	var parts []string
	for _, c := range s.Conditions {
		parts = append(parts, c.Type+"="+string(c.Status)+":"+c.Reason)
	}
	return s, strings.Join(parts, " ")
}

func TestStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name       string
		change     func(w *world)
		result     placement.Result
		conditions string
		counts     [4]int32 // desired, applied, healthy, stale clusters
		problems   string
		observed   bool
	}{
		{name: "All objects are placed and healthy.", conditions: "Healthy=True:Healthy Placed=True:Placed Ready=True:Ready", counts: [4]int32{4, 4, 4}, observed: true},
		{name: "An applied object without health counts as healthy.", change: func(w *world) {
			w.Rows["east/"+rowName("a")].Status.Phase = fleetv1alpha1.WorkApplied
		}, conditions: "Healthy=True:Healthy Placed=True:Placed Ready=True:Ready", counts: [4]int32{4, 4, 4}, observed: true},
		{
			name: "A member is progressing.", change: func(w *world) { w.Rows["east/"+rowName("a")].Status.Phase = fleetv1alpha1.WorkProgressing },
			conditions: "Healthy=False:Progressing Placed=True:Placed Ready=False:Progressing Reconciling=True:Progressing", counts: [4]int32{4, 4, 3}, observed: true,
		},
		{
			name: "I28: a member has not seen a change yet.", change: func(w *world) { w.Rows["east/"+rowName("a")].Generation = 2 },
			conditions: "Healthy=False:Progressing Placed=True:Placed Ready=False:Progressing Reconciling=True:Progressing", counts: [4]int32{4, 3, 3},
		},
		{name: "A member can't apply an object.", change: func(w *world) {
			s := &w.Rows["west/"+rowName("b")].Status
			s.Phase, s.Reason, s.Message = fleetv1alpha1.WorkBlocked, fleetv1alpha1.ReasonForeignObject, strings.Repeat("long ", 200)
		}, conditions: "Healthy=False:ForeignObject Placed=True:Placed Ready=False:ForeignObject Stalled=True:ForeignObject", counts: [4]int32{4, 3, 3}, problems: "west/ConfigMap/b:ForeignObject", observed: true},
		{
			name: "An unhealthy object is a failure, whatever its reason.", change: func(w *world) { w.Rows["west/"+rowName("b")].Status.Phase = fleetv1alpha1.WorkDegraded },
			conditions: "Healthy=False:Degraded Placed=True:Placed Ready=False:Degraded Stalled=True:Degraded", counts: [4]int32{4, 4, 3}, problems: "west/ConfigMap/b:Degraded", observed: true,
		},
		{
			name: "A cluster does not answer.", change: func(w *world) {
				w.Clusters["west"].Status.Conditions[0].Status = metav1.ConditionFalse
				w.Rows["west/"+rowName("b")].Generation = 2
			}, conditions: "Healthy=False:ClusterUnreachable Placed=False:ClusterUnreachable Ready=False:ClusterUnreachable Reconciling=True:ClusterUnreachable", counts: [4]int32{4, 3, 2, 1},
			problems: "west//:ClusterUnreachable", observed: true,
		},
		{
			name: "All clusters are suspended.", change: func(w *world) {
				w.spec.Suspend = &fleetv1alpha1.PropagationSuspend{All: true}
				w.Rows["west/"+rowName("b")].Status.Phase = fleetv1alpha1.WorkProgressing
			}, conditions: "Healthy=False:Suspended Placed=True:Placed Ready=False:Suspended Reconciling=True:Suspended", counts: [4]int32{4, 4, 3}, observed: true,
		},
		{
			name: "A suspended cluster is behind.", change: func(w *world) {
				w.spec.Suspend = &fleetv1alpha1.PropagationSuspend{Clusters: []string{"west"}}
				w.Rows["west/"+rowName("b")].Generation = 2
			}, conditions: "Healthy=False:Suspended Placed=True:Placed Ready=False:Suspended Reconciling=True:Suspended", counts: [4]int32{4, 3, 3},
		},
		{
			name: "One cluster is suspended, and another one is behind.", change: func(w *world) {
				w.spec.Suspend = &fleetv1alpha1.PropagationSuspend{Clusters: []string{"west"}}
				w.Rows["west/"+rowName("b")].Generation = 2
				w.Rows["east/"+rowName("b")].Generation = 2
			}, conditions: "Healthy=False:Progressing Placed=True:Placed Ready=False:Progressing Reconciling=True:Progressing", counts: [4]int32{4, 2, 2},
		},
		{
			name: "A suspended cluster is healthy.", change: func(w *world) {
				w.spec.Suspend = &fleetv1alpha1.PropagationSuspend{Clusters: []string{"west"}}
			}, conditions: "Healthy=True:Healthy Placed=True:Placed Ready=True:Ready", counts: [4]int32{4, 4, 4}, observed: true,
		},
		{
			name: "A cluster is evicted, and all objects are healthy in the others.", change: func(w *world) { w.taint(fleetv1alpha1.Evict) },
			conditions: "Healthy=True:Healthy Placed=False:ClusterTainted Ready=False:ClusterTainted Reconciling=True:ClusterTainted", counts: [4]int32{2, 2, 2}, problems: "west//:ClusterTainted", observed: true,
		},
		{
			name: "An override names an object that is not selected.", change: func(w *world) {
				w.spec.Overrides = []fleetv1alpha1.PropagationOverride{
					{Clusters: []string{"east"}, Kind: "ConfigMap", Name: "a"},
					{Clusters: []string{"east"}, Kind: "ConfigMap", Name: "aa"},
					{Clusters: []string{"east", "esat"}, Kind: "ConfigMap"},
					{Clusters: []string{"east"}, Kind: "Service"},
					{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}},
					{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "wbe"}}},
				}
			}, conditions: "Healthy=True:Healthy Placed=True:Placed Ready=True:Ready", counts: [4]int32{4, 4, 4}, observed: true,
			problems: "//:OverrideUnused /ConfigMap/aa:OverrideUnused /Service/:OverrideUnused esat/ConfigMap/:OverrideUnused",
		},
		{
			name: "An override may be for an object that can't be read.", change: func(w *world) {
				w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"east"}, Kind: "Service", Name: "web"}}
				w.unreadable = []unreadableKind{{
					schema.GroupVersionKind{Version: "v1", Kind: "Service"}, problem{Kind: "Service", Reason: fleetv1alpha1.ReasonKindNotServed},
				}}
			}, conditions: "Healthy=True:Healthy Placed=False:KindNotServed Ready=False:KindNotServed Stalled=True:KindNotServed", counts: [4]int32{4, 4, 4}, observed: true, problems: "/Service/:KindNotServed",
		},
		{
			name: "An override may be for an object that is missing.", change: func(w *world) {
				w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"east"}, Kind: "ServiceAccount"}, {Clusters: []string{"east"}, Kind: "Service"}}
				w.deps.problems = []problem{{Kind: "ServiceAccount", Name: "web", Reason: reasonNoDependency}}
			},
			conditions: "Healthy=True:Healthy Placed=False:DependencyNotFound Ready=False:DependencyNotFound Reconciling=True:DependencyNotFound",
			counts:     [4]int32{4, 4, 4}, observed: true, problems: "/ServiceAccount/web:DependencyNotFound /Service/:OverrideUnused",
		},
		{
			name: "A row is missing without a reason.", change: func(w *world) { delete(w.Rows, "west/"+rowName("b")) },
			conditions: "Healthy=False:Progressing Placed=False:Waiting Ready=False:Waiting Reconciling=True:Waiting", counts: [4]int32{4, 3, 3},
		},
		{
			name: "A write fails.", result: placement.Result{Err: errors.New("disk full")},
			conditions: "Healthy=True:Healthy Placed=False:Error Ready=False:WriteFailed Reconciling=True:WriteFailed", counts: [4]int32{4, 4, 4},
		},
		{name: "Withdrawals are paused.", result: placement.Result{Problems: []placement.Problem{
			{Cluster: "west", Reason: placement.ReasonPaused, Message: "x"}, {Cluster: "west", Reason: placement.ReasonPaused, Message: "x"},
		}}, conditions: "Healthy=True:Healthy Placed=False:WithdrawalsPaused Ready=False:WithdrawalsPaused Stalled=True:WithdrawalsPaused", counts: [4]int32{4, 4, 4}, problems: "west//:WithdrawalsPaused", observed: true},
		{
			name: "Withdrawals are paced, which ends by itself.", result: placement.Result{Problems: []placement.Problem{{Cluster: "west", Reason: placement.ReasonPaced, Message: "x"}}},
			conditions: "Healthy=True:Healthy Placed=False:WithdrawalsPaced Ready=False:WithdrawalsPaced Reconciling=True:WithdrawalsPaced",
			counts:     [4]int32{4, 4, 4}, problems: "west//:WithdrawalsPaced", observed: true,
		},
		{name: "An object that can't be read counts as before.", change: func(w *world) {
			why := problem{Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonKindNotServed}
			w.unselect("a", fate{wait: why})
			w.unselect("b", fate{wait: why})
			w.unreadable = []unreadableKind{{configMaps.WithVersion("v1"), why}}
		}, conditions: "Healthy=False:Progressing Placed=False:KindNotServed Ready=False:KindNotServed Stalled=True:KindNotServed", counts: [4]int32{4}, problems: "/ConfigMap/:KindNotServed"},
		{
			name: "The Propagation is being deleted.", change: func(w *world) { w.p.DeletionTimestamp = new(metav1.Unix(1, 0)) },
			conditions: "Healthy=False:Deleting Placed=False:Deleting Ready=False:Deleting Reconciling=True:Deleting Withdrawing=True:Deleting",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "east", "west")
			w.row("east", "a", "b")
			w.row("west", "a", "b")
			if tt.change != nil {
				tt.change(w)
			}
			s, conditions := w.report(tt.result)
			require.Equal(t, tt.conditions, conditions)
			counts := [4]int32{s.Desired, s.Applied, s.Healthy, s.StaleClusters}
			require.Equal(t, tt.counts, counts)
			require.Equal(t, tt.problems, formatProblems(s.Problems))
			require.Equal(t, tt.observed, s.ObservedGeneration == 1)
			for _, p := range s.Problems {
				require.LessOrEqual(t, len(p.Message), 256)
			}
		})
	}
}

// A tool that applies a Propagation before what it selects, or needs, must not see it fail immediately.
func TestWhatIsMissingOnTheHubStallsWhenItLasts(t *testing.T) {
	t.Parallel()
	for name, miss := range map[string]func(w *world){
		"NoObject": func(w *world) { w.objects = nil },
		"DependencyNotFound": func(w *world) {
			w.deps.problems = []problem{{Kind: "ServiceAccount", Name: "web", Reason: reasonNoDependency}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "east")
			if miss(w); name != "NoObject" {
				w.row("east", "a", "b")
			}
			at := func(seconds int64) (string, time.Duration) {
				p := plan(w.observed, time.Unix(seconds, 0))
				w.p.Status = status(w.observed, p, placement.Summarize(w.Fleet, p.Plan, placement.Result{Rows: w.Rows}), time.Unix(seconds, 0))
				for _, kind := range []string{keys.ConditionReconciling, keys.ConditionStalled, keys.ConditionReady} {
					if c := report.GetCondition(w.p.Status.Conditions, kind); c != nil && c.Status == metav1.ConditionTrue {
						return kind + ":" + c.Reason, p.Recheck
					}
				}
				return "", p.Recheck
			}
			tells := func(seconds int64, want string, recheck time.Duration) {
				t.Helper()
				got, in := at(seconds)
				require.Equal(t, want, got)
				require.Equal(t, recheck, in)
			}
			tells(1000, "Reconciling:"+name, missingTimeout)
			tells(1599, "Reconciling:"+name, time.Second)
			tells(1600, "Stalled:"+name, 0)
			tells(1700, "Stalled:"+name, 0)
			w.deps.problems = nil
			if name == "NoObject" {
				return
			}
			tells(1800, "Ready:Ready", 0)
			w.Rows["east/"+rowName("a")].Status.Phase = fleetv1alpha1.WorkProgressing
			tells(1850, "Reconciling:Progressing", 0)
			miss(w)
			tells(2500, "Reconciling:"+name, missingTimeout)
			tells(2501, "Reconciling:"+name, missingTimeout-time.Second)
			w.deps.problems = append(w.deps.problems, problem{Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonKindNotServed})
			tells(2550, "Stalled:KindNotServed", recheckKinds)
		})
	}
}

func TestReplicasThatMoveAreHealthyWhileNoneIsMissing(t *testing.T) {
	t.Parallel()
	w := dividing(t, 6, dividedBy(fleetv1alpha1.DivisionWeighted, "east*2", "west*1"), "east", "west")
	w.runsGranted("east", 4, 4)
	w.runsGranted("west", 2, 2)
	w.taint(fleetv1alpha1.Evict)
	_, conditions := w.report(placement.Result{})
	require.Equal(t, "Healthy=True:Healthy Placed=False:ClusterTainted Ready=False:ClusterTainted Reconciling=True:ClusterTainted", conditions, "an eviction that has not started")
	w.runsGranted("east", 6, 5).Status.Phase = fleetv1alpha1.WorkProgressing
	_, conditions = w.report(placement.Result{})
	require.Equal(t, "Healthy=False:Progressing Placed=False:ClusterTainted Ready=False:ClusterTainted Reconciling=True:ClusterTainted", conditions, "east is progressing")

	w = dividing(t, 10, dividedBy(fleetv1alpha1.DivisionWeighted, "east*2", "west*1"), "east", "west")
	w.runsGranted("east", 4, 4)
	w.runsGranted("west", 2, 2)
	_, conditions = w.report(placement.Result{})
	require.Equal(t, "Healthy=False:Progressing Placed=False:Dividing Ready=False:Dividing Reconciling=True:Dividing", conditions, "four more are wanted")
}

// The status lines of both have kind StatefulSet.
func TestSurplusReplicasOfOneKindDoNotMakeUpForMissingOnesOfAnother(t *testing.T) {
	t.Parallel()
	p := planned{kept: map[string]bool{}, emptying: map[string]bool{}}
	for apiVersion, available := range map[string]int32{"apps/v1": 3, "apps.kruise.io/v1beta1": 1} {
		one := object{WorkObject: fleetv1alpha1.WorkObject{APIVersion: apiVersion, Kind: "StatefulSet", Name: "db"}}
		p.planRows(nil, one, content{}, division{sites: []*site{{
			cluster: "east", stays: true, target: 2, grant: fleetv1alpha1.SubsetGrant{Replicas: 3}, counts: fleetv1alpha1.WorkCounts{Available: available},
		}}})
	}
	require.Equal(t, 1, p.missingReplicas)
}

func TestAStatusHasTheFirstProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east", "west")
	w.heldBy["west/"+rowName("a")] = "Propagation other"
	for i := range 30 {
		o := objectOf(t, configMap(strings.Repeat("x", i+1), "blue"))
		w.objects = append(w.objects, o)
		w.heldBy["east/"+o.row] = "Propagation other"
	}
	s, _ := w.report(placement.Result{})
	require.Len(t, s.Problems, maxProblems)
	require.Equal(t, "east", s.Problems[maxProblems-1].Cluster)
	require.Contains(t, s.Conditions[1].Message, "ConfigMap x in east: Propagation other already places it there")
	require.Contains(t, s.Conditions[1].Message, "and 28 more")
}

func TestWithdrawingNamesTheClustersThatHoldObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east", "west")
	w.row("east", "a", "b")
	w.row("west", "a")
	w.Clusters["west"].Status.Conditions[0].Status = metav1.ConditionFalse
	w.p.DeletionTimestamp = new(metav1.Unix(1, 0))
	s, _ := w.report(placement.Result{})
	require.Equal(t, "the object is being deleted: 2 clusters still hold it: west (ClusterUnreachable), east", report.GetCondition(s.Conditions, fleetv1alpha1.PropagationWithdrawing).Message)
}

func TestEvents(t *testing.T) {
	t.Parallel()
	set := func(placed, healthy string) fleetv1alpha1.PropagationStatus {
		condition := func(kind, reason string) metav1.Condition {
			c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: "m"}
			if reason == reasonPlaced || reason == reasonHealthy {
				c.Status = metav1.ConditionTrue
			}
			return c
		}
		return fleetv1alpha1.PropagationStatus{Objects: 2, Clusters: 3, Healthy: 6, Conditions: []metav1.Condition{
			condition(fleetv1alpha1.PropagationPlaced, placed), condition(fleetv1alpha1.PropagationHealthy, healthy),
		}}
	}
	for _, tt := range []struct {
		name        string
		before, now fleetv1alpha1.PropagationStatus
		want        []string
	}{
		{"The rows are written.", fleetv1alpha1.PropagationStatus{}, set(reasonPlaced, reasonProgressing), []string{"Placed: objects placed: 2, clusters: 3"}},
		{"All are healthy.", set(reasonPlaced, reasonProgressing), set(reasonPlaced, reasonHealthy), []string{"Healthy: all places are healthy: 6"}},
		{"Nothing changes.", set(reasonPlaced, reasonHealthy), set(reasonPlaced, reasonHealthy), nil},
		{"Something fails.", set(reasonPlaced, reasonHealthy), set(reasonConflict, "Degraded"), []string{"NotPlaced: Conflict: m", "Unhealthy: Degraded: m"}},
		{"For another reason.", set(reasonConflict, "Degraded"), set(reasonTooMany, "Degraded"), []string{"NotPlaced: TooMany: m"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got []string
			c := changed(tt.before, tt.now)
			for _, e := range c.Events {
				got = append(got, e.Reason+": "+e.Note)
			}
			require.Equal(t, tt.want, got)
			require.Equal(t, len(tt.want) == 0, c.Collect > 0)
		})
	}
}
