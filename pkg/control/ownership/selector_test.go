package ownership

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func expression(operator metav1.LabelSelectorOperator, values ...string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: operator, Values: values}}}
}

func matching(key, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

func TestOverlapping(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		a, b metav1.LabelSelector
		want bool
	}{
		{"other labels", matching("app", "web"), matching("tier", "front"), true},
		{"another value", matching("app", "web"), matching("app", "db"), false},
		{"a value in common", matching("app", "web"), expression(metav1.LabelSelectorOpIn, "web", "db"), true},
		{"no value in common", expression(metav1.LabelSelectorOpIn, "a", "b"), expression(metav1.LabelSelectorOpIn, "c"), false},
		{"all values excluded", expression(metav1.LabelSelectorOpIn, "a", "b"), expression(metav1.LabelSelectorOpNotIn, "b", "a"), false},
		{"one excluded", expression(metav1.LabelSelectorOpIn, "a", "b"), expression(metav1.LabelSelectorOpNotIn, "b"), true},
		{"exists and doesn't exist", expression(metav1.LabelSelectorOpExists), expression(metav1.LabelSelectorOpDoesNotExist), false},
		{"doesn't exist and excludes a value", expression(metav1.LabelSelectorOpDoesNotExist), expression(metav1.LabelSelectorOpNotIn, "a"), true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Overlapping(&tc.a, &tc.b))
			require.Equal(t, tc.want, Overlapping(&tc.b, &tc.a))
		})
	}
	one := matching("app", "web")
	require.True(t, Overlapping(nil, &one), "nil selects every object")
	require.True(t, Overlapping(nil, nil))
}
