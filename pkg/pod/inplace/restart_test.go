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
		{name: "an added annotation restarts all containers that run as long as the pod", from: template(), to: at("1"), want: all},
		{name: "so does a changed one", from: at("1"), to: at("2"), want: all},
		{name: "an unchanged one doesn't", from: at("1"), to: at("1")},
		{name: "nor does a removed one", from: at("1"), to: template()},
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

// alwaysRestarted returns the containers in RestartRequests, list by list.
func alwaysRestarted(pod *corev1.Pod) [][]string {
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

// restartUpdate is an update that restarts containers through an annotation.
func restartUpdate(value string, names ...string) Update {
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
	ps, err := restartUpdate("1", "app", "side").Write(pod, toRevision("web-2"), start)
	require.Len(t, ps, 1)
	pod = send(t, pod, ps, err)
	require.Equal(t, "1", pod.Annotations[keys.RestartContainers])
	require.JSONEq(t, `{"revision": "web-2", "updateTimestamp": "2026-01-02T03:04:05Z",
		"lastContainerIDs": {"side": "run://side-0"}, "restartedContainers": ["side"], "nextRestarts": ["app"],
		"preCheckBeforeNext": {"containersRequiredReady": ["side"]},
		"containerBatchesRecord": [{"timestamp": "2026-01-02T03:04:05Z", "containers": ["side"]}]}`,
		pod.Annotations[keys.InPlaceUpdateState])
	require.Equal(t, [][]string{{"side run://side-0"}}, alwaysRestarted(pod))

	now := start.Add(time.Minute)
	require.Equal(t, Outcome{Why: "container side hasn't been restarted as requested", Daemon: true}.since(start), Progress(pod, now))
	status(pod, "side").State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}
	require.Equal(t, "container side hasn't been restarted as requested", Progress(pod, now).Why, "it has ended and was not started again")
	status(pod, "side").State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
	replace(pod, "side")
	ready(pod, false)
	require.Equal(t, "container side isn't ready, and others are updated after it", Progress(pod, now).Why)
	ready(pod, true)
	require.Equal(t, Outcome{Next: true, Why: "all containers updated so far are ready"}, Progress(pod, now))

	ps, err = Continue(pod, now)
	require.Len(t, ps, 1)
	pod = send(t, pod, ps, err)
	require.Equal(t, [][]string{{"side run://side-0"}, {"app run://app-0"}}, alwaysRestarted(pod),
		"the first container has another ID, so it is not stopped again")
	require.Equal(t, Outcome{Why: "container app hasn't been restarted as requested", Daemon: true}.since(now), Progress(pod, now))
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
		ps, err := restartUpdate("1", names...).Write(pod, toRevision("web-2"), start)
		return send(t, pod, ps, err)
	}
	later := start.Add(time.Minute)
	t.Run("containers that were not restarted, or not even requested, are still pending", func(t *testing.T) {
		t.Parallel()
		pod := begun(t, "app", "side")
		ps, err := (Update{Labels: map[string]*string{"tier": new("two")}}).Write(pod, toRevision("web-3"), later)
		pod = send(t, pod, ps, err)
		require.Equal(t, [][]string{{"side run://side-0"}, {"app run://app-0"}}, alwaysRestarted(pod), "the daemon keeps the order")
	})
	t.Run("a restarted container is not restarted again", func(t *testing.T) {
		t.Parallel()
		pod := begun(t, "side")
		replace(pod, "side")
		ps, err := (Update{Images: map[string]string{"app": "app:2"}}).Write(pod, toRevision("web-3"), later)
		pod = send(t, pod, ps, err)
		require.Empty(t, slices.Concat(alwaysRestarted(pod)...))
		require.Equal(t, "container app still has app:1", Progress(pod, later.Add(time.Minute)).Why)
	})
	t.Run("but is restarted by another request", func(t *testing.T) {
		t.Parallel()
		pod := begun(t, "side")
		replace(pod, "side")
		ps, err := restartUpdate("2", "side").Write(pod, toRevision("web-3"), later)
		pod = send(t, pod, ps, err)
		require.Equal(t, [][]string{{"side run://side-0-again"}}, alwaysRestarted(pod))
		require.Equal(t, "container side hasn't been restarted as requested", Progress(pod, later.Add(time.Minute)).Why)
	})
}

func TestARestartWithANewImageIsOne(t *testing.T) {
	t.Parallel()
	pod := running()
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	ps, err := restartUpdate("1", "app").after(Update{Images: map[string]string{"app": "app:2"}}).Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	requests := RestartRequests(pod)
	require.Len(t, requests, 1)
	require.True(t, requests[0][0].Image && requests[0][0].Always, "the kubelet restarts it, or else the daemon")
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
	ps, err := restartUpdate("1", "app").Write(pod, toRevision("web-2"), start)
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
	require.Equal(t, [][]string{{"app "}}, alwaysRestarted(pod), "a daemon doesn't stop a container without an ID")
}
