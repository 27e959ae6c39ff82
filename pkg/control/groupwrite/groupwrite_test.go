package groupwrite

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var key = types.NamespacedName{Namespace: "shop", Name: "web"}

// store is an API server with one Deployment, whose status.replicas serve as a counter.
func store(t *testing.T) client.WithWatch {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(s))
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
	return fake.NewClientBuilder().WithScheme(s).WithObjects(web).WithStatusSubresource(web).Build()
}

func replicas(t *testing.T, r client.Reader) int32 {
	t.Helper()
	var d appsv1.Deployment
	require.NoError(t, r.Get(t.Context(), key, &d))
	return d.Status.Replicas
}

// takeReplica takes one unit if limit isn't reached, and reports in ok whether it could.
func takeReplica(limit int32, ok *bool) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool {
		if *ok = d.Status.Replicas < limit; *ok {
			d.Status.Replicas++
		}
		return *ok
	}
}

// newStaleWriter is a Writer whose writes are counted and whose cache never changes: the stalest possible one.
func newStaleWriter(t *testing.T, live client.WithWatch, writes *atomic.Int32) *Writer[appsv1.Deployment, *appsv1.Deployment] {
	t.Helper()
	var cached appsv1.Deployment
	require.NoError(t, live.Get(t.Context(), key, &cached))
	return New[appsv1.Deployment](interceptor.NewClient(live, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
			cached.DeepCopyInto(into.(*appsv1.Deployment))
			return nil
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			writes.Add(1)
			return c.SubResource(sub).Update(ctx, o, opts...)
		},
	}), live)
}

func TestAPanicIsAnErrorOfItsGroup(t *testing.T) {
	t.Parallel()
	live := store(t)
	w := New[appsv1.Deployment](live, live)
	err := w.Do(t.Context(), key, func(d *appsv1.Deployment) bool {
		d.Status.Replicas = 7
		panic("nil map")
	})
	require.EqualError(t, err, "write the status of shop/web: panic: nil map")
	require.Zero(t, replicas(t, live), "nothing is written")
	var ok bool
	require.NoError(t, w.Do(t.Context(), key, takeReplica(1, &ok)), "the next request works again")
	require.True(t, ok)
}

// TestManyReplicas has two replicas with stale caches, and another writer of the same status: together they take exactly what is available.
func TestManyReplicas(t *testing.T) {
	t.Parallel()
	const requests, limit = 500, 321
	live := store(t)
	var writes atomic.Int32
	writers := []*Writer[appsv1.Deployment, *appsv1.Deployment]{newStaleWriter(t, live, &writes), newStaleWriter(t, live, &writes)}
	var granted atomic.Int32
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			var ok bool
			if err := writers[i%2].Do(t.Context(), key, takeReplica(limit, &ok)); err != nil {
				t.Errorf("request %d: %v", i, err)
			} else if ok {
				granted.Add(1)
			}
		})
	}
	all.Wait()
	require.EqualValues(t, limit, granted.Load())
	require.EqualValues(t, limit, replicas(t, live))
}

func TestRequestsJoinTheNextWrite(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		live := store(t)
		var writes atomic.Int32
		began, end := make(chan struct{}), make(chan struct{})
		w := New[appsv1.Deployment](interceptor.NewClient(live, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				if writes.Add(1) == 1 {
					close(began)
					<-end
				}
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		}), live)
		var all sync.WaitGroup
		do := func() {
			var ok bool
			all.Go(func() { _ = w.Do(t.Context(), key, takeReplica(100, &ok)) })
		}
		do()
		<-began
		for range 20 {
			do()
		}
		synctest.Wait()
		close(end)
		all.Wait()
		require.EqualValues(t, 2, writes.Load())
		require.EqualValues(t, 21, replicas(t, live))

		require.Equal(t, 1, groupCount(w))
		clock.RealClock{}.Sleep(memory + time.Second) // In the time of the synctest bubble.
		synctest.Wait()
		require.Zero(t, groupCount(w), "an object without requests is forgotten")
	})
}

func groupCount(w *Writer[appsv1.Deployment, *appsv1.Deployment]) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.groups)
}

func TestNothingToWrite(t *testing.T) {
	t.Parallel()
	live := store(t)
	var writes atomic.Int32
	w := newStaleWriter(t, live, &writes)
	ok := true
	require.NoError(t, w.Do(t.Context(), key, takeReplica(0, &ok)))
	require.False(t, ok)
	require.Zero(t, writes.Load())
}

// TestOwnWriteIsNotReadBack has a cache that lags: the second request begins from the first one's write, without a conflict.
func TestOwnWriteIsNotReadBack(t *testing.T) {
	t.Parallel()
	live := store(t)
	var writes atomic.Int32
	w := newStaleWriter(t, live, &writes)
	for range 3 {
		var ok bool
		require.NoError(t, w.Do(t.Context(), key, takeReplica(2, &ok)))
	}
	require.EqualValues(t, 2, replicas(t, live))
	require.EqualValues(t, 2, writes.Load())
}

func TestErrors(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tc := range []struct {
		name    string
		funcs   interceptor.Funcs
		key     types.NamespacedName
		check   func(error) bool
		message string
	}{
		{name: "no such object", key: types.NamespacedName{Namespace: "shop", Name: "none"}, check: apierrors.IsNotFound, message: "get shop/none"},
		{
			name: "a write that fails", key: key, message: "write the status of shop/web: boom",
			funcs: interceptor.Funcs{SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
				return boom
			}},
			check: func(err error) bool { return errors.Is(err, boom) },
		},
		{
			name: "a read that fails", key: key, message: "get shop/web: boom",
			funcs: interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
				return boom
			}},
			check: func(err error) bool { return errors.Is(err, boom) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			live := store(t)
			var ok bool
			err := New[appsv1.Deployment](interceptor.NewClient(live, tc.funcs), live).Do(t.Context(), tc.key, takeReplica(1, &ok))
			require.True(t, tc.check(err), "%v", err)
			require.ErrorContains(t, err, tc.message)
		})
	}
}

// TestLostAnswer is a write that took effect but whose response was lost: the next one begins from the API server's state.
func TestLostAnswer(t *testing.T) {
	t.Parallel()
	live := store(t)
	lost := false
	w := New[appsv1.Deployment](interceptor.NewClient(live, interceptor.Funcs{
		SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
			err := c.SubResource(sub).Update(ctx, o, opts...)
			if !lost {
				lost = true
				return fmt.Errorf("response lost: %w", context.DeadlineExceeded)
			}
			return err
		},
	}), live)
	var ok bool
	require.Error(t, w.Do(t.Context(), key, takeReplica(2, &ok)))
	require.NoError(t, w.Do(t.Context(), key, takeReplica(2, &ok)))
	require.True(t, ok)
	require.NoError(t, w.Do(t.Context(), key, takeReplica(2, &ok)))
	require.False(t, ok, "the write whose response was lost counts")
}

func TestRequestThatIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		live := store(t)
		end := make(chan struct{})
		w := New[appsv1.Deployment](interceptor.NewClient(live, interceptor.Funcs{
			SubResourceUpdate: func(ctx context.Context, c client.Client, sub string, o client.Object, opts ...client.SubResourceUpdateOption) error {
				<-end
				return c.SubResource(sub).Update(ctx, o, opts...)
			},
		}), live)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var ok bool
		require.ErrorIs(t, w.Do(ctx, key, takeReplica(2, &ok)), context.DeadlineExceeded)
		close(end)
		synctest.Wait()
		require.EqualValues(t, 1, replicas(t, live), "its write is still in flight, and counts")
	})
}
