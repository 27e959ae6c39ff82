// Package volume provisions volumes for the PVCs of a lab's cluster when pods need them, as folders on the disks of nodes, and
// expands them. It does what tests of dynamic provisioning need, and no more: sizes are not enforced, and a volume's folder
// stays on its node when the volume is deleted.
package volume
