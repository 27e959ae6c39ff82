// Package volume gives the claims of a lab's cluster volumes when pods need them, as folders on the disks of nodes, and lets
// them grow. It is what tests of claims that are made while they run need, and no more: nothing is kept to its size, and a
// volume's folder stays on its node when the volume goes.
package volume
