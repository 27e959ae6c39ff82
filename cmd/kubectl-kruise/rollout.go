package main

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func rolloutCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Follow, pause, approve, undo and restart rollouts",
		Long: "Follow, pause, undo and restart rollouts of CloneSets and UnitedDeployments, and of StatefulSets and DaemonSets in\n" +
			"apps.kruise.io. UnitedDeployments may be in a member or, with subsets that name clusters, on a hub, where their waves\n" +
			"may wait for an approval.\n\n" +
			"Name a workload as TYPE/NAME or TYPE NAME. The type is cloneset or clone, ud, asts, ads or daemon, or a name with\n" +
			"group and version, as in statefulset.apps.kruise.io or cloneset.v1alpha1.apps.kruise.io. For workloads of\n" +
			"Kubernetes itself, use kubectl rollout.",
	}
	cmd.AddCommand(statusCommand(open), historyCommand(open), undoCommand(open), pauseCommand(open), resumeCommand(open),
		approveCommand(open), restartCommand(open))
	return cmd
}

// holds returns the reasons in the spec why not all pods will be updated to a new template.
func holds(set workload, f facts) []string {
	if f.onDelete {
		return []string{set.onDelete() + ": a pod is updated only when it is deleted"}
	}
	var out []string
	id := set.id()
	if f.paused {
		out = append(out, fmt.Sprintf("%s is paused: to update pods, run kubectl kruise rollout resume %s", id, id))
	}
	if f.partition != "" {
		out = append(out, fmt.Sprintf("%s has partition %s: that many pods are not updated until it is lowered", id, f.partition))
	}
	if f.stopped != "" {
		out = append(out, fmt.Sprintf("%s has maxUnavailable 0 for %s: pods there are not updated until it is raised", id, f.stopped))
	}
	if f.only != nil {
		out = append(out, fmt.Sprintf("%s is updated only on nodes with labels %s", id, metav1.FormatLabelSelector(f.only)))
	}
	return out
}
