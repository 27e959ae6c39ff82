package main

import "github.com/spf13/cobra"

func setCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change images, variables and resources of pods",
		Long: "Change images, variables and resources in the template of CloneSets, and of StatefulSets and DaemonSets of\n" +
			"apps.kruise.io. Pods are updated as after any change of the template. For the workloads of Kubernetes itself\n" +
			"there is kubectl set.",
	}
	cmd.AddCommand(setImageCommand(open), setEnvCommand(open), setResourcesCommand(open))
	return cmd
}
