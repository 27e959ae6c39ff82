// Package node is the daemon of one node: it does what can only be done next to the node's containers.
//
// Setup lists its controllers. Each has a folder below, observes, plans and applies as the manager's controllers do, and
// sees only the pods of this node. Beside them runs the keeper, which polls for the node's container runtime and, while one
// answers, renews the node's Lease, by which the manager knows that a daemon is alive there.
//
// A node without an answering runtime does not end the daemon. The controllers wait, /readyz and an event on the Node name
// the sockets that were tried, the Lease expires, and the manager works without this daemon until it is renewed.
//
// The daemon runs as root on the node and may stop any container there and run commands in it. In the cluster it may write
// only the status of pods on its own node, that of its own NodeImage and NodePodProbe, its own Lease and its own events; a policy in the chart
// enforces that by the node name in its token. It reads no Secret.
package node
