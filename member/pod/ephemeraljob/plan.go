package ephemeraljob

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/utils/ptr"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
)

const (
	defaultParallelism = 1
	defaultTTL         = 1800
)

// planned is what to do now, and how far the job is. It is read-only, because it shares objects with observed.
type planned struct {
	// add holds the pods that get the containers now, in this order.
	add []*corev1.Pod
	// phase is the job's phase after this reconcile, or "" if the job has finished.
	phase appsv1alpha1.EphemeralJobPhase
	// ending is how the job finishes now, or nil if it doesn't.
	ending *ending
	// remove means that the job has finished and its TTL has passed. release means that it is being deleted and has OpenKruise's finalizer.
	remove, release bool
	// invalidSpec is why the spec can't be carried out. empty is why there are no pods. Both are "" otherwise.
	invalidSpec, empty string
	// recheck is when time alone changes the plan. 0 means never.
	recheck time.Duration

	counts
	// open is the number of pods in which containers of the job have not finished.
	open int
	// refused holds the names of pods that can't have the containers. refusal is the reason for the first one.
	refused []string
	refusal string
	// failures describes the failed container in each failed pod.
	failures []string
}

// counts holds numbers of pods.
type counts struct{ waiting, running, succeeded, failed int }

func (c counts) sum() int { return c.waiting + c.running + c.succeeded + c.failed }

func (c *counts) add(current state) {
	switch current {
	case waiting:
		c.waiting++
	case running:
		c.running++
	case succeeded:
		c.succeeded++
	case failed:
		c.failed++
	}
}

// ending is how a job finishes.
type ending struct {
	phase     appsv1alpha1.EphemeralJobPhase
	condition appsv1alpha1.EphemeralJobConditionType
	// reason is the reason, and why the message, of both the condition and the event.
	reason, why string
}

// finished reports whether a job has finished, which is final.
func finished(job *appsv1alpha1.EphemeralJob) bool {
	p := job.Status.Phase
	return p == appsv1alpha1.EphemeralJobSucceeded || p == appsv1alpha1.EphemeralJobFailed
}

