package inplace

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// launch gives a container a launch priority.
func launch(i int, value string, more ...corev1.EnvVar) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[i]
		c.Env = append(append(c.Env, corev1.EnvVar{Name: keys.EnvContainerPriority, Value: value}), more...)
	}
}

// withBarrier gives a container the launch priority as written by the pod webhook.
func withBarrier(i int, key string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		c := &p.Spec.Containers[i]
		c.Env = append(c.Env, corev1.EnvVar{Name: keys.EnvContainerBarrier, ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{Key: key},
		}})
	}
}

// withProxy adds a native sidecar.
func withProxy(p *corev1.Pod) {
	p.Spec.InitContainers = []corev1.Container{
		{Name: "init", Image: "init:1"},
		{Name: "proxy", Image: "proxy:1", RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
	}
	p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "proxy", Image: "proxy:1", ImageID: "proxy:1@sha256:aa"}}
}

// bothImages gives app and side new images.
func bothImages() Update { return Update{Images: map[string]string{"app": "app:2", "side": "side:2"}} }

func TestSplit(t *testing.T) {
	t.Parallel()
	two := "two"
	config := reads("CONFIG", "metadata.annotations['config']")
	tier := reads("TIER", "metadata.labels['tier']")
	for _, tc := range []struct {
		name       string
		pod        *corev1.Pod
		update     Update
		now, later Update
	}{
		{name: "one batch without priorities", pod: running(), update: bothImages(), now: bothImages()},
		{
			name: "the highest priority is written first", pod: running(launch(0, "1"), launch(1, "2")), update: bothImages(),
			now:   Update{Images: map[string]string{"side": "side:2"}},
			later: Update{Images: map[string]string{"app": "app:2"}},
		},
		{name: "equal priorities are written together", pod: running(launch(0, "-1"), launch(1, "-1")), update: bothImages(), now: bothImages()},
		{
			name: "a container without a priority counts as 0, and so follows a higher one", pod: running(launch(1, "2")), update: bothImages(),
			now:   Update{Images: map[string]string{"side": "side:2"}},
			later: Update{Images: map[string]string{"app": "app:2"}},
		},
		{
			name: "and precedes a lower one", pod: running(launch(1, "-1")), update: bothImages(),
			now:   Update{Images: map[string]string{"app": "app:2"}},
			later: Update{Images: map[string]string{"side": "side:2"}},
		},
		{name: "and is written together with a 0", pod: running(launch(1, "0")), update: bothImages(), now: bothImages()},
		{
			name: "a native sidecar without a priority is in the first batch, because it starts before all", pod: running(launch(1, "2"), withProxy),
			update: bothImages().after(Update{Images: map[string]string{"proxy": "proxy:2"}}),
			now:    Update{Images: map[string]string{"side": "side:2", "proxy": "proxy:2"}},
			later:  Update{Images: map[string]string{"app": "app:2"}},
		},
		{
			name: "a barrier sets the priority, too", pod: running(withBarrier(0, "p_-1"), withBarrier(1, "p_0")), update: bothImages(),
			now:   Update{Images: map[string]string{"side": "side:2"}},
			later: Update{Images: map[string]string{"app": "app:2"}},
		},
		{name: "an invalid number counts as 0", pod: running(launch(0, "first"), withBarrier(1, "x")), update: bothImages(), now: bothImages()},
		{
			name: "priorities of unchanged containers don't count", pod: running(launch(0, "1"), launch(2, "9")),
			update: Update{Images: map[string]string{"app": "app:2"}}, now: Update{Images: map[string]string{"app": "app:2"}},
		},
		{
			name: "resources wait with their container", pod: running(launch(0, "1"), launch(1, "2")),
			update: Update{
				Images:    map[string]string{"side": "side:2"},
				Resources: map[string]corev1.ResourceRequirements{"app": {Limits: list("cpu=1")}},
			},
			now:   Update{Images: map[string]string{"side": "side:2"}},
			later: Update{Resources: map[string]corev1.ResourceRequirements{"app": {Limits: list("cpu=1")}}},
		},
		{
			name:   "metadata waits with the container that reads it, other metadata does not",
			pod:    running(launch(0, "1", config), launch(1, "2")),
			update: bothImages().after(Update{Annotations: map[string]*string{"config": &two, "note": &two}}),
			now: Update{
				Images: map[string]string{"side": "side:2"}, Annotations: map[string]*string{"note": &two},
			},
			later: Update{Images: map[string]string{"app": "app:2"}, Annotations: map[string]*string{"config": &two}},
		},
		{
			name: "containers that share metadata with a container of the batch are in it, transitively",
			pod:  running(launch(0, "1", config, tier), launch(1, "2", tier), launch(2, "0", config)),
			update: Update{
				Env:         map[string]string{"app": "", "side": "", "injected": ""},
				Annotations: map[string]*string{"config": &two}, Labels: map[string]*string{"tier": &two},
			},
			now: Update{
				Env:         map[string]string{"app": "", "side": "", "injected": ""},
				Annotations: map[string]*string{"config": &two}, Labels: map[string]*string{"tier": &two},
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			now, later := tc.update.split(&tc.pod.Spec)
			require.Empty(t, cmp.Diff(tc.now.after(Update{}), now.after(Update{})))
			require.Empty(t, cmp.Diff(tc.later.after(Update{}), later.after(Update{})))
		})
	}
}

