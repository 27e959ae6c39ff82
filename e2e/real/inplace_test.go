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
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

func TestImageOfOneOfTwoContainersIsUpdatedInPlaceAndTheServiceGoesOn(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	shop := set("shop", 3, app("app", port), app("side", 8081))
	// The pod is removed from the Service before it is changed, so that no request reaches a terminating container.
	shop.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{GracePeriodSeconds: 3}
	s.create(env.East, shop)
	s.create(env.East, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "shop"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeNodePort, Selector: map[string]string{"app": "shop"},
			Ports: []corev1.ServicePort{{Port: 80, TargetPort: intstr.FromInt32(port)}},
		},
	})
	s.awaitRollout(env.East, "shop", 3, 3)
	url := s.nodePort(env.East, "shop") + "/version"
	s.until(func(ctx context.Context) string {
		if _, err := fetch(ctx, url); err != nil {
			return err.Error()
		}
		return s.missingEndpoints(ctx, "shop", 3)
	})
	before := s.pods(env.East, "shop")

	requests := s.repeat(50*time.Millisecond, func(ctx context.Context) error {
		_, err := fetch(ctx, url)
		return err
	})
	endpoints := s.repeat(50*time.Millisecond, func(ctx context.Context) error {
		if missing := s.missingEndpoints(ctx, "shop", 1); missing != "" {
			return errors.New(missing)
		}
		return nil
	})
	change(s, env.East, shop, func(c *appsv1beta1.CloneSet) { image(&c.Spec.Template, imageNew) })
	s.awaitRollout(env.East, "shop", 3, 3)

	times, faults := endpoints.end()
	require.Empty(t, faults, "checks that found no endpoint of the Service, of %d", times)
	times, faults = requests.end()
	require.Empty(t, faults, "requests that failed, of %d", times)
	t.Logf("%d requests, none failed", times)
	after := s.pods(env.East, "shop")
	require.Len(t, after, 3)
	for name, old := range before {
		current := after[name]
		require.Equal(t, old.UID, current.UID)
		require.Equal(t, old.Spec.NodeName, current.Spec.NodeName)
		require.Equal(t, old.Status.PodIP, current.Status.PodIP)
		require.Equal(t, int32(1), container(&current, "app").RestartCount)
		require.Contains(t, container(&current, "app").Image, imageNew)
		require.NotContains(t, current.Annotations, keys.RuntimeContainersMeta, "the node daemon is not involved")
		require.Equal(t, container(&old, "side"), container(&current, "side"), "the other container is untouched: start time, id, restarts")
		version, err := fetch(t.Context(), fmt.Sprintf("http://%s:%d/version", current.Status.PodIP, port))
		require.NoError(t, err)
		require.Equal(t, "2.0", version)
	}
}

// nodePort returns the node port of a Service.
func (s *scene) nodePort(c *fleet.Cluster, service string) string {
	s.Helper()
	svc := &corev1.Service{}
	require.NoError(s, c.Client.Get(s.ctx, s.key(service), svc))
	node := &corev1.Node{}
	require.NoError(s, c.Client.Get(s.ctx, client.ObjectKey{Name: c.Lab.RealNodes()[0]}, node))
	return fmt.Sprintf("http://%s:%d", node.Status.Addresses[0].Address, svc.Spec.Ports[0].NodePort)
}

