package ownership

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
)

// Overlapping reports whether an object could match both selectors; here nil matches every object, like an empty selector.
func Overlapping(a, b *metav1.LabelSelector) bool {
	for _, v := range valuesOf(a, b) {
		if v.absent && v.present || v.present && v.only != nil && v.only.Difference(v.not).Len() == 0 {
			return false
		}
	}
	return true
}

// values are the values that a label may have.
type values struct {
	// present and absent: the label must, or must not, exist.
	present, absent bool
	// only are the values that the label may have, nil for any; not are the values that it must not have.
	only, not sets.Set[string]
}

// valuesOf returns what the selectors together require of each label.
func valuesOf(selectors ...*metav1.LabelSelector) map[string]*values {
	out := map[string]*values{}
	entry := func(key string) *values {
		if out[key] == nil {
			out[key] = &values{not: sets.New[string]()}
		}
		return out[key]
	}
	in := func(v *values, some sets.Set[string]) {
		v.present = true
		if v.only == nil {
			v.only = some
		} else {
			v.only = v.only.Intersection(some)
		}
	}
	for _, s := range selectors {
		if s == nil {
			continue
		}
		for key, value := range s.MatchLabels {
			in(entry(key), sets.New(value))
		}
		for _, e := range s.MatchExpressions {
			v := entry(e.Key)
			switch e.Operator {
			case metav1.LabelSelectorOpIn:
				in(v, sets.New(e.Values...))
			case metav1.LabelSelectorOpNotIn:
				v.not.Insert(e.Values...)
			case metav1.LabelSelectorOpExists:
				v.present = true
			case metav1.LabelSelectorOpDoesNotExist:
				v.absent = true
			}
		}
	}
	return out
}
