package clusterprofile

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

// The parts of the standard that the package uses, see https://github.com/kubernetes-sigs/cluster-inventory-api.
const (
	group = "multicluster.x-k8s.io"
	kind  = "ClusterProfile"
	crds  = "clusterprofiles." + group
	// labelManager has the same value as spec.clusterManager.name.
	labelManager = "x-k8s.io/cluster-manager"
	// conditionHealthy says whether the cluster's control plane is healthy.
	conditionHealthy = "ControlPlaneHealthy"
)

// Manager is the name of this cluster manager in ClusterProfiles.
const Manager = "flotilla"

// Properties of a cluster in addition to the standard ones. Unknown ones are left out.
const (
	propertyRegion   = "topology.kubernetes.io/region"
	propertyZone     = "topology.kubernetes.io/zone"
	propertyProvider = "fleet.kruise.io/provider"
	propertyUID      = "fleet.kruise.io/cluster-uid"
)

func groupKind() schema.GroupKind { return schema.GroupKind{Group: group, Kind: kind} }

// versions are the versions that can be written, preferred version first. The content is the same in both.
func versions() []string { return []string{"v1alpha2", "v1alpha1"} }

// newProfile returns an empty ClusterProfile of a version.
func newProfile(version string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(groupKind().WithVersion(version))
	return u
}

// isManaged reports whether a ClusterProfile belongs to this manager.
func isManaged(profile *unstructured.Unstructured) bool {
	name, _, err := unstructured.NestedString(profile.Object, "spec", "clusterManager", "name")
	return err == nil && name == Manager
}

// specOf returns the ClusterProfile of a MemberCluster without its status.
func specOf(mc *fleetv1alpha1.MemberCluster, namespace, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/" + version,
		"kind":       kind,
		"metadata": map[string]any{
			"name": mc.Name, "namespace": namespace, "labels": map[string]any{labelManager: Manager},
		},
		"spec": map[string]any{
			"displayName":    mc.Name,
			"clusterManager": map[string]any{"name": Manager},
		},
	}}
}

// statusOf returns the status of the ClusterProfile of a MemberCluster. It changes only if the MemberCluster does.
func statusOf(mc *fleetv1alpha1.MemberCluster) map[string]any {
	properties := []any{}
	for _, p := range []struct{ name, value string }{
		{propertyUID, uid(mc)},
		{propertyProvider, mc.Spec.Provider},
		{propertyRegion, mc.Spec.Region},
		{propertyZone, mc.Spec.Zone},
	} {
		if p.value != "" {
			properties = append(properties, map[string]any{"name": p.name, "value": p.value})
		}
	}
	healthy := health(mc)
	status := map[string]any{
		"conditions": []any{map[string]any{
			"type": conditionHealthy, "status": string(healthy.Status), "reason": healthy.Reason, "message": healthy.Message,
			"lastTransitionTime": healthy.LastTransitionTime.UTC().Format(time.RFC3339),
		}},
		"properties": properties,
	}
	if version := mc.Status.KubernetesVersion; version != "" {
		status["version"] = map[string]any{"kubernetes": version}
	}
	return status
}

// uid is the UID of the cluster in the spec. The hub wrote it at the first join, and the member can't change it.
func uid(mc *fleetv1alpha1.MemberCluster) string {
	if mc.Spec.Identity == nil {
		return ""
	}
	return mc.Spec.Identity.ClusterUID
}

// health returns what is known about a cluster's control plane: what its agent reported while the agent renews its Lease, and otherwise
// Unknown, because a hub that hears nothing doesn't know whose fault that is.
func health(mc *fleetv1alpha1.MemberCluster) metav1.Condition {
	fresh := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionHeartbeatFresh)
	healthy := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionAPIHealthy)
	out := metav1.Condition{
		Status: metav1.ConditionUnknown, Reason: "NotJoined", Message: "the cluster has not joined yet",
		LastTransitionTime: mc.CreationTimestamp,
	}
	switch {
	case fresh == nil:
	case fresh.Status != metav1.ConditionTrue || healthy == nil:
		out.Reason, out.Message, out.LastTransitionTime = fresh.Reason, fresh.Message, fresh.LastTransitionTime
	default:
		out = *healthy
	}
	return out
}
