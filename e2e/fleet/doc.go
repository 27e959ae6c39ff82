// Package fleet brings up a whole fleet on one machine: a hub and two members, each a real control plane of the lab, with
// our managers beside them as processes.
//
// It is what the demonstration, the end-to-end suite and the benchmark stand on. A fleet is installed the way a user
// installs it: the charts are rendered by helm and applied, the managers run with tokens of the ServiceAccounts that the
// charts make (never as administrators, so that a right that is missing shows), east joins by pull with a token from
// the kubectl plugin, west by push with a kubeconfig in a Secret.
//
//	Up            brings it up, or back up: whatever of it is there already is kept
//	Cluster       a lab cluster with a client, and the manager that runs beside it
//	Manager       start, stop, kill
//	Fleet.Writes  what was written in all clusters since a moment, from their audit logs
//
// It knows the managers by their flags, charts and API only. Nothing of it ends with the process that called Up; Down
// ends it.
package fleet
