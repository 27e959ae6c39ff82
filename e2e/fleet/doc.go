// Package fleet starts a whole fleet on one machine: a hub and two members, each a real control plane of the lab, with
// our managers beside them as processes, or on real nodes in pods of their own.
//
// The demonstration, the end-to-end suites and the benchmark use it. On real nodes a fleet is installed as a user installs it:
// by helm, from our images. With simulated ones, the charts are rendered by helm and applied, and the managers run with
// tokens of the ServiceAccounts that the charts create, never as administrators, so that missing rights are
// noticed. East joins by pull with what the kubectl plugin prints, west by push with a kubeconfig in a Secret.
//
//	Up            starts it, or restarts it: what exists already is kept
//	Cluster       a lab cluster with a client, and the manager that runs beside it or in it
//	Manager       start, stop, kill; the same for a process and for a Deployment of pods
//	Fleet.Writes  the writes to all clusters since a time, from their audit logs
//
// It uses only the managers' flags, charts and API. The fleet keeps running after the process that called Up; Down
// removes it.
package fleet
