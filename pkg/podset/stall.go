package podset

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// DefaultProgressDeadline is for how long a workload may stand still, unless its spec says otherwise, before its conditions say so. It is the
// default deadline of a Deployment in kube 1.36.
const DefaultProgressDeadline = 10 * time.Minute

// ReasonStalled: containers do not follow an update in place.
const ReasonStalled = "UpdateStalled"

// Stall is that nothing has moved for too long. The zero value says that things move.
type Stall struct {
	report.Failure

	// Scale: pods wait to be made or deleted, not to be updated.
	Scale bool
}

// DetectStall finds what stands still for longer than limit, and when that could be said of what has just begun to. It goes by the
// pods' own times, so that a restart of the manager forgets nothing, and by what was planned, so that a workload that moves
// is not judged.
func (w *Plan) DetectStall(limit time.Duration, now time.Time) {
	late := func(since time.Time) bool {
		left := since.Add(limit).Sub(now)
		if left > 0 {
			w.Recheck = SoonerOf(w.Recheck, left)
		}
		return left <= 0
	}
	if m, n, since := w.waiting(); n > 0 && late(since) {
		f := report.StalledFailure(ReasonStalled,
			fmt.Sprintf("%s does not follow its update in place since %s", m.Key, since.UTC().Format(time.RFC3339)),
			fmt.Sprintf("%s; %d pods wait so", m.WaitingFor, n))
		// That it waits is news; whether for ErrImagePull or ImagePullBackOff, which take turns, is none.
		kind, _, details := strings.Cut(m.WaitingFor, ":")
		if !details {
			kind += ";"
		}
		f.Stable += " " + kind
		w.Stalled = Stall{Failure: f}
		return
	}
	i := w.held(rollout.ReasonBudget, rollout.ReasonInFlight, rollout.ReasonScaleLimit)
	if i < 0 && w.held(rollout.ReasonHook) < 0 { // A hook is why the others wait.
		i = w.held(rollout.ReasonInOrder)
	}
	if len(w.Steps) > 0 {
		return
	}
	if i < 0 {
		w.detectStalledHook(late)
		return
	}
	what := "the numbers of the spec let no pod go"
	inOrder := w.Holds[i].Reason == rollout.ReasonInOrder
	if since, never, soon := w.unavailableSince(); soon || !never && !late(since) || never && (inOrder || w.CreatesDeferred) {
		return // Where none is in order, one is still to be made.
	} else if !never {
		what = "no pod became available since " + since.UTC().Format(time.RFC3339)
	}
	w.Stalled = Stall{
		Failure: report.StalledFailure(string(w.Holds[i].Reason), what, w.Holds[i].Why),
		Scale:   inOrder || w.Holds[i].Reason == rollout.ReasonScaleLimit || !slices.ContainsFunc(w.Pods, func(m Pod) bool { return m.Old && !m.Inactive }),
	}
}

// held is where the first hold for one of the reasons stands; below 0 if there is none.
func (w *Plan) held(reasons ...rollout.Reason) int {
	return slices.IndexFunc(w.Holds, func(h rollout.Hold) bool { return slices.Contains(reasons, h.Reason) })
}

// detectStalledHook finds a pod that a hook has not let go, or not taken up, for too long, where nothing else waits.
func (w *Plan) detectStalledHook(late func(since time.Time) bool) {
	i := w.held(rollout.ReasonHook)
	if i < 0 {
		return
	}
	var first *Pod
	var since time.Time
	for i := range w.Pods {
		m := &w.Pods[i]
		asked := m.PreparingDelete && m.DeleteHooked || m.Update == rollout.UpdatePreparing && m.UpdateHooked || m.Update == rollout.UpdateAwaitingHook
		at, err := time.Parse(time.RFC3339, m.Object.Annotations[keys.LifecycleTimestamp])
		if !asked || m.Inactive || err != nil {
			continue
		}
		if first == nil || at.Before(since) || at.Equal(since) && m.Key < first.Key {
			first, since = m, at
		}
	}
	if first == nil || !late(since) {
		return
	}
	w.Stalled = Stall{
		Failure: report.StalledFailure(string(rollout.ReasonHook),
			fmt.Sprintf("%s waits for its hook in %s since %s", first.Key, lifecycle.Of(first.Object), since.UTC().Format(time.RFC3339)),
			w.Holds[i].Why),
		Scale: first.PreparingDelete && !first.Old,
	}
}

// waiting is the pod that waits longest for its containers to follow an update in place, of how many, and since when.
func (w *Plan) waiting() (first *Pod, n int, since time.Time) {
	for i := range w.Pods {
		m := &w.Pods[i]
		if m.Inactive || m.Update != rollout.UpdateInProgress || m.WaitingFor == "" {
			continue
		}
		n++
		if first == nil || m.WaitingSince.Before(since) || m.WaitingSince.Equal(since) && m.Key < first.Key {
			first, since = m, m.WaitingSince
		}
	}
	return first, n, since
}

// unavailableSince is when a pod last ceased to be available, or was made, among those that are not available now. never
// says that there is none, so that waiting is in vain; soon that time alone makes one available, which is worth waiting
// for.
func (w *Plan) unavailableSince() (since time.Time, never, soon bool) {
	never = true
	for i := range w.Pods {
		m := &w.Pods[i]
		at := m.Object.CreationTimestamp.Time
		switch going := m.Object.DeletionTimestamp; {
		case going != nil:
			at = going.Time
		case m.Inactive, m.Available:
			continue
		}
		never, soon = false, soon || !m.Inactive && !m.ChangesAt.IsZero()
		for _, c := range m.Object.Status.Conditions {
			if (c.Type == corev1.PodReady || c.Type == keys.InPlaceUpdateReady) && c.LastTransitionTime.After(at) {
				at = c.LastTransitionTime.Time
			}
		}
		// A hook may hold a pod that is ready.
		if t, err := time.Parse(time.RFC3339, m.Object.Annotations[keys.LifecycleTimestamp]); err == nil && t.After(at) {
			at = t
		}
		if at.After(since) {
			since = at
		}
	}
	return since, never, soon
}
