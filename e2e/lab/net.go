package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

func newNet() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "net",
		Short: "Cut the network between real nodes and clusters, and heal it",
		Long: `Each end is CLUSTER (its control plane, its nodes and their pods) or CLUSTER/NODE
(a node and its pods). Packets are dropped in both directions, until healed.

  lab net cut east/node-1 east/node-2   two nodes
  lab net cut east/node-1 east          a node and all the rest of its cluster
  lab net cut east hub                  a member and the hub`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(
		newNetAction("cut", "Drop all traffic between two ends", lab.Cut),
		newNetAction("heal", "Allow the traffic between two ends again", lab.Heal),
	)
	return cmd
}

func newNetAction(verb, short string, act func(context.Context, lab.Place, lab.Place) error) *cobra.Command {
	return &cobra.Command{
		Use:   verb + " A B",
		Short: short,
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := lab.FindPlace(args[0])
			if err != nil {
				return err
			}
			b, err := lab.FindPlace(args[1])
			if err != nil {
				return err
			}
			return act(cmd.Context(), a, b)
		},
	}
}
