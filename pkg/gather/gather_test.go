package gather

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
)

// waits records how long each request waits.
type waits struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]

	of []time.Duration
}

func (w *waits) Add(ctrl.Request)                         { w.of = append(w.of, 0) }
func (w *waits) AddAfter(_ ctrl.Request, d time.Duration) { w.of = append(w.of, d) }

func TestEventsWaitWhenReconcilesTakeMoreThanTheirShare(t *testing.T) {
	t.Parallel()
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	toWeb := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: web}}
	})
	type reconcile struct{ after, took time.Duration }
	for _, tc := range []struct {
		name string
		took []reconcile
		want time.Duration
	}{
		{name: "before the first reconcile nothing waits"},
		{name: "events of a quiet object don't wait", took: []reconcile{{0, 160 * time.Millisecond}}},
		{name: "nor do those of one of which a pod is replaced at a time", took: slices.Repeat([]reconcile{{90 * time.Millisecond, 6 * time.Millisecond}}, 40)},
		{name: "events of a busy one do", took: []reconcile{{0, 400 * time.Millisecond}, {0, 20 * time.Millisecond}}, want: 40 * time.Millisecond},
		{
			name: "each reconcile counts", took: []reconcile{{0, 400 * time.Millisecond}, {0, 20 * time.Millisecond}, {20 * time.Millisecond, 10 * time.Millisecond}},
			want: 140 * time.Millisecond,
		},
		{name: "no event waits for long", took: []reconcile{{0, time.Hour}}, want: longest},
		{name: "what a slow one took is not held against the object for long", took: []reconcile{{0, time.Hour}, {longest, 0}}},
		{name: "time that was not used is saved", took: []reconcile{{0, 400 * time.Millisecond}, {time.Second, 40 * time.Millisecond}}},
		{
			name: "for five seconds", took: []reconcile{{0, 400 * time.Millisecond}, {time.Hour, 400 * time.Millisecond}, {0, 20 * time.Millisecond}},
			want: 40 * time.Millisecond,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var e Events
			clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			for _, r := range tc.took {
				clock.Step(r.after)
				e.Took(web, r.took, clock.Now())
			}
			e.Took(types.NamespacedName{Namespace: "shop", Name: "db"}, time.Hour, clock.Now())
			h, q, pod := e.Handler(toWeb, clock), &waits{}, &corev1.Pod{}
			h.Create(t.Context(), event.CreateEvent{Object: pod}, q)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, q)
			h.Delete(t.Context(), event.DeleteEvent{Object: pod}, q)
			h.Generic(t.Context(), event.GenericEvent{Object: pod}, q)
			require.Equal(t, []time.Duration{tc.want, tc.want, tc.want, tc.want}, q.of)

			h.Create(t.Context(), event.CreateEvent{Object: pod, IsInInitialList: true}, q)
			require.Zero(t, q.of[4], "the first list never waits")
			e.Forget(web)
			require.Zero(t, e.Wait(web, clock.Now()))
		})
	}
}
