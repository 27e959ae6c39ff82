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

// The cases run sequentially: a manager sets klog's logger, which is global to the process.
func TestBadFlagsEndBeforeAnythingStarts(t *testing.T) {
	for _, tc := range []struct{ name, arg, want string }{
		{"an unknown flag", "--nonsense", "unknown flag: --nonsense"},
		{"an invalid argument", "start", "unknown command"},
		{"a flag of the manager", "--webhook-url=localhost", "--webhook-url"},
		{"a number of workers", "--membercluster-workers=0", "--membercluster-workers=0: must be 1 to 100"},
		{"an invalid resource", "--propagation-kinds=Config/Maps", "--propagation-kinds: \"Config/Maps\" is not a resource"},
		{"a resource that is not placed", "--propagation-kinds=configmaps,secrets", "--propagation-kinds: \"secrets\" is never placed: secrets are not read by a hub"},
		{"a group that grants permissions", "--propagation-kinds=roles.rbac.authorization.k8s.io", "decide what others may do"},
		{"a missing file", "--kubeconfig=absent", "read --kubeconfig=absent"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cmd, err := command()
			require.NoError(t, err)
			cmd.SetArgs([]string{tc.arg})
			require.ErrorContains(t, cmd.ExecuteContext(t.Context()), tc.want)
		})
	}
}
