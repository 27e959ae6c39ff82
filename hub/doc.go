// Package hub is the manager of a fleet: it lets members join, monitors them, and divides work over them.
//
// Kinds is the only list of the kinds that run in it. Each of these folders has one concern: cluster admits, monitors and releases members;
// row writes what a member is asked to do; allot divides replicas; rollout decides which clusters get a new revision, and approval who has
// opened its gates; placement is the common part of the kinds that are placed in clusters; and a folder that is named after a kind places
// objects of that kind. None of them imports another kind's folder, and none imports package member: the program passes the member's agent for
// push members in as a function.
//
// docs/internals/placement.md describes how to add a kind.
package hub

//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-hub paths=./... output:rbac:dir=../charts/hub/files
