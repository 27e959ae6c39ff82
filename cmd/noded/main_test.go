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

// The cases run sequentially: the daemon sets klog's logger, which is global to the process.
func TestBadFlagsEndBeforeAnythingStarts(t *testing.T) {
	for _, tc := range []struct{ name, node, arg, want string }{
		{"an unknown flag", "node-1", "--nonsense", "unknown flag: --nonsense"},
		{"no node", "", "--v=1", "NODE_NAME=: must be the name of the node"},
		{"no address", "node-1", "--addr=10221", "--addr=10221: must be host:port or :port"},
		{"an unknown gate", "node-1", "--feature-gates=NoSuchGate=true", "unrecognized feature gate: NoSuchGate"},
		{"a gate of the manager is accepted", "node-1", "--feature-gates=TemplateNoDefaults=true", "find the apiserver"},
		{"a missing file", "node-1", "--kubeconfig=absent", "read --kubeconfig=absent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Setenv("NODE_NAME", tc.node)
			cmd, err := command()
			require.NoError(t, err)
			cmd.SetArgs([]string{tc.arg})
			require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tc.want)
		})
	}
}
