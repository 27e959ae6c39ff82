package cloneset

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/testkit"
)

// withDeadline returns a set with a deadline of ten minutes.
func withDeadline(replicas int32) *testkit.CloneSetBuilder {
	return web(replicas).Spec(func(s *appsv1beta1.CloneSetSpec) { s.ProgressDeadlineSeconds = ptr.To[int32](600) })
}

func progressing(status corev1.ConditionStatus, reason, message string, updated, turned time.Time) *appsv1beta1.CloneSetCondition {
	return &appsv1beta1.CloneSetCondition{
		Type: appsv1beta1.CloneSetProgressing, Status: status, Reason: reason, Message: message,
		LastUpdateTime: metav1.NewTime(updated), LastTransitionTime: metav1.NewTime(turned),
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	type status = appsv1beta1.CloneSetStatus
	const yes, no = corev1.ConditionTrue, corev1.ConditionFalse
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	// at returns a status with n of 4 pods updated and available, and all 4 existing.
	at := func(n int32) status {
		return status{
			ObservedGeneration: 1, Replicas: 4, AvailableReplicas: 4, UpdatedReplicas: n, UpdatedAvailableReplicas: n,
			ExpectedUpdatedReplicas: 4, UpdateRevision: "web-2", CurrentRevision: "web-1",
		}
	}
	with := func(s status, change func(*status)) status { change(&s); return s }
	complete := with(at(4), func(s *status) { s.CurrentRevision = "web-2" })
	tests := []struct {
		name        string
		set         *testkit.CloneSetBuilder
		before, now status
		old         *appsv1beta1.CloneSetCondition
		want        *appsv1beta1.CloneSetCondition
	}{
		{name: "without a deadline there is no condition", set: web(4), before: at(1), now: at(1), old: progressing(yes, "CloneSetUpdated", "", start, start)},
		{
			name: "a rollout begins now", set: withDeadline(4), before: at(0), now: at(0),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, now),
		},
		{
			name: "a rollout in progress keeps the time of its last progress", set: withDeadline(4), before: at(1), now: at(1),
			old:  progressing(yes, "CloneSetUpdated", "old", ago(9*time.Minute), start),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", ago(9*time.Minute), start),
		},
		{
			name: "B 2: a pod that becomes available extends the deadline", set: withDeadline(4), before: at(1), now: at(2),
			old:  progressing(yes, "CloneSetUpdated", "", ago(9*time.Minute), start),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, start),
		},
		{
			name: "B 2: a new template starts a new deadline", set: withDeadline(4),
			before: at(1), now: with(at(1), func(s *status) { s.UpdateRevision = "web-3" }),
			old:  progressing(yes, "CloneSetUpdated", "", ago(time.Hour), start),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, start),
		},
		{
			name: "a lower partition starts a new deadline", set: withDeadline(4).Rolling("1", "1", "0"),
			before: with(at(1), func(s *status) { s.ExpectedUpdatedReplicas = 2 }),
			now:    with(at(1), func(s *status) { s.ExpectedUpdatedReplicas = 3 }),
			old:    progressing(yes, "CloneSetUpdated", "", ago(time.Hour), start),
			want:   progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, start),
		},
		{
			name: "re-creating a missing pod is progress", set: withDeadline(4),
			before: with(at(1), func(s *status) { s.Replicas = 2 }), now: with(at(1), func(s *status) { s.Replicas = 3 }),
			old:  progressing(yes, "CloneSetUpdated", "", ago(time.Hour), start),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, start),
		},
		{
			name: "without progress for as long as the deadline, it is exceeded now", set: withDeadline(4), before: at(1), now: at(1),
			old:  progressing(yes, "CloneSetUpdated", "", ago(10*time.Minute), start),
			want: progressing(no, "ProgressDeadlineExceeded", "CloneSet revision web-2 has timed out progressing", ago(10*time.Minute), now),
		},
		{
			name: "an exceeded deadline stays exceeded and keeps its time", set: withDeadline(4), before: at(1), now: at(1),
			old:  progressing(no, "ProgressDeadlineExceeded", "", ago(time.Hour), ago(50*time.Minute)),
			want: progressing(no, "ProgressDeadlineExceeded", "CloneSet revision web-2 has timed out progressing", ago(time.Hour), ago(50*time.Minute)),
		},
		{
			name: "an exceeded deadline stays exceeded with the time that OpenKruise wrote", set: withDeadline(4), before: at(1), now: at(1),
			old:  progressing(no, "ProgressDeadlineExceeded", "", ago(time.Minute), ago(time.Minute)),
			want: progressing(no, "ProgressDeadlineExceeded", "CloneSet revision web-2 has timed out progressing", ago(time.Minute), ago(time.Minute)),
		},
		{
			name: "B 2: progress after the deadline makes the rollout progressing again", set: withDeadline(4), before: at(1), now: at(2),
			old:  progressing(no, "ProgressDeadlineExceeded", "", ago(time.Hour), ago(50*time.Minute)),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, now),
		},
		{
			name: "a longer deadline makes the rollout progressing again", set: withDeadline(4).Spec(func(s *appsv1beta1.CloneSetSpec) { *s.ProgressDeadlineSeconds = 7200 }),
			before: at(1), now: with(at(1), func(s *status) { s.ObservedGeneration = 2 }),
			old:  progressing(no, "ProgressDeadlineExceeded", "", ago(time.Hour), ago(50*time.Minute)),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", ago(time.Hour), now),
		},
		{
			name:   "the largest deadline means no deadline, so there is no condition",
			set:    withDeadline(4).Spec(func(s *appsv1beta1.CloneSetSpec) { *s.ProgressDeadlineSeconds = math.MaxInt32 }),
			before: at(1), now: at(1),
			old: progressing(yes, "CloneSetUpdated", "", ago(100000*time.Hour), start),
		},
		{
			name: "B 2: a rollout that completes after its deadline is available", set: withDeadline(4), before: at(3), now: complete,
			old:  progressing(no, "ProgressDeadlineExceeded", "", ago(time.Hour), ago(50*time.Minute)),
			want: progressing(yes, "CloneSetAvailable", "CloneSet is available", now, now),
		},
		{
			name: "a completed rollout keeps its time", set: withDeadline(4), before: complete, now: complete,
			old:  progressing(yes, "CloneSetAvailable", "", start, start),
			want: progressing(yes, "CloneSetAvailable", "CloneSet is available", start, start),
		},
		{
			name: "a completed rollout is available although paused", set: withDeadline(4).Paused(), before: complete, now: complete,
			want: progressing(yes, "CloneSetAvailable", "CloneSet is available", now, now),
		},
		{
			name: "a paused rollout does not exceed its deadline", set: withDeadline(4).Paused(), before: at(1), now: at(1),
			old:  progressing(yes, "CloneSetUpdated", "", ago(time.Hour), start),
			want: progressing(yes, "CloneSetPaused", "CloneSet is paused", now, start),
		},
		{
			name: "a resumed rollout has the whole deadline again", set: withDeadline(4), before: at(1), now: at(1),
			old:  progressing(yes, "CloneSetPaused", "", ago(time.Hour), start),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, start),
		},
		{
			name: "no deadline runs once the partition is reached", set: withDeadline(4).Rolling("3", "1", "0"), before: at(0),
			now:  with(at(1), func(s *status) { s.ExpectedUpdatedReplicas = 1 }),
			old:  progressing(yes, "CloneSetUpdated", "", ago(time.Hour), start),
			want: progressing(yes, "ProgressPartitionAvailable", "CloneSet has been paused due to partition ready", now, start),
		},
		{
			name: "OnDelete waits for a user without a deadline", set: withDeadline(4).Spec(func(s *appsv1beta1.CloneSetSpec) { s.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete }),
			before: at(1), now: at(1),
			old:  progressing(yes, "CloneSetUpdated", "", ago(time.Hour), start),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", ago(time.Hour), start),
		},
		{
			name: "with OnDelete the deadline runs from the deletion", set: withDeadline(4).OnDelete(),
			before: at(1), now: with(at(1), func(s *status) { s.Replicas, s.AvailableReplicas = 3, 3 }),
			old:  progressing(yes, "CloneSetUpdated", "", ago(time.Hour), start),
			want: progressing(yes, "CloneSetUpdated", "CloneSet is progressing", now, start),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			set := tt.set.Status(tt.before).Obj()
			if tt.old != nil {
				set.Status.Conditions = []appsv1beta1.CloneSetCondition{*tt.old}
			}
			require.Empty(t, cmp.Diff(tt.want, progress(set, &tt.now, now)))
		})
	}
}

