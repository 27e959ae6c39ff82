package env

import (
	"encoding/json"
	"hash/fnv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/dump"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const always = corev1.ContainerRestartPolicyAlways

// container returns a container that reads the annotation config.
func container(name string, more ...corev1.EnvVar) corev1.Container {
	return corev1.Container{Name: name, Image: name + ":1", Env: append([]corev1.EnvVar{{
		Name: "CONFIG", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['config']"}},
	}}, more...)}
}

// observedOf returns a pod whose annotation config has changed to two, with an in-place update of all these containers. They are running and
// ready, and were started with the value that each has in env.
func observedOf(t *testing.T, env map[string]string, containers ...corev1.Container) observed {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-a", Namespace: "shop", UID: "u1",
			Labels:          map[string]string{keys.LifecycleState: string(pods.LifecycleUpdating)},
			Annotations:     map[string]string{"config": "two"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", Controller: new(true)}},
		},
		Spec: corev1.PodSpec{NodeName: "node-1", RestartPolicy: corev1.RestartPolicyAlways, TerminationGracePeriodSeconds: new(int64(20))},
	}
	o := observed{pod: pod, started: map[string]cri.Container{}, asked: start.Add(-time.Minute)}
	var names []string
	last := map[string]string{}
	for _, c := range containers {
		st := corev1.ContainerStatus{
			Name: c.Name, Ready: true, ContainerID: "run://" + c.Name + "-0", Image: c.Image,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}
		if c.RestartPolicy != nil && *c.RestartPolicy == always && c.Lifecycle == nil {
			pod.Spec.InitContainers = append(pod.Spec.InitContainers, c)
			pod.Status.InitContainerStatuses = append(pod.Status.InitContainerStatuses, st)
		} else {
			pod.Spec.Containers = append(pod.Spec.Containers, c)
			pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, st)
		}
		known := cri.Container{Name: c.Name, PodUID: pod.UID, Running: true, Hash: 7}
		if v, ok := env[c.Name]; ok {
			known.Env = map[string]string{"CONFIG": v}
		}
		o.started[st.ContainerID] = known
		names, last[c.Name] = append(names, c.Name), st.ContainerID
	}
	record, err := json.Marshal(map[string]any{
		"revision": "web-2", "updateTimestamp": start, "updateEnvFromMetadata": true, "lastContainerIDs": last,
		"containerBatchesRecord": []any{map[string]any{"timestamp": start, "containers": names}},
	})
	require.NoError(t, err)
	pod.Annotations[keys.InPlaceUpdateState] = string(record)
	return o
}

func priority(value string) corev1.EnvVar {
	return corev1.EnvVar{Name: keys.EnvContainerPriority, Value: value}
}

