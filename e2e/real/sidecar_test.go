//go:build e2e

package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// imageEmpty does nothing until it is terminated.
const imageEmpty = "lab.example/pause:1"

// sidecar creates a SidecarSet with one container for the pods of the test's app web, and waits until new pods get it.
func (s *scene) sidecar(c *fleet.Cluster, one corev1.Container, edit func(*appsv1beta1.SidecarSet)) *appsv1beta1.SidecarSet {
	s.Helper()
	set := &appsv1beta1.SidecarSet{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: appsv1beta1.SidecarSetSpec{
			Selector:          &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
			Containers:        []appsv1beta1.SidecarContainer{{Container: one}},
		},
	}
	edit(set)
	require.NoError(s, c.Client.Create(s.ctx, set))
	s.Cleanup(func() { require.NoError(s, c.Client.Delete(context.WithoutCancel(s.ctx), set)) })
	s.until(func(ctx context.Context) string { // The caches of all replicas to which the apiserver may send a pod have it.
		for range 5 {
			p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{GenerateName: "web-", Namespace: s.namespace}}
			t := template("web", app("app", port))
			p.Labels, p.Spec = t.Labels, t.Spec
			if err := c.Client.Create(ctx, p, client.DryRunAll); err != nil {
				return err.Error()
			}
			if len(p.Spec.Containers) == 1 {
				return "a new pod would get no sidecar"
			}
		}
		return s.sidecars(ctx, c, set, 0)
	})
	return set
}

// sidecars returns what is missing until a SidecarSet has been acted on, and that many pods have its current sidecars and are ready.
func (s *scene) sidecars(ctx context.Context, c *fleet.Cluster, set *appsv1beta1.SidecarSet, pods int32) string {
	current := &appsv1beta1.SidecarSet{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(set), current); err != nil {
		return err.Error()
	}
	if st := current.Status; st.ObservedGeneration != current.Generation || st.MatchedPods != pods || st.UpdatedReadyPods != pods {
		return fmt.Sprintf("SidecarSet of generation %d: %+v", current.Generation, st)
	}
	return ""
}

