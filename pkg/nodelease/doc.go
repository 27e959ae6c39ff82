// Package nodelease tells a cluster's manager on which nodes a node daemon is alive.
//
// Each daemon renews a Lease of its own in the namespace of the release, every Every, while it can do its work. The manager
// watches these Leases, and a daemon counts as alive for Lasting after the manager has seen a renewal. The manager goes by
// its own clock, so clocks of nodes may differ. Only for a Lease that it sees for the first time does it go by the renew time
// in the Lease, unless that is in the future: a manager that has just started would otherwise take every dead daemon for a
// live one, or every live one for dead.
//
// A manager has one Tracker; each controller that plans by it watches through a Source of its own. The Lease is owned by its
// Node, and is deleted with it.
//
// A Lease says nothing about the health of the node: the kubelet's own Lease does. A daemon that dies counts as alive for up
// to Lasting, and what it is asked for meanwhile waits for the next one.
package nodelease