// ready sets whether containers are ready, running their image.
func ready(p *corev1.Pod, value bool) {
	for i := range p.Status.ContainerStatuses {
		p.Status.ContainerStatuses[i].Ready = value
	}
}

func TestBatchesFollowEachOther(t *testing.T) {
	t.Parallel()
	two := "two"
	pod := running(launch(0, "1", reads("CONFIG", "metadata.annotations['config']")), launch(1, "2"))
	update := bothImages().after(Update{
		Annotations: map[string]*string{"config": &two},
		Resources:   map[string]corev1.ResourceRequirements{"app": {Limits: list("cpu=2")}},
	})
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	ps, err := update.Write(pod, toRevision("web-2"), start)
	require.Len(t, ps, 1, "the resources belong to the next batch")
	pod = send(t, pod, ps, err)
	require.Equal(t, "side:2", pod.Spec.Containers[1].Image)
	require.Equal(t, "app:1", pod.Spec.Containers[0].Image)
	require.NotContains(t, pod.Annotations, "config")
	require.JSONEq(t, `{"revision": "web-2", "updateTimestamp": "2026-01-02T03:04:05Z",
		"lastContainerStatuses": {"side": {"imageID": "side:1@sha256:aa"}}, "lastContainerIDs": {"side": "run://side-0"},
		"updateResources": true, "updateImages": true,
		"nextContainerImages": {"app": "app:2"}, "nextContainerResources": {"app": {"limits": {"cpu": "2"}}},
		"nextContainerRefMetadata": {"app": {"annotations": {"config": "two"}}},
		"preCheckBeforeNext": {"containersRequiredReady": ["side"]},
		"containerBatchesRecord": [{"timestamp": "2026-01-02T03:04:05Z", "containers": ["side"]}]}`,
		pod.Annotations[keys.InPlaceUpdateState])

	now := start.Add(time.Minute)
	require.Equal(t, "container side still has side:1", Progress(pod, now).Why)
	restart(pod, now)
	ready(pod, false)
	require.Equal(t, "container side isn't ready, and others are updated after it", Progress(pod, now).Why)
	ready(pod, true)
	require.Equal(t, Outcome{Next: true, Why: "all containers updated so far are ready"}, Progress(pod, now))

	ps, err = Continue(pod, now)
	require.Len(t, ps, 2)
	pod = send(t, pod, ps[:1], err) // The writer may crash here.
	require.Equal(t, "app:2", pod.Spec.Containers[0].Image)
	require.Equal(t, "two", pod.Annotations["config"])
	require.Equal(t, Outcome{Next: true, Why: "resources haven't been written yet"}, Progress(pod, now))
	ps, err = Continue(pod, now)
	require.Len(t, ps, 1, "the rest is written, and nothing twice")
	require.Equal(t, "resize", ps[0].Subresource)
	require.Contains(t, string(ps[0].Data), `"resourceVersion":"7"`, "a pod that is at another revision by now is left alone")
	pod = send(t, pod, ps, err)
	require.Equal(t, Outcome{Why: "container app still has app:1"}.since(now), Progress(pod, now))
	restart(pod, now)
	require.Equal(t, Outcome{Done: true}, Progress(pod, now))
	require.Equal(t, []string{"side", "app"}, batches(recordOf(pod)))

	p, err = MarkReady(pod, podpatch.New(pod), now)
	pod = apply(t, pod, p, err)
	require.NotContains(t, pod.Annotations[keys.InPlaceUpdateState], "next", "another reader of the record has nothing to do")
	require.Equal(t, Outcome{Done: true}, Progress(pod, now))
}

