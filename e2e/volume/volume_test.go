package volume

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func pvc(class string, annotations map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "data-db-0", UID: "1", Annotations: annotations},
		Spec: corev1.PersistentVolumeClaimSpec{
			StorageClassName: &class,
			Resources:        corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}},
		},
	}
}

func TestPVCGetsAFolderOnTheNodeOfItsPod(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		pvc  *corev1.PersistentVolumeClaim
		want []string
	}{
		{"on the node that the scheduler has chosen", pvc(Class, map[string]string{node: "node-2"}), []string{"node-2"}},
		{"not before", pvc(Class, nil), nil},
		{"but not in another class", pvc("fast", map[string]string{node: "node-2"}), nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(tc.pvc).Build()
			for range 2 { // The second time, nothing changes.
				require.NoError(t, sync(t.Context(), c))
			}
			volumes := &corev1.PersistentVolumeList{}
			require.NoError(t, c.List(t.Context(), volumes))
			var got []string
			for _, v := range volumes.Items {
				require.Equal(t, Folders+"/1", v.Spec.HostPath.Path)
				got = append(got, v.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0].Values...)
			}
			require.Equal(t, tc.want, got)
		})
	}
}

func TestPVCIsExpandedWithItsVolumeAndAVolumeIsDeletedWithItsPVC(t *testing.T) {
	t.Parallel()
	bound := pvc(Class, map[string]string{node: "node-2"})
	v := folder(bound)
	v.Status.Phase = corev1.VolumeBound
	bound.Spec.VolumeName = v.Name
	bound.Status = corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound, Capacity: v.Spec.Capacity.DeepCopy()}
	bound.Spec.Resources.Requests[corev1.ResourceStorage] = resource.MustParse("2Gi")
	c := fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).WithObjects(bound, v).WithStatusSubresource(bound, v).Build()
	require.NoError(t, sync(t.Context(), c))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(v), v))
	require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(bound), bound))
	require.Equal(t, "2Gi", v.Spec.Capacity.Storage().String())
	require.Equal(t, "2Gi", bound.Status.Capacity.Storage().String())

	require.NoError(t, c.Delete(t.Context(), bound))
	v.Status.Phase = corev1.VolumeReleased
	require.NoError(t, c.Status().Update(t.Context(), v))
	require.NoError(t, sync(t.Context(), c))
	volumes := &corev1.PersistentVolumeList{}
	require.NoError(t, c.List(t.Context(), volumes))
	require.Empty(t, volumes.Items)
}
