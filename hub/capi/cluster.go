package capi

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// What the package uses of Cluster API's contract. Module e2e/capi compares it with Cluster API's own constants and types.
const (
	// Group and Kind are those of a Cluster.
	Group, Kind = "cluster.x-k8s.io", "Cluster"
	// CRD is the name of its CustomResourceDefinition.
	CRD = "clusters." + Group
	// ConditionInitialized is the condition that is True once the control plane can take requests. It stays True.
	ConditionInitialized = "ControlPlaneInitialized"
	// AnnotationPaused stops Cluster API's work on an object, as spec.paused of a Cluster does.
	AnnotationPaused = Group + "/paused"
	// AnnotationMoved is on an object that clusterctl move deletes, after it made a copy in another management cluster.
	AnnotationMoved = "clusterctl." + Group + "/delete-for-move"
	// KubeconfigKey is the key of the kubeconfig in its Secret.
	KubeconfigKey = "value"
)

// Versions of a Cluster that the package reads, the preferred first.
func Versions() []string { return []string{"v1beta2", "v1beta1"} }

// KubeconfigSecret returns the name of the Secret, in the Cluster's namespace, with the kubeconfig of a Cluster.
func KubeconfigSecret(cluster string) string { return cluster + "-kubeconfig" }

// Phase is what a hub needs to know of a Cluster.
type Phase string

// Phases of a Cluster.
const (
	// Unread: nothing is known yet.
	Unread Phase = ""
	// NotAllowed: the hub does not read Clusters in that namespace.
	NotAllowed Phase = "NotAllowed"
	// NotServed: the hub serves no Clusters, or none in a version of Versions.
	NotServed Phase = "NotServed"
	// NotFound: there is no such Cluster. That may be temporary: a cache may be stale, and clusterctl moves Clusters away.
	NotFound Phase = "NotFound"
	// Waiting: its control plane is not initialized yet.
	Waiting Phase = "Waiting"
	// Provisioned: its control plane is initialized.
	Provisioned Phase = "Provisioned"
	// Deleting: Cluster API deletes the cluster and its machines. That can't be revoked.
	Deleting Phase = "Deleting"
)

// PhaseOf returns the phase of a Cluster in one of Versions. One that is paused is not being deleted, whatever its deletion
// timestamp says: Cluster API does nothing then, and clusterctl moves paused Clusters.
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

// stripCluster drops everything that PhaseOf does not read.
func stripCluster(o any) (any, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return o, nil
	}
	u.SetManagedFields(nil)
	conditions, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions") // Without conditions it is Waiting.
	pausedSpec, _, _ := unstructured.NestedBool(u.Object, "spec", "paused")        // Likewise not paused.
	u.Object["spec"] = map[string]any{"paused": pausedSpec}
	u.Object["status"] = map[string]any{"conditions": conditions}
	return u, nil
}
