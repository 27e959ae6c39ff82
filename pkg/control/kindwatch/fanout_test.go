package kindwatch

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// handlers is a cache with one informer, which counts its handlers.
type handlers struct {
	cache.Cache
	cache.Informer
	all map[*registration]toolscache.ResourceEventHandler
}

type registration struct {
	toolscache.ResourceEventHandlerRegistration
	_ int
}

func (h *handlers) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return h, nil
}

func (h *handlers) AddEventHandler(handler toolscache.ResourceEventHandler) (toolscache.ResourceEventHandlerRegistration, error) {
	handle := &registration{}
	h.all[handle] = handler
	return handle, nil
}

func (h *handlers) RemoveEventHandler(handle toolscache.ResourceEventHandlerRegistration) error {
	delete(h.all, handle.(*registration))
	return nil
}

func (h *handlers) update(before, after client.Object) {
	for _, handler := range h.all {
		handler.OnUpdate(before, after)
	}
}

func object(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func newFanout(h *handlers, there ...client.Object) *Fanout {
	return &Fanout{
		Cache: h, Object: &corev1.ConfigMap{}, Key: client.Object.GetNamespace,
		With: func(_ context.Context, namespace string) (out []client.Object, err error) {
			for _, o := range there {
				if o.GetNamespace() == namespace {
					out = append(out, o)
				}
			}
			return out, nil
		},
	}
}

func own(_ context.Context, before, after client.Object) []client.ObjectKey {
	if after == nil {
		after = before
	}
	return []client.ObjectKey{client.ObjectKeyFromObject(after)}
}

func newQueue(tb testing.TB) Queue {
	tb.Helper()
	q := workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](time.Hour, time.Hour))
	tb.Cleanup(q.ShutDown)
	return q
}

func drain(q Queue) (out []string) {
	for q.Len() > 0 {
		r, _ := q.Get()
		q.Done(r)
		out = append(out, r.String())
	}
	return out
}

func TestAFanoutHandsEachControllerTheChangesOfItsOwnKey(t *testing.T) {
	t.Parallel()
	h := &handlers{all: map[*registration]toolscache.ResourceEventHandler{}}
	f := newFanout(h, object("east", "a"), object("west", "b"))
	east, west, second := newQueue(t), newQueue(t), newQueue(t)
	ctx, cancel := context.WithCancel(t.Context())
	require.NoError(t, f.Follow(ctx, "east", east, own))
	require.NoError(t, f.Follow(ctx, "east", second, own))
	later, end := context.WithCancel(t.Context())
	require.NoError(t, f.Follow(later, "west", west, own))
	require.Len(t, h.all, 1, "the informer has one handler")
	require.Equal(t, []string{"east/a"}, drain(east), "existing objects come first")
	require.Equal(t, []string{"east/a"}, drain(second))
	require.Equal(t, []string{"west/b"}, drain(west))

	for _, handler := range h.all {
		handler.OnAdd(object("east", "new"), false)
		handler.OnUpdate(object("west", "b"), object("west", "b"))
		handler.OnDelete(toolscache.DeletedFinalStateUnknown{Obj: object("east", "a")})
		handler.OnAdd(object("north", "of nobody"), false)
	}
	require.Equal(t, []string{"east/new", "east/a"}, drain(east))
	require.Equal(t, []string{"east/new", "east/a"}, drain(second))
	require.Equal(t, []string{"west/b"}, drain(west))

	cancel()
	require.Eventually(t, func() bool {
		h.update(object("east", "a"), object("east", "a"))
		return len(drain(east))+len(drain(second)) == 0
	}, testtimeout.Scale(10*time.Second), time.Millisecond)
	h.update(object("west", "b"), object("west", "b"))
	require.Equal(t, []string{"west/b"}, drain(west))
	end()
	stopped := func() bool {
		f.mu.RLock()
		defer f.mu.RUnlock()
		return f.stop == nil
	}
	require.Eventually(t, stopped, testtimeout.Scale(10*time.Second), time.Millisecond)
	require.Empty(t, h.all, "nobody follows")
	require.NoError(t, f.Follow(t.Context(), "east", east, own))
	require.Len(t, h.all, 1)
	require.Equal(t, []string{"east/a"}, drain(east))
}

// BenchmarkChangeOfARow measures the cost of one change of a row, with two controllers for each of the members that share a cache.
func BenchmarkChangeOfARow(b *testing.B) {
	for _, members := range []int{10, 1000} {
		b.Run(fmt.Sprintf("members=%d", members), func(b *testing.B) {
			h := &handlers{all: map[*registration]toolscache.ResourceEventHandler{}}
			f, calls := newFanout(h), 0
			for i := range 2 * members {
				require.NoError(b, f.Follow(b.Context(), fmt.Sprintf("fleet-%d", i/2), newQueue(b), func(ctx context.Context, before, after client.Object) []client.ObjectKey {
					calls++
					return own(ctx, before, after)
				}))
			}
			row := object("fleet-7", "row")
			for b.Loop() {
				h.update(row, row)
			}
			b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
			b.ReportMetric(float64(len(h.all)), "handlers")
		})
	}
}