func TestBatchesGoByFallingPriorityWhateverTheyChange(t *testing.T) {
	t.Parallel()
	two := "two"
	pod := running(launch(1, "2"), launch(2, "-1", reads("CONFIG", "metadata.annotations['config']")))
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	ps, err := Update{
		Images:      map[string]string{"side": "side:broken"},
		Resources:   map[string]corev1.ResourceRequirements{"app": {Limits: list("cpu=2")}, "side": {Limits: list("cpu=1")}},
		Env:         map[string]string{"injected": "annotation config by env CONFIG"},
		Annotations: map[string]*string{"config": &two, "note": &two},
	}.Write(pod, toRevision("web-2"), start)
	require.Len(t, ps, 2, "the image of side, and its resources")
	pod = send(t, pod, ps, err)
	restart(pod, start)
	ready(pod, false)
	require.Equal(t, "container side isn't ready, and others are updated after it", Progress(pod, start.Add(time.Hour)).Why)
	require.Empty(t, pod.Spec.Containers[0].Resources.Limits, "app has priority 0 and is not updated beside a batch that fails")
	require.NotContains(t, pod.Annotations, "config", "nor is the container that reads the annotation")
	require.Equal(t, "two", pod.Annotations["note"])

	// side recovers, and the next batch is only a resize.
	ready(pod, true)
	require.True(t, Progress(pod, start).Next)
	ps, err = Continue(pod, start)
	pod = send(t, pod, ps, err)
	require.Empty(t, cmp.Diff(list("cpu=2"), pod.Spec.Containers[0].Resources.Limits))
	require.NotContains(t, pod.Annotations, "config")
	require.Equal(t, "container app hasn't been resized", Progress(pod, start).Why)
	restart(pod, start)
	ready(pod, false)
	require.Equal(t, "container app isn't ready, and others are updated after it", Progress(pod, start).Why)
	ready(pod, true)
	require.True(t, Progress(pod, start).Next)

	// The last batch is only env, and the node daemon restarts the container.
	ps, err = Continue(pod, start)
	pod = send(t, pod, ps, err)
	require.Equal(t, "two", pod.Annotations["config"])
	require.Equal(t, [][]string{{"injected"}}, restartedForEnv(pod))
	require.False(t, Progress(pod, start).Done)
	require.Equal(t, []string{"side", "app", "injected"}, batches(recordOf(pod)))
}

// restartedForEnv returns the names of the containers to restart for their env, in order.
func restartedForEnv(pod *corev1.Pod) [][]string {
	var out [][]string
	for _, list := range RestartRequests(pod) {
		var names []string
		for _, r := range list {
			names = append(names, r.Container.Name)
		}
		out = append(out, names)
	}
	return out
}

// batches returns the first container of each batch.
func batches(r record) []string {
	var out []string
	for _, b := range r.ContainerBatchesRecord {
		out = append(out, b.Containers[0])
	}
	return out
}

