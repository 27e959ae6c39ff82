package reach

import (
	"net"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOnlyAddressesOfOthersAreAllowed(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]bool{
		"10.1.2.3": true, "192.0.2.1": true, "fd00::1": true, "2001:db8::1": true, "::ffff:10.1.2.3": true,
		"127.0.0.1": false, "127.9.9.9": false, "::1": false, "::ffff:127.0.0.1": false,
		"0.0.0.0": false, "::": false, "::ffff:0.0.0.0": false,
		"169.254.169.254": false, "::ffff:169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false,
		"224.0.0.1": false, "ff02::1": false, "255.255.255.255": false, "::ffff:255.255.255.255": false,
	} {
		require.Equal(t, want, Allowed(netip.MustParseAddr(address)), address)
	}
	require.False(t, Allowed(netip.Addr{}))
}

// A name is checked by the address that it resolves to.
func TestADialerConnectsToNoAddressThatIsNotAllowed(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.Close() })
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	d := net.Dialer{Control: Control}
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "::ffff:127.0.0.1"} {
		c, err := d.DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if c != nil {
			_ = c.Close()
		}
		require.ErrorContains(t, err, "doesn't connect to loopback", host)
	}
}
