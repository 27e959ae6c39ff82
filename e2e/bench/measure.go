package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// spent is what a process used: CPU time since its start, and its peak of memory since usage was asked last.
type spent struct {
	cpu  time.Duration
	peak int64
}

// ticks is how many clock ticks the kernel counts in a second; Linux has 100 on all platforms that Go runs on.
const ticks = 100

// usage reads what a process used, and starts its peak anew.
func usage(pid int) (spent, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return spent{}, fmt.Errorf("read usage: %w", err)
	}
	// The name in parentheses may hold anything; user and system time are the 12th and 13th field after it.
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	var total int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return spent{}, fmt.Errorf("read usage: %w", err)
		}
		total += n
	}
	s := spent{cpu: time.Duration(total) * time.Second / ticks}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return spent{}, fmt.Errorf("read usage: %w", err)
	}
	for line := range strings.Lines(string(status)) {
		if rest, found := strings.CutPrefix(line, "VmHWM:"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			if err != nil {
				return spent{}, fmt.Errorf("read usage: %w", err)
			}
			s.peak = kib << 10
		}
	}
	// 5 sets the peak to what is in use now.
	if err := os.WriteFile(fmt.Sprintf("/proc/%d/clear_refs", pid), []byte("5"), 0); err != nil {
		return spent{}, fmt.Errorf("start peak of memory anew: %w", err)
	}
	return s, nil
}

// podWatch follows the pods of the namespace, so that waiting costs the apiserver next to nothing.
type podWatch struct {
	events watch.Interface
	clock  clock.PassiveClock
	pods   map[types.UID]*corev1.Pod
}

func newPodWatch(ctx context.Context, c *fleet.Cluster) (*podWatch, error) {
	w, err := c.Client.Watch(ctx, &corev1.PodList{}, client.InNamespace(namespace))
	if err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return &podWatch{events: w, clock: clock.RealClock{}, pods: map[types.UID]*corev1.Pod{}}, nil
}

func (w *podWatch) stop() { w.events.Stop() }

// await waits until exactly n pods are there, all ready with the image, and returns how long that took.
func (w *podWatch) await(ctx context.Context, n int, image string) (time.Duration, error) {
	began := w.clock.Now()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	good := 0
	for {
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("%d of %d pods are ready with image %s: %w", good, n, image, ctx.Err())
		case e, open := <-w.events.ResultChan():
			pod, ok := e.Object.(*corev1.Pod)
			if !open || !ok {
				return 0, errors.New("the watch of pods ended")
			}
			if old := w.pods[pod.UID]; old != nil && settled(old, image) {
				good--
			}
			delete(w.pods, pod.UID)
			if e.Type != watch.Deleted {
				w.pods[pod.UID] = pod
				if settled(pod, image) {
					good++
				}
			}
			if good == n && len(w.pods) == n {
				return w.clock.Since(began), nil
			}
		}
	}
}

func settled(p *corev1.Pod, image string) bool {
	if p.DeletionTimestamp != nil || p.Spec.Containers[0].Image != image {
		return false
	}
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// pause waits, and says whether it could.
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
