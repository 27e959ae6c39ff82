package broadcastjob

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// reasonParallelism (Hold): as many pods are active as parallelism allows.
const reasonParallelism rollout.Reason = "Parallelism"

// planned is what to do now, and how far the job has come. It is read-only, because it shares objects with observed.
type planned struct {
	podset.Plan

	// phase is the phase of the job after this reconcile. accepted is the number of failures that a user has accepted by resuming the job.
	phase    appsv1beta1.BroadcastJobPhase
	accepted int
	// pause means that spec.paused is set because a pod has failed. resumes means that a user has set it to false.
	pause, resumes bool
	// ending describes how the job ends now; nil if it doesn't.
	ending *ending
	// remove means that the job has ended and its TTL has passed.
	remove bool

	// desired, active and failed are counts; succeeded is a set of nodes.
	desired, active, failed int
	succeeded               map[string]bool
	// crowded means that more pods are active than the limit allows.
	crowded bool
	limit   int
	// duplicates are pods for nodes that already have another one.
	duplicates []string

	// first maps each node with pods to the pod that counts.
	first map[string]*podset.Pod
	// states maps the name of each pod to its state.
	states map[string]state
	// open means that a desired node has no pod that has ended.
	open bool
	// unsettled is how many pods are pending, running or being deleted and are not in a slot.
	unsettled int
}

// ending describes how a job ends.
type ending struct {
	condition appsv1beta1.BroadcastJobConditionType
	phase     appsv1beta1.BroadcastJobPhase
	reason    string
	// event is the reason of the event. why is the message of both the event and the condition.
	event, why string
}

// finished reports whether a job has ended, which is final.
func finished(job *appsv1beta1.BroadcastJob) bool {
	p := job.Status.Phase
	return p == appsv1beta1.BroadcastJobCompleted || p == appsv1beta1.BroadcastJobFailed
}

// neverCompletes reports whether a job runs on new nodes forever.
func neverCompletes(job *appsv1beta1.BroadcastJob) bool {
	return job.Spec.CompletionPolicy.Type == appsv1beta1.BroadcastJobNever
}

// plan returns the next steps of a job, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	job := o.job
	p := planned{phase: job.Status.Phase, accepted: int(job.Status.AcceptedFailures), succeeded: map[string]bool{}}
	maps.Copy(p.succeeded, o.succeeded)
	p.Revision.Revision = &appsv1.ControllerRevision{} // The pods of a job have no revision.
	p.readPods(o)
	if finished(job) {
		p.cleanUp(o, now)
		return p
	}
	slots := p.slots(o)
	p.accepted = min(p.accepted, p.failed)
	if p.resumes = job.Status.Phase == appsv1beta1.BroadcastJobPaused && !job.Spec.Paused; p.resumes {
		p.accepted = p.failed
	}
	p.phase = appsv1beta1.BroadcastJobRunning
	limit, err := rollout.Resolve(job.Spec.Parallelism, p.desired, rollout.Up)
	if job.Spec.Parallelism == nil {
		limit, err = math.MaxInt32, nil
	}
	if p.limit = limit; err != nil { // Admission rejects it.
		p.InvalidSpec = fmt.Sprintf("spec.parallelism: %v", err)
	}
	p.crowded = err == nil && p.active > limit
	switch policy := job.Spec.FailurePolicy.Type; {
	case job.Spec.Paused:
		p.phase = appsv1beta1.BroadcastJobPaused
	case p.failed > 0 && (policy == appsv1beta1.BroadcastJobFailFast || policy == ""):
		p.fail(string(appsv1beta1.BroadcastJobConditionFailed), reasonJobFailed, "Job failed")
	case p.failed > p.accepted && policy == appsv1beta1.BroadcastJobPause:
		p.phase, p.pause = appsv1beta1.BroadcastJobPaused, true
	case p.isComplete(job):
		p.ending = &ending{
			condition: appsv1beta1.BroadcastJobConditionComplete, phase: appsv1beta1.BroadcastJobCompleted,
			reason: string(appsv1beta1.BroadcastJobConditionComplete), event: reasonJobComplete, why: p.countMessage("Job completed"),
		}
	case p.pastDeadline(job, now):
		p.fail(reasonDeadlineExceeded, reasonDeadlineExceeded, "Job was active longer than specified deadline")
	case err == nil:
		p.run(slots, now)
		p.HoldUnsent(o.awaited.Why, o.awaited.Left)
	}
	if p.ending != nil {
		p.phase, p.Recheck = p.ending.phase, 0
	}
	return p
}

