package inplace

import (
	"cmp"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	// now is a minute after the update was written, which was an hour after the containers started.
	now := start.Add(time.Minute)
	app := func(f func(*corev1.ContainerStatus)) func(*corev1.Pod) {
		return func(p *corev1.Pod) { f(&p.Status.ContainerStatuses[0]) }
	}
	waiting := func(reason, message string) func(*corev1.Pod) {
		return app(func(s *corev1.ContainerStatus) {
			s.State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: reason, Message: message}}
		})
	}
	reports := func(image, imageID, containerID string) func(*corev1.Pod) {
		return app(func(s *corev1.ContainerStatus) { s.Image, s.ImageID, s.ContainerID = image, imageID, containerID })
	}
	startedAt := func(at time.Time) func(*corev1.Pod) {
		return app(func(s *corev1.ContainerStatus) { s.State.Running.StartedAt = metav1.NewTime(at) })
	}
	wants := func(image string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Spec.Containers[0].Image = image }
	}
	record := func(value string) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Annotations[keys.InPlaceUpdateState] = value }
	}
	observed := func(generation int64) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Generation, p.Status.ObservedGeneration = 3, generation }
	}
	foreign := record(`{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z",
		"lastContainerStatuses":{"app":{"imageID":"app:1@sha256:aa"}},"updateImages":true}`)
	foreignEnv := record(`{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z",
		"updateEnvFromMetadata":true,"containerBatchesRecord":[{"timestamp":"2026-01-02T03:04:05Z","containers":["app"]}]}`)
	readsTier := func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{reads("TIER", "metadata.labels['tier']")}
	}

	for _, tc := range []struct {
		name string
		with []func(*corev1.Pod)
		want Outcome
		// since is when the change being waited for was written; start if zero.
		since time.Time
	}{
		{
			name: "a container that was not restarted keeps its image",
			want: Outcome{Why: "container app still has app:1"},
		},
		{
			name: "a new image ID is enough, regardless of the name",
			with: []func(*corev1.Pod){reports("sha256:bb", "sha256:bb", "run://app-1")},
			want: Outcome{Done: true},
		},
		{
			name: "the container need not run: a crashed one counts",
			with: []func(*corev1.Pod){reports("app:2", "app:2@sha256:bb", "run://app-1"), waiting("CrashLoopBackOff", "")},
			want: Outcome{Done: true},
		},
		{
			name: "a missing image ID is not a new one",
			with: []func(*corev1.Pod){reports("", "", "")},
			want: Outcome{Why: "container app hasn't been started yet"},
		},
		{
			name: "an image that can't be pulled is reported",
			with: []func(*corev1.Pod){reports("app:2", "app:1@sha256:aa", "run://app-0"), waiting("ImagePullBackOff", "no such image")},
			want: Outcome{Why: "container app is waiting: ImagePullBackOff, no such image"},
		},
		{
			name: "a container that waits without a reason",
			with: []func(*corev1.Pod){waiting("", "")},
			want: Outcome{Why: "container app is waiting: no reason given"},
		},
		{
			name: "an ended container is reported",
			with: []func(*corev1.Pod){app(func(s *corev1.ContainerStatus) {
				s.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 137}}
			})},
			want: Outcome{Why: "container app exited with code 137 and wasn't restarted"},
		},
		{
			name: "a container without a status is reported",
			with: []func(*corev1.Pod){func(p *corev1.Pod) { p.Status.ContainerStatuses = nil }},
			want: Outcome{Why: "container app has no status"},
		},
		{
			name: "a new name of the same image is enough",
			with: []func(*corev1.Pod){reports("app:2", "app:1@sha256:aa", "run://app-1")},
			want: Outcome{Done: true},
		},
		{
			name: "full names are compared",
			with: []func(*corev1.Pod){wants("app"), reports("docker.io/library/app:latest", "app:1@sha256:aa", "run://app-1")},
			want: Outcome{Done: true},
		},
		{
			name: "a pinned image is compared by its digest",
			with: []func(*corev1.Pod){wants("mirror/app@sha256:aa")},
			want: Outcome{Done: true},
		},
		{
			name: "a restart under the old name may be a restart of the old spec",
			with: []func(*corev1.Pod){reports("app:1", "app:1@sha256:aa", "run://app-1"), startedAt(now.Add(-34 * time.Second))},
			want: Outcome{
				Why:       "container app was restarted with app:1, which may be the old image",
				ChangesAt: now.Add(time.Second),
			},
		},
		{
			name: "#463: a restart under the old name counts when a container of the old spec would have been stopped",
			with: []func(*corev1.Pod){reports("app:1", "app:1@sha256:aa", "run://app-1"), startedAt(now.Add(-35 * time.Second))},
			want: Outcome{Done: true},
		},
		{
			name: "in a record of OpenKruise, a start after the update is a restart",
			with: []func(*corev1.Pod){foreign, startedAt(start.Add(time.Second))},
			want: Outcome{Done: true},
		},
		{
			name: "in a record of OpenKruise, a start before the update is not a restart",
			with: []func(*corev1.Pod){foreign},
			want: Outcome{Why: "container app still has app:1"},
		},
		{
			name: "an update of env in a record of OpenKruise is done after a restart",
			with: []func(*corev1.Pod){foreignEnv, wants("app:1"), readsTier, startedAt(start.Add(time.Second))},
			want: Outcome{Done: true},
		},
		{
			name: "B 29: an update of env alone waits for a restart, with a reason",
			with: []func(*corev1.Pod){foreignEnv, wants("app:1"), readsTier},
			want: Outcome{Why: "container app reads changed metadata by env and wasn't restarted", Daemon: true},
		},
		{
			name: "statuses from before the kubelet saw the change are not trusted for a while",
			with: []func(*corev1.Pod){wants("app:1"), observed(2), func(p *corev1.Pod) {
				p.Annotations[keys.InPlaceUpdateState] = `{"updateTimestamp":"2026-01-02T03:05:00Z","lastContainerStatuses":{"app":{}}}`
			}},
			want:  Outcome{Why: "kubelet has seen generation 2 of 3", ChangesAt: start.Truncate(time.Second).Add(65 * time.Second)},
			since: start.Add(55 * time.Second),
		},
		{
			name: "after a while they are trusted",
			with: []func(*corev1.Pod){wants("app:1"), observed(2)},
			want: Outcome{Done: true},
		},
		{
			name: "a container that the pod lacks is not awaited",
			with: []func(*corev1.Pod){func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[1:] }},
			want: Outcome{Done: true},
		},
		{
			name: "an invalid record is ignored",
			with: []func(*corev1.Pod){record("{")},
			want: Outcome{Done: true},
		},
		{
			name: "a pod that was never updated is done",
			with: []func(*corev1.Pod){record("")},
			want: Outcome{Done: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := running()
			ps, err := Update{Images: map[string]string{"app": "app:2"}}.Write(pod, toRevision("web-2"), start)
			pod = send(t, pod, ps, err)
			for _, f := range tc.with {
				f(pod)
			}
			want := tc.want
			if !want.Done {
				want = want.since(cmp.Or(tc.since, start))
			}
			require.Empty(t, gocmp.Diff(want, Progress(pod, now)))
		})
	}
}

func TestFullName(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"nginx":                     "docker.io/library/nginx:latest",
		"nginx:1":                   "docker.io/library/nginx:1",
		"team/app":                  "docker.io/team/app:latest",
		"localhost/app:1":           "localhost/app:1",
		"host:5000/app":             "host:5000/app:latest",
		"quay.io/team/app@sha256:a": "quay.io/team/app@sha256:a",
		"":                          "docker.io/library/:latest",
	} {
		require.Equal(t, want, fullName(name))
	}
}
