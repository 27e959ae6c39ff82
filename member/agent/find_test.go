package agent

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestAKindIsDefinedOnlyByACRDOfItsGroup(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	crd := func(group string) *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{
			ObjectMeta: metav1.ObjectMeta{Name: "widgets." + group},
			Spec: apiextensionsv1.CustomResourceDefinitionSpec{
				Group: group, Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget"},
			},
		}
	}
	f := finder{reader: fake.NewClientBuilder().WithScheme(scheme).WithObjects(crd("shop.example.com")).Build()}
	for group, want := range map[string]string{
		"shop.example.com": "its CRD widgets.shop.example.com exists",
		"example.com":      "", // The CRD's name ends with it.
	} {
		why, err := f.definedBy(t.Context(), schema.GroupKind{Group: group, Kind: "Widget"})
		require.NoError(t, err)
		require.Equal(t, want, why, group)
	}
}
