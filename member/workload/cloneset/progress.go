package cloneset

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// patience is for how long a set without a deadline may stand still before its conditions say so. It is the default
// deadline of a Deployment in kube 1.36.
const patience = 10 * time.Minute

// deadline is progressDeadlineSeconds; 0 says that there is none.
func deadline(s *appsv1beta1.CloneSetSpec) time.Duration {
	if s.ProgressDeadlineSeconds == nil || *s.ProgressDeadlineSeconds == math.MaxInt32 {
		return 0
	}
	return time.Duration(*s.ProgressDeadlineSeconds) * time.Second
}

// stall is that nothing has moved for too long. The zero value says that things move.
type stall struct {
	failure
	// scale: pods wait to be made or deleted, not to be updated.
	scale bool
}

// judge finds what stands still, and when that could be said of what has just begun to. It goes by the pods' own times, so
// that a restart of the manager forgets nothing, and by what was planned, so that a moving set is not judged.
func (w *work) judge(o observed, now time.Time) {
	if o.strangers.count > 0 {
		w.recheck = sooner(w.recheck, lookEvery)
	}
	limit := deadline(&o.set.Spec)
	if limit == 0 {
		limit = patience
	}
	late := func(since time.Time) bool {
		left := since.Add(limit).Sub(now)
		if left > 0 {
			w.recheck = sooner(w.recheck, left)
		}
		return left <= 0
	}
	if m, n, since := w.waiting(); n > 0 && late(since) {
		f := standing(appsv1beta1.CloneSetReasonHung,
			fmt.Sprintf("%s does not follow its update in place since %s", m.Key, since.UTC().Format(time.RFC3339)),
			fmt.Sprintf("%s; %d pods wait so", m.waits, n))
		// That it waits is news; whether for ErrImagePull or ImagePullBackOff, which take turns, is none.
		kind, _, details := strings.Cut(m.waits, ":")
		if !details {
			kind += ";"
		}
		f.same += " " + kind
		w.stalled = stall{failure: f}
		return
	}
	i := slices.IndexFunc(w.holds, func(h rollout.Hold) bool {
		return h.Reason == rollout.ReasonBudget || h.Reason == rollout.ReasonInFlight || h.Reason == rollout.ReasonScaleLimit
	})
	if i < 0 || w.moves() {
		return
	}
	what := "the numbers of the spec let no pod go"
	if since, never, soon := w.unavailableSince(); soon || !never && !late(since) {
		return
	} else if !never {
		what = "no pod became available since " + since.UTC().Format(time.RFC3339)
	}
	w.stalled = stall{
		failure: standing(string(w.holds[i].Reason), what, w.holds[i].Why),
		scale: w.holds[i].Reason == rollout.ReasonScaleLimit ||
			!slices.ContainsFunc(w.pods, func(m member) bool { return m.Old && !m.Leaving }),
	}
}

// moves tells whether the pass changes a pod.
func (w *work) moves() bool {
	return len(w.prepareUpdate)+len(w.prepareDelete)+len(w.recall)+len(w.create)+len(w.mark)+len(w.edit)+len(w.release)+
		len(w.name)+len(w.delete) > 0
}

// waiting is the pod that waits longest for its containers to follow an update in place, of how many, and since when.
func (w *work) waiting() (first *member, n int, since time.Time) {
	for i := range w.pods {
		m := &w.pods[i]
		if m.Leaving || m.Edit != rollout.EditUpdating || m.waits == "" {
			continue
		}
		n++
		if first == nil || m.since.Before(since) || m.since.Equal(since) && m.Key < first.Key {
			first, since = m, m.since
		}
	}
	return first, n, since
}

// unavailableSince is when a pod last ceased to be available, or was made, among those that are not available now. never
// says that there is none, so that waiting is in vain; soon that time alone makes one available, which is worth waiting
// for.
func (w *work) unavailableSince() (since time.Time, never, soon bool) {
	never = true
	for i := range w.pods {
		m := &w.pods[i]
		at := m.pod.CreationTimestamp.Time
		switch going := m.pod.DeletionTimestamp; {
		case going != nil:
			at = going.Time
		case m.Leaving, m.Available:
			continue
		}
		never, soon = false, soon || !m.Leaving && !m.ChangesAt.IsZero()
		for _, c := range m.pod.Status.Conditions {
			if (c.Type == corev1.PodReady || c.Type == keys.InPlaceUpdateReady) && c.LastTransitionTime.After(at) {
				at = c.LastTransitionTime.Time
			}
		}
		// A hook may hold a pod that is ready.
		if t, err := time.Parse(time.RFC3339, m.pod.Annotations[keys.LifecycleTimestamp]); err == nil && t.After(at) {
			at = t
		}
		if at.After(since) {
			since = at
		}
	}
	return since, never, soon
}

// overdueIn is how long until the rollout is late if nothing moves; 0 if it has no deadline or is late already.
func overdueIn(set *appsv1beta1.CloneSet, now time.Time) time.Duration {
	c := find(set.Status.Conditions, appsv1beta1.CloneSetProgressing)
	d := deadline(&set.Spec)
	if d == 0 || c == nil || c.Reason != appsv1beta1.CloneSetReasonUpdated {
		return 0
	}
	return max(c.LastUpdateTime.Add(d).Sub(now), 0)
}

