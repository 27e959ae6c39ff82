package testkit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// BroadcastJobBuilder builds a BroadcastJob.
type BroadcastJobBuilder struct{ job appsv1beta1.BroadcastJob }

// BroadcastJob starts a BroadcastJob with image app:1 and restartPolicy Never, as the webhook leaves it: with all defaults of the spec except
// in the template. Its UID is "uid-" plus the name.
func BroadcastJob(name string) *BroadcastJobBuilder {
	b := &BroadcastJobBuilder{}
	b.job.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: Namespace, UID: types.UID("uid-" + name), ResourceVersion: "1", Generation: 1,
	}
	b.job.Spec = appsv1beta1.BroadcastJobSpec{
		Parallelism: new(intstr.FromInt32(1<<31 - 1)),
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "app", Image: "app:1"}},
			},
		},
		CompletionPolicy: appsv1beta1.BroadcastJobCompletionPolicy{Type: appsv1beta1.BroadcastJobAlways},
		FailurePolicy:    appsv1beta1.BroadcastJobFailurePolicy{Type: appsv1beta1.BroadcastJobFailFast},
	}
	return b
}

// Obj returns the BroadcastJob.
func (b *BroadcastJobBuilder) Obj() *appsv1beta1.BroadcastJob { return &b.job }

// Spec changes the spec with a function, for fields that have no method here.
func (b *BroadcastJobBuilder) Spec(change func(*appsv1beta1.BroadcastJobSpec)) *BroadcastJobBuilder {
	change(&b.job.Spec)
	return b
}

// Parallelism sets a number or a percentage, in YAML notation.
func (b *BroadcastJobBuilder) Parallelism(n string) *BroadcastJobBuilder {
	b.job.Spec.Parallelism = new(intstr.Parse(n))
	return b
}

// OnFailure sets the failure policy.
func (b *BroadcastJobBuilder) OnFailure(policy appsv1beta1.BroadcastJobFailurePolicyType) *BroadcastJobBuilder {
	b.job.Spec.FailurePolicy.Type = policy
	return b
}

// Never sets the completion policy Never.
func (b *BroadcastJobBuilder) Never() *BroadcastJobBuilder {
	b.job.Spec.CompletionPolicy.Type = appsv1beta1.BroadcastJobNever
	return b
}

// Status sets the status.
func (b *BroadcastJobBuilder) Status(s appsv1beta1.BroadcastJobStatus) *BroadcastJobBuilder {
	b.job.Status = s
	return b
}
