// Package fleet starts a whole fleet on one machine: a hub and two members, each a real control plane of the lab. Our managers run beside
// them as processes, or on real nodes in pods.
//
// The demonstration, the end-to-end suites and the benchmark use it. On real nodes, a fleet is installed as users install it: by helm, from
// our images. With simulated nodes, the charts are rendered by helm and applied, and the managers run with tokens for the ServiceAccounts in
// the charts, never as administrators, so that missing permissions are noticed. East joins by pull with the command that the kubectl plugin
// prints. West joins by push with a kubeconfig in a Secret.
//
//	Up            starts it, or restarts it: what exists already is kept
//	Cluster       a lab cluster with a client, and the manager that runs beside it or in it
//	Manager       start, stop, kill; the same for a process and for a Deployment of pods
//	Fleet.Writes  the writes to all clusters since a time, from their audit logs
//
// It uses only the managers' flags, charts and APIs. The fleet keeps running after the process that called Up. Down removes it.
package fleet
