package control

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

// recordingQueue records how long each request waits.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]

	delays []time.Duration
}

func (w *recordingQueue) Add(ctrl.Request) { w.delays = append(w.delays, 0) }

func (w *recordingQueue) AddAfter(_ ctrl.Request, d time.Duration) { w.delays = append(w.delays, d) }

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
		{name: "no wait before the first reconcile"},
		{name: "no wait for an object with few events", took: []reconcile{{0, 160 * time.Millisecond}}},
		{name: "no wait for a workload that replaces one pod at a time", took: slices.Repeat([]reconcile{{90 * time.Millisecond, 6 * time.Millisecond}}, 40)},
		{name: "events of a busy object wait", took: []reconcile{{0, 400 * time.Millisecond}, {0, 20 * time.Millisecond}}, want: 40 * time.Millisecond},
		{
			name: "the durations of all reconciles are added up", took: []reconcile{{0, 400 * time.Millisecond}, {0, 20 * time.Millisecond}, {20 * time.Millisecond, 10 * time.Millisecond}},
			want: 140 * time.Millisecond,
		},
		{name: "the wait has an upper limit", took: []reconcile{{0, time.Hour}}, want: longest},
		{name: "one slow reconcile doesn't delay the object for long", took: []reconcile{{0, time.Hour}, {longest, 0}}},
		{name: "unused time is saved", took: []reconcile{{0, 400 * time.Millisecond}, {time.Second, 40 * time.Millisecond}}},
		{
			name: "for at most five seconds", took: []reconcile{{0, 400 * time.Millisecond}, {time.Hour, 400 * time.Millisecond}, {0, 20 * time.Millisecond}},
			want: 40 * time.Millisecond,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var b Batch
			clock := testingclock.NewFakeClock(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC))
			for _, r := range tc.took {
				clock.Step(r.after)
				b.Took(web, r.took, clock.Now())
			}
			b.Took(types.NamespacedName{Namespace: "shop", Name: "db"}, time.Hour, clock.Now())
			h, q, pod := b.Handler(toWeb, clock), &recordingQueue{}, &corev1.Pod{}
			h.Create(t.Context(), event.CreateEvent{Object: pod}, q)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, q)
			h.Delete(t.Context(), event.DeleteEvent{Object: pod}, q)
			h.Generic(t.Context(), event.GenericEvent{Object: pod}, q)
			require.Equal(t, []time.Duration{tc.want, tc.want, tc.want, tc.want}, q.delays)

			h.Create(t.Context(), event.CreateEvent{Object: pod, IsInInitialList: true}, q)
			require.Zero(t, q.delays[4], "events of the first list never wait")
			b.Forget(web)
			require.Zero(t, b.Wait(web, clock.Now()))
		})
	}
}
