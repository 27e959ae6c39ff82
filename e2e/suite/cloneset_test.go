//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit"
)

// applyNaming applies an example CloneSet to east, with names in podsToDelete.
func (s *scene) applyNaming(example string, names ...string) {
	s.Helper()
	_, err := env.East.ApplyFile(s.ctx, env.Example(example), func(o *unstructured.Unstructured) {
		o.SetNamespace(s.namespace)
		require.NoError(s, unstructured.SetNestedStringSlice(o.Object, names, "spec", "scaleStrategy", "podsToDelete"))
	})
	require.NoError(s, err)
}

// podsByName returns pods by name.
func (s *scene) podsByName(app string) map[string]corev1.Pod {
	s.Helper()
	out := map[string]corev1.Pod{}
	for _, p := range s.pods(env.East, app) {
		out[p.Name] = p
	}
	return out
}

// requireSamePods checks that pods are the same as before, except for those that had to be deleted.
func (s *scene) requireSamePods(before, after map[string]corev1.Pod, gone ...string) {
	s.Helper()
	for name, p := range before {
		if slices.Contains(gone, name) {
			require.NotContains(s, after, name)
			continue
		}
		require.Equal(s, p.UID, after[name].UID, name)
	}
}

// anyTwo returns two names.
func anyTwo(pods map[string]corev1.Pod) []string {
	var names []string
	for name := range pods {
		names = append(names, name)
	}
	slices.Sort(names)
	return names[:2]
}

// watchUpdating watches the pods of an app in these clusters. The returned function stops watching, and returns how many pods at most an update
// kept out of service at a time, in all of them together: from when it set their readiness gate to False until they were ready again. Pods
// that are unready for another reason don't count.
func (s *scene) watchUpdating(app string, clusters ...*fleet.Cluster) func() int {
	s.Helper()
	var mu sync.Mutex
	out, most := map[string]bool{}, 0
	var ends []func()
	for _, c := range clusters {
		end, err := fleet.Follow(s.ctx, c, &corev1.PodList{}, func(_ watch.EventType, p *corev1.Pod) {
			mu.Lock()
			defer mu.Unlock()
			switch name := c.Name + "/" + p.Name; {
			case gateClosed(p):
				out[name] = true
			case ready(p):
				delete(out, name)
			}
			most = max(most, len(out))
		}, inScene(s, app)...)
		require.NoError(s, err)
		ends = append(ends, end)
	}
	return func() int {
		for _, end := range ends {
			end()
		}
		return most
	}
}

func gateClosed(p *corev1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == keys.InPlaceUpdateReady && c.Status == corev1.ConditionFalse
	})
}

// TestCloneSetDemo follows the examples cloneset-demo-*.yaml, like a reader of the docs.
func TestCloneSetDemo(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "cloneset-demo-1-create.yaml")
	s.cloneSet("demo", 5)
	pods := s.podsByName("demo")
	require.Len(t, pods, 5)

	s.apply(env.East, "cloneset-demo-2-scale.yaml")
	s.cloneSet("demo", 9)
	scaled := s.podsByName("demo")
	s.requireSamePods(pods, scaled)
	var made []time.Time
	for name, p := range scaled {
		if _, existed := pods[name]; !existed {
			made = append(made, p.CreationTimestamp.Time)
		}
	}
	slices.SortFunc(made, time.Time.Compare)
	require.GreaterOrEqual(t, made[2].Sub(made[0]), 5*time.Second, "the third pod waits until one of the first two is available")

	picked := anyTwo(scaled)
	s.applyNaming("cloneset-demo-3-replace-pods.yaml", picked...)
	s.awaitNoPodsToDelete("demo", 9)
	replaced := s.podsByName("demo")
	s.requireSamePods(scaled, replaced, picked...)

	picked = anyTwo(replaced)
	s.applyNaming("cloneset-demo-4-remove-pods.yaml", picked...)
	s.awaitNoPodsToDelete("demo", 7)
	fewer := s.podsByName("demo")
	s.requireSamePods(replaced, fewer, picked...)
	require.Len(t, fewer, 7)

	away := s.watchUpdating("demo", env.East)
	s.apply(env.East, "cloneset-demo-5-image.yaml")
	set := s.cloneSet("demo", 7)
	require.Contains(t, []int{1, 2}, away(), "at most two at a time")
	s.requireSamePods(fewer, s.podsByName("demo"))
	for name, p := range s.podsByName("demo") {
		require.Equal(t, "nginx:mainline-alpine", p.Spec.Containers[0].Image, name)
		require.EqualValues(t, 1, restarts(p), name)
	}

	former := set.Status.UpdateRevision
	s.apply(env.East, "cloneset-demo-6-canary.yaml")
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key("demo"), set); err != nil {
			return err.Error()
		}
		st := set.Status
		if st.ObservedGeneration != set.Generation || st.UpdatedAvailableReplicas != 2 || st.AvailableReplicas != 7 {
			return fmt.Sprintf("generation %d; status %+v", set.Generation, st)
		}
		return ""
	})
	s.awaitQuiet()
	require.EqualValues(t, 2, set.Status.ExpectedUpdatedReplicas)
	require.Equal(t, former, set.Status.CurrentRevision)
	images := map[string]int{}
	for _, p := range s.podsByName("demo") {
		images[p.Spec.Containers[0].Image]++
	}
	require.Equal(t, map[string]int{"nginx:mainline-alpine": 5, "nginx:1-alpine": 2}, images)
	s.requireSamePods(fewer, s.podsByName("demo"))
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
}

