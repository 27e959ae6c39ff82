// Package stop stops a container of a pod as its kubelet would: the preStop hook first, then the rest of the pod's grace period.
//
// It stops a container only if the runtime confirms that it belongs to the pod. Otherwise, anyone who can write a pod's status could choose
// which container is stopped on its node.
package stop

import (
	"context"
	"errors"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// graceMin is the minimum time that a container gets to end by itself, whatever its grace period and its hook, as in kube 1.36.
const graceMin = 2 * time.Second

// Reasons of events on pods.
const (
	// reasonKilling means that a container is being stopped.
	reasonKilling = "Killing"
	// reasonFailedPreStopHook means that the preStop hook failed; the container is stopped nevertheless.
	reasonFailedPreStopHook = "FailedPreStopHook"
	// reasonFailedKill means that the runtime could not stop a container.
	reasonFailedKill = "FailedKillContainer"
)

const action = "Stop"

// Runtimes finds the runtime of a container by the ID that the kubelet reports.
type Runtimes interface {
	Of(containerID string) (*cri.Runtime, string, error)
}

// Stopper stops containers. It is safe for concurrent use.
type Stopper struct {
	Runtimes Runtimes
	Clock    clock.Clock
	Events   event.Recorder

	http *http.Client
}

// New returns a Stopper. All arguments are required.
func New(r Runtimes, c clock.Clock, e event.Recorder) *Stopper {
	return &Stopper{Runtimes: r, Clock: c, Events: e, http: hookClient(dialer())}
}

// Container is a container to stop.
type Container struct {
	Name string
	// ID is the container ID in the pod's status.
	ID string
	// Why is a sentence for human readers.
	Why string
	// Hook is the preStop hook; nil means none. Grace is the time for the hook and the stop together.
	Hook  *corev1.LifecycleHandler
	Grace time.Duration
}

// Of returns a container of a pod with its hook and its grace period.
func Of(pod *corev1.Pod, c *corev1.Container, id, why string) Container {
	out := Container{Name: c.Name, ID: id, Why: why, Grace: inplace.GracePeriod(pod)}
	if c.Lifecycle != nil {
		out.Hook = c.Lifecycle.PreStop
	}
	return out
}

// Stop stops a container. It returns when the container has ended, or when ctx has ended, in which case it returns the cause. It reports
// whether it began: a container that no longer runs, or doesn't belong to the pod, is left alone. Even if the stop failed, the container may
// have stopped.
func (s *Stopper) Stop(ctx context.Context, pod *corev1.Pod, c Container) (began bool, err error) {
	runtime, id, err := s.Runtimes.Of(c.ID)
	if err != nil {
		return false, err
	}
	// The kubelet may have stopped it already. An HTTP hook would then reach its successor.
	switch found, err := runtime.Container(ctx, id, nil); {
	case errors.Is(err, cri.ErrNotFound), err == nil && (!found.Running || found.Name != c.Name || found.PodUID != pod.UID):
		return false, nil
	case err != nil:
		return false, err
	}
	ctrl.LoggerFrom(ctx).Info("Stopping a container", "container", c.Name, "reason", c.Why)
	s.Events.Record(pod, event.Normal(reasonKilling, action, "stopping container %s: %s", c.Name, c.Why))
	start, left := s.Clock.Now(), c.Grace
	if c.Hook != nil && c.Grace > 0 {
		runs, end := s.untilEnded(ctx, runtime, id)
		err := s.run(runs, pod, c, runtime, id)
		gone := errors.Is(context.Cause(runs), errEnded)
		end()
		switch {
		case gone:
			return true, nil
		case err != nil && ctx.Err() == nil:
			// The kubelet ignores a failed hook as well.
			s.Events.Record(pod, event.Warning(reasonFailedPreStopHook, action, "container %s: %v", c.Name, err))
		}
		left -= s.Clock.Since(start)
	}
	err = runtime.Stop(ctx, id, max(graceMin, left))
	if ctx.Err() != nil {
		return true, context.Cause(ctx) // The daemon is shutting down; the next one continues.
	}
	if err != nil {
		s.Events.Record(pod, event.Warning(reasonFailedKill, action, "container %s: %v", c.Name, err))
	}
	return true, err
}

// errEnded means that a container has ended during its preStop hook.
var errEnded = errors.New("the container has ended")

// untilEnded returns a context that ends with the container, and a function that releases it. Otherwise a hook that queries a server, or
// sleeps, would last for its grace period, which may be years, even if the pod is gone.
func (s *Stopper) untilEnded(ctx context.Context, runtime *cri.Runtime, id string) (context.Context, func()) {
	runs, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			timer := s.Clock.NewTimer(RecheckInterval)
			select {
			case <-runs.Done():
				timer.Stop()
				return
			case <-timer.C():
			}
			if found, err := runtime.Container(runs, id, nil); errors.Is(err, cri.ErrNotFound) || err == nil && !found.Running {
				cancel(errEnded)
			}
		}
	}()
	return runs, func() {
		cancel(nil)
		<-done
	}
}
