package hub

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestContentKey(t *testing.T) {
	t.Parallel()
	stored := func(key []byte) *corev1.Secret {
		return &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: "ours", Name: contentKeySecret},
			Data:       map[string][]byte{contentKeyField: key},
		}
	}
	full := bytes.Repeat([]byte{7}, contentKeySize)

	t.Run("the first replica creates the key, and the others read it", func(t *testing.T) {
		t.Parallel()
		c := fake.NewClientBuilder().Build()
		first, err := contentKey(t.Context(), c, c, "ours")
		require.NoError(t, err)
		require.Len(t, first, contentKeySize)
		second, err := contentKey(t.Context(), c, c, "ours")
		require.NoError(t, err)
		require.Equal(t, first, second)
	})
	t.Run("if two replicas create the key at the same time, the second uses the key of the first", func(t *testing.T) {
		t.Parallel()
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Create: func(ctx context.Context, c client.WithWatch, o client.Object, _ ...client.CreateOption) error {
				require.NoError(t, c.Create(ctx, stored(full)))
				return c.Create(ctx, o)
			},
		}).Build()
		key, err := contentKey(t.Context(), c, c, "ours")
		require.NoError(t, err)
		require.Equal(t, full, key)
	})
	t.Run("a short key is refused with a message that says what to do", func(t *testing.T) {
		t.Parallel()
		c := fake.NewClientBuilder().WithObjects(stored([]byte("short"))).Build()
		_, err := contentKey(t.Context(), c, c, "ours")
		require.ErrorContains(t, err, "content key ours/flotilla-content-key: its field key must have at least 32 bytes")
	})
	t.Run("no key is created while the Secret can't be read", func(t *testing.T) {
		t.Parallel()
		away := errors.New("apiserver is away")
		c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
			Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return away
			},
			Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
				t.Error("created a Secret")
				return nil
			},
		}).Build()
		_, err := contentKey(t.Context(), c, c, "ours")
		require.ErrorIs(t, err, away)
	})
}

func TestSchemeKnowsAllVersions(t *testing.T) {
	t.Parallel()
	s, err := Scheme()
	require.NoError(t, err)
	for _, o := range []client.Object{&appsv1beta1.UnitedDeployment{}, &appsv1alpha1.UnitedDeployment{}, &fleetv1alpha1.MemberCluster{}} {
		_, _, err := s.ObjectKinds(o)
		require.NoError(t, err)
	}
}

func TestRestrictKeepsSecretsOutOfTheCache(t *testing.T) {
	t.Parallel()
	o := Restrict(ctrl.Options{LeaderElectionID: "kept"})
	require.Equal(t, "kept", o.LeaderElectionID)
	require.IsType(t, &corev1.Secret{}, o.Client.Cache.DisableFor[0])
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}}
	out, err := o.Cache.DefaultTransform(pod)
	require.NoError(t, err)
	require.Empty(t, out.(*corev1.Pod).ManagedFields)
}
