package cloneset

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/plantext"
)

// start is when the pods of all tests became ready; now is an hour later.
var (
	start = time.Date(2026, 11, 21, 9, 0, 0, 0, time.UTC)
	now   = start.Add(time.Hour)
)

const owner = "uid-web"

// revisionOf returns the revision of set, as history contains it.
func revisionOf(tb testing.TB, set *appsv1beta1.CloneSet, number int64) *appsv1.ControllerRevision {
	tb.Helper()
	r, err := wantedRevision(set)
	require.NoError(tb, err)
	r.Revision = number
	return r
}

// observedOf builds what is observed of set after earlier versions of it. names are the revisions, oldest first.
func observedOf(tb testing.TB, set *testkit.CloneSetBuilder, former ...*testkit.CloneSetBuilder) (o observed, names []string) {
	tb.Helper()
	for i, f := range append(former, set) {
		r := revisionOf(tb, f.Obj(), int64(i+1))
		o.history = append(o.history, r)
		names = append(names, r.Name)
	}
	o.set = set.Obj()
	o.wanted = revisionOf(tb, o.set, 0)
	if o.set.Status.CurrentRevision == "" {
		o.set.Status.CurrentRevision = names[0]
	}
	return o, names
}

// with adds a serving pod at a revision for each name.
func (o *observed) with(rev string, names ...string) {
	for _, n := range names {
		o.pods = append(o.pods, pod(n).Rev(rev).Serving(start).Obj())
	}
}

func pod(name string) *testkit.PodBuilder {
	return testkit.Pod("web-" + name).OwnedBy(owner).ID(name).Created(start)
}

// pvc returns an existing PVC of an instance ID.
func pvc(set *appsv1beta1.CloneSet, id string) *corev1.PersistentVolumeClaim {
	c := newPVCs(set, id)[0]
	c.UID = "uid-" + "pvc-" + c.UID
	return c
}

func web(replicas int32) *testkit.CloneSetBuilder { return testkit.CloneSet("web").Replicas(replicas) }

// hookAll adds a hook on the label hold=yes to a spec at each of the three points.
func hookAll(s *appsv1beta1.CloneSetSpec) {
	hook := func() *pods.LifecycleHook {
		return &pods.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}
	}
	s.Lifecycle = &pods.Lifecycle{PreDelete: hook(), InPlaceUpdate: hook(), PreNormal: hook()}
}

func createsOf(p planned) []podset.Step { return p.Of(rollout.StepCreate) }

// text writes a plan in the order in which it is carried out.
func text(p planned) string {
	var before, after []string
	for _, g := range p.transfers {
		before = append(before, fmt.Sprintf("give PVC %s to %s", g.pvc.Name, g.pod.Name))
	}
	for _, c := range p.deletePVCs {
		after = append(after, "delete PVC "+c.Name)
	}
	if p.truncate {
		after = append(after, fmt.Sprintf("podsToDelete: %v", p.podsToDelete))
	}
	return plantext.Plan(&p.Plan, before, after)
}

