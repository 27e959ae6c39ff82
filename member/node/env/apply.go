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

// graceMin is what a container gets to end by itself, however short its grace period and however long its hook, as in
// kube 1.36.
const graceMin = 2 * time.Second

// apply writes the report and stops containers. The stops take as long as the containers that are stopped.
func (r *Reconciler) apply(ctx context.Context, o observed, w work) error {
	err := r.write(ctx, o.pod, w.report)
	if len(w.restart) == 0 {
		return err
	}
	// The cache may be behind. A container that serves must not be stopped for an update that was called off.
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

// write puts the report on the pod.
func (r *Reconciler) write(ctx context.Context, pod *corev1.Pod, report string) error {
	if report == "" {
		return nil
	}
	b := podpatch.New(pod)
	b.Metadata.Annotations[keys.RuntimeContainersMeta] = &report
	p, err := b.Patch(pod, podpatch.Status)
	if err != nil {
		return err
	}
	err = r.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(p.Type, p.Data))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("report what containers of pod %s were started from: %w", client.ObjectKeyFromObject(pod), err)
	}
	return nil
}

// stop ends one container as the kubelet would: the hook first, and what is left of the grace period then.
func (r *Reconciler) stop(ctx context.Context, pod *corev1.Pod, s restart) error {
	runtime, id, err := r.Runtimes.Of(s.id)
	if err != nil {
		return err
	}
	// The kubelet may have ended it and not told yet. An HTTP hook would reach the container that came after.
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
			r.Events.Record(pod, failedHookEvent(s.name, err)) // The kubelet goes on as well.
		}
		left -= r.Clock.Since(began)
	}
	err = runtime.Stop(ctx, id, max(graceMin, left))
	if ctx.Err() != nil {
		return context.Cause(ctx) // This daemon ends. The next one goes on.
	}
	// A stop that failed may have ended the container all the same.
	r.memory.tried(pod, s.name, r.Clock.Now())
	if err != nil {
		r.Events.Record(pod, failedStopEvent(s.name, err))
	}
	return err
}
