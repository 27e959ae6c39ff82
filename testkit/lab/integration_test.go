//go:build integration

package lab

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
)

// bench is a cluster with helpers for looking at pods in it.
type bench struct {
	*Cluster

	kube kubernetes.Interface
}

func newBench(t *testing.T, cfg Config) bench {
	t.Helper()
	c := StartT(t, cfg)
	cfgREST, err := c.REST()
	require.NoError(t, err)
	kube, err := kubernetes.NewForConfig(cfgREST)
	require.NoError(t, err)
	return bench{Cluster: c, kube: kube}
}

func (b bench) pod(t *testing.T, name, image string, change func(*corev1.Pod)) {
	t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: image}}},
	}
	if change != nil {
		change(pod)
	}
	_, err := b.kube.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{})
	require.NoError(t, err)
}

// await returns the pod as soon as it meets the condition.
func (b bench) await(t *testing.T, name, what string, met func(*corev1.Pod) bool) *corev1.Pod {
	t.Helper()
	var pod *corev1.Pod
	require.Eventually(t, func() bool {
		var err error
		pod, err = b.kube.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
		return err == nil && met(pod)
	}, 3*soon, tick, "pod %s never was %s", name, what)
	return pod
}

func (b bench) setImage(t *testing.T, name, image string) {
	t.Helper()
	patch := fmt.Appendf(nil, `[{"op": "replace", "path": "/spec/containers/0/image", "value": %q}]`, image)
	_, err := b.kube.CoreV1().Pods("default").Patch(t.Context(), name, types.JSONPatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

func condition(p *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c.Status
		}
	}
	return corev1.ConditionUnknown
}

func ready(p *corev1.Pod) bool { return condition(p, corev1.PodReady) == corev1.ConditionTrue }

func waitingFor(reason string) func(*corev1.Pod) bool {
	return func(p *corev1.Pod) bool {
		return len(p.Status.ContainerStatuses) > 0 && p.Status.ContainerStatuses[0].State.Waiting != nil &&
			p.Status.ContainerStatuses[0].State.Waiting.Reason == reason
	}
}