func TestPlan(t *testing.T) {
	t.Parallel()
	inPlace := func(n int32) *testkit.CloneSetBuilder { return web(n).Policy(appsv1beta1.PodInPlaceIfPossible) }
	tests := []struct {
		name  string
		world func(t *testing.T) observed
	}{
		{"a new set creates its revision and its pods", func(t *testing.T) observed {
			t.Helper()
			o, _ := observedOf(t, web(2))
			o.history, o.set.Status.CurrentRevision = nil, ""
			return o
		}},
		{"a set that is up to date does nothing", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2))
			o.with(names[0], "a", "b")
			return o
		}},
		{"the gate of a scheduled pod is opened, the gate of a pod without a node is not", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2))
			fresh := func(n string) *testkit.PodBuilder {
				b := pod(n).Rev(names[0]).State(pods.LifecyclePreparingNormal)
				b.Obj().Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
				return b
			}
			o.pods = []*corev1.Pod{fresh("a").Node("n1").Obj(), fresh("b").Obj()}
			return o
		}},
		{"an image changes in place within the budget", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(4).Image("app:2").Rolling("1", "2", "0"), inPlace(4))
			o.with(names[0], "a", "b", "c", "d")
			return o
		}},
		{"a change beyond images re-creates the pod, in two reconciles", func(t *testing.T) observed {
			t.Helper()
			changed := inPlace(2).Rolling("0", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.Template.Spec.Containers[0].Command = []string{"serve"}
			})
			o, names := observedOf(t, changed, inPlace(2))
			o.with(names[0], "a", "b")
			return o
		}},
		{"InPlaceOnly holds pods that it can't update", func(t *testing.T) observed {
			t.Helper()
			changed := web(1).Policy(appsv1beta1.PodInPlaceOnly).Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.Template.Spec.Containers[0].Command = []string{"serve"}
			})
			o, names := observedOf(t, changed, web(1))
			o.with(names[0], "a")
			return o
		}},
		{"a pod of a revision that is not in history is re-created", func(t *testing.T) observed {
			t.Helper()
			o, _ := observedOf(t, inPlace(1))
			o.with("web-gone", "a")
			return o
		}},
		{"a rollback of the template makes the old revision the newest", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(2).Image("app:1"), inPlace(2).Image("app:1"), inPlace(2).Image("app:2"))
			o.history, names = o.history[:2], names[:2]
			o.with(names[0], "a")
			o.with(names[1], "b")
			return o
		}},
		{"a paused set scales and does not update", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(3).Image("app:2").Paused(), inPlace(3))
			o.with(names[0], "a", "b")
			return o
		}},
		{"OnDelete leaves old pods and creates new ones at the new revision", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2).OnDelete().Image("app:2"), web(2))
			o.with(names[0], "a")
			return o
		}},
		{"missing pods below the partition are created at the current revision", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(3).Image("app:2").Rolling("2", "1", "0"), web(3))
			o.with(names[1], "a")
			return o
		}},
		{"pods to delete go first, by podsToDelete and by label, and names of deleted pods are removed", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2).PodsToDelete("web-b", "web-gone"))
			o.with(names[0], "a", "b", "c", "d")
			o.pods[3].Labels[keys.SpecifiedDelete] = ""
			return o
		}},
		{"a pod that lost its labels is released, replaced, and keeps its PVCs", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2).PVCs("data"))
			o.with(names[0], "a", "b")
			o.pods[1].Labels["app"] = "other"
			o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a"), pvc(o.set, "b")}
			return o
		}},
		{"a pod that is ready for less than minReadySeconds is rechecked when it becomes available", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(1).Spec(func(s *appsv1beta1.CloneSetSpec) { s.MinReadySeconds = 3660 }))
			o.with(names[0], "a")
			return o
		}},
		{"scale-in deletes pods in the zone that has the most", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2).Rolling("0", "100%", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.Template.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{TopologyKey: "zone"}}
			}))
			o.nodes = map[string]map[string]string{}
			for _, at := range []string{"a-1", "b-2", "c-2"} {
				id, zone, _ := strings.Cut(at, "-")
				o.pods = append(o.pods, pod(id).Rev(names[0]).Node("n"+id).Serving(start).Obj())
				o.nodes["n"+id] = map[string]string{"zone": zone}
			}
			return o
		}},
		{"a spec with numbers that can't be resolved does nothing", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(3).Rolling("x", "1", "0"))
			o.with(names[0], "a")
			return o
		}},
		{"a pod with a hook is prepared before its update, and updated once the hook has let go", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(4).Image("app:2").Rolling("0", "2", "0").Spec(hookAll), inPlace(4))
			o.with(names[0], "a", "b", "c")
			for _, p := range o.pods {
				p.Labels["hold"] = "yes"
			}
			o.pods = append(o.pods, pod("d").Rev(names[0]).Serving(start).State(pods.LifecyclePreparingUpdate).Obj())
			return o
		}},
		{"#1156: a rollback reverts pods from every state of an update", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(5).Rolling("0", "5", "0").Spec(hookAll), inPlace(5), inPlace(5).Image("app:2"))
			for id, state := range map[string]pods.LifecycleState{"a": pods.LifecyclePreparingUpdate, "b": pods.LifecycleNormal} {
				o.pods = append(o.pods, pod(id).Rev(names[0]).Serving(start).State(state).Obj())
			}
			for id, state := range map[string]pods.LifecycleState{"c": pods.LifecycleUpdated, "d": pods.LifecyclePreparingUpdate} {
				o.pods = append(o.pods, pod(id).Rev(names[1]).Image("app:2").Serving(start).State(state).Obj())
			}
			o.pods = append(o.pods, pod("e").Rev(names[1]).Image("app:2").Serving(start).Gate(false, start).State(pods.LifecycleUpdating).Obj())
			return o
		}},
		{"a pod with a hook is prepared before it is deleted, and is not replaced meanwhile", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2).Spec(hookAll))
			o.with(names[0], "a", "b", "c")
			o.pods[1].Labels[keys.SpecifiedDelete] = "true"
			for _, p := range o.pods {
				p.Labels["hold"] = "yes"
			}
			return o
		}},
		{"PreparingDelete is cancelled when more pods are wanted, except for pods to delete", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(3).Spec(hookAll))
			for _, id := range []string{"a", "b", "c"} {
				o.pods = append(o.pods, pod(id).Rev(names[0]).Serving(start).Label("hold", "yes").State(pods.LifecyclePreparingDelete).Obj())
			}
			o.pods[1].Labels[keys.SpecifiedDelete] = ""
			return o
		}},
		{"pods in PreparingDelete are replaced where they don't count", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(2).Spec(func(s *appsv1beta1.CloneSetSpec) {
				hookAll(s)
				s.Lifecycle.PreDelete.MarkPodNotReady = true
				s.ScaleStrategy.ExcludePreparingDelete = true
			}))
			o.with(names[0], "a")
			o.pods = append(o.pods, pod("b").Rev(names[0]).Serving(start).Label("hold", "yes").State(pods.LifecyclePreparingDelete).Obj())
			return o
		}},
		{"at most as many pods are created as may be unavailable", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(10).Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.ScaleStrategy.MaxUnavailable = new(intstr.FromString("25%"))
			}))
			o.with(names[0], "a", "b")
			o.pods[0] = pod("a").Rev(names[0]).Node("n1").Obj()
			return o
		}},
		{"a grace period passes before containers change", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(1).Image("app:2").Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{GracePeriodSeconds: 60}
			}), inPlace(1))
			o.pods = append(o.pods, pod("a").Rev(names[0]).Serving(start).Gate(false, now.Add(-time.Second)).State(pods.LifecycleUpdating).Obj())
			return o
		}},
		{"a raised partition rolls pods back with the gate", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(3).Image("app:2").Rolling("2", "1", "0"), inPlace(3))
			o.gates.PartitionRollback = true
			o.with(names[0], "a")
			for _, id := range []string{"b", "c"} {
				o.pods = append(o.pods, pod(id).Rev(names[1]).Image("app:2").Serving(start).Obj())
			}
			return o
		}},
		{"a raised partition rolls no pods back without the gate", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, inPlace(3).Image("app:2").Rolling("2", "1", "0"), inPlace(3))
			o.with(names[0], "a")
			for _, id := range []string{"b", "c"} {
				o.pods = append(o.pods, pod(id).Rev(names[1]).Image("app:2").Serving(start).Obj())
			}
			return o
		}},
		{"with reuse, a pod with PVCs is labelled for deletion first", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(1).PVCs("data").Reuse())
			o.with(names[0], "a", "b")
			o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a"), pvc(o.set, "b")}
			return o
		}},
		{"with reuse, a pod to delete first becomes the owner of its PVCs, so that no other pod reuses them", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(1).PVCs("data").Reuse())
			o.with(names[0], "a", "b")
			o.pods[1].Labels[keys.SpecifiedDelete] = "true"
			o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a"), pvc(o.set, "b")}
			return o
		}},
		{"a pod that is prepared for its deletion does not own its PVCs yet", func(t *testing.T) observed {
			t.Helper()
			o, names := observedOf(t, web(1).PVCs("data").Reuse().Spec(hookAll))
			o.with(names[0], "a", "b")
			o.pods[1].Labels[keys.SpecifiedDelete], o.pods[1].Labels["hold"] = "true", "yes"
			o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a"), pvc(o.set, "b")}
			return o
		}},
		{"revisions beyond the limit are deleted, those in use are kept", func(t *testing.T) observed {
			t.Helper()
			last := web(1).Image("app:5").Spec(func(s *appsv1beta1.CloneSetSpec) { s.RevisionHistoryLimit = ptr.To[int32](1) })
			o, names := observedOf(t, last, web(1).Image("app:1"), web(1).Image("app:2"), web(1).Image("app:3"), web(1).Image("app:4"))
			o.set.Status.CurrentRevision = names[4]
			o.with(names[4], "a")
			o.pods = append(o.pods, pod("b").Rev(names[0]).Terminating(start).Obj())
			return o
		}},
	}
	var got strings.Builder
	for _, tt := range tests {
		o := tt.world(t)
		fmt.Fprintf(&got, "%s:\n%s\n", tt.name, text(plan(o, now)))
		testkit.RequireSamePlan(t, o.pods, Registration().Fields.Strip, func(pods []*corev1.Pod) string {
			o.pods = pods
			return text(plan(o, now))
		})
	}
	golden.Equal(t, "plan", got.String())
}

