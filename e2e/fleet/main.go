package fleet

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

	"github.com/flotilla-io/flotilla/e2e/volume"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// Main is for a TestMain: it starts a fleet, passes it to use, runs the tests and removes the fleet. It returns the code for os.Exit. If
// tests failed, the fleet stays. With FLOTILLA_E2E_KEEP it always stays, and is reused. If real nodes are required but can't run, the tests
// run without a fleet: each has to skip with lab.RequireReal.
func Main(m *testing.M, o Options, use func(*Fleet)) int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM) //nolint:forbidigo // No test runs yet.
	defer stop()
	ctrl.SetLogger(logr.Discard())
	printer := lab.NewPrinter(os.Stderr, false, nil)
	defer printer.Close()
	o.Progress = printer.Stage
	code, err := run(ctx, m, o, use, os.Stderr)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	return code
}

func run(ctx context.Context, m *testing.M, o Options, use func(*Fleet), out io.Writer) (int, error) {
	f, err := newFleet(o)
	if err != nil {
		return 1, err
	}
	if f.pods && lab.RealNodes(ctx) != nil {
		return m.Run(), nil
	}
	keep := os.Getenv("FLOTILLA_E2E_KEEP") != ""
	if !keep {
		if err := Down(ctx, o); err != nil { // Remove what a killed run left.
			return 1, err
		}
	}
	if f, err = Up(ctx, o); err != nil {
		return 1, fmt.Errorf("start the fleet: %w", err)
	}
	served, end := context.WithCancel(ctx)
	defer end()
	if o.Volumes {
		for _, c := range f.Members() {
			if err := volume.Serve(served, c.Client); err != nil {
				return 1, fmt.Errorf("serve volumes in %s: %w", c.Name, err)
			}
		}
	}
	use(f)
	code := m.Run()
	end()
	if code != 0 {
		KeepLogs(out, f.Clusters()...)
	}
	if keep || code != 0 {
		_, err := fmt.Fprintf(out, "the fleet keeps running; \"go run ./e2e/lab down %[1]shub %[1]seast %[1]swest\" removes it\n", o.Prefix)
		return code, err
	}
	return code, f.Down(context.WithoutCancel(ctx))
}
