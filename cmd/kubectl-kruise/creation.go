package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// creation holds what all verbs that create an object have in common: the flags of change, except those that select objects.
type creation struct{ change }

func (f *creation) flags(cmd *cobra.Command, owner string) {
	f.output.flags(cmd)
	cmdutil.AddDryRunFlag(cmd)
	cmdutil.AddFieldManagerFlagVar(cmd, &f.owner, owner)
}

// write creates the object and prints it, by default its name and what was done.
func (f *creation) write(cmd *cobra.Command, c client.Client, object *unstructured.Unstructured, done string) error {
	options := []client.CreateOption{client.FieldOwner(f.owner)}
	if f.dryRun == cmdutil.DryRunServer {
		options = append(options, client.DryRunAll)
	}
	if f.dryRun != cmdutil.DryRunClient {
		if err := c.Create(cmd.Context(), object, options...); err != nil {
			return fmt.Errorf("create %s %s: %w", object.GetKind(), object.GetName(), err)
		}
	}
	return f.show(cmd.OutOrStdout(), object, done)
}
