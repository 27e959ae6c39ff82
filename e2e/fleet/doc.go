// Package fleet brings up a whole fleet on one machine: a hub and two members, each a real control plane of the lab, with
// our managers beside them as processes, or on real nodes in pods of their own.
//
// It is what the demonstration, the end-to-end suites and the benchmark stand on. On real nodes a fleet is installed just as
// a user installs it: by helm, from our images. Beside simulated ones, the charts are rendered by helm and applied, and the
// managers run with tokens of the ServiceAccounts that the charts make. Never as administrators, so that a right that is
// missing shows. East joins by pull with what the kubectl plugin prints, west by push with a kubeconfig in a Secret.
//
//	Up            brings it up, or back up: whatever of it is there already is kept
//	Cluster       a lab cluster with a client, and the manager that runs beside it or in it
//	Manager       start, stop, kill; the same for a process and for a Deployment of pods
//	Fleet.Writes  what was written in all clusters since a moment, from their audit logs
//
// It knows the managers by their flags, charts and API only. Nothing of it ends with the process that called Up; Down
// ends it.
package fleet
