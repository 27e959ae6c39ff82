package main

import (
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func acceptCommand(open func() (conn, error)) *cobra.Command {
	return &cobra.Command{
		Use:   "accept NAME",
		Short: "Accept a member cluster into the fleet",
		Long: "Accept a member cluster into the fleet: set spec.accepted. The hub then creates the cluster's namespace and roles.\n\n" +
			"This requires the verbs \"accept\" and \"patch\" on memberclusters. To revoke the acceptance, set\n" +
			"spec.accepted to false.",
		Example: "  kubectl kruise cluster accept east",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			mc, err := member(cmd.Context(), c.client, args[0])
			if err != nil {
				return err
			}
			if mc.Spec.Accepted {
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "member cluster %s is already accepted\n", mc.Name)
				return err
			}
			// The precondition is the UID, not the resourceVersion, which changes with every report of the hub or the member.
			patch := fmt.Appendf(nil, `{"metadata":{"uid":%q},"spec":{"accepted":true}}`, mc.UID)
			if err := c.client.Patch(cmd.Context(), mc.DeepCopy(), client.RawPatch(types.MergePatchType, patch)); err != nil {
				return fmt.Errorf("accept member cluster %s: %w", mc.Name, err)
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "member cluster %s accepted\n", mc.Name)
			return err
		},
	}
}
