package lab

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestConfigComplete(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		cfg  Config
		want string // A part of the error. Empty means no error.
	}{
		{name: "a name is enough", cfg: Config{Name: "east"}},
		{name: "a name of 40 characters", cfg: Config{Name: strings.Repeat("a", 40)}},
		{name: "a name of 41 characters", cfg: Config{Name: strings.Repeat("a", 41)}, want: "1 to 40"},
		{name: "no name", want: `cluster name ""`},
		{name: "a name that leaves the folder", cfg: Config{Name: "../east"}, want: `cluster name "../east"`},
		{name: "a name that ends in a dash", cfg: Config{Name: "east-"}, want: `cluster name "east-"`},
		{name: "a name in capitals", cfg: Config{Name: "East"}, want: `cluster name "East"`},
		{name: "nodes", cfg: Config{Name: "east", Nodes: "kwok:5"}},
		{name: "nodes of both kinds", cfg: Config{Name: "east", Nodes: "real:1,kwok:5"}},
		{name: "real nodes of a control plane only", cfg: Config{Name: "east", Nodes: "real:1", ControlPlaneOnly: true}, want: "has no nodes"},
		{name: "nodes of a control plane only", cfg: Config{Name: "east", Nodes: "kwok:5", ControlPlaneOnly: true}, want: "has no nodes"},
		{name: "26 zones", cfg: Config{Name: "east", Zones: 26}},
		{name: "27 zones", cfg: Config{Name: "east", Zones: 27}, want: "zones must be 1 to 26, not 27"},
		{name: "a negative number of zones", cfg: Config{Name: "east", Zones: -1}, want: "zones must be 1 to 26, not -1"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.cfg.StateRoot = t.TempDir()
			got, err := tc.cfg.complete()
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.NotNil(t, got.Clock)
			require.NotZero(t, got.Zones)
		})
	}
}

func TestParseNodes(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, in string
		want     NodeCount
		err      string
	}{
		{name: "empty means no nodes", in: ""},
		{name: "none", in: "kwok:0"},
		{name: "ten", in: "kwok:10", want: NodeCount{Simulated: 10}},
		{name: "real ones", in: "real:2", want: NodeCount{Real: 2}},
		{name: "both sorts", in: "real:2,kwok:10", want: NodeCount{Simulated: 10, Real: 2}},
		{name: "both kinds in the other order", in: "kwok:10,real:2", want: NodeCount{Simulated: 10, Real: 2}},
		{name: "a kind twice", in: "real:2,real:1", err: "real is named twice"},
		{name: "a comma with nothing after it", in: "real:2,", err: "use kwok:N"},
		{name: "another sort", in: "docker:2", err: "use kwok:N"},
		{name: "no number", in: "kwok", err: "N of kwok must be a number from 0 to 5000"},
		{name: "a negative number of nodes", in: "kwok:-1", err: "N of kwok must be a number from 0 to 5000"},
		{name: "far too many", in: "kwok:5001", err: "N of kwok must be a number from 0 to 5000"},
		{name: "far too many real ones", in: "real:51", err: "N of real must be a number from 0 to 50"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			got, err := ParseNodes(tc.in)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, got)
		})
	}
}

func TestOnlyNodesMayChangeOnAClusterThatExists(t *testing.T) {
	t.Parallel()
	base := Config{Name: "east", Nodes: "kwok:1", Zones: 3, APIServerArgs: []string{"--v=1"}}
	for _, tc := range []struct {
		name   string
		change func(*Config)
		same   bool
	}{
		{name: "nothing", change: func(*Config) {}, same: true},
		{name: "nodes", change: func(c *Config) { c.Nodes = "kwok:9" }, same: true},
		{name: "where progress goes", change: func(c *Config) { c.Progress = func(string) func(error) { return nil } }, same: true},
		{name: "audit", change: func(c *Config) { c.Audit = true }},
		{name: "zones", change: func(c *Config) { c.Zones = 2 }},
		{name: "parts", change: func(c *Config) { c.ControlPlaneOnly = true }},
		{name: "flags", change: func(c *Config) { c.APIServerArgs = nil }},
		{name: "feature gates", change: func(c *Config) { c.FeatureGates = []string{"A=true"} }},
		{name: "real nodes where there were none", change: func(c *Config) { c.Nodes = "real:1" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			other := base
			tc.change(&other)
			require.Equal(t, tc.same, base.sameCluster(other))
		})
	}
}

func TestTheEnvironmentChoosesTheFolders(t *testing.T) {
	cache, state := t.TempDir(), t.TempDir()
	t.Setenv(cacheEnv, cache)
	t.Setenv(stateEnv, "")
	got, err := stateRoot()
	require.NoError(t, err)
	require.Equal(t, filepath.Join(cache, "state"), got)

	t.Setenv(stateEnv, state)
	got, err = stateRoot()
	require.NoError(t, err)
	require.Equal(t, state, got)
}
