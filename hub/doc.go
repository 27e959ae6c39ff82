// Package hub is the manager of a fleet: it lets members join, watches them, and divides work over them.
//
// Kinds is the one list of the kinds that run in it. Each folder below is one concern: cluster admits members, watches them and
// releases them; row writes what a member is asked to do; allot divides replicas; placement is what kinds that are placed in
// clusters have in common; and a folder that is named after a kind places objects of that kind. None of them imports another
// kind's, and none imports package member: for push members, the program passes the member's agent in as a function.
//
// docs/internals/placement.md says how a kind docks.
package hub

//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-hub paths=./... output:rbac:dir=../charts/hub/files