func TestPodsLiveAsAKubeletWouldHaveIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Nodes: "kwok:4", Zones: 2})

	t.Run("nodes are Ready, in zones, without taints", func(t *testing.T) {
		t.Parallel()
		nodes, err := b.kube.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		var zones []string
		for i := range nodes.Items {
			require.Empty(t, nodes.Items[i].Spec.Taints)
			require.True(t, nodeReady(&nodes.Items[i]))
			zones = append(zones, nodes.Items[i].Labels[corev1.LabelTopologyZone])
		}
		slices.Sort(zones)
		require.Equal(t, []string{"zone-a", "zone-a", "zone-b", "zone-b"}, zones)
	})

	t.Run("a changed image restarts the container", func(t *testing.T) {
		t.Parallel()
		b.pod(t, "edit", "app:1", func(p *corev1.Pod) { // Slow enough for a busy machine to see it unready.
			p.Annotations = map[string]string{"lab.flotilla.io/restart-delay": "2s"}
		})
		before := b.await(t, "edit", "Ready", ready)
		require.NotEmpty(t, before.Spec.NodeName)
		require.NotEmpty(t, before.Status.PodIP)

		b.setImage(t, "edit", "app:2")
		b.await(t, "edit", "unready", func(p *corev1.Pod) bool { return !ready(p) && !p.Status.ContainerStatuses[0].Ready })
		after := b.await(t, "edit", "Ready again", ready)
		require.Equal(t, before.UID, after.UID)
		old, current := before.Status.ContainerStatuses[0], after.Status.ContainerStatuses[0]
		require.Equal(t, "app:2", current.Image)
		require.Equal(t, int32(1), current.RestartCount)
		require.NotEqual(t, old.ImageID, current.ImageID)
		require.NotEqual(t, old.ContainerID, current.ContainerID)
		require.Equal(t, old.ContainerID, current.LastTerminationState.Terminated.ContainerID)
		require.Equal(t, after.Generation, after.Status.ObservedGeneration)
	})

	t.Run("a bad image never starts, and a good one after it does", func(t *testing.T) {
		t.Parallel()
		b.pod(t, "bad", "app:bad", nil)
		b.await(t, "bad", "refused", waitingFor("ErrImagePull"))
		pod := b.await(t, "bad", "backing off", waitingFor("ImagePullBackOff"))
		require.Equal(t, corev1.PodPending, pod.Status.Phase)
		require.Empty(t, pod.Status.ContainerStatuses[0].ContainerID)
		require.False(t, ready(pod))

		b.setImage(t, "bad", "app:1")
		pod = b.await(t, "bad", "Ready", ready)
		require.Zero(t, pod.Status.ContainerStatuses[0].RestartCount, "it had never run before")

		b.setImage(t, "bad", "registry/bad/app:1")
		pod = b.await(t, "bad", "backing off", waitingFor("ImagePullBackOff"))
		require.False(t, ready(pod))
		require.Equal(t, corev1.PodRunning, pod.Status.Phase)
	})

	t.Run("a readiness gate holds the pod until someone opens it", func(t *testing.T) {
		t.Parallel()
		b.pod(t, "gate", "app:1", func(p *corev1.Pod) {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/open"}}
		})
		pod := b.await(t, "gate", "running", func(p *corev1.Pod) bool {
			return condition(p, corev1.ContainersReady) == corev1.ConditionTrue
		})
		require.False(t, ready(pod))
		for _, status := range []corev1.ConditionStatus{corev1.ConditionTrue, corev1.ConditionFalse} {
			patch := fmt.Appendf(nil, `{"status": {"conditions": [{"type": "example.com/open", "status": %q}]}}`, status)
			_, err := b.kube.CoreV1().Pods("default").Patch(t.Context(), "gate", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
			require.NoError(t, err)
			b.await(t, "gate", "like its gate", func(p *corev1.Pod) bool { return condition(p, corev1.PodReady) == status })
		}
	})

	t.Run("resources and native sidecars follow the spec", func(t *testing.T) {
		t.Parallel()
		always := corev1.ContainerRestartPolicyAlways
		b.pod(t, "size", "app:1", func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
			p.Spec.InitContainers = []corev1.Container{{Name: "proxy", Image: "proxy:1", RestartPolicy: &always}}
		})
		before := b.await(t, "size", "Ready", ready)
		patch := []byte(`[{"op": "replace", "path": "/spec/containers/0/resources/requests/cpu", "value": "200m"}]`)
		_, err := b.kube.CoreV1().Pods("default").Patch(t.Context(), "size", types.JSONPatchType, patch, metav1.PatchOptions{}, "resize")
		require.NoError(t, err)
		patch = []byte(`[{"op": "replace", "path": "/spec/initContainers/0/image", "value": "proxy:2"}]`)
		_, err = b.kube.CoreV1().Pods("default").Patch(t.Context(), "size", types.JSONPatchType, patch, metav1.PatchOptions{})
		require.NoError(t, err)
		after := b.await(t, "size", "resized, with another sidecar", func(p *corev1.Pod) bool {
			r, proxy := p.Status.ContainerStatuses[0].Resources, p.Status.InitContainerStatuses[0]
			return r != nil && r.Requests.Cpu().String() == "200m" && proxy.Image == "proxy:2"
		})
		require.Zero(t, after.Status.ContainerStatuses[0].RestartCount)
		require.Equal(t, int32(1), after.Status.InitContainerStatuses[0].RestartCount)
		require.NotEqual(t, before.Status.InitContainerStatuses[0].ImageID, after.Status.InitContainerStatuses[0].ImageID)
	})

	t.Run("the pods of a Job complete", func(t *testing.T) {
		t.Parallel()
		three := int32(3)
		job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: "job"}, Spec: batchv1.JobSpec{
			Completions: &three, Parallelism: &three,
			Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever,
				Containers:    []corev1.Container{{Name: "main", Image: "app:1"}},
			}},
		}}
		_, err := b.kube.BatchV1().Jobs("default").Create(t.Context(), job, metav1.CreateOptions{})
		require.NoError(t, err)
		require.Eventually(t, func() bool {
			job, err := b.kube.BatchV1().Jobs("default").Get(t.Context(), "job", metav1.GetOptions{})
			return err == nil && job.Status.Succeeded == 3
		}, 3*soon, tick)
	})

	t.Run("annotations set the delays", func(t *testing.T) {
		t.Parallel()
		pace := func(what string) func(*corev1.Pod) {
			return func(p *corev1.Pod) {
				p.Annotations = map[string]string{"lab.flotilla.io/" + what: "1h"}
				p.Spec.RestartPolicy = corev1.RestartPolicyNever
			}
		}
		for _, what := range []string{"start-delay", "restart-delay", "run-for", "stop-delay"} {
			b.pod(t, what, "app:1", pace(what))
		}
		b.await(t, "run-for", "Ready", ready)
		b.await(t, "stop-delay", "Ready", ready)
		require.NoError(t, b.kube.CoreV1().Pods("default").Delete(t.Context(), "stop-delay", metav1.DeleteOptions{}))

		// A pod without such an annotation starts, completes and is removed meanwhile.
		b.pod(t, "pace", "app:1", func(p *corev1.Pod) { p.Spec.RestartPolicy = corev1.RestartPolicyNever })
		b.await(t, "pace", "complete", func(p *corev1.Pod) bool { return p.Status.Phase == corev1.PodSucceeded })
		require.NoError(t, b.kube.CoreV1().Pods("default").Delete(t.Context(), "pace", metav1.DeleteOptions{}))
		require.Eventually(t, func() bool {
			_, err := b.kube.CoreV1().Pods("default").Get(t.Context(), "pace", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, soon, tick)

		b.await(t, "start-delay", "bound only", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" && p.Status.PodIP == "" })
		b.await(t, "restart-delay", "about to start", waitingFor("ContainerCreating"))
		b.await(t, "run-for", "Ready still", ready)
		b.await(t, "stop-delay", "about to terminate", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil })
	})

	t.Run("a start that is repeated starts the pod again", func(t *testing.T) {
		t.Parallel()
		b.pod(t, "twice", "app:1", nil)
		before := b.await(t, "twice", "Ready", ready)
		patch := []byte(`{"status": {"phase": "Pending", "containerStatuses": null}}`)
		after := b.await(t, "twice", "Ready with another address", func(p *corev1.Pod) bool {
			if p.Status.PodIP != before.Status.PodIP {
				return ready(p)
			}
			if ready(p) { // Even if kwok has replayed the last stage for the pod as it was before this patch.
				_, err := b.kube.CoreV1().Pods("default").Patch(t.Context(), "twice", types.MergePatchType, patch, metav1.PatchOptions{}, "status")
				require.NoError(t, err)
			}
			return false
		})
		require.Equal(t, []corev1.PodIP{{IP: after.Status.PodIP}}, after.Status.PodIPs)
		require.Equal(t, corev1.PodRunning, after.Status.Phase)
	})

	t.Run("a deleted pod disappears", func(t *testing.T) {
		t.Parallel()
		b.pod(t, "gone", "app:1", nil)
		b.await(t, "gone", "Ready", ready)
		require.NoError(t, b.kube.CoreV1().Pods("default").Delete(t.Context(), "gone", metav1.DeleteOptions{}))
		require.Eventually(t, func() bool {
			_, err := b.kube.CoreV1().Pods("default").Get(t.Context(), "gone", metav1.GetOptions{})
			return apierrors.IsNotFound(err)
		}, soon, tick)
	})
}

func TestAnAPIServerComesBackWithItsData(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{ControlPlaneOnly: true, Audit: true})
	config := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"answer": "42"}}
	_, err := b.kube.CoreV1().ConfigMaps("default").Create(t.Context(), config, metav1.CreateOptions{})
	require.NoError(t, err)

	require.NoError(t, b.StopComponent(t.Context(), APIServer))
	require.Equal(t, []string{APIServer}, b.Missing())
	_, err = b.kube.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.Error(t, err)

	require.NoError(t, b.StartComponent(t.Context(), APIServer))
	require.NoError(t, b.StartComponent(t.Context(), APIServer), "a second call changes nothing")
	got, err := b.kube.CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, "42", got.Data["answer"])

	writes, err := b.Writes(time.Time{})
	require.NoError(t, err)
	writes = slices.DeleteFunc(writes, func(w Write) bool { return w.Name != "kept" })
	require.Len(t, writes, 1, "a write is in the audit log once, and stays there")
	require.Equal(t, "lab:admin", writes[0].User)
	require.Equal(t, "configmaps", writes[0].Resource)
	require.Equal(t, 201, writes[0].Code)
	require.Greater(t, writes[0].Bytes, len(`{"answer":"42"}`))
}

