package admission

import (
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of the entries. The first one is OpenKruise's.
const (
	// EntryFail is for features without which a pod must not be created.
	EntryFail = "mpod.kb.io"
	// EntryIgnore is for those without which it may.
	EntryIgnore = "mpod-ignore.kb.io"
)

// needs are the namespaces whose pods must be sent, and whether their pods may be created without.
type needs map[string]admissionv1.FailurePolicyType

// add adds a namespace: one feature that must not be left out decides for all.
func (n needs) add(namespace string, policy admissionv1.FailurePolicyType) {
	if n[namespace] != admissionv1.Fail {
		n[namespace] = policy
	}
}

// sent returns the namespaces that entries are for.
func sent(webhooks []admissionv1.MutatingWebhook) needs {
	out := needs{}
	for i := range webhooks {
		w := &webhooks[i]
		if !ours(w.Name) || w.NamespaceSelector == nil {
			continue
		}
		for _, e := range w.NamespaceSelector.MatchExpressions {
			if e.Key == corev1MetadataName && e.Operator == metav1.LabelSelectorOpIn {
				for _, namespace := range e.Values {
					out.add(namespace, policyOf(w))
				}
			}
		}
	}
	return out
}

func ours(name string) bool { return name == EntryFail || name == EntryIgnore }

func policyOf(w *admissionv1.MutatingWebhook) admissionv1.FailurePolicyType {
	if w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}

// corev1MetadataName is the label with the name of a namespace, which each one has.
const corev1MetadataName = "kubernetes.io/metadata.name"

// plan returns the webhooks of the configuration with the entries for what is needed: none where nothing is. It returns nil if there is
// no other entry with a CA bundle to take the address from; its own certificate is the first thing that a manager writes.
func plan(webhooks []admissionv1.MutatingWebhook, needed needs) []admissionv1.MutatingWebhook {
	var sibling *admissionv1.MutatingWebhook
	out := make([]admissionv1.MutatingWebhook, 0, len(webhooks)+2)
	for i := range webhooks {
		if w := &webhooks[i]; !ours(w.Name) {
			out = append(out, *w)
			if sibling == nil && len(w.ClientConfig.CABundle) > 0 {
				sibling = w
			}
		}
	}
	for _, e := range []struct {
		name   string
		policy admissionv1.FailurePolicyType
	}{{EntryFail, admissionv1.Fail}, {EntryIgnore, admissionv1.Ignore}} {
		var namespaces []string
		for namespace, policy := range needed {
			if policy == e.policy {
				namespaces = append(namespaces, namespace)
			}
		}
		if len(namespaces) == 0 {
			continue
		}
		if sibling == nil {
			return nil
		}
		slices.Sort(namespaces)
		out = append(out, entry(e.name, e.policy, sibling, namespaces))
	}
	return out
}

// entry returns an entry that calls who sibling calls.
func entry(name string, policy admissionv1.FailurePolicyType, sibling *admissionv1.MutatingWebhook, namespaces []string) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name:         name,
		ClientConfig: address(sibling.ClientConfig),
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule: admissionv1.Rule{
				APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: new(admissionv1.NamespacedScope),
			},
		}},
		FailurePolicy: &policy,
		MatchPolicy:   new(admissionv1.Equivalent),
		NamespaceSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: corev1MetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces},
		}},
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionv1.SideEffectClassNone),
		TimeoutSeconds:          sibling.TimeoutSeconds,
		AdmissionReviewVersions: []string{"v1"},
		ReinvocationPolicy:      new(admissionv1.NeverReinvocationPolicy),
	}
}

// address is the same callee at the path of pods.
func address(c admissionv1.WebhookClientConfig) admissionv1.WebhookClientConfig {
	out := admissionv1.WebhookClientConfig{CABundle: c.CABundle}
	if c.URL != nil {
		base := *c.URL
		if at := strings.Index(strings.TrimPrefix(base, "https://"), "/"); at >= 0 {
			base = base[:len("https://")+at]
		}
		out.URL = new(base + Path)
	}
	if c.Service != nil {
		s := *c.Service
		s.Path = new(Path)
		out.Service = &s
	}
	return out
}
