// Package nodelease lets a cluster's manager know on which nodes a node daemon is alive.
//
// Each daemon renews a Lease of its own in the namespace of the release, every RenewInterval, while it works. The manager
// watches these Leases, and a daemon counts as alive for LeaseDuration after the manager has observed a renewal. The manager
// uses its own clock, so clocks of nodes may differ. Only for a Lease that it observes for the first time does it use the
// renew time in the Lease, unless that is in the future: otherwise a manager that has just started would consider all
// daemons alive, or all dead.
//
// A manager has one Tracker; each controller that uses it has a Source of its own. The Lease is owned by its Node, and is
// deleted with it.
//
// The Lease is renewed also while the daemon stands back for OpenKruise's, which then does what the manager relies on; an
// annotation names the other's pod.
//
// The Lease is not about the health of the node: the kubelet's own Lease is. A daemon that dies counts as alive for up to
// LeaseDuration, and requests to it wait for the next daemon.
package nodelease
