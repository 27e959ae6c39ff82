//go:build e2e

package suite

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
)

// awaitRemembered waits until that many pods are remembered in east.
func (s *scene) awaitRemembered(name string, pods int) *appsv1beta1.PersistentPodState {
	s.Helper()
	return awaitObject(s, &appsv1beta1.PersistentPodState{}, name, func(pps *appsv1beta1.PersistentPodState) bool {
		return len(pps.Status.PodStates) == pods
	})
}

// replacePod deletes a pod in east and waits until the next one with the same name is scheduled.
func (s *scene) replacePod(name string) *corev1.Pod {
	s.Helper()
	before := &corev1.Pod{}
	require.NoError(s, env.East.Client.Get(s.ctx, s.key(name), before))
	require.NoError(s, env.East.Client.Delete(s.ctx, before, client.Preconditions{UID: &before.UID}, client.GracePeriodSeconds(0)))
	return awaitObject(s, &corev1.Pod{}, name, func(after *corev1.Pod) bool { return after.UID != before.UID && after.Spec.NodeName != "" })
}

func TestPersistentPodStateBringsPodsBack(t *testing.T) {
	s := parallel(t)
	s.apply(env.East, "statefulset-generated-places.yaml")
	set := s.statefulSet("db", 3, 3)
	pps := s.awaitRemembered("db", 3)
	require.True(t, metav1.IsControlledBy(pps, set), "it was generated")
	before := pps.Status.PodStates["db-1"]
	after := s.replacePod("db-1")
	require.Equal(t, "db", after.Annotations[keys.InjectedPersistentPodState])
	require.Equal(t, before.NodeTopologyLabels[corev1.LabelTopologyZone], after.Spec.NodeSelector[corev1.LabelTopologyZone])
	node := &corev1.Node{}
	require.NoError(t, env.East.Client.Get(t.Context(), client.ObjectKey{Name: after.Spec.NodeName}, node))
	require.Equal(t, before.NodeTopologyLabels[corev1.LabelTopologyZone], node.Labels[corev1.LabelTopologyZone])
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, s.key("db"), pps); client.IgnoreNotFound(err) != nil || err == nil {
			return "the generated object is still there"
		}
		return ""
	})
}

// bare returns a pod without a workload.
func bare(namespace, name string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": "bare"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "registry.example/app:1.0"}}},
	}
}

// createNamespace creates one more namespace, whose name starts with the scene's. It is removed at the end.
func (s *scene) createNamespace(name string, labels map[string]string) string {
	s.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace[:min(len(s.namespace), 50)] + "-" + name, Labels: labels}}
	require.NoError(s, env.East.Client.Create(s.ctx, ns))
	s.Cleanup(func() {
		require.NoError(s, client.IgnoreNotFound(env.East.Client.Delete(context.WithoutCancel(s.ctx), ns)))
	})
	return ns.Name
}

// webhookEntries returns the entries for pods in both of east's configurations: those for creations, and those for deletions and changes.
func (s *scene) webhookEntries(ctx context.Context) (creations []admissionv1.MutatingWebhook, guards []admissionv1.ValidatingWebhook) {
	s.Helper()
	mutating, validating := &admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}
	for _, c := range []client.Object{mutating, validating} {
		require.NoError(s, env.East.Client.Get(ctx, client.ObjectKey{Name: "flotilla-member"}, c))
	}
	for _, w := range mutating.Webhooks {
		if w.Name == "mpod.kb.io" || w.Name == "mpod-ignore.kb.io" {
			creations = append(creations, w)
		}
	}
	for _, w := range validating.Webhooks {
		if w.Name == "vpod.kb.io" || w.Name == "vpod-ignore.kb.io" {
			guards = append(guards, w)
		}
	}
	return creations, guards
}

// awaitNoRequests waits until no requests about pods are sent to the manager.
func (s *scene) awaitNoRequests() {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if creations, guards := s.webhookEntries(ctx); len(creations)+len(guards) > 0 {
			return fmt.Sprintf("requests about pods are still sent: %+v %+v", creations, guards)
		}
		return ""
	})
}

// run creates a pod in east and waits until it is ready.
func (s *scene) run(namespace, name string) *corev1.Pod {
	s.Helper()
	p := bare(namespace, name)
	require.NoError(s, env.East.Client.Create(s.ctx, p))
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, client.ObjectKeyFromObject(p), p); err != nil {
			return err.Error()
		}
		if !ready(p) {
			return fmt.Sprintf("pod %s is not ready: %+v", p.Name, p.Status)
		}
		return ""
	})
	return p
}

// evict evicts a pod in east, and returns the response. A client retries by itself after a 429, up to ten times.
func (s *scene) evict(p *corev1.Pod) error {
	s.Helper()
	kube, err := kubernetes.NewForConfig(env.East.Config)
	require.NoError(s, err)
	return kube.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").MaxRetries(0).
		Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}).Do(s.ctx).Error()
}

