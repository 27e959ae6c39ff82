package v1alpha1

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// Names of the parts of a DaemonSet in keys.ConversionData.
const (
	partSurge = "surge"
	partScale = "scaleStrategy"
)

// scale specifies how pods are created on nodes that don't have one. In v1alpha1 it is an annotation, and only the value "true" has an
// effect.
type (
	scaleV1alpha1 struct {
		Annotation *string `json:"annotation,omitempty"`
	}
	scaleV1beta1 struct {
		Strategy *appsv1beta1.DaemonSetScaleStrategy `json:"strategy,omitempty"`
		// Annotation may exist here, but has no effect.
		Annotation *string `json:"annotation,omitempty"`
	}
)

func scaleToV1beta1(a scaleV1alpha1) scaleV1beta1 {
	if a.Annotation == nil || *a.Annotation != "true" {
		return scaleV1beta1{Annotation: a.Annotation}
	}
	return scaleV1beta1{Strategy: &appsv1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}}
}

func scaleToV1alpha1(b scaleV1beta1) scaleV1alpha1 {
	if b.Strategy != nil && b.Strategy.PartitionedScaling {
		return scaleV1alpha1{Annotation: new("true")}
	}
	if b.Annotation != nil && *b.Annotation == "true" {
		return scaleV1alpha1{} // The annotation would have an effect there.
	}
	return scaleV1alpha1{Annotation: b.Annotation}
}

// surge is the part of a rolling update that concerns the second pod on a node. The rest of the rolling update is the same in both
// versions, and may get defaults in the meantime.
type surge struct {
	Type     appsv1beta1.DaemonSetRollingUpdateType `json:"rollingUpdateType,omitempty"`
	MaxSurge *intstr.IntOrString                    `json:"maxSurge,omitempty"`
}

func surgeOf(r *appsv1beta1.DaemonSetRollingUpdateStrategy) surge {
	if r == nil {
		return surge{}
	}
	return surge{Type: r.Type, MaxSurge: r.MaxSurge}
}

// into sets this part of u to s.
func (s surge) into(u *appsv1beta1.DaemonSetUpdateStrategy) {
	if u.RollingUpdate != nil {
		u.RollingUpdate.Type, u.RollingUpdate.MaxSurge = s.Type, s.MaxSurge
	}
}

// surgingToStandard converts Surging to Standard, with maxSurge 1 unless it is set.
func surgingToStandard(s surge) surge {
	if s.Type == appsv1beta1.DaemonSetSurging {
		return surge{Type: appsv1beta1.DaemonSetStandard, MaxSurge: cmp.Or(s.MaxSurge, new(intstr.FromInt32(1)))}
	}
	return s
}

func sameSurge(s surge) surge { return s }

// DaemonSetToHub converts a DaemonSet from v1alpha1 to v1beta1:
//   - The annotation keys.DaemonSetProgressiveCreate with value "true" sets scaleStrategy.partitionedScaling and is removed. With any
//     other value it is kept, without effect.
//   - rollingUpdateType Surging becomes Standard with maxSurge 1, unless maxSurge is set.
//   - status.daemonSetHash becomes status.updateRevision.
//
// It doesn't change src or the TypeMeta of dst. See CloneSetToHub for the error.
func DaemonSetToHub(_ context.Context, src *DaemonSet, dst *appsv1beta1.DaemonSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status.DaemonSetStatus
	dst.Status.UpdateRevision = cmp.Or(in.Status.UpdateRevision, in.Status.DaemonSetHash)
	t := newTransfer(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	second, err := convert(t, partSurge, surgeOf(in.Spec.UpdateStrategy.RollingUpdate), surgingToStandard, sameSurge)
	if err != nil {
		return fmt.Errorf("convert DaemonSet %s/%s to v1beta1: %w", src.Namespace, src.Name, err)
	}
	scale, err := convert(t, partScale, scaleV1alpha1{Annotation: progressiveCreate(dst.Annotations)}, scaleToV1beta1, scaleToV1alpha1)
	if err != nil {
		return fmt.Errorf("convert DaemonSet %s/%s to v1beta1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = appsv1beta1.DaemonSetSpec{
		Selector:             in.Spec.Selector,
		Template:             in.Spec.Template,
		UpdateStrategy:       in.Spec.UpdateStrategy,
		ScaleStrategy:        scale.Strategy,
		MinReadySeconds:      in.Spec.MinReadySeconds,
		BurstReplicas:        in.Spec.BurstReplicas,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
		Lifecycle:            in.Spec.Lifecycle,
	}
	second.into(&dst.Spec.UpdateStrategy)
	dst.Annotations = replaceProgressiveCreate(dst.Annotations, scale.Annotation)
	return t.end(&dst.ObjectMeta)
}

// DaemonSetFromHub converts a DaemonSet from v1beta1 to v1alpha1, with the inverse of the rules of DaemonSetToHub. An annotation without
// effect in v1beta1 doesn't get an effect. It doesn't change src or the TypeMeta of dst. See CloneSetToHub for the error.
func DaemonSetFromHub(_ context.Context, src *appsv1beta1.DaemonSet, dst *DaemonSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	dst.Status = DaemonSetStatus{DaemonSetStatus: in.Status, DaemonSetHash: in.Status.UpdateRevision}
	t := newTransfer(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	second, err := convert(t, partSurge, surgeOf(in.Spec.UpdateStrategy.RollingUpdate), sameSurge, surgingToStandard)
	if err != nil {
		return fmt.Errorf("convert DaemonSet %s/%s to v1alpha1: %w", src.Namespace, src.Name, err)
	}
	scale, err := convert(t, partScale,
		scaleV1beta1{Strategy: in.Spec.ScaleStrategy, Annotation: progressiveCreate(dst.Annotations)},
		scaleToV1alpha1, scaleToV1beta1)
	if err != nil {
		return fmt.Errorf("convert DaemonSet %s/%s to v1alpha1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = DaemonSetSpec{
		Selector:             in.Spec.Selector,
		Template:             in.Spec.Template,
		UpdateStrategy:       in.Spec.UpdateStrategy,
		MinReadySeconds:      in.Spec.MinReadySeconds,
		BurstReplicas:        in.Spec.BurstReplicas,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
		Lifecycle:            in.Spec.Lifecycle,
	}
	second.into(&dst.Spec.UpdateStrategy)
	dst.Annotations = replaceProgressiveCreate(dst.Annotations, scale.Annotation)
	return t.end(&dst.ObjectMeta)
}

func progressiveCreate(annotations map[string]string) *string {
	if v, ok := annotations[keys.DaemonSetProgressiveCreate]; ok {
		return &v
	}
	return nil
}

func replaceProgressiveCreate(annotations map[string]string, value *string) map[string]string {
	if value == nil {
		return without(annotations, keys.DaemonSetProgressiveCreate)
	}
	return with(annotations, keys.DaemonSetProgressiveCreate, *value)
}
