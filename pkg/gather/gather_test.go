package gather

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
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

func TestEventsWaitForAMultipleOfTheReconcileTime(t *testing.T) {
	t.Parallel()
	web := types.NamespacedName{Namespace: "shop", Name: "web"}
	toWeb := handler.EnqueueRequestsFromMapFunc(func(context.Context, client.Object) []ctrl.Request {
		return []ctrl.Request{{NamespacedName: web}}
	})
	for _, tc := range []struct {
		name string
		took []time.Duration
		want time.Duration
	}{
		{name: "before the first reconcile nothing waits"},
		{name: "events of a small object don't wait", took: []time.Duration{20 * time.Microsecond}},
		{name: "events of a large one do", took: []time.Duration{8 * time.Millisecond}, want: 392 * time.Millisecond},
		{name: "the last reconcile counts", took: []time.Duration{12 * time.Millisecond, time.Millisecond}, want: 49 * time.Millisecond},
		{name: "no event waits for long", took: []time.Duration{time.Minute}, want: longest},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			var e Events
			for _, d := range tc.took {
				e.Took(web, d)
			}
			e.Took(types.NamespacedName{Namespace: "shop", Name: "db"}, time.Hour)
			h, q, pod := e.Handler(toWeb), &waits{}, &corev1.Pod{}
			h.Create(t.Context(), event.CreateEvent{Object: pod}, q)
			h.Update(t.Context(), event.UpdateEvent{ObjectOld: pod, ObjectNew: pod}, q)
			h.Delete(t.Context(), event.DeleteEvent{Object: pod}, q)
			h.Generic(t.Context(), event.GenericEvent{Object: pod}, q)
			require.Equal(t, []time.Duration{tc.want, tc.want, tc.want, tc.want}, q.of)

			h.Create(t.Context(), event.CreateEvent{Object: pod, IsInInitialList: true}, q)
			require.Zero(t, q.of[4], "the first list never waits")
			e.Forget(web)
			require.Zero(t, e.Wait(web))
		})
	}
}
