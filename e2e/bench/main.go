// Bench compares the cost of Flotilla with that of the native kinds in the same run, on a fleet of the lab: a CloneSet with 1,000 and with
// 5,000 pods with a Deployment, a StatefulSet with 1,000 parallel pods and a DaemonSet on 500 nodes with those of Kubernetes. It measures the
// rollout of each, and ours at rest. It also measures what a node event causes among 50 DaemonSets, the pod webhook with 5,000 pods, 1,000
// AdvancedCronJobs that are due at once beside native CronJobs, and the cost of one UnitedDeployment on its hub. It prints the tables in
// docs/operate/sizing.md.
//
// Its commands hub and propagation measure a hub on which hundreds of UnitedDeployments or Propagations change at once.
//
//	make bench-scale
//	make bench-hub
//	make bench-propagation
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"golang.org/x/term"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/e2e/fleet"
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

// podsPerNode is the capacity of a lab node.
const podsPerNode = 110

// What can be measured besides the hub: kinds, what node events cause among many DaemonSets, and what the pod webhook costs.
const (
	cloneSet     = "cloneset"
	statefulSet  = "statefulset"
	daemonSet    = "daemonset"
	broadcastJob = "broadcastjob"
	cronJob      = "advancedcronjob"
	nodeEvents   = "node-events"
	podWebhook   = "pod-webhook"
	imagePull    = "imagepulljob"
)

// all returns what is measured by default. imagePull is not part of it: with it, each node has a NodeImage.
func all() []string {
	return []string{cloneSet, statefulSet, daemonSet, broadcastJob, cronJob, nodeEvents, podWebhook}
}

// plan is what to measure.
type plan struct {
	kinds []string
	// pods holds the sizes of the CloneSet. stateful is the size of the StatefulSet.
	pods     []int32
	stateful int32
	// nodes is how many nodes the DaemonSet and the BroadcastJob run on.
	nodes int
	// crons is how many AdvancedCronJobs and native CronJobs are due at once.
	crons int
	hub   bool
}

func (p plan) has(kind string) bool { return slices.Contains(p.kinds, kind) }

func (p plan) check() error {
	for _, k := range p.kinds {
		if known := append(all(), imagePull); !slices.Contains(known, k) {
			return fmt.Errorf("--kinds: %q is not one of %s", k, strings.Join(known, ", "))
		}
	}
	return nil
}

// nodeCount returns how many nodes the fleet's members have from the start: a tenth more than pods need, so that no pod waits for another one to
// end. The DaemonSet's nodes are added later.
func (p plan) nodeCount() string {
	most := int32(fleetPods)
	if p.has(cloneSet) && len(p.pods) > 0 {
		most = max(most, slices.Max(p.pods))
	}
	if p.has(statefulSet) {
		most = max(most, p.stateful)
	}
	if p.has(cronJob) {
		most = max(most, int32(p.crons)) //nolint:gosec // It is small.
	}
	if p.has(podWebhook) {
		most = max(most, guardedSets*guardedPods+webhookPods)
	}
	return fmt.Sprintf("kwok:%d", int(most)*11/10/podsPerNode+1)
}

func newCommand() *cobra.Command {
	b, p, keep := &bench{}, plan{}, false
	cmd := &cobra.Command{
		Use:          "bench",
		Short:        "Compare our kinds with the native ones, and measure the writes on a hub",
		Args:         cobra.NoArgs,
		SilenceUsage: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := p.check(); err != nil {
				return err
			}
			o := fleet.Options{Prefix: "bench-", Nodes: p.nodeCount(), Profiles: true}
			if p.has(imagePull) {
				o.MemberGates = []string{"ImagePullJobGate=true"}
			}
			return b.withFleet(cmd, o, keep,
				func(ctx context.Context) error { return b.run(ctx, p) })
		},
	}
	cmd.Flags().StringSliceVar(&p.kinds, "kinds", all(), "what to measure")
	cmd.Flags().Int32SliceVar(&p.pods, "pods", []int32{1000, 5000}, "pods of the CloneSet and of the Deployment, one after the other")
	cmd.Flags().Int32Var(&p.stateful, "stateful-pods", 1000, "pods of the StatefulSet and of the native one")
	cmd.Flags().IntVar(&p.nodes, "nodes", 500, "nodes of the DaemonSet, of the native one, of the BroadcastJob, and those with a NodeImage")
	cmd.Flags().IntVar(&p.crons, "crons", 1000, "AdvancedCronJobs and native CronJobs that are due at once")
	cmd.Flags().BoolVar(&b.alone, "alone", false, "measure our kinds only, without the native ones")
	cmd.Flags().BoolVar(&p.hub, "hub", true, "measure the cost of a UnitedDeployment on its hub")
	cmd.Flags().StringVar(&b.profiles, "profiles", "", "folder for CPU profiles of the manager and of the apiserver during each act")
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the clusters running")
	cmd.AddCommand(newLoadCommand(unitedDeployments()), newLoadCommand(propagations()))
	return cmd
}

// withFleet runs measurements on a fleet. It removes the fleet in the end, unless keep is set.
func (b *bench) withFleet(cmd *cobra.Command, o fleet.Options, keep bool, run func(context.Context) error) error {
	printer := lab.NewPrinter(cmd.ErrOrStderr(), term.IsTerminal(int(os.Stderr.Fd())), nil)
	defer printer.Close()
	ctrl.SetLogger(logr.Discard())
	o.Progress = printer.Stage
	f, err := fleet.Up(cmd.Context(), o)
	if err != nil {
		return err
	}
	b.fleet, b.stage, b.out = f, printer.Stage, cmd.OutOrStdout()
	b.printf("%d CPUs, %s, simulated nodes.\n", runtime.NumCPU(), runtime.Version())
	if err := run(cmd.Context()); err != nil || keep {
		return err
	}
	return f.Down(cmd.Context())
}
