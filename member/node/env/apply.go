package env

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// apply writes the report and stops containers, and returns when they have ended.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned, now time.Time) error {
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
	for _, s := range plan(o, now).restart {
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

// stop stops one container.
func (r *Reconciler) stop(ctx context.Context, pod *corev1.Pod, s restart) error {
	began, err := r.Stopper.Stop(ctx, pod, s.Container)
	if began {
		measure.Count(stepRestart, string(s.reason), 1)
	}
	if began && ctx.Err() == nil {
		r.memory.recordStop(pod, s.Name, r.Clock.Now())
	}
	return err
}
