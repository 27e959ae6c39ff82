package placement

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Selected are the clusters of an object without subsets: those that one of All, Names and Selector selects, except those in Excluded. The
// types of such kinds have the same fields, and can be converted to it.
type Selected struct {
	All      bool
	Names    []string
	Selector *metav1.LabelSelector
	Excluded []string
}

// Where returns where the object is placed. It includes excluded clusters.
func (s Selected) Where() []Where {
	switch {
	case s.All:
		return []Where{{Selector: &metav1.LabelSelector{}}}
	case s.Selector != nil:
		return []Where{{Selector: s.Selector}}
	}
	out := make([]Where, 0, len(s.Names))
	for _, name := range s.Names {
		out = append(out, Where{Cluster: name})
	}
	return out
}

// Clusters returns the names of the clusters, sorted. matching returns the clusters whose labels match.
func (s Selected) Clusters(matching func(labels.Selector) []string) []string {
	names := slices.Clone(s.Names)
	switch {
	case s.All:
		names = matching(labels.Everything())
	case s.Selector != nil:
		by, err := metav1.LabelSelectorAsSelector(s.Selector)
		if err != nil { // Admission refuses it.
			by = labels.Nothing()
		}
		names = matching(by)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(s.Excluded, name) })
	slices.Sort(names)
	return slices.Compact(names)
}

// At returns a function for Words that returns the path of the i-th Where in the object. path is the path of the field with the clusters.
func (s Selected) At(path *field.Path) func(i int) *field.Path {
	return func(i int) *field.Path {
		switch {
		case s.All:
			return path.Child("all")
		case s.Selector != nil:
			return path.Child("selector")
		default:
			return path.Child("names").Index(i)
		}
	}
}

// Validate validates names and labels. path is the path of the field with the clusters.
func (s Selected) Validate(path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for _, list := range []struct {
		names []string
		path  *field.Path
	}{{s.Names, path.Child("names")}, {s.Excluded, path.Child("excluded")}} {
		for i, name := range list.names {
			for _, why := range content.IsDNS1123Label(name) {
				faults = append(faults, field.Invalid(list.path.Index(i), name, why))
			}
		}
	}
	for i, name := range s.Names {
		if slices.Contains(s.Excluded, name) {
			faults = append(faults, field.Invalid(path.Child("names").Index(i), name, fmt.Sprintf("excluded lists it too: remove %s from one of the two", name)))
		}
	}
	return append(faults, metav1validation.ValidateLabelSelector(s.Selector,
		metav1validation.LabelSelectorValidationOptions{}, path.Child("selector"))...)
}
