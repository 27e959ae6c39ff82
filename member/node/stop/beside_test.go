package stop

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/fakecri"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

func podNamed(name string) ctrl.Request {
	return ctrl.Request{NamespacedName: types.NamespacedName{Namespace: "shop", Name: name}}
}

// started starts a controller like Complete does, and returns it with its queue.
func started(t *testing.T, r reconcile.Reconciler) (*beside, workqueue.TypedRateLimitingInterface[ctrl.Request]) {
	t.Helper()
	all, options := newBeside(r, clock.RealClock{}), queue()
	options.Reconciler, options.SkipNameValidation, options.CacheSyncTimeout = all, new(true), testtimeout.Scale(time.Minute)
	options.LogConstructor = func(*ctrl.Request) logr.Logger { return log.Log }
	c, err := controller.NewTypedUnmanaged("stop", options)
	require.NoError(t, err)
	queues := make(chan workqueue.TypedRateLimitingInterface[ctrl.Request], 1)
	require.NoError(t, c.Watch(all.source()))
	require.NoError(t, c.Watch(source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[ctrl.Request]) error {
		queues <- q
		return nil
	})))
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		end()
		require.NoError(t, <-ended)
		require.Eventually(t, func() bool {
			all.mu.Lock()
			defer all.mu.Unlock()
			return len(all.running) == 0
		}, testtimeout.Scale(time.Minute), time.Millisecond)
	})
	return all, <-queues
}

// continues reports whether a reconcile of a pod continues outside the workers, with or without another event meanwhile.
func (b *beside) continues(req ctrl.Request, again bool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	current := b.running[req]
	return current != nil && current.left && current.again == again
}

func TestAttack32PodsThatTakeLongToStopKeepNoOthersWaiting(t *testing.T) {
	t.Parallel()
	stopped := make(chan string, 1)
	_, q := started(t, reconcile.Func(func(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
		if req.Name != "victim" {
			<-ctx.Done() // A preStop hook that takes years.
			return ctrl.Result{}, ctx.Err()
		}
		stopped <- req.Name
		return ctrl.Result{}, nil
	}))
	for i := range 5 * workers {
		q.Add(podNamed(fmt.Sprint("slow-", i)))
	}
	q.Add(podNamed("victim"))
	require.Eventually(t, func() bool { return len(stopped) == 1 }, testtimeout.Scale(10*time.Second), time.Millisecond,
		"a pod of somebody else was not stopped")
}

// A long reconcile runs only once at a time, and again as its result requests.
func TestAReconcileThatLastsIsFollowedByItsResult(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ends   func(n int) (ctrl.Result, error)
		events int
	}{
		"an error is retried":       {func(int) (ctrl.Result, error) { return ctrl.Result{}, errors.New("no answer") }, 0},
		"a panic is an error":       {func(int) (ctrl.Result, error) { panic("nil map") }, 0},
		"a recheck":                 {func(int) (ctrl.Result, error) { return ctrl.Result{RequeueAfter: time.Millisecond}, nil }, 0},
		"an event while it lasted":  {func(int) (ctrl.Result, error) { return ctrl.Result{}, nil }, 1},
		"several events are merged": {func(int) (ctrl.Result, error) { return ctrl.Result{}, nil }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var mu sync.Mutex
			running, n := 0, 0
			begun, release := make(chan int, 100), make(chan struct{})
			all, q := started(t, reconcile.Func(func(ctx context.Context, _ ctrl.Request) (ctrl.Result, error) {
				mu.Lock()
				running++
				n++
				now, at := running, n
				mu.Unlock()
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					running--
				}()
				begun <- now
				select {
				case <-release:
				case <-ctx.Done():
				}
				if at > 1 {
					return ctrl.Result{}, nil
				}
				return tt.ends(at)
			}))
			web := podNamed("web")
			lasts := func(again bool) {
				require.Eventually(t, func() bool { return q.Len() == 0 && all.continues(web, again) }, testtimeout.Scale(time.Minute), time.Millisecond)
			}
			q.Add(web)
			require.Equal(t, 1, <-begun)
			lasts(false)
			for range tt.events {
				q.Add(web)
				lasts(true)
			}
			close(release)
			require.Equal(t, 1, <-begun, "never two at a time")
		})
	}
}

// A reconcile that ends soon returns its result to the controller.
func TestAReconcileThatEndsSoonReturnsItsResult(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, want := range []error{nil, broken} {
		b := newBeside(reconcile.Func(func(context.Context, ctrl.Request) (ctrl.Result, error) {
			return ctrl.Result{RequeueAfter: time.Hour}, want
		}), clocktesting.NewFakeClock(start))
		got, err := b.Reconcile(t.Context(), podNamed("web"))
		require.Equal(t, want, err)
		require.Equal(t, ctrl.Result{RequeueAfter: time.Hour}, got)
		require.Empty(t, b.running)
	}
}

// The hook of a container that has ended ends too, because a pod may be force-deleted while its hook waits for a server.
func TestAttack32AHookEndsWithItsContainer(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	server := fakecri.Start(t, dir+"/crio.sock", "cri-o")
	runtimes := cri.New(dir, "")
	t.Cleanup(runtimes.Close)
	require.NoError(t, runtimes.Refresh(t.Context()))
	clk := clocktesting.NewFakeClock(start)
	var sent testkit.Events
	pod := podOf(&corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: 1_000_000_000}}, 1_000_000_000*time.Second)
	id := server.Run(fakecri.Container{Name: "app", Pod: pod.UID})
	ended := make(chan error, 1)
	go func() {
		_, err := New(runtimes, clk, &sent).Stop(t.Context(), pod, Of(pod, &pod.Spec.Containers[0], id, "it is time"))
		ended <- err
	}()
	require.Eventually(t, func() bool { return clk.Waiters() == 2 }, testtimeout.Scale(time.Minute), time.Millisecond, "the hook and the check of the container")
	clk.Step(RecheckInterval)
	require.Eventually(t, func() bool { return clk.Waiters() == 2 }, testtimeout.Scale(time.Minute), time.Millisecond, "the container runs, and so does its hook")
	require.Empty(t, ended)
	server.End("app-1")
	clk.Step(RecheckInterval)
	require.Eventually(t, func() bool { return len(ended) == 1 }, testtimeout.Scale(10*time.Second), time.Millisecond,
		"the container has ended, and its hook has not")
	require.NoError(t, <-ended)
	require.Empty(t, server.Calls())
	require.Equal(t, []string{reasonKilling}, sent.Reasons())
}
