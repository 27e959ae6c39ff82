package admission

import (
	"maps"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Names of the entries. The first one for each webhook is OpenKruise's.
const (
	// EntryFail is for features without which a pod must not be created.
	EntryFail = "mpod.kb.io"
	// entryIgnore is for features without which it may.
	entryIgnore = "mpod-ignore.kb.io"
	// entryAsked is for pods that ask for a step themselves.
	entryAsked = "mpod-asked.kb.io"
	// guardFail is for features without which a pod must not be deleted, evicted, updated or resized.
	guardFail = "vpod.kb.io"
	// guardIgnore is for features without which it may.
	guardIgnore = "vpod-ignore.kb.io"
)

// needs maps the namespaces whose pods must be sent, or podwebhook.AllNamespaces, to what happens to their requests if the webhook fails.
type needs map[string]admissionv1.FailurePolicyType

// add adds a namespace. One feature that must not be skipped decides for all.
func (n needs) add(namespace string, policy admissionv1.FailurePolicyType) {
	if n[namespace] != admissionv1.Fail {
		n[namespace] = policy
	}
}

// shape defines the entries of one of the two webhooks.
type shape struct {
	// fail and ignore are the names of the entries for each failurePolicy.
	fail, ignore string
	// path is the path of the webhook.
	path string
	// rules and conditions select what is sent from the namespaces that are sent.
	rules      []admissionv1.RuleWithOperations
	conditions []admissionv1.MatchCondition
	// exempt lists the namespaces that are never sent, at least the manager's own.
	exempt []string
	// own is the manager's own namespace. It is also in exempt.
	own string
	// wanted holds expressions for the pods that objects want from all namespaces. One of them has to be true. Empty means all pods.
	wanted []string
	// has maps the names of entries to their current namespaceSelectors.
	has map[string]*metav1.LabelSelector
	// asked defines the entry for pods that request a step themselves, in namespaces that are not sent. Nil means no such entry.
	asked *askers
}

// askers defines the pods that request a step themselves.
type askers struct {
	// asks holds the expressions of the steps. One of them has to be true.
	asks   []string
	policy admissionv1.FailurePolicyType
}

// creationShape returns the shape for the creation of pods.
func creationShape(exempt []string, own string) shape {
	return shape{
		fail: EntryFail, ignore: entryIgnore, path: Path, exempt: exempt, own: own,
		rules: []admissionv1.RuleWithOperations{rule("pods", admissionv1.Create)},
	}
}

// guardedShape returns the shape for the requests that some guard judges.
func guardedShape(guards podwebhook.Guards, exempt []string, own string) shape {
	judged := func(o podwebhook.Operation) bool {
		return slices.ContainsFunc(guards, func(g podwebhook.Active) bool { return g.Judges(o) })
	}
	s := shape{
		fail: guardFail, ignore: guardIgnore, path: GuardPath,
		conditions: conditions(), exempt: exempt, own: own,
	}
	var operations []admissionv1.OperationType
	if judged(podwebhook.Delete) {
		operations = append(operations, admissionv1.Delete)
	}
	changes := judged(podwebhook.Update) || judged(podwebhook.Resize) // A resize that restarts a container is an update.
	if changes {
		operations = append(operations, admissionv1.Update)
	}
	if len(operations) > 0 {
		s.rules = append(s.rules, rule("pods", operations...))
	}
	if judged(podwebhook.Evict) {
		s.rules = append(s.rules, rule("pods/eviction", admissionv1.Create))
	}
	if changes {
		s.rules = append(s.rules, rule("pods/resize", admissionv1.Update))
	}
	return s
}

// conditions excludes what no guard judges: the final delete of a pod that is already being deleted, which the kubelet sends; pods that have
// terminated; static pods, which run whatever happens to their API objects; namespace deletion, which must not be held up; preemption by the
// scheduler, possibly for this manager; garbage collection after a node is gone; and most updates, which only change status or metadata. An
// eviction names a pod but doesn't contain it.
func conditions() []admissionv1.MatchCondition {
	return []admissionv1.MatchCondition{
		{Name: "not-being-deleted", Expression: "oldObject == null || !has(oldObject.metadata.deletionTimestamp)"},
		{Name: "not-ended", Expression: "oldObject == null || !(oldObject.?status.phase.orValue('') in ['Succeeded', 'Failed'])"},
		{Name: "not-static", Expression: "oldObject == null || !('" + corev1.MirrorPodAnnotationKey + "' in oldObject.metadata.?annotations.orValue({}))"},
		{Name: "not-with-its-namespace", Expression: "request.userInfo.username != 'system:serviceaccount:kube-system:namespace-controller'"},
		{Name: "not-preempted-or-collected", Expression: "request.operation != 'DELETE' || !(request.userInfo.username in " +
			"['system:kube-scheduler', 'system:serviceaccount:kube-system:pod-garbage-collector'])"},
		{Name: "update-of-spec-or-availability", Expression: "request.operation != 'UPDATE' || object.spec != oldObject.spec || " +
			"object.metadata.?labels.orValue({}).exists(k, k.startsWith('" + keys.UnavailablePodPrefix + "') " +
			"&& !(k in oldObject.metadata.?labels.orValue({})))"},
	}
}

func rule(resource string, operations ...admissionv1.OperationType) admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{Operations: operations, Rule: admissionv1.Rule{
		APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{resource}, Scope: new(admissionv1.NamespacedScope),
	}}
}

