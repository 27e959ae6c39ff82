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
	"github.com/flotilla-io/flotilla/member/node/other"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// errGone means that there is nothing left to do for the pod.
var errGone = errors.New("pod is gone")

// observed is what a reconcile has read.
type observed struct {
	// pod belongs to the cache and must not be changed.
	pod *corev1.Pod
	// started is what the runtime reports about containers, by the container ID in the pod's status. Containers that it doesn't know are left
	// out.
	started map[string]cri.Container
	// asked is since when restarts are requested.
	asked time.Time
	// tries are the stops so far, by container name, since restarts are requested.
	tries map[string]try
	// other is the pod of another node daemon that does this work; empty if there is none.
	other string
}

// try records how often a container was stopped, and when last.
type try struct {
	count int
	last  time.Time
}

// containerOf returns what the runtime reports about a container of the pod. It returns false if the runtime doesn't know it, or knows it
// under another name or pod. Otherwise, anyone who can write a pod's status could choose which container is stopped here.
func (o observed) containerOf(name, id string) (cri.Container, bool) {
	c, known := o.started[id]
	return c, known && c.Name == name && c.PodUID == o.pod.UID
}

// concerns reports whether a pod is reconciled: a pod of our workloads that has a report, or whose in-place update restarts
// containers.
func concerns(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return false
	}
	if gv, err := schema.ParseGroupVersion(owner.APIVersion); err != nil || gv.Group != appsv1beta1.GroupVersion.Group {
		return false
	}
	return hasReport(pod) || len(inplace.RestartRequests(pod)) > 0
}

// hasReport reports whether the pod gets a report of what its containers were started with. It does if a container reads metadata by env, or
// if its in-place update can complete earlier with the report.
func hasReport(pod *corev1.Pod) bool {
	if inplace.Ambiguous(pod) {
		return true
	}
	for _, c := range inplace.Containers(pod) {
		if len(inplace.MetadataEnv(c, pod)) > 0 {
			return true
		}
	}
	return false
}

// observe reads the pod from the cache and its containers from their runtime. It returns errGone for a pod that needs nothing.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	var pod corev1.Pod
	if err := r.Client.Get(ctx, key, &pod); err != nil {
		if apierrors.IsNotFound(err) {
			r.memory.Forget(key)
			return observed{}, errGone
		}
		return observed{}, fmt.Errorf("get pod: %w", err)
	}
	if !podpatch.Active(&pod) || !concerns(&pod) {
		r.memory.Forget(key)
		return observed{}, errGone
	}
	otherPod, err := other.Restarts(ctx, r.Client)
	if err != nil {
		return observed{}, err
	}
	seen := r.memory.stateOf(&pod, r.Clock.Now())
	o := observed{pod: &pod, started: map[string]cri.Container{}, asked: seen.asked, tries: seen.tries, other: otherPod}
	for _, c := range inplace.Containers(&pod) {
		st := inplace.Status(&pod, c.Name)
		if st == nil || st.ContainerID == "" {
			continue
		}
		known, ok := seen.started[st.ContainerID]
		if !ok {
			if known, err = r.read(ctx, st.ContainerID, inplace.MetadataEnv(c, &pod)); errors.Is(err, cri.ErrNotFound) {
				continue // The kubelet will report its successor.
			} else if err != nil {
				return observed{}, err
			}
		}
		o.started[st.ContainerID] = known
	}
	r.memory.recordStarted(&pod, o.started)
	return o, nil
}

// read returns the values of these variables with which the runtime started a container.
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
