package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "fleet.kruise.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package with a scheme.
func AddToScheme(s *runtime.Scheme) error {
	s.AddKnownTypes(GroupVersion,
		&MemberCluster{}, &MemberClusterList{},
		&MemberWork{}, &MemberWorkList{},
		&WorkContent{}, &WorkContentList{},
		&Membership{}, &MembershipList{},
		&AppliedWork{}, &AppliedWorkList{},
		&Propagation{}, &PropagationList{},
		&ClusterPropagation{}, &ClusterPropagationList{},
		&RolloutApproval{}, &RolloutApprovalList{},
	)
	metav1.AddToGroupVersion(s, GroupVersion)
	return nil
}