// owns reports whether an entry belongs to this shape.
func (s shape) owns(w *admissionv1.MutatingWebhook) bool {
	return w.Name == s.fail || w.Name == s.ignore || s.asked != nil && w.Name == entryAsked
}

// sent returns the namespaces that the entries cover.
func (s shape) sent(webhooks []admissionv1.MutatingWebhook) needs {
	out := needs{}
	for i := range webhooks {
		w := &webhooks[i]
		if !s.owns(w) || w.Name == entryAsked {
			continue
		}
		switch which := s.namespaceTerm(w); {
		case which == nil:
		case which.Operator == metav1.LabelSelectorOpNotIn:
			out.add(podwebhook.AllNamespaces, policyOf(w))
			for _, namespace := range namedNamespaces(w) {
				out.add(namespace, policyOf(w))
			}
		default:
			for _, namespace := range which.Values {
				out.add(namespace, policyOf(w))
			}
		}
	}
	return out
}

// kept returns the namespaces that other writers exclude from our entries by name.
func (s shape) kept(webhooks []admissionv1.MutatingWebhook) []string {
	var out []string
	for i := range webhooks {
		w := &webhooks[i]
		if !s.owns(w) || w.Name == entryAsked {
			continue
		}
		which := s.namespaceTerm(w)
		if which == nil {
			continue
		}
		for _, e := range w.NamespaceSelector.MatchExpressions {
			if e.Key != metadataName || !s.isForeignTerm(e) {
				continue
			}
			for _, namespace := range e.Values {
				if slices.Contains(which.Values, namespace) == (which.Operator == metav1.LabelSelectorOpIn) {
					out = append(out, namespace)
				}
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// namespaceTerm returns the term of an entry that lists the namespaces that we want, or nil.
func (s shape) namespaceTerm(w *admissionv1.MutatingWebhook) *metav1.LabelSelectorRequirement {
	if w.NamespaceSelector == nil {
		return nil
	}
	for i := range w.NamespaceSelector.MatchExpressions {
		if e := &w.NamespaceSelector.MatchExpressions[i]; s.isOurTerm(*e) {
			return e
		}
	}
	return nil
}

// isOurTerm reports whether a term of a namespaceSelector was written by this manager or an earlier one: it selects by name, and never
// includes the manager's own namespace.
func (s shape) isOurTerm(e metav1.LabelSelectorRequirement) bool {
	if e.Key != metadataName {
		return false
	}
	return e.Operator == metav1.LabelSelectorOpIn ||
		e.Operator == metav1.LabelSelectorOpNotIn && (s.own == "" || slices.Contains(e.Values, s.own))
}

// isForeignTerm reports whether a term is an exclusion added by another writer, such as a cluster provider for the namespaces that it runs
// itself. Such a term is kept: it only removes namespaces, by labels that tenants can't set. Terms that select only some namespaces are not
// kept, and neither are terms about pods, whose labels tenants can set.
func (s shape) isForeignTerm(e metav1.LabelSelectorRequirement) bool {
	switch e.Operator {
	case metav1.LabelSelectorOpNotIn:
		return !s.isOurTerm(e)
	case metav1.LabelSelectorOpDoesNotExist:
		return e.Key != metadataName // Every namespace has it.
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpExists:
	}
	return false
}

// selector returns the namespaceSelector of an entry for the namespaces in which, plus what others added to the existing one.
func (s shape) selector(has *metav1.LabelSelector, which metav1.LabelSelectorRequirement) *metav1.LabelSelector {
	out := &metav1.LabelSelector{}
	placed := false
	if has != nil {
		for _, e := range has.MatchExpressions { // Keep the order, so that a correct entry compares equal.
			switch {
			case s.isForeignTerm(e):
				out.MatchExpressions = append(out.MatchExpressions, e)
			case !placed && s.isOurTerm(e):
				out.MatchExpressions = append(out.MatchExpressions, which)
				placed = true
			}
		}
	}
	if !placed {
		out.MatchExpressions = append([]metav1.LabelSelectorRequirement{which}, out.MatchExpressions...)
	}
	return out
}

func policyOf(w *admissionv1.MutatingWebhook) admissionv1.FailurePolicyType {
	if w.FailurePolicy != nil && *w.FailurePolicy == admissionv1.Ignore {
		return admissionv1.Ignore
	}
	return admissionv1.Fail
}

// metadataName is the label with the name of a namespace. Every namespace has it.
const metadataName = "kubernetes.io/metadata.name"

// plan returns the configuration's webhooks with the entries for what is needed, and with no entries if nothing is. It returns nil if there
// is no other entry with a CA bundle to copy the address from. A manager writes its own certificate first of all.
func (s shape) plan(webhooks []admissionv1.MutatingWebhook, needed needs) []admissionv1.MutatingWebhook {
	var sibling *admissionv1.MutatingWebhook
	out := make([]admissionv1.MutatingWebhook, 0, len(webhooks)+2)
	s.has = map[string]*metav1.LabelSelector{}
	for i := range webhooks {
		w := &webhooks[i]
		if s.owns(w) {
			s.has[w.Name] = w.NamespaceSelector
		} else {
			out = append(out, *w)
			if sibling == nil && len(w.ClientConfig.CABundle) > 0 {
				sibling = w
			}
		}
	}
	for _, e := range []struct {
		name   string
		policy admissionv1.FailurePolicyType
	}{{s.fail, admissionv1.Fail}, {s.ignore, admissionv1.Ignore}} {
		which := s.namespacesWith(needed, e.policy)
		if which == nil {
			continue
		}
		if sibling == nil {
			return nil
		}
		from := s
		if all, ok := needed[podwebhook.AllNamespaces]; ok && all == e.policy {
			from.conditions = append(slices.Clone(s.conditions), s.fromAnywhere(needed, all))
		} else if ok && all == admissionv1.Fail {
			from.conditions = append(slices.Clone(s.conditions), s.notFromAnywhere())
		}
		out = append(out, from.entry(e.name, e.policy, sibling, *which))
	}
	if _, all := needed[podwebhook.AllNamespaces]; all || s.asked == nil || len(s.asked.asks) == 0 {
		return out
	}
	if sibling == nil {
		return nil
	}
	return append(out, s.entryAsked(sibling, needed))
}

// maxCondition is the maximum length of a match condition's expression. If what is wanted from all namespaces is longer, all pods are sent.
const maxCondition = 8 << 10

// fromAnywhere returns the condition that excludes a pod unless its namespace has objects of the policy or an object for all namespaces wants
// it. No pod that is sent can be created while no replica answers. Pods that the nodes themselves or their network need are never wanted: a
// replica may need the node.
func (s shape) fromAnywhere(needed needs, policy admissionv1.FailurePolicyType) admissionv1.MatchCondition {
	var names []string
	for namespace, wanted := range needed {
		if namespace != podwebhook.AllNamespaces && wanted == policy {
			names = append(names, "'"+namespace+"'")
		}
	}
	expression := s.wantedAnywhere()
	if slices.Sort(names); len(names) > 0 {
		expression = namesFrom + strings.Join(names, namesBetween) + namesTo + " || " + expression
	}
	return admissionv1.MatchCondition{Name: wantedCondition, Expression: expression}
}

// notFromAnywhere returns the condition that excludes the pods that fromAnywhere sends from all namespaces. It is for the entry of namespaces
// whose pods may be created without a replica.
func (s shape) notFromAnywhere() admissionv1.MatchCondition {
	return admissionv1.MatchCondition{Name: "not-" + wantedCondition, Expression: "!(" + s.wantedAnywhere() + ")"}
}

// wantedAnywhere returns the expression for pods that are sent from any namespace.
func (s shape) wantedAnywhere() string {
	wanted := podwebhook.NotOfTheNode
	if some := strings.Join(s.wanted, " || "); some != "" && len(some) <= maxCondition {
		wanted += " && (" + some + ")"
	}
	or := []string{"(" + wanted + ")"}
	if s.asked != nil {
		or = append(or, s.asked.asks...)
	}
	return strings.Join(or, " || ")
}

// fromAnywhere writes these around the names of namespaces with objects. namedNamespaces reads them.
const (
	wantedCondition = "wanted"
	namesFrom       = "request.namespace in ["
	namesBetween    = ", "
	namesTo         = "]"
)

// namedNamespaces returns the namespaces with objects that are named in an entry for all namespaces.
func namedNamespaces(w *admissionv1.MutatingWebhook) []string {
	list, some := strings.CutPrefix(wantedBy(w), namesFrom)
	list, _, ends := strings.Cut(list, namesTo)
	if !some || !ends {
		return nil
	}
	out := strings.Split(list, namesBetween)
	for i := range out {
		out[i] = strings.Trim(out[i], "'")
	}
	return out
}

// wantedBy returns which pods from all namespaces an entry wants, taken from its match condition.
func wantedBy(w *admissionv1.MutatingWebhook) string {
	for _, c := range w.MatchConditions {
		if c.Name == wantedCondition {
			return c.Expression
		}
	}
	return ""
}

// covers reports whether the entries send the pods that a mark is for.
func (s shape) covers(webhooks []admissionv1.MutatingWebhook, m mark) bool {
	if _, open := s.sent(webhooks)[m.Namespace]; !open || m.Namespace != podwebhook.AllNamespaces {
		return open
	}
	for i := range webhooks {
		w := &webhooks[i]
		if which := s.namespaceTerm(w); !s.owns(w) || w.Name == entryAsked || which == nil || which.Operator != metav1.LabelSelectorOpNotIn {
			continue
		}
		wanted := wantedBy(w)
		if strings.Contains(wanted, "("+podwebhook.NotOfTheNode+")") || m.Wants != "" && strings.Contains(wanted, m.Wants) {
			return true
		}
	}
	return false
}

// entryAsked returns the entry for pods that request a step themselves. It excludes namespaces where all pods are sent anyway.
func (s shape) entryAsked(sibling *admissionv1.MutatingWebhook, needed needs) admissionv1.MutatingWebhook {
	names := slices.Concat(slices.Collect(maps.Keys(needed)), s.exempt)
	slices.Sort(names)
	s.path = AskedPath
	s.conditions = []admissionv1.MatchCondition{{Name: "asks", Expression: strings.Join(s.asked.asks, " || ")}}
	return s.entry(entryAsked, s.asked.policy, sibling, metav1.LabelSelectorRequirement{
		Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: slices.Compact(names),
	})
}

// namespacesWith returns the namespaces for the entry with a failurePolicy, or nil if there are none. A namespace is in both entries only if
// there is an object for all namespaces whose pods must be sent. Then the match conditions divide the pods between the entries.
func (s shape) namespacesWith(needed needs, policy admissionv1.FailurePolicyType) *metav1.LabelSelectorRequirement {
	all, isAll := needed[podwebhook.AllNamespaces]
	out := &metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpIn}
	if isAll && all == policy {
		out.Operator, out.Values = metav1.LabelSelectorOpNotIn, slices.Clone(s.exempt)
	}
	for namespace, wanted := range needed {
		named := namespace != podwebhook.AllNamespaces
		if out.Operator == metav1.LabelSelectorOpIn && named && wanted == policy ||
			out.Operator == metav1.LabelSelectorOpNotIn && named && wanted != policy && wanted == admissionv1.Fail {
			out.Values = append(out.Values, namespace)
		}
	}
	if len(out.Values) == 0 {
		return nil
	}
	slices.Sort(out.Values)
	out.Values = slices.Compact(out.Values)
	return out
}

// entry returns an entry that calls the same service as sibling.
func (s shape) entry(
	name string, policy admissionv1.FailurePolicyType, sibling *admissionv1.MutatingWebhook, which metav1.LabelSelectorRequirement,
) admissionv1.MutatingWebhook {
	return admissionv1.MutatingWebhook{
		Name:                    name,
		ClientConfig:            s.address(sibling.ClientConfig),
		Rules:                   s.rules,
		FailurePolicy:           &policy,
		MatchPolicy:             new(admissionv1.Equivalent),
		NamespaceSelector:       s.selector(s.has[name], which),
		ObjectSelector:          &metav1.LabelSelector{},
		SideEffects:             new(admissionv1.SideEffectClassNoneOnDryRun),
		TimeoutSeconds:          sibling.TimeoutSeconds,
		AdmissionReviewVersions: []string{"v1"},
		MatchConditions:         s.conditions,
		ReinvocationPolicy:      new(admissionv1.NeverReinvocationPolicy),
	}
}

// address returns the same address with the path for pods.
func (s shape) address(c admissionv1.WebhookClientConfig) admissionv1.WebhookClientConfig {
	out := admissionv1.WebhookClientConfig{CABundle: c.CABundle}
	if c.URL != nil {
		base := *c.URL
		if at := strings.Index(strings.TrimPrefix(base, "https://"), "/"); at >= 0 {
			base = base[:len("https://")+at]
		}
		out.URL = new(base + s.path)
	}
	if c.Service != nil {
		service := *c.Service
		service.Path = new(s.path)
		out.Service = &service
	}
	return out
}
