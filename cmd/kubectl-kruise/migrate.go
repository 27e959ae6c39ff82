package main

import "github.com/spf13/cobra"

func migrateCommand(open func() (conn, error)) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "migrate",
		Short: "Check a cluster that moves from OpenKruise",
		Long:  "Check a cluster that moves from OpenKruise.",
	}
	cmd.AddCommand(migrateCheckCommand(open))
	return cmd
}
