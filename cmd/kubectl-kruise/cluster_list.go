package main

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
)

func listCommand(open func() (conn, error)) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the clusters of the fleet and what each is waiting for",
		Long:    "List the clusters of the fleet, with the mode and state of each, and why a cluster is not ready or which taints it has.",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := open()
			if err != nil {
				return err
			}
			all := &fleetv1alpha1.MemberClusterList{}
			if err := c.client.List(cmd.Context(), all); err != nil {
				return explain(fmt.Errorf("list member clusters: %w", err))
			}
			if len(all.Items) == 0 {
				_, err := fmt.Fprintln(cmd.ErrOrStderr(), "No member clusters found.")
				return err
			}
			// Flush writes, and returns the errors.
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
			_, _ = fmt.Fprintln(out, "NAME\tMODE\tACCEPTED\tPHASE\tREADY\tROWS\tVERSION\tAGE\tWHY")
			for i := range all.Items {
				mc := &all.Items[i]
				ready, why := readiness(mc)
				rows := int32(0)
				if mc.Status.Rows != nil {
					rows = mc.Status.Rows.Total
				}
				_, _ = fmt.Fprintf(out, "%s\t%s\t%t\t%s\t%s\t%d\t%s\t%s\t%s\n", mc.Name, mc.Spec.Mode, mc.Spec.Accepted,
					cmp.Or(string(mc.Status.Phase), "-"), ready, rows, cmp.Or(mc.Status.KubernetesVersion, "-"),
					duration.HumanDuration(c.clock.Since(mc.CreationTimestamp.Time)), why)
			}
			return out.Flush()
		},
	}
}

// taints names the taints of a cluster: with taints, even a ready cluster doesn't take every object. It is "" without any.
func taints(mc *fleetv1alpha1.MemberCluster) string {
	if len(mc.Spec.Taints) == 0 {
		return ""
	}
	return "tainted: " + strings.Join(fleetv1alpha1.TaintNames(mc.Spec.Taints), ", ")
}

// readiness returns the status of condition Ready, and why it is not True or why the cluster doesn't take every object.
func readiness(mc *fleetv1alpha1.MemberCluster) (ready, why string) {
	c := report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
	switch {
	case c == nil:
		return "Unknown", "not reconciled by the hub yet: is the hub's manager running?"
	case c.Status == "True":
		return string(c.Status), taints(mc)
	default:
		return string(c.Status), c.Message
	}
}
