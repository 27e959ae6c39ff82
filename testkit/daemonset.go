package testkit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// DaemonSetBuilder builds a DaemonSet.
type DaemonSetBuilder struct{ set appsv1beta1.DaemonSet }

// DaemonSet starts a DaemonSet with image app:1, as the webhook leaves it: with all defaults of the spec except in the template. Its UID is
// "uid-" plus the name.
func DaemonSet(name string) *DaemonSetBuilder {
	b := &DaemonSetBuilder{}
	b.set.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: Namespace, UID: types.UID("uid-" + name), ResourceVersion: "1", Generation: 1,
	}
	b.set.Spec = appsv1beta1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		},
		BurstReplicas:        new(intstr.FromInt32(250)),
		RevisionHistoryLimit: new(int32(10)),
		UpdateStrategy: appsv1beta1.DaemonSetUpdateStrategy{
			Type: appsv1beta1.DaemonSetRollingUpdate,
			RollingUpdate: &appsv1beta1.DaemonSetRollingUpdateStrategy{
				Type:           appsv1beta1.DaemonSetStandard,
				MaxUnavailable: new(intstr.FromInt32(1)),
				MaxSurge:       new(intstr.FromInt32(0)),
			},
		},
	}
	return b
}

// Obj returns the DaemonSet.
func (b *DaemonSetBuilder) Obj() *appsv1beta1.DaemonSet { return &b.set }

// Spec changes the spec with a function, for fields that have no method here.
func (b *DaemonSetBuilder) Spec(change func(*appsv1beta1.DaemonSetSpec)) *DaemonSetBuilder {
	change(&b.set.Spec)
	return b
}

// Rolling changes the rolling update with a function.
func (b *DaemonSetBuilder) Rolling(change func(*appsv1beta1.DaemonSetRollingUpdateStrategy)) *DaemonSetBuilder {
	change(b.set.Spec.UpdateStrategy.RollingUpdate)
	return b
}

// Image sets the image of the container app.
func (b *DaemonSetBuilder) Image(image string) *DaemonSetBuilder {
	b.set.Spec.Template.Spec.Containers[0].Image = image
	return b
}

// InPlace updates pods in place where that is possible.
func (b *DaemonSetBuilder) InPlace() *DaemonSetBuilder {
	b.set.Spec.UpdateStrategy.RollingUpdate.Type = appsv1beta1.DaemonSetInPlaceIfPossible
	return b
}

// Budget sets partition, maxUnavailable and maxSurge, each a number or a percentage in YAML notation.
func (b *DaemonSetBuilder) Budget(partition, maxUnavailable, maxSurge string) *DaemonSetBuilder {
	r := b.set.Spec.UpdateStrategy.RollingUpdate
	r.Partition, r.MaxUnavailable, r.MaxSurge = new(intstr.Parse(partition)), new(intstr.Parse(maxUnavailable)), new(intstr.Parse(maxSurge))
	return b
}

// Canary restricts the update to nodes with that label.
func (b *DaemonSetBuilder) Canary(key, value string) *DaemonSetBuilder {
	b.set.Spec.UpdateStrategy.RollingUpdate.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
	return b
}

// OnDelete sets the strategy OnDelete, without a rollingUpdate.
func (b *DaemonSetBuilder) OnDelete() *DaemonSetBuilder {
	b.set.Spec.UpdateStrategy = appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetOnDelete}
	return b
}

// OnNodes restricts the pods to nodes with that label.
func (b *DaemonSetBuilder) OnNodes(key, value string) *DaemonSetBuilder {
	b.set.Spec.Template.Spec.NodeSelector = map[string]string{key: value}
	return b
}

// Status sets the status.
func (b *DaemonSetBuilder) Status(s appsv1beta1.DaemonSetStatus) *DaemonSetBuilder {
	b.set.Status = s
	return b
}
