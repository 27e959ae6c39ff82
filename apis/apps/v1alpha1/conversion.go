package v1alpha1

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// Names of the parts in keys.ConversionData. A UnitedDeployment's have the prefix of its template.
const (
	partUpdate       = "updateStrategy"
	partClaimReuse   = "enablePVCReuse"
	partExclude      = "excludePreparingDelete"
	cloneSetTemplate = "cloneSetTemplate."
)

// typeOfV1beta1 is no type of a CloneSet in v1alpha1, but one of a UnitedDeployment's template.
const typeOfV1beta1 = CloneSetUpdateStrategyType(appsv1beta1.CloneSetRollingUpdate)

// CloneSetToHub turns a CloneSet of v1alpha1 into v1beta1:
//   - updateStrategy, flat, becomes nested: type OnDelete has no rollingUpdate; each other type becomes RollingUpdate with
//     the podUpdatePolicy of that name, an empty one ReCreate. A value that is no type stays, to be refused: for a
//     mutating webhook the apiserver converts an object there and back before it applies the schema.
//   - scaleStrategy.enablePVCReuse is the opposite of disablePVCReuse.
//   - The label keys.CloneSetExcludePreparingDelete with value "true" sets scaleStrategy.excludePreparingDelete, and stays.
//   - The annotations of the image pre-download become fields and are removed; one that can't be parsed stays, without effect.
//
// src is not changed, and neither is dst's TypeMeta. An error means that src can't be encoded as JSON, which does not happen
// to an object that came from the apiserver.
func CloneSetToHub(_ context.Context, src *CloneSet, dst *appsv1beta1.CloneSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := begin(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	spec, err := cloneSetToV1beta1(t, "", &dst.ObjectMeta, widen(in.Spec))
	if err != nil {
		return fmt.Errorf("convert CloneSet %s/%s to v1beta1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = spec
	return t.end(&dst.ObjectMeta)
}

// CloneSetFromHub turns a CloneSet of v1beta1 into v1alpha1, by the reverse rules of CloneSetToHub: OnDelete stays,
// otherwise the podUpdatePolicy is the type, ReCreate if empty. excludePreparingDelete has no field and is preserved.
// src is not changed, and neither is dst's TypeMeta; for the error see there.
func CloneSetFromHub(_ context.Context, src *appsv1beta1.CloneSet, dst *CloneSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := begin(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	spec, err := cloneSetToV1alpha1(t, "", &dst.ObjectMeta, in.Spec)
	if err != nil {
		return fmt.Errorf("convert CloneSet %s/%s to v1alpha1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = narrow(spec)
	return t.end(&dst.ObjectMeta)
}

// UnitedDeploymentToHub turns a UnitedDeployment of v1alpha1 into v1beta1. A cloneSetTemplate converts by the rules of
// CloneSetToHub with its own metadata, where fields of v1beta1 that are set already take precedence; what has to be
// preserved is on the UnitedDeployment, so that no child gets it. status.updatedRevision comes from status.updateStatus; other
// fields that only v1alpha1 has in status are dropped, as they are computed.
//
// src is not changed, and neither is dst's TypeMeta; for the error see CloneSetToHub.
func UnitedDeploymentToHub(_ context.Context, src *UnitedDeployment, dst *appsv1beta1.UnitedDeployment) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	t := begin(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	dst.Spec = appsv1beta1.UnitedDeploymentSpec{
		Replicas: in.Spec.Replicas,
		Selector: in.Spec.Selector,
		Template: appsv1beta1.SubsetTemplate{
			StatefulSetTemplate:         in.Spec.Template.StatefulSetTemplate,
			AdvancedStatefulSetTemplate: in.Spec.Template.AdvancedStatefulSetTemplate,
			DeploymentTemplate:          in.Spec.Template.DeploymentTemplate,
		},
		UpdateStrategy:       in.Spec.UpdateStrategy,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
	}
	topology, err := topologyToV1beta1(t, &in.Spec.Topology)
	if err != nil {
		return fmt.Errorf("convert UnitedDeployment %s/%s to v1beta1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec.Topology = topology
	if c := in.Spec.Template.CloneSetTemplate; c != nil {
		out := &appsv1beta1.CloneSetTemplateSpec{ObjectMeta: c.ObjectMeta}
		spec, err := cloneSetToV1beta1(t, cloneSetTemplate, &out.ObjectMeta, c.Spec)
		if err != nil {
			return fmt.Errorf("convert UnitedDeployment %s/%s to v1beta1: %w", src.Namespace, src.Name, err)
		}
		out.Spec = spec
		dst.Spec.Template.CloneSetTemplate = out
	}
	dst.Status = statusToV1beta1(in.Status)
	return t.end(&dst.ObjectMeta)
}

// UnitedDeploymentFromHub turns a UnitedDeployment of v1beta1 into v1alpha1, by the reverse rules of
// UnitedDeploymentToHub. status.subsetReplicas and status.updateStatus are computed from the rest of the status.
// src is not changed, and neither is dst's TypeMeta; for the error see CloneSetToHub.
func UnitedDeploymentFromHub(_ context.Context, src *appsv1beta1.UnitedDeployment, dst *UnitedDeployment) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	t := begin(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	dst.Spec = UnitedDeploymentSpec{
		Replicas: in.Spec.Replicas,
		Selector: in.Spec.Selector,
		Template: SubsetTemplate{
			StatefulSetTemplate:         in.Spec.Template.StatefulSetTemplate,
			AdvancedStatefulSetTemplate: in.Spec.Template.AdvancedStatefulSetTemplate,
			DeploymentTemplate:          in.Spec.Template.DeploymentTemplate,
		},
		UpdateStrategy:       in.Spec.UpdateStrategy,
		RevisionHistoryLimit: in.Spec.RevisionHistoryLimit,
	}
	topology, err := topologyToV1alpha1(t, &in.Spec.Topology)
	if err != nil {
		return fmt.Errorf("convert UnitedDeployment %s/%s to v1alpha1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec.Topology = topology
	if c := in.Spec.Template.CloneSetTemplate; c != nil {
		out := &CloneSetTemplateSpec{ObjectMeta: c.ObjectMeta}
		spec, err := cloneSetToV1alpha1(t, cloneSetTemplate, &out.ObjectMeta, c.Spec)
		if err != nil {
			return fmt.Errorf("convert UnitedDeployment %s/%s to v1alpha1: %w", src.Namespace, src.Name, err)
		}
		out.Spec = spec
		dst.Spec.Template.CloneSetTemplate = out
	}
	dst.Status = statusToV1alpha1(in.Status)
	return t.end(&dst.ObjectMeta)
}

// cloneSetToV1beta1 converts the spec and, in place, the metadata of the same object.
func cloneSetToV1beta1(
	t *transfer, prefix string, meta *metav1.ObjectMeta, in SubsetCloneSetSpec,
) (appsv1beta1.CloneSetSpec, error) {
	out := appsv1beta1.CloneSetSpec{
		Replicas:             in.Replicas,
		Selector:             in.Selector,
		Template:             in.Template,
		VolumeClaimTemplates: in.VolumeClaimTemplates,
		ScaleStrategy: appsv1beta1.CloneSetScaleStrategy{
			PodsToDelete:   in.ScaleStrategy.PodsToDelete,
			MaxUnavailable: in.ScaleStrategy.MaxUnavailable,
		},
		RevisionHistoryLimit:    in.RevisionHistoryLimit,
		MinReadySeconds:         in.MinReadySeconds,
		ProgressDeadlineSeconds: in.ProgressDeadlineSeconds,
		Lifecycle:               in.Lifecycle,
	}
	update, err := convert(t, prefix+partUpdate,
		updateV1alpha1{Strategy: in.UpdateStrategy, Annotations: preDownloadAnnotations(meta.Annotations)},
		updateToV1beta1, updateToV1alpha1)
	if err != nil {
		return out, err
	}
	reuse, err := convert(t, prefix+partClaimReuse,
		claimReuseV1alpha1{Disable: in.ScaleStrategy.DisablePVCReuse, Enable: in.ScaleStrategy.EnablePVCReuse},
		claimReuseToV1beta1, claimReuseToV1alpha1)
	if err != nil {
		return out, err
	}
	exclude, err := convert(t, prefix+partExclude,
		excludeV1alpha1{Label: excludeLabel(meta), Exclude: in.ScaleStrategy.ExcludePreparingDelete},
		excludeToV1beta1, excludeToV1alpha1)
	if err != nil {
		return out, err
	}
	out.UpdateStrategy = update.Strategy
	out.ScaleStrategy.EnablePVCReuse = reuse.Enable
	out.ScaleStrategy.ExcludePreparingDelete = exclude.Exclude
	meta.Annotations = replacePreDownload(meta.Annotations, update.Annotations)
	return out, nil
}

// cloneSetToV1alpha1 converts the spec and, in place, the metadata of the same object.
func cloneSetToV1alpha1(
	t *transfer, prefix string, meta *metav1.ObjectMeta, in appsv1beta1.CloneSetSpec,
) (SubsetCloneSetSpec, error) {
	out := SubsetCloneSetSpec{
		Replicas:                in.Replicas,
		Selector:                in.Selector,
		Template:                in.Template,
		VolumeClaimTemplates:    in.VolumeClaimTemplates,
		RevisionHistoryLimit:    in.RevisionHistoryLimit,
		MinReadySeconds:         in.MinReadySeconds,
		ProgressDeadlineSeconds: in.ProgressDeadlineSeconds,
		Lifecycle:               in.Lifecycle,
	}
	update, err := convert(t, prefix+partUpdate,
		updateV1beta1{Strategy: in.UpdateStrategy, Annotations: preDownloadAnnotations(meta.Annotations)},
		updateToV1alpha1, updateToV1beta1)
	if err != nil {
		return out, err
	}
	reuse, err := convert(t, prefix+partClaimReuse,
		claimReuseV1beta1{Enable: in.ScaleStrategy.EnablePVCReuse},
		claimReuseToV1alpha1, claimReuseToV1beta1)
	if err != nil {
		return out, err
	}
	exclude, err := convert(t, prefix+partExclude,
		excludeV1beta1{Label: excludeLabel(meta), Exclude: in.ScaleStrategy.ExcludePreparingDelete},
		excludeToV1alpha1, excludeToV1beta1)
	if err != nil {
		return out, err
	}
	out.UpdateStrategy = update.Strategy
	out.ScaleStrategy.PodsToDelete = in.ScaleStrategy.PodsToDelete
	out.ScaleStrategy.MaxUnavailable = in.ScaleStrategy.MaxUnavailable
	out.ScaleStrategy.DisablePVCReuse = reuse.Disable
	out.ScaleStrategy.EnablePVCReuse = reuse.Enable
	out.ScaleStrategy.ExcludePreparingDelete = exclude.Exclude
	meta.Annotations = replacePreDownload(meta.Annotations, update.Annotations)
	return out, nil
}

// widen turns a CloneSet's spec into the spec of a UnitedDeployment's template, which has more fields. The type
// RollingUpdate, which only such a template may have, becomes an invalid policy and is so preserved.
func widen(in CloneSetSpec) SubsetCloneSetSpec {
	var rolling *appsv1beta1.CloneSetRollingUpdateStrategy
	if in.UpdateStrategy.Type == typeOfV1beta1 {
		rolling = &appsv1beta1.CloneSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodUpdatePolicy(typeOfV1beta1)}
	}
	return SubsetCloneSetSpec{
		Replicas:                in.Replicas,
		Selector:                in.Selector,
		Template:                in.Template,
		VolumeClaimTemplates:    in.VolumeClaimTemplates,
		ScaleStrategy:           SubsetCloneSetScaleStrategy{CloneSetScaleStrategy: in.ScaleStrategy},
		UpdateStrategy:          SubsetCloneSetUpdateStrategy{CloneSetUpdateStrategy: in.UpdateStrategy, RollingUpdate: rolling},
		RevisionHistoryLimit:    in.RevisionHistoryLimit,
		MinReadySeconds:         in.MinReadySeconds,
		ProgressDeadlineSeconds: in.ProgressDeadlineSeconds,
		Lifecycle:               in.Lifecycle,
	}
}

// narrow is the opposite of widen. The additional fields are empty: no rule sets them, and what was preserved came from a
// CloneSet.
func narrow(in SubsetCloneSetSpec) CloneSetSpec {
	return CloneSetSpec{
		Replicas:                in.Replicas,
		Selector:                in.Selector,
		Template:                in.Template,
		VolumeClaimTemplates:    in.VolumeClaimTemplates,
		ScaleStrategy:           in.ScaleStrategy.CloneSetScaleStrategy,
		UpdateStrategy:          in.UpdateStrategy.CloneSetUpdateStrategy,
		RevisionHistoryLimit:    in.RevisionHistoryLimit,
		MinReadySeconds:         in.MinReadySeconds,
		ProgressDeadlineSeconds: in.ProgressDeadlineSeconds,
		Lifecycle:               in.Lifecycle,
	}
}

func statusToV1beta1(in UnitedDeploymentStatus) appsv1beta1.UnitedDeploymentStatus {
	out := appsv1beta1.UnitedDeploymentStatus{
		ObservedGeneration:   in.ObservedGeneration,
		Replicas:             in.Replicas,
		ReadyReplicas:        in.ReadyReplicas,
		AvailableReplicas:    in.AvailableReplicas,
		UpdatedReplicas:      in.UpdatedReplicas,
		UpdatedReadyReplicas: in.UpdatedReadyReplicas,
		ReservedPods:         in.ReservedPods,
		UnallocatedReplicas:  in.UnallocatedReplicas,
		StaleClusters:        in.StaleClusters,
		CurrentRevision:      in.CurrentRevision,
		CollisionCount:       in.CollisionCount,
		SubsetStatuses:       in.SubsetStatuses,
		Conditions:           in.Conditions,
		LabelSelector:        in.LabelSelector,
	}
	if in.UpdateStatus != nil {
		out.UpdatedRevision = in.UpdateStatus.UpdatedRevision
	}
	return out
}

func statusToV1alpha1(in appsv1beta1.UnitedDeploymentStatus) UnitedDeploymentStatus {
	out := UnitedDeploymentStatus{
		ObservedGeneration:   in.ObservedGeneration,
		Replicas:             in.Replicas,
		ReadyReplicas:        in.ReadyReplicas,
		AvailableReplicas:    in.AvailableReplicas,
		UpdatedReplicas:      in.UpdatedReplicas,
		UpdatedReadyReplicas: in.UpdatedReadyReplicas,
		ReservedPods:         in.ReservedPods,
		UnallocatedReplicas:  in.UnallocatedReplicas,
		StaleClusters:        in.StaleClusters,
		CurrentRevision:      in.CurrentRevision,
		CollisionCount:       in.CollisionCount,
		SubsetStatuses:       in.SubsetStatuses,
		Conditions:           in.Conditions,
		LabelSelector:        in.LabelSelector,
	}
	if in.UpdatedRevision == "" && len(in.SubsetStatuses) == 0 {
		return out
	}
	out.UpdateStatus = &UpdateStatus{UpdatedRevision: in.UpdatedRevision}
	for _, s := range in.SubsetStatuses {
		if out.SubsetReplicas == nil {
			out.SubsetReplicas = map[string]int32{}
			out.UpdateStatus.CurrentPartitions = map[string]int32{}
		}
		out.SubsetReplicas[s.Name] = s.Replicas
		out.UpdateStatus.CurrentPartitions[s.Name] = s.Partition
	}
	return out
}
