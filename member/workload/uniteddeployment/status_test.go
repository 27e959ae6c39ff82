package uniteddeployment

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

var now = start.Add(time.Hour)

// reconcileStatus returns the status after a plan was applied without errors, but not yet observed by the workloads' controllers.
func reconcileStatus(o observed) (planned, applied) {
	p := plan(o, now)
	d := applied{children: map[string]child{}}
	for i := range p.subsets {
		t := &p.subsets[i]
		if t.child != nil {
			d.children[t.name] = *t.child
		}
		if t.create != nil {
			d.children[t.name] = t.kind.viewOf(t.create)
			d.created = append(d.created, "web-"+t.name)
		}
		if t.update != nil {
			next := t.update.next.DeepCopyObject().(workload)
			next.SetGeneration(next.GetGeneration() + 1)
			d.children[t.name] = t.kind.viewOf(next)
			d.updated = append(d.updated, next.GetName())
		}
	}
	for _, c := range p.remove {
		d.removed = append(d.removed, c.GetName())
	}
	return p, d
}

func find(s appsv1beta1.UnitedDeploymentStatus, t appsv1beta1.UnitedDeploymentConditionType) *appsv1beta1.UnitedDeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

func TestStatusSumsSubsets(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a", "b"))
	o.ud.Spec.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 2}
	p, d := reconcileStatus(o)
	a := d.children["a"]
	a.observed, a.counts = a.GetGeneration(), counts{pods: 6, ready: 5, available: 4, updated: 3, updatedReady: 2, updatedAvailable: 1}
	d.children["a"] = a
	got, _ := status(o, p, d, now)
	revision := o.ud.Status.UpdatedRevision
	require.Empty(t, cmp.Diff([]appsv1beta1.SubsetStatus{
		{Name: "a", Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 4, UpdatedReplicas: 3, UpdatedReadyReplicas: 2, UpdatedAvailableReplicas: 1, Partition: 2},
		{Name: "b", Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5, UpdatedAvailableReplicas: 5},
	}, got.SubsetStatuses))
	got.SubsetStatuses, got.Conditions = nil, nil
	require.Empty(t, cmp.Diff(appsv1beta1.UnitedDeploymentStatus{
		ObservedGeneration: 2, Replicas: 11, ReadyReplicas: 10, AvailableReplicas: 9, UpdatedReplicas: 8, UpdatedReadyReplicas: 7, UpdatedAvailableReplicas: 6,
		CurrentRevision: revision, UpdatedRevision: revision, LabelSelector: "app=web",
	}, got))
}

// A hub gives a budget that was taken back to another cluster as soon as the generation is observed.
func TestAGenerationWithMaxUnavailableIsObservedWhenItIsInForce(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a", "b"))
	o.ud.Spec.UpdateStrategy.ManualUpdate.MaxUnavailable = map[string]int32{"a": 0}
	p, d := reconcileStatus(o)
	before := o.ud.Status.ObservedGeneration
	got, _ := status(o, p, d, now)
	require.Equal(t, before, got.ObservedGeneration, "the CloneSet controller has not seen it")
	a := d.children["a"]
	a.observed = a.GetGeneration()
	d.children["a"] = a
	got, _ = status(o, p, d, now)
	require.Equal(t, o.ud.Generation, got.ObservedGeneration)
}

