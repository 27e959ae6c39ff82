package main

import "github.com/spf13/cobra"

func setCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change images, variables and resources in the template of CloneSets",
		Long: "Change images, variables and resources in the template of CloneSets. Pods follow as they follow any change of\n" +
			"the template. For the workloads of Kubernetes itself there is kubectl set.",
	}
	cmd.AddCommand(setImageCommand(open), setEnvCommand(open), setResourcesCommand(open))
	return cmd
}