// progress is the condition Progressing after a pass with status s, or nil where the spec asks for none. It tells, first
// match first: complete, paused, at rest at the partition, late, under way.
//
// While a rollout is under way or late, lastUpdateTime is when it last came nearer to its goal or got another one. The
// deadline runs from there: each pod that becomes available extends it, and a late rollout that moves again is under
// way again.
func progress(set *appsv1beta1.CloneSet, s *appsv1beta1.CloneSetStatus, now time.Time) *appsv1beta1.CloneSetCondition {
	if set.Spec.ProgressDeadlineSeconds == nil {
		return nil
	}
	was := find(set.Status.Conditions, appsv1beta1.CloneSetProgressing)
	at := metav1.NewTime(now.Truncate(time.Second))
	c := appsv1beta1.CloneSetCondition{
		Type: appsv1beta1.CloneSetProgressing, Status: corev1.ConditionTrue, LastUpdateTime: at, LastTransitionTime: at,
	}
	want := int32(replicas(&set.Spec)) //nolint:gosec // It was an int32.
	done := fmt.Sprintf("%d of %d pods updated and available", s.UpdatedAvailableReplicas, want)
	r := set.Spec.UpdateStrategy.RollingUpdate
	switch {
	case s.CurrentRevision == s.UpdateRevision && s.Replicas == want && s.UpdatedReplicas == want && s.UpdatedAvailableReplicas == want:
		c.Reason, c.Message = appsv1beta1.CloneSetReasonAvailable, done
	case r != nil && r.Paused:
		c.Reason, c.Message = appsv1beta1.CloneSetReasonPaused, "paused: "+done
	case s.ExpectedUpdatedReplicas < want && s.ExpectedUpdatedReplicas <= s.UpdatedAvailableReplicas:
		c.Reason = appsv1beta1.CloneSetReasonPartitionAvailable
		c.Message = fmt.Sprintf("%s; the partition keeps %d old", done, want-s.ExpectedUpdatedReplicas)
	default:
		c.Reason, c.Message = appsv1beta1.CloneSetReasonUpdated, done
		if moved(set, was, s) {
			break
		}
		c.LastUpdateTime = was.LastUpdateTime
		if late(set, was, s, now) {
			c.Status, c.Reason = corev1.ConditionFalse, appsv1beta1.CloneSetReasonDeadlineExceeded
			c.Message = fmt.Sprintf("%s; nothing moved for %d seconds or longer", done, *set.Spec.ProgressDeadlineSeconds)
		}
	}
	if was == nil {
		return &c
	}
	if was.Status == c.Status {
		c.LastTransitionTime = was.LastTransitionTime
	}
	if resting(c.Reason) && was.Reason == c.Reason {
		c.LastUpdateTime = was.LastUpdateTime
	}
	return &c
}

// resting tells that no deadline runs.
func resting(reason string) bool {
	return reason != appsv1beta1.CloneSetReasonUpdated && reason != appsv1beta1.CloneSetReasonDeadlineExceeded
}

// moved tells whether a rollout has just begun, got another goal or come nearer to it.
func moved(set *appsv1beta1.CloneSet, was *appsv1beta1.CloneSetCondition, s *appsv1beta1.CloneSetStatus) bool {
	before := &set.Status
	missing := func(s *appsv1beta1.CloneSetStatus) int {
		n := replicas(&set.Spec) - int(s.Replicas)
		return max(n, -n)
	}
	return was == nil || resting(was.Reason) ||
		s.UpdateRevision != before.UpdateRevision ||
		s.ExpectedUpdatedReplicas != before.ExpectedUpdatedReplicas ||
		s.UpdatedReplicas > before.UpdatedReplicas ||
		s.UpdatedAvailableReplicas > before.UpdatedAvailableReplicas ||
		s.AvailableReplicas > before.AvailableReplicas ||
		missing(s) < missing(before) ||
		// With OnDelete, a deleted pod is how the rollout goes on.
		onDelete(set) && s.Replicas < before.Replicas
}

// late tells whether a rollout that has not moved is over its deadline. One that was found late before stays so until it
// moves or its spec changes: the time that another controller left there may be that of the finding. An OnDelete set
// whose pods all serve waits for somebody else, for as long as he likes.
func late(
	set *appsv1beta1.CloneSet, was *appsv1beta1.CloneSetCondition, s *appsv1beta1.CloneSetStatus, now time.Time,
) bool {
	want := int32(replicas(&set.Spec)) //nolint:gosec // It was an int32.
	d := deadline(&set.Spec)
	switch {
	case d == 0, onDelete(set) && s.Replicas == want && s.AvailableReplicas == want:
		return false
	case was.Reason == appsv1beta1.CloneSetReasonDeadlineExceeded && set.Status.ObservedGeneration == s.ObservedGeneration:
		return true
	}
	return !now.Before(was.LastUpdateTime.Add(d))
}

func onDelete(set *appsv1beta1.CloneSet) bool {
	return set.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete
}

func find(conditions []appsv1beta1.CloneSetCondition, t appsv1beta1.CloneSetConditionType) *appsv1beta1.CloneSetCondition {
	i := slices.IndexFunc(conditions, func(c appsv1beta1.CloneSetCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &conditions[i]
}
