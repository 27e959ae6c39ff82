package testkit

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// StatefulSetBuilder builds a StatefulSet.
type StatefulSetBuilder struct{ set appsv1beta1.StatefulSet }

// StatefulSet starts a StatefulSet with one replica of image app:1, as the webhook leaves it: with all defaults of the spec except in the
// template. Its UID is "uid-" plus the name.
func StatefulSet(name string) *StatefulSetBuilder {
	b := &StatefulSetBuilder{}
	b.set.ObjectMeta = metav1.ObjectMeta{
		Name: name, Namespace: Namespace, UID: types.UID("uid-" + name), ResourceVersion: "1", Generation: 1,
	}
	labels := map[string]string{"app": name}
	b.set.Spec = appsv1beta1.StatefulSetSpec{
		Replicas: new(int32(1)), ServiceName: name, PodManagementPolicy: appsv1.OrderedReadyPodManagement,
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": name}},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
		},
		RevisionHistoryLimit:      new(int32(10)),
		VolumeClaimUpdateStrategy: appsv1beta1.StatefulSetVolumeClaimUpdateStrategy{Type: appsv1beta1.StatefulSetClaimOnDelete},
		PersistentVolumeClaimRetentionPolicy: &appsv1beta1.StatefulSetClaimRetentionPolicy{
			WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		},
		UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
			Type: appsv1.RollingUpdateStatefulSetStrategyType,
			RollingUpdate: &appsv1beta1.StatefulSetRollingUpdateStrategy{
				Partition: new(int32(0)), MaxUnavailable: new(intstr.FromInt32(1)), MinReadySeconds: new(int32(0)),
				PodUpdatePolicy: appsv1beta1.PodReCreate,
			},
		},
	}
	return b
}

// Obj returns the StatefulSet.
func (b *StatefulSetBuilder) Obj() *appsv1beta1.StatefulSet { return &b.set }

// Spec changes the spec with a function, for fields that have no method here.
func (b *StatefulSetBuilder) Spec(change func(*appsv1beta1.StatefulSetSpec)) *StatefulSetBuilder {
	change(&b.set.Spec)
	return b
}

// Replicas sets the desired number of pods.
func (b *StatefulSetBuilder) Replicas(n int32) *StatefulSetBuilder {
	b.set.Spec.Replicas = &n
	return b
}

// Parallel creates and deletes all pods at once, and updates at most maxUnavailable pods at a time.
func (b *StatefulSetBuilder) Parallel(maxUnavailable string) *StatefulSetBuilder {
	b.set.Spec.PodManagementPolicy = appsv1.ParallelPodManagement
	b.set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.Parse(maxUnavailable))
	return b
}

// InPlace sets the update policy InPlaceIfPossible, and the readiness gate that it needs.
func (b *StatefulSetBuilder) InPlace() *StatefulSetBuilder {
	b.set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = appsv1beta1.PodInPlaceIfPossible
	b.set.Spec.Template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
	return b
}

// Image sets the image of the container app.
func (b *StatefulSetBuilder) Image(image string) *StatefulSetBuilder {
	b.set.Spec.Template.Spec.Containers[0].Image = image
	return b
}

// Partition sets how many pods are not updated.
func (b *StatefulSetBuilder) Partition(n int32) *StatefulSetBuilder {
	b.set.Spec.UpdateStrategy.RollingUpdate.Partition = &n
	return b
}

// Reserve reserves ordinals, each a number or a range in YAML notation.
func (b *StatefulSetBuilder) Reserve(ordinals ...string) *StatefulSetBuilder {
	for _, o := range ordinals {
		b.set.Spec.ReserveOrdinals = append(b.set.Spec.ReserveOrdinals, intstr.Parse(o))
	}
	return b
}

// PVCs adds PVC templates of 1 GiB with storage class fast.
func (b *StatefulSetBuilder) PVCs(names ...string) *StatefulSetBuilder {
	for _, name := range names {
		b.set.Spec.VolumeClaimTemplates = append(b.set.Spec.VolumeClaimTemplates, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: new("fast"),
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				},
			},
		})
	}
	return b
}

// Keep sets the PVC retention policy: "Retain" or "Delete" when the set is deleted, and when a pod is scaled in.
func (b *StatefulSetBuilder) Keep(whenDeleted, whenScaled appsv1.PersistentVolumeClaimRetentionPolicyType) *StatefulSetBuilder {
	b.set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1beta1.StatefulSetClaimRetentionPolicy{
		WhenDeleted: whenDeleted, WhenScaled: whenScaled,
	}
	return b
}

// Resize makes PVCs be resized to the size of their templates.
func (b *StatefulSetBuilder) Resize() *StatefulSetBuilder {
	b.set.Spec.VolumeClaimUpdateStrategy.Type = appsv1beta1.StatefulSetClaimOnPodRollingUpdate
	return b
}

// Status sets the status.
func (b *StatefulSetBuilder) Status(s appsv1beta1.StatefulSetStatus) *StatefulSetBuilder {
	b.set.Status = s
	return b
}