func TestStatusCountsNoPodAsUpdatedBeforeItsControllerHasSeenTheTemplate(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a", "b"))
	before := o.ud.Status.UpdatedRevision
	o.ud.Spec.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
	o.refreshRevision(t)
	p, d := reconcileStatus(o)
	got, events := status(o, p, d, now)
	require.Equal(t, o.wanted.Name, got.UpdatedRevision)
	require.Equal(t, before, got.CurrentRevision)
	require.Equal(t, int64(2), got.ObservedGeneration, "all workloads were written")
	require.Equal(t, int32(10), got.ReadyReplicas)
	require.Zero(t, got.UpdatedReplicas)
	require.Zero(t, got.UpdatedReadyReplicas)
	require.Zero(t, got.UpdatedAvailableReplicas)
	require.Equal(t, corev1.ConditionTrue, find(got, appsv1beta1.SubsetUpdated).Status)
	c := find(got, appsv1beta1.UnitedDeploymentUpdated)
	require.Equal(t, corev1.ConditionFalse, c.Status)
	require.Equal(t, "UnitedDeploymentRevisionUpdating", c.Reason)
	require.Equal(t, "updating to revision "+o.wanted.Name, c.Message)
	require.Equal(t, []event.Event{wroteEvent("changed", []string{"web-a", "web-b"})}, events)

	for _, name := range []string{"a", "b"} {
		c := d.children[name]
		c.observed = c.GetGeneration()
		d.children[name] = c
	}
	got, _ = status(o, p, d, now)
	require.Equal(t, []int32{10, 10}, []int32{got.UpdatedReadyReplicas, got.UpdatedAvailableReplicas})
	require.Equal(t, o.wanted.Name, got.CurrentRevision)
	c = find(got, appsv1beta1.UnitedDeploymentUpdated)
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, "UnitedDeploymentRevisionUpdated", c.Reason)
	require.Equal(t, "updated to revision "+o.wanted.Name, c.Message)
}

