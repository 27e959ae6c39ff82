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
		{"an unknown gate", "--feature-gates=NoSuchGate=true", "unrecognized feature gate: NoSuchGate; known gates"},
		{"a flag of OpenKruise", "--sync-period=0", "--sync-period is a flag of OpenKruise's manager that does not exist here: leave it out"},
		{"a flag of klog", "--logtostderr=true", "--logtostderr is a flag of OpenKruise's manager that does not exist here: leave them out"},
		{"a flag that was replaced", "--leader-election-namespace=kruise-system", "set --namespace: it contains the Lease"},
		{"a flag of the manager", "--webhook-url=localhost", "--webhook-url"},
		{"a flag of the hub", "--hub-url=https://hub:6443", "--cluster-name=: must be the name"},
		{"a resource that no hub places", "--hub-kinds=secrets", "--hub-kinds require --hub-url, which is not set"},
		{"a number of workers", "--cloneset-workers=0", "--cloneset-workers=0: must be 1 to 100"},
		{"no namespace", "--openkruise-namespace=Kruise", "--openkruise-namespace=Kruise: must be the name of a namespace, or empty"},
		{"an exempt namespace", "--pod-webhook-exempt-namespaces=kube-system,Infra", "--pod-webhook-exempt-namespaces=Infra: must be names of namespaces"},
		{"a feature of pods", "--pod-webhook-ignore-failures=SidecarSets", "--pod-webhook-ignore-failures=SidecarSets: must be any of EnhancedLiveness, ContainerLaunchPriority, PersistentPodState"},
		{"a number of writes", "--parallel-writes=0", "--parallel-writes=0: must be 1 to 1000"},
		{"a negative limit", "--rest-config-qps=-1", "--rest-config-qps=-1: must not be negative; 0 is no limit"},
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

func TestNoReplacedFlagExists(t *testing.T) {
	t.Parallel()
	cmd, err := command()
	require.NoError(t, err)
	seen := map[string]bool{}
	for _, r := range replaced() {
		for _, flag := range r.Flags {
			require.Nil(t, cmd.Flags().Lookup(flag), flag)
			require.False(t, seen[flag], flag)
			seen[flag] = true
		}
	}
}

// These are the flags that the managers of OpenKruise and of its chart are started with, as far as they exist here. The test runs alone: a
// manager sets klog's logger, which is global to the process.
func TestTheFlagsOfOpenKruiseThatExistAreAccepted(t *testing.T) {
	cmd, err := command()
	require.NoError(t, err)
	cmd.SetArgs([]string{
		"--enable-leader-election", "--metrics-addr=:8080", "--health-probe-addr=:8000", "--pprof-addr=localhost:8090", "--v=4",
		"--feature-gates=ImagePullJobGate=true,ResourcesDeletionProtection=true", "--leader-election-lease-duration=15s",
		"--controller-cache-sync-timeout=2m", "--expectation-timeout=5m", "--rest-config-qps=30", "--rest-config-burst=50",
		"--cloneset-workers=3", "--statefulset-workers=3", "--daemonset-workers=3", "--uniteddeployment-workers=3",
		"--cloneset-scaling-exclude-preparing-delete=false", "--kubeconfig=absent",
	})
	require.ErrorContains(t, cmd.ExecuteContext(t.Context()), "read --kubeconfig=absent", "all other flags are valid")
}
