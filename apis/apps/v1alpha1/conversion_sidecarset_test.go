package v1alpha1

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func named(namespace string) *metav1.LabelSelector {
	return &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}}
}

func TestSidecarSetToHub(t *testing.T) {
	t.Parallel()
	team := &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}}
	for _, tc := range []struct {
		name       string
		in         SidecarSet
		namespaces *metav1.LabelSelector
		version    string
		labels     map[string]string
	}{
		{name: "A namespace becomes a selector of its name.", in: SidecarSet{Spec: SidecarSetSpec{Namespace: "shop"}}, namespaces: named("shop")},
		{
			name: "A namespace takes precedence over a selector.",
			in:   SidecarSet{Spec: SidecarSetSpec{Namespace: "shop", NamespaceSelector: team}}, namespaces: named("shop"),
		},
		{name: "A selector stays.", in: SidecarSet{Spec: SidecarSetSpec{NamespaceSelector: team}}, namespaces: team},
		{
			name: "The label of the version becomes a field.",
			in: SidecarSet{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{
				keys.SidecarSetCustomVersion: "v1", "app": "web",
			}}},
			version: "v1", labels: map[string]string{"app": "web"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var out appsv1beta1.SidecarSet
			require.NoError(t, SidecarSetToHub(t.Context(), &tc.in, &out))
			require.Equal(t, tc.namespaces, out.Spec.NamespaceSelector)
			require.Equal(t, tc.version, out.Spec.CustomVersion)
			require.Equal(t, tc.labels, out.Labels)
		})
	}
}

func TestSidecarSetFromHub(t *testing.T) {
	t.Parallel()
	in := appsv1beta1.SidecarSet{Spec: appsv1beta1.SidecarSetSpec{NamespaceSelector: named("shop"), CustomVersion: "v1"}}
	var out SidecarSet
	require.NoError(t, SidecarSetFromHub(t.Context(), &in, &out))
	require.Empty(t, out.Spec.Namespace, "as in OpenKruise, a selector stays a selector")
	require.Equal(t, named("shop"), out.Spec.NamespaceSelector)
	require.Equal(t, map[string]string{keys.SidecarSetCustomVersion: "v1"}, out.Labels)
}

func TestASidecarSetOfV1alpha1KeepsWhatV1beta1CantHold(t *testing.T) {
	t.Parallel()
	in := SidecarSet{Spec: SidecarSetSpec{Namespace: "shop"}}
	var stored appsv1beta1.SidecarSet
	var out SidecarSet
	require.NoError(t, SidecarSetToHub(t.Context(), &in, &stored))
	require.NoError(t, SidecarSetFromHub(t.Context(), &stored, &out))
	require.Equal(t, in, out)

	stored.Spec.NamespaceSelector = named("bank")
	require.NoError(t, SidecarSetFromHub(t.Context(), &stored, &out))
	require.Empty(t, out.Spec.Namespace, "the selector was edited in the meantime")
	require.Equal(t, named("bank"), out.Spec.NamespaceSelector)
}
