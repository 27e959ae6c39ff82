// Package node is the daemon of one node: it does what can only be done next to the node's containers.
//
// Setup lists its controllers. Each has a folder below and observes, plans and applies like the manager's controllers, but sees only the pods
// of this node. In addition, the keeper polls for the node's container runtime and, while one answers, renews the node's Lease, by which the
// manager knows that a daemon is alive there.
//
// A node without an answering runtime does not end the daemon. The controllers wait, /readyz and an event on the Node name the sockets that
// were tried, the Lease expires, and the manager works without this daemon until the Lease is renewed.
//
// The daemon runs as root on the node and may stop any container there and run commands in it. In the cluster it may write only the status of
// pods on its own node, the status of its own NodeImage and NodePodProbe, its own Lease and its own events. A policy in the chart enforces
// that by the node name in its token. It reads no Secrets.
package node
