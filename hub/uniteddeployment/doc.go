// Package uniteddeployment places UnitedDeployments in the clusters of the fleet. It decides how many replicas of each subset run in which
// cluster, sends each cluster a slice, and aggregates the status of the slices.
//
// A slice is a UnitedDeployment that is reduced to the subsets of one cluster, with absolute numbers. The member's own controller runs it
// like one that a user created there. The template is the same bytes in every slice, so its revision has the same name in every cluster.
//
// divide.go divides the object, render.go builds the slices, and status.go aggregates. The rest is in package placement. Each reconcile plans
// only the next step: allot.Allocate returns where replicas should run, and allot.Transfer how far the grants may change now, so that a move
// never makes more pods unavailable than the user allows. A cluster that can't be reached keeps its numbers, and the others continue.
//
// Pods of apps.kruise.io StatefulSets have ordinals that are unique across all clusters: each subset has its own range in each cluster
// (ordinal.go).
//
// The state of a plan is in the rows (grant, lower and upper bounds, ordinals), so that a hub that was killed at any time continues from
// there, and an idle hub writes nothing.
//
// Each template, with the patches of its subsets, has a ControllerRevision on the hub (history.go), which is written before the rows.
//
// Objects whose subsets name no cluster are left to the member stack of the hub's cluster. If there is none, they get a condition.
package uniteddeployment