// missingEndpoints returns how many ready endpoints a Service in east has, if there are fewer than wanted.
func (s *scene) missingEndpoints(ctx context.Context, service string, want int) string {
	list := &discoveryv1.EndpointSliceList{}
	if err := env.East.Client.List(ctx, list, client.InNamespace(s.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return err.Error()
	}
	n := 0
	for i := range list.Items {
		for _, e := range list.Items[i].Endpoints {
			if e.Conditions.Ready != nil && *e.Conditions.Ready {
				n++
			}
		}
	}
	if n < want {
		return fmt.Sprintf("%d endpoints are ready, not %d", n, want)
	}
	return ""
}

func TestResourcesAreResizedInPlaceInTheCgroup(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	limits := func(cpu, memory string) corev1.ResourceRequirements {
		l := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
		return corev1.ResourceRequirements{Limits: l, Requests: l}
	}
	one := app("app", port)
	one.Resources = limits("20m", "64Mi")
	shop := set("shop", 2, one)
	s.create(env.West, shop)
	s.awaitRollout(env.West, "shop", 2, 2)
	before := s.pods(env.West, "shop")
	for _, p := range before {
		require.Equal(t, int64(64<<20), s.memoryLimit(env.West, &p))
	}

	change(s, env.West, shop, func(c *appsv1beta1.CloneSet) {
		c.Spec.Template.Spec.Containers[0].Resources = limits("30m", "96Mi")
	})
	s.awaitRollout(env.West, "shop", 2, 2)
	after := s.pods(env.West, "shop")
	for name, old := range before {
		current := after[name]
		require.Equal(t, old.UID, current.UID)
		require.Equal(t, container(&old, "app").ContainerID, container(&current, "app").ContainerID, "nothing was restarted")
		require.Equal(t, int64(96<<20), s.memoryLimit(env.West, &current))
	}
}

// memoryLimit reads the kernel's memory limit for the first container of a pod.
func (s *scene) memoryLimit(c *fleet.Cluster, p *corev1.Pod) int64 {
	s.Helper()
	id := strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "containerd://")
	const script = `dir=$(find /sys/fs/cgroup -type d -name "*$0*" | head -n 1); ` +
		`for at in "$(echo "$dir" | sed -E 's,/sys/fs/cgroup/[^/]+,/sys/fs/cgroup/memory,')/memory.limit_in_bytes" "$dir/memory.max"; do ` +
		`if [ -e "$at" ]; then cat "$at"; exit; fi; done; echo none in "$dir"`
	out, err := c.Lab.NodeExec(s.ctx, p.Spec.NodeName, nil, "sh", "-c", script, id)
	require.NoError(s, err)
	var limit int64
	_, err = fmt.Sscan(string(out), &limit)
	require.NoError(s, err, "%s", out)
	return limit
}

func TestBadImageStopsTheRolloutAndReportsWhy(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ud := united("web", shares{"east": 3, "west": 2})
	ud.Spec.Template.CloneSetTemplate.Spec.ProgressDeadlineSeconds = new(int32(10))
	s.create(env.Hub, ud)
	s.awaitSettled("web", shares{"east": 3, "west": 2}, nil)
	before := s.census("web", false)

	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { udImage(ud, imageMissing) })
	s.until(func(context.Context) string { // One pod in each member waits for its image, and the rollout waits for that pod.
		for _, m := range env.Members() {
			if waits := s.waitingReason(m, "web"); !slices.Contains([]string{"ErrImagePull", "ImagePullBackOff"}, waits) {
				return fmt.Sprintf("no pod in %s waits for its image (%q)", m.Name, waits)
			}
		}
		return ""
	})
	for _, m := range env.Members() {
		s.until(func(ctx context.Context) string { return s.missingStall(ctx, m) })
	}
	for _, m := range env.Members() {
		n := 0
		for _, p := range s.pods(m, "web") {
			if ready(&p) {
				n++
			}
		}
		require.Equal(t, int(map[string]int32{"east": 3, "west": 2}[m.Name])-1, n, "no more than one pod of %s is out of service", m.Name)
	}

	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { udImage(ud, imageNew) })
	s.awaitSettled("web", shares{"east": 3, "west": 2}, nil)
	require.Equal(t, before, s.census("web", false), "the pods are the same")
	require.Equal(t, map[string]int{"2.0": 5}, s.versions("web"))
}

