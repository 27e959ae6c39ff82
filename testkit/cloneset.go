package testkit

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// CloneSetBuilder builds a CloneSet.
type CloneSetBuilder struct{ set appsv1beta1.CloneSet }

// CloneSet starts a CloneSet with one replica of image app:1, as the webhook leaves it: with all defaults of the spec except in the template.
// Its UID is "uid-" plus the name.
func CloneSet(name string) *CloneSetBuilder {
	b := &CloneSetBuilder{}
	b.set.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: Namespace, UID: types.UID("uid-" + name), ResourceVersion: "1", Generation: 1,
	}
	b.set.Spec = appsv1beta1.CloneSetSpec{
		Replicas: ptr.To[int32](1),
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		},
		RevisionHistoryLimit: ptr.To[int32](10),
		UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{
			Type: appsv1beta1.CloneSetRollingUpdate,
			RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
				PodUpdatePolicy: appsv1beta1.PodReCreate,
				Partition:       new(intstr.FromInt32(0)),
				MaxUnavailable:  new(intstr.FromString("20%")),
				MaxSurge:        new(intstr.FromInt32(0)),
			},
		},
	}
	return b
}

// Obj returns the CloneSet.
func (b *CloneSetBuilder) Obj() *appsv1beta1.CloneSet { return &b.set }

// Spec changes the spec with a function, for fields that have no method here.
func (b *CloneSetBuilder) Spec(change func(*appsv1beta1.CloneSetSpec)) *CloneSetBuilder {
	change(&b.set.Spec)
	return b
}

// Replicas sets the desired number of pods.
func (b *CloneSetBuilder) Replicas(n int32) *CloneSetBuilder {
	b.set.Spec.Replicas = &n
	return b
}

// Image sets the image of the container app.
func (b *CloneSetBuilder) Image(image string) *CloneSetBuilder {
	b.set.Spec.Template.Spec.Containers[0].Image = image
	return b
}

// Policy sets the update policy.
func (b *CloneSetBuilder) Policy(p appsv1beta1.PodUpdatePolicy) *CloneSetBuilder {
	b.set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = p
	return b
}

// Rolling sets partition, maxUnavailable and maxSurge, each a number or a percentage in YAML notation.
func (b *CloneSetBuilder) Rolling(partition, maxUnavailable, maxSurge string) *CloneSetBuilder {
	ru := b.set.Spec.UpdateStrategy.RollingUpdate
	ru.Partition = new(intstr.Parse(partition))
	ru.MaxUnavailable = new(intstr.Parse(maxUnavailable))
	ru.MaxSurge = new(intstr.Parse(maxSurge))
	return b
}

// Paused pauses the update.
func (b *CloneSetBuilder) Paused() *CloneSetBuilder {
	b.set.Spec.UpdateStrategy.RollingUpdate.Paused = true
	return b
}

// OnDelete sets the strategy OnDelete, without a rollingUpdate.
func (b *CloneSetBuilder) OnDelete() *CloneSetBuilder {
	b.set.Spec.UpdateStrategy = appsv1beta1.CloneSetUpdateStrategy{Type: appsv1beta1.CloneSetOnDelete}
	return b
}

// PodsToDelete sets podsToDelete.
func (b *CloneSetBuilder) PodsToDelete(names ...string) *CloneSetBuilder {
	b.set.Spec.ScaleStrategy.PodsToDelete = names
	return b
}

// PVCs adds PVC templates of 1 GiB.
func (b *CloneSetBuilder) PVCs(names ...string) *CloneSetBuilder {
	for _, name := range names {
		b.set.Spec.VolumeClaimTemplates = append(b.set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		})
	}
	return b
}

// Reuse makes new pods reuse the PVCs of lost pods.
func (b *CloneSetBuilder) Reuse() *CloneSetBuilder {
	b.set.Spec.ScaleStrategy.EnablePVCReuse = true
	return b
}

// Status sets the status.
func (b *CloneSetBuilder) Status(s appsv1beta1.CloneSetStatus) *CloneSetBuilder {
	b.set.Status = s
	return b
}
