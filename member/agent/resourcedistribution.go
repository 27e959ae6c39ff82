package agent

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// measureResourceDistribution reports as desired how many namespaces should have a copy, and as available how many have it. It also reports
// the first failure.
func measureResourceDistribution(s *fleetv1alpha1.MemberWorkStatus, live *unstructured.Unstructured) {
	fields, _, _ := unstructured.NestedMap(live.Object, "status")
	var is appsv1beta1.ResourceDistributionStatus
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &is); err != nil {
		unreadable(s, err)
		return
	}
	s.Counts = fleetv1alpha1.WorkCounts{Desired: is.Desired, Available: is.Succeeded}
	s.Phase = fleetv1alpha1.WorkProgressing
	if is.ObservedGeneration >= live.GetGeneration() && is.Failed == 0 {
		s.Phase = fleetv1alpha1.WorkHealthy
	}
	for _, c := range report.ButReadiness(is.Conditions, report.DistributionForm()) {
		if c.Status != metav1.ConditionTrue {
			continue
		}
		s.Phase, s.Reason = fleetv1alpha1.WorkDegraded, string(c.Type)
		s.Message = fmt.Sprintf("%s: %s", c.Reason, c.Message)
		if len(c.FailedNamespaces) > 0 {
			s.Message = fmt.Sprintf("%s: %s: %s", c.Reason, event.Names(c.FailedNamespaces), c.Message)
		}
		return
	}
}

// targetsIn reads the targets of a ResourceDistribution. In v1alpha1 the selector has a different name.
func targetsIn(o *unstructured.Unstructured) (appsv1beta1.ResourceDistributionTargets, error) {
	var t struct {
		appsv1beta1.ResourceDistributionTargets `json:",inline"`

		NamespaceLabelSelector metav1.LabelSelector `json:"namespaceLabelSelector"`
	}
	fields, _, err := unstructured.NestedMap(o.Object, "spec", "targets")
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(fields, &t)
	}
	if err != nil {
		return t.ResourceDistributionTargets, fmt.Errorf("read spec.targets of %s: %w", describe(o), err)
	}
	if o.GroupVersionKind().Version == "v1alpha1" {
		t.NamespaceSelector = t.NamespaceLabelSelector
	}
	return t.ResourceDistributionTargets, nil
}

// targetsOfResourceDistribution returns the namespaces that get copies.
func targetsOfResourceDistribution(want *unstructured.Unstructured) (targets, error) {
	t, err := targetsIn(want)
	if err != nil {
		return targets{}, err
	}
	excluded := namesOf(t.ExcludedNamespaces)
	return targets{
		named:    slices.DeleteFunc(namesOf(t.IncludedNamespaces), func(name string) bool { return slices.Contains(excluded, name) }),
		excluded: excluded,
		any:      t.AllNamespaces || len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) > 0,
	}, nil
}

func namesOf(list appsv1beta1.ResourceDistributionNamespaces) []string {
	out := make([]string, 0, len(list.List))
	for _, ns := range list.List {
		out = append(out, ns.Name)
	}
	return out
}

// shrinksResourceDistribution returns the first field whose change may delete copies. A different selector may match fewer namespaces.
func shrinksResourceDistribution(want, live *unstructured.Unstructured) string {
	is, err := targetsIn(want)
	was, err2 := targetsIn(live)
	switch {
	case err != nil || err2 != nil:
		return "spec.targets"
	case slices.ContainsFunc(namesOf(is.ExcludedNamespaces), func(name string) bool { return !slices.Contains(namesOf(was.ExcludedNamespaces), name) }):
		return "spec.targets.excludedNamespaces"
	case is.AllNamespaces:
		return ""
	case was.AllNamespaces:
		return "spec.targets.allNamespaces"
	case slices.ContainsFunc(namesOf(was.IncludedNamespaces), func(name string) bool { return !slices.Contains(namesOf(is.IncludedNamespaces), name) }):
		return "spec.targets.includedNamespaces"
	case !equality.Semantic.DeepEqual(is.NamespaceSelector, was.NamespaceSelector) &&
		len(was.NamespaceSelector.MatchLabels)+len(was.NamespaceSelector.MatchExpressions) > 0:
		return "spec.targets.namespaceSelector"
	}
	return ""
}

// lowersNothing is for kinds without numbers: in a namespace that is closed to the hub, no change passes.
func lowersNothing(_, _ *unstructured.Unstructured) bool { return false }
