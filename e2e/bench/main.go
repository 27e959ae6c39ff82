// Bench measures, on a fleet of the lab, what Flotilla costs: a CloneSet of 1,000 pods beside a native Deployment of the
// same pods in the same run, their roll-out, and what one UnitedDeployment costs its hub. It prints the tables of
// docs/operate/sizing.md.
//
//	make bench-scale
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/pkg/testkit/lab"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

// podsPerNode is what a node of the lab holds.
const podsPerNode = 110

func newCommand() *cobra.Command {
	pods, keep := int32(1000), false
	cmd := &cobra.Command{
		Use:          "bench",
		Short:        "Measure a CloneSet beside a Deployment, and the writes on a hub",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer := lab.NewPrinter(cmd.ErrOrStderr(), term.IsTerminal(int(os.Stderr.Fd())), nil)
			defer printer.Close()
			// A tenth more room, so that no pod waits for another one's end.
			o := fleet.Options{Prefix: "bench-", Nodes: fmt.Sprintf("kwok:%d", int(pods)*11/10/podsPerNode+1), Progress: printer.Stage}
			f, err := fleet.Up(cmd.Context(), o)
			if err != nil {
				return err
			}
			b := &bench{fleet: f, pods: pods, stage: printer.Stage}
			tables, err := b.run(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "%d CPUs, %s, simulated nodes.\n\n%s", runtime.NumCPU(), runtime.Version(), tables)
			if keep || err != nil {
				return err
			}
			return f.Down(cmd.Context())
		},
	}
	cmd.Flags().Int32Var(&pods, "pods", pods, "pods of the CloneSet and of the Deployment")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the clusters running")
	return cmd
}
