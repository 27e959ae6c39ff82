package capi

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The parts of Cluster API's contract that the package uses. Module e2e/capi compares them with Cluster API's own constants and types.
const (
	// Group and Kind identify Clusters.
	Group, Kind = "cluster.x-k8s.io", "Cluster"
	// CRD is the name of the CustomResourceDefinition of Clusters.
	CRD = "clusters." + Group
	// ConditionInitialized is the condition that becomes True once the control plane can take requests. It stays True.
	ConditionInitialized = "ControlPlaneInitialized"
	// AnnotationPaused stops Cluster API's work on an object, like spec.paused of a Cluster.
	AnnotationPaused = Group + "/paused"
	// AnnotationMoved marks an object that clusterctl move deletes after copying it to another management cluster.
	AnnotationMoved = "clusterctl." + Group + "/delete-for-move"
	// KubeconfigKey is the key of the kubeconfig in its Secret.
	KubeconfigKey = "value"
)

// Versions returns the versions of Clusters that the package reads, preferred version first.
func Versions() []string { return []string{"v1beta2", "v1beta1"} }

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

// PhaseOf returns the phase of a Cluster in one of Versions. A paused Cluster is not being deleted, whatever its deletion timestamp says:
// Cluster API does nothing while it is paused, and clusterctl moves paused Clusters.
func PhaseOf(cluster *unstructured.Unstructured) Phase {
	if cluster.GetDeletionTimestamp() != nil && !paused(cluster) {
		return Deleting
	}
	if initialized(cluster) {
		return Provisioned
	}
	return Waiting
}

func paused(cluster *unstructured.Unstructured) bool {
	if spec, _, err := unstructured.NestedBool(cluster.Object, "spec", "paused"); err == nil && spec {
		return true
	}
	_, annotated := cluster.GetAnnotations()[AnnotationPaused]
	_, moved := cluster.GetAnnotations()[AnnotationMoved]
	return annotated || moved
}

func initialized(cluster *unstructured.Unstructured) bool {
	conditions, _, err := unstructured.NestedSlice(cluster.Object, "status", "conditions")
	return err == nil && slices.ContainsFunc(conditions, func(c any) bool {
		condition, ok := c.(map[string]any)
		return ok && condition["type"] == ConditionInitialized && condition["status"] == "True"
	})
}

// stripCluster drops everything that PhaseOf doesn't read.
func stripCluster(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions") // Without conditions it is Waiting.
	pausedSpec, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")        // Likewise, it is not paused.
	u.Object["spec"] = map[string]any{"paused": pausedSpec}
	u.Object["status"] = map[string]any{"conditions": conditions}
	return u, nil
}
