package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// usageSample is what a process used: CPU time since its start, and its peak memory since the last call of usage.
type usageSample struct {
	cpu  time.Duration
	peak int64
}

// ticks is the number of clock ticks per second. Linux has 100 on all platforms that Go runs on.
const ticks = 100

// processCPU returns the CPU time that a process has used.
func processCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read usage: %w", err)
	}
	// The name in parentheses may contain anything. User and system time are the 12th and 13th field after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var total int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, fmt.Errorf("read usage: %w", err)
		}
		total += n
	}
	return time.Duration(total) * time.Second / ticks, nil
}

// usage returns what a process has used, and resets its memory peak.
func usage(pid int) (usageSample, error) {
	cpu, err := processCPU(pid)
	if err != nil {
		return usageSample{}, err
	}
	s := usageSample{cpu: cpu}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return usageSample{}, fmt.Errorf("read usage: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return usageSample{}, fmt.Errorf("read usage: %w", err)
			}
			s.peak = kib << 10
		}
	}
	// 5 resets the peak to the current usage.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return usageSample{}, fmt.Errorf("reset peak of memory: %w", err)
	}
	return s, nil
}

// liveHeap returns how many bytes of a manager's heap are in use after a garbage collection.
func liveHeap(ctx context.Context, m *fleet.Manager) (int64, error) {
	for range 2 { // The second collection empties pools.
		if _, err := m.Profile(ctx, "heap?gc=1"); err != nil {
			return 0, fmt.Errorf("collect garbage: %w", err)
		}
	}
	text, err := m.Metrics(ctx)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	for line := range strings.Lines(text) {
		if value, found := strings.CutPrefix(line, "go_memstats_heap_alloc_bytes "); found {
			n, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
			return int64(n), err
		}
	}
	return 0, errors.New("read metrics: go_memstats_heap_alloc_bytes is missing")
}

// watch counts the objects of one kind in a namespace, or in all, and the settled ones among them, through an informer. It continues when the
// apiserver ends a watch that is too slow for a thousand objects at once, and costs the apiserver almost nothing.
type watch struct {
	clock   clock.PassiveClock
	end     context.CancelFunc
	ended   chan error
	settled func(client.Object) bool

	mu      sync.Mutex
	objects map[types.UID]bool // Whether the object is settled.
	good    int
	changed chan struct{}
}

func newWatch(ctx context.Context, c *fleet.Cluster, kind client.Object, settled func(client.Object) bool) (*watch, error) {
	return newWatchIn(ctx, c, namespace, kind, settled)
}

// newWatchIn is like newWatch, for another namespace or for all.
func newWatchIn(ctx context.Context, c *fleet.Cluster, in string, kind client.Object, settled func(client.Object) bool) (*watch, error) {
	objects, err := cache.New(c.Config, cache.Options{
		Scheme: c.Client.Scheme(), DefaultNamespaces: map[string]cache.Config{in: {}}, DefaultTransform: cache.TransformStripManagedFields(),
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	informer, err := objects.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	w := &watch{
		clock: clock.RealClock{}, ended: make(chan error, 1), settled: settled, objects: map[types.UID]bool{}, changed: make(chan struct{}, 1),
	}
	_, err = informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { w.set(o, true) },
		UpdateFunc: func(_, o any) { w.set(o, true) },
		DeleteFunc: func(o any) {
			if gone, ok := o.(toolscache.DeletedFinalStateUnknown); ok {
				o = gone.Obj
			}
			w.set(o, false)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watch %T: %w", kind, err)
	}
	ctx, w.end = context.WithCancel(ctx)
	go func() { w.ended <- objects.Start(ctx) }()
	if !objects.WaitForCacheSync(ctx) {
		return nil, errors.Join(fmt.Errorf("watch %T: the cache did not sync", kind), w.stop())
	}
	return w, nil
}

func (w *watch) stop() error {
	w.end()
	return <-w.ended
}

func (w *watch) set(o any, there bool) {
	object, ok := o.(client.Object)
	if !ok {
		return
	}
	uid := object.GetUID()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.objects[uid] {
		w.good--
	}
	delete(w.objects, uid)
	if there {
		w.objects[uid] = w.settled(object)
	}
	if w.objects[uid] {
		w.good++
	}
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

// await waits until exactly total objects exist and want of them are settled, and returns how long that took.
func (w *watch) await(ctx context.Context, want, total int) (time.Duration, error) {
	began := w.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for {
		good, all := w.count()
		if good == want && all == total {
			return w.clock.Since(began), nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d objects are settled, and there are %d: %w", good, want, all, ctx.Err())
		case <-w.changed:
		}
	}
}

func (w *watch) count() (good, all int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.good, len(w.objects)
}

// readyPod reports whether a pod is ready with an image.
func readyPod(image string) func(client.Object) bool {
	return func(o client.Object) bool {
		p, ok := o.(*corev1.Pod)
		if !ok || p.DeletionTimestamp != nil || p.Spec.Containers[0].Image != image {
			return false
		}
		for _, c := range p.Status.Conditions {
			if c.Type == corev1.PodReady {
				return c.Status == corev1.ConditionTrue
			}
		}
		return false
	}
}

// pause waits, and reports whether it waited for the full length.
func pause(ctx context.Context, length time.Duration) bool {
	timer := clock.RealClock{}.NewTimer(length)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C():
		return true
	}
}
