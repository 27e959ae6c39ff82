package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/testkit/golden"
)

func TestHelp(t *testing.T) {
	t.Parallel()
	cmd, err := command()
	require.NoError(t, err)
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--help"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	golden.Equal(t, "help", out.String())
}

// The cases run sequentially: a manager sets the logger of klog, which belongs to the process.
func TestBadFlagsEndBeforeAnythingStarts(t *testing.T) {
	for _, tc := range []struct{ name, arg, want string }{
		{"an unknown flag", "--nonsense", "unknown flag: --nonsense"},
		{"an argument that is no flag", "start", "unknown command"},
		{"an unknown gate", "--feature-gates=NoSuchGate=true", "unrecognized feature gate: NoSuchGate; known are"},
		{"a flag of the manager", "--webhook-url=localhost", "--webhook-url"},
		{"a flag of the hub", "--hub-url=https://hub:6443", "--cluster-name=: want the name"},
		{"a number of workers", "--cloneset-workers=0", "--cloneset-workers=0: want 1 to 100"},
		{"a number of writes", "--parallel-writes=0", "--parallel-writes=0: want 1 to 1000"},
		{"a limit below none", "--rest-config-qps=-1", "--rest-config-qps=-1: must not be negative; 0 is no limit"},
		{"a file that is not there", "--kubeconfig=absent", "read --kubeconfig=absent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd, err := command()
			require.NoError(t, err)
			cmd.SetArgs([]string{tc.arg})
			require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tc.want)
		})
	}
}
