package podset

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// serving returns a gated pod in service since start, changed by each of fs.
func serving(fs ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-a", CreationTimestamp: metav1.NewTime(start.Add(-time.Hour)),
			Labels: map[string]string{
				keys.LifecycleState: "Normal", keys.ControllerRevisionHash: "web-6f7c",
			},
			Annotations: map[string]string{},
		},
		Spec: corev1.PodSpec{
			NodeName:       "n1",
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}},
			Containers:     []corev1.Container{{Name: "app", Image: "app:1"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)},
				{Type: keys.InPlaceUpdateReady, Status: corev1.ConditionTrue},
			},
			ContainerStatuses: []corev1.ContainerStatus{{
				Name: "app", Image: "app:1", ImageID: "app@sha256:1", ContainerID: "run://1", RestartCount: 2,
				State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}},
		},
	}
	for _, f := range fs {
		f(p)
	}
	return p
}

func label(k, v string) func(*corev1.Pod)      { return func(p *corev1.Pod) { p.Labels[k] = v } }
func annotation(k, v string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Annotations[k] = v } }

func without(t corev1.PodConditionType) func(*corev1.Pod) { return set(t, "") }

// set changes the status of a condition; an empty status removes the condition.
func set(t corev1.PodConditionType, s corev1.ConditionStatus) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		var out []corev1.PodCondition
		for _, c := range p.Status.Conditions {
			if c.Type != t {
				out = append(out, c)
			} else if s != "" {
				c.Status = s
				out = append(out, c)
			}
		}
		p.Status.Conditions = out
	}
}

func phase(ph corev1.PodPhase) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Status.Phase = ph } }

// seen is the generation that the kubelet has seen of a pod that was changed once.
func seen(generation int64) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 2, generation }
}

func runningSince(t time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Status.ContainerStatuses[0].State.Running.StartedAt = metav1.NewTime(t) }
}

func newImage(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:2" }

func unscheduled(p *corev1.Pod) {
	p.Spec.NodeName, p.Status.Phase, p.Status.Conditions = "", corev1.PodPending, nil
}

func TestViewOfAPodInService(t *testing.T) {
	t.Parallel()
	f := View(serving(annotation(keys.PodDeletionCost, "-3")), Rules{MinReady: time.Minute}, start.Add(time.Minute))
	rank := rollout.Rank{
		Assigned: true, Phase: corev1.PodRunning, Cost: -3, Node: "n1", ReadySince: start, Restarts: 2,
		Created: start.Add(-time.Hour),
	}
	require.Empty(t, cmp.Diff(Facts{
		Name: "web-a", Active: true, Ready: true, ReadySince: start, Available: true,
		Lifecycle: pods.LifecycleNormal, Gated: true, Rank: rank,
	}, f))
	require.Empty(t, cmp.Diff(rollout.Pod{
		Key: "web-a", Old: true, Ready: true, Available: true, Gated: true, Rank: rank,
	}, f.Pod(true)))
}

func TestViewOfAnEmptyPod(t *testing.T) {
	t.Parallel()
	f := View(&corev1.Pod{}, Rules{MinReady: time.Minute}, start)
	require.Empty(t, cmp.Diff(Facts{Active: true, Lifecycle: pods.LifecycleNormal}, f))
}

func TestReadyAndAvailable(t *testing.T) {
	t.Parallel()
	noTime := func(p *corev1.Pod) { p.Status.Conditions[1].LastTransitionTime = metav1.Time{} }
	for _, tc := range []struct {
		name             string
		pod              *corev1.Pod
		minReady         time.Duration
		ready, available bool
		changes          time.Time
	}{
		{name: "a ready pod is available at once with minReadySeconds 0", pod: serving(), ready: true, available: true},
		{name: "a ready pod is not available before minReadySeconds", pod: serving(), minReady: 2 * time.Minute, ready: true, changes: start.Add(2 * time.Minute)},
		{name: "a ready pod is available after minReadySeconds", pod: serving(), minReady: time.Minute, ready: true, available: true},
		{name: "a ready pod without a transition time is available with minReadySeconds 0", pod: serving(noTime), ready: true, available: true},
		{name: "a ready pod without a transition time is never available with minReadySeconds above 0", pod: serving(noTime), minReady: time.Second, ready: true},
		{name: "a pod that is not running is not ready", pod: serving(phase(corev1.PodPending))},
		{name: "a pod without the Ready condition is not ready", pod: serving(without(corev1.PodReady))},
		{name: "a pod with a closed gate is not ready, whatever its Ready condition", pod: serving(set(keys.InPlaceUpdateReady, corev1.ConditionFalse))},
		{name: "a pod whose gate was never set is ready by its Ready condition", pod: serving(without(keys.InPlaceUpdateReady)), ready: true, available: true},
		{name: "a pod with another lifecycle state than Normal is ready but not available", pod: serving(label(keys.LifecycleState, "PreparingDelete")), ready: true},
		{name: "a pod without lifecycle is available", pod: serving(label(keys.LifecycleState, "")), ready: true, available: true},
		{
			name: "a pod whose image another writer has changed is not available until the kubelet has replaced the container",
			pod:  serving(seen(1), newImage), ready: true,
		},
		{name: "a pod whose kubelet has seen the new image is judged by its conditions", pod: serving(seen(2), newImage), ready: true, available: true},
		{
			name: "a pod whose sidecar is being replaced is not available until its kubelet would have stopped the old container", ready: true,
			pod: serving(seen(2), newImage, runningSince(start), annotation(keys.SidecarSetInPlaceState,
				`{"proxies":{"revision":"b","updateTimestamp":"`+start.Add(time.Minute).Format(time.RFC3339)+`"}}`)),
			changes: start.Add(time.Minute + 45*time.Second),
		},
		{name: "a change that replaces no container keeps the pod available", pod: serving(seen(1)), ready: true, available: true},
		{name: "a pod of a kubelet without observedGeneration is judged by its conditions", pod: serving(seen(0), newImage), ready: true, available: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := View(tc.pod, Rules{MinReady: tc.minReady}, start.Add(time.Minute))
			require.Equal(t, tc.ready, f.Ready)
			require.Equal(t, tc.available, f.Available)
			require.Equal(t, tc.changes, f.ChangesAt.UTC())
		})
	}
}

