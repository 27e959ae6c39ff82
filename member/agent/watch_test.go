package agent

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

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
)

// informers counts the informers of a cache by kind.
type informers struct {
	cache.Cache
	byKind map[schema.GroupVersionKind]*controllertest.FakeInformer
}

func (i *informers) GetInformer(_ context.Context, o client.Object, _ ...cache.InformerGetOption) (cache.Informer, error) {
	gvk := o.GetObjectKind().GroupVersionKind()
	if i.byKind[gvk] == nil {
		i.byKind[gvk] = controllertest.NewFakeInformer(controllertest.Synced)
	}
	return i.byKind[gvk], nil
}

func (i *informers) RemoveInformer(_ context.Context, o client.Object) error {
	delete(i.byKind, o.GetObjectKind().GroupVersionKind())
	return nil
}

func TestAKindIsWatchedWhileARowHasAnObjectOfIt(t *testing.T) {
	t.Parallel()
	c := &informers{byKind: map[schema.GroupVersionKind]*controllertest.FakeInformer{}}
	w := newWatches(c)
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour))
	defer q.ShutDown()
	require.NoError(t, w.kinds.Source().Start(t.Context(), q))
	v1 := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}
	v2 := schema.GroupVersionKind{Group: "example.com", Version: "v2", Kind: "Widget"}
	row := func(name string) client.ObjectKey { return client.ObjectKey{Namespace: "fleet-east", Name: name} }
	follow := func(gvk schema.GroupVersionKind, name string) {
		t.Helper()
		require.NoError(t, w.follow(gvk, target{kind: gvk.GroupKind(), namespace: "shop", name: name}, row(name)))
	}
	watched := func(want ...schema.GroupVersionKind) {
		t.Helper()
		require.Equal(t, want, w.kinds.Kinds())
		require.Len(t, c.byKind, len(want))
	}
	queued := func() (out []string) {
		for q.Len() > 0 {
			r, _ := q.Get()
			q.Done(r)
			out = append(out, r.Name)
		}
		return out
	}
	all := map[schema.GroupKind][]string{v1.GroupKind(): {"v1", "v2"}}

	follow(v1, "a")
	follow(v1, "b")
	follow(v1, "a")
	watched(v1)
	require.True(t, w.kinds.Synced(v1))
	o := kindwatch.OfKind(v1)
	o.SetNamespace("shop")
	o.SetName("b")
	o.SetAnnotations(map[string]string{keys.FleetRowUID: "r"})
	c.byKind[v1].Add(o)
	require.Equal(t, []string{"b"}, queued(), "a change of an object enqueues its row")

	follow(v2, "b") // The hub now uses another version.
	watched(v1, v2)
	w.forget(row("a"))
	watched(v2)
	require.False(t, w.kinds.Synced(v1))
	w.forget(row("b"))
	require.Empty(t, w.kinds.Kinds(), "the watch of a kind ends with its last row")
	require.Empty(t, c.byKind)

	follow(v1, "c")
	w.awaitKind(v2, row("d"), false)
	watched(v1)
	w.wakeRows(nil, map[string]bool{"example.com": true})
	require.Empty(t, queued(), "nothing is known about a group that does not answer")
	watched(v1)
	w.wakeRows(all, nil)
	require.Equal(t, []string{"d"}, queued(), "a row whose kind is served now is enqueued")
	w.wakeRows(all, nil)
	require.Equal(t, []string{"d"}, queued(), "a row is enqueued until it has been reconciled")
	w.wakeRows(map[schema.GroupKind][]string{v1.GroupKind(): {"v3"}}, nil)
	require.ElementsMatch(t, []string{"c", "d"}, queued(), "rows are enqueued if their kind is no longer served or its versions changed")
	w.awaitKind(v2, row("d"), false)
	w.wakeRows(map[schema.GroupKind][]string{v1.GroupKind(): {"v3"}}, nil)
	require.Empty(t, queued(), "a row waits while nothing changes")
	w.awaitKind(v2, row("d"), true)
	w.wakeRows(nil, nil)
	w.wakeRows(nil, nil)
	require.Equal(t, []string{"d"}, queued()[:1], "a withdrawn row waits for its CRD to be deleted, which changes no served version")
	require.Empty(t, w.kinds.Kinds(), "a kind that is not served is not watched")
	follow(v1, "c")
	watched(v1)
	w.awaitKind(v1, row("c"), false)
	require.Empty(t, w.kinds.Kinds())
	follow(v1, "c")
	follow(v2, "d")
	w.wakeRows(all, nil)
	require.Empty(t, queued(), "no row waits any longer")
}
