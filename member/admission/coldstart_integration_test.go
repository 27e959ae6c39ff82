//go:build integration

package admission

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// silent returns webhooks with an address where nothing answers, as while no replica runs, for pods of one namespace.
func silent(namespace string, w admissionv1.MutatingWebhook) []admissionv1.MutatingWebhook {
	w.ClientConfig = admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/silent")}
	w.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{metadataName: namespace}}
	w.FailurePolicy, w.SideEffects = new(admissionv1.Fail), new(admissionv1.SideEffectClassNone)
	w.AdmissionReviewVersions = []string{"v1"}
	return []admissionv1.MutatingWebhook{w}
}

// TestIntegrationAttack26PreemptionNeedsNoReplica deletes pods while no replica answers.
func TestIntegrationAttack26PreemptionNeedsNoReplica(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t, testenv.Config{})
	namespace := env.Namespace(t)
	shape := guardedShape(podwebhook.Guards{active(allOperations(), nil)}, nil, "")
	config := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "guard-" + namespace}}
	setWebhooks(config, silent(namespace, admissionv1.MutatingWebhook{Name: "v.kb.io", Rules: shape.rules, MatchConditions: shape.conditions}))
	require.NoError(t, env.Create(t.Context(), config))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Delete(context.WithoutCancel(t.Context()), config)))
	})
	pod := podOf(namespace, nil)
	require.NoError(t, env.Create(t.Context(), pod))
	as := func(user string) client.Client {
		cfg := rest.CopyConfig(env.REST())
		cfg.Impersonate = rest.ImpersonationConfig{UserName: user, Groups: []string{"system:masters"}}
		c, err := client.New(cfg, client.Options{})
		require.NoError(t, err)
		return c
	}
	remove := func(user string) error { return as(user).Delete(t.Context(), pod, client.DryRunAll) }
	require.Eventually(t, func() bool { return apierrors.IsInternalError(remove("somebody")) }, testenv.Long, testenv.Poll, "the entry takes effect")
	for _, user := range []string{"system:kube-scheduler", "system:serviceaccount:kube-system:pod-garbage-collector"} {
		require.NoError(t, remove(user), user)
	}
	require.True(t, apierrors.IsInternalError(remove("system:serviceaccount:kube-system:replicaset-controller")))
}

// TestIntegrationAttack27NodesComeBackWithoutAReplica creates pods while no replica answers.
func TestIntegrationAttack27NodesComeBackWithoutAReplica(t *testing.T) {
	t.Parallel()
	env := testenv.Start(t, testenv.Config{})
	namespace := env.Namespace(t)
	shape := creationShape(nil, "")
	shape.wanted = []string{
		podwebhook.WantsSelected(&metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "tier", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"test", "demo"}}, {Key: "example.com/out", Operator: metav1.LabelSelectorOpDoesNotExist},
		}}),
		podwebhook.WantsSelected(&metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "mesh", Operator: metav1.LabelSelectorOpExists}}}),
	}
	shape.asked = &askers{asks: []string{"'asks' in object.metadata.?annotations.orValue({})"}}
	needed := needs{podwebhook.AllNamespaces: admissionv1.Fail, "elsewhere": admissionv1.Fail, namespace: admissionv1.Ignore}
	config := &admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "cold-start-" + namespace}}
	// occupy blocks the pods of the namespace that meet a condition.
	occupy := func(c admissionv1.MatchCondition) {
		setWebhooks(config, silent(namespace, admissionv1.MutatingWebhook{
			Name: "m.kb.io", Rules: shape.rules, MatchConditions: []admissionv1.MatchCondition{c},
		}))
	}
	occupy(shape.fromAnywhere(needed, admissionv1.Fail))
	require.NoError(t, env.Create(t.Context(), config))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Delete(context.WithoutCancel(t.Context()), config)))
	})
	create := func(change func(*corev1.Pod)) error {
		return env.Create(t.Context(), podOf(namespace, change), client.DryRunAll)
	}
	label := func(labels map[string]string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels = labels } }
	require.Eventually(t, func() bool { return apierrors.IsInternalError(create(label(map[string]string{"app": "web"}))) }, testenv.Long, testenv.Poll, "the entry takes effect")
	pods := map[string]struct {
		change func(*corev1.Pod)
		waits  bool
	}{
		"no label":                                    {label(nil), false},
		"another label":                               {label(map[string]string{"app": "db"}), false},
		"a label value that is not excluded":          {label(map[string]string{"app": "web", "tier": "prod"}), true},
		"a label value that is excluded":              {label(map[string]string{"app": "web", "tier": "demo"}), false},
		"a label that must not exist":                 {label(map[string]string{"app": "web", "example.com/out": ""}), false},
		"a label that must exist, for another object": {label(map[string]string{"mesh": ""}), true},
		"a pod that requests the step itself":         {func(p *corev1.Pod) { p.Labels, p.Annotations = nil, map[string]string{"asks": ""} }, true},
		"a selected pod on the host network":          {func(p *corev1.Pod) { p.Spec.HostNetwork = true }, false},
		"a selected pod that is critical for a node":  {func(p *corev1.Pod) { p.Spec.PriorityClassName = "system-node-critical" }, false},
	}
	for name, tc := range pods {
		if err := create(tc.change); tc.waits {
			require.True(t, apierrors.IsInternalError(err), "%s: %v", name, err)
		} else {
			require.NoError(t, err, name)
		}
	}

	// The other entry, which lets pods proceed, gets exactly those.
	occupy(shape.notFromAnywhere())
	require.NoError(t, env.Update(t.Context(), config))
	require.Eventually(t, func() bool { return apierrors.IsInternalError(create(label(nil))) }, testenv.Long, testenv.Poll, "the entry takes effect")
	for name, tc := range pods {
		if err := create(tc.change); tc.waits {
			require.NoError(t, err, name)
		} else {
			require.True(t, apierrors.IsInternalError(err), "%s: %v", name, err)
		}
	}
}

// podOf returns a pod that a SidecarSet for all namespaces may select, and that no scheduler handles.
func podOf(namespace string, change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{SchedulerName: "none", Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
	if change != nil {
		change(p)
	}
	return p
}
