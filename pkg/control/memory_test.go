package control

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestMemoryIsOfOneObject(t *testing.T) {
	t.Parallel()
	object := func(name string, uid types.UID) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name, UID: uid}}
	}
	var m Memory[int]
	add := func(o client.Object) { m.Change(o, func(n *int) { *n++ }) }
	first, again, other := object("a", "1"), object("a", "2"), object("b", "3")
	require.Zero(t, m.Get(first))
	add(first)
	add(first)
	add(other)
	require.Equal(t, 2, m.Get(first))
	require.Zero(t, m.Get(again), "it was created again")
	add(again)
	require.Equal(t, 1, m.Get(again))
	require.Zero(t, m.Get(first))
	m.Forget(client.ObjectKeyFromObject(again))
	require.Zero(t, m.Get(again))
	require.Equal(t, 1, m.Get(other))
}