func TestActiveAndTerminating(t *testing.T) {
	t.Parallel()
	terminating := func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: start} }
	for _, tc := range []struct {
		name                string
		pod                 *corev1.Pod
		active, terminating bool
	}{
		{"a running pod is active", serving(), true, false},
		{"a pending pod is active", serving(phase(corev1.PodPending)), true, false},
		{"a failed pod is not active", serving(phase(corev1.PodFailed)), false, false},
		{"a succeeded pod is not active", serving(phase(corev1.PodSucceeded)), false, false},
		{"a terminating pod is not active", serving(terminating), false, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := View(tc.pod, Rules{}, start)
			require.Equal(t, tc.active, f.Active)
			require.Equal(t, tc.terminating, f.Terminating)
			require.Equal(t, !tc.active, f.Pod(false).Inactive)
		})
	}
}

func TestUpdateState(t *testing.T) {
	t.Parallel()
	closed := set(keys.InPlaceUpdateReady, corev1.ConditionFalse)
	updating := label(keys.LifecycleState, "Updating")
	record := func(imageID string) func(*corev1.Pod) {
		return annotation(keys.InPlaceUpdateState, fmt.Sprintf(
			`{"revision":"web-6f7c","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":{"app":{"imageID":%q}}}`, imageID))
	}
	asked := func(p *corev1.Pod) { p.Spec.Containers[0].Image = "app:2" }
	gateless := func(p *corev1.Pod) {
		p.Spec.ReadinessGates = nil
		without(keys.InPlaceUpdateReady)(p)
	}
	for _, tc := range []struct {
		name  string
		pod   *corev1.Pod
		want  rollout.UpdateState
		waits string
	}{
		{"a pod in service has no update", serving(), rollout.UpdateNone, ""},
		{"a pod in service with the record of its last update has no update", serving(record("app@sha256:0")), rollout.UpdateNone, ""},
		{"a closed gate without a record is marked", serving(closed, updating), rollout.UpdateNotReady, ""},
		{
			"a closed gate with a record is updating until the containers match",
			serving(closed, updating, record("app@sha256:1"), asked), rollout.UpdateInProgress, "container app still has app:1",
		},
		{"a closed gate with a record is done when the containers match", serving(closed, updating, record("app@sha256:0"), asked), rollout.UpdateCompleted, ""},
		{"a pod without the gate is updating according to its lifecycle", serving(gateless, updating, record("app@sha256:1"), asked), rollout.UpdateInProgress, "container app still has app:1"},
		{"a closed gate also counts when another controller set the lifecycle to Normal", serving(closed, record("app@sha256:0")), rollout.UpdateCompleted, ""},
		{"a new pod is not held before it is scheduled", serving(unscheduled, label(keys.LifecycleState, "PreparingNormal")), rollout.UpdateNone, ""},
		{"a new pod is held when it is scheduled", serving(without(keys.InPlaceUpdateReady), label(keys.LifecycleState, "PreparingNormal")), rollout.UpdateHeld, ""},
		{"a pod whose gate was never opened is held", serving(without(keys.InPlaceUpdateReady)), rollout.UpdateHeld, ""},
		{"a pod without the gate is not held by it", serving(gateless), rollout.UpdateNone, ""},
		{"a pod that is prepared for its deletion has no update", serving(label(keys.LifecycleState, "PreparingDelete")), rollout.UpdateNone, ""},
		{"a pod that is preparing delete continues the update that has begun", serving(closed, label(keys.LifecycleState, "PreparingDelete"), record("app@sha256:0"), asked), rollout.UpdateCompleted, ""},
		{"a pod that is prepared for its update is preparing", serving(label(keys.LifecycleState, "PreparingUpdate")), rollout.UpdatePreparing, ""},
		{"a pod in an unknown lifecycle state is held", serving(label(keys.LifecycleState, "Happy")), rollout.UpdateHeld, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := View(tc.pod, Rules{}, start)
			require.Equal(t, tc.want, f.Update)
			require.Equal(t, tc.waits, f.WaitingFor)
		})
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	hook := &pods.LifecycleHook{LabelsHandler: map[string]string{"held": "yes"}}
	marking := &pods.LifecycleHook{LabelsHandler: map[string]string{"held": "yes"}, MarkPodNotReady: true}
	state := func(s string) func(*corev1.Pod) { return label(keys.LifecycleState, s) }
	held := label("held", "yes")
	kruiseGate := func(p *corev1.Pod) {
		p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: keys.KruisePodReady})
	}
	for _, tc := range []struct {
		name  string
		hooks pods.Lifecycle
		pod   *corev1.Pod
		want  rollout.Pod
	}{
		{
			"the hooks that hold a pod in service",
			pods.Lifecycle{InPlaceUpdate: hook, PreDelete: hook},
			serving(held),
			rollout.Pod{Ready: true, Available: true, UpdateHooked: true, DeleteHooked: true},
		},
		{
			"a new pod whose gate is closed is held, also while preNormal is unanswered",
			pods.Lifecycle{PreNormal: hook},
			serving(state("PreparingNormal"), without(keys.InPlaceUpdateReady)),
			rollout.Pod{Ready: true, Update: rollout.UpdateHeld},
		},
		{
			"a new pod whose gate is open waits for preNormal",
			pods.Lifecycle{PreNormal: hook},
			serving(state("PreparingNormal")),
			rollout.Pod{Ready: true, Update: rollout.UpdateAwaitingHook},
		},
		{
			"a new pod is ready for release when preNormal is answered",
			pods.Lifecycle{PreNormal: hook},
			serving(state("PreparingNormal"), held),
			rollout.Pod{Ready: true, Update: rollout.UpdateHeld},
		},
		{
			"an updated pod awaits its hook before service, and is updated again only after its hook",
			pods.Lifecycle{InPlaceUpdate: hook},
			serving(state("Updated")),
			rollout.Pod{Ready: true, Update: rollout.UpdateAwaitingHook, UpdateHooked: true},
		},
		{
			"an updated pod is ready for release when its hook is answered",
			pods.Lifecycle{InPlaceUpdate: hook},
			serving(state("Updated"), held),
			rollout.Pod{Ready: true, Update: rollout.UpdateHeld, UpdateHooked: true},
		},
		{
			"a pod that is preparing update is not available, and not held once its hook has released it",
			pods.Lifecycle{InPlaceUpdate: hook},
			serving(state("PreparingUpdate")),
			rollout.Pod{Ready: true, Update: rollout.UpdatePreparing},
		},
		{
			"a pod that is prepared for its deletion is not available",
			pods.Lifecycle{PreDelete: hook},
			serving(state("PreparingDelete"), held),
			rollout.Pod{Ready: true, PreparingDelete: true, DeleteHooked: true},
		},
		{
			"a pod that was marked not ready for its deletion doesn't return to service",
			pods.Lifecycle{PreDelete: marking},
			serving(state("PreparingDelete"), held),
			rollout.Pod{Ready: true, PreparingDelete: true, ToDelete: true, DeleteHooked: true},
		},
		{
			"a pod that has the gate of hooks but no condition yet is held",
			pods.Lifecycle{PreDelete: marking},
			serving(kruiseGate),
			rollout.Pod{Ready: true, Available: true, Update: rollout.UpdateHeld},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got := View(tc.pod, Rules{Hooks: lifecycle.HooksOf(&tc.hooks)}, start).Pod(false)
			got.Rank = rollout.Rank{}
			tc.want.Key, tc.want.Gated = "web-a", true
			require.Empty(t, cmp.Diff(tc.want, got))
		})
	}
}