func TestPlan(t *testing.T) {
	t.Parallel()
	app, side := container("app"), container("side")
	native := container("side")
	native.RestartPolicy = new(always)
	once := container("app")
	once.RestartPolicy = new(corev1.ContainerRestartPolicyOnFailure)
	both := map[string]string{"app": "one", "side": "one"}
	for _, tc := range []struct {
		name       string
		env        map[string]string
		containers []corev1.Container
		change     func(*observed)
		restart    []string
		holds      []string
		recheck    time.Duration
	}{
		{name: "a container with the old value is restarted", env: both, containers: []corev1.Container{app}, restart: []string{"app"}},
		{
			name: "a container with the new value is not restarted", env: map[string]string{"app": "one", "side": "two"},
			containers: []corev1.Container{app, side}, restart: []string{"app"},
		},
		{
			name: "a container whose restart is requested is restarted whatever its values", env: map[string]string{"app": "two", "side": "two"},
			containers: []corev1.Container{app, side}, restart: []string{"app"}, change: func(o *observed) { asked(t, o) },
		},
		{
			name: "a container whose restart was requested is restarted only once", env: map[string]string{"app": "two"}, containers: []corev1.Container{app},
			change: func(o *observed) { asked(t, o, "run://another") },
		},
		{
			name: "a container that would not be started again is not stopped", env: map[string]string{"app": "two"}, containers: []corev1.Container{once},
			change: func(o *observed) { asked(t, o) }, holds: []string{"RestartPolicy: container app has restart policy OnFailure and would not be started again"},
		},
		{
			name: "another daemon restarts for changed values, but not on request", env: map[string]string{"app": "two", "side": "one"},
			containers: []corev1.Container{app, side}, restart: []string{"app"}, recheck: stop.RecheckInterval,
			change: func(o *observed) { asked(t, o); o.other = "kruise-system/daemon" },
			holds:  []string{"OtherDaemon: container side was started before env CONFIG changed, but its restart is left to node daemon kruise-system/daemon"},
		},
		{name: "native sidecars are restarted too", env: both, containers: []corev1.Container{app, native}, restart: []string{"app", "side"}},
		{
			name: "a removed annotation is an empty value", env: both, containers: []corev1.Container{app}, restart: []string{"app"},
			change: func(o *observed) { delete(o.pod.Annotations, "config") },
		},
		{
			name: "nothing is restarted without an update", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { delete(o.pod.Labels, keys.LifecycleState) },
		},
		{
			name: "nothing is restarted by an update of images alone", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { o.pod.Annotations[keys.InPlaceUpdateState] = `{"lastContainerStatuses":{"app":{}}}` },
		},
		{
			name:       "the highest launch priority comes first, and the default is 0",
			env:        map[string]string{"app": "one", "side": "one", "log": "one"},
			containers: []corev1.Container{container("app", priority("-1")), container("side", priority("0")), container("log")},
			restart:    []string{"side", "log"},
		},
		{
			name: "the next container waits until the first is ready", env: map[string]string{"app": "one", "side": "two"},
			containers: []corev1.Container{container("app", priority("1")), container("side", priority("9"))},
			change:     func(o *observed) { o.pod.Status.ContainerStatuses[1].Ready = false },
			holds:      []string{"LaunchPriority: container side was restarted and isn't ready"},
		},
		{
			name: "the next container is restarted once the first is ready", env: map[string]string{"app": "one", "side": "two"},
			containers: []corev1.Container{container("app", priority("1")), container("side", priority("9"))}, restart: []string{"app"},
		},
		{
			name: "a container that does not run is left to the kubelet", env: both, containers: []corev1.Container{app},
			change: func(o *observed) {
				o.pod.Status.ContainerStatuses[0].State = corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{}}
			},
			holds: []string{"Kubelet: container app is not running"},
		},
		{
			name: "a container that the runtime does not know is waited for", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { o.pod.Status.ContainerStatuses[0].ContainerID = "run://app-1" },
			holds:  []string{"Kubelet: container app isn't the one in the pod's status"},
		},
		{
			name: "a container that gets a new image is left to the kubelet", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { reimaged(t, o) },
			holds:  []string{"Kubelet: container app is about to be restarted by the kubelet, because its image changed"},
		},
		{
			name: "a container that started with the new image before the kubelet saw the metadata is restarted", env: both, containers: []corev1.Container{app},
			change: func(o *observed) {
				reimaged(t, o)
				o.started["run://app-0"] = cri.Container{Name: "app", PodUID: "u1", Hash: plain(), Env: map[string]string{"CONFIG": "one"}}
			},
			restart: []string{"app"},
		},
		{
			name: "a container that the kubelet would not restart is left running", env: both, containers: []corev1.Container{once},
			holds: []string{"RestartPolicy: container app has restart policy OnFailure and would not be started again"},
		},
		{
			name: "a container in a pod whose containers are not restarted is left running", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { o.pod.Spec.RestartPolicy = corev1.RestartPolicyNever },
			holds:  []string{"RestartPolicy: container app has restart policy Never and would not be started again"},
		},
		{
			name: "the kubelet gets a second to see the metadata", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { o.asked = start.Add(-200 * time.Millisecond) },
			holds:  []string{"Settling: container app will be stopped in 1s"}, recheck: 800 * time.Millisecond,
		},
		{
			name: "a container that came back with the old value is stopped again after a pause", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { o.tries = map[string]try{"app": {1, start.Add(-time.Second)}} },
			holds:  []string{"BackOff: container app will be stopped in 2s"}, recheck: 2 * time.Second,
		},
		{
			name: "the pause grows to ten minutes", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { o.tries = map[string]try{"app": {20, start.Add(-time.Minute)}} },
			holds:  []string{"BackOff: container app will be stopped in 9m0s"}, recheck: 9 * time.Minute,
		},
		{
			name: "a container is stopped again after the pause", env: both, containers: []corev1.Container{app}, restart: []string{"app"},
			change: func(o *observed) { o.tries = map[string]try{"app": {2, start.Add(-6 * time.Second)}} },
		},
		{name: "without env from the runtime, the container from before the update is restarted", containers: []corev1.Container{app}, restart: []string{"app"}},
		{
			name: "without env from the runtime, a newer container is not restarted", containers: []corev1.Container{app},
			change: func(o *observed) {
				o.pod.Status.ContainerStatuses[0].ContainerID = "run://app-1"
				o.started["run://app-1"] = cri.Container{Name: "app", PodUID: "u1"}
			},
		},
		{
			name: "restarts are left to another node daemon while it runs", env: both, containers: []corev1.Container{app},
			change: func(o *observed) { o.other = "kruise-system/kruise-daemon-x" },
			holds: []string{
				"OtherDaemon: container app was started before env CONFIG changed, but its restart is left to node daemon kruise-system/kruise-daemon-x",
			},
			recheck: stop.RecheckInterval,
		},
		{
			name: "reports are left to another node daemon while it runs", env: map[string]string{"app": "two"}, containers: []corev1.Container{app},
			change: func(o *observed) { o.other = "kruise-system/kruise-daemon-x" }, recheck: stop.RecheckInterval,
		},
		{
			name: "a container of another pod is left alone, whatever the status says", env: both, containers: []corev1.Container{app},
			change: func(o *observed) {
				o.started["run://app-0"] = cri.Container{Name: "app", PodUID: "u2", Env: map[string]string{"CONFIG": "one"}}
			},
			holds: []string{"Kubelet: container app isn't the one in the pod's status"},
		},
		{
			name: "another container of the same pod is left alone, whatever the status says", env: both, containers: []corev1.Container{app},
			change: func(o *observed) {
				o.started["run://app-0"] = cri.Container{Name: "side", PodUID: "u1", Env: map[string]string{"CONFIG": "one"}}
			},
			holds: []string{"Kubelet: container app isn't the one in the pod's status"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observedOf(t, tc.env, tc.containers...)
			if tc.change != nil {
				tc.change(&o)
			}
			before := o.pod.DeepCopy()
			p := plan(o, start)
			require.Equal(t, before, o.pod, "the plan does not modify the pod")
			var restarts, holds []string
			for _, r := range p.restart {
				restarts = append(restarts, r.Name)
				require.Equal(t, "run://"+r.Name+"-0", r.ID)
				require.Equal(t, 20*time.Second, r.Grace)
				require.NotContains(t, r.Why, "one", "values may be secret")
			}
			for _, h := range p.holds {
				holds = append(holds, string(h.reason)+": "+h.why)
			}
			require.Equal(t, tc.restart, restarts)
			require.Equal(t, tc.holds, holds)
			require.Equal(t, tc.recheck, p.recheck)
			if o.other != "" {
				require.Empty(t, p.report)
			}
		})
	}
}

