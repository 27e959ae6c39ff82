// Package rollout decides which clusters get a new revision, and how many of their pods may be updated and unavailable meanwhile.
//
// Next is a pure function over the same grants as allot.Transfer, and runs after it. A grant has two numbers besides the replicas: the
// partition, which is how many pods stay at the old revision, and maxUnavailable, which is how many pods may be unavailable while the
// cluster updates them. Members may get a grant late or never, so each number has an upper bound that counts until the grant is
// acknowledged. The sums of these bounds never exceed the limits of the whole rollout, whichever grants the members act on.
//
// A cluster is written only when its turn comes. Until then it keeps the content that it has, with new numbers of replicas. So a revision
// that members would refuse reaches one cluster first, and a rollback has nothing to do in clusters that were not reached.
//
// What a cluster may still do is calculated from its last report:
//
//	missing  = granted replicas - available pods; all pods of a cluster that doesn't answer
//	begins   = pods that it may still begin to update: granted replicas - partition - updated pods
//	exposure = missing + as many of begins as maxUnavailable allows beyond missing
//
// Members count every unavailable pod against maxUnavailable, and update unavailable pods first. So an exposure is the largest number of
// pods that can be unavailable there, unless others fail.
//
// Replicas that a member doesn't know yet are missing besides those that it updates. What is taken back counts until that is acknowledged.
//
// Waves are groups of clusters that are updated one after another. Advance says which of them have begun: the next one begins when the clusters of
// the earlier ones are healthy, and their gates have opened. Next lets nothing grow in waves that have not begun, and in the last one that has
// only as many pods and clusters as it allows. The caller stores how far the waves are, and for how long they have been healthy.
//
// The invariants, which the tests call I22, I23 and I47:
//
//	I22a  the sum of exposures only grows up to the budget, and pods that are unavailable for other reasons use it up
//	I22b  pods at the new revision are at most desired - partition, apart from those that were there before the partition was raised
//	I23   no cluster of a wave gets the new revision before the gates of the earlier ones have opened
//	I47   what a move may take is subtracted from the budget by the caller, so that both together stay within it
//
// A pause is a maxUnavailable of 0 everywhere. It takes effect in a cluster when that has acknowledged it.
package rollout
