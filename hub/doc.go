// Package hub is the manager of a fleet: members join and are watched here, and work is divided over them.
//
// Setup is the one list of what runs in it. Each folder below is one concern: cluster lets members in, watches them and
// lets them go; row writes what a member is asked to do; allot is the arithmetic of who gets how much; and a folder that
// is named after a kind runs objects of that kind over clusters. None of them imports another kind's, and none imports
// package member: for members that are reached by push, the program passes the member's agent in as a function.
package hub

//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen rbac:roleName=flotilla-hub paths=./... output:rbac:dir=../charts/hub/files
