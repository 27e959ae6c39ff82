//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/member/pod/enhancedliveness"
	"github.com/flotilla-io/flotilla/member/pod/launchpriority"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationAttack08ManagersAddEntriesForPodsOnly checks that a manager may add to its configuration only entries for the creation of pods
// in named namespaces that are not exempt.
func TestIntegrationAttack08ManagersAddEntriesForPodsOnly(t *testing.T) {
	t.Parallel()
	as := withPolicies(t, "member")
	admin, manager := as("admin"), as("system:serviceaccount:"+namespace+":flotilla-member")
	rendered := decode[admissionv1.MutatingWebhookConfiguration](t, render(t, "member"), "MutatingWebhookConfiguration")
	require.Len(t, rendered, 1)
	config := &rendered[0]
	for i := range config.Webhooks { // No manager answers here.
		config.Webhooks[i].FailurePolicy = new(admissionv1.Ignore)
	}
	require.NoError(t, admin.Create(t.Context(), config))
	entry := func(change ...func(*admissionv1.MutatingWebhook)) admissionv1.MutatingWebhook {
		e := admissionv1.MutatingWebhook{
			Name: "mpod.kb.io", FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}, MatchPolicy: new(admissionv1.Equivalent), TimeoutSeconds: new(int32(10)),
			ReinvocationPolicy: new(admissionv1.NeverReinvocationPolicy), ObjectSelector: &metav1.LabelSelector{},
			ClientConfig: admissionv1.WebhookClientConfig{CABundle: bundle, Service: &admissionv1.ServiceReference{
				Namespace: namespace, Name: "flotilla-member", Path: new("/mutate-pod"), Port: new(int32(443)),
			}},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule: admissionv1.Rule{
					APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(admissionv1.NamespacedScope),
				},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
				{Key: "kubernetes.io/metadata.name", Operator: metav1.LabelSelectorOpIn, Values: []string{"shop", "bank"}},
			}},
		}
		for _, c := range change {
			c(&e)
		}
		return e
	}
	with := func(c client.Client, entries ...admissionv1.MutatingWebhook) error {
		next := config.DeepCopy()
		next.Webhooks = append(next.Webhooks, entries...)
		return c.Patch(t.Context(), next, client.MergeFrom(config), client.DryRunAll)
	}
	names := func(values ...string) func(*admissionv1.MutatingWebhook) {
		return func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector.MatchExpressions[0].Values = values }
	}
	ignoring := func(w *admissionv1.MutatingWebhook) {
		w.Name, w.FailurePolicy = "mpod-ignore.kb.io", new(admissionv1.Ignore)
	}
	asked := func(change ...func(*admissionv1.MutatingWebhook)) []admissionv1.MutatingWebhook {
		return []admissionv1.MutatingWebhook{entry(append([]func(*admissionv1.MutatingWebhook){func(w *admissionv1.MutatingWebhook) {
			w.Name, w.ClientConfig.Service.Path = "mpod-asked.kb.io", new("/mutate-pod-asked")
			w.NamespaceSelector.MatchExpressions[0].Operator = metav1.LabelSelectorOpNotIn
			w.NamespaceSelector.MatchExpressions[0].Values = []string{"kube-system", namespace, "shop"}
			w.MatchConditions = []admissionv1.MatchCondition{{Name: "asks", Expression: launchpriority.Asks}}
		}}, change...)...)}
	}
	another := entry(func(w *admissionv1.MutatingWebhook) { w.Name = "another.kb.io" })
	require.Eventually(t, func() bool { return with(manager, another) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
	for _, tc := range []struct {
		name    string
		entries []admissionv1.MutatingWebhook
		want    string // expected in the refusal; empty: allowed
	}{
		{"an entry for pods", []admissionv1.MutatingWebhook{entry()}, ""},
		{"an entry with exclusions of others", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector.MatchExpressions = append(excluded(), w.NamespaceSelector.MatchExpressions...)
		})}, ""},
		{"an entry with exclusions of others only", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector.MatchExpressions = excluded()
		})}, "is never called for pods of kube-system, ships"},
		{"both entries", []admissionv1.MutatingWebhook{entry(), entry(ignoring)}, ""},
		{"no entry", nil, ""},
		{"an entry with another name", []admissionv1.MutatingWebhook{another}, "only clientConfig"},
		{"an entry for updates too", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].Operations = append(w.Rules[0].Operations, admissionv1.Update)
		})}, "only when they are created"},
		{"an entry for Secrets", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.Rules[0].Resources = []string{"secrets"}
		})}, "only when they are created"},
		{"an entry for two rules", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.Rules = append(w.Rules, w.Rules[0])
		})}, "only when they are created"},
		{"an entry for an exempt namespace", []admissionv1.MutatingWebhook{entry(names("shop", "kube-system"))}, "is never called for pods of kube-system, ships"},
		{"an entry for its own namespace", []admissionv1.MutatingWebhook{entry(names(namespace))}, "is never called for pods of kube-system, ships"},
		{"an entry for all namespaces", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector = &metav1.LabelSelector{}
		})}, "is never called for pods of kube-system, ships"},
		{"an entry for all namespaces except the exempt ones", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector.MatchExpressions[0].Operator = metav1.LabelSelectorOpNotIn
			w.NamespaceSelector.MatchExpressions[0].Values = []string{"kube-system", namespace}
		})}, ""},
		{"an entry for all namespaces except one", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector.MatchExpressions[0].Operator = metav1.LabelSelectorOpNotIn
		})}, "is never called for pods of kube-system, ships"},
		{"an entry for a label of namespaces", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector.MatchExpressions[0].Key = "team"
		})}, "is never called for pods of kube-system, ships"},
		{"an entry with failurePolicy Fail under the name of one with Ignore", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.Name = "mpod-ignore.kb.io"
		})}, "does not answer"},
		{"an entry for pods that ask", asked(), ""},
		{"an entry for pods that ask for liveness probes too", asked(func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions[0].Expression += " || " + enhancedliveness.Asks
		}), ""},
		{"an entry with failurePolicy Ignore for pods that ask", asked(func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = new(admissionv1.Ignore) }), ""},
		{"an entry for pods that ask, without its condition", asked(func(w *admissionv1.MutatingWebhook) { w.MatchConditions = nil }), "only if they ask for a launch order or for liveness probes"},
		{"an entry for pods that ask for something else", asked(func(w *admissionv1.MutatingWebhook) {
			w.MatchConditions[0].Expression = "has(object.metadata.labels)"
		}), "only if they ask for a launch order or for liveness probes"},
		{"an entry for pods that ask, in exempt namespaces too", asked(names("kube-system", "shop")), "is never called for pods of kube-system, ships"},
		{"an entry for pods that ask, in named namespaces", asked(func(w *admissionv1.MutatingWebhook) {
			w.NamespaceSelector.MatchExpressions[0].Operator = metav1.LabelSelectorOpIn
		}), "is never called for pods of kube-system, ships"},
		{"an entry that calls another Service", []admissionv1.MutatingWebhook{entry(func(w *admissionv1.MutatingWebhook) {
			w.ClientConfig.Service.Name = "other"
		})}, "only itself called"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, with(admin, tc.entries...), "other users are not restricted")
			if err := with(manager, tc.entries...); tc.want != "" {
				require.ErrorContains(t, err, tc.want)
			} else {
				require.NoError(t, err)
			}
		})
	}
}

