package sidecarset

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// selects reports whether a SidecarSet's selector matches the pod's labels. An empty selector matches no pod.
func selects(s *appsv1beta1.SidecarSet, pod metav1.Object) bool {
	return !emptySelector(s.Spec.Selector) && ownership.Selects(s.Spec.Selector, pod)
}

func emptySelector(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// covers reports whether a SidecarSet covers a namespace with these labels. An invalid selector covers no namespace.
func covers(s *appsv1beta1.SidecarSet, namespace string, namespaceLabels map[string]string) bool {
	if name, ok := singleNamespace(s); ok {
		return name == namespace
	}
	if s.Spec.NamespaceSelector == nil {
		return true
	}
	selector, err := metav1.LabelSelectorAsSelector(s.Spec.NamespaceSelector)
	return err == nil && selector.Matches(labels.Set(namespaceLabels))
}

// singleNamespace returns the only namespace that a SidecarSet covers, if its namespace selector is just the name of one.
func singleNamespace(s *appsv1beta1.SidecarSet) (string, bool) {
	selector := s.Spec.NamespaceSelector
	if selector == nil || len(selector.MatchExpressions) > 0 || len(selector.MatchLabels) != 1 {
		return "", false
	}
	name, ok := selector.MatchLabels[corev1.LabelMetadataName]
	return name, ok
}

// baseOf returns the name of the SidecarSet that a canary replaces, or "" if s is not a canary.
func baseOf(s *appsv1beta1.SidecarSet) string {
	if s.Annotations[keys.SidecarSetCanary] != "true" {
		return ""
	}
	return s.Annotations[keys.SidecarSetBase]
}

// matchSets returns the SidecarSets whose sidecars a new pod gets, sorted by name, and the reasons why other SidecarSets that select it are
// skipped.
func matchSets(
	all []*appsv1beta1.SidecarSet, pod *corev1.Pod, namespaceLabels map[string]string,
) (matched []*appsv1beta1.SidecarSet, skipped []outcome) {
	skip := func(s *appsv1beta1.SidecarSet, format string, args ...any) {
		skipped = append(skipped, outcome{set: s, skipped: true, why: s.Name + " is skipped: " + fmt.Sprintf(format, args...)})
	}
	for _, s := range all {
		_, onlyOne := singleNamespace(s)
		switch {
		case s.DeletionTimestamp != nil || !selects(s, pod):
		case !covers(s, pod.Namespace, namespaceLabels):
			skip(s, "its namespaceSelector %s does not select namespace %s", metav1.FormatLabelSelector(s.Spec.NamespaceSelector), pod.Namespace)
		case !onlyOne && podwebhook.OfTheNode(pod) != "":
			skip(s, "%s: it gets sidecars only if spec.namespaceSelector is just %s=%s",
				podwebhook.OfTheNode(pod), corev1.LabelMetadataName, pod.Namespace)
		case s.Spec.InjectionStrategy.Paused:
			skip(s, "its injection is paused (spec.injectionStrategy.paused)")
		default:
			matched = append(matched, s)
		}
	}
	replaced := map[string]string{}
	for _, s := range matched {
		if base := baseOf(s); base != "" {
			replaced[base] = s.Name
		}
	}
	matched = slices.DeleteFunc(matched, func(s *appsv1beta1.SidecarSet) bool {
		canary, ok := replaced[s.Name]
		if ok {
			skip(s, "its canary %s replaces it", canary)
		}
		return ok
	})
	byName := func(a, b *appsv1beta1.SidecarSet) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(matched, byName)
	slices.SortFunc(skipped, func(a, b outcome) int { return byName(a.set, b.set) })
	return matched, skipped
}

// chooseInjection returns what a new pod gets from a SidecarSet: the current sidecars, or those of the revision that injectionStrategy
// names. If that revision doesn't exist, the pod gets the current sidecars, with a fault that says so: pod creation is never blocked. draw
// is a number in [0, 1), drawn for this pod.
func chooseInjection(s *appsv1beta1.SidecarSet, history []*appsv1.ControllerRevision, pod *corev1.Pod, draw float64) (injection, error) {
	if !wantsRevision(s, pod, draw) {
		return currentInjection(s)
	}
	r := findRevision(history, s.Spec.InjectionStrategy.Revision)
	if r == nil {
		in, err := currentInjection(s)
		in.fault = describeRevision(s.Spec.InjectionStrategy.Revision) + " does not exist (spec.injectionStrategy.revision), so the current sidecars are used"
		return in, err
	}
	return injectionOf(s, r)
}

// wantsRevision reports whether a new pod gets the revision that injectionStrategy names. With policy Partial, it does if the update would
// leave the pod at its revision: a percentage partition is the chance of that, and a number says nothing about a single pod.
func wantsRevision(s *appsv1beta1.SidecarSet, pod *corev1.Pod, draw float64) bool {
	r, u := s.Spec.InjectionStrategy.Revision, &s.Spec.UpdateStrategy
	switch {
	case r == nil || ptr.Deref(r.RevisionName, "") == "" && ptr.Deref(r.CustomVersion, "") == "":
		return false
	case u.Paused || r.Policy != appsv1beta1.InjectRevisionPartial:
		return true
	case u.Selector != nil && !ownership.Selects(u.Selector, pod):
		return true
	case u.Partition == nil || u.Partition.Type != intstr.String:
		return false
	}
	percent, err := rollout.Resolve(u.Partition, 100, rollout.Up)
	return err == nil && draw*100 < float64(percent)
}

// findRevision returns the revision with that name, or the newest one with that customVersion, or nil.
func findRevision(history []*appsv1.ControllerRevision, ref *appsv1beta1.SidecarSetInjectRevision) *appsv1.ControllerRevision {
	if name := ptr.Deref(ref.RevisionName, ""); name != "" {
		i := slices.IndexFunc(history, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
		if i < 0 {
			return nil
		}
		return history[i]
	}
	version := ptr.Deref(ref.CustomVersion, "")
	candidates := slices.DeleteFunc(slices.Clone(history), func(r *appsv1.ControllerRevision) bool {
		return version == "" || r.Labels[keys.SidecarSetCustomVersion] != version
	})
	if len(candidates) == 0 {
		return nil
	}
	revision.Sort(candidates)
	return candidates[len(candidates)-1]
}

func describeRevision(ref *appsv1beta1.SidecarSetInjectRevision) string {
	if name := ptr.Deref(ref.RevisionName, ""); name != "" {
		return "revision " + name
	}
	return "a revision with customVersion " + ptr.Deref(ref.CustomVersion, "")
}

// joinOutcomes joins the outcomes of several SidecarSets.
func joinOutcomes(outcomes []outcome) string {
	out := make([]string, 0, len(outcomes))
	for _, o := range outcomes {
		out = append(out, o.String())
	}
	return strings.Join(out, "; ")
}

func (o outcome) String() string {
	if len(o.faults) == 0 {
		return o.why
	}
	return o.why + ", but " + strings.Join(o.faults, ", and ")
}
