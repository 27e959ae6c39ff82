package env

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/cri"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
)

// graceMin is the least time that a container gets to end by itself, whatever its grace period and its hook, as in kube 1.36.
const graceMin = 2 * time.Second

// apply writes the report and stops containers, and returns when they have ended.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) error {
	err := r.write(ctx, o.pod, p.report)
	if len(p.restart) == 0 {
		return err
	}
	// The cache may be stale. A container must not be stopped for an update that was reverted.
	var live corev1.Pod
	if gone := r.Live.Get(ctx, client.ObjectKeyFromObject(o.pod), &live); gone != nil || live.UID != o.pod.UID {
		return errors.Join(err, client.IgnoreNotFound(gone))
	}
	o.pod = &live
	if live.DeletionTimestamp != nil {
		return err
	}
	var group errgroup.Group
	for _, s := range plan(o, r.Clock.Now()).restart {
		group.Go(func() error { return r.stop(ctx, &live, s) })
	}
	return errors.Join(err, group.Wait())
}

// write writes the report to the pod.
func (r *Reconciler) write(ctx context.Context, pod *corev1.Pod, report string) error {
	if report == "" {
		return nil
	}
	b := podpatch.New(pod)
	b.Metadata.Annotations[keys.RuntimeContainersMeta] = &report
	patch, err := b.Patch(pod, podpatch.Status)
	if err != nil {
		return err
	}
	err = r.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(patch.Type, patch.Data))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("write the report of pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// stop stops one container as the kubelet would: the preStop hook first, then what is left of the grace period.
func (r *Reconciler) stop(ctx context.Context, pod *corev1.Pod, s restart) error {
	runtime, id, err := r.Runtimes.Of(s.id)
	if err != nil {
		return err
	}
	// The kubelet may have stopped it already. An HTTP hook would then reach its successor.
	switch c, err := runtime.Container(ctx, id, nil); {
	case errors.Is(err, cri.ErrNotFound), err == nil && !c.Running:
		return nil
	case err != nil:
		return err
	}
	ctrl.LoggerFrom(ctx).Info("Stopping a container", "container", s.name, "reason", s.reason)
	r.Events.Record(pod, killingEvent(s))
	measure.Steps.WithLabelValues(stepRestart, string(s.reason)).Inc()
	began, left := r.Clock.Now(), s.grace
	if s.hook != nil && s.grace > 0 {
		if err := r.run(ctx, pod, s, runtime, id); err != nil && ctx.Err() == nil {
			r.Events.Record(pod, failedHookEvent(s.name, err)) // The kubelet ignores a failed hook as well.
		}
		left -= r.Clock.Since(began)
	}
	err = runtime.Stop(ctx, id, max(graceMin, left))
	if ctx.Err() != nil {
		return context.Cause(ctx) // The daemon is shutting down; the next one continues.
	}
	// A failed stop may have stopped the container nevertheless.
	r.memory.tried(pod, s.name, r.Clock.Now())
	if err != nil {
		r.Events.Record(pod, failedStopEvent(s.name, err))
	}
	return err
}
