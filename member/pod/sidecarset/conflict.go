package sidecarset

import (
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// conflicts returns the faults that arise when a pod is selected by this SidecarSet and by one of the others.
func conflicts(s *appsv1beta1.SidecarSet, others []appsv1beta1.SidecarSet) field.ErrorList {
	var faults field.ErrorList
	for i := range others {
		o := &others[i]
		if o.Name != s.Name && o.DeletionTimestamp == nil && overlap(s, o) {
			faults = append(faults, conflictsWith(s, o)...)
		}
	}
	return faults
}

// overlap reports whether one pod could get the sidecars of both.
func overlap(a, b *appsv1beta1.SidecarSet) bool {
	if baseOf(a) == b.Name || baseOf(b) == a.Name || emptySelector(a.Spec.Selector) || emptySelector(b.Spec.Selector) {
		return false
	}
	return ownership.Overlapping(a.Spec.NamespaceSelector, b.Spec.NamespaceSelector) && ownership.Overlapping(a.Spec.Selector, b.Spec.Selector)
}

const conflictHint = "both may select the same pod: change one of them, or its selector"

func conflictsWith(s, other *appsv1beta1.SidecarSet) field.ErrorList {
	var faults field.ErrorList
	path := field.NewPath("spec")
	taken := map[string]bool{}
	for _, name := range resolveNames(injection{set: other, spec: &other.Spec}).containers {
		taken[name] = true
	}
	for list, containers := range containerLists(&s.Spec) {
		for i := range containers {
			one := appsv1beta1.SidecarSetSpec{Containers: containers[i : i+1]}
			if slices.ContainsFunc(resolveNames(injection{set: s, spec: &one}).containers, func(name string) bool { return taken[name] }) {
				faults = append(faults, field.Invalid(path.Child(list).Index(i).Child("name"), containers[i].Name,
					fmt.Sprintf("SidecarSet %s has a container with this name, and %s", other.Name, conflictHint)))
			}
		}
	}
	for i := range s.Spec.Volumes {
		v := &s.Spec.Volumes[i]
		same := func(o corev1.Volume) bool { return o.Name == v.Name && !apiequality.Semantic.DeepEqual(&o, v) }
		if slices.ContainsFunc(other.Spec.Volumes, same) {
			faults = append(faults, field.Invalid(path.Child("volumes").Index(i).Child("name"), v.Name,
				fmt.Sprintf("SidecarSet %s has a different volume with this name, and %s", other.Name, conflictHint)))
		}
	}
	return append(faults, patchConflicts(s, other)...)
}

// patchConflicts returns a fault for each annotation that both patch, at least one of them with Overwrite.
func patchConflicts(s, other *appsv1beta1.SidecarSet) field.ErrorList {
	var faults field.ErrorList
	theirs := map[string]appsv1beta1.SidecarSetPatchPolicy{}
	for _, p := range other.Spec.PatchPodMetadata {
		for key := range p.Annotations {
			theirs[key] = p.PatchPolicy
		}
	}
	for i, p := range s.Spec.PatchPodMetadata {
		for _, key := range slices.Sorted(maps.Keys(p.Annotations)) {
			policy, both := theirs[key]
			if both && (policy == appsv1beta1.SidecarSetOverwrite || p.PatchPolicy == appsv1beta1.SidecarSetOverwrite) {
				faults = append(faults, field.Invalid(field.NewPath("spec", "patchPodMetadata").Index(i).Child("annotations").Key(key), p.Annotations[key],
					fmt.Sprintf("SidecarSet %s also patches it, one of them with Overwrite, and %s", other.Name, conflictHint)))
			}
		}
	}
	return faults
}