// reimaged reports whether the container app gets a new image in the same update.
func reimaged(t *testing.T, o *observed) {
	t.Helper()
	rerecord(t, o, func(r map[string]any) {
		r["lastContainerStatuses"] = map[string]any{"app": map[string]any{"imageID": "x"}}
	})
}

// asked makes the update restart the container app, which had another ID before the update if one is given.
func asked(t *testing.T, o *observed, before ...string) {
	t.Helper()
	rerecord(t, o, func(r map[string]any) {
		r["restartedContainers"] = []string{"app"}
		for _, id := range before {
			r["lastContainerIDs"].(map[string]any)["app"] = id
		}
	})
}

// rerecord changes the record of the update.
func rerecord(t *testing.T, o *observed, change func(map[string]any)) {
	t.Helper()
	var record map[string]any
	require.NoError(t, json.Unmarshal([]byte(o.pod.Annotations[keys.InPlaceUpdateState]), &record))
	change(record)
	raw, err := json.Marshal(record)
	require.NoError(t, err)
	o.pod.Annotations[keys.InPlaceUpdateState] = string(raw)
}

// plain returns the hash that kubelets from 1.31 on compute for the container app.
func plain() uint64 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(dump.ForHash([]byte(`{"image":"app:1","name":"app"}`))))
	return uint64(h.Sum32())
}

