// Package allot decides how many replicas each cluster runs, and how to get there without a gap.
//
// It has two pure functions, and nothing else decides a number that is sent to a member:
//
//   - Allocate returns where replicas should run. It divides the total over subsets by the rules of pkg/plan/spread, and a subset's
//     part over its clusters. A cluster that doesn't answer keeps its number, a draining cluster gets none, and no cluster gets
//     more than its limit.
//   - Transfer returns what to grant now on the way there. Members may get a grant late or never, so a grant counts as possibly
//     in force until a newer one is acknowledged. A cluster grows only while everything that may be running stays within the
//     surge, and shrinks only while everything that is certainly available stays above the minimum.
//
// There are two kinds of unallocated replicas. Some are barred: a maximum of a subset or of a cluster excludes them. That is intended, so a
// maximum that is lowered is reached by shrinking. The others are lost: a cluster is unknown, doesn't answer or is drained. Nothing shrinks
// for these. Allocate distinguishes the two, and Transfer treats them differently.
//
// Only Grant is kept between two calls: three integers for each subset in a cluster, stored together with the number that is sent. A hub that
// restarts, or loses its lease in the middle of a plan, continues from there.
//
// The invariants, which the tests call I1 to I8:
//
//	I1  the targets add up to the total, or what is missing or in excess is reported with its reason
//	I2  minimum and maximum are respected, nothing is negative, the order of clusters and repeated calls change nothing
//	I3  what may be running is never more than desired + surge
//	I4  a move never lets the available replicas drop below desired - barred - maxUnavailable
//	I5  a source shrinks only by what is available elsewhere or barred; without a destination nothing shrinks
//	I6  the number of a frozen cluster never changes
//	I7  a change of one number by n moves at most n replicas
//	I8  with constant input the plan converges, and then changes nothing
//
// I3 and I4 are about moves that the hub makes. They can't be guaranteed when pods fail, or when a member runs something other than it was
// granted.
//
// The package doesn't choose clusters, doesn't fail over and doesn't read the capacity of members. The clusters of a subset and their states
// are its input. It doesn't look for the best packing: if two subsets share a cluster with a limit, the one that is listed first is served
// first.
package allot