func TestGracePeriod(t *testing.T) {
	t.Parallel()
	closed := func(p *corev1.Pod) {
		set(keys.InPlaceUpdateReady, corev1.ConditionFalse)(p)
		p.Status.Conditions[2].LastTransitionTime = metav1.NewTime(start)
	}
	rules := Rules{Grace: 30 * time.Second}
	f := View(serving(closed), rules, start.Add(10*time.Second))
	require.Equal(t, rollout.UpdateDraining, f.Update)
	at := f.ChangesAt
	require.GreaterOrEqual(t, at.Sub(start), rules.Grace)
	require.Equal(t, rollout.UpdateNotReady, View(serving(closed), rules, at).Update)
	require.Equal(t, rollout.UpdateNotReady, View(serving(closed), Rules{}, start).Update, "at once without a grace period")
}

func TestAtRevision(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		pod      *corev1.Pod
		revision string
		want     bool
	}{
		{"the full name is equal", serving(), "web-6f7c", true},
		{"the hash alone is equal to the full name", serving(label(keys.ControllerRevisionHash, "6f7c")), "web-6f7c", true},
		{"another hash differs", serving(), "web-6f7d", false},
		{"a pod without the label is at no revision", serving(label(keys.ControllerRevisionHash, "")), "", false},
		{
			"a pod that waits for its next batch is at the revision",
			serving(annotation(keys.InPlaceUpdateState, `{"nextContainerImages":{"app":"app:2"}}`)), "web-6f7c", true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, AtRevision(tc.pod, tc.revision))
		})
	}
}