// TestIntegrationUpgradesLeaveEntriesForPods checks what the manager relies on: helm changes no entries that it didn't write, and removes all
// of them together with the configuration.
func TestIntegrationUpgradesLeaveEntriesForPods(t *testing.T) {
	t.Parallel()
	for _, how := range []string{"--server-side=false", "--server-side=true"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			k := newKube(t)
			require.NoError(t, admissionv1.AddToScheme(k.client.Scheme()))
			k.helm("install", "flotilla", "member", "--namespace="+namespace, "--create-namespace", how)
			config := &admissionv1.MutatingWebhookConfiguration{}
			read := func() []admissionv1.MutatingWebhook {
				require.NoError(t, k.client.Get(t.Context(), client.ObjectKey{Name: "flotilla-member"}, config))
				return config.Webhooks
			}
			require.NotEmpty(t, read())
			before := config.DeepCopy()
			for i := range config.Webhooks { // The manager does this first.
				config.Webhooks[i].ClientConfig.CABundle = bundle
			}
			added := *config.Webhooks[0].DeepCopy()
			added.Name = "mpod.kb.io"
			added.ClientConfig.Service.Path = new("/mutate-pod")
			added.Rules[0].APIGroups, added.Rules[0].APIVersions, added.Rules[0].Resources = []string{""}, []string{"v1"}, []string{"pods"}
			added.Rules[0].Operations = []admissionv1.OperationType{admissionv1.Create}
			config.Webhooks = append(config.Webhooks, added)
			require.NoError(t, k.client.Patch(t.Context(), config, client.MergeFrom(before)))
			k.helm("upgrade", "flotilla", "member", "--namespace="+namespace, "--set=webhookConfiguration.timeoutSeconds=5", how)
			after := read()
			require.Len(t, after, len(before.Webhooks)+1)
			for i := range after {
				require.Equal(t, bundle, after[i].ClientConfig.CABundle, "%s can be called", after[i].Name)
				if after[i].Name == added.Name {
					require.Equal(t, added, after[i])
				} else {
					require.Equal(t, int32(5), *after[i].TimeoutSeconds, "the upgrade has reached %s", after[i].Name)
				}
			}
			k.helm("uninstall", "flotilla", "--namespace="+namespace, "--no-hooks")
			require.Error(t, k.client.Get(t.Context(), client.ObjectKey{Name: "flotilla-member"}, config))
		})
	}
}