// TestSidecarSetReplacesAProxyWithoutALostRequest replaces a proxy in a pod twice with HotUpgrade, so that each of its two containers takes
// over once.
func TestSidecarSetReplacesAProxyWithoutALostRequest(t *testing.T) {
	t.Parallel()
	s, c := newScene(t), env.East
	const proxied = port + 1
	proxy := app("proxy", proxied)
	proxy.Env = append(proxy.Env,
		corev1.EnvVar{Name: "TESTAPP_HANDOVER", Value: "/share/next"}, corev1.EnvVar{Name: "TESTAPP_STOP_DELAY", Value: "4s"})
	proxy.VolumeMounts = []corev1.VolumeMount{{Name: "share", MountPath: "/share"}}
	set := s.sidecar(c, proxy, func(set *appsv1beta1.SidecarSet) {
		set.Spec.Containers[0].UpgradeStrategy = appsv1beta1.SidecarContainerUpgradeStrategy{
			UpgradeType: appsv1beta1.SidecarContainerHotUpgrade, HotUpgradeEmptyImage: imageEmpty,
		}
		set.Spec.Volumes = []corev1.Volume{{Name: "share", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	})
	web := webs(1)
	web.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(5))
	s.create(c, web)
	s.until(func(ctx context.Context) string { return s.sidecars(ctx, c, set, 1) })
	before := s.onlyPod(c)
	url := fmt.Sprintf("http://%s:%d/version", before.Status.PodIP, proxied)
	require.Contains(t, container(&before, "proxy-1").Image, imageOld)
	require.Contains(t, container(&before, "proxy-2").Image, imageEmpty)
	answers := func() (string, error) { return fetch(t.Context(), url) }
	version, err := answers()
	require.NoError(t, err)
	require.Equal(t, "1.0", version)

	requests := s.repeat(10*time.Millisecond, func(ctx context.Context) error {
		_, err := fetch(ctx, url)
		return err
	})
	for i, step := range []struct{ image, version, works, idle string }{
		{image: imageNew, version: "2.0", works: "proxy-2", idle: "proxy-1"},
		{image: imageNewer, version: "3.0", works: "proxy-1", idle: "proxy-2"},
	} {
		s.setSidecar(c, set, step.image)
		s.until(func(ctx context.Context) string {
			p := s.onlyPod(c)
			if !strings.Contains(container(&p, step.works).Image, step.image) || !strings.Contains(container(&p, step.idle).Image, imageEmpty) || !ready(&p) {
				return brief(&p)
			}
			return s.sidecars(ctx, c, set, 1)
		})
		for range 20 {
			version, err := answers()
			require.NoError(t, err)
			require.Equal(t, step.version, version, "only the new one serves")
		}
		p := s.onlyPod(c)
		require.Equal(t, before.UID, p.UID)
		require.Equal(t, container(&before, "app"), container(&p, "app"), "the application is untouched: start time, id, restarts")
		require.EqualValues(t, i+1, container(&p, step.works).RestartCount)
		require.EqualValues(t, i+1, container(&p, step.idle).RestartCount)
	}
	times, faults := requests.end()
	require.Empty(t, faults, "requests that failed, of %d", times)
	require.Greater(t, times, 50)
	t.Logf("%d requests, none failed", times)
}

// webs returns the application that gets sidecars.
func webs(replicas int32) *appsv1beta1.CloneSet { return set("web", replicas, app("app", port)) }

// onlyPod returns the application's only pod.
func (s *scene) onlyPod(c *fleet.Cluster) corev1.Pod {
	s.Helper()
	all := s.pods(c, "web")
	require.Len(s, all, 1)
	for _, p := range all {
		return p
	}
	return corev1.Pod{}
}

// setSidecar gives the container of a SidecarSet, and its native sidecars, another image.
func (s *scene) setSidecar(c *fleet.Cluster, set *appsv1beta1.SidecarSet, image string) {
	s.Helper()
	change(s, c, set, func(set *appsv1beta1.SidecarSet) {
		set.Spec.Containers[0].Image = image
		for i := range set.Spec.InitContainers {
			set.Spec.InitContainers[i].Image = image
		}
	})
}

func TestSidecarSetUpdatesTwelvePodsWithinMaxUnavailable(t *testing.T) {
	t.Parallel()
	updated(newScene(t), 12, 4)
}

func TestSidecarSetUpdatesThirtyPodsWithinMaxUnavailable(t *testing.T) {
	lab.Full(t)
	t.Parallel()
	updated(newScene(t), 30, 3)
}

// updated updates an ordinary and a native sidecar in that many pods, and counts the pods that are out of service at any time: those that are
// not ready, and those that run another image than was written.
func updated(s *scene, pods, most int) {
	s.Helper()
	c := env.West
	side := app("side", port+1)
	side.ReadinessProbe.FailureThreshold = 20 // A probe that a busy machine answers late takes no pod out of service.
	native := app("native", port+2)
	native.RestartPolicy, native.ReadinessProbe = new(corev1.ContainerRestartPolicyAlways), nil
	set := s.sidecar(c, side, func(set *appsv1beta1.SidecarSet) {
		set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromInt32(int32(most)))
		set.Spec.InitContainers = []appsv1beta1.SidecarContainer{{Container: native}}
	})
	web := webs(int32(pods))
	web.Spec.Template.Spec.Containers[0].ReadinessProbe.FailureThreshold = 20
	s.create(c, web)
	s.until(func(ctx context.Context) string { return s.sidecars(ctx, c, set, int32(pods)) })
	before := s.pods(c, "web")
	require.Len(s, before, pods)

	serve, worst := map[types.UID]bool{}, 0
	var faults []error
	synced := make(chan struct{})
	end, err := fleet.Follow(s.ctx, c, &corev1.PodList{}, func(e watch.EventType, p *corev1.Pod) {
		i := slices.IndexFunc(p.Spec.Containers, func(c corev1.Container) bool { return c.Name == "side" })
		if e == watch.Deleted || p.DeletionTimestamp != nil || i < 0 {
			faults = append(faults, errors.New(brief(p)))
			return
		}
		full := len(serve) == pods
		serve[p.UID] = ready(p) && strings.Contains(container(p, "side").Image, p.Spec.Containers[i].Image)
		if len(serve) < pods {
			return
		}
		if !full {
			close(synced)
		}
		out := 0
		for _, serves := range serve {
			if !serves {
				out++
			}
		}
		worst = max(worst, out)
	}, client.InNamespace(s.namespace), client.MatchingLabels{"app": "web"})
	require.NoError(s, err)
	select {
	case <-synced:
	case <-s.ctx.Done():
		require.NoError(s, s.ctx.Err())
	}

	s.setSidecar(c, set, imageNew)
	s.until(func(ctx context.Context) string { return s.sidecars(ctx, c, set, int32(pods)) })
	end()
	require.Empty(s, faults)
	require.Equal(s, most, worst, "pods that were out of service at the worst moment")
	after := s.pods(c, "web")
	require.Len(s, after, pods)
	for name, old := range before {
		current := after[name]
		require.Equal(s, old.UID, current.UID)
		require.Equal(s, container(&old, "app"), container(&current, "app"), "the application is untouched: start time, id, restarts")
		for _, name := range []string{"side", "native"} {
			require.Contains(s, container(&current, name).Image, imageNew)
			require.EqualValues(s, 1, container(&current, name).RestartCount)
		}
	}
}

