// Package nodelease tells a cluster's manager on which nodes a node daemon is alive.
//
// Each daemon renews its own Lease in the namespace of the release, every RenewInterval, while it works. The manager watches these Leases, and a
// daemon counts as alive for LeaseDuration after the manager has observed a renewal. The manager uses its own clock, so the clocks of nodes may
// differ. Only when it observes a Lease for the first time does it use the renew time in the Lease, unless that is in the future: otherwise a
// manager that has just started would consider all daemons alive, or all dead.
//
// A manager has one Tracker; each controller that uses it has its own Source. The Lease is owned by its Node, and is deleted with it.
//
// The daemon also renews the Lease while it stands back for OpenKruise's daemon, which then does the work that the manager relies on; an
// annotation names the other daemon's pod.
//
// The Lease says nothing about the health of the node: the kubelet's own Lease does. A daemon that dies counts as alive for up to LeaseDuration,
// and requests to it wait for the next daemon.
package nodelease
