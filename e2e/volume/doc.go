// Package volume provisions volumes for the PVCs of a lab cluster when pods need them, as folders on the disks of nodes, and expands them. It
// only does what tests of dynamic provisioning need: sizes are not enforced, and a volume's folder stays on its node when the volume is
// deleted.
package volume
