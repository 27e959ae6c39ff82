package capi

import (
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Older versions of Cluster API serve only this one.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// The parts of Cluster API's contract for which its module of types has no constants.
const (
	// CRD is the name of the CustomResourceDefinition of Clusters.
	CRD = "clusters.cluster.x-k8s.io"
	// annotationMoved marks an object that clusterctl move deletes after copying it to another management cluster.
	annotationMoved = "clusterctl.cluster.x-k8s.io/delete-for-move"
	// KubeconfigKey is the key of the kubeconfig in its Secret.
	KubeconfigKey = "value"
)

// Versions returns the versions of Clusters that the package reads, preferred version first.
func Versions() []string {
	return []string{clusterv1.GroupVersion.Version, clusterv1beta1.GroupVersion.Version}
}

// AddToScheme adds the Go types of Versions to a scheme.
func AddToScheme(s *runtime.Scheme) error {
	return errors.Join(clusterv1.AddToScheme(s), clusterv1beta1.AddToScheme(s))
}

// newCluster returns an empty Cluster of one of Versions.
func newCluster(version string) client.Object {
	if version == clusterv1beta1.GroupVersion.Version {
		return &clusterv1beta1.Cluster{}
	}
	return &clusterv1.Cluster{}
}

// KubeconfigSecret returns the name of the Secret with the kubeconfig of a Cluster. It is in the Cluster's namespace.
func KubeconfigSecret(cluster string) string { return cluster + "-kubeconfig" }

// Phase is what a hub needs to know about a Cluster.
type Phase string

// Phases of a Cluster.
const (
	// Unread means that nothing is known yet.
	Unread Phase = ""
	// NotAllowed means that the hub doesn't read Clusters in that namespace.
	NotAllowed Phase = "NotAllowed"
	// NotServed means that the hub doesn't serve Clusters, or not in one of Versions.
	NotServed Phase = "NotServed"
	// NotFound means that there is no such Cluster. This may be temporary: a cache may be stale, and clusterctl moves Clusters away.
	NotFound Phase = "NotFound"
	// Waiting means that its control plane is not initialized yet.
	Waiting Phase = "Waiting"
	// Provisioned means that its control plane is initialized.
	Provisioned Phase = "Provisioned"
	// Deleting means that Cluster API is deleting the cluster and its machines. This can't be undone.
	Deleting Phase = "Deleting"
)

// phaseOf returns the phase of a Cluster of one of Versions. A paused Cluster is not being deleted, whatever its deletion timestamp says:
// Cluster API does nothing while it is paused, and clusterctl moves paused Clusters.
func phaseOf(cluster client.Object) Phase {
	var paused, initialized bool
	switch c := cluster.(type) {
	case *clusterv1.Cluster:
		paused = ptr.Deref(c.Spec.Paused, false)
		initialized = report.IsConditionTrue(c.Status.Conditions, clusterv1.ClusterControlPlaneInitializedCondition)
	case *clusterv1beta1.Cluster:
		paused = c.Spec.Paused
		initialized = slices.ContainsFunc(c.Status.Conditions, func(condition clusterv1beta1.Condition) bool {
			return condition.Type == clusterv1beta1.ControlPlaneInitializedCondition && condition.Status == corev1.ConditionTrue
		})
	}
	for _, annotation := range []string{clusterv1.PausedAnnotation, annotationMoved} {
		_, found := cluster.GetAnnotations()[annotation]
		paused = paused || found
	}
	switch {
	case cluster.GetDeletionTimestamp() != nil && !paused:
		return Deleting
	case initialized:
		return Provisioned
	default:
		return Waiting
	}
}

// stripCluster drops everything that phaseOf doesn't read.
func stripCluster(o any) (any, error) {
	switch c := o.(type) {
	case *clusterv1.Cluster:
		c.ManagedFields = nil
		c.Spec = clusterv1.ClusterSpec{Paused: c.Spec.Paused}
		c.Status = clusterv1.ClusterStatus{Conditions: c.Status.Conditions}
	case *clusterv1beta1.Cluster:
		c.ManagedFields = nil
		c.Spec = clusterv1beta1.ClusterSpec{Paused: c.Spec.Paused}
		c.Status = clusterv1beta1.ClusterStatus{Conditions: c.Status.Conditions}
	}
	return o, nil
}