func TestPlanOfPVCs(t *testing.T) {
	t.Parallel()
	set := func(reuse bool) *testkit.CloneSetBuilder {
		b := web(1).PVCs("data")
		if reuse {
			b.Reuse()
		}
		return b
	}
	tests := []struct {
		name  string
		reuse bool
		// pod is the pod with ID "a", which has a PVC; nil means no pod.
		pod  *testkit.PodBuilder
		want string
	}{
		{
			"with reuse, a PVC without a pod is reused by the next pod", true, nil,
			"  Create new (a): Missing: pods: 0, wanted: 1; reuses the PVCs of a\n",
		},
		{
			"without reuse, a PVC without a pod is deleted", false, nil,
			"  Create new (any id): Missing: pods: 0, wanted: 1\n  delete PVC data-web-a\n",
		},
		{
			"with reuse, a new pod waits until the terminating one is gone", true, pod("a").Serving(start).Terminating(now),
			"  hold 1: PVC: 1 new pod(s) waiting for PVCs of pods that are terminating or have ended: web-a\n  recheck after 10m0s\n",
		},
		{
			"without reuse, a PVC is deleted with its terminating pod", false, pod("a").Serving(start).Terminating(now),
			"  give PVC data-web-a to web-a\n  Create new (any id): Missing: pods: 0, wanted: 1\n",
		},
		{
			"with reuse, a failed pod is deleted to free its name", true, pod("a").Phase(corev1.PodFailed),
			"  Delete web-a: Ended: phase Failed; 1 PVC(s) will go to the pod that replaces it\n" +
				"  hold 1: PVC: 1 new pod(s) waiting for PVCs of pods that are terminating or have ended: web-a\n",
		},
		{
			"without reuse, a PVC is deleted with its failed pod", false, pod("a").Phase(corev1.PodFailed),
			"  give PVC data-web-a to web-a\n  Create new (any id): Missing: pods: 0, wanted: 1\n",
		},
		{"a PVC of a running pod is left alone", false, pod("a").Serving(start), "  nothing\n"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, set(tt.reuse))
			o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a")}
			if tt.pod != nil {
				o.pods = []*corev1.Pod{tt.pod.Rev(names[0]).Obj().DeepCopy()}
			}
			require.Empty(t, cmp.Diff(tt.want, text(plan(o, now))))
		})
	}
}

