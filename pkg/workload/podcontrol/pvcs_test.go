package podcontrol

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestCreatePVCs(t *testing.T) {
	t.Parallel()
	free := func() *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: "data-web-0", Namespace: "shop"}}
	}
	owned := func(by types.UID) *corev1.PersistentVolumeClaim {
		return &corev1.PersistentVolumeClaim{ObjectMeta: meta("data-web-0", by)}
	}
	for _, tc := range []struct {
		name     string
		want     *corev1.PersistentVolumeClaim
		existing []client.Object
		err      error
	}{
		{"a missing PVC is created", free(), nil, nil},
		{"an existing PVC without a controller is kept", free(), []client.Object{free()}, nil},
		{"an existing PVC of another owner is kept", free(), []client.Object{owned("other")}, nil},
		{"a PVC that is deleted with its owner must be controlled by that owner", owned(owner), []client.Object{owned("other")}, ErrTaken},
		{"and by no one else", owned(owner), []client.Object{free()}, ErrTaken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, c := writer(interceptor.Funcs{}, tc.existing...)
			got := w.CreatePVCs(t.Context(), owner, []*corev1.PersistentVolumeClaim{tc.want})
			require.ErrorIs(t, got.Err, tc.err)
			if tc.err != nil {
				require.ErrorContains(t, got.Err, "create PVC data-web-0")
				return
			}
			require.Equal(t, []string{"data-web-0"}, got.Done)
			require.Equal(t, 1, waits(w), "the next reconcile waits for the cache to show it")
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(tc.want), &corev1.PersistentVolumeClaim{}))
		})
	}
}
