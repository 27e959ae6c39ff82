// Package podset plans for the pods of one workload: it reads each pod as facts, asks pkg/plan/rollout for the next steps, and detects stalled
// workloads. CloneSet, StatefulSet and DaemonSet use it; whatever is specific to a kind is passed in as data.
//
//	p := podset.NewPlan(history)       the update revision, and the current one
//	p.Classify(pods, options, now)     the facts of each pod; pods that the selector no longer matches are released
//	p.Next(goal, now)                  the next steps, by pkg/plan/rollout
//	p.DetectStall(deadline, now)       what has made no progress for longer than the deadline
//
// A kind embeds Plan in its own plan type and adds its own steps between or after these calls. PodBuilder and NewPVCs build the pods and PVCs to
// create.
//
// Only View knows how the facts are encoded in labels, annotations and conditions; plans and status counts share it. Fields declares which
// fields of pods and nodes a kind reads beyond that, and strips the others from cached objects.
//
// All functions are pure. pkg/workload/podcontrol applies a Plan and reports its results.
package podset
