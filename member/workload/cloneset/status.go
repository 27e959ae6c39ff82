package cloneset

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/condition"
	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// status returns the status after a pass, and what to tell about it. It counts the pods as they were observed: what the
// pass changed comes with the next one. The function is pure.
func status(o observed, w work, d done, now time.Time) (appsv1beta1.CloneSetStatus, []event.Event) {
	was := &o.set.Status
	if d.collided {
		s := was.DeepCopy()
		s.CollisionCount = new(ptr.Deref(s.CollisionCount, 0) + 1)
		return *s, nil
	}
	s := appsv1beta1.CloneSetStatus{
		ObservedGeneration: o.set.Generation,
		CollisionCount:     was.CollisionCount,
		UpdateRevision:     w.revision.Revision.Name,
		CurrentRevision:    w.current.Name,
		LabelSelector:      metav1.FormatLabelSelector(o.set.Spec.Selector),
	}
	if d.revision != nil {
		// The revision is not there, so no name of it may be promised.
		s.UpdateRevision, s.CurrentRevision = was.UpdateRevision, was.CurrentRevision
	}
	for i := range w.pods {
		countPod(&s, &w.pods[i].Pod)
	}
	s.ExpectedUpdatedReplicas = int32(replicas(&o.set.Spec) - w.partition) //nolint:gosec // At most spec.replicas.
	if int(s.Replicas) == replicas(&o.set.Spec) && s.UpdatedReplicas == s.Replicas {
		s.CurrentRevision = s.UpdateRevision
	}
	scale, update := failures(w, d)
	s.Conditions = setCondition(was.Conditions, appsv1beta1.CloneSetFailedScale, scale, now)
	s.Conditions = setCondition(s.Conditions, appsv1beta1.CloneSetFailedUpdate, update, now)
	s.Conditions = setCondition(s.Conditions, appsv1beta1.CloneSetSelectorOverlap, o.strangers.failure(), now)
	s.Conditions = withProgress(s.Conditions, progress(o.set, &s, now))
	return s, tell(o, w, d, scale, update)
}

// countPod adds one pod.
func countPod(s *appsv1beta1.CloneSetStatus, p *rollout.Pod) {
	if p.Leaving {
		return
	}
	add := func(all, updated *int32, counts bool) {
		if counts {
			*all++
			if !p.Old {
				*updated++
			}
		}
	}
	add(&s.Replicas, &s.UpdatedReplicas, true)
	add(&s.ReadyReplicas, &s.UpdatedReadyReplicas, p.Ready)
	add(&s.AvailableReplicas, &s.UpdatedAvailableReplicas, p.Available)
}

// failure is the content of a condition; the zero value says that there is none.
type failure struct {
	reason, message string
	// same is how the message begins while it is the same failure: what comes after it is not written again.
	same string
}

// standing is a failure that lasts: what and since when, then details that may come and go.
func standing(reason, what, detail string) failure {
	return failure{reason: reason, message: what + ": " + detail, same: what + ":"}
}

// failures are what went wrong in this pass.
func failures(w work, d done) (scale, update failure) {
	pick := func(errs ...error) failure {
		for _, err := range errs {
			if err != nil {
				return failure{reason: appsv1beta1.CloneSetReasonWriteFailed, message: err.Error()}
			}
		}
		return failure{}
	}
	scale = pick(d.created.Err, d.deleted.Err, d.named.Err, d.parted.Err, d.recalled.Err, d.ended.Err, d.given, d.dropped)
	update = pick(d.revision, d.recreated.Err, d.prepared.Err, d.marked.Err, d.edited.Err, d.released.Err, d.rest)
	if w.fault != "" {
		update = failure{reason: appsv1beta1.CloneSetReasonInvalidSpec, message: w.fault}
	}
	for _, h := range w.holds {
		if h.Reason == rollout.ReasonNotInPlace && update.reason == "" {
			update = failure{reason: appsv1beta1.CloneSetReasonNotInPlace, message: h.Why}
		}
	}
	stands := &update
	if w.stalled.scale {
		stands = &scale
	}
	if stands.reason == "" {
		*stands = w.stalled.failure
	}
	return scale, update
}