func TestBatchesOfOpenKruise(t *testing.T) {
	t.Parallel()
	pod := func(state string) *corev1.Pod {
		return running(func(p *corev1.Pod) {
			p.Status.Conditions[1].Status = corev1.ConditionFalse
			p.Labels[keys.ControllerRevisionHash] = "web-2"
			p.Annotations[keys.InPlaceUpdateState] = state
		})
	}
	t.Run("its next batch is written", func(t *testing.T) {
		t.Parallel()
		p := pod(`{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":{"side":{"imageID":"before"}},
			"updateImages":true,"nextContainerImages":{"app":"app:2"},"preCheckBeforeNext":{"containersRequiredReady":["side"]},
			"containerBatchesRecord":[{"timestamp":"2026-01-02T03:04:05Z","containers":["side"]}]}`)
		require.True(t, Progress(p, start).Next)
		ps, err := Continue(p, start)
		got := send(t, p, ps, err)
		require.Equal(t, "app:2", got.Spec.Containers[0].Image)
		require.Equal(t, "web-2", got.Labels[keys.ControllerRevisionHash])
	})
	t.Run("B 5: its next batch of resources alone is written", func(t *testing.T) {
		t.Parallel()
		p := pod(`{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z","lastContainerStatuses":{"side":{"imageID":"before"}},
			"updateImages":true,"updateResources":true,"nextContainerResources":{"app":{"requests":{"cpu":"2"}}},
			"containerBatchesRecord":[{"timestamp":"2026-01-02T03:04:05Z","containers":["side"]}]}`)
		p.Status.ContainerStatuses[1].Resources = &corev1.ResourceRequirements{}
		require.True(t, Progress(p, start).Next)
		ps, err := Continue(p, start)
		got := send(t, p, ps, err)
		require.Empty(t, cmp.Diff(list("cpu=2"), got.Spec.Containers[0].Resources.Requests))
		require.False(t, Progress(got, start).Done)
		restart(got, start)
		require.True(t, Progress(got, start).Done)
	})
}

func TestABatchWithOnlyResourcesLeftBegins(t *testing.T) {
	t.Parallel()
	pod := running(launch(0, "1"), launch(1, "2"))
	ps, err := Update{
		Images:    map[string]string{"side": "side:2"},
		Resources: map[string]corev1.ResourceRequirements{"app": {Limits: list("cpu=2")}},
	}.Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	restart(pod, start)
	require.True(t, Progress(pod, start).Next)
	ps, err = Continue(pod, start)
	pod = send(t, pod, ps, err)
	require.Empty(t, cmp.Diff(list("cpu=2"), pod.Spec.Containers[0].Resources.Limits))
	require.Equal(t, "container app hasn't been resized", Progress(pod, start).Why)
	restart(pod, start)
	require.Equal(t, Outcome{Done: true}, Progress(pod, start))
}

func TestARollbackBetweenTwoBatches(t *testing.T) {
	t.Parallel()
	pod := running(launch(0, "1"), launch(1, "2"))
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	ps, err := bothImages().Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	ps, err = Update{Images: map[string]string{"app": "app:1", "side": "side:1"}}.Write(pod, toRevision("web-1"), start)
	pod = send(t, pod, ps, err)
	require.Equal(t, "app:1", pod.Spec.Containers[0].Image)
	require.Equal(t, "side:1", pod.Spec.Containers[1].Image)
	require.Equal(t, Outcome{Done: true}, Progress(pod, start), "the kubelet had not restarted it, and the unwritten rest is dropped")
}

func TestAnUpdateDuringABatchWritesTheRestOfTheBatch(t *testing.T) {
	t.Parallel()
	pod := running(launch(0, "1"), launch(1, "2"))
	ps, err := bothImages().Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	ps, err = Update{Images: map[string]string{"side": "side:3"}}.Write(pod, toRevision("web-3"), start)
	pod = send(t, pod, ps, err)
	require.Equal(t, map[string]string{"app": "app:2"}, recordOf(pod).NextContainerImages)
	restart(pod, start)
	require.True(t, Progress(pod, start).Next)
}

