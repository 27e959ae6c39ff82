package imagepulljob

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// status returns the new status, and the events.
func status(o observed, p planned, a applied, now time.Time) (appsv1beta1.ImagePullJobStatus, []event.Event) {
	old := &o.job.Status
	if o.job.DeletionTimestamp != nil || old.CompletionTime != nil && report.GetCondition(old.Conditions, keys.ConditionReady) != nil {
		return *old, nil
	}
	s, events := counted(o, p, a, now)
	s.ObservedGeneration = o.job.Generation
	s.Conditions = report.SetReadiness(s.Conditions, readiness(&s, p, a), o.job.Generation, now)
	return s, events
}

// readiness reports whether all nodes have the image. A node that has failed is not retried.
func readiness(s *appsv1beta1.ImagePullJobStatus, p planned, a applied) report.Readiness {
	switch {
	case p.invalid != "":
		return report.Stalled(report.Failure{Reason: reasonInvalid, Message: p.invalid})
	case s.Failed > 0:
		return report.Stalled(report.Failure{Reason: reasonFailedNodes, Message: "nodes failed to pull the image: see status.failedNodes"})
	case len(p.unknown) > 0:
		return report.Stalled(report.Failure{Reason: reasonAbsentNodes, Message: fmt.Sprintf("%s: %s", imagepull.Absent(len(p.unknown)), event.Names(p.unknown))})
	case s.CompletionTime != nil:
		return report.Ready("all nodes have the image")
	case a.err != nil:
		return report.Retrying(report.WriteFailure(a.err))
	case s.Succeeded == s.Desired && s.Active == 0: // It never completes.
		return report.Ready("all nodes have the image; new nodes get it")
	}
	if len(p.full) > 0 {
		return report.Reconciling(reasonNoPlace, fullNodes(p))
	}
	return report.Reconciling(report.ReasonProgressing, "nodes have yet to pull the image")
}

// fullNodes describes the nodes whose NodeImage has no space for another image of the namespace.
func fullNodes(p planned) string {
	return fmt.Sprintf("%d node(s) have no room for another image of this namespace until one of its jobs is deleted or complete: %s",
		len(p.full), event.Names(p.full))
}

// counted returns the status without the readiness.
func counted(o observed, p planned, a applied, now time.Time) (appsv1beta1.ImagePullJobStatus, []event.Event) {
	old := &o.job.Status
	if old.CompletionTime != nil {
		return *old.DeepCopy(), nil
	}
	s := *old.DeepCopy()
	if s.StartTime == nil {
		s.StartTime = new(metav1.NewTime(now).Rfc3339Copy())
	}
	if p.invalid != "" {
		if s.Message = report.Truncate(p.invalid); s.Message != old.Message {
			return s, []event.Event{event.Warning(reasonInvalid, actionPull, "%s", p.invalid)}
		}
		return s, nil
	}
	s.Desired, s.Active = int32(p.desired), int32(p.active-a.idle)                            //nolint:gosec // A cluster has fewer nodes.
	s.Succeeded, s.Failed, s.FailedNodes = int32(p.succeeded), int32(len(p.failed)), p.failed //nolint:gosec // Likewise.
	if !p.complete || a.err != nil {
		progress := 0.0
		if p.desired > 0 {
			progress = float64(p.succeeded+len(p.failed)) / float64(p.desired) * 100
		}
		s.Message = fmt.Sprintf("job is running, progress %.1f%%", progress)
		if len(p.dark) > 0 {
			s.Message += fmt.Sprintf("; %d node(s) without a live node daemon that pulls images: %s", len(p.dark), event.Names(p.dark))
		}
		s.Message += absentNodes(p)
		if len(p.full) == 0 {
			return s, nil
		}
		s.Message += "; " + fullNodes(p)
		if condition := report.GetCondition(old.Conditions, keys.ConditionReconciling); condition != nil && condition.Reason == reasonNoPlace {
			return s, nil
		}
		return s, []event.Event{event.Warning(reasonNoPlace, actionPull, "%s", fullNodes(p))}
	}
	s.CompletionTime, s.Message = new(metav1.NewTime(now).Rfc3339Copy()), "job has completed"+absentNodes(p)
	switch {
	case len(p.late) > 0:
		s.Message = fmt.Sprintf("job has completed: %d node(s) did not finish within activeDeadlineSeconds%s", len(p.late), absentNodes(p))
		return s, []event.Event{event.Warning(reasonDeadlineExceeded, actionPull, "%d of %d node(s) did not finish before the deadline: %s",
			len(p.late), p.desired, event.Names(p.late))}
	case len(p.failed) > 0:
		return s, []event.Event{event.Warning(reasonCompleted, actionPull,
			"%d of %d node(s) have %s; it failed on %s: run kubectl get nodeimage to see why",
			p.succeeded, p.desired, o.job.Spec.Image, event.Names(p.failed))}
	case len(p.unknown) > 0:
		return s, []event.Event{event.Warning(reasonCompleted, actionPull, "pulled on %d node(s): %s%s", p.succeeded, o.job.Spec.Image, absentNodes(p))}
	}
	return s, []event.Event{event.Normal(reasonCompleted, actionPull, "pulled on %d node(s): %s", p.succeeded, o.job.Spec.Image)}
}

// absentNodes describes the nodes that don't exist; empty if there are none.
func absentNodes(p planned) string {
	if len(p.unknown) == 0 {
		return ""
	}
	return fmt.Sprintf("; %s: %s", imagepull.Absent(len(p.unknown)), event.Names(p.unknown))
}
