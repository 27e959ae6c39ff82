package podset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

// DefaultProgressDeadline is how long a workload may make no progress before it counts as stalled, unless its spec sets another deadline. The
// value is the same as for Deployments in Kubernetes 1.36.
const DefaultProgressDeadline = 10 * time.Minute

// ReasonStalled: the containers have not completed an in-place update within the deadline.
const ReasonStalled = "UpdateStalled"

// Stall is a failure to make progress within the deadline. The zero value means that nothing is stalled.
type Stall struct {
	report.Failure

	// Scale: pods wait to be created or deleted, not updated.
	Scale bool
}

// DetectStall finds what has made no progress for longer than the deadline, and sets Recheck to when that could happen. It relies only on
// timestamps in the pods, so a restart of the manager loses nothing. A workload with pending steps is not stalled.
func (p *Plan) DetectStall(deadline time.Duration, now time.Time) {
	if p.Stalled.Reason != "" {
		return // A stall is already known, regardless of time.
	}
	late := func(since time.Time) bool {
		left := since.Add(deadline).Sub(now)
		if left > 0 {
			p.Recheck = timing.Sooner(p.Recheck, left)
		}
		return left <= 0
	}
	if pod, n, since := p.waiting(); n > 0 && late(since) {
		f := report.StalledFailure(ReasonStalled,
			fmt.Sprintf("%s hasn't completed its in-place update since %s", pod.Key, since.UTC().Format(time.RFC3339)),
			fmt.Sprintf("%s; %d pod(s) waiting for this", pod.WaitingFor, n))
		// The kubelet alternates between ErrImagePull and ImagePullBackOff; that should not rewrite the condition.
		kind, _, details := strings.Cut(pod.WaitingFor, ":")
		if !details {
			kind += ";"
		}
		f.Stable += " " + kind
		p.Stalled = Stall{Failure: f}
		return
	}
	i := p.held(rollout.ReasonBudget, rollout.ReasonInFlight, rollout.ReasonScaleLimit)
	if i < 0 && p.held(rollout.ReasonHook) < 0 { // Other pods may be waiting for the pod that a hook holds.
		i = p.held(rollout.ReasonInOrder)
	}
	if len(p.Steps) > 0 {
		return
	}
	if i < 0 {
		if p.detectStalledHook(late); p.Stalled.Reason != "" {
			return
		}
		i = p.held(rollout.ReasonPVC)
	}
	if i < 0 {
		return
	}
	what := "the numbers in the spec allow no pod to be replaced"
	creates := p.Holds[i].Reason == rollout.ReasonInOrder || p.Holds[i].Reason == rollout.ReasonPVC
	if since, never, soon := p.unavailableSince(); soon || !never && !late(since) || never && (creates || p.CreatesDeferred) {
		return // A pod still has to be created.
	} else if !never {
		what = "no pod has become available since " + since.UTC().Format(time.RFC3339)
	}
	p.Stalled = Stall{
		Failure: report.StalledFailure(string(p.Holds[i].Reason), what, p.Holds[i].Why),
		Scale:   creates || p.Holds[i].Reason == rollout.ReasonScaleLimit || !slices.ContainsFunc(p.Pods, func(pod Pod) bool { return pod.Old && !pod.Inactive }),
	}
}

// held returns the index of the first hold with one of the reasons; negative if there is none.
func (p *Plan) held(reasons ...rollout.Reason) int {
	return slices.IndexFunc(p.Holds, func(h rollout.Hold) bool { return slices.Contains(reasons, h.Reason) })
}

// detectStalledHook finds a pod whose lifecycle hook has not answered within the deadline, if nothing else waits.
func (p *Plan) detectStalledHook(late func(since time.Time) bool) {
	i := p.held(rollout.ReasonHook)
	if i < 0 {
		return
	}
	var first *Pod
	var since time.Time
	for i := range p.Pods {
		pod := &p.Pods[i]
		asked := pod.PreparingDelete && pod.DeleteHooked || pod.Update == rollout.UpdatePreparing && pod.UpdateHooked || pod.Update == rollout.UpdateAwaitingHook
		at, err := time.Parse(time.RFC3339, pod.Object.Annotations[keys.LifecycleTimestamp])
		if !asked || pod.Inactive || err != nil {
			continue
		}
		if first == nil || at.Before(since) || at.Equal(since) && pod.Key < first.Key {
			first, since = pod, at
		}
	}
	if first == nil || !late(since) {
		return
	}
	p.Stalled = Stall{
		Failure: report.StalledFailure(string(rollout.ReasonHook),
			fmt.Sprintf("%s has been waiting for its hook in %s since %s", first.Key, lifecycle.Of(first.Object), since.UTC().Format(time.RFC3339)),
			p.Holds[i].Why),
		Scale: first.PreparingDelete && !first.Old,
	}
}

// waiting returns the pod whose in-place update has been in progress for the longest time, the number of such pods, and when that update began
// to wait.
func (p *Plan) waiting() (first *Pod, n int, since time.Time) {
	for i := range p.Pods {
		pod := &p.Pods[i]
		if pod.Inactive || pod.Update != rollout.UpdateInProgress || pod.WaitingFor == "" {
			continue
		}
		n++
		if first == nil || pod.WaitingSince.Before(since) || pod.WaitingSince.Equal(since) && pod.Key < first.Key {
			first, since = pod, pod.WaitingSince
		}
	}
	return first, n, since
}

// unavailableSince returns the latest time at which one of the unavailable pods became unavailable or was created. never: there is no such pod
// to wait for; soon: one becomes available just by time passing.
func (p *Plan) unavailableSince() (since time.Time, never, soon bool) {
	never = true
	for i := range p.Pods {
		pod := &p.Pods[i]
		at := pod.Object.CreationTimestamp.Time
		switch deleted := pod.Object.DeletionTimestamp; {
		case deleted != nil:
			at = deleted.Time
		case pod.Inactive, pod.Available:
			continue
		}
		never, soon = false, soon || !pod.Inactive && !pod.ChangesAt.IsZero()
		for _, c := range pod.Object.Status.Conditions {
			if (c.Type == corev1.PodReady || c.Type == keys.InPlaceUpdateReady) && c.LastTransitionTime.After(at) {
				at = c.LastTransitionTime.Time
			}
		}
		// A hook may hold a pod that is ready.
		if t, err := time.Parse(time.RFC3339, pod.Object.Annotations[keys.LifecycleTimestamp]); err == nil && t.After(at) {
			at = t
		}
		if at.After(since) {
			since = at
		}
	}
	return since, never, soon
}
