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
	"github.com/flotilla-io/flotilla/pkg/ownership"
	"github.com/flotilla-io/flotilla/pkg/podstep"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// selects reports whether a SidecarSet's selector matches the pod's labels. An empty selector matches no pod.
func selects(s *appsv1beta1.SidecarSet, pod metav1.Object) bool {
	return !emptySelector(s.Spec.Selector) && ownership.Selects(s.Spec.Selector, pod)
}

func emptySelector(s *metav1.LabelSelector) bool {
	return s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0
}

// covers reports whether a SidecarSet covers a namespace with these labels. An invalid selector covers no namespace.
func covers(s *appsv1beta1.SidecarSet, namespace string, of map[string]string) bool {
	if name, ok := fixed(s); ok {
		return name == namespace
	}
	if s.Spec.NamespaceSelector == nil {
		return true
	}
	by, err := metav1.LabelSelectorAsSelector(s.Spec.NamespaceSelector)
	return err == nil && by.Matches(labels.Set(of))
}

// fixed returns the only namespace that a SidecarSet covers, if its namespace selector is just the name of one.
func fixed(s *appsv1beta1.SidecarSet) (string, bool) {
	by := s.Spec.NamespaceSelector
	if by == nil || len(by.MatchExpressions) > 0 || len(by.MatchLabels) != 1 {
		return "", false
	}
	name, ok := by.MatchLabels[corev1.LabelMetadataName]
	return name, ok
}

// baseOf returns the name of the SidecarSet that a canary replaces, or "" if s is no canary.
func baseOf(s *appsv1beta1.SidecarSet) string {
	if s.Annotations[keys.SidecarSetCanary] != "true" {
		return ""
	}
	return s.Annotations[keys.SidecarSetBase]
}

// match returns the SidecarSets whose sidecars a new pod gets, sorted by name, and the reasons why other SidecarSets that select it are
// skipped.
func match(all []*appsv1beta1.SidecarSet, pod *corev1.Pod, of map[string]string) (matched []*appsv1beta1.SidecarSet, not []outcome) {
	skip := func(s *appsv1beta1.SidecarSet, format string, args ...any) {
		not = append(not, outcome{set: s, skipped: true, why: s.Name + " is skipped: " + fmt.Sprintf(format, args...)})
	}
	for _, s := range all {
		_, one := fixed(s)
		switch {
		case s.DeletionTimestamp != nil || !selects(s, pod):
		case !covers(s, pod.Namespace, of):
			skip(s, "its namespaceSelector %s does not select namespace %s", metav1.FormatLabelSelector(s.Spec.NamespaceSelector), pod.Namespace)
		case !one && podstep.OfTheNode(pod) != "":
			skip(s, "%s, and the SidecarSet is not for this namespace alone (spec.namespaceSelector)", podstep.OfTheNode(pod))
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
			skip(s, "its canary %s takes its place", canary)
		}
		return ok
	})
	byName := func(a, b *appsv1beta1.SidecarSet) int { return cmp.Compare(a.Name, b.Name) }
	slices.SortFunc(matched, byName)
	slices.SortFunc(not, func(a, b outcome) int { return byName(a.set, b.set) })
	return matched, not
}

// choose returns what a new pod gets from a SidecarSet: the current sidecars, or those of the revision that injectionStrategy names. If that
// revision doesn't exist, the pod gets the current sidecars, with a fault that says so: pod creation is never blocked. draw is a number in
// [0, 1), drawn for this pod.
func choose(s *appsv1beta1.SidecarSet, history []*appsv1.ControllerRevision, pod *corev1.Pod, draw float64) (injection, error) {
	if !wantsFormer(s, pod, draw) {
		return current(s)
	}
	r := find(history, s.Spec.InjectionStrategy.Revision)
	if r == nil {
		in, err := current(s)
		in.fault = revisionName(s.Spec.InjectionStrategy.Revision) + " does not exist (spec.injectionStrategy.revision), so the sidecars are the present ones"
		return in, err
	}
	return former(s, r)
}

// wantsFormer reports whether a new pod gets the revision that injectionStrategy names.
func wantsFormer(s *appsv1beta1.SidecarSet, pod *corev1.Pod, draw float64) bool {
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

// find returns the revision with that name, or the newest one with that customVersion, or nil.
func find(history []*appsv1.ControllerRevision, by *appsv1beta1.SidecarSetInjectRevision) *appsv1.ControllerRevision {
	if name := ptr.Deref(by.RevisionName, ""); name != "" {
		i := slices.IndexFunc(history, func(r *appsv1.ControllerRevision) bool { return r.Name == name })
		if i < 0 {
			return nil
		}
		return history[i]
	}
	version := ptr.Deref(by.CustomVersion, "")
	of := slices.DeleteFunc(slices.Clone(history), func(r *appsv1.ControllerRevision) bool {
		return version == "" || r.Labels[keys.SidecarSetCustomVersion] != version
	})
	if len(of) == 0 {
		return nil
	}
	revision.Sort(of)
	return of[len(of)-1]
}

func revisionName(by *appsv1beta1.SidecarSetInjectRevision) string {
	if name := ptr.Deref(by.RevisionName, ""); name != "" {
		return "revision " + name
	}
	return "a revision with customVersion " + ptr.Deref(by.CustomVersion, "")
}

// sentences joins the outcomes of several SidecarSets.
func sentences(outcomes []outcome) string {
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
