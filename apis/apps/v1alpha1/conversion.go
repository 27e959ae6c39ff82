package v1alpha1

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// Names of the parts in keys.ConversionData. The parts of a UnitedDeployment have the prefix of its template.
const (
	partUpdate       = "updateStrategy"
	partClaimReuse   = "enablePVCReuse"
	partExclude      = "excludePreparingDelete"
	cloneSetTemplate = "cloneSetTemplate."
)

// typeOfV1beta1 is not a type of a CloneSet in v1alpha1, but is one in the template of a UnitedDeployment.
const typeOfV1beta1 = CloneSetUpdateStrategyType(appsv1beta1.CloneSetRollingUpdate)

// CloneSetToHub converts a CloneSet from v1alpha1 to v1beta1:
//   - The flat updateStrategy becomes a nested one. Type OnDelete has no rollingUpdate. Any other type becomes RollingUpdate with the
//     podUpdatePolicy of that name; an empty type becomes ReCreate. A value that isn't a type is kept, so that it is rejected: for a
//     mutating webhook, the apiserver converts an object back and forth before it applies the schema.
//   - scaleStrategy.enablePVCReuse is the opposite of disablePVCReuse.
//   - The label keys.CloneSetExcludePreparingDelete with value "true" sets scaleStrategy.excludePreparingDelete, and is kept.
//   - The annotations of the image pre-download become fields and are removed. Annotations that can't be parsed are kept, without effect.
//
// It doesn't change src or the TypeMeta of dst. An error means that src can't be encoded as JSON, which doesn't happen for objects that
// come from the apiserver.
func CloneSetToHub(_ context.Context, src *CloneSet, dst *appsv1beta1.CloneSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := newTransfer(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
	spec, err := cloneSetToV1beta1(t, "", &dst.ObjectMeta, widen(in.Spec))
	if err != nil {
		return fmt.Errorf("convert CloneSet %s/%s to v1beta1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = spec
	return t.end(&dst.ObjectMeta)
}

// CloneSetFromHub converts a CloneSet from v1beta1 to v1alpha1, with the inverse of the rules of CloneSetToHub: OnDelete stays, and
// otherwise the type is the podUpdatePolicy, or ReCreate if that is empty. excludePreparingDelete has no field and is preserved. It doesn't
// change src or the TypeMeta of dst. See CloneSetToHub for the error.
func CloneSetFromHub(_ context.Context, src *appsv1beta1.CloneSet, dst *CloneSet) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	t := newTransfer(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
	spec, err := cloneSetToV1alpha1(t, "", &dst.ObjectMeta, in.Spec)
	if err != nil {
		return fmt.Errorf("convert CloneSet %s/%s to v1alpha1: %w", src.Namespace, src.Name, err)
	}
	dst.Spec = narrow(spec)
	return t.end(&dst.ObjectMeta)
}

// UnitedDeploymentToHub converts a UnitedDeployment from v1alpha1 to v1beta1. A cloneSetTemplate is converted by the rules of CloneSetToHub
// with its own metadata; fields of v1beta1 that are already set take precedence. What has to be preserved is on the UnitedDeployment, so
// that its children don't get it. status.updatedRevision comes from status.updateStatus. Other status fields that only v1alpha1 has are
// dropped, because they are calculated.
//
// It doesn't change src or the TypeMeta of dst. See CloneSetToHub for the error.
func UnitedDeploymentToHub(_ context.Context, src *UnitedDeployment, dst *appsv1beta1.UnitedDeployment) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	t := newTransfer(&dst.ObjectMeta, wordsV1alpha1, wordsV1beta1)
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

// UnitedDeploymentFromHub converts a UnitedDeployment from v1beta1 to v1alpha1, with the inverse of the rules of UnitedDeploymentToHub.
// status.subsetReplicas and status.updateStatus are calculated from the rest of the status. It doesn't change src or the TypeMeta of dst.
// See CloneSetToHub for the error.
func UnitedDeploymentFromHub(_ context.Context, src *appsv1beta1.UnitedDeployment, dst *UnitedDeployment) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	t := newTransfer(&dst.ObjectMeta, wordsV1beta1, wordsV1alpha1)
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

// cloneSetToV1beta1 converts the spec, and the metadata of the same object in place.
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

// cloneSetToV1alpha1 converts the spec, and the metadata of the same object in place.
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

// widen converts the spec of a CloneSet to the spec in a UnitedDeployment's template, which has more fields. The type RollingUpdate, which
// is allowed only in such a template, becomes an invalid policy, and is preserved in that way.
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

// narrow is the inverse of widen. The additional fields are empty: no rule sets them, and preserved values come from a CloneSet.
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
		ObservedGeneration:       in.ObservedGeneration,
		Replicas:                 in.Replicas,
		ReadyReplicas:            in.ReadyReplicas,
		AvailableReplicas:        in.AvailableReplicas,
		UpdatedReplicas:          in.UpdatedReplicas,
		UpdatedReadyReplicas:     in.UpdatedReadyReplicas,
		UpdatedAvailableReplicas: in.UpdatedAvailableReplicas,
		Rollout:                  in.Rollout,
		ReservedPods:             in.ReservedPods,
		UnallocatedReplicas:      in.UnallocatedReplicas,
		StaleClusters:            in.StaleClusters,
		CurrentRevision:          in.CurrentRevision,
		CollisionCount:           in.CollisionCount,
		SubsetStatuses:           in.SubsetStatuses,
		Conditions:               in.Conditions,
		LabelSelector:            in.LabelSelector,
	}
	if in.UpdateStatus != nil {
		out.UpdatedRevision = in.UpdateStatus.UpdatedRevision
	}
	return out
}

func statusToV1alpha1(in appsv1beta1.UnitedDeploymentStatus) UnitedDeploymentStatus {
	out := UnitedDeploymentStatus{
		ObservedGeneration:       in.ObservedGeneration,
		Replicas:                 in.Replicas,
		ReadyReplicas:            in.ReadyReplicas,
		AvailableReplicas:        in.AvailableReplicas,
		UpdatedReplicas:          in.UpdatedReplicas,
		UpdatedReadyReplicas:     in.UpdatedReadyReplicas,
		UpdatedAvailableReplicas: in.UpdatedAvailableReplicas,
		Rollout:                  in.Rollout,
		ReservedPods:             in.ReservedPods,
		UnallocatedReplicas:      in.UnallocatedReplicas,
		StaleClusters:            in.StaleClusters,
		CurrentRevision:          in.CurrentRevision,
		CollisionCount:           in.CollisionCount,
		SubsetStatuses:           in.SubsetStatuses,
		Conditions:               in.Conditions,
		LabelSelector:            in.LabelSelector,
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