func TestReconcileIsRequeuedAtTheDeadline(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, withDeadline(2).Image("app:2"), withDeadline(2))
	o.with(names[0], "a", "b")
	o.set.Status.Conditions = []appsv1beta1.CloneSetCondition{*progressing(corev1.ConditionTrue, "CloneSetUpdated", "", now.Add(-9*time.Minute), start)}
	require.Equal(t, time.Minute, plan(o, now).Recheck)
	require.Zero(t, plan(o, now.Add(time.Minute)).Recheck, "after the deadline nothing is scheduled")
}

// stalledUpdate returns a set in which one of three pods can't start its new image.
func stalledUpdate(t *testing.T, set *testkit.CloneSetBuilder, since time.Time) observed {
	t.Helper()
	o, names := observedOf(t, set.Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "1", "0"), web(3))
	o.with(names[0], "b", "c")
	p := pod("a").Rev(names[1]).Gate(false, since).Running().NotReady().State(pods.LifecycleUpdating).Obj()
	p.Annotations[keys.InPlaceUpdateState] = `{"revision":"` + names[1] + `","updateTimestamp":"` + since.Format(time.RFC3339) +
		`","lastContainerStatuses":{"app":{"imageID":"sha256:1"}}}`
	p.Spec.Containers[0].Image = "app:2"
	p.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Image: "app:1", ImageID: "sha256:1",
		State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}},
	}}
	o.pods = append(o.pods, p)
	return o
}

