//go:build e2e

package native

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/e2e/volume"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// home is the cluster that all tests share.
var home *fleet.Cluster

const cluster = "native"

const (
	// gates are the feature gates for what our kinds support without a gate.
	gates = "--feature-gates=StatefulSetStartOrdinal=true,StatefulSetAutoDeletePVC=true"
	// nativeGate is the gate for maxUnavailable of a StatefulSet, which our kind also supports without a gate.
	nativeGate = "MaxUnavailableStatefulSet=true"
)

// comparesItself reports whether native is compared with itself.
func comparesItself() bool { return os.Getenv("FLOTILLA_E2E_SELF") != "" }

func TestMain(m *testing.M) {
	flag.Parse()
	// Scenarios mostly wait.
	_ = flag.Set("test.parallel", "6")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // no test runs yet
	code := run(ctx, m, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // a TestMain ends its program
}

func run(ctx context.Context, m *testing.M, out io.Writer) int {
	ctrl.SetLogger(logr.Discard())
	printer := lab.NewPrinter(out, false, nil)
	defer printer.Close()
	o := fleet.Options{Prefix: "e2e-", Nodes: "kwok:4", FeatureGates: []string{nativeGate}, Progress: printer.Stage}
	keep := os.Getenv("FLOTILLA_E2E_KEEP") != ""
	if !keep {
		if err := fleet.DownSingle(ctx, cluster, o); err != nil { // Remove what a killed run left.
			_, _ = fmt.Fprintln(out, err)
			return 1
		}
	}
	flags := []string{"--enable-leader-election=false"} // On a busy machine it could lose its Lease.
	if !comparesItself() {
		flags = append(flags, gates)
	}
	var err error
	if home, err = fleet.Single(ctx, cluster, o, flags...); err != nil {
		_, _ = fmt.Fprintln(out, "start the cluster:", err)
		return 1
	}
	served, end := context.WithCancel(ctx)
	defer end()
	if err := volume.Serve(served, home.Client); err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	code := m.Run()
	end()
	if code != 0 {
		fleet.KeepLogs(out, home)
	}
	if keep || code != 0 {
		_, _ = fmt.Fprintln(out, "the cluster keeps running; \"go run ./e2e/lab down e2e-native\" removes it")
		return code
	}
	if err := fleet.DownSingle(context.WithoutCancel(ctx), cluster, o); err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	return code
}
