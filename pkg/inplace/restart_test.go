package inplace

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestDiffOfRestarts(t *testing.T) {
	t.Parallel()
	at := func(value string) *corev1.PodTemplateSpec {
		return template(func(t *corev1.PodTemplateSpec) { t.Annotations[keys.RestartContainers] = value })
	}
	all := map[string]bool{"app": true, "side": true, "proxy": true}
	for _, tc := range []struct {
		name     string
		from, to *corev1.PodTemplateSpec
		want     map[string]bool
	}{
		{name: "an annotation that is added restarts all containers that run as long as the pod", from: template(), to: at("1"), want: all},
		{name: "so does one that changes", from: at("1"), to: at("2"), want: all},
		{name: "one that stays does not", from: at("1"), to: at("1")},
		{name: "nor one that is removed", from: at("1"), to: template()},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u, why, ok := Diff(tc.from, tc.to, Options{Env: true})
			require.True(t, ok, why)
			require.Equal(t, tc.want, u.Restart)
			require.Equal(t, tc.want == nil, u.MetadataOnly())
			require.Equal(t, tc.want != nil, u.Restarts(running()))
		})
	}
	_, why, ok := Diff(template(), at("1"), Options{})
	require.False(t, ok)
	require.Equal(t, "annotation fleet.kruise.io/restart-containers changed, and feature gate InPlaceUpdateEnvFromMetadata is off", why)
}

// asked returns the containers in RestartRequests, list by list.
func asked(pod *corev1.Pod) [][]string {
	var out [][]string
	for _, list := range RestartRequests(pod) {
		var names []string
		for _, a := range list {
			if a.Always {
				names = append(names, a.Container.Name+" "+a.Before)
			}
		}
		out = append(out, names)
	}
	return out
}

// restarting is an update that restarts containers through an annotation.
func restarting(value string, names ...string) Update {
	u := Update{Annotations: map[string]*string{keys.RestartContainers: &value}, Restart: map[string]bool{}}
	for _, name := range names {
		u.Restart[name] = true
	}
	return u
}

// replace gives a container a new ID, as if it had restarted.
func replace(pod *corev1.Pod, name string) {
	st := status(pod, name)
	st.ContainerID += "-again"
}

func TestContainersAreRestartedByLaunchPriority(t *testing.T) {
	t.Parallel()
	pod := running(launch(0, "1"), launch(1, "2"))
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	require.Empty(t, RestartRequests(pod), "nothing is written yet")
	ps, err := restarting("1", "app", "side").Write(pod, toRevision("web-2"), start)
	require.Len(t, ps, 1)
	pod = send(t, pod, ps, err)
	require.Equal(t, "1", pod.Annotations[keys.RestartContainers])
	require.JSONEq(t, `{"revision": "web-2", "updateTimestamp": "2026-01-02T03:04:05Z",
		"lastContainerIDs": {"side": "run://side-0"}, "restartedContainers": ["side"], "nextRestarts": ["app"],
		"preCheckBeforeNext": {"containersRequiredReady": ["side"]},
		"containerBatchesRecord": [{"timestamp": "2026-01-02T03:04:05Z", "containers": ["side"]}]}`,
		pod.Annotations[keys.InPlaceUpdateState])
	require.Equal(t, [][]string{{"side run://side-0"}}, asked(pod))

	now := start.Add(time.Minute)
	require.Equal(t, Outcome{Why: "container side is to be restarted and was not", Daemon: true}.since(start), Progress(pod, now))
	status(pod, "side").State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	require.Equal(t, "container side is to be restarted and was not", Progress(pod, now).Why, "it has ended and not begun again")
	status(pod, "side").State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	replace(pod, "side")
	ready(pod, false)
	require.Equal(t, "container side is not ready, and others are updated after it", Progress(pod, now).Why)
	ready(pod, true)
	require.Equal(t, Outcome{Next: true, Why: "all containers updated so far are ready"}, Progress(pod, now))

	ps, err = Continue(pod, now)
	require.Len(t, ps, 1)
	pod = send(t, pod, ps, err)
	require.Equal(t, [][]string{{"side run://side-0"}, {"app run://app-0"}}, asked(pod), "the first is not stopped again: it has another ID")
	require.Equal(t, Outcome{Why: "container app is to be restarted and was not", Daemon: true}.since(now), Progress(pod, now))
	replace(pod, "app")
	require.Equal(t, Outcome{Done: true}, Progress(pod, now))
}

