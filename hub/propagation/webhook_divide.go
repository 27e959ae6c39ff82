package propagation

import (
	"fmt"
	"slices"
	"strings"

	validate "k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// validateDivision validates a division of replicas, and refuses fields that would interfere with it.
func validateDivision(spec *fleetv1alpha1.PropagationSpec, root *field.Path) field.ErrorList {
	faults := validateShares(spec.Replicas, root.Child("replicas", "shares"))
	for i, s := range spec.Selectors {
		if why := refusesDivision(kindOf(s).GroupKind()); why != "" {
			faults = append(faults, field.Forbidden(root.Child("selectors").Index(i).Child("kind"), why))
		}
	}
	for i, o := range spec.Overrides {
		if o.Kind != "" && !slices.ContainsFunc(dividedKinds(), func(k schema.GroupKind) bool { return k.Kind == o.Kind }) {
			continue
		}
		for j, p := range o.Patches {
			if p.Path == "/spec" || p.Path == "/spec/replicas" {
				faults = append(faults, field.Forbidden(root.Child("overrides").Index(i).Child("patches").Index(j).Child("path"),
					p.Path+": the Propagation divides the replicas: give the clusters shares, or restrict the override to another kind"))
			}
		}
	}
	if spec.Apply == nil {
		return faults
	}
	apply := root.Child("apply")
	for i, path := range spec.Apply.Ignore {
		if ignoresReplicas(path) {
			faults = append(faults, field.Forbidden(apply.Child("ignore").Index(i),
				path+": the Propagation divides the replicas, so a member can't leave them to others: remove this path, or its spec.replicas"))
		}
	}
	if spec.Apply.Adoption == fleetv1alpha1.AdoptOwnFields {
		faults = append(faults, field.Forbidden(apply.Child("adoption"),
			"OwnFields leaves replicas to other owners, but spec.replicas divides them: choose Full or IfEqual, or remove spec.replicas"))
	}
	return faults
}

// validateShares validates shares. at is the path of the list.
func validateShares(r *fleetv1alpha1.PropagationReplicas, at *field.Path) field.ErrorList {
	var faults field.ErrorList
	first, weighs := map[string]int{}, len(r.Shares) == 0
	for i, s := range r.Shares {
		weighs = weighs || s.Weight == nil || *s.Weight > 0
		for j, name := range s.Clusters {
			path := at.Index(i).Child("clusters").Index(j)
			for _, why := range validate.IsDNS1123Label(name) {
				faults = append(faults, field.Invalid(path, name, why))
			}
			if before, twice := first[name]; twice {
				faults = append(faults, field.Invalid(path, name, fmt.Sprintf(
					"shares[%d] lists it too, and the first one counts: remove %s from one of them", before, name)))
				continue
			}
			first[name] = i
		}
		faults = append(faults, metav1validation.ValidateLabelSelector(s.ClusterSelector,
			metav1validation.LabelSelectorValidationOptions{}, at.Index(i).Child("clusterSelector"))...)
	}
	if !weighs {
		faults = append(faults, field.Invalid(at, "weight: 0", "no cluster gets replicas if all weights are 0: give at least one a weight"))
	}
	return faults
}

// warnAboutShares warns about clusters that are selected by name and in no share, and about clusters in a share that are not selected.
func warnAboutShares(spec *fleetv1alpha1.PropagationSpec, at *field.Path) admission.Warnings {
	if !divides(spec) || len(spec.Replicas.Shares) == 0 || len(spec.Clusters.Names) == 0 {
		return nil
	}
	var without, unknown []string
	shared, byLabels := map[string]bool{}, false
	for _, s := range spec.Replicas.Shares {
		byLabels = byLabels || s.ClusterSelector != nil
		for _, name := range s.Clusters {
			if shared[name] = true; !slices.Contains(spec.Clusters.Names, name) {
				unknown = append(unknown, name)
			}
		}
	}
	for _, name := range spec.Clusters.Names {
		if !shared[name] && !byLabels {
			without = append(without, name)
		}
	}
	var out admission.Warnings
	if len(unknown) > 0 {
		out = append(out, fmt.Sprintf("%s: clusters not in clusters.names have no effect: %s", at.Child("shares"), strings.Join(unknown, ", ")))
	}
	if len(without) > 0 {
		out = append(out, fmt.Sprintf("%s: clusters in no share get no replicas: %s", at.Child("shares"), strings.Join(without, ", ")))
	}
	return out
}
