package keys

// NodeDaemon is a label on a Lease: a node daemon renews it while it works. Written by the daemon of the node that
// is named in the Lease's name; read by the member manager.
// Form: only its presence counts.
const NodeDaemon = "fleet.kruise.io/node-daemon"

// NodeDaemonDoes is an annotation on the same Lease: what the daemon does on its node. Written by the node daemon; read by the
// member manager, which plans by it, and by people.
// Form: names separated by commas. A Lease without it is that of an earlier version, which restarted containers for their env.
const NodeDaemonDoes = "fleet.kruise.io/node-daemon-does"

// OtherNodeDaemon is an annotation on the same Lease: the node daemon stands back, because another one, OpenKruise's, restarts
// containers there. Written by the node daemon, for people; removed when the other is gone.
// Form: namespace/name of the other's pod.
const OtherNodeDaemon = "fleet.kruise.io/other-node-daemon"

// FakeNodeImage is a label on a NodeImage without a node, for tests and simulations: it is not deleted for that. Written by
// users; read by NodeImage's controller. Form: only its presence counts.
const FakeNodeImage = "apps.kruise.io/fake-nodeimage"