func TestDeletionCost(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]int32{
		"": 0, "0": 0, "7": 7, "-7": -7, "+5": 0, "007": 0, "00": 0, "1.5": 0, "many": 0, "2147483647": 2147483647,
		"2147483648": 0, "-2147483648": -2147483648,
	} {
		t.Run(fmt.Sprintf("%q is %d", value, want), func(t *testing.T) {
			t.Parallel()
			require.Equal(t, want, View(serving(annotation(keys.PodDeletionCost, value)), Rules{}, start).Rank.Cost)
		})
	}
}

func TestToDelete(t *testing.T) {
	t.Parallel()
	require.True(t, View(serving(label(keys.SpecifiedDelete, "")), Rules{}, start).Pod(false).ToDelete, "only the label's presence counts")
	require.False(t, View(serving(), Rules{}, start).ToDelete)

	kept := View(serving(label(keys.SpecifiedDelete, "")), Rules{KeepNamed: true}, start)
	require.True(t, kept.Kept)
	require.False(t, kept.ToDelete)
	began := View(serving(label(keys.SpecifiedDelete, ""), label(keys.LifecycleState, "PreparingDelete")), Rules{KeepNamed: true}, start)
	require.False(t, began.Kept, "its hook was called, so it is out of service")
	require.True(t, began.ToDelete)
}