func TestAStalledUpdateIsReportedOnceWithItsTime(t *testing.T) {
	t.Parallel()
	began := now.Add(-9 * time.Minute)
	o := stalledUpdate(t, web(3), began)
	got, events := status(o, plan(o, now), applied{}, now)
	require.Empty(t, failures(got.Conditions), "no stall after nine minutes")
	require.Empty(t, events)
	require.Equal(t, time.Minute, plan(o, now).Recheck)

	later := now.Add(time.Minute)
	p := plan(o, later)
	require.Zero(t, p.Recheck)
	o.set.Status, events = status(o, p, applied{}, later)
	message := "web-a hasn't completed its in-place update since 2026-11-21T09:51:00Z: container app is waiting: ImagePullBackOff; 1 pod(s) waiting for this"
	require.Empty(t, cmp.Diff([]appsv1beta1.CloneSetCondition{{
		Type: "FailedUpdate", Status: "True", Reason: "UpdateStalled", Message: message,
		LastUpdateTime: metav1.NewTime(later), LastTransitionTime: metav1.NewTime(later),
	}}, failures(o.set.Status.Conditions)))
	require.Equal(t, []string{"FailedUpdate"}, testkit.Reasons(events))

	// The kubelet alternates between two reasons; that is a single failure and causes no write.
	o.pods[2].Status.ContainerStatuses[0].State.Waiting.Reason = "ErrImagePull"
	again, events := status(o, plan(o, later.Add(time.Hour)), applied{}, later.Add(time.Hour))
	require.Empty(t, cmp.Diff(o.set.Status, again))
	require.Empty(t, events)

	// The condition is removed when the image can be pulled.
	o.pods[2].Status.ContainerStatuses[0] = corev1.ContainerStatus{
		Name: "app", Image: "app:2", ImageID: "sha256:2", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}
	again, _ = status(o, plan(o, later.Add(time.Hour)), applied{}, later.Add(time.Hour))
	require.Empty(t, failures(again.Conditions))
}

