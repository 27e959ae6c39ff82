package lab

import (
	"errors"
	"net/netip"
	"os"
	"os/exec"
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
		require.LessOrEqual(t, len(n.link(maxRealNodes)), 15, "the kernel allows no longer names")
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
	var all []tenant
	for i := network(1); i <= maxNetworks; i++ {
		all = append(all, tenant{Dir: "/x", network: i})
	}
	for _, tc := range []struct {
		name    string
		tenants []tenant
		routes  string
		dir     string
		had     network
		want    network
		fails   string
	}{
		{name: "it has a network", tenants: tenants, dir: "/c", had: 3, want: 3},
		{name: "its start was interrupted when it had one", tenants: tenants, dir: "/c", want: 3},
		{name: "it is new, and gets the first free one", tenants: tenants, dir: "/b", want: 2},
		{name: "the machine was restarted, and it is the first that returns", dir: "/c", had: 3, want: 3},
		{name: "another cluster has used it since", tenants: tenants, dir: "/d", had: 3, fails: "the network of /d was given to /c"},
		{name: "its own routes don't prevent it", tenants: tenants, routes: "10.129.3.0/24 dev tun0", dir: "/c", want: 3},
		{name: "the machine has routes to its nodes' addresses", tenants: tenants, routes: "10.129.2.128/25 dev tun0", dir: "/b", want: 4},
		{name: "the machine has routes to its pods' addresses", tenants: tenants, routes: "blackhole 10.132.0.0/16\n10.134.7.7 via 10.0.0.1 dev tun0", dir: "/b", want: 5},
		{name: "a default route has no effect", tenants: tenants, routes: "default via 10.0.0.1 dev eth0\n10.0.0.0/8 dev tun0", dir: "/b", want: 2},
		{name: "all networks are in use", tenants: all, dir: "/b", fails: "no network left: of 99, 99 have clusters with real nodes"},
		{name: "routes of the machine lead to the rest", tenants: tenants, routes: "10.129.0.0/16 dev eth0", dir: "/b", fails: "of 99, 2 have clusters with real nodes, and routes of this machine lead to the rest"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n, err := choose(tc.tenants, parseRoutes(tc.routes), tc.dir, tc.had)
			if tc.fails != "" {
				require.ErrorContains(t, err, tc.fails)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.want, n)
		})
	}
}

func TestRoutesOfTheLabAreNotTheMachines(t *testing.T) {
	t.Parallel()
	require.Equal(t, []netip.Prefix{netip.MustParsePrefix("172.17.0.0/16"), netip.MustParsePrefix("10.9.9.9/32")}, parseRoutes(
		"default via 172.16.0.1 dev eth0\n172.17.0.0/16 dev docker0 proto kernel scope link src 172.17.0.1 linkdown\n"+
			"10.129.1.0/24 via 10.129.0.254 dev flotilla0 src 10.129.1.254 onlink\nunreachable 10.9.9.9 metric 7\n\n"))
}

func TestAStartThatWasBrokenOffHasNoRouter(t *testing.T) {
	t.Parallel()
	m := machine{dir: t.TempDir()}
	require.False(t, m.routed())
	require.NoError(t, os.WriteFile(m.netns(), nil, 0o600))
	require.False(t, m.routed(), "the file exists, but holds no namespace")
}

func TestWhatWasGoneIsToldFromWhatFailed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"Cannot find device \"flotilla0\"":                     true,
		"RTNETLINK answers: No such process":                   true,
		"Error: ipv4: Address not found.":                      true,
		"RTNETLINK answers: Operation not permitted":           false,
		"nsenter: reassociate to namespace 'ns/net' failed: x": false,
	} {
		require.Equal(t, want, ignoreMissing(errors.New(name)) == nil, name)
	}
	err := ipBatch(exec.CommandContext(t.Context(), "no-such-program"), []string{"link del x"})
	require.ErrorIs(t, ignoreMissing(err), exec.ErrNotFound, "a missing ip command doesn't mean that its object is missing")
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
		{name: "its processes were killed, but it is to return", tenant: tenant{Dir: ended}},
		{name: "its processes are running", tenant: tenant{Dir: busy, Tied: true}},
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