func (p *planned) fail(reason, event, what string) {
	p.ending = &ending{
		condition: appsv1beta1.BroadcastJobConditionFailed, phase: appsv1beta1.BroadcastJobFailed, reason: reason, event: event, why: p.countMessage(what),
	}
}

func (p *planned) countMessage(what string) string {
	return fmt.Sprintf("%s, %d pods succeeded, %d pods failed", what, len(p.succeeded), p.failed)
}

// readPods reads the pods, and decides which one counts if a node has several.
func (p *planned) readPods(o observed) {
	p.Pods = make([]podset.Pod, 0, len(o.pods))
	p.states = make(map[string]state, len(o.pods))
	p.first = make(map[string]*podset.Pod, len(o.pods))
	for _, object := range o.pods {
		state := stateOf(object, &o.job.Spec.FailurePolicy)
		p.states[object.Name] = state
		keeps := state == failed || state == succeeded
		p.Pods = append(p.Pods, podset.Pod{Object: object, Pod: rollout.Pod{
			Key: object.Name, Slot: podset.Node(object), Inactive: state != active, Ended: keeps && object.DeletionTimestamp == nil,
			Rank: rollout.Rank{
				Assigned: object.Spec.NodeName != "", Phase: object.Status.Phase, Node: object.Spec.NodeName, Created: object.CreationTimestamp.Time,
			},
		}})
	}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if best := p.first[pod.Slot]; best == nil || p.takesPrecedence(pod, best) {
			p.first[pod.Slot] = pod
		}
	}
	for node, pod := range p.first {
		switch p.states[pod.Key] {
		case succeeded:
			p.succeeded[node] = true
		case failed:
			if !p.succeeded[node] {
				p.failed++
			}
		case active, terminating:
		}
	}
	for _, state := range p.states {
		if state == active {
			p.active++
		}
	}
}

// takesPrecedence reports whether, of two pods for a node, a counts and not b. The pod that has come further counts, then the one that is
// assigned to a node, then the older.
func (p *planned) takesPrecedence(a, b *podset.Pod) bool {
	return cmp.Or(
		cmp.Compare(p.states[b.Key], p.states[a.Key]), rollout.FalseFirst(b.Rank.Assigned, a.Rank.Assigned),
		a.Rank.Created.Compare(b.Rank.Created), cmp.Compare(a.Key, b.Key),
	) < 0
}