func TestResize(t *testing.T) {
	t.Parallel()
	condition := func(kind corev1.PodConditionType, reason, message string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
				Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			})
		}
	}
	status := func(i int, r *corev1.ResourceRequirements) func(*corev1.Pod) {
		return func(p *corev1.Pod) { p.Status.ContainerStatuses[i].Resources = r }
	}
	small := corev1.ResourceRequirements{Requests: list("cpu=1 memory=1Gi ephemeral-storage=1Gi")}
	large := corev1.ResourceRequirements{Requests: list("cpu=2 memory=1Gi")}
	sized := func(p *corev1.Pod) { p.Spec.Containers[0].Resources = small }
	for _, tc := range []struct {
		name string
		with []func(*corev1.Pod)
		want Outcome
	}{
		{
			name: "a container has its resources when its status shows them",
			with: []func(*corev1.Pod){status(0, &large)},
			want: Outcome{Done: true},
		},
		{
			name: "a container that has the old resources is awaited",
			with: []func(*corev1.Pod){status(0, &small)},
			want: Outcome{Why: "container app hasn't been resized"},
		},
		{
			name: "a container without reported resources is awaited",
			want: Outcome{Why: "container app hasn't been resized"},
		},
		{
			name: "a node without room is reported",
			with: []func(*corev1.Pod){condition(corev1.PodResizePending, corev1.PodReasonInfeasible, "node has 1 cpu")},
			want: Outcome{Why: "container app hasn't been resized: Infeasible, node has 1 cpu"},
		},
		{
			name: "a node that may have room later is reported",
			with: []func(*corev1.Pod){condition(corev1.PodResizePending, corev1.PodReasonDeferred, "")},
			want: Outcome{Why: "container app hasn't been resized: Deferred"},
		},
		{
			name: "an error of the node is reported",
			with: []func(*corev1.Pod){condition(corev1.PodResizeInProgress, corev1.PodReasonError, "")},
			want: Outcome{Why: "container app hasn't been resized: Error"},
		},
		{
			name: "#1683: an injected container that others resize is ignored",
			with: []func(*corev1.Pod){status(0, &large), status(2, &small)},
			want: Outcome{Done: true},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := running(sized)
			ps, err := Update{Resources: map[string]corev1.ResourceRequirements{"app": {Requests: list("cpu=2")}}}.Write(pod, toRevision("web-2"), start)
			require.Len(t, ps, 2)
			pod = send(t, pod, ps, err)
			require.True(t, Closed(pod), "its lifecycle state is Updating")
			require.Equal(t, corev1.ConditionTrue, podpatch.Find(pod, keys.InPlaceUpdateReady).Status, "it stays in service")
			for _, f := range tc.with {
				f(pod)
			}
			want := tc.want
			if !want.Done {
				want = want.since(start)
			}
			require.Empty(t, cmp.Diff(want, Progress(pod, start)))
		})
	}
}

func TestANativeSidecarIsUpdated(t *testing.T) {
	t.Parallel()
	pod := running(withProxy)
	ps, err := Update{
		Images:    map[string]string{"proxy": "proxy:2"},
		Resources: map[string]corev1.ResourceRequirements{"proxy": {Limits: list("cpu=1")}},
	}.Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	require.Equal(t, "proxy:2", pod.Spec.InitContainers[1].Image)
	require.Empty(t, cmp.Diff(list("cpu=1"), pod.Spec.InitContainers[1].Resources.Limits))
	require.Equal(t, "container proxy hasn't been started yet", Progress(pod, start).Why)
	restart(pod, start)
	require.Equal(t, Outcome{Done: true}, Progress(pod, start))
}

func TestReportsOfTheNodeDaemon(t *testing.T) {
	t.Parallel()
	two := "two"
	// reported sets what the node daemon reports about the container app.
	reported := func(id string, plain, env uint64) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			raw, err := json.Marshal(map[string]any{"containers": []any{map[string]any{
				"name": "app", "containerID": id, "restartCount": 0,
				"hashes": map[string]uint64{"plainHash": plain, "extractedEnvFromMetadataHash": env},
			}}})
			require.NoError(t, err)
			p.Annotations[keys.RuntimeContainersMeta] = string(raw)
		}
	}
	tier := func(value string) uint64 {
		p := running(func(p *corev1.Pod) { p.Labels["tier"] = value })
		p.Spec.Containers[0].Env = []corev1.EnvVar{reads("TIER", "metadata.labels['tier']")}
		return EnvHash(MetadataEnv(&p.Spec.Containers[0], p))
	}
	image := func(name string) uint64 { return hashOf(map[string]string{"name": "app", "image": name}) }
	env := Update{Labels: map[string]*string{"tier": &two}, Env: map[string]string{"app": "label tier by env TIER"}}
	for _, tc := range []struct {
		name     string
		update   Update
		reported func(*corev1.Pod)
		why      string
	}{
		{"a container with the new env is done", env, reported("run://app-0", image("app:1"), tier("two")), ""},
		{
			"a container with the old env is not done", env, reported("run://app-0", image("app:1"), tier("one")),
			"container app reads changed metadata by env and still has the old values",
		},
		{
			"a report about the previous container doesn't count", env, reported("run://app-x", image("app:1"), tier("two")),
			"container app reads changed metadata by env and wasn't restarted",
		},
		{
			"an invalid report doesn't count", env, func(p *corev1.Pod) { p.Annotations[keys.RuntimeContainersMeta] = "{" },
			"container app reads changed metadata by env and wasn't restarted",
		},
		{
			"a container that was started from the new image is done, regardless of its image ID",
			Update{Images: map[string]string{"app": "app:2"}},
			reported("run://app-0", image("app:2"), 0), "",
		},
		{
			"a container that was started from the old image is not done",
			Update{Images: map[string]string{"app": "app:2"}},
			reported("run://app-0", image("app:1"), 0),
			"container app still has app:1",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := running(func(p *corev1.Pod) {
				p.Labels["tier"] = "one"
				p.Spec.Containers[0].Env = []corev1.EnvVar{reads("TIER", "metadata.labels['tier']")}
			})
			ps, err := tc.update.Write(pod, toRevision("web-2"), start)
			pod = send(t, pod, ps, err)
			tc.reported(pod)
			o := Progress(pod, start)
			require.Equal(t, tc.why, o.Why)
			require.Equal(t, tc.why == "", o.Done)
			require.Equal(t, strings.Contains(tc.why, "by env"), o.Daemon, "the batch whose turn it is")
		})
	}
}

