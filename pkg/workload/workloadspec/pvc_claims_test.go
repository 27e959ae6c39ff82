package workloadspec

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"
)

func TestClaimTemplates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ name, spec, want string }{
		{name: "complete", spec: `{accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}`},
		{
			name: "no access modes", spec: `{resources: {requests: {storage: 1Gi}}}`,
			want: "spec.volumeClaimTemplates[0].spec.accessModes: Required value: a PVC needs at least one, such as ReadWriteOnce",
		},
		{
			name: "no size", spec: `{accessModes: [ReadWriteOnce]}`,
			want: "spec.volumeClaimTemplates[0].spec.resources.requests[storage]: Required value: a PVC needs a size, such as 1Gi",
		},
		{name: "a size of 0", spec: `{accessModes: [ReadWriteOnce], resources: {requests: {storage: 0}}}`, want: "requests[storage]: Required value"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := corev1.PersistentVolumeClaim{}
			require.NoError(t, yaml.UnmarshalStrict([]byte(tc.spec), &c.Spec))
			faults := ClaimTemplates([]corev1.PersistentVolumeClaim{c}, field.NewPath("spec", "volumeClaimTemplates"))
			if tc.want == "" {
				require.Empty(t, faults)
				return
			}
			require.Len(t, faults, 1)
			require.ErrorContains(t, faults.ToAggregate(), tc.want)
		})
	}
}