func TestStatusCountsUpdatedPodsThroughAScale(t *testing.T) {
	t.Parallel()
	for name, as := range map[string]func(*appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment{
		"CloneSets":                      func(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment { return ud },
		"Deployments":                    asDeployment,
		"StatefulSets":                   asStatefulSet,
		"StatefulSets of apps.kruise.io": asAdvanced,
	} {
		for _, tt := range []struct {
			name string
			// before changes the workload of a, change changes the object.
			before  func(workload)
			change  func(*appsv1beta1.UnitedDeployment)
			updated int32
		}{
			{
				name:    "a scale keeps the count of updated pods",
				change:  func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = ptr.To[int32](20) },
				updated: 5,
			},
			{
				name:    "a second scale before the first was observed keeps the count of updated pods",
				before:  func(w workload) { w.SetGeneration(7) },
				change:  func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = ptr.To[int32](20) },
				updated: 5,
			},
			{
				name:    "a workload of OpenKruise counts once its controller has observed its generation",
				before:  func(w workload) { delete(w.GetAnnotations(), keys.TemplateGeneration) },
				change:  func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = ptr.To[int32](20) },
				updated: 5,
			},
			{
				name: "a workload of OpenKruise doesn't count before its controller has observed its generation",
				before: func(w workload) {
					w.SetGeneration(7)
					delete(w.GetAnnotations(), keys.TemplateGeneration)
				},
				change: func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = ptr.To[int32](20) },
			},
			{
				name: "a patch changes the template, and no pod counts as updated",
				change: func(ud *appsv1beta1.UnitedDeployment) {
					ud.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"metadata":{"labels":{"tier":"a"}}}`)}
				},
			},
			{
				name: "a scale does not hide that the previous template was not observed",
				before: func(w workload) {
					w.SetGeneration(2)
					setTemplateGeneration(w, 2)
				},
				change: func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = ptr.To[int32](20) },
			},
		} {
			t.Run(name+": "+tt.name, func(t *testing.T) {
				t.Parallel()
				o := observedOf(t, as(web("a", "b")))
				if c := &o.children[0]; tt.before != nil {
					tt.before(c.workload)
					k, _ := kindOf(&o.ud.Spec.Template)
					*c = k.viewOf(c.workload)
				}
				tt.change(o.ud)
				p, d := reconcileStatus(o)
				require.NotNil(t, p.subsets[0].update)
				a := d.children["a"]
				require.False(t, a.specObserved())
				got, _ := status(o, p, d, now)
				require.Equal(t, tt.updated, got.SubsetStatuses[0].UpdatedReplicas)
				require.Equal(t, tt.updated, got.SubsetStatuses[0].UpdatedReadyReplicas)
				require.Equal(t, int32(5), got.SubsetStatuses[0].ReadyReplicas)
			})
		}
	}
}

func TestStatusOfANewObject(t *testing.T) {
	t.Parallel()
	o := observed{ud: web("a", "b")}
	o.refreshRevision(t)
	p, d := reconcileStatus(o)
	got, events := status(o, p, d, now)
	require.Equal(t, o.wanted.Name, got.CurrentRevision, "pods can't be at any other revision")
	require.Equal(t, int64(2), got.ObservedGeneration)
	require.Zero(t, got.Replicas)
	require.Equal(t, []appsv1beta1.SubsetStatus{{Name: "a", Replicas: 5}, {Name: "b", Replicas: 5}}, got.SubsetStatuses)
	require.Equal(t, []event.Event{wroteEvent("created", []string{"web-a", "web-b"})}, events)
}

func TestStatusOfFailures(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	resting := func(t *testing.T) observed {
		t.Helper()
		return observedOf(t, web("a", "b"))
	}
	type reasons struct{ failure, provisioned, updated string } // of the conditions
	tests := []struct {
		name     string
		make     func(*testing.T) observed
		change   func(*planned, *applied)
		want     reasons
		message  string // of SubsetFailure
		observed bool
		event    string // its reason
	}{
		{
			name: "without errors there is no failure and no event", make: resting,
			change: func(*planned, *applied) {}, want: reasons{"", "AllSubsets", "AllSubsets"}, observed: true,
		},
		{
			name: "a failed write", make: resting,
			change: func(_ *planned, d *applied) { d.write = errors.Join(boom, boom) }, want: reasons{"Error", "AllSubsets", "Error"},
			message: "boom; boom", event: reasonFailedUpdateSubset,
		},
		{
			name: "a subset without a workload", make: resting,
			change: func(_ *planned, d *applied) { delete(d.children, "b"); d.write = boom }, want: reasons{"Error", "Waiting", "Error"},
			message: "boom", event: reasonFailedUpdateSubset,
		},
		{
			name: "a workload that is being deleted", make: resting,
			change: func(_ *planned, d *applied) { d.children["a"].SetDeletionTimestamp(&metav1.Time{Time: now}) },
			want:   reasons{"", "Waiting", "AllSubsets"},
		},
		{
			name: "a conflict", make: resting,
			change: func(_ *planned, d *applied) { d.late = true }, want: reasons{"", "AllSubsets", "AllSubsets"},
		},
		{
			name: "an unwanted workload that can't be deleted", make: resting,
			change: func(_ *planned, d *applied) { d.remove = boom }, want: reasons{"Error", "Error", "AllSubsets"},
			message: "boom", event: reasonFailedUpdateSubset,
		},
		{
			name: "a duplicate that can't be deleted", make: resting,
			change: func(_ *planned, d *applied) { d.duplicates = boom }, want: reasons{"Error", "Error", "AllSubsets"},
			message: "boom", event: reasonFailedDeleteDuplicatedSubsets,
		},
		{
			name: "a revision that can't be written", make: resting,
			change: func(_ *planned, d *applied) { d.revision = boom }, want: reasons{"Error", "AllSubsets", "Error"},
			message: "boom", event: reasonFailedRevisionProvision,
		},
		{
			name: "a patch that can't be applied", make: resting,
			change: func(_ *planned, d *applied) { d.render = boom }, want: reasons{"Error", "AllSubsets", "Error"},
			message: "boom", event: reasonFailedUpdateSubset,
		},
		{
			name: "a failed deletion of a revision", make: resting,
			change: func(_ *planned, d *applied) { d.rest = boom }, want: reasons{"Error", "AllSubsets", "AllSubsets"},
			message: "boom", event: reasonFailedUpdateSubset,
		},
		{
			name: "numbers that do not add up don't hold back observedGeneration", make: func(t *testing.T) observed {
				t.Helper()
				ud := web("a", "b")
				ud.Spec.Topology.Subsets[0].Replicas, ud.Spec.Topology.Subsets[1].Replicas = number("6"), number("4")
				o := observedOf(t, ud)
				o.ud.Spec.Replicas = ptr.To[int32](12)
				return o
			},
			change: func(*planned, *applied) {}, want: reasons{"SpecifySubsetReplicas", "AllSubsets", "AllSubsets"},
			message:  "the replicas of the subsets have no effect: subsets ask for 10 of 12 replicas, and none is left to take the rest",
			observed: true, event: "Failed SpecifySubsetReplicas", // as in OpenKruise
		},
		{
			name: "replicas that no subset may take", make: func(t *testing.T) observed {
				t.Helper()
				ud := web("a")
				ud.Spec.Topology.Subsets[0].MaxReplicas = number("4")
				return observedOf(t, ud)
			},
			change: func(*planned, *applied) {}, want: reasons{"UnallocatedReplicas", "AllSubsets", "AllSubsets"},
			message: "6 of 10 replicas are unallocated: no subset may take more", observed: true, event: reasonFailedSpecifySubsetReplicas,
		},
		{
			name: "an unsupported setting of the strategy", make: func(t *testing.T) observed {
				t.Helper()
				o := observedOf(t, asStatefulSet(web("a")))
				reserve(o.ud)
				return o
			},
			change: func(*planned, *applied) {}, want: reasons{"NotServed", "AllSubsets", "AllSubsets"},
			message: "reserveUnschedulablePods isn't supported with a StatefulSet: pods that can't be scheduled stay in their subset, " +
				"and no replacements are started",
			observed: true, event: ReasonNotServed,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := tt.make(t)
			p, d := reconcileStatus(o)
			tt.change(&p, &d)
			got, events := status(o, p, d, now)
			reason := func(kind appsv1beta1.UnitedDeploymentConditionType) string {
				if c := find(got, kind); c != nil {
					return c.Reason
				}
				return ""
			}
			require.Equal(t, tt.want, reasons{
				reason(appsv1beta1.SubsetFailure), reason(appsv1beta1.SubsetProvisioned), reason(appsv1beta1.SubsetUpdated),
			})
			require.Equal(t, tt.observed, got.ObservedGeneration == 2)
			if tt.want.failure == "" {
				require.Empty(t, events)
				return
			}
			require.Equal(t, tt.message, find(got, appsv1beta1.SubsetFailure).Message)
			require.Len(t, events, 1)
			require.Equal(t, tt.event, events[0].Reason)
			require.Equal(t, corev1.EventTypeWarning, events[0].Type)

			o.ud.Status = got
			_, events = status(o, p, d, now)
			switch tt.want.failure {
			case "SpecifySubsetReplicas", "UnallocatedReplicas", "NotServed":
				require.Empty(t, events, "what only the spec can fix is reported once")
			}
			p, d = reconcileStatus(observedOf(t, web("a", "b")))
			got, _ = status(o, p, d, now)
			require.Nil(t, find(got, appsv1beta1.SubsetFailure), "the condition is removed with its cause")
		})
	}
}

func TestStatusOfACollision(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a"))
	want := o.ud.Status.DeepCopy()
	want.CollisionCount = ptr.To[int32](1)
	got, events := status(o, plan(o, now), applied{collided: true}, now)
	require.Empty(t, cmp.Diff(*want, got), "no other counts are known")
	require.Empty(t, events)
}

func TestStatusIsUnchangedWhereNothingChanges(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a", "b"))
	p, d := reconcileStatus(o)
	o.ud.Status, _ = status(o, p, d, now)
	got, events := status(o, p, d, now.Add(time.Hour))
	require.Empty(t, cmp.Diff(o.ud.Status, got))
	require.Empty(t, events)
}

func TestWhatMayWait(t *testing.T) {
	t.Parallel()
	type status = appsv1beta1.UnitedDeploymentStatus
	old := status{
		ObservedGeneration: 1, Replicas: 4, AvailableReplicas: 4, SubsetStatuses: []appsv1beta1.SubsetStatus{{Name: "a", Replicas: 4, ReadyReplicas: 1}},
	}
	failed := []appsv1beta1.UnitedDeploymentCondition{{Type: appsv1beta1.SubsetFailure, Status: corev1.ConditionTrue, Reason: reasonError}}
	for _, tt := range []struct {
		name      string
		partition int32
		change    func(s *status)
		// waits: the status may wait, for as long as collect if it isn't 0.
		waits   bool
		collect time.Duration
	}{
		{"one more pod is ready", 0, func(s *status) { s.UpdatedReadyReplicas, s.SubsetStatuses[0].ReadyReplicas = 2, 2 }, true, 0},
		{"a rollout begins", 0, func(s *status) { s.ObservedGeneration, s.Replicas = 2, 5 }, true, begunDelay},
		{"a rollout begins, and takes a pod", 0, func(s *status) { s.ObservedGeneration, s.AvailableReplicas = 2, 3 }, true, 0},
		{"all pods are updated, but not all are available", 0, func(s *status) { s.UpdatedReadyReplicas, s.AvailableReplicas = 4, 3 }, true, 0},
		{"all pods are updated and available", 0, func(s *status) { s.UpdatedReadyReplicas = 4 }, false, 0},
		{"all pods except for the partition are updated", 3, func(s *status) { s.UpdatedReadyReplicas = 1 }, false, 0},
		{"not all pods beyond the partition are updated", 2, func(s *status) { s.UpdatedReadyReplicas = 1 }, true, 0},
		{"the partition keeps all pods", 4, func(s *status) { s.ObservedGeneration = 2 }, false, 0},
		{"a failure", 0, func(s *status) { s.Conditions = failed }, false, 0},
		{"a collision", 0, func(s *status) { s.CollisionCount = new(int32(1)) }, false, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			changed := *old.DeepCopy()
			tt.change(&changed)
			ud := &appsv1beta1.UnitedDeployment{Status: old}
			ud.Annotations = map[string]string{keys.FleetRowUID: "row"}
			p := planned{wanted: 4, subsets: []target{{name: "a", replicas: 4, partition: tt.partition}}}
			if !tt.waits {
				require.False(t, mayWait(old, changed, p))
				return
			}
			require.True(t, mayWait(old, changed, p))
			require.Equal(t, tt.collect, collectFor(ud, changed, p))
			ud.Annotations = nil
			require.Zero(t, collectFor(ud, changed, p), "the status of an object without a fleet row waits no longer than others")
		})
	}
	failing := *old.DeepCopy()
	failing.Conditions = failed
	p := planned{subsets: []target{{name: "a", replicas: 4}}}
	require.False(t, mayWait(failing, old, p), "the end of a failure")
	require.False(t, onlyBegun(status{Replicas: 3}, planned{}), "no rollout has begun if no pod is wanted")
}

func TestConditionMessagesAreCut(t *testing.T) {
	t.Parallel()
	o := observedOf(t, web("a"))
	p, d := reconcileStatus(o)
	d.write = errors.New(strings.Repeat("ä", 1000))
	got, _ := status(o, p, d, now)
	message := find(got, appsv1beta1.SubsetFailure).Message
	require.LessOrEqual(t, len(message), report.MessageLimit)
	require.True(t, strings.HasSuffix(message, "ä..."))
}

func TestCountsOfUpdatedReadyPods(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		in   counts
		want int32
	}{
		{"all pods are updated and ready", counts{pods: 5, ready: 5, updated: 5}, 5},
		{"no pod is updated", counts{pods: 5, ready: 5}, 0},
		{"all ready pods may be old", counts{pods: 5, ready: 3, updated: 2}, 0},
		{"more pods are ready than are old", counts{pods: 5, ready: 4, updated: 3}, 2},
		{"old pods are ready with a partition", counts{pods: 5, ready: 5, updated: 3}, 3},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.want, tt.in.atLeast(tt.in.ready))
		})
	}
}

func TestCountsOfUpdatedAvailablePods(t *testing.T) {
	t.Parallel()
	for name, w := range map[string]struct {
		kind kind
		workload
		want int32
	}{
		"a CloneSet counts them": {cloneSets(), &appsv1beta1.CloneSet{Status: appsv1beta1.CloneSetStatus{
			Replicas: 5, AvailableReplicas: 4, UpdatedReplicas: 3, UpdatedAvailableReplicas: 3,
		}}, 3},
		"a StatefulSet of apps.kruise.io counts them": {advancedSets(), &appsv1beta1.StatefulSet{Status: appsv1beta1.StatefulSetStatus{
			Replicas: 5, AvailableReplicas: 4, UpdatedReplicas: 3, UpdatedAvailableReplicas: 3,
		}}, 3},
		"of a Deployment, old pods may be the available ones": {deployments(), &appsv1.Deployment{Status: appsv1.DeploymentStatus{
			Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 4, UpdatedReplicas: 3,
		}}, 2},
		"of a StatefulSet, old pods may be the available ones": {statefulSets(), &appsv1.StatefulSet{Status: appsv1.StatefulSetStatus{
			Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 4, UpdatedReplicas: 3,
		}}, 2},
	} {
		c := w.kind.viewOf(w.workload)
		require.Equal(t, w.want, c.updatedAvailable, name)
	}
}
