package workloadspread

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// patience is how long a new pod waits for the place of a pod that has left a subset. The controller has to give back the place first.
const patience = time.Second

// departures knows which subsets pods have just left. Workload controllers create the replacement as soon as they see that, while our
// controller is still counting: without a wait it would often go to another subset. It is safe for concurrent use.
type departures struct {
	clock clock.PassiveClock

	mu sync.Mutex
	at map[place]time.Time
	// changed is closed when any WorkloadSpread changes.
	changed chan struct{}
}

// place is a subset of a WorkloadSpread, for the pods of one controller.
type place struct {
	controller     types.UID
	spread, subset string
}

func newDepartures(c clock.PassiveClock) *departures {
	return &departures{clock: c, at: map[place]time.Time{}, changed: make(chan struct{})}
}

// follow watches the pods and WorkloadSpreads in a cache.
func (l *departures) follow(ctx context.Context, c cache.Cache) error {
	pods, err := c.GetInformer(ctx, &corev1.Pod{})
	if err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	spreads, err := c.GetInformer(ctx, &appsv1beta1.WorkloadSpread{})
	if err != nil {
		return fmt.Errorf("watch WorkloadSpreads: %w", err)
	}
	if _, err := pods.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		UpdateFunc: func(before, after any) {
			if pod, ok := after.(*corev1.Pod); ok && leavesPlace(before, after) {
				l.add(pod)
			}
		},
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			if pod, ok := o.(*corev1.Pod); ok && podpatch.Active(pod) {
				l.add(pod)
			}
		},
	}); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	if _, err := spreads.AddEventHandler(toolscache.ResourceEventHandlerFuncs{UpdateFunc: func(any, any) { l.notify() }}); err != nil {
		return fmt.Errorf("watch WorkloadSpreads: %w", err)
	}
	return nil
}

// add records that a pod has left its subset.
func (l *departures) add(pod *corev1.Pod) {
	m, ok := matchedOf(pod)
	ref := metav1.GetControllerOfNoCopy(pod)
	if !ok || ref == nil {
		return
	}
	now := l.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	maps.DeleteFunc(l.at, func(_ place, at time.Time) bool { return now.Sub(at) >= patience })
	l.at[place{ref.UID, m.Name, m.Subset}] = now
}

// notify signals that a WorkloadSpread has changed.
func (l *departures) notify() {
	l.mu.Lock()
	defer l.mu.Unlock()
	close(l.changed)
	l.changed = make(chan struct{})
}

// waitFor returns how long a new pod may wait for a place in one of these subsets, or 0 if no pod has left them. The channel is closed when a
// WorkloadSpread changes.
func (l *departures) waitFor(pod *corev1.Pod, spread string, subsets []string) (time.Duration, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var most time.Duration
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil {
		for _, name := range subsets {
			if at, ok := l.at[place{ref.UID, spread, name}]; ok {
				most = max(most, patience-l.clock.Since(at))
			}
		}
	}
	return most, l.changed
}
