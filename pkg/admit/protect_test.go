package admit

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestDeletionProtectionIsWarnedAbout(t *testing.T) {
	t.Parallel()
	bare := &corev1.ConfigMap{}
	always, cascading := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	always.Labels = map[string]string{keys.DeleteProtection: "Always"}
	cascading.Labels = map[string]string{keys.DeleteProtection: "Cascading"}
	finalized, changed, labelled, changedBare := always.DeepCopy(), always.DeepCopy(), always.DeepCopy(), bare.DeepCopy()
	finalized.Finalizers, finalized.ResourceVersion = []string{"example.com/hold"}, "2"
	changed.Generation, changedBare.Generation = 2, 2 // The apiserver counts changes of the spec before it validates them.
	labelled.Labels["tier"] = "web"
	for _, tc := range []struct {
		name    string
		old, is *corev1.ConfigMap // old nil: it is made
		warned  string
	}{
		{"an object that is made without it", nil, bare, ""},
		{"an object that is made with it", nil, always, "Always is not served yet and protects nothing"},
		{"one that gets it", bare, always, "Always is not served yet and protects nothing"},
		{"one that gets another value", always, cascading, "Cascading is not served yet and protects nothing"},
		{"one that has it already and is written for no change of its own", always, finalized, ""},
		{"one that has it already and gets another spec", always, changed, "Always is not served yet and protects nothing"},
		{"one that has it already and gets another label", always, labelled, "Always is not served yet and protects nothing"},
		{"a change of one without it", bare, changedBare, ""},
		{"one that loses it", always, bare, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			u := unprotected[*corev1.ConfigMap]{kind{}}
			warnings, err := u.ValidateCreate(t.Context(), tc.is)
			if tc.old != nil {
				warnings, err = u.ValidateUpdate(t.Context(), tc.old, tc.is)
			}
			require.NoError(t, err)
			require.Equal(t, "consider a Secret", warnings[0], "the kind's own warnings stay")
			if tc.warned == "" {
				require.Len(t, warnings, 1)
				return
			}
			require.Len(t, warnings, 2)
			require.Contains(t, warnings[1], tc.warned)
		})
	}
}

func TestUnprotectedNamesTheLabelInATemplate(t *testing.T) {
	t.Parallel()
	require.Equal(t, admission.Warnings{"spec.template.cloneSetTemplate.metadata.labels[policy.kruise.io/delete-protection]: " +
		"Cascading is not served yet and protects nothing: a delete deletes the object and its pods"},
		Unprotected(map[string]string{keys.DeleteProtection: "Cascading"}, field.NewPath("spec", "template", "cloneSetTemplate")))
	require.Empty(t, Unprotected(nil, nil))
}