func TestPlanIgnoresTerminatingPVCs(t *testing.T) {
	t.Parallel()
	o, _ := observedOf(t, web(1).PVCs("data").Reuse())
	c := pvc(o.set, "a")
	c.DeletionTimestamp = new(metav1.NewTime(start))
	o.pvcs = []*corev1.PersistentVolumeClaim{c}
	p := plan(o, now)
	require.Len(t, createsOf(p), 1)
	require.Empty(t, createsOf(p)[0].Slot, "a terminating PVC can't be reused")
	require.Empty(t, p.deletePVCs)
}

func TestTheCurrentRevisionIsThatOfPodsWithoutAStatus(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// status is the revision in the status, pods the revision of the pods, as numbers from 0; -1 means none.
		status, pod int
		want        int
	}{
		{"the status names the current revision", 1, 0, 1},
		{"without a status, the pods' revision is current", -1, 1, 1},
		{"without pods, the update revision is current", -1, -1, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, web(2).Image("app:3"), web(2).Image("app:1"), web(2).Image("app:2"))
			o.set.Status.CurrentRevision = ""
			if tt.status >= 0 {
				o.set.Status.CurrentRevision = names[tt.status]
			}
			if tt.pod >= 0 {
				o.with(names[tt.pod], "a")
				o.with(names[2], "b")
			}
			require.Equal(t, names[tt.want], plan(o, now).Current.Name)
		})
	}
}

