// Bench measures, on a fleet of the lab, what Flotilla costs: a CloneSet of 1,000 and of 5,000 pods beside a native
// Deployment of the same pods in the same run, their roll-out, the CloneSet at rest, and what one UnitedDeployment costs
// its hub. It prints the tables of docs/operate/sizing.md.
//
//	make bench-scale
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	ctrl "sigs.k8s.io/controller-runtime"

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
	b, keep, hub := &bench{}, false, true
	var sizes []int32
	cmd := &cobra.Command{
		Use:          "bench",
		Short:        "Measure CloneSets beside Deployments, and the writes on a hub",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer := lab.NewPrinter(cmd.ErrOrStderr(), term.IsTerminal(int(os.Stderr.Fd())), nil)
			defer printer.Close()
			ctrl.SetLogger(logr.Discard())
			// A tenth more room, so that no pod waits for another one's end.
			nodes := fmt.Sprintf("kwok:%d", int(slices.Max(sizes))*11/10/podsPerNode+1)
			f, err := fleet.Up(cmd.Context(), fleet.Options{Prefix: "bench-", Nodes: nodes, Profiles: true, Progress: printer.Stage})
			if err != nil {
				return err
			}
			b.fleet, b.stage, b.out = f, printer.Stage, cmd.OutOrStdout()
			b.printf("%d CPUs, %s, simulated nodes.\n", runtime.NumCPU(), runtime.Version())
			if err := b.run(cmd.Context(), sizes, hub); err != nil || keep {
				return err
			}
			return f.Down(cmd.Context())
		},
	}
	cmd.Flags().Int32SliceVar(&sizes, "pods", []int32{1000, 5000}, "pods of the CloneSet and of the Deployment, one after the other")
	cmd.Flags().BoolVar(&b.alone, "alone", false, "measure the CloneSet only, without a Deployment beside it")
	cmd.Flags().BoolVar(&hub, "hub", hub, "measure what a UnitedDeployment costs its hub")
	cmd.Flags().StringVar(&b.profiles, "profiles", "", "folder for a CPU profile of the manager during each act")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the clusters running")
	return cmd
}