// TestPodUnavailableBudgetHoldsASidecarSetWhoseSidecarsAreSlowToStop updates the sidecar of five pods to an image that can't be pulled. The
// SidecarSet's own budget allows all at once. The old container serves for longer than a budget remembers its grants, so what counts is that
// its kubelet has not caught up.
func TestPodUnavailableBudgetHoldsASidecarSetWhoseSidecarsAreSlowToStop(t *testing.T) {
	lab.Full(t)
	t.Parallel()
	s, c := newScene(t), env.West
	const pods, stop = 5, 15 * time.Second
	side := app("side", port+1)
	side.Env = append(side.Env, corev1.EnvVar{Name: "TESTAPP_STOP_DELAY", Value: stop.String()})
	side.ReadinessProbe.FailureThreshold = 20 // As in updated.
	set := s.sidecar(c, side, func(set *appsv1beta1.SidecarSet) {
		set.Spec.UpdateStrategy.MaxUnavailable = new(intstr.FromString("100%"))
	})
	web := deployed("web", pods, app("app", port))
	web.Spec.Template.Spec.Containers[0].ReadinessProbe.FailureThreshold = 20
	web.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(2 * stop.Seconds()))
	s.create(c, web)
	s.until(func(ctx context.Context) string { return s.sidecars(ctx, c, set, pods) })
	s.protect(c, "web", policyv1beta1.PodUnavailableBudgetSpec{
		TargetRef: &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
	}, 1)

	fewest := s.watchFewest(c, "web", func(p *corev1.Pod, _ bool) bool { return ready(p) })
	mark := fleet.Mark()
	s.setSidecar(c, set, imageMissing)
	s.awaitBudget(c, "web", pods-1, 0)
	require.Never(t, func() bool { return fewest() < pods-1 }, 3*stop, time.Second, "fewer pods were ready than the budget requires")
	refused := 0
	writes, err := c.Lab.Writes(mark)
	require.NoError(t, err)
	for _, w := range writes {
		if w.Resource == "pods" && w.Namespace == s.namespace && w.Code >= 400 {
			refused++
		}
	}
	require.LessOrEqual(t, refused, pods, "requests that the budget's status rules out must not be sent")

	s.setSidecar(c, set, imageNew)
	s.until(func(ctx context.Context) string { return s.sidecars(ctx, c, set, pods) })
	require.Equal(t, pods-1, fewest(), "pods that were ready at the worst moment")
}
