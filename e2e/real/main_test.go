//go:build e2e

package real

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/e2e/real/volume"
	"github.com/flotilla-io/flotilla/pkg/testkit/lab"
)

// env is the fleet that all tests share; nil where there can be none.
var env *fleet.Fleet

// heartbeat is fast, so that tests of silent members take seconds, and slow enough for a manager to be replaced.
var heartbeat = fleetv1alpha1.Heartbeat{LeaseSeconds: 2, FailAfterSeconds: 15, RecoverAfterSeconds: 3}

func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // no test runs yet
	code := run(ctx, m, os.Stderr)
	stop()
	os.Exit(code) //nolint:forbidigo // a TestMain ends its program
}

func run(ctx context.Context, m *testing.M, out io.Writer) int {
	ctrl.SetLogger(logr.Discard())
	if lab.RealNodes(ctx) != nil {
		return m.Run() // Each test says why.
	}
	printer := lab.NewPrinter(out, false, nil)
	defer printer.Close()
	o := fleet.Options{
		Prefix: "e2e-real-", Nodes: "real:2", Heartbeat: &heartbeat, Progress: printer.Stage,
		MemberValues: []string{"--set", `featureGates=InPlaceWorkloadVerticalScaling=true\,StatefulSetAutoResizePVCGate=true`},
	}
	keep := os.Getenv("FLOTILLA_E2E_KEEP") != ""
	if !keep {
		if err := fleet.Down(ctx, o); err != nil { // What a killed run left.
			_, _ = fmt.Fprintln(out, err)
			return 1
		}
	}
	var err error
	if env, err = fleet.Up(ctx, o); err != nil {
		_, _ = fmt.Fprintln(out, "bring up the fleet:", err)
		return 1
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	for _, m := range env.Members() {
		if err := volume.Serve(ctx, m.Client); err != nil {
			_, _ = fmt.Fprintln(out, m.Name+":", err)
			return 1
		}
	}
	code := m.Run()
	if keep || code != 0 {
		_, _ = fmt.Fprintln(out, "the fleet stays up; \"go run ./e2e/lab down e2e-real-hub e2e-real-east e2e-real-west\" removes it")
		return code
	}
	if err := env.Down(context.WithoutCancel(ctx)); err != nil {
		_, _ = fmt.Fprintln(out, err)
		return 1
	}
	return code
}