// slots returns the nodes that have or get a pod, and counts the desired nodes. These include nodes on which the pod has ended and that no
// longer fit, and nodes whose pod is gone after it succeeded. A pod that has started stays on a node whose taints would keep a new one from
// starting; Kubernetes evicts it if necessary.
func (p *planned) slots(o observed) []rollout.Slot {
	m := nodefit.ForJob(&o.job.Spec.Template.Spec)
	var slots []rollout.Slot
	wanted, known := map[string]bool{}, make(map[string]bool, len(o.nodes))
	for _, node := range o.nodes {
		known[node.Name] = true
		first := p.first[node.Name]
		state := terminating
		if first != nil {
			state = p.states[first.Key]
		}
		run, _ := m.Match(node)
		switch {
		case p.succeeded[node.Name] && state != succeeded:
			p.desired++ // Its pod is gone. Another pod from a late write is in no slot.
			continue
		case state == failed, state == succeeded, run, state == active && first.Rank.Assigned && m.Selects(node):
			p.desired++
			p.open = p.open || state < failed
			wanted[node.Name] = true
			slots = append(slots, rollout.Slot{Key: node.Name})
		}
	}
	for i := range p.Pods {
		pod := &p.Pods[i]
		if !podpatch.Ended(pod.Object) && !wanted[pod.Slot] {
			p.unsettled++
		}
		if pod != p.first[pod.Slot] && p.states[pod.Key] == active {
			p.duplicates = append(p.duplicates, pod.Key)
			if wanted[pod.Slot] {
				p.unsettled++
			}
			pod.Slot = ""
		}
	}
	// Pods on nodes that are not in the cache are left alone. Either the node is gone, and the pod garbage collector deletes its pods after
	// asking the apiserver. Or the node is new, and the pod cache was faster than the node cache.
	p.Pods = slices.DeleteFunc(p.Pods, func(pod podset.Pod) bool { return pod.Object.Spec.NodeName != "" && !known[pod.Object.Spec.NodeName] })
	slices.Sort(p.duplicates)
	return slots
}

// isComplete reports whether the pods of all desired nodes have ended.
func (p *planned) isComplete(job *appsv1beta1.BroadcastJob) bool {
	return !neverCompletes(job) && p.desired > 0 && p.active == 0 && !p.open
}

// pastDeadline reports whether the deadline of a job has passed.
func (p *planned) pastDeadline(job *appsv1beta1.BroadcastJob, now time.Time) bool {
	if neverCompletes(job) {
		return false
	}
	due, in := timing.Passed(job.Status.StartTime, job.Spec.CompletionPolicy.ActiveDeadlineSeconds, now)
	p.Recheck = timing.Sooner(p.Recheck, in)
	return due
}

// run creates missing pods up to parallelism, and deletes pods that are in no slot.
func (p *planned) run(slots []rollout.Slot, now time.Time) {
	room := max(p.limit-p.unsettled, 0)
	p.Next(rollout.Goal{
		Slots: slots, CreateUpdated: true, KeepEnded: true, Mode: rollout.OnDelete, MaxUnavailable: len(slots), ScaleMaxUnavailable: &room,
	}, now)
	for i := range p.Steps {
		switch s := &p.Steps[i]; {
		case s.Pod == nil:
		case slices.Contains(p.duplicates, s.Pod.Key):
			s.Why = fmt.Sprintf("node %s already has a pod", podset.Node(s.Pod.Object))
		default:
			s.Why = fmt.Sprintf("node %s isn't eligible", s.Pod.Slot)
		}
	}
	for i := range p.Holds {
		if h := &p.Holds[i]; h.Reason == rollout.ReasonScaleLimit {
			h.Reason, h.Why = reasonParallelism, fmt.Sprintf("%d node(s) waiting: parallelism allows at most %d active pod(s)", h.Pods, p.limit)
		}
	}
}

// cleanUp deletes what still runs for a job that has ended, and the job itself after its TTL.
func (p *planned) cleanUp(o observed, now time.Time) {
	for i := range p.Pods {
		pod := &p.Pods[i]
		if pod.Object.DeletionTimestamp == nil && !podpatch.Ended(pod.Object) {
			p.Steps = append(p.Steps, podset.Step{
				Step: rollout.Step{Kind: rollout.StepDelete, Reason: rollout.ReasonScaleIn, Why: "the job has ended"}, Pod: pod,
			})
		}
	}
	slices.SortFunc(p.Steps, func(a, b podset.Step) int { return cmp.Compare(a.Pod.Key, b.Pod.Key) })
	if neverCompletes(o.job) {
		return
	}
	due, in := timing.Passed(o.job.Status.CompletionTime, o.job.Spec.CompletionPolicy.TTLSecondsAfterFinished, now)
	p.Recheck, p.remove = in, due && len(p.Steps) == 0
}
