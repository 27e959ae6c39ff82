// Package uniteddeployment runs one UnitedDeployment over the clusters of the fleet: it decides how many replicas of
// each subset belong into which cluster, sends each cluster a slice, and gathers the slices' status.
//
// A slice is a UnitedDeployment again, cut down to the subsets of one cluster with absolute numbers; the member's own
// controller does the rest, as for an object that a user made there. The template is the same bytes in every slice, so
// that its revision has the same name everywhere.
//
// Each pass takes the next step only (plan.go): allot.Allocate says where the replicas belong, allot.Transfer how far
// the grants may go there now, so that a move never falls below the wanted number of available pods by more than the
// user allows. A cluster that can't be reached keeps its numbers; the others go on.
//
// Pods of StatefulSets of apps.kruise.io have ordinals of their own over all clusters: each subset has a range in each cluster
// (ordinal.go).
//
// What the plan starts from is kept in the rows themselves (grant, lower and upper bounds, ordinals), so a hub that was killed at
// any moment goes on where it stood, and an idle one writes nothing.
//
// Objects whose subsets name no cluster are not touched, but get a condition where nobody else would run them.
package uniteddeployment
