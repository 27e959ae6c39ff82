package united

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func TestPercentagesAreValidatedTogether(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, a, b string
		total      int32
		want       string
	}{
		{"halves of an odd total fit, although each rounds up alone", "50%", "50%", 7, ""},
		{"more than 100% is invalid, even where few replicas hide it", "60%", "60%", 4, "percentages add up to 120%: lower them to 100% in total"},
		{"less than 100% fits where rounding makes up for it", "50%", "49%", 10, ""},
		{"less than 100% is invalid where rounding doesn't", "50%", "40%", 10, "subsets ask for 9 of 10 replicas"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ud := &appsv1beta1.UnitedDeployment{Spec: appsv1beta1.UnitedDeploymentSpec{
				Replicas: &tc.total,
				Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{
					{Name: "a", Replicas: new(intstr.FromString(tc.a))}, {Name: "b", Replicas: new(intstr.FromString(tc.b))},
				}},
			}}
			faults := validateNumbers(ud, field.NewPath("spec", "topology", "subsets"))
			if tc.want == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.ErrorContains(t, faults[0], tc.want)
		})
	}
}