// A kubelet that can't reach the registry keeps running the old image until its pull has timed out. Then the pod waits for something else,
// which is reported.
func TestAStalledUpdateNamesWhatTheContainerWaitsFor(t *testing.T) {
	t.Parallel()
	o := stalledUpdate(t, web(3), now.Add(-time.Hour))
	waits := o.pods[2].Status.ContainerStatuses[0].State
	o.pods[2].Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	o.pods[2].Status.ContainerStatuses[0].ContainerID = "containerd://1"
	o.set.Status, _ = status(o, plan(o, now), applied{}, now)
	require.Contains(t, find(o.set.Status.Conditions, appsv1beta1.CloneSetFailedUpdate).Message, "container app still has app:1")

	o.pods[2].Status.ContainerStatuses[0].State = waits
	o.set.Status, _ = status(o, plan(o, now), applied{}, now)
	require.Contains(t, find(o.set.Status.Conditions, appsv1beta1.CloneSetFailedUpdate).Message, "container app is waiting: ImagePullBackOff")
	o.pods[2].Status.ContainerStatuses[0].State.Waiting.Reason = "ErrImagePull"
	o.set.Status, _ = status(o, plan(o, now), applied{}, now)
	require.Contains(t, find(o.set.Status.Conditions, appsv1beta1.CloneSetFailedUpdate).Message, "ImagePullBackOff", "the message doesn't say which of the two")
}

// B 29: the message says that no node daemon can restart the container.
func TestAStalledUpdateNamesAMissingNodeDaemon(t *testing.T) {
	t.Parallel()
	o := stalledUpdate(t, web(3), now.Add(-time.Hour))
	p := o.pods[2]
	p.Spec.NodeName = "node-1"
	p.Annotations[keys.InPlaceUpdateState] = `{"updateTimestamp":"` + now.Add(-time.Hour).Format(time.RFC3339) + `","updateEnvFromMetadata":true,
		"lastContainerIDs":{"app":"run://1"},"containerBatchesRecord":[{"timestamp":"` + now.Add(-time.Hour).Format(time.RFC3339) + `","containers":["app"]}]}`
	p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "CONFIG", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['config']"},
	}}}
	p.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	p.Status.ContainerStatuses[0].ContainerID = "run://1"
	message := func() string {
		o.set.Status, _ = status(o, plan(o, now), applied{}, now)
		return find(o.set.Status.Conditions, appsv1beta1.CloneSetFailedUpdate).Message
	}
	const why = "container app reads changed metadata by env and wasn't restarted"
	require.Contains(t, message(), why+", and its node has no daemon that could restart it; 1 pod(s) waiting for this")
	o.daemons = map[string]bool{"node-1": true}
	require.Contains(t, message(), why+"; 1 pod(s) waiting for this", "a daemon that has started since")
}

func TestAStalledUpdateIsReportedAtTheDeadlineOfTheSet(t *testing.T) {
	t.Parallel()
	o := stalledUpdate(t, web(3).Spec(func(s *appsv1beta1.CloneSetSpec) { s.ProgressDeadlineSeconds = ptr.To[int32](60) }), now.Add(-time.Minute))
	require.Equal(t, "UpdateStalled", plan(o, now).Stalled.Reason)
}

// unready returns a pod that has not been ready since then.
func unready(name, rev string, since time.Time) *corev1.Pod {
	return pod(name).Rev(rev).Created(since).Gate(true, since).Running().NotReady().Obj()
}

// withUpdateHook adds a hook that holds pods before an in-place update.
func withUpdateHook(s *appsv1beta1.CloneSetSpec) {
	s.Lifecycle = &pods.Lifecycle{InPlaceUpdate: &pods.LifecycleHook{LabelsHandler: map[string]string{"example.com/hold": "yes"}}}
}

