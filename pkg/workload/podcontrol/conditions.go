package podcontrol

import (
	"slices"
	"time"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// ConditionForm is how a kind represents its failure conditions.
type ConditionForm[C any] struct {
	// Scale, Update, Overlap and PVC are the condition types.
	Scale, Update, Overlap, PVC string
	report.Form[C]
}

// WorkloadConditions is the form for StatefulSet and DaemonSet.
func WorkloadConditions() ConditionForm[appsv1beta1.WorkloadCondition] {
	type condition = appsv1beta1.WorkloadCondition
	return ConditionForm[condition]{
		Scale: string(appsv1beta1.WorkloadFailedCreatePod), Update: string(appsv1beta1.WorkloadFailedUpdatePod),
		Overlap: string(appsv1beta1.WorkloadSelectorOverlap), PVC: string(appsv1beta1.WorkloadPVCTerminating),
		Form: report.Form[condition]{
			Type: func(c condition) string { return string(c.Type) },
			Entry: func(c condition) report.ConditionEntry {
				return report.ConditionEntry{Status: c.Status, Reason: c.Reason, Message: c.Message, Turned: c.LastTransitionTime}
			},
			New: func(t string, e report.ConditionEntry) condition {
				return condition{
					Type: appsv1beta1.WorkloadConditionType(t), Status: e.Status, Reason: e.Reason, Message: e.Message,
					LastTransitionTime: e.Turned,
				}
			},
		},
	}
}

// Conditions returns the conditions after a reconcile with these failures: scaling, updating, overlapping selectors, and PVCs that are being
// deleted. Each condition is present while its failure lasts. The events report failures that are new.
func Conditions[C any](
	old []C, form ConditionForm[C], scale, update, overlap, pvc report.Failure, now time.Time,
) ([]C, []event.Event) {
	current, events := old, []event.Event(nil)
	for _, c := range []struct {
		kind    string
		failure report.Failure
		begun   func(why string) event.Event
	}{
		{form.Scale, scale, FailedScale},
		{form.Update, update, FailedUpdate},
		{form.Overlap, overlap, Overlap},
		{form.PVC, pvc, PVCTerminating},
	} {
		matches := func(x C) bool { return form.Type(x) == c.kind }
		var before *report.ConditionEntry
		if i := slices.IndexFunc(old, matches); i >= 0 {
			before = new(form.Entry(old[i]))
		}
		if c.failure.IsNew(before) {
			events = append(events, c.begun(c.failure.Message))
		}
		var next *C
		if e := c.failure.After(before, now); e != nil {
			next = new(form.New(c.kind, *e))
		}
		current = report.PutCondition(current, matches, next)
	}
	return current, events
}

// Readiness returns whether the pods match the spec, after a reconcile with these failures. Whatever needs a user, or has lasted longer than the
// deadline, is stalled. A failed write, or one that is refused (Results.Waits), is retried. Pods that a partition or OnDelete leaves at an old
// revision match the spec.
func Readiness(p *podset.Plan, scale, update, waits report.Failure) report.Readiness {
	for _, f := range []report.Failure{scale, update} {
		if f.Reason != "" && f.Reason != report.ReasonWriteFailed {
			return report.Stalled(f)
		}
	}
	for _, f := range []report.Failure{scale, update, waits} {
		if f.Reason != "" {
			return report.Retrying(f)
		}
	}
	if r, ok := Unsent(p); ok {
		return r
	}
	paused := func(h rollout.Hold) bool { return h.Reason == rollout.ReasonPaused }
	switch {
	case len(p.Steps) > 0, slices.ContainsFunc(p.Holds, func(h rollout.Hold) bool { return !paused(h) }), slices.ContainsFunc(p.Pods, unavailable):
		// The message has no numbers, so that it changes only at the beginning and the end.
		return report.Reconciling(report.ReasonProgressing, "pods are being created, updated or deleted, or aren't available yet")
	case len(p.Holds) > 0:
		return report.Reconciling(report.ReasonPaused, "pods wait until the spec is no longer paused")
	}
	return report.Ready("all pods are available and match the spec")
}

// Unsent returns the readiness of an object whose new pods wait until the API server sends pods to the pod webhook; false if none waits.
func Unsent(p *podset.Plan) (report.Readiness, bool) {
	if !slices.ContainsFunc(p.Holds, func(h rollout.Hold) bool { return h.Reason == rollout.ReasonPodWebhook }) {
		return report.Readiness{}, false
	}
	return report.Reconciling(string(rollout.ReasonPodWebhook), "new pods wait until the pod webhook receives them"), true
}

func unavailable(pod podset.Pod) bool { return !pod.Inactive && !pod.Available }
