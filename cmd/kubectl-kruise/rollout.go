package main

import (
	"fmt"

	"github.com/spf13/cobra"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

func rolloutCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollout",
		Short: "Follow, stop, take back and restart the rollout of CloneSets",
		Long: "Follow, stop, take back and restart the rollout of CloneSets.\n\n" +
			"A CloneSet is named by TYPE/NAME or TYPE NAME. The type is cloneset, clone, or with group and version\n" +
			"cloneset.apps.kruise.io or cloneset.v1alpha1.apps.kruise.io. For the workloads of Kubernetes itself there is\n" +
			"kubectl rollout.",
	}
	cmd.AddCommand(statusCommand(open), historyCommand(open), undoCommand(open), pauseCommand(open), resumeCommand(open),
		restartCommand(open))
	return cmd
}

func rolling(set *appsv1beta1.CloneSet) appsv1beta1.CloneSetRollingUpdateStrategy {
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		return *r
	}
	return appsv1beta1.CloneSetRollingUpdateStrategy{}
}

func onDelete(set *appsv1beta1.CloneSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete
}

// holds are the reasons in the spec why pods will not follow a new template, or not all of them.
func holds(set *appsv1beta1.CloneSet) []string {
	var out []string
	id := "cloneset/" + set.Name
	r := rolling(set)
	if onDelete(set) {
		return []string{id + " has updateStrategy.type OnDelete: a pod follows when somebody deletes it"}
	}
	if r.Paused {
		out = append(out, fmt.Sprintf("%s is paused: pods follow after kubectl kruise rollout resume %s", id, id))
	}
	if p := r.Partition; p != nil && p.String() != "0" && p.String() != "0%" {
		out = append(out, fmt.Sprintf("%s has partition %s: so many pods do not follow until it is lowered", id, p))
	}
	return out
}
