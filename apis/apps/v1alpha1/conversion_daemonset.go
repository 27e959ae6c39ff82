package v1alpha1

import (
	"cmp"
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// partScale is the name of a DaemonSet's part in keys.ConversionData that is beside partUpdate.
const partScale = "scaleStrategy"

// scale is how pods are made on nodes that have none: in v1alpha1 by an annotation, in which only "true" says something.
type (
	scaleV1alpha1 struct {
		Annotation *string `json:"annotation,omitempty"`
	}
	scaleV1beta1 struct {
		Strategy *appsv1beta1.DaemonSetScaleStrategy `json:"strategy,omitempty"`
		// Annotation says nothing here, but is there.
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
		return scaleV1alpha1{} // It would say something there.
	}
	return scaleV1alpha1{Annotation: b.Annotation}
}

// surgingToStandard: Surging is Standard with maxSurge 1 unless that is set.
func surgingToStandard(a appsv1beta1.DaemonSetUpdateStrategy) appsv1beta1.DaemonSetUpdateStrategy {
	b := *a.DeepCopy()
	if r := b.RollingUpdate; r != nil && r.Type == appsv1beta1.DaemonSetSurging {
		r.Type = appsv1beta1.DaemonSetStandard
		r.MaxSurge = cmp.Or(r.MaxSurge, new(intstr.FromInt32(1)))
	}
	return b
}

func sameStrategy(b appsv1beta1.DaemonSetUpdateStrategy) appsv1beta1.DaemonSetUpdateStrategy {
	return *b.DeepCopy()
}

// DaemonSetToHub turns a DaemonSet of v1alpha1 into v1beta1:
//   - The annotation keys.DaemonSetProgressiveCreate with value "true" sets scaleStrategy.partitionedScaling, and goes;
//     with another value it stays and says nothing.
//   - rollingUpdateType Surging becomes Standard with maxSurge 1, unless maxSurge is set.
//   - status.daemonSetHash is status.updateRevision.
//
// src is not changed and dst's type is left alone; for the error see CloneSetToHub.
func DaemonSetToHub(_ context.Context, src *DaemonSet, dst *appsv1beta1.DaemonSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status.DaemonSetStatus
	dst.Status.UpdateRevision = cmp.Or(in.Status.UpdateRevision, in.Status.DaemonSetHash)
	t := begin(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	update, err := convert(t, partUpdate, in.Spec.UpdateStrategy, surgingToStandard, sameStrategy)
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
		UpdateStrategy:       update,
		ScaleStrategy:        scale.Strategy,
		MinReadySeconds:      in.Spec.MinReadySeconds,
		BurstReplicas:        in.Spec.BurstReplicas,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
		Lifecycle:            in.Spec.Lifecycle,
	}
	dst.Annotations = replaceProgressiveCreate(dst.Annotations, scale.Annotation)
	return t.end(&dst.ObjectMeta)
}

// DaemonSetFromHub turns a DaemonSet of v1beta1 into v1alpha1, by the rules of DaemonSetToHub read backwards. An annotation
// that says nothing in v1beta1 does not come to say something. src is not changed and dst's type is left alone; for the
// error see CloneSetToHub.
func DaemonSetFromHub(_ context.Context, src *appsv1beta1.DaemonSet, dst *DaemonSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	dst.Status = DaemonSetStatus{DaemonSetStatus: in.Status, DaemonSetHash: in.Status.UpdateRevision}
	t := begin(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	update, err := convert(t, partUpdate, in.Spec.UpdateStrategy, sameStrategy, surgingToStandard)
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
		UpdateStrategy:       update,
		MinReadySeconds:      in.Spec.MinReadySeconds,
		BurstReplicas:        in.Spec.BurstReplicas,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
		Lifecycle:            in.Spec.Lifecycle,
	}
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
