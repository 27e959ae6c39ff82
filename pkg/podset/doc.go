// Package podset is the pods of one workload as a plan sees them: facts about each, what is to be done to which and why, and
// what stands still. CloneSet, StatefulSet and DaemonSet plan with it; what is a kind's own it is told.
//
//	w := podset.NewPlan(history)      the revision that is rolled out, and the one that pods come from
//	w.Sort(pods, lens, now)         facts of each pod; those that the selector doesn't select are to be disowned
//	w.Next(goal, now)               what changes now, by package rollout
//	w.Judge(patience, now)          what has stood still for too long, and since when
//
// A kind embeds Plan in a work of its own, and adds what it has besides, between these calls or after them. PodBuilder and NewPVCs
// make the pods and claims that are to be created.
//
// All of it is pure: package pass does what a Plan says, and tells about it.
package podset
