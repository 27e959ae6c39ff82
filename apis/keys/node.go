package keys

// NodeDaemon is a label on the Lease that a node daemon renews while it works. It is set by the daemon of the node in the Lease's name, and
// read by the member manager. Format: any value; only its presence counts.
const NodeDaemon = "fleet.kruise.io/node-daemon"

// NodeDaemonDoes is an annotation on the same Lease. It lists what the daemon does on its node. It is set by the node daemon and read by
// people and by the member manager, which plans accordingly. Format: a comma-separated list of names. A Lease without it is from an earlier
// version, which restarted containers when their environment variables changed.
const NodeDaemonDoes = "fleet.kruise.io/node-daemon-does"

// OtherNodeDaemon is an annotation on the same Lease. It says that the node daemon stands back, because another node daemon, OpenKruise's,
// restarts containers on the node. It is set by the node daemon for people to read, and removed when the other daemon is gone. Format:
// namespace/name of the other daemon's pod.
const OtherNodeDaemon = "fleet.kruise.io/other-node-daemon"

// FakeNodeImage is a label on a NodeImage without a node, for tests and simulations. A NodeImage with this label isn't deleted for lack of
// a node. It is set by users and read by the NodeImage controller. Format: any value; only its presence counts.
const FakeNodeImage = "apps.kruise.io/fake-nodeimage"