// exercisePods creates pods in a namespace, and removes them by an eviction and a deletion.
func (s *scene) exercisePods(namespace string) {
	s.Helper()
	require.NoError(s, s.evict(s.run(namespace, "evicted")))
	require.NoError(s, env.East.Client.Delete(s.ctx, s.run(namespace, "deleted")))
	s.awaitNoPods(namespace, env.East)
}

// TestPersistentPodStateAlonePodsWaitForTheManager: while no manager answers, pods in namespaces without an object about pods are created,
// evicted and deleted as if nothing were installed. In other namespaces, requests that a PersistentPodState or a PodUnavailableBudget would
// judge are rejected, so that no pods are created elsewhere and not too many are lost.
func TestPersistentPodStateAlonePodsWaitForTheManager(t *testing.T) {
	s := alone(t)
	other, guarded := s.createNamespace("other", nil), s.createNamespace("guarded", nil)
	s.until(func(ctx context.Context) string { // No pod is created without it.
		for _, namespace := range []string{s.namespace, other, guarded} {
			if err := env.East.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "default"}, &corev1.ServiceAccount{}); err != nil {
				return err.Error()
			}
		}
		return ""
	})
	create := func(namespace, name string) error {
		return env.East.Client.Create(t.Context(), bare(namespace, name), client.DryRunAll)
	}
	s.awaitNoRequests()
	require.NoError(t, env.East.Manager.Stop(t.Context()))
	s.exercisePods(s.namespace)
	require.NoError(t, env.East.Manager.Start(t.Context()))

	s.apply(env.East, "statefulset-generated-places.yaml")
	s.statefulSet("db", 3, 3)
	pps := s.awaitRemembered("db", 3)
	kept := s.run(guarded, "kept")
	budget := &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: guarded, Name: "bare"},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: kept.Labels}, MaxUnavailable: new(intstr.FromInt32(0)),
		},
	}
	require.NoError(t, env.East.Client.Create(t.Context(), budget))
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Delete(ctx, kept, client.DryRunAll); !apierrors.IsForbidden(err) {
			return fmt.Sprintf("the deletion is not rejected (%v)", err)
		}
		return ""
	})
	err := s.evict(kept)
	require.True(t, apierrors.IsTooManyRequests(err) && apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause), "%v", err)
	creations, guards := s.webhookEntries(t.Context())
	require.Len(t, creations, 2)
	require.Equal(t, "mpod.kb.io", creations[0].Name)
	require.Equal(t, []string{s.namespace}, creations[0].NamespaceSelector.MatchExpressions[0].Values)
	require.Len(t, guards, 1)
	require.Equal(t, "vpod.kb.io", guards[0].Name)
	require.Equal(t, []string{guarded}, guards[0].NamespaceSelector.MatchExpressions[0].Values)
	for name, end := range map[string]func(context.Context) error{"stopped": env.East.Manager.Stop, "killed": env.East.Manager.Kill} {
		require.NoError(t, end(t.Context()), name)
		s.exercisePods(other)
		require.ErrorContains(t, create(s.namespace, "x"), "mpod.kb.io", "the manager is %s", name)
		require.NoError(t, create(guarded, "x"), "the pod is created without the budget's annotations, which it gets later")
		require.ErrorContains(t, s.evict(kept), "vpod.kb.io", "the manager is %s", name)
		require.ErrorContains(t, env.East.Client.Delete(t.Context(), kept), "vpod.kb.io", "the manager is %s", name)
		mark := client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"labels":{"manager":%q}}}`, name))
		require.NoError(t, env.East.Client.Patch(t.Context(), kept.DeepCopy(), mark), "requests that change only labels are not sent to the webhook")
		require.NoError(t, env.East.Manager.Start(t.Context()))
		require.NoError(t, create(s.namespace, "x"))
		require.True(t, apierrors.IsForbidden(env.East.Client.Delete(t.Context(), kept)), "the budget still allows no disruption")
		creationsNow, guardsNow := s.webhookEntries(t.Context())
		require.Equal(t, creations, creationsNow, "a restart changes nothing")
		require.Equal(t, guards, guardsNow, "a restart changes nothing")
		current := s.replacePod("db-2")
		require.Equal(t, pps.Status.PodStates["db-2"].NodeTopologyLabels[corev1.LabelTopologyZone], current.Spec.NodeSelector[corev1.LabelTopologyZone])
	}

	set := &appsv1beta1.StatefulSet{}
	require.NoError(t, env.East.Client.Get(t.Context(), s.key("db"), set))
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
	require.NoError(t, env.East.Client.Delete(t.Context(), budget))
	s.awaitNoRequests()
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Delete(ctx, kept, client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
	require.NoError(t, env.East.Manager.Stop(t.Context()))
	s.until(func(ctx context.Context) string { // An apiserver applies its configuration a moment later.
		if err := errors.Join(client.IgnoreNotFound(env.East.Client.Delete(ctx, kept)), create(s.namespace, "after")); err != nil {
			return err.Error()
		}
		return ""
	})
	require.NoError(t, env.East.Manager.Start(t.Context()))
}
