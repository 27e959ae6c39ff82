package main

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := newCommand()
	cmd.SetArgs(args)
	cmd.SetOut(&out)
	cmd.SetErr(&out)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestMistakesAreRefusedBeforeAnythingIsBuilt(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("FLOTILLA_LAB_CACHE", cache)
	t.Setenv("FLOTILLA_LAB_STATE", "")
	for _, tc := range []struct {
		name string
		args []string
		want string
	}{
		{name: "nodes of an unknown kind", args: []string{"up", "east", "--nodes", "docker:2"}, want: `nodes "docker:2": use kwok:N for simulated nodes, real:N for nodes with a kubelet`},
		{name: "real nodes of a control plane only", args: []string{"up", "east", "--nodes", "real:2", "--control-plane-only"}, want: "a control plane only has no nodes"},
		{name: "stop of a node of a missing cluster", args: []string{"node", "stop", "east", "node-1"}, want: "cluster east: no such cluster"},
		{name: "stop without a node", args: []string{"node", "stop", "east"}, want: "requires at least 2 arg(s), only received 1"},
		{name: "a program without a node to run in", args: []string{"node", "exec", "east", "true"}, want: "requires at least 3 arg(s), only received 2"},
		{name: "a cut of a missing cluster", args: []string{"net", "cut", "east/node-1", "east"}, want: "cluster east: no such cluster"},
		{name: "a cut with one end", args: []string{"net", "cut", "east"}, want: "accepts 2 arg(s), received 1"},
		{name: "nodes of a control plane only", args: []string{"up", "east", "--nodes", "kwok:2", "--control-plane-only"}, want: "a control plane only has no nodes"},
		{name: "an invalid name", args: []string{"up", "../east"}, want: `cluster name "../east"`},
		{name: "up without a name", args: []string{"up"}, want: "accepts 1 arg(s), received 0"},
		{name: "down without a name", args: []string{"down"}, want: "give the name of a cluster, or --all"},
		{name: "down with a name and all", args: []string{"down", "east", "--all"}, want: "not both"},
		{name: "down of a missing cluster", args: []string{"down", "east"}, want: "cluster east: no such cluster"},
		{name: "down with an invalid name", args: []string{"down", ".."}, want: `cluster name ".."`},
		{name: "kubeconfig of a missing cluster", args: []string{"kubeconfig", "east"}, want: "cluster east: no such cluster"},
		{name: "logs of a missing cluster", args: []string{"logs", "east"}, want: "cluster east: no such cluster"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, err := run(t, tc.args...)
			require.ErrorContains(t, err, tc.want)
		})
	}
	out, err := run(t, "list")
	require.NoError(t, err)
	require.Equal(t, "NAME   STATUS   SERVER   KUBECONFIG\n", out)
	_, err = run(t, "down", "--all")
	require.NoError(t, err, "an empty list has only a header")
}
