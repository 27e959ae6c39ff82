package ownership

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// indexes accepts each index once, like the cache.
type indexes map[string]client.IndexerFunc

func (i indexes) IndexField(_ context.Context, o client.Object, field string, extract client.IndexerFunc) error {
	key := fmt.Sprintf("%T %s", o, field)
	switch {
	case i == nil:
		return errors.New("the cache is stopped")
	case i[key] != nil:
		return fmt.Errorf("indexer conflict: map[field:%s:{}]", field)
	}
	i[key] = extract
	return nil
}

func TestByNode(t *testing.T) {
	t.Parallel()
	i := indexes{}
	require.NoError(t, IndexByNode(t.Context(), i))
	require.NoError(t, IndexByNode(t.Context(), i), "a second controller may need the same index")
	require.Error(t, IndexByNode(t.Context(), indexes(nil)))
	nodeNames := i["*v1.Pod "+NodeIndex]
	require.Equal(t, []string{"node-1"}, nodeNames(&corev1.Pod{Spec: corev1.PodSpec{NodeName: "node-1"}}))
	require.Empty(t, nodeNames(&corev1.Pod{}), "an unscheduled pod isn't on any node")
}

func TestByOwner(t *testing.T) {
	t.Parallel()
	i := indexes{}
	require.NoError(t, IndexByOwner(t.Context(), i, &corev1.Pod{}))
	require.NoError(t, IndexByOwner(t.Context(), i, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}), "a second controller may need the same index")
	require.Len(t, i, 2)

	owners := i["*v1.Pod "+OwnerIndex]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
		{UID: "other"}, {UID: "controller", Controller: new(true)},
	}}}
	require.Equal(t, []string{"controller"}, owners(pod))
	require.Empty(t, owners(&corev1.Pod{}), "a pod without a controller isn't indexed")

	require.EqualError(t, IndexByOwner(t.Context(), indexes(nil), &corev1.Pod{}), "index *v1.Pod by owner: the cache is stopped")
}

func TestOwned(t *testing.T) {
	t.Parallel()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", UID: "owner"}}
	cached := (&client.ListOptions{}).ApplyOptions(OwnedBy(pod, false))
	require.Equal(t, "shop", cached.Namespace)
	require.Equal(t, OwnerIndex+"=owner", cached.FieldSelector.String())
	require.True(t, *cached.UnsafeDisableDeepCopy)
	live := (&client.ListOptions{}).ApplyOptions(OwnedBy(pod, true))
	require.Equal(t, client.ListOptions{Namespace: "shop"}, *live, "an API server has no such index")
}
