package containerrecreaterequest

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-containerrecreaterequest")

// apply does the next write. A conflict is not an error: the event for the other write starts a reconcile.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned, now time.Time) error {
	var err error
	switch p.step {
	case stepUnready, stepReady:
		err = r.setReadiness(ctx, o.pod, recreate.Key(o.request), p.step == stepUnready, recreate.Cause(o.request), now)
	case stepHold, stepRelease:
		err = r.setFinalizer(ctx, o.request, p.step == stepHold)
	case stepReport, stepComplete:
		err = r.write(ctx, o.request, p, now)
	case stepRemove:
		err = r.Client.Delete(ctx, o.request, client.Preconditions{UID: &o.request.UID, ResourceVersion: &o.request.ResourceVersion})
	}
	return ignorable(err)
}

// ignorable drops the error of a write to an object that has changed or no longer exists.
func ignorable(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// setReadiness makes a pod unready on behalf of one request, or lifts that again.
func (r *Reconciler) setReadiness(ctx context.Context, pod *corev1.Pod, key string, unready bool, cause string, now time.Time) error {
	b := podpatch.New(pod)
	e := event.Normal(reasonReady, actionRecreate, "the pod may become ready again, after %s", cause)
	if unready {
		lifecycle.Block(&b, pod, recreate.Agent, key, now)
		e = event.Normal(reasonUnready, actionRecreate, "the pod is not ready while containers are restarted: %s", cause)
	} else {
		lifecycle.Unblock(&b, pod, recreate.Agent, key, now)
	}
	b.Observed(pod)
	patch, err := b.Patch(pod, podpatch.Status)
	if err != nil {
		return err
	}
	if err := r.Client.Status().Patch(ctx, pod.DeepCopy(), client.RawPatch(patch.Type, patch.Data), fieldOwner); err != nil {
		return fmt.Errorf("patch the readiness of pod %s: %w", client.ObjectKeyFromObject(pod), err)
	}
	r.Events.Record(pod, e)
	return nil
}

// setFinalizer adds the finalizer to a request that makes its pod unready, or removes it together with the label.
func (r *Reconciler) setFinalizer(ctx context.Context, request *appsv1beta1.ContainerRecreateRequest, on bool) error {
	next := request.DeepCopy()
	if on {
		next.Finalizers = append(next.Finalizers, keys.RecreateUnready)
	} else {
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == keys.RecreateUnready })
		delete(next.Labels, keys.RecreateActive)
	}
	err := r.Client.Patch(ctx, next, client.MergeFromWithOptions(request, client.MergeFromWithOptimisticLock{}), fieldOwner)
	if err != nil {
		return fmt.Errorf("patch finalizer and label: %w", err)
	}
	return nil
}

// write writes the status.
func (r *Reconciler) write(ctx context.Context, request *appsv1beta1.ContainerRecreateRequest, p planned, now time.Time) error {
	next := request.DeepCopy()
	next.Status = p.status
	recreate.Observe(next, now)
	err := r.Client.Status().Patch(ctx, next, client.MergeFromWithOptions(request, client.MergeFromWithOptimisticLock{}), fieldOwner)
	if err != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	if p.step == stepComplete {
		r.Events.Record(request, event.Warning(p.reason, actionRecreate, "%s", p.why))
	}
	return nil
}