// missingStall returns what is missing for the CloneSets of a member to report that their update is stalled, and which image causes it.
func (s *scene) missingStall(ctx context.Context, c *fleet.Cluster) string {
	list := &appsv1beta1.CloneSetList{}
	if err := c.Client.List(ctx, list, client.InNamespace(s.namespace)); err != nil {
		return err.Error()
	}
	for i := range list.Items {
		for _, cond := range list.Items[i].Status.Conditions {
			if cond.Type == appsv1beta1.CloneSetFailedUpdate && strings.Contains(cond.Message, "Image") {
				s.Logf("%s: %s: %s", c.Name, cond.Reason, cond.Message)
				return ""
			}
		}
	}
	return "no CloneSet of " + c.Name + " reports the bad image"
}

// waitingReason returns the reason why a container of an app's pods waits, if one does.
func (s *scene) waitingReason(c *fleet.Cluster, name string) string {
	s.Helper()
	for _, p := range s.pods(c, name) {
		for _, status := range p.Status.ContainerStatuses {
			if status.State.Waiting != nil {
				return status.State.Waiting.Reason
			}
		}
	}
	return ""
}

func TestEnvFromAnAnnotationFollowsItInTheSamePod(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	shop := set("shop", 2, app("app", port), app("side", 8081))
	colored(&shop.Spec.Template, "red")
	s.create(env.East, shop)
	s.awaitRollout(env.East, "shop", 2, 2)
	before := s.pods(env.East, "shop")
	s.requireColor(before, "red")

	change(s, env.East, shop, func(c *appsv1beta1.CloneSet) { colored(&c.Spec.Template, "blue") })
	s.awaitRollout(env.East, "shop", 2, 2)
	after := s.pods(env.East, "shop")
	s.requireColor(after, "blue")
	for name, old := range before {
		current := after[name]
		require.Equal(t, old.UID, current.UID)
		require.Equal(t, int32(1), container(&current, "app").RestartCount)
		require.Equal(t, container(&old, "side"), container(&current, "side"), "a container that reads no metadata is untouched")
	}
}

func TestContainersAreRestartedOnRequestInTheSamePods(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	shop := set("shop", 3, app("app", port), app("side", 8081))
	s.create(env.East, shop)
	s.awaitRollout(env.East, "shop", 3, 3)
	before := s.pods(env.East, "shop")

	// The set has maxUnavailable 1.
	ready := s.repeat(50*time.Millisecond, func(context.Context) error {
		n := 0
		for _, p := range s.pods(env.East, "shop") {
			if ready(&p) {
				n++
			}
		}
		if n < 2 {
			return fmt.Errorf("%d pods are ready", n)
		}
		return nil
	})
	change(s, env.East, shop, func(c *appsv1beta1.CloneSet) {
		c.Spec.Template.Annotations = map[string]string{keys.RestartContainers: "2026-01-02T03:04:05Z"}
	})
	s.awaitRollout(env.East, "shop", 3, 3)
	times, faults := ready.end()
	require.Empty(t, faults, "checks that found fewer than two ready pods, of %d", times)
	after := s.pods(env.East, "shop")
	require.Len(t, after, 3)
	for name, old := range before {
		current := after[name]
		require.Equal(t, old.UID, current.UID)
		require.Equal(t, old.Status.PodIP, current.Status.PodIP)
		for _, c := range []string{"app", "side"} {
			require.EqualValues(t, 1, container(&current, c).RestartCount, c)
			require.NotEqual(t, container(&old, c).ContainerID, container(&current, c).ContainerID)
		}
		require.NotContains(t, current.Annotations, keys.RuntimeContainersMeta, "no report of the node daemon is needed")
	}
}

// requireColor checks the value with which the pods' containers were started.
func (s *scene) requireColor(pods map[string]corev1.Pod, want string) {
	s.Helper()
	for _, p := range pods {
		env, err := fetch(s.ctx, fmt.Sprintf("http://%s:%d/env", p.Status.PodIP, port))
		require.NoError(s, err)
		require.Contains(s, strings.Fields(env), "COLOR="+want)
	}
}
