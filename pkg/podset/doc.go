// Package podset plans for the pods of one workload: it reads each pod as facts, asks pkg/rollout for the next steps, and
// detects a workload that is stalled. CloneSet, StatefulSet and DaemonSet plan with it; what is specific to a kind comes in
// as data.
//
//	p := podset.NewPlan(history)       the update revision, and the current one
//	p.Classify(pods, options, now)     the facts of each pod; pods that the selector no longer matches are released
//	p.Next(goal, now)                  the next steps, by pkg/rollout
//	p.DetectStall(deadline, now)       what has made no progress for longer than the deadline
//
// A kind embeds Plan in its own planned type and adds its own steps between or after these calls. PodBuilder and NewPVCs
// build the pods and PVCs to create.
//
// View alone knows how the facts are encoded in labels, annotations and conditions; plans and status counts
// share it. Fields declares which fields of pods and nodes a kind reads beyond that, and strips the others from cached objects.
//
// All functions are pure. pkg/podcontrol applies a Plan and reports its results.
package podset
