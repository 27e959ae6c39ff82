package enhancedliveness

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

const (
	// fieldOwner is the name under which the controller writes.
	fieldOwner = client.FieldOwner("flotilla-enhancedliveness")
	// patience is how long a request may take beyond the container's grace period.
	patience = 5 * time.Minute
)

// apply creates the requests of a plan that was made from the apiserver's state. refused holds the containers that a guard of their pod holds
// back.
func (r *Reconciler) apply(ctx context.Context, p planned) (refused []delayed, err error) {
	for _, old := range p.drop {
		err := r.Client.Delete(ctx, old, client.Preconditions{UID: &old.UID, ResourceVersion: &old.ResourceVersion})
		if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
			return refused, fmt.Errorf("delete ContainerRecreateRequest %s: %w", old.Name, err)
		}
		measure.Count(stepDrop, reasonUndone, 1)
	}
	for i := range p.restarts {
		f := &p.restarts[i]
		refusal, err := r.Guards.Check(ctx, podwebhook.Request{Operation: podwebhook.Update, Old: f.pod})
		if err != nil {
			return refused, fmt.Errorf("check whether container %s of pod %s may be restarted: %w", f.container, f.pod.Name, err)
		}
		if refusal != nil {
			measure.Wait(reasonGuard)
			refused = append(refused, delayed{*f, refusal.Message})
			continue
		}
		if err := r.restart(ctx, f); err != nil {
			return refused, err
		}
	}
	return refused, nil
}

// restart creates the request that restarts a container.
func (r *Reconciler) restart(ctx context.Context, f *failing) error {
	why := "its liveness probe has failed: " + event.Truncate(f.message, podprobe.MaxMessage/2)
	grace := ptr.Deref(f.grace, ptr.Deref(f.pod.Spec.TerminationGracePeriodSeconds, corev1.DefaultTerminationGracePeriodSeconds))
	err := r.Client.Create(ctx, &appsv1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.pod.Namespace, Name: f.name(),
			Labels:      map[string]string{keys.RecreateLiveness: f.container, keys.RecreatePodUID: string(f.pod.UID)},
			Annotations: map[string]string{keys.RecreateReason: why, keys.RecreateContainerID: f.id},
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: "v1", Kind: "Pod", Name: f.pod.Name, UID: f.pod.UID,
			}},
		},
		Spec: appsv1beta1.ContainerRecreateRequestSpec{
			PodName:                 f.pod.Name,
			Containers:              []appsv1beta1.ContainerRecreateRequestContainer{{Name: f.container}},
			Strategy:                &appsv1beta1.ContainerRecreateRequestStrategy{TerminationGracePeriodSeconds: f.grace},
			ActiveDeadlineSeconds:   new(grace + int64(patience/time.Second)),
			TTLSecondsAfterFinished: new(int32(memory / time.Second)),
		},
	}, fieldOwner)
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsInvalid(err): // The pod or the container was replaced. Its event is coming.
		return nil
	case err != nil:
		r.Events.Record(f.pod, event.Warning(ReasonFailed, action, "could not request the restart of container %s: %v", f.container, err))
		return fmt.Errorf("create ContainerRecreateRequest %s: %w", f.name(), err)
	}
	measure.Count(stepRestart, reasonFailed, 1)
	r.Events.Record(f.pod, event.Warning(reasonUnhealthy, action, "container %s is restarted by ContainerRecreateRequest %s: %s", f.container, f.name(), why))
	return nil
}

// reportDelays reports what pods wait for, once per run of each container, and returns when to check again.
func (r *Reconciler) reportDelays(object client.Object, p planned, refused []delayed) time.Duration {
	recheck := p.recheck
	before, current := r.reported.Get(object), map[string]bool{}
	once := func(what string, pod *corev1.Pod, e event.Event) {
		current[what] = true
		if !before[what] {
			r.Events.Record(pod, e)
		}
	}
	for pod, why := range p.unreadable {
		once(string(pod.UID)+why, pod, event.Warning(reasonUnreadable, action, "%s", why))
	}
	for i, d := range append(p.delayed, refused...) {
		if i >= len(p.delayed) {
			recheck = timing.Sooner(recheck, retryBudget)
		}
		once(d.name(), d.pod, event.Warning(reasonDelayed, action, "the liveness probe of container %s has failed: %s. %s", d.container,
			event.Truncate(d.message, podprobe.MaxMessage/4), d.why))
	}
	r.reported.Change(object, func(reported *map[string]bool) { *reported = current })
	return recheck
}
