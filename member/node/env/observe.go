package env

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/cri"
	"github.com/flotilla-io/flotilla/pkg/inplace"
)

// errGone says that there is nothing to do about a pod any more.
var errGone = errors.New("pod is gone")

// observed is the world of one reconcile.
type observed struct {
	// pod is the cache's own: nobody may change it.
	pod *corev1.Pod
	// started is what the runtime says of containers, by the ID that the pod's status has. Containers that it does not know
	// are not there.
	started map[string]cri.Container
	// asked is since when restarts are asked for.
	asked time.Time
	// tries are the stops so far, by name of the container, since restarts are asked for.
	tries map[string]try
}

// try is how often we have stopped a container, and when last.
type try struct {
	count int
	last  time.Time
}

// of is what the runtime says of a container of the pod. It is false where it knows none, or one of another name or pod:
// whoever can write the status of a pod must not choose what is stopped here.
func (o observed) of(name, id string) (cri.Container, bool) {
	c, known := o.started[id]
	return c, known && c.Name == name && c.PodUID == o.pod.UID
}

// concerns tells whether a pod is one to look at: one of our workloads that reads metadata by env, or where our word spares
// an update in place a wait.
func concerns(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != appsv1beta1.GroupVersion.Group {
		return false
	}
	if inplace.Unsure(pod) {
		return true
	}
	for _, c := range inplace.Runners(pod) {
		if len(inplace.MetadataEnv(c, pod)) > 0 {
			return true
		}
	}
	return false
}

// observe reads the pod from the cache and its containers from their runtime. It is errGone for a pod that needs nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	var pod corev1.Pod
	if err := r.Client.Get(ctx, key, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.memory.forget(key)
			return observed{}, errGone
		}
		return observed{}, fmt.Errorf("get pod: %w", err)
	}
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if pod.DeletionTimestamp != nil || over || !concerns(&pod) {
		r.memory.forget(key)
		return observed{}, errGone
	}
	seen := r.memory.of(&pod, r.Clock.Now())
	o := observed{pod: &pod, started: map[string]cri.Container{}, asked: seen.asked, tries: seen.tries}
	for _, c := range inplace.Runners(&pod) {
		st := inplace.Status(&pod, c.Name)
		if st == nil || st.ContainerID == "" {
			continue
		}
		known, ok := seen.started[st.ContainerID]
		if !ok {
			var err error
			if known, err = r.read(ctx, st.ContainerID, inplace.MetadataEnv(c, &pod)); errors.Is(err, cri.ErrNotFound) {
				continue // The kubelet will tell of another one.
			} else if err != nil {
				return observed{}, err
			}
		}
		o.started[st.ContainerID] = known
	}
	r.memory.learn(&pod, o.started)
	return o, nil
}

// read asks the runtime of a container what it was started with, of these variables.
func (r *Reconciler) read(ctx context.Context, id string, env []corev1.EnvVar) (cri.Container, error) {
	runtime, short, err := r.Runtimes.Of(id)
	if err != nil {
		return cri.Container{}, err
	}
	names := make([]string, 0, len(env))
	for i := range env {
		names = append(names, env[i].Name)
	}
	return runtime.Container(ctx, short, names)
}
