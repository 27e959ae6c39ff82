package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

func newNode() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "node",
		Short: "Stop, start and kill real nodes; run a program in one",
		Args:  cobra.NoArgs,
	}
	cmd.AddCommand(
		newNodeAction("stop", "Shut nodes down in order; their disks stay", (*lab.Cluster).StopNode),
		newNodeAction("start", "Start nodes again and wait until they are Ready", (*lab.Cluster).StartNode),
		newNodeAction("kill", "End nodes at once, as a power cut does", (*lab.Cluster).KillNode),
		newNodeExec(),
	)
	return cmd
}

func newNodeAction(verb, short string, act func(*lab.Cluster, context.Context, string) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " NAME NODE...",
		Short: short,
		Args:  cobra.MinimumNArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := lab.Get(args[0])
			if err != nil {
				return err
			}
			printer := newPrinter(cmd.ErrOrStderr())
			defer printer.Close()
			for _, node := range args[1:] {
				done := printer.Stage(fmt.Sprintf("%s: %s %s", c.Name, verb, node))
				err := act(c, cmd.Context(), node)
				done(err)
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func newNodeExec() *cobra.Command {
	return &cobra.Command{
		Use:   "exec NAME NODE -- PROGRAM [ARGUMENT...]",
		Short: "Run a program in a node, among its processes, files and addresses",
		Args:  cobra.MinimumNArgs(3),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := lab.Get(args[0])
			if err != nil {
				return err
			}
			out, err := c.NodeExec(cmd.Context(), args[1], cmd.InOrStdin(), args[2:]...)
			if _, printErr := cmd.OutOrStdout().Write(out); err == nil {
				err = printErr
			}
			return err
		},
	}
}
