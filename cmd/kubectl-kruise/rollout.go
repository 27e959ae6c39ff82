package main

import (
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func rolloutCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Follow, pause, undo and restart rollouts",
		Long: "Follow, pause, undo and restart rollouts of CloneSets, and of StatefulSets and DaemonSets in\n" +
			"apps.kruise.io.\n\n" +
			"Name a workload as TYPE/NAME or TYPE NAME. The type is cloneset or clone, asts, ads or daemon, or a name with\n" +
			"group and version, as in statefulset.apps.kruise.io or cloneset.v1alpha1.apps.kruise.io. For workloads of\n" +
			"Kubernetes itself, use kubectl rollout.",
	}
	cmd.AddCommand(statusCommand(open), historyCommand(open), undoCommand(open), pauseCommand(open), resumeCommand(open),
		restartCommand(open), removedCommand("approve", "Rollouts of rollouts.kruise.io are served by another project. If its "+
			"controller runs, approve a waiting Rollout with kubectl patch rollouts.rollouts.kruise.io NAME --subresource status "+
			`--type merge -p '{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}', or with blueGreenStatus instead of `+
			"canaryStatus if its strategy is blueGreen"))
	return cmd
}

// holds returns the reasons in the spec why not all pods will be updated to a new template.
func holds(id string, f facts) []string {
	if f.onDelete {
		return []string{id + " has updateStrategy.type OnDelete: a pod is updated only when it is deleted"}
	}
	var out []string
	if f.paused {
		out = append(out, fmt.Sprintf("%s is paused: to update pods, run kubectl kruise rollout resume %s", id, id))
	}
	if f.partition != "" {
		out = append(out, fmt.Sprintf("%s has partition %s: that many pods are not updated until it is lowered", id, f.partition))
	}
	if f.only != nil {
		out = append(out, fmt.Sprintf("%s is updated only on nodes with labels %s", id, metav1.FormatLabelSelector(f.only)))
	}
	return out
}
