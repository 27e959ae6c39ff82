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

// countsEvery is how often a status is written that differs in counters of pods only. While many pods start, each reconcile
// would count one more, and the status would cost as many writes as the pods.
const countsEvery = time.Second

// Throttle remembers when the status of an object was last written. The zero value is ready; it may be used concurrently.
type Throttle struct {
	last sync.Map // time.Time by types.NamespacedName
}

// left is how long a write of counters alone has to wait; 0 means that it may be done.
func (p *Throttle) left(key types.NamespacedName, now time.Time) time.Duration {
	wrote, _ := p.last.Load(key)
	last, ok := wrote.(time.Time)
	if !ok {
		return 0
	}
	return max(last.Add(countsEvery).Sub(now), 0)
}

// Forget drops what is known of an object that is gone.
func (p *Throttle) Forget(key types.NamespacedName) { p.last.Delete(key) }

// Write is Writer.Write. If countsOnly, is differs from was in counters only, and the write may be left for later: then it says
// for how long, and the caller comes again. The events are sent in any case.
func (p *Throttle) Write(
	ctx context.Context, w Writer, o client.Object, was, is any, countsOnly bool, now time.Time, events []event.Event,
) (later time.Duration, err error) {
	key := client.ObjectKeyFromObject(o)
	if countsOnly && !apiequality.Semantic.DeepEqual(was, is) {
		if later = p.left(key, now); later > 0 {
			is = was
		}
	}
	wrote, err := w.Write(ctx, o, was, is, events)
	if wrote {
		p.last.Store(key, now)
	}
	return later, err
}