// plan returns the next steps of a job, and why. It is a pure function.
func plan(o observed, now time.Time) planned {
	job, p := o.job, planned{}
	if job.DeletionTimestamp != nil {
		p.release = slices.Contains(job.Finalizers, keys.EphemeralJobCleanup)
		return p
	}
	p.readOwn(o)
	if finished(job) {
		due, in := timing.Passed(job.Status.CompletionTime, ttl(job), now)
		p.remove, p.recheck = due, in
		return p
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	switch {
	case err != nil: // Admission rejects it.
		p.invalidSpec = fmt.Sprintf("spec.selector: %v", err)
	case len(job.Spec.Template.EphemeralContainers) == 0: // Likewise.
		p.invalidSpec = "spec.template.ephemeralContainers: it is empty: name a container to run in the pods"
	}
	var wait []*corev1.Pod
	if p.invalidSpec == "" {
		wait = p.readOthers(o, selector)
	}
	switch {
	case p.invalidSpec != "":
		p.phase = appsv1alpha1.EphemeralJobError
	case job.Spec.Paused:
		p.phase = appsv1alpha1.EphemeralJobPause
	case p.sum() > 0 && p.open == 0 && len(wait) == 0:
		p.endIfComplete()
	case p.endOverdue(job, now):
	default:
		p.phase = appsv1alpha1.EphemeralJobWaiting
		if p.waiting < p.sum() {
			p.phase = appsv1alpha1.EphemeralJobRunning
		}
		p.choosePods(job, wait)
	}
	return p
}

// readOwn counts the pods that have the job's containers, regardless of their current labels, the selector and replicas.
func (p *planned) readOwn(o observed) {
	for _, pod := range o.pods {
		if !has(pod, o.job.UID) {
			continue
		}
		current, open, why := stateOf(pod, o.job.UID)
		p.countPod(current, open)
		if why != "" {
			p.failures = append(p.failures, fmt.Sprintf("%s: %s", pod.Name, why))
		}
	}
	slices.Sort(p.failures)
}

func (p *planned) countPod(current state, open bool) {
	p.counts.add(current)
	if open {
		p.open++
	}
}

// readOthers counts the pods that should get the containers, and returns those that can have them.
func (p *planned) readOthers(o observed, by labels.Selector) []*corev1.Pod {
	var all []*corev1.Pod
	for _, pod := range o.pods {
		if !has(pod, o.job.UID) && takes(pod, by, o.job.Spec.Template.EphemeralContainers) {
			all = append(all, pod)
		}
	}
	// Rejected pods keep their places, so that pods don't get rejected one after another.
	slices.SortFunc(all, func(a, b *corev1.Pod) int {
		return cmp.Or(
			rollout.FalseFirst(o.invalid[a.UID] == "", o.invalid[b.UID] == ""), rollout.FalseFirst(a.Spec.NodeName == "", b.Spec.NodeName == ""),
			a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
		)
	})
	p.empty = "no pod in the namespace that could get the containers is selected"
	if r := o.job.Spec.Replicas; r != nil {
		all = all[:min(len(all), max(int(*r)-p.sum(), 0))]
		if *r == 0 {
			p.empty = "spec.replicas is 0"
		}
	}
	wait := make([]*corev1.Pod, 0, len(all))
	for _, pod := range all {
		if why := o.invalid[pod.UID]; why != "" {
			p.countPod(failed, false)
			p.refused = append(p.refused, pod.Name)
			p.refusal = cmp.Or(p.refusal, why)
			continue
		}
		p.countPod(waiting, false)
		wait = append(wait, pod)
	}
	if p.sum() > 0 {
		p.empty = ""
	}
	return wait
}

// choosePods picks the pods that get the containers now. A pod without a node waits: it could not run them, and would take another pod's
// place.
func (p *planned) choosePods(job *appsv1alpha1.EphemeralJob, wait []*corev1.Pod) {
	room := int(ptr.Deref(job.Spec.Parallelism, defaultParallelism)) - p.open
	for _, pod := range wait {
		if room <= 0 {
			return
		}
		if pod.Spec.NodeName == "" {
			continue
		}
		p.add = append(p.add, pod)
		room--
	}
}

// endIfComplete ends a job whose containers have all finished.
func (p *planned) endIfComplete() {
	if p.failed == 0 {
		p.finish(appsv1alpha1.EphemeralJobSucceeded, appsv1alpha1.EphemeralJobConditionSucceeded, reasonJobSucceeded,
			fmt.Sprintf("the containers have succeeded in %d pod(s)", p.succeeded))
		return
	}
	p.finish(appsv1alpha1.EphemeralJobFailed, appsv1alpha1.EphemeralJobConditionFailed, reasonContainersFailed, p.result())
}

// endOverdue ends a job whose deadline has passed, and reports whether it did.
func (p *planned) endOverdue(job *appsv1alpha1.EphemeralJob, now time.Time) bool {
	due, in := timing.Passed(job.Status.StartTime, job.Spec.ActiveDeadlineSeconds, now)
	if p.recheck = in; !due {
		return false
	}
	why := fmt.Sprintf("the job did not end within the %d seconds of activeDeadlineSeconds: %s", *job.Spec.ActiveDeadlineSeconds, p.result())
	if p.open > 0 {
		why += fmt.Sprintf("; in %d pod(s) they keep running, since only the end of a pod stops an ephemeral container", p.open)
	}
	p.finish(appsv1alpha1.EphemeralJobFailed, appsv1alpha1.EphemeralJobConditionFailed, reasonDeadlineExceeded, why)
	return true
}

func (p *planned) finish(phase appsv1alpha1.EphemeralJobPhase, condition appsv1alpha1.EphemeralJobConditionType, reason, why string) {
	p.phase, p.ending = phase, &ending{phase: phase, condition: condition, reason: reason, why: why}
}

// result describes how the containers finished, and in which pods they failed.
func (p *planned) result() string {
	out := fmt.Sprintf("of %d pods, the containers have succeeded in %d and failed in %d", p.sum(), p.succeeded, p.failed)
	const shown = 3
	if n := len(p.failures); n > 0 {
		out += fmt.Sprintf(" (%s)", strings.Join(p.failures[:min(n, shown)], "; "))
	}
	if len(p.refused) > 0 {
		out += fmt.Sprintf("; %s could not get them: %s", event.Names(p.refused), p.refusal)
	}
	return out
}

// ttl returns how many seconds after it finishes a job is deleted, or nil for never. A job placed by a hub has no TTL by default: the hub
// would create it again, and it would run again.
func ttl(job *appsv1alpha1.EphemeralJob) *int32 {
	if t := job.Spec.TTLSecondsAfterFinished; t != nil {
		return t
	}
	if _, placed := job.Annotations[keys.FleetRowUID]; placed {
		return nil
	}
	return new(int32(defaultTTL))
}

func (p *planned) countSteps() {
	measure.Count(stepAdd, reasonSelected, len(p.add))
	if p.release {
		measure.Count(stepRelease, reasonDeleted, 1)
	}
	if p.remove {
		measure.Count(stepRemove, reasonTTL, 1)
	}
}
