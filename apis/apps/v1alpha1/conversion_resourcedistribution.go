package v1alpha1

import (
	"context"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The two versions of ResourceDistribution differ only in two field names, so that nothing has to be preserved.

// ResourceDistributionToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func ResourceDistributionToHub(_ context.Context, src *ResourceDistribution, dst *appsv1beta1.ResourceDistribution) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	dst.Spec = appsv1beta1.ResourceDistributionSpec{Resource: in.Spec.Resource, Targets: appsv1beta1.ResourceDistributionTargets{
		AllNamespaces: in.Spec.Targets.AllNamespaces, ExcludedNamespaces: in.Spec.Targets.ExcludedNamespaces,
		IncludedNamespaces: in.Spec.Targets.IncludedNamespaces, NamespaceSelector: in.Spec.Targets.NamespaceLabelSelector,
		Clusters: in.Spec.Targets.Clusters,
	}}
	dst.Spec.Source = in.Spec.Source
	dst.Status = appsv1beta1.ResourceDistributionStatus{
		Desired: in.Status.Desired, Succeeded: in.Status.Succeeded, Failed: in.Status.Failed,
		ObservedGeneration: in.Status.ObservedGeneration, SelectedClusters: in.Status.SelectedClusters,
		StaleClusters: in.Status.StaleClusters, Clusters: in.Status.Clusters,
	}
	for _, c := range in.Status.Conditions {
		dst.Status.Conditions = append(dst.Status.Conditions, appsv1beta1.ResourceDistributionCondition(c))
	}
	return nil
}

// ResourceDistributionFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func ResourceDistributionFromHub(_ context.Context, src *appsv1beta1.ResourceDistribution, dst *ResourceDistribution) error {
	in := src.DeepCopy()
	dst.ObjectMeta = in.ObjectMeta
	dst.Spec = ResourceDistributionSpec{Resource: in.Spec.Resource, Targets: ResourceDistributionTargets{
		AllNamespaces: in.Spec.Targets.AllNamespaces, ExcludedNamespaces: in.Spec.Targets.ExcludedNamespaces,
		IncludedNamespaces: in.Spec.Targets.IncludedNamespaces, NamespaceLabelSelector: in.Spec.Targets.NamespaceSelector,
		Clusters: in.Spec.Targets.Clusters,
	}}
	dst.Spec.Source = in.Spec.Source
	dst.Status = ResourceDistributionStatus{
		Desired: in.Status.Desired, Succeeded: in.Status.Succeeded, Failed: in.Status.Failed,
		ObservedGeneration: in.Status.ObservedGeneration, SelectedClusters: in.Status.SelectedClusters,
		StaleClusters: in.Status.StaleClusters, Clusters: in.Status.Clusters,
	}
	for _, c := range in.Status.Conditions {
		dst.Status.Conditions = append(dst.Status.Conditions, ResourceDistributionCondition(c))
	}
	return nil
}
