// Package node is the daemon of one node: what can only be done beside its containers.
//
// Setup is the one list of its loops. Each has a folder below, observes, plans and applies as controllers do, and sees the
// pods of this node alone. Beside them runs one keeper: it looks for the node's container runtime, again and again, and
// renews the node's Lease while there is one, by which the manager knows that it may rely on the loops here.
//
// A node without a runtime that answers is no reason to end. The loops wait, /readyz and an event on the Node say what was
// looked for, the Lease runs out, and the manager goes without this daemon meanwhile.
//
// The daemon runs as root on the node, for it may stop any container there and run commands in it. Towards the cluster it
// may write reports on pods of its own node, its own Lease and its own events, and nothing else: a policy of the chart holds
// it to that by the node in its token. It reads no Secret.
package node
