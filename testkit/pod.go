package testkit

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// Namespace is the namespace of built objects.
const Namespace = "shop"

// PodBuilder builds a pod.
type PodBuilder struct{ pod corev1.Pod }

// Pod starts a pod with one container, app, with image app:1. It is not scheduled yet. Its UID is "uid-" plus the name.
func Pod(name string) *PodBuilder {
	return &PodBuilder{pod: corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: Namespace, UID: types.UID("uid-" + name), ResourceVersion: "1",
			Labels: map[string]string{"app": "web"}, Annotations: map[string]string{},
		},
		Spec:   corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		Status: corev1.PodStatus{Phase: corev1.PodPending},
	}}
}

// Obj returns the pod.
func (b *PodBuilder) Obj() *corev1.Pod { return &b.pod }

// OwnedBy makes owner, a CloneSet, the pod's controller.
func (b *PodBuilder) OwnedBy(owner types.UID) *PodBuilder {
	b.pod.OwnerReferences = []metav1.OwnerReference{{
		APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: owner,
		Controller: new(true), BlockOwnerDeletion: new(true),
	}}
	return b
}

// Label sets a label.
func (b *PodBuilder) Label(key, value string) *PodBuilder {
	b.pod.Labels[key] = value
	return b
}

// Annotation sets an annotation.
func (b *PodBuilder) Annotation(key, value string) *PodBuilder {
	b.pod.Annotations[key] = value
	return b
}

// Rev sets the revision of the pod, by its full name.
func (b *PodBuilder) Rev(name string) *PodBuilder {
	return b.Label(keys.ControllerRevisionHash, name).Label(keys.PodTemplateHash, revision.Short(name))
}

// ID sets the instance id.
func (b *PodBuilder) ID(id string) *PodBuilder { return b.Label(keys.CloneSetInstanceID, id) }

// State sets the lifecycle state.
func (b *PodBuilder) State(s pods.LifecycleState) *PodBuilder {
	return b.Label(keys.LifecycleState, string(s))
}

// Image sets the image of the container app in the spec.
func (b *PodBuilder) Image(image string) *PodBuilder {
	b.pod.Spec.Containers[0].Image = image
	return b
}

// Created sets the time of creation.
func (b *PodBuilder) Created(at time.Time) *PodBuilder {
	b.pod.CreationTimestamp = metav1.NewTime(at)
	return b
}

// Node schedules the pod.
func (b *PodBuilder) Node(name string) *PodBuilder {
	b.pod.Spec.NodeName = name
	return b.condition(corev1.PodScheduled, corev1.ConditionTrue, b.pod.CreationTimestamp.Time)
}

// Phase sets the phase.
func (b *PodBuilder) Phase(p corev1.PodPhase) *PodBuilder {
	b.pod.Status.Phase = p
	return b
}

// Running schedules the pod if necessary, and runs its container with the image in the spec. The pod is not ready.
func (b *PodBuilder) Running() *PodBuilder {
	if b.pod.Spec.NodeName == "" {
		b.Node("node-" + b.pod.Name)
	}
	b.pod.Status.Phase = corev1.PodRunning
	image := b.pod.Spec.Containers[0].Image
	b.pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: "app", Image: image, ImageID: "id-of-" + image, ContainerID: "containerd://" + b.pod.Name, Ready: true,
		Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
	}}
	return b
}

// Ready makes the pod Running, and ready since the given time.
func (b *PodBuilder) Ready(since time.Time) *PodBuilder {
	return b.Running().condition(corev1.PodReady, corev1.ConditionTrue, since)
}

// Gate gives the pod the readiness gate of in-place updates, with that state since the given time.
func (b *PodBuilder) Gate(open bool, since time.Time) *PodBuilder {
	b.pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
	status := corev1.ConditionFalse
	if open {
		status = corev1.ConditionTrue
	}
	return b.condition(keys.InPlaceUpdateReady, status, since)
}

// Serving makes the pod serve normally: Ready since the given time, its gate open, its lifecycle state Normal.
func (b *PodBuilder) Serving(since time.Time) *PodBuilder {
	return b.Gate(true, since).Ready(since).State(pods.LifecycleNormal)
}

// NotReady makes the pod not ready.
func (b *PodBuilder) NotReady() *PodBuilder {
	return b.condition(corev1.PodReady, corev1.ConditionFalse, b.pod.CreationTimestamp.Time)
}

// Terminating sets the deletionTimestamp.
func (b *PodBuilder) Terminating(since time.Time) *PodBuilder {
	b.pod.DeletionTimestamp = new(metav1.NewTime(since))
	return b
}

func (b *PodBuilder) condition(kind corev1.PodConditionType, status corev1.ConditionStatus, since time.Time) *PodBuilder {
	c := corev1.PodCondition{Type: kind, Status: status, LastTransitionTime: metav1.NewTime(since)}
	for i := range b.pod.Status.Conditions {
		if b.pod.Status.Conditions[i].Type == kind {
			b.pod.Status.Conditions[i] = c
			return b
		}
	}
	b.pod.Status.Conditions = append(b.pod.Status.Conditions, c)
	return b
}
