package keys

// NodeDaemon is a label on a Lease: a node daemon renews it while it works. Written by the daemon of the node that
// is named in the Lease's name; read by the member manager to tell whether containers there can be restarted for their env.
// Form: only its presence counts.
const NodeDaemon = "fleet.kruise.io/node-daemon"

// OtherNodeDaemon is an annotation on the same Lease: the node daemon stands back, because another one, OpenKruise's, restarts
// containers there. Written by the node daemon, for people; removed when the other is gone.
// Form: namespace/name of the other's pod.
const OtherNodeDaemon = "fleet.kruise.io/other-node-daemon"

// FakeNodeImage is a label on a NodeImage without a node, for tests and simulations: it is not deleted for that. Written by
// users; read by NodeImage's controller. Form: only its presence counts.
const FakeNodeImage = "apps.kruise.io/fake-nodeimage"