func TestAPodThatLostAPVCIsDeleted(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		// pvc is what the pod mounts. there reports whether it exists, going whether it is being deleted.
		pvc         string
		there       bool
		going       bool
		pending     bool // the pod has a node but is not running
		unscheduled bool
		want        bool
	}{
		{name: "a pod that has its PVC is kept", pvc: "data-web-a", there: true},
		{name: "a pod that runs is kept while its PVC is terminating", pvc: "data-web-a", there: true, going: true},
		{name: "a pod that does not run is deleted if its PVC is terminating", pvc: "data-web-a", there: true, going: true, pending: true, want: true},
		{name: "a pending pod whose PVC is gone is deleted", pvc: "data-web-a", unscheduled: true, want: true},
		{name: "a pending pod whose PVC exists is kept", pvc: "data-web-a", there: true, unscheduled: true},
		{name: "a running pod whose PVC is gone is kept", pvc: "data-web-a"},
		{name: "PVCs of other owners don't matter", pvc: "shared", unscheduled: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, web(1).PVCs("data"))
			o.with(names[0], "a")
			p := o.pods[0]
			p.Spec.NodeName = "node-1"
			if tt.pending || tt.unscheduled {
				p.Status = corev1.PodStatus{Phase: corev1.PodPending}
			}
			if tt.unscheduled {
				p.Spec.NodeName = ""
			}
			p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: tt.pvc},
			}}}
			if tt.there {
				o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a")}
			}
			if tt.going {
				o.pvcs[0].DeletionTimestamp = new(metav1.NewTime(start))
			}
			w := plan(o, now)
			require.Equal(t, tt.want, w.Pods[0].ToDelete)
			require.Equal(t, tt.want, len(w.Of(rollout.StepDelete)) == 1)
		})
	}
}

func TestAPodIsDeletedOnceItOwnsItsPVCs(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(0).PVCs("data", "logs").Reuse())
	o.with(names[0], "a", "b", "c")
	for i, id := range []string{"a", "b"} {
		o.pods[i].Labels[keys.SpecifiedDelete] = "true"
		o.pvcs = append(o.pvcs, newPVCs(o.set, id)...)
	}
	p := plan(o, now)
	require.Len(t, p.transfers, 4)
	var ready []string
	for _, c := range p.unblockedDeletes([]string{"data-web-a", "logs-web-a", "data-web-b"}) {
		ready = append(ready, c.Pod.Key)
	}
	require.ElementsMatch(t, []string{"web-a", "web-c"}, ready, "not web-b, one of whose PVCs was changed concurrently")
}

