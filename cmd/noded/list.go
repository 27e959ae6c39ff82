package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/clock"

	"github.com/flotilla-io/flotilla/pkg/noded/cri"
)

// shortID is how many characters of an ID are shown, as in crictl.
const shortID = 13

// statusCommand prints what the daemon sees in the node's runtimes. It needs no apiserver.
func statusCommand(c clock.PassiveClock) *cobra.Command {
	f := &flags{}
	all := false
	cmd := &cobra.Command{
		Use: "status", Short: "List the container runtimes of the node and their containers",
		Long: "Status queries the container runtimes of the node as the daemon does, and lists them and their containers. It reads\n" +
			"nothing else and changes nothing, so it works even if the apiserver can't be reached.",
		Example: "  kubectl exec -n flotilla-system flotilla-noded-x2k4d -- /flotilla-noded status",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			runtimes := cri.New(f.dir, f.file)
			defer runtimes.Close()
			if err := runtimes.Refresh(cmd.Context()); err != nil {
				return err
			}
			return printStatus(cmd.Context(), cmd.OutOrStdout(), runtimes, all, c.Now())
		},
	}
	f.addSockets(cmd.Flags())
	cmd.Flags().BoolVarP(&all, "all", "a", false, "Also list containers that have ended.")
	return cmd
}

// printStatus prints tables of the runtimes and their containers.
func printStatus(ctx context.Context, w io.Writer, runtimes *cri.Runtimes, all bool, now time.Time) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(out, "RUNTIME\tVERSION")
	for _, r := range runtimes.All() {
		_, _ = fmt.Fprintf(out, "%s\t%s\n", r.Name, r.Version)
	}
	_, _ = fmt.Fprintln(out, "\nNAMESPACE\tPOD\tCONTAINER\tSTATE\tAGE\tRESTARTS\tIMAGE\tID")
	for _, r := range runtimes.All() {
		list, err := r.List(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		for _, c := range list {
			if c.State != "running" && !all {
				continue
			}
			id := c.ID
			if len(id) > shortID {
				id = id[:shortID]
			}
			_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%d\t%s\t%s\n", c.Namespace, c.Pod, c.Name, c.State,
				duration.HumanDuration(now.Sub(c.Created)), c.Attempt, c.Image, id)
		}
	}
	return out.Flush()
}
