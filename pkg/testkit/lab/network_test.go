package lab

import (
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNetworksDoNotOverlap(t *testing.T) {
	t.Parallel()
	var all []netip.Prefix
	for n := network(1); n <= maxNetworks; n++ {
		nodes, pods := netip.MustParsePrefix(n.nodes()), netip.MustParsePrefix(n.pods())
		for i := 1; i <= maxRealNodes; i++ {
			require.True(t, nodes.Contains(netip.MustParseAddr(n.node(i))))
			require.NotEqual(t, n.controlPlane(), n.node(i))
			require.True(t, pods.Overlaps(netip.MustParsePrefix(n.nodePods(i))))
		}
		require.True(t, nodes.Contains(netip.MustParseAddr(n.controlPlane())))
		require.LessOrEqual(t, len(n.link(maxRealNodes)), 15, "the kernel allows no more")
		all = append(all, nodes, pods)
	}
	for _, other := range []string{HostAddress + "/32", routerAddress + "/32", serviceNetwork, podNetwork} {
		all = append(all, netip.MustParsePrefix(other))
	}
	for i, a := range all {
		for _, b := range all[i+1:] {
			require.False(t, a.Overlaps(b), "%s and %s", a, b)
		}
	}
}

func TestAClusterKeepsItsNetwork(t *testing.T) {
	t.Parallel()
	tenants := []tenant{{Dir: "/a", network: 1}, {Dir: "/c", network: 3}}
	n, err := choose(tenants, "/c")
	require.NoError(t, err)
	require.Equal(t, network(3), n)
	n, err = choose(tenants, "/b")
	require.NoError(t, err)
	require.Equal(t, network(2), n, "the first free one")

	tenants = nil
	for i := network(1); i <= maxNetworks; i++ {
		tenants = append(tenants, tenant{Dir: "/x", network: i})
	}
	_, err = choose(tenants, "/b")
	require.ErrorContains(t, err, "99 clusters with real nodes are up")
}

func TestRemnantsAreToldFromClusters(t *testing.T) {
	t.Parallel()
	idle, busy, ended := t.TempDir(), t.TempDir(), t.TempDir()
	start(t, Command{Dir: busy, Name: "a", Args: []string{"sleep", "300"}})
	p := start(t, Command{Dir: ended, Name: "a", Args: []string{"true"}})
	require.Eventually(t, func() bool { return !p.Alive() }, soon, tick)
	for _, tc := range []struct {
		name   string
		tenant tenant
		want   bool
	}{
		{name: "its folder is gone", tenant: tenant{Dir: idle + "/none"}, want: true},
		{name: "its test was killed", tenant: tenant{Dir: ended, Tied: true}, want: true},
		{name: "its processes were killed, but it is to come back", tenant: tenant{Dir: ended}},
		{name: "its processes run", tenant: tenant{Dir: busy, Tied: true}},
		{name: "nothing was started yet", tenant: tenant{Dir: idle, Tied: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, tc.tenant.gone())
		})
	}
}

func TestACutIsSymmetricAndFoundAgain(t *testing.T) {
	t.Parallel()
	a := &Cluster{Name: "a", network: 1}
	b := &Cluster{Name: "b", network: 12}
	ra, err := Place{Cluster: a}.ranges()
	require.NoError(t, err)
	rb, err := Place{Cluster: b}.ranges()
	require.NoError(t, err)
	there, back := cutsBetween(ra, rb), cutsBetween(rb, ra)
	require.Len(t, there, 8)
	require.ElementsMatch(t, there, back)
	for _, c := range there {
		require.True(t, c.touches(1))
		require.True(t, c.touches(12))
		require.False(t, c.touches(2))
		require.NotEqual(t, c.from, c.to)
	}

	_, err = Place{Cluster: &Cluster{Name: "c"}}.ranges()
	require.ErrorContains(t, err, "cluster c has no network: its nodes are not real")
	_, err = Place{Cluster: a, Node: "node-7"}.ranges()
	require.ErrorContains(t, err, `cluster a has no real node "node-7"`)
	require.ErrorContains(t, Cut(t.Context(), Place{Cluster: a}, Place{Cluster: a}), "a and a are the same place")

	require.Equal(t, []cut{{from: "10.129.1.1", to: "10.142.0.0/16"}, {from: "10.142.0.0/16", to: "10.129.1.1"}}, parseCuts(
		"100:\tfrom 10.129.1.1 to 10.142.0.0/16 blackhole\n100:\tfrom 10.142.0.0/16 to 10.129.1.1 blackhole\n32766:\tfrom all lookup main\n"))
}