func TestAnUpdateDuringARestart(t *testing.T) {
	t.Parallel()
	begun := func(t *testing.T, names ...string) *corev1.Pod {
		t.Helper()
		pod := running(launch(0, "1"), launch(1, "2"))
		p, err := MarkUnready(pod, start)
		pod = apply(t, pod, p, err)
		ps, err := restarting("1", names...).Write(pod, toRevision("web-2"), start)
		return send(t, pod, ps, err)
	}
	later := start.Add(time.Minute)
	t.Run("what was not restarted, or not even asked for, still is", func(t *testing.T) {
		t.Parallel()
		pod := begun(t, "app", "side")
		ps, err := (Update{Labels: map[string]*string{"tier": new("two")}}).Write(pod, toRevision("web-3"), later)
		pod = send(t, pod, ps, err)
		require.Equal(t, [][]string{{"side run://side-0"}, {"app run://app-0"}}, asked(pod), "the daemon keeps to the order")
	})
	t.Run("what was restarted is not again", func(t *testing.T) {
		t.Parallel()
		pod := begun(t, "side")
		replace(pod, "side")
		ps, err := (Update{Images: map[string]string{"app": "app:2"}}).Write(pod, toRevision("web-3"), later)
		pod = send(t, pod, ps, err)
		require.Empty(t, slices.Concat(asked(pod)...))
		require.Equal(t, "container app still has app:1", Progress(pod, later.Add(time.Minute)).Why)
	})
	t.Run("but is by another request", func(t *testing.T) {
		t.Parallel()
		pod := begun(t, "side")
		replace(pod, "side")
		ps, err := restarting("2", "side").Write(pod, toRevision("web-3"), later)
		pod = send(t, pod, ps, err)
		require.Equal(t, [][]string{{"side run://side-0-again"}}, asked(pod))
		require.Equal(t, "container side is to be restarted and was not", Progress(pod, later.Add(time.Minute)).Why)
	})
}

func TestARestartWithANewImageIsOne(t *testing.T) {
	t.Parallel()
	pod := running()
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	ps, err := restarting("1", "app").after(Update{Images: map[string]string{"app": "app:2"}}).Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	requests := RestartRequests(pod)
	require.Len(t, requests, 1)
	require.True(t, requests[0][0].Image && requests[0][0].Always, "the kubelet restarts it, and the daemon if that does not")
	now := start.Add(time.Minute)
	require.Equal(t, "container app still has app:1", Progress(pod, now).Why)
	restart(pod, now)
	require.Equal(t, Outcome{Done: true}, Progress(pod, now))
}

// TestARecordThatWasEdited restarts containers whose old ID is not in the record, or that are not in the pod.
func TestARecordThatWasEdited(t *testing.T) {
	t.Parallel()
	pod := running()
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	ps, err := restarting("1", "app").Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	var r map[string]any
	require.NoError(t, json.Unmarshal([]byte(pod.Annotations[keys.InPlaceUpdateState]), &r))
	delete(r, "lastContainerIDs")
	r["restartedContainers"], r["nextRestarts"] = []string{"app", "none"}, []string{"none"}
	text, err := json.Marshal(r)
	require.NoError(t, err)
	pod.Annotations[keys.InPlaceUpdateState] = string(text)
	status(pod, "app").State = corev1.ContainerState{}
	require.Equal(t, Outcome{Done: true}, Progress(pod, start.Add(time.Minute)))
	require.Equal(t, [][]string{{"app "}}, asked(pod), "a daemon stops no container without an ID")
}
