package v1alpha1

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// partLater is the name of the only part of a StatefulSet in keys.ConversionData.
const partLater = "laterFields"

// laterFields are the fields of a StatefulSet that exist only in v1beta1.
type (
	laterV1alpha1 struct{}
	laterV1beta1  struct {
		ReserveOrdinals           []intstr.IntOrString                             `json:"reserveOrdinals,omitempty"`
		Ordinals                  *appsv1.StatefulSetOrdinals                      `json:"ordinals,omitempty"`
		ScaleStrategy             *appsv1beta1.StatefulSetScaleStrategy            `json:"scaleStrategy,omitempty"`
		ClaimRetention            *appsv1beta1.StatefulSetClaimRetentionPolicy     `json:"persistentVolumeClaimRetentionPolicy,omitempty"`
		VolumeClaimUpdateStrategy appsv1beta1.StatefulSetVolumeClaimUpdateStrategy `json:"volumeClaimUpdateStrategy"`
		Lifecycle                 *pods.Lifecycle                                  `json:"lifecycle,omitempty"`
	}
)

// laterToV1beta1 returns the defaults, so that nothing has to be preserved for an object that has only defaults.
func laterToV1beta1(laterV1alpha1) laterV1beta1 {
	return laterV1beta1{
		ClaimRetention: &appsv1beta1.StatefulSetClaimRetentionPolicy{
			WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
			WhenScaled:  appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
		},
		VolumeClaimUpdateStrategy: appsv1beta1.StatefulSetVolumeClaimUpdateStrategy{Type: appsv1beta1.StatefulSetClaimOnDelete},
	}
}

func laterToV1alpha1(laterV1beta1) laterV1alpha1 { return laterV1alpha1{} }

// StatefulSetToHub converts a StatefulSet from v1alpha1 to v1beta1. Fields that don't exist in v1alpha1 are restored if they were
// preserved, and otherwise get the defaults of v1beta1. It doesn't change src or the TypeMeta of dst. See CloneSetToHub for the error.
func StatefulSetToHub(_ context.Context, src *StatefulSet, dst *appsv1beta1.StatefulSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := newTransfer(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	later, err := convert(t, partLater, laterV1alpha1{}, laterToV1beta1, laterToV1alpha1)
	if err != nil {
		return fmt.Errorf("convert StatefulSet %s/%s to v1beta1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = appsv1beta1.StatefulSetSpec{
		Replicas:             in.Spec.Replicas,
		Selector:             in.Spec.Selector,
		Template:             in.Spec.Template,
		VolumeClaimTemplates: in.Spec.VolumeClaimTemplates,
		ServiceName:          in.Spec.ServiceName,
		PodManagementPolicy:  in.Spec.PodManagementPolicy,
		UpdateStrategy:       in.Spec.UpdateStrategy,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,

		ReserveOrdinals:                      later.ReserveOrdinals,
		Ordinals:                             later.Ordinals,
		ScaleStrategy:                        later.ScaleStrategy,
		PersistentVolumeClaimRetentionPolicy: later.ClaimRetention,
		VolumeClaimUpdateStrategy:            later.VolumeClaimUpdateStrategy,
		Lifecycle:                            later.Lifecycle,
	}
	return t.end(&dst.ObjectMeta)
}

// StatefulSetFromHub converts a StatefulSet from v1beta1 to v1alpha1. Fields that don't exist in v1alpha1 are preserved, unless they have
// their defaults. It doesn't change src or the TypeMeta of dst. See CloneSetToHub for the error.
func StatefulSetFromHub(_ context.Context, src *appsv1beta1.StatefulSet, dst *StatefulSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := newTransfer(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	later := laterV1beta1{
		ReserveOrdinals:           in.Spec.ReserveOrdinals,
		Ordinals:                  in.Spec.Ordinals,
		ScaleStrategy:             in.Spec.ScaleStrategy,
		ClaimRetention:            in.Spec.PersistentVolumeClaimRetentionPolicy,
		VolumeClaimUpdateStrategy: in.Spec.VolumeClaimUpdateStrategy,
		Lifecycle:                 in.Spec.Lifecycle,
	}
	if _, err := convert(t, partLater, later, laterToV1alpha1, laterToV1beta1); err != nil {
		return fmt.Errorf("convert StatefulSet %s/%s to v1alpha1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = StatefulSetSpec{
		Replicas:             in.Spec.Replicas,
		Selector:             in.Spec.Selector,
		Template:             in.Spec.Template,
		VolumeClaimTemplates: in.Spec.VolumeClaimTemplates,
		ServiceName:          in.Spec.ServiceName,
		PodManagementPolicy:  in.Spec.PodManagementPolicy,
		UpdateStrategy:       in.Spec.UpdateStrategy,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
	}
	return t.end(&dst.ObjectMeta)
}
