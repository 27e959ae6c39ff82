package kindwatch

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllertest"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// informers counts the informers of a cache by kind.
type informers struct {
	cache.Cache
	running map[schema.GroupVersionKind]*controllertest.FakeInformer
}

func (i *informers) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	i.running[o.GetObjectKind().GroupVersionKind()] = controllertest.NewFakeInformer(controllertest.Synced)
	return i.running[o.GetObjectKind().GroupVersionKind()], nil
}

func (i *informers) RemoveInformer(_ context.Context, o client.Object) error {
	delete(i.running, o.GetObjectKind().GroupVersionKind())
	return nil
}

func TestEachKindIsWatchedFromTheFirstWhoFollowsItToTheLast(t *testing.T) {
	t.Parallel()
	c := &informers{running: map[schema.GroupVersionKind]*controllertest.FakeInformer{}}
	w := New(c, func(_ context.Context, before, after client.Object) (out []client.ObjectKey) {
		for state, o := range map[string]client.Object{"was": before, "is": after} {
			if o != nil {
				out = append(out, client.ObjectKey{Namespace: state, Name: o.GetName()})
			}
		}
		return out
	})
	kind := func(name string) schema.GroupVersionKind {
		return schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: name}
	}
	a, b, x, y, z := client.ObjectKey{Name: "a"}, client.ObjectKey{Name: "b"}, kind("X"), kind("Y"), kind("Z")
	require.NoError(t, w.Follow(a, x))
	w.Enqueue(a)
	require.Empty(t, w.Kinds(), "no watch before the start")

	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour))
	defer q.ShutDown()
	require.NoError(t, w.Source().Start(t.Context(), q))
	queued := func() (out []string) {
		for q.Len() > 0 {
			r, _ := q.Get()
			q.Done(r)
			out = append(out, r.String())
		}
		return out
	}
	require.Empty(t, queued())
	watched := func(want ...schema.GroupVersionKind) {
		t.Helper()
		require.Equal(t, want, w.Kinds())
		require.Len(t, c.running, len(want))
	}
	require.NoError(t, w.Follow(a, x, y))
	require.NoError(t, w.Follow(b, y, z))
	watched(x, y, z)
	require.True(t, w.Synced(x))
	one, two := OfKind(y), OfKind(y)
	one.SetName("one")
	two.SetName("two")
	c.running[y].Add(one)
	require.Equal(t, []string{"is/one"}, queued())
	c.running[y].Update(one, two)
	require.ElementsMatch(t, []string{"was/one", "is/two"}, queued(), "a follower that an object no longer concerns is told too")
	c.running[y].Delete(two)
	require.Equal(t, []string{"was/two"}, queued())
	w.Wake(y)
	require.ElementsMatch(t, []string{"/a", "/b"}, queued())

	require.NoError(t, w.Follow(a, y))
	watched(y, z)
	require.False(t, w.Synced(x))
	w.Stop(y)
	watched(z)
	require.NoError(t, w.Follow(a, y))
	watched(y, z)
	w.Forget(b)
	watched(y)
	w.Forget(a)
	require.Empty(t, w.Kinds())
	require.Empty(t, c.running)
}
