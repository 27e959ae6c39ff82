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
		Long: "Follow, pause, undo and restart the rollout of CloneSets, and of StatefulSets and DaemonSets of\n" +
			"apps.kruise.io.\n\n" +
			"They are named by TYPE/NAME or TYPE NAME. The type is cloneset or clone, asts, ads or daemon, or a name with\n" +
			"group and version as in statefulset.apps.kruise.io or cloneset.v1alpha1.apps.kruise.io. For the workloads of\n" +
			"Kubernetes itself there is kubectl rollout.",
	}
	cmd.AddCommand(statusCommand(open), historyCommand(open), undoCommand(open), pauseCommand(open), resumeCommand(open),
		restartCommand(open), goneCommand("approve", "Rollouts of rollouts.kruise.io are served by another project. Where its "+
			"controller runs, a Rollout that waits is approved by kubectl patch rollouts.rollouts.kruise.io NAME --subresource status "+
			`--type merge -p '{"status":{"canaryStatus":{"currentStepState":"StepReady"}}}', or with blueGreenStatus instead of `+
			"canaryStatus if its strategy is blueGreen"))
	return cmd
}

// holds returns the reasons in the spec why not all pods will be updated to a new template.
func holds(id string, f facts) []string {
	if f.onDelete {
		return []string{id + " has updateStrategy.type OnDelete: a pod is updated when a user deletes it"}
	}
	var out []string
	if f.paused {
		out = append(out, fmt.Sprintf("%s is paused: pods are updated after kubectl kruise rollout resume %s", id, id))
	}
	if f.partition != "" {
		out = append(out, fmt.Sprintf("%s has partition %s: so many pods are not updated until it is lowered", id, f.partition))
	}
	if f.only != nil {
		out = append(out, fmt.Sprintf("%s is updated on nodes with labels %s: pods on others are not updated", id, metav1.FormatLabelSelector(f.only)))
	}
	return out
}
