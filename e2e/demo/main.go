// Demo brings up a fleet on this machine and shows a UnitedDeployment in it: spread over two clusters, updated in place, scaled, and reported
// back. Then it shows a CloneSet that a WorkloadSpread places, and a Secret that is distributed. Each step is checked. The first failure ends
// the demonstration, with the reason and the path of the logs.
//
//	go run ./e2e/demo up                   # make demo
//	go run ./e2e/demo up --nodes real      # make demo NODES=real
//	go run ./e2e/demo down                 # make demo-down
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"k8s.io/utils/clock"

	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// Kinds of nodes.
const (
	simulated = "kwok"
	genuine   = "real"
	// realPrefix distinguishes the clusters with real nodes from those without.
	realPrefix = "real-"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := newCommand().ExecuteContext(ctx)
	stop()
	if err != nil {
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:           "demo",
		Short:         "A fleet on this machine, and what it runs over two clusters",
		SilenceUsage:  true,
		SilenceErrors: true, // The story prints them, with the logs.
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	nodes := ""
	begin := &cobra.Command{
		Use:   "up",
		Short: "Start the fleet, or restart it, and run the demonstration in it; the clusters stay",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return up(cmd, nodes) },
	}
	begin.Flags().StringVar(&nodes, "nodes", simulated, "kwok for simulated nodes, or real for kubelets and our managers in pods; real needs root")
	cmd.AddCommand(begin, &cobra.Command{
		Use:   "down",
		Short: "Stop the fleet and remove its data",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer := lab.NewPrinter(cmd.OutOrStdout(), isTerminal(), nil)
			defer printer.Close()
			return printError(cmd, errors.Join(
				fleet.Down(cmd.Context(), fleet.Options{Progress: printer.Stage}),
				fleet.Down(cmd.Context(), fleet.Options{Prefix: realPrefix, Progress: printer.Stage}),
			))
		},
	})
	return cmd
}

func up(cmd *cobra.Command, nodes string) error {
	s := &story{out: cmd.OutOrStdout(), live: isTerminal(), clock: clock.RealClock{}}
	switch nodes {
	case simulated:
		s.newImage = "registry.example/web:2.0"
	case genuine:
		s.real, s.image, s.newImage = true, "lab.example/testapp:1.0", "lab.example/testapp:2.0"
	default:
		return printError(cmd, fmt.Errorf("--nodes=%s: want kwok or real", nodes))
	}
	return printError(cmd, s.run(cmd.Context()))
}

// printError prints an error that cobra does not print.
func printError(cmd *cobra.Command, err error) error {
	if errors.Is(err, context.Canceled) {
		err = errors.New("interrupted; \"make demo\" continues from here, \"make demo-down\" removes it")
	}
	if err != nil {
		cmd.PrintErrf("\nFAILED: %v\n", err)
	}
	return err
}

func isTerminal() bool { return term.IsTerminal(int(os.Stdout.Fd())) }