func TestPlanIsAFunction(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(4).Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible), web(4))
	o.with(names[0], "a", "b", "c", "d")
	first := text(plan(o, now))
	before := o.pods[0].DeepCopy()
	o.pods[0], o.pods[3] = o.pods[3], o.pods[0]
	require.Equal(t, first, text(plan(o, now)), "the order of the list doesn't matter")
	require.Empty(t, cmp.Diff(before, o.pods[3]), "observed objects are not changed")
}

func TestGoalOf(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		set  *testkit.CloneSetBuilder
		want rollout.Goal
	}{
		{
			"without surge, the budget rounds up", web(11).Rolling("0", "20%", "0"),
			rollout.Goal{Replicas: 11, MaxUnavailable: 3},
		},
		{
			"with surge, the budget rounds down and the surge up", web(11).Rolling("30%", "20%", "5%"),
			rollout.Goal{Replicas: 11, Partition: 4, MaxUnavailable: 2, MaxSurge: 1},
		},
		{
			"OnDelete has the default budget, rounded up so that a named pod can go", web(3).OnDelete(),
			rollout.Goal{Replicas: 3, MaxUnavailable: 1, Mode: rollout.OnDelete},
		},
		{
			"policy and pause are copied", web(1).Policy(appsv1beta1.PodInPlaceOnly).Paused(),
			rollout.Goal{Replicas: 1, MaxUnavailable: 1, Mode: rollout.InPlaceOnly, Paused: true},
		},
		{
			"the bound on creations rounds up", web(11).Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.ScaleStrategy.MaxUnavailable = new(intstr.FromString("20%"))
				s.ScaleStrategy.ExcludePreparingDelete = true
			}),
			rollout.Goal{Replicas: 11, MaxUnavailable: 3, ScaleMaxUnavailable: new(3), ExcludePreparingDelete: true},
		},
		{
			"a spec without any default counts as one replica", testkit.CloneSet("web").Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.Replicas, s.UpdateStrategy = nil, appsv1beta1.CloneSetUpdateStrategy{}
			}),
			rollout.Goal{Replicas: 1, MaxUnavailable: 1},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := goalOf(&tt.set.Obj().Spec)
			require.NoError(t, err)
			require.Equal(t, tt.want, got)
		})
	}
	for _, bad := range [][3]string{{"x", "1", "0"}, {"0", "x", "0"}, {"0", "1", "x"}} {
		_, err := goalOf(&web(1).Rolling(bad[0], bad[1], bad[2]).Obj().Spec)
		require.Error(t, err)
	}
	_, err := goalOf(&web(1).Spec(func(s *appsv1beta1.CloneSetSpec) { s.ScaleStrategy.MaxUnavailable = new(intstr.FromString("x")) }).Obj().Spec)
	require.ErrorContains(t, err, "scaleStrategy.maxUnavailable")
}

func BenchmarkPlan(b *testing.B) {
	for _, n := range []int{100, 5_000, 10_000} {
		b.Run(fmt.Sprintf("pods=%d", n), func(b *testing.B) {
			inPlace := func() *testkit.CloneSetBuilder { return web(int32(n)).Policy(appsv1beta1.PodInPlaceIfPossible) }
			o, names := observedOf(b, inPlace().Image("app:2").Rolling("50%", "10%", "0"), inPlace())
			for i := range n {
				o.with(names[i%2], fmt.Sprintf("%05d", i))
			}
			b.ReportAllocs()
			for b.Loop() {
				plan(o, now)
			}
		})
	}
}

func TestReplicasTakeNoMemory(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(2_000_000_000))
	o.with(names[0], "a", "b")
	p := plan(o, now)
	require.Len(t, createsOf(p), rollout.MaxCreates)
	require.Equal(t, []rollout.Hold{{
		Reason: rollout.ReasonBurst, Pods: 1_999_998_998, Why: "1999998998 new pod(s) waiting: at most 1000 are created at a time",
	}}, p.Holds)
	s, _ := status(o, p, applied{}, now)
	require.Empty(t, failures(s.Conditions))
	require.Equal(t, int32(2), s.Replicas)
}
