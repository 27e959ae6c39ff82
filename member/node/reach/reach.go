// Package reach decides which addresses the node daemon connects to on behalf of pods: for probes, and for preStop hooks.
//
// Pods, and whoever may write their status, choose these addresses. An address that each host keeps for itself, or that is valid only on its
// link, would lead to the daemon instead of a pod, or to what its network offers to nodes only, such as the metadata service of a cloud.
package reach

import (
	"fmt"
	"net/netip"
	"syscall"
)

// Allowed reports whether the daemon connects to an address: not to one that is unspecified, loopback, link-local or multicast.
func Allowed(ip netip.Addr) bool {
	ip = ip.Unmap() // ::ffff:0.0.0.0 is the host itself as well.
	return ip.IsGlobalUnicast()
}

// Control is a function for a net.Dialer. It refuses addresses that are not allowed after their names have been resolved.
func Control(_, address string, _ syscall.RawConn) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("parse address %s: %w", address, err)
	}
	if !Allowed(to.Addr()) {
		return fmt.Errorf("the node daemon doesn't connect to loopback, link-local or multicast address %s", to.Addr())
	}
	return nil
}
