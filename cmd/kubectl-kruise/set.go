package main

import "github.com/spf13/cobra"

func setCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "set",
		Short: "Change images, variables, resources and the ServiceAccount of pods",
		Long: "Change images, variables, resources and the ServiceAccount in the template of CloneSets and UnitedDeployments, and of\n" +
			"StatefulSets and DaemonSets in apps.kruise.io. Pods are updated as after any change of the template. For workloads of\n" +
			"Kubernetes itself, use kubectl set.",
	}
	addGroups(cmd, []*cobra.Command{
		setImageCommand(open), setEnvCommand(open), setResourcesCommand(open), setServiceAccountCommand(open),
	}, []*cobra.Command{
		kubectlCommand("set selector", "Change the selector of a Service: kubectl set selector"),
		kubectlCommand("set subject", "Change the subjects of a RoleBinding or ClusterRoleBinding: kubectl set subject"),
	})
	return cmd
}