func TestUpMendsAClusterWhoseProcessesWereKilled(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Nodes: "kwok:2"})
	b.pod(t, "kept", "app:1", nil)
	before := b.await(t, "kept", "Ready", ready)

	processes, err := b.Processes()
	require.NoError(t, err)
	require.Len(t, processes, 5)
	for _, p := range processes {
		require.True(t, p.Signal(unix.SIGKILL))
	}
	require.Eventually(t, func() bool { return len(b.Missing()) == 5 }, soon, tick)

	cfg := b.config
	cfg.StateRoot, cfg.Nodes, cfg.Tied = filepath.Dir(b.Dir), "kwok:3", true
	again, err := Up(t.Context(), cfg)
	require.NoError(t, err)
	require.Equal(t, b.ServerURL, again.ServerURL)
	require.Equal(t, b.CA, again.CA)
	require.Empty(t, b.Missing())
	after, err := b.kube.CoreV1().Pods("default").Get(t.Context(), "kept", metav1.GetOptions{})
	require.NoError(t, err)
	require.Equal(t, before.UID, after.UID)
	require.Zero(t, after.Status.ContainerStatuses[0].RestartCount)

	b.setImage(t, "kept", "app:2") // The new kwok has taken over the old one's nodes.
	b.await(t, "kept", "restarted", func(p *corev1.Pod) bool { return ready(p) && p.Status.ContainerStatuses[0].RestartCount == 1 })
	require.NoError(t, again.AddNodes(t.Context(), 2))
	nodes, err := again.nodes(t.Context())
	require.NoError(t, err)
	require.Len(t, nodes, 5)
}

func TestDownLeavesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, Config{Nodes: "kwok:1"})
	_, err := b.Start(Command{Name: "manager", Args: []string{"sleep", "300"}})
	require.NoError(t, err)
	processes, err := b.Processes()
	require.NoError(t, err)
	require.Len(t, processes, 6)

	require.NoError(t, b.Down(t.Context()))
	for _, p := range processes {
		require.False(t, p.Alive(), p.Name)
	}
	require.NoDirExists(t, b.Dir)
	require.ErrorIs(t, b.Down(context.WithoutCancel(t.Context())), ErrNotFound)
}

func TestAComponentThatDiesIsNamedWithItsLog(t *testing.T) {
	t.Parallel()
	cfg := Config{Name: "broken", StateRoot: t.TempDir(), ControlPlaneOnly: true, APIServerArgs: []string{"--no-such-flag"}, Tied: true}
	t.Cleanup(func() { _ = down(context.WithoutCancel(t.Context()), filepath.Join(cfg.StateRoot, cfg.Name)) })
	_, err := Up(t.Context(), cfg)
	require.ErrorContains(t, err, "kube-apiserver ended")
	require.ErrorContains(t, err, "unknown flag: --no-such-flag")
}
