//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// remembered waits until so many pods are remembered in east.
func (s *scene) remembered(name string, pods int) *appsv1beta1.PersistentPodState {
	s.Helper()
	return comes(s, &appsv1beta1.PersistentPodState{}, name, func(pps *appsv1beta1.PersistentPodState) bool {
		return len(pps.Status.PodStates) == pods
	})
}

// next deletes a pod in east and waits for the next one of its name to be scheduled.
func (s *scene) next(name string) *corev1.Pod {
	s.Helper()
	was := &corev1.Pod{}
	require.NoError(s, env.East.Client.Get(s.ctx, s.key(name), was))
	require.NoError(s, env.East.Client.Delete(s.ctx, was, client.Preconditions{UID: &was.UID}, client.GracePeriodSeconds(0)))
	return comes(s, &corev1.Pod{}, name, func(is *corev1.Pod) bool { return is.UID != was.UID && is.Spec.NodeName != "" })
}

func TestPersistentPodStateBringsPodsBack(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "statefulset-generated-places.yaml")
	set := s.statefulSet("db", 3, 3)
	pps := s.remembered("db", 3)
	require.True(t, metav1.IsControlledBy(pps, set), "it was generated")
	was := pps.Status.PodStates["db-1"]
	is := s.next("db-1")
	require.Equal(t, "db", is.Annotations[keys.InjectedPersistentPodState])
	require.Equal(t, was.NodeTopologyLabels[corev1.LabelTopologyZone], is.Spec.NodeSelector[corev1.LabelTopologyZone])
	node := &corev1.Node{}
	require.NoError(t, env.East.Client.Get(t.Context(), client.ObjectKey{Name: is.Spec.NodeName}, node))
	require.Equal(t, was.NodeTopologyLabels[corev1.LabelTopologyZone], node.Labels[corev1.LabelTopologyZone])
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key("db"), pps); client.IgnoreNotFound(err) != nil || err == nil {
			return "the generated object is still there"
		}
		return ""
	})
}

// bare is a pod that no workload makes.
func bare(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/app:1.0"}}},
	}
}

// entries are the entries for pods in east's configuration.
func (s *scene) entries(ctx context.Context) (out []admissionv1.MutatingWebhook) {
	s.Helper()
	c := &admissionv1.MutatingWebhookConfiguration{}
	require.NoError(s, env.East.Client.Get(ctx, client.ObjectKey{Name: "flotilla-member"}, c))
	for _, w := range c.Webhooks {
		if w.Name == "mpod.kb.io" || w.Name == "mpod-ignore.kb.io" {
			out = append(out, w)
		}
	}
	return out
}

// TestPersistentPodStateAlonePodsWaitForTheManager: while no manager answers, pods of namespaces without an object that changes pods are
// created as if nothing were installed, and those of others are refused rather than created elsewhere.
func TestPersistentPodStateAlonePodsWaitForTheManager(t *testing.T) {
	s := alone(t)
	other := s.namespace[:min(len(s.namespace), 50)] + "-other"
	require.NoError(t, env.Namespace(t.Context(), other, nil))
	t.Cleanup(func() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: other}}
		for _, c := range env.Clusters() {
			require.NoError(t, client.IgnoreNotFound(c.Client.Delete(context.WithoutCancel(t.Context()), ns)))
		}
	})
	s.until(func(ctx context.Context) string { // Without it no pod is created.
		for _, namespace := range []string{s.namespace, other} {
			if err := env.East.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}); err != nil {
				return err.Error()
			}
		}
		return ""
	})
	create := func(namespace, name string) error {
		return env.East.Client.Create(t.Context(), bare(namespace, name), client.DryRunAll)
	}
	require.Empty(t, s.entries(t.Context()), "no object needs it")
	require.NoError(t, env.East.Manager.Stop(t.Context()))
	require.NoError(t, create(s.namespace, "before"))
	require.NoError(t, env.East.Manager.Start(t.Context()))

	s.apply(env.East, "statefulset-generated-places.yaml")
	s.statefulSet("db", 3, 3)
	pps := s.remembered("db", 3)
	entries := s.entries(t.Context())
	require.Len(t, entries, 1)
	require.Equal(t, []string{s.namespace}, entries[0].NamespaceSelector.MatchExpressions[0].Values)
	for name, end := range map[string]func(context.Context) error{"stopped": env.East.Manager.Stop, "killed": env.East.Manager.Kill} {
		require.NoError(t, end(t.Context()), name)
		require.NoError(t, create(other, "x"), "the manager is %s, and no object there needs it", name)
		require.ErrorContains(t, create(s.namespace, "x"), "mpod.kb.io", "the manager is %s", name)
		require.NoError(t, env.East.Manager.Start(t.Context()))
		require.NoError(t, create(s.namespace, "x"))
		require.Equal(t, entries, s.entries(t.Context()), "a restart changes nothing")
		is := s.next("db-2")
		require.Equal(t, pps.Status.PodStates["db-2"].NodeTopologyLabels[corev1.LabelTopologyZone], is.Spec.NodeSelector[corev1.LabelTopologyZone])
	}

	set := &appsv1beta1.StatefulSet{}
	require.NoError(t, env.East.Client.Get(t.Context(), s.key("db"), set))
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
	s.until(func(ctx context.Context) string {
		if slices.ContainsFunc(s.entries(ctx), func(w admissionv1.MutatingWebhook) bool {
			return slices.Contains(w.NamespaceSelector.MatchExpressions[0].Values, s.namespace)
		}) {
			return fmt.Sprintf("pods of %s are still sent", s.namespace)
		}
		return ""
	})
	require.NoError(t, env.East.Manager.Stop(t.Context()))
	require.NoError(t, create(s.namespace, "after"))
	require.NoError(t, env.East.Manager.Start(t.Context()))
}
