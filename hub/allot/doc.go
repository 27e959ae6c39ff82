// Package allot decides how many replicas each cluster runs, and how to get there without a gap.
//
// It has two pure functions, and nothing else decides a number that is sent to a member:
//
//   - Allocate returns where replicas should run: it divides the total over subsets by the rules of pkg/spread, and a subset's
//     part over its clusters. A cluster that does not answer keeps its number, a draining one gets none, and no
//     cluster gets more than its limit.
//   - Transfer returns what to grant now on the way there. Members get a grant late or never, so a grant counts as
//     possibly in force until a newer one is acknowledged. A cluster grows only while everything that may be running
//     stays inside the surge, and shrinks only while everything that is surely available stays above the minimum.
//
// Unallocated replicas are of two kinds. Some are barred: a maximum of a subset or of a cluster excludes them, which is
// intended, so a maximum that is lowered is reached by shrinking. The others are lost: a cluster is unknown, does not
// answer or is drained. For these nothing shrinks. Allocate distinguishes the two, and Transfer treats them differently.
//
// Only Grant is kept between two calls, three integers for each subset in a cluster, stored together with the number that is
// sent. A hub that restarts, or loses its lease in the middle of a plan, continues from there.
//
// The invariants, which the tests name I1 to I8:
//
//	I1  the targets add up to the total, or what is missing or in excess is reported with its reason
//	I2  minimum and maximum are kept, nothing is negative, the order of clusters and repeated calls change nothing
//	I3  what may be running is never more than desired + surge
//	I4  a move never lets the available replicas fall below desired - barred - maxUnavailable
//	I5  a source shrinks only by what is available elsewhere or barred; without a destination nothing shrinks
//	I6  the number of a frozen cluster never changes
//	I7  a change of one number by n moves at most n replicas
//	I8  with constant input the plan converges, and then changes nothing
//
// I3 and I4 are about moves that the hub makes. They can't be guaranteed when pods fail, or when a member runs
// something else than it was granted.
//
// The package does not choose clusters, does not fail over and does not read the capacity of a member; the clusters of a subset
// and their states are its input. It does not look for the best packing: where two subsets meet in a cluster with a limit, the
// one that is listed first is served first.
package allot
