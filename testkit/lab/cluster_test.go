package lab

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"
)

// newTestCluster returns a cluster whose files exist and whose programs were never started.
func newTestCluster(t *testing.T, cfg Config) *Cluster {
	t.Helper()
	root := t.TempDir()
	t.Setenv(cacheEnv, filepath.Join(root, "cache"))
	t.Setenv(stateEnv, filepath.Join(root, "state"))
	cfg, err := cfg.complete()
	require.NoError(t, err)
	c, err := open(t.Context(), filepath.Join(cfg.StateRoot, cfg.Name), cfg, Bin{Dir: "bin"}, Bin{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Down(context.WithoutCancel(t.Context())) })
	return c
}

func TestAClusterIsFoundAgainWithItsPortsAndCertificates(t *testing.T) {
	c := newTestCluster(t, Config{Name: "east", Audit: true})
	require.Equal(t, filepath.Join(c.Dir, "audit.log"), c.AuditLog)
	require.Equal(t, c.components(), c.Missing())

	got, err := Get("east")
	require.NoError(t, err)
	opts := cmp.Options{cmp.AllowUnexported(Cluster{}), cmpopts.IgnoreFields(Cluster{}, "audit"), cmp.Comparer(func(a, b Config) bool { return a.sameCluster(b) })}
	require.Empty(t, cmp.Diff(c, got, opts))
	all, err := List()
	require.NoError(t, err)
	require.Empty(t, cmp.Diff([]*Cluster{c}, all, opts))

	port, err := c.Port(t.Context(), "webhook")
	require.NoError(t, err)
	again, err := got.Port(t.Context(), "webhook")
	require.NoError(t, err)
	require.Equal(t, port, again, "a purpose keeps its port")
	require.NotContains(t, c.ports, port)

	reopened, err := open(t.Context(), c.Dir, c.config, c.Bin, c.nodeBin)
	require.NoError(t, err)
	require.Equal(t, c.CA, reopened.CA)
	require.Equal(t, port, reopened.ports["webhook"])
	other := c.config
	other.Audit = false
	_, err = open(t.Context(), c.Dir, other, c.Bin, c.nodeBin)
	require.ErrorContains(t, err, "exists with other settings")
}

func TestDownEndsWhatEarlierProgramsStarted(t *testing.T) {
	c := newTestCluster(t, Config{Name: "east"})
	manager, err := c.Start(Command{Name: "manager", Args: []string{"sleep", "300"}})
	require.NoError(t, err)
	server, err := c.Start(Command{Name: APIServer, Args: []string{"sleep", "300"}})
	require.NoError(t, err)
	require.NotContains(t, c.Missing(), APIServer)

	require.NoError(t, Down(t.Context(), "east"))
	require.False(t, manager.Alive())
	require.False(t, server.Alive())
	require.NoDirExists(t, c.Dir)
	require.ErrorIs(t, Down(t.Context(), "east"), ErrNotFound)
	_, err = Get("east")
	require.ErrorIs(t, err, ErrNotFound)
}

func TestAStartThatWasBrokenOffIsSweptAway(t *testing.T) {
	c := newTestCluster(t, Config{Name: "east"})
	orphan, err := c.Start(Command{Name: Etcd, Args: []string{"sleep", "300"}})
	require.NoError(t, err)
	require.NoError(t, os.Remove(c.path(clusterFile)))
	all, err := List()
	require.NoError(t, err)
	require.Empty(t, all, "it was never created")

	cfg, err := c.config.complete()
	require.NoError(t, err)
	fresh, err := open(t.Context(), c.Dir, cfg, c.Bin, c.nodeBin)
	require.NoError(t, err)
	require.False(t, orphan.Alive())
	require.NotEqual(t, c.CA, fresh.CA)
}