// setCondition sets the condition True with what failed, or takes it off where nothing did.
func setCondition(
	was []appsv1beta1.CloneSetCondition, t appsv1beta1.CloneSetConditionType, f failure, now time.Time,
) []appsv1beta1.CloneSetCondition {
	if f.reason == "" {
		return without(was, t)
	}
	i := slices.IndexFunc(was, func(c appsv1beta1.CloneSetCondition) bool { return c.Type == t })
	f.message = condition.Cut(f.message)
	at := metav1.NewTime(now.Truncate(time.Second))
	c := appsv1beta1.CloneSetCondition{
		Type: t, Status: corev1.ConditionTrue, Reason: f.reason, Message: f.message, LastUpdateTime: at, LastTransitionTime: at,
	}
	out := slices.Clone(was)
	if i < 0 {
		return append(out, c)
	}
	if out[i].Status == c.Status {
		c.LastTransitionTime = out[i].LastTransitionTime
		if out[i].Reason == c.Reason {
			c.LastUpdateTime = out[i].LastUpdateTime
			if f.same != "" && strings.HasPrefix(out[i].Message, f.same) {
				c.Message = out[i].Message
			}
		}
	}
	out[i] = c
	return out
}

// without returns conditions without that type.
func without(was []appsv1beta1.CloneSetCondition, t appsv1beta1.CloneSetConditionType) []appsv1beta1.CloneSetCondition {
	if find(was, t) == nil {
		return was
	}
	return slices.DeleteFunc(slices.Clone(was), func(c appsv1beta1.CloneSetCondition) bool { return c.Type == t })
}

// withProgress sets the condition Progressing, or takes it off where p is nil.
func withProgress(was []appsv1beta1.CloneSetCondition, p *appsv1beta1.CloneSetCondition) []appsv1beta1.CloneSetCondition {
	i := slices.IndexFunc(was, func(c appsv1beta1.CloneSetCondition) bool { return c.Type == appsv1beta1.CloneSetProgressing })
	switch {
	case p == nil:
		return without(was, appsv1beta1.CloneSetProgressing)
	case i < 0:
		return append(slices.Clone(was), *p)
	}
	out := slices.Clone(was)
	out[i] = *p
	return out
}

// tell returns the events of a pass: one for each class of writes, and one when updates turn out to be impossible.
func tell(o observed, w work, d done, scale, update failure) []event.Event {
	var out []event.Event
	say := func(names []string, good func([]string) event.Event, err error, bad func(error) event.Event) {
		if len(names) > 0 {
			out = append(out, good(names))
		}
		if err != nil {
			out = append(out, bad(err))
		}
	}
	name := w.revision.Revision.Name
	inPlace := func(names []string) event.Event { return updatedInPlaceEvent(name, names) }
	recreated := func(names []string) event.Event { return recreatedEvent(name, names) }
	say(nil, nil, d.revision, failedCreateEvent)
	say(append(slices.Clone(d.deleted.Done), d.ended.Done...), deletedEvent, d.deleted.Err, failedDeleteEvent)
	say(nil, nil, d.ended.Err, failedDeleteEvent)
	say(nil, nil, d.dropped, failedDeleteEvent)
	say(d.recreated.Done, recreated, d.recreated.Err, failedRecreateEvent)
	say(nil, nil, d.marked.Err, failedUpdateInPlaceEvent)
	say(d.edited.Done, inPlace, d.edited.Err, failedUpdateInPlaceEvent)
	say(nil, nil, d.released.Err, failedUpdateInPlaceEvent)
	say(d.created.Done, createdEvent, d.created.Err, failedCreateEvent)
	for _, err := range []error{d.named.Err, d.parted.Err, d.recalled.Err, d.prepared.Err, d.given, d.rest} {
		if err != nil {
			out = append(out, failedUpdateEvent(err.Error()))
		}
	}
	for _, h := range w.holds {
		// Told when it begins and with each pod made, not with each pass.
		if h.Reason == rollout.ReasonScaleLimit && (len(d.created.Done) > 0 || o.set.Generation != o.set.Status.ObservedGeneration) {
			out = append(out, scaleUpLimitedEvent(h.Why))
		}
	}
	// What lasts is told once, not with each pass.
	if lasts(o.set, appsv1beta1.CloneSetFailedScale, scale) {
		out = append(out, failedScaleEvent(scale.message))
	}
	if lasts(o.set, appsv1beta1.CloneSetFailedUpdate, update) {
		out = append(out, failedUpdateEvent(update.message))
	}
	if f := o.strangers.failure(); lasts(o.set, appsv1beta1.CloneSetSelectorOverlap, f) {
		out = append(out, overlapEvent(f.message))
	}
	return out
}

// lasts tells that a failure is new and is not that of a write, of which there is an event with each try.
func lasts(set *appsv1beta1.CloneSet, t appsv1beta1.CloneSetConditionType, f failure) bool {
	c := find(set.Status.Conditions, t)
	return f.reason != "" && f.reason != appsv1beta1.CloneSetReasonWriteFailed && (c == nil || c.Reason != f.reason)
}
