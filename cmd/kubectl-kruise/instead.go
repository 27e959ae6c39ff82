package main

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// kubectlServes reports whether kubectl has a command, such as "rollout status", for a kind.
func kubectlServes(command string, kind schema.GroupKind) bool {
	var kinds []string
	switch command {
	case "scaledown", "rollout approve":
	case "rollout status", "rollout history", "rollout undo", "rollout restart":
		kinds = []string{"Deployment.apps", "StatefulSet.apps", "DaemonSet.apps"}
	case "rollout pause", "rollout resume":
		kinds = []string{"Deployment.apps"}
	case "expose":
		kinds = []string{"Deployment.apps", "ReplicaSet.apps", "ReplicationController", "Pod", "Service"}
	default:
		kinds = []string{
			"Deployment.apps", "StatefulSet.apps", "DaemonSet.apps", "ReplicaSet.apps", "ReplicationController", "Pod", "Job.batch", "CronJob.batch",
		}
	}
	return slices.Contains(kinds, kind.String())
}

// suggestionFor returns the alternative to a command for an object that the command doesn't serve. name is the object's name on the command
// line.
func suggestionFor(command, name string, object *unstructured.Unstructured) string {
	if kubectlServes(command, object.GroupVersionKind().GroupKind()) {
		return "try kubectl " + command + " " + name
	}
	switch command {
	case "scaledown":
		if _, scales, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); !scales {
			return "it has no replicas"
		}
		return "use kubectl scale to make it smaller"
	case "rollout approve":
		return "only rollouts of UnitedDeployments wait for approvals"
	case "rollout status":
		return "kubectl get " + name + " --watch shows its status"
	case "rollout history":
		return "kubectl describe " + name + " shows its status, and kubectl get controllerrevisions the revisions of all workloads"
	case "rollout undo":
		return "kubectl apply -f FILE with its previous manifest rolls it back"
	case "expose":
		create := fmt.Sprintf("kubectl create service clusterip %s --tcp=PORT:TARGET-PORT", object.GetName())
		if pods := selected(object); pods != "" {
			return fmt.Sprintf("run %s && kubectl set selector service/%s '%s'", create, object.GetName(), pods)
		}
		return "run " + create
	}
	return "kubectl edit " + name + " changes it"
}

// selected returns the labels by which object selects pods, in the format of kubectl set selector, or "".
func selected(object *unstructured.Unstructured) string {
	found, _, err := unstructured.NestedStringMap(object.Object, "spec", "selector", "matchLabels")
	if err != nil || len(found) == 0 {
		return ""
	}
	return metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: found})
}