func TestComponentsAndTheirFlags(t *testing.T) {
	for _, tc := range []struct {
		name      string
		cfg       Config
		component string
		has, not  []string
		err       string
	}{
		{
			name: "an apiserver without audit", cfg: Config{Name: "a"}, component: APIServer,
			has: []string{"--authorization-mode=Node,RBAC"}, not: []string{"--audit-log-maxsize=100000", "--disable-admission-plugins=ServiceAccount"},
		},
		{name: "an apiserver with audit", cfg: Config{Name: "a", Audit: true}, component: APIServer, has: []string{"--audit-log-maxsize=100000"}},
		{
			name: "an API server alone, with a flag of the caller", component: APIServer,
			cfg: Config{Name: "a", ControlPlaneOnly: true, APIServerArgs: []string{"--v=4"}}, has: []string{"--disable-admission-plugins=ServiceAccount", "--v=4"},
		},
		{
			name: "an apiserver with feature gates", component: APIServer,
			cfg: Config{Name: "a", FeatureGates: []string{"A=true", "B=false"}}, has: []string{"--feature-gates=A=true,B=false"},
		},
		{
			name: "a controller manager with feature gates", component: ControllerManager,
			cfg: Config{Name: "a", FeatureGates: []string{"A=true"}}, has: []string{"--feature-gates=A=true"},
		},
		{
			name: "a scheduler with feature gates", component: Scheduler,
			cfg: Config{Name: "a", FeatureGates: []string{"A=true"}}, has: []string{"--feature-gates=A=true"},
		},
		{
			name: "a simulator has no feature gates of Kubernetes", component: Simulator,
			cfg: Config{Name: "a", FeatureGates: []string{"A=true"}}, not: []string{"--feature-gates=A=true"},
		},
		{name: "a scheduler without feature gates", cfg: Config{Name: "a"}, component: Scheduler, not: []string{"--feature-gates="}},
		{name: "a control plane without a scheduler", cfg: Config{Name: "a", ControlPlaneOnly: true}, component: Scheduler, err: "has no component"},
		{name: "an unknown component", cfg: Config{Name: "a"}, component: "kubelet", err: `has no component "kubelet"`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			c := newTestCluster(t, tc.cfg)
			args, err := c.args(tc.component)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, filepath.Join("bin", tc.component), args[0])
			require.Subset(t, args, tc.has)
			for _, flag := range tc.not {
				require.NotContains(t, args, flag)
			}
		})
	}
}

func TestNodesLieInTheirZonesAndTakeOrdinaryPods(t *testing.T) {
	t.Parallel()
	c := newCluster(t.TempDir(), Config{Name: "east", Zones: 2}, Bin{})
	zones := make([]string, 3)
	for i := range zones {
		node := c.node(i + 1)
		zones[i] = node.Labels["topology.kubernetes.io/zone"]
		require.Empty(t, node.Spec.Taints)
		require.Equal(t, node.Name, node.Labels["kubernetes.io/hostname"])
	}
	require.Equal(t, []string{"zone-a", "zone-b", "zone-a"}, zones)
	require.Equal(t, "10.0.1.44", c.node(300).Status.Addresses[0].Address)
}

func TestASharedClusterIsPreparedOnceAndShowsNoEarlierWrites(t *testing.T) {
	c := newTestCluster(t, Config{Name: "east", Audit: true})
	require.NoError(t, os.WriteFile(c.path(sharedFile), nil, 0o600))
	line := `{"verb":"create","requestReceivedTimestamp":"2026-11-01T12:00:00Z","objectRef":{"resource":"pods"}}` + "\n"
	require.NoError(t, os.WriteFile(c.AuditLog, []byte(line), 0o600))
	again, err := Shared(t.Context(), Config{Name: "east", StateRoot: filepath.Dir(c.Dir)}, func(context.Context, *Cluster) error {
		return errors.New("prepared twice")
	})
	require.NoError(t, err)
	require.Equal(t, c.ServerURL, again.ServerURL)
	require.NoError(t, os.WriteFile(c.AuditLog, []byte(line+line), 0o600))
	writes, err := again.Writes(time.Time{})
	require.NoError(t, err)
	require.Len(t, writes, 1)
}