func TestAStalledBudgetIsReportedWithItsTime(t *testing.T) {
	t.Parallel()
	long, short := now.Add(-time.Hour), now.Add(-4*time.Minute)
	tests := []struct {
		name    string
		set     *testkit.CloneSetBuilder
		change  func(o *observed, names []string)
		scale   bool
		want    string // the message
		recheck time.Duration
	}{
		{
			name: "updated pods that stay unready hold up the others",
			set:  web(3).Image("app:2").Rolling("0", "1", "0"),
			change: func(o *observed, names []string) {
				o.with(names[0], "a", "b")
				o.pods = append(o.pods, unready("c", names[1], long))
			},
			want: "no pod has become available since 2026-11-21T09:00:00Z: 2 old pod(s) waiting: 1 updated pod(s) not available yet, at most 1 at a time",
		},
		{
			name: "a terminating pod makes room soon, ready or not",
			set: web(2).Rolling("0", "1", "0").PodsToDelete("web-a", "web-b").Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.ScaleStrategy.MaxUnavailable = new(intstr.FromInt32(0))
			}),
			change: func(o *observed, names []string) {
				o.set.Status.ObservedGeneration = o.set.Generation
				o.with(names[0], "b")
				o.pods = append(o.pods, pod("a").Rev(names[0]).Serving(start).Terminating(short).Obj())
			},
			recheck: 6 * time.Minute,
		},
		{
			name: "no step waits for a pod that has ended",
			set:  web(1).Image("app:2").Rolling("0", "0", "0"),
			change: func(o *observed, names []string) {
				o.with(names[0], "a")
				o.pods = append(o.pods, pod("b").Rev(names[0]).Created(long).Phase(corev1.PodFailed).Obj())
			},
			want: "the numbers in the spec allow no pod to be replaced: 1 old pod(s) waiting: 1 available, at least 1 must remain",
		},
		{
			name: "no stall after a few minutes",
			set:  web(3).Image("app:2").Rolling("0", "1", "0"),
			change: func(o *observed, names []string) {
				o.with(names[0], "a", "b")
				o.pods = append(o.pods, unready("c", names[1], short))
			},
			recheck: 6 * time.Minute,
		},
		{
			name: "pods that a hook holds are unavailable since then, ready or not",
			set:  web(3).Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "1", "0").Spec(withUpdateHook),
			change: func(o *observed, names []string) {
				o.with(names[0], "a", "b")
				o.pods = append(o.pods, pod("c").Rev(names[0]).Serving(start).State(pods.LifecyclePreparingUpdate).
					Label("example.com/hold", "yes").Annotation(keys.LifecycleTimestamp, short.Format(time.RFC3339)).Obj())
			},
			recheck: 6 * time.Minute,
		},
		{
			name: "an unanswered hook is reported with its time",
			set:  web(1).Image("app:2").Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "1", "0").Spec(withUpdateHook),
			change: func(o *observed, names []string) {
				o.pods = append(o.pods, pod("c").Rev(names[0]).Serving(start).State(pods.LifecyclePreparingUpdate).
					Label("example.com/hold", "yes").Annotation(keys.LifecycleTimestamp, long.Format(time.RFC3339)).Obj())
			},
			want: "web-c has been waiting for its hook in PreparingUpdate since 2026-11-21T09:00:00Z: 1 pod(s) waiting for their lifecycle hooks",
		},
		{
			name: "a scale-out that waits for pods that never become ready is a FailedScale",
			set:  web(3).Spec(func(s *appsv1beta1.CloneSetSpec) { s.ScaleStrategy.MaxUnavailable = new(intstr.FromInt32(1)) }),
			change: func(o *observed, names []string) {
				o.set.Status.ObservedGeneration = o.set.Generation // The first observation would send an event.
				o.with(names[0], "a")
				o.pods = append(o.pods, unready("b", names[0], long))
			},
			scale: true,
			want:  "no pod has become available since 2026-11-21T09:00:00Z: 1 new pod(s) waiting: 1 unavailable and 0 created now, at most 1",
		},
		{
			name: "a new pod that waits for the PVCs of a terminating one is a FailedScale",
			set:  web(2).PVCs("data").Reuse(),
			change: func(o *observed, names []string) {
				o.set.Status.ObservedGeneration = o.set.Generation
				o.with(names[0], "a")
				o.pods = append(o.pods, pod("b").Rev(names[0]).Serving(start).Terminating(long).Obj())
				o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a"), pvc(o.set, "b")}
			},
			scale: true,
			want:  "no pod has become available since 2026-11-21T09:00:00Z: 1 new pod(s) waiting for PVCs of pods that are terminating or have ended: web-b",
		},
		{
			name: "a new pod that has just begun to wait for PVCs is not a FailedScale",
			set:  web(2).PVCs("data").Reuse(),
			change: func(o *observed, names []string) {
				o.with(names[0], "a")
				o.pods = append(o.pods, pod("b").Rev(names[0]).Serving(start).Terminating(short).Obj())
				o.pvcs = []*corev1.PersistentVolumeClaim{pvc(o.set, "a"), pvc(o.set, "b")}
			},
			recheck: 6 * time.Minute,
		},
		{
			name: "a pod within minReadySeconds is rechecked",
			set:  web(3).Image("app:2").Rolling("0", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) { s.MinReadySeconds = 7200 }),
			change: func(o *observed, names []string) {
				o.pods = append(o.pods,
					pod("a").Rev(names[0]).Serving(start.Add(-2*time.Hour)).Obj(),
					pod("b").Rev(names[0]).Serving(start.Add(-2*time.Hour)).Obj(),
					pod("c").Rev(names[1]).Serving(start).Obj())
			},
			recheck: time.Hour,
		},
		{
			name: "a pod in podsToDelete that can't be deleted is a FailedScale",
			set:  web(3).Rolling("0", "1", "0").PodsToDelete("web-a"),
			change: func(o *observed, names []string) {
				o.with(names[0], "a", "b")
				o.pods = append(o.pods, unready("c", names[0], long))
			},
			scale: true,
			want:  "no pod has become available since 2026-11-21T09:00:00Z: 1 pod(s) marked for deletion waiting: 2 available, at least 2 must remain",
		},
		{
			name: "numbers that allow no update, which were not validated, are reported at once",
			set:  web(3).Image("app:2").Rolling("0", "0", "0"),
			change: func(o *observed, names []string) {
				o.with(names[0], "a", "b", "c")
			},
			want: "the numbers in the spec allow no pod to be replaced: 3 old pod(s) waiting: 3 available, at least 3 must remain",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, tt.set, web(3))
			tt.change(&o, names)
			p := plan(o, now)
			require.Equal(t, tt.recheck, p.Recheck)
			got, events := status(o, p, applied{}, now)
			if tt.want == "" {
				require.Empty(t, failures(got.Conditions))
				require.Empty(t, events)
				return
			}
			kind := appsv1beta1.CloneSetFailedUpdate
			if tt.scale {
				kind = appsv1beta1.CloneSetFailedScale
			}
			failed := failures(got.Conditions)
			require.Len(t, failed, 1)
			require.Equal(t, kind, failed[0].Type)
			require.Equal(t, tt.want, failed[0].Message)
			require.Equal(t, []string{string(kind)}, testkit.Reasons(events))
			o.set.Status = got
			again, events := status(o, plan(o, now.Add(time.Hour)), applied{}, now.Add(time.Hour))
			require.Empty(t, cmp.Diff(got, again), "written once")
			require.Empty(t, events, "reported once")
		})
	}
}

func TestAChangeOfProgressAloneIsACountsOnlyChange(t *testing.T) {
	t.Parallel()
	set := withDeadline(4).Obj()
	set.Status.Conditions = []appsv1beta1.CloneSetCondition{*progressing(corev1.ConditionTrue, "CloneSetUpdated", "1 of 4", start, start)}
	s := *set.Status.DeepCopy()
	s.UpdatedReplicas = 2
	s.Conditions[0] = *progressing(corev1.ConditionTrue, "CloneSetUpdated", "2 of 4", now, start)
	require.True(t, countsOnly(set, s))
	s.Conditions[0].Reason = "CloneSetPaused"
	require.False(t, countsOnly(set, s))
}
