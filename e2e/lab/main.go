// Lab starts, lists and removes Kubernetes clusters on this machine; see package testkit/lab.
//
//	go run ./e2e/lab up hub --nodes kwok:10
//	go run ./e2e/lab up east --nodes real:2
//	export KUBECONFIG=$(go run ./e2e/lab kubeconfig hub)
//	go run ./e2e/lab down --all
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/flotilla-io/flotilla/testkit/lab"
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
		Use:   "lab",
		Short: "Kubernetes clusters on this machine, with simulated or real nodes",
		Long: `Lab runs Kubernetes clusters as plain processes: etcd, kube-apiserver,
kube-controller-manager, kube-scheduler, and kwok, which simulates nodes. That
needs Go and no root. Real nodes, each with its own kubelet and containerd in
namespaces of their own, need root. The programs are built the first time.

$FLOTILLA_LAB_CACHE replaces the folder of the built programs, and
$FLOTILLA_LAB_STATE the folder that holds a folder for each cluster.`,
		SilenceUsage: true,
	}
	cmd.CompletionOptions.HiddenDefaultCmd = true
	cmd.AddCommand(newUp(), newDown(), newList(), newKubeconfig(), newLogs(), newBuild(), newNode(), newNet(), newImage())
	return cmd
}

func newUp() *cobra.Command {
	var cfg lab.Config
	cmd := &cobra.Command{
		Use:   "up NAME",
		Short: "Start a cluster, or restart it; print its kubeconfig's path",
		Long: `Up returns when the cluster works. On one that exists it starts what does not
run and adds missing nodes; ports, certificates and data stay.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg.Name = args[0]
			if _, err := lab.ParseNodes(cfg.Nodes); err != nil {
				return err // Check this before minutes of building.
			}
			printer := newPrinter(cmd.ErrOrStderr())
			defer printer.Close()
			cfg.Progress = printer.Stage
			c, err := lab.Up(cmd.Context(), cfg)
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), c.Kubeconfig)
			return err
		},
	}
	cmd.Flags().StringVar(&cfg.Nodes, "nodes", "", "kwok:N simulated nodes, real:N nodes with a kubelet, or both with a comma between")
	cmd.Flags().IntVar(&cfg.Zones, "zones", 0, "zones that the nodes are spread over (default 3)")
	cmd.Flags().BoolVar(&cfg.Audit, "audit", false, "keep an audit log, with the bodies of writes")
	cmd.Flags().BoolVar(&cfg.ControlPlaneOnly, "control-plane-only", false, "run etcd and kube-apiserver, nothing else")
	cmd.Flags().StringArrayVar(&cfg.APIServerArgs, "apiserver-arg", nil, "one more flag for kube-apiserver, as --name=value; may be repeated")
	cmd.Flags().StringArrayVar(&cfg.FeatureGates, "feature-gate", nil, "a feature gate of Kubernetes, as Name=true; may be repeated")
	return cmd
}

func newDown() *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "down [NAME...|--all]",
		Short: "Stop all processes of clusters and remove their folders",
		RunE: func(cmd *cobra.Command, names []string) error {
			switch {
			case all && len(names) > 0:
				return errors.New("give names or --all, not both")
			case !all && len(names) == 0:
				return errors.New("give the name of a cluster, or --all")
			case all:
				var err error
				if names, err = lab.Names(cmd.Context()); err != nil {
					return err
				}
			}
			printer := newPrinter(cmd.ErrOrStderr())
			defer printer.Close()
			var errs []error
			for _, name := range names {
				done := printer.Stage(name + ": down")
				err := lab.Down(cmd.Context(), name)
				done(err)
				errs = append(errs, err)
			}
			return errors.Join(errs...)
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all clusters")
	return cmd
}

func newList() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "List the clusters",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			clusters, err := lab.List()
			if err != nil {
				return err
			}
			// Flush writes, and returns the errors.
			out := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 8, 3, ' ', 0)
			_, _ = fmt.Fprintln(out, "NAME\tSTATUS\tSERVER\tKUBECONFIG")
			for _, c := range clusters {
				status := "up"
				if missing := c.Missing(); len(missing) > 0 {
					status = "without " + strings.Join(missing, ", ")
				}
				_, _ = fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", c.Name, status, c.ServerURL, c.Kubeconfig)
			}
			return out.Flush()
		},
	}
}

func newKubeconfig() *cobra.Command {
	return &cobra.Command{
		Use:   "kubeconfig NAME",
		Short: "Print the path of a cluster's kubeconfig",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := lab.Get(args[0])
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), c.Kubeconfig)
			return err
		},
	}
}

// tailLines is how many lines of each log "lab logs NAME" shows.
const tailLines = 10

func newLogs() *cobra.Command {
	return &cobra.Command{
		Use:   "logs NAME [PROCESS]",
		Short: "Print the log of a process, or the end of each",
		Args:  cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := lab.Get(args[0])
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return printLog(cmd.OutOrStdout(), c, args[1])
			}
			processes, err := c.Processes()
			if err != nil {
				return err
			}
			for _, p := range processes {
				state := "runs"
				if !p.Alive() {
					state = "ended"
				}
				_, err := fmt.Fprintf(cmd.OutOrStdout(), "==> %s (%s): %s\n%s\n\n", p.Name, state, p.Log, p.LogTail(tailLines))
				if err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func printLog(out io.Writer, c *lab.Cluster, process string) error {
	f, err := os.Open(c.LogFile(process))
	if errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("cluster %s has no log of %q; see %s", c.Name, process, c.LogDir)
	}
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer func() { _ = f.Close() }()
	if _, err := io.Copy(out, f); err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	return nil
}

func newBuild() *cobra.Command {
	return &cobra.Command{
		Use:   "build",
		Short: "Build the clusters' programs unless they are there; print their folder",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			printer := newPrinter(cmd.ErrOrStderr())
			defer printer.Close()
			bin, err := lab.Binaries(cmd.Context(), printer.Stage)
			if err != nil {
				return err
			}
			if err := buildNodes(cmd, printer); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), bin.Dir)
			return err
		},
	}
}

// buildNodes builds the programs of real nodes, if these can run. CI requires them.
func buildNodes(cmd *cobra.Command, printer *lab.Printer) error {
	err := lab.RealNodes(cmd.Context())
	if err == nil {
		_, err = lab.NodeBinaries(cmd.Context(), printer.Stage)
		return err
	}
	if os.Getenv("CI") == "true" {
		return err
	}
	_, err = fmt.Fprintf(cmd.ErrOrStderr(), "without real nodes: %v\n", err)
	return err
}

func newPrinter(out io.Writer) *lab.Printer {
	f, ok := out.(*os.File)
	return lab.NewPrinter(out, ok && term.IsTerminal(int(f.Fd())), nil)
}
