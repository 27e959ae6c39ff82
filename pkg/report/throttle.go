package report

import (
	"context"
	"sync"
	"time"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/event"
)

// countsInterval is the shortest time between two writes of a status that differ in pod counts only. While many pods
// start, each reconcile would count one more, and the status would take as many writes as the pods.
const countsInterval = time.Second

// Throttle remembers when the status of an object was last written. The zero value is ready; it may be used concurrently.
type Throttle struct {
	last sync.Map // time.Time by types.NamespacedName
}

// left returns how long a write of counts has to wait; 0 means not at all.
func (t *Throttle) left(key types.NamespacedName, now time.Time) time.Duration {
	wrote, _ := t.last.Load(key)
	last, ok := wrote.(time.Time)
	if !ok {
		return 0
	}
	return max(last.Add(countsInterval).Sub(now), 0)
}

// Forget drops what is known about an object that is gone.
func (t *Throttle) Forget(key types.NamespacedName) { t.last.Delete(key) }

// Write calls Writer.Write. countsOnly: the statuses differ in counts only. Then the write may be delayed, and later is when the
// caller has to try again. The events are sent in any case.
func (t *Throttle) Write(
	ctx context.Context, w Writer, o client.Object, old, is any, countsOnly bool, now time.Time, events []event.Event,
) (later time.Duration, err error) {
	key := client.ObjectKeyFromObject(o)
	if countsOnly && !apiequality.Semantic.DeepEqual(old, is) {
		if later = t.left(key, now); later > 0 {
			is = old
		}
	}
	wrote, err := w.Write(ctx, o, old, is, events)
	if wrote {
		t.last.Store(key, now)
	}
	return later, err
}