func TestReport(t *testing.T) {
	t.Parallel()
	plainContainer := corev1.Container{Name: "log", Image: "log:1"}
	o := observedOf(t, map[string]string{"app": "one"}, container("app"), plainContainer, container("side"))
	o.pod.Status.ContainerStatuses[0].RestartCount = 3
	hash := func(value string) uint64 {
		p := o.pod.DeepCopy()
		p.Annotations["config"] = value
		return inplace.EnvHash(inplace.MetadataEnv(&p.Spec.Containers[0], p))
	}
	p := plan(o, start)
	var got struct{ Containers []map[string]any }
	require.NoError(t, json.Unmarshal([]byte(p.report), &got))
	require.Equal(t, []map[string]any{
		{
			"name": "app", "containerID": "run://app-0", "restartCount": 3.0,
			"hashes": map[string]any{"plainHash": 7.0, "extractedEnvFromMetadataHash": float64(hash("one"))},
		},
		{
			"name": "log", "containerID": "run://log-0", "restartCount": 0.0,
			"hashes": map[string]any{"plainHash": 7.0, "extractedEnvFromMetadataHash": 86995377.0},
		},
	}, got.Containers, "side reads metadata, and the runtime does not report its env")
	require.NotEqual(t, hash("one"), hash("two"))

	o.pod.Annotations[keys.RuntimeContainersMeta] = p.report
	require.Empty(t, plan(o, start).report, "an up-to-date report is not written again")
	o.started = nil
	require.Empty(t, plan(o, start).report, "nothing is reported without data")
}

// retag makes the container app read no metadata and get the image app:2. The arguments are the image, the image ID and the container ID in
// its status.
func retag(image, id string, now ...string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Env, p.Spec.Containers[0].Image = nil, "app:2"
		p.Annotations[keys.InPlaceUpdateState] = `{"lastContainerStatuses":{"app":{"imageID":"id-1"}},"lastContainerIDs":{"app":"run://app-0"}}`
		st := &p.Status.ContainerStatuses[0]
		st.Image, st.ImageID = image, id
		if len(now) > 0 {
			st.ContainerID = now[0]
		}
	}
}

func TestConcerns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		want   bool
	}{
		{"a pod that reads metadata and is updated", func(*corev1.Pod) {}, true},
		{"a pod that reads metadata and is not updated", func(p *corev1.Pod) { delete(p.Labels, keys.LifecycleState) }, true},
		{"a pod that reads no metadata", func(p *corev1.Pod) { p.Spec.Containers[0].Env = nil }, false},
		{"a pod without metadata whose image is updated", retag("app:1", "id-1"), false},
		{"a pod without metadata whose image was updated", retag("app:2", "id-2"), false},
		{"a pod whose new image has the ID of the old one", retag("app:1", "id-1", "run://app-1"), true},
		{"a pod with the same image ID after the update", func(p *corev1.Pod) {
			retag("app:1", "id-1", "run://app-1")(p)
			delete(p.Labels, keys.LifecycleState)
		}, false},
		{"a pod of a Deployment", func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion = "apps/v1" }, false},
		{"a pod without a controller", func(p *corev1.Pod) { p.OwnerReferences = nil }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observedOf(t, nil, container("app"))
			tc.change(o.pod)
			require.Equal(t, tc.want, concerns(o.pod))
		})
	}
}

// A second batch is requested while the first one is still requested.
func TestTheKubeletGetsItsSecondForEachChange(t *testing.T) {
	t.Parallel()
	var m memory
	o := observedOf(t, nil, container("app"))
	require.Equal(t, start, m.stateOf(o.pod, start).asked)
	m.recordStop(o.pod, "app", start)
	require.Len(t, m.stateOf(o.pod, start.Add(time.Second)).tries, 1)

	o.pod.Annotations["config"] = "three"
	p := m.stateOf(o.pod, start.Add(time.Minute))
	require.Equal(t, start.Add(time.Minute), p.asked)
	require.Empty(t, p.tries, "the pauses were for other values")
	o.pod.Annotations["unread"] = "x"
	require.Equal(t, start.Add(time.Minute), m.stateOf(o.pod, start.Add(time.Hour)).asked)

	delete(o.pod.Labels, keys.LifecycleState)
	require.Zero(t, m.stateOf(o.pod, start.Add(time.Hour)).asked)
}
