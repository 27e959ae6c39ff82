// Package nodelease tells a cluster's manager on which nodes a node daemon lives.
//
// The idea: each daemon renews a Lease of its own in the namespace of the release, every Every, while it can do its work.
// The manager watches these Leases, and a daemon counts as live for Lasting after the manager has seen a renewal. It goes
// by its own clock, so clocks of nodes may differ. Only of a Lease that it sees for the first time it has to believe the
// time that stands there, and no future: a manager that has just started would otherwise take every dead daemon for a live
// one, or every live one for dead.
//
// The Lease is owned by its Node, and goes with it.
//
// What it won't do: tell whether the node is healthy, which is the kubelet's own Lease. Trade-off: a daemon that dies
// counts as live for up to Lasting, and what is asked of it meanwhile waits for the next one.
package nodelease