func TestAmbiguous(t *testing.T) {
	t.Parallel()
	reports := func(image, imageID, containerID string) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			st := &p.Status.ContainerStatuses[0]
			st.Image, st.ImageID, st.ContainerID = image, imageID, containerID
		}
	}
	for _, tc := range []struct {
		name string
		then func(*corev1.Pod)
		want bool
	}{
		{"the old container still runs", func(*corev1.Pod) {}, false},
		{"another image", reports("app:2", "app:2@sha256:bb", "run://app-1"), false},
		{"the same image by its new name", reports("app:2", "app:1@sha256:aa", "run://app-1"), false},
		{"the same image by its old name, in another container", reports("app:1", "app:1@sha256:aa", "run://app-1"), true},
		{"which is not running", func(p *corev1.Pod) {
			reports("app:1", "app:1@sha256:aa", "run://app-1")(p)
			p.Status.ContainerStatuses[0].State = corev1.ContainerState{}
		}, false},
		{"in a pod that is in service again", func(p *corev1.Pod) {
			reports("app:1", "app:1@sha256:aa", "run://app-1")(p)
			p.Status.Conditions, p.Labels = nil, nil
		}, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := running()
			ps, err := Update{Images: map[string]string{"app": "app:2"}}.Write(pod, toRevision("web-2"), start)
			pod = send(t, pod, ps, err)
			tc.then(pod)
			require.Equal(t, tc.want, Ambiguous(pod))
		})
	}
}

// TestEnvHash: the first hash comes from the annotation of a pod in the documentation of OpenKruise's game servers; the container there
// references no metadata.
func TestEnvHash(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"config": "one"}, Labels: map[string]string{"tier": "x"}}}
	require.EqualValues(t, 86995377, EnvHash(MetadataEnv(&corev1.Container{Name: "nginx", Image: "nginx"}, pod)))
	config, tier := reads("CONFIG", "metadata.annotations['config']"), reads("TIER", "metadata.labels['tier']")
	hash := EnvHash(MetadataEnv(&corev1.Container{Env: []corev1.EnvVar{config, tier}}, pod))
	require.Equal(t, hash, EnvHash(MetadataEnv(&corev1.Container{Env: []corev1.EnvVar{
		{Name: "PLAIN", Value: "x"},
		reads("TIER", "metadata.annotations['config']"), tier, reads("NODE", "spec.nodeName"),
		reads("SIDECARSET_VERSION", "metadata.labels['tier']"), config,
	}}, pod)), "the order doesn't matter, only labels and annotations count, and of two values the last one")
	pod.Annotations["config"] = "two"
	require.NotEqual(t, hash, EnvHash(MetadataEnv(&corev1.Container{Env: []corev1.EnvVar{config, tier}}, pod)))
}
