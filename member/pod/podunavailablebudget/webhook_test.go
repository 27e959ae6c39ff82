package podunavailablebudget

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
)

func newWebhook(c client.Reader) *Webhook {
	return &Webhook{Client: c, Exempt: []string{"kube-system"}, Webhook: true, Delete: true, Update: true}
}

func withName(name string, b *policyv1beta1.PodUnavailableBudget) *policyv1beta1.PodUnavailableBudget {
	b.Name = name
	return b
}

func selecting(s metav1.LabelSelector) func(*policyv1beta1.PodUnavailableBudget) {
	return func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.Selector = &s }
}

func matching(labels ...string) metav1.LabelSelector {
	out := metav1.LabelSelector{MatchLabels: map[string]string{}}
	for i := 0; i < len(labels); i += 2 {
		out.MatchLabels[labels[i]] = labels[i+1]
	}
	return out
}

func TestNewObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		known   []client.Object
		budget  *policyv1beta1.PodUnavailableBudget
		refused string
	}{
		{name: "a selector", budget: budget(0)},
		{name: "a target", budget: budget(0, targeting(cloneSet, "web"))},
		{name: "a target that another budget has", known: []client.Object{budget(0, targeting(cloneSet, "web"))}, budget: withName("b", budget(0, targeting(cloneSet, "web"))), refused: "it is already the target of web"},
		{name: "a target of another kind with the same name", known: []client.Object{budget(0, targeting(cloneSet, "web"))}, budget: withName("b", budget(0, targeting(deployment, "web")))},
		{name: "the same labels", known: []client.Object{budget(0)}, budget: withName("b", budget(0)), refused: "a pod could also be selected by web (app=web)"},
		{name: "a percentage without a sign", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromString("5")) }), refused: `spec.maxUnavailable: Invalid value: "5": must be a number of pods`},
		{name: "more than 100%", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromString("101%")) }), refused: "spec.maxUnavailable"},
		{name: "a negative number", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(-1)) }), refused: "spec.maxUnavailable"},
		{name: "a large number", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(500)) })},
		{name: "an empty selector", budget: budget(0, selecting(metav1.LabelSelector{})), refused: "spec.selector: Required value: it would select every pod in the namespace"},
		{name: "an invalid label", budget: budget(0, selecting(matching("a b", "c"))), refused: "spec.selector.matchLabels"},
		{name: "an annotation that can't be read", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
			b.Annotations = map[string]string{keys.ProtectOperations: "REMOVE"}
		}), refused: `metadata.annotations[kruise.io/pub-protect-operations]: Invalid value: "REMOVE"`},
		{name: "a total that can't be read", budget: budget(0, func(b *policyv1beta1.PodUnavailableBudget) {
			b.Annotations = map[string]string{keys.ProtectTotalReplicas: "0"}
		}), refused: "must be 1 or more"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			warnings, err := newWebhook(apiserver(t, tc.known...)).ValidateCreate(t.Context(), tc.budget)
			require.Empty(t, warnings)
			if tc.refused == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.refused)
		})
	}
}

func TestWithoutGatesThereIsNoBudget(t *testing.T) {
	t.Parallel()
	w := newWebhook(apiserver(t))
	w.Delete, w.Update = false, false
	_, err := w.ValidateCreate(t.Context(), budget(0))
	require.ErrorContains(t, err, "nothing would be protected: enable feature gate PodWebhook, and PodUnavailableBudgetDeleteGate for deletions")
	_, err = w.ValidateUpdate(t.Context(), budget(0), budget(1))
	require.NoError(t, err, "an existing budget can be changed")
	w.Delete, w.Webhook = true, false
	_, err = w.ValidateCreate(t.Context(), budget(0))
	require.Error(t, err)
}

func TestWarnings(t *testing.T) {
	t.Parallel()
	w := newWebhook(apiserver(t))
	w.Update = false
	exempt := budget(0, judging(policyv1beta1.Delete, policyv1beta1.Update))
	exempt.Namespace = "kube-system"
	warnings, err := w.ValidateCreate(t.Context(), exempt)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	require.Contains(t, warnings[0], "requests for pods in kube-system are not sent to the webhook")
	require.Contains(t, warnings[1], "spec.protectOperations[1]: UPDATE is not checked while feature gate PodUnavailableBudgetUpdateGate is off")
	warnings, err = w.ValidateUpdate(t.Context(), exempt, exempt)
	require.NoError(t, err)
	require.Empty(t, warnings, "an unchanged setting is not warned about again")
}

func TestWhatAnObjectHadBeforeIsAWarning(t *testing.T) {
	t.Parallel()
	old := budget(0, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromString("5")) })
	warnings, err := newWebhook(apiserver(t)).ValidateUpdate(t.Context(), old, old)
	require.NoError(t, err)
	require.Len(t, warnings, 1)
	_, err = newWebhook(apiserver(t)).ValidateUpdate(t.Context(), budget(0), old)
	require.ErrorContains(t, err, "spec.maxUnavailable")
	_, err = newWebhook(apiserver(t)).ValidateDelete(t.Context(), old)
	require.NoError(t, err)
}
