package v1alpha1

import (
	"context"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// The two versions of PersistentPodState differ only in the names of one field, keys and nodeTopologyKeys, so that nothing has to be
// preserved.

// PersistentPodStateToHub sets dst to the v1beta1 form of src. It doesn't change src or the TypeMeta of dst.
func PersistentPodStateToHub(_ context.Context, src *PersistentPodState, dst *appsv1beta1.PersistentPodState) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	dst.Spec = appsv1beta1.PersistentPodStateSpec{
		TargetRef: in.Spec.TargetRef, PersistentPodAnnotations: in.Spec.PersistentPodAnnotations,
		PersistentPodStateRetentionPolicy: in.Spec.PersistentPodStateRetentionPolicy,
	}
	if required := in.Spec.RequiredPersistentTopology; required != nil {
		dst.Spec.RequiredPersistentTopology = &appsv1beta1.NodeTopologyTerm{Keys: required.NodeTopologyKeys}
	}
	if in.Spec.PreferredPersistentTopology != nil {
		dst.Spec.PreferredPersistentTopology = make([]appsv1beta1.PreferredTopologyTerm, 0, len(in.Spec.PreferredPersistentTopology))
	}
	for _, p := range in.Spec.PreferredPersistentTopology {
		dst.Spec.PreferredPersistentTopology = append(dst.Spec.PreferredPersistentTopology, appsv1beta1.PreferredTopologyTerm{
			Weight: p.Weight, Preference: appsv1beta1.NodeTopologyTerm{Keys: p.Preference.NodeTopologyKeys},
		})
	}
	return nil
}

// PersistentPodStateFromHub sets dst to the v1alpha1 form of src. It doesn't change src or the TypeMeta of dst.
func PersistentPodStateFromHub(_ context.Context, src *appsv1beta1.PersistentPodState, dst *PersistentPodState) error {
	in := src.DeepCopy()
	dst.ObjectMeta, dst.Status = in.ObjectMeta, in.Status
	dst.Spec = PersistentPodStateSpec{
		TargetRef: in.Spec.TargetRef, PersistentPodAnnotations: in.Spec.PersistentPodAnnotations,
		PersistentPodStateRetentionPolicy: in.Spec.PersistentPodStateRetentionPolicy,
	}
	if required := in.Spec.RequiredPersistentTopology; required != nil {
		dst.Spec.RequiredPersistentTopology = &NodeTopologyTerm{NodeTopologyKeys: required.Keys}
	}
	if in.Spec.PreferredPersistentTopology != nil {
		dst.Spec.PreferredPersistentTopology = make([]PreferredTopologyTerm, 0, len(in.Spec.PreferredPersistentTopology))
	}
	for _, p := range in.Spec.PreferredPersistentTopology {
		dst.Spec.PreferredPersistentTopology = append(dst.Spec.PreferredPersistentTopology, PreferredTopologyTerm{
			Weight: p.Weight, Preference: NodeTopologyTerm{NodeTopologyKeys: p.Preference.Keys},
		})
	}
	return nil
}