// TestCloneSetIsScaledByItsSubresource scales as an autoscaler does, in the version in which the object was written and in the other one.
func TestCloneSetIsScaledByItsSubresource(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "cloneset-v1alpha1.yaml")
	set := s.cloneSet("shop-v1alpha1", 3)
	for _, c := range []struct {
		by   client.Object
		want int32
	}{
		{&appsv1alpha1.CloneSet{}, 5},
		{&appsv1beta1.CloneSet{}, 4},
	} {
		c.by.SetNamespace(set.Namespace)
		c.by.SetName(set.Name)
		subresource := env.East.Client.SubResource("scale")
		require.NoError(t, retry.RetryOnConflict(retry.DefaultRetry, func() error {
			scale := &autoscalingv1.Scale{}
			if err := subresource.Get(t.Context(), c.by, scale); err != nil {
				return err
			}
			require.Equal(t, "app=shop-v1alpha1", scale.Status.Selector)
			require.Equal(t, *set.Spec.Replicas, scale.Spec.Replicas)
			require.Equal(t, *set.Spec.Replicas, scale.Status.Replicas)
			scale.Spec.Replicas = c.want
			return subresource.Update(t.Context(), c.by, client.WithSubResourceBody(scale))
		}))
		before := set.Spec
		set = s.cloneSet(set.Name, c.want)
		before.Replicas = &c.want
		require.Equal(t, before, set.Spec, "only replicas has changed")
	}
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
}

// awaitNoPodsToDelete waits until a CloneSet in east is complete and podsToDelete is empty.
func (s *scene) awaitNoPodsToDelete(name string, replicas int32) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		set := &appsv1beta1.CloneSet{}
		if err := env.East.Client.Get(ctx, s.key(name), set); err != nil {
			return err.Error()
		}
		if left := set.Spec.ScaleStrategy.PodsToDelete; len(left) > 0 {
			return fmt.Sprintf("podsToDelete still names %v", left)
		}
		return ""
	})
	s.cloneSet(name, replicas)
}

func TestB29EnvFromAnAnnotationReachesPodsWithoutANodeDaemon(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "cloneset-demo-env.yaml")
	s.cloneSet("demo-env", 3)
	before := s.podsByName("demo-env")
	_, err := env.East.ApplyFile(t.Context(), env.Example("cloneset-demo-env.yaml"), func(o *unstructured.Unstructured) {
		o.SetNamespace(s.namespace)
		require.NoError(t, unstructured.SetNestedField(o.Object, "blue", "spec", "template", "metadata", "annotations", "app-config"))
	})
	require.NoError(t, err)
	set := s.cloneSet("demo-env", 3)
	for name, p := range s.podsByName("demo-env") {
		require.NotContains(t, before, name, "pods are recreated because no node daemon can restart their containers")
		require.Equal(t, "blue", p.Annotations["app-config"])
	}
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
}

func TestCloneSetFollowsItsOrderAndReportsThatItIsComplete(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "cloneset-order.yaml")
	set := s.cloneSet("ordered", 8)
	first := anyTwo(s.podsByName("ordered"))
	for _, name := range first {
		p := &corev1.Pod{}
		require.NoError(t, env.East.Client.Get(t.Context(), s.key(name), p))
		patch := client.MergeFrom(p.DeepCopy())
		p.Labels["tier"] = "test"
		require.NoError(t, env.East.Client.Patch(t.Context(), p, patch))
	}
	s.awaitQuiet() // The controller watches pods and sets separately: the labels must be set before the set changes.
	_, err := env.East.ApplyFile(t.Context(), env.Example("cloneset-order.yaml"), func(o *unstructured.Unstructured) {
		o.SetNamespace(s.namespace)
		require.NoError(t, unstructured.SetNestedField(o.Object, int64(6), "spec", "updateStrategy", "rollingUpdate", "partition"))
		containers, _, err := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
		require.NoError(t, err)
		containers[0].(map[string]any)["image"] = "registry.example/shop:2.0"
		require.NoError(t, unstructured.SetNestedSlice(o.Object, containers, "spec", "template", "spec", "containers"))
	})
	require.NoError(t, err)
	s.awaitProgressing("ordered", "ProgressPartitionAvailable")
	for name, p := range s.podsByName("ordered") {
		require.Equal(t, slices.Contains(first, name), p.Spec.Containers[0].Image == "registry.example/shop:2.0", name)
	}
	testkit.Change(t, env.East.Client, set, func(set *appsv1beta1.CloneSet) { set.Spec.UpdateStrategy.RollingUpdate.Partition = nil })
	s.cloneSet("ordered", 8)
	s.awaitProgressing("ordered", "CloneSetAvailable")
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
}

// awaitProgressing waits until the condition Progressing of a CloneSet in east is True with the given reason.
func (s *scene) awaitProgressing(name, reason string) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		set := &appsv1beta1.CloneSet{}
		if err := env.East.Client.Get(ctx, s.key(name), set); err != nil {
			return err.Error()
		}
		for _, c := range set.Status.Conditions {
			if c.Type == appsv1beta1.CloneSetProgressing && c.Status == corev1.ConditionTrue && c.Reason == reason {
				return ""
			}
		}
		return fmt.Sprintf("conditions %+v", set.Status.Conditions)
	})
}
