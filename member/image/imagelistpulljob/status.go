package imagelistpulljob

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

// Reasons and action of events.
const (
	// reasonSuccessfulCreate means that an ImagePullJob was created.
	reasonSuccessfulCreate = "SuccessfulCreate"
	// reasonFailedCreate means that creating or changing an ImagePullJob was refused. It is retried.
	reasonFailedCreate = "FailedCreate"
	// reasonSuccessfulDelete means that an ImagePullJob was deleted, because the list no longer contains its image, or its settings changed.
	reasonSuccessfulDelete = "SuccessfulDelete"
	// reasonFailedDelete means that deleting an ImagePullJob was refused. It is retried.
	reasonFailedDelete = "FailedDelete"

	// reasonFailedImages, for the condition Stalled, means that there are nodes without an image.
	reasonFailedImages = "ImagesFailed"

	actionPull = "PullImages"
)

// countNamed returns how many nodes a selector names.
func countNamed(s *appsv1beta1.ImageListPullJobSpec) int {
	if s.PodSelector != nil || s.Selector == nil {
		return 0
	}
	return len(slices.Compact(slices.Sorted(slices.Values(s.Selector.Names))))
}

// status returns the new status.
func status(o observed, p planned, a applied, now time.Time) appsv1beta1.ImageListPullJobStatus {
	if old := &o.list.Status; old.CompletionTime != nil && report.GetCondition(old.Conditions, keys.ConditionReady) != nil {
		return *old
	}
	s := counted(o, p, now)
	s.ObservedGeneration = o.list.Generation
	s.Conditions = report.SetReadiness(s.Conditions, readiness(&s, a), o.list.Generation, now)
	return s
}

// readiness reports whether all nodes have all images. A node that has failed is not retried.
func readiness(s *appsv1beta1.ImageListPullJobStatus, a applied) report.Readiness {
	switch {
	case len(s.FailedImageStatuses) > 0:
		return report.Stalled(report.Failure{Reason: reasonFailedImages, Message: "some images are missing on nodes: see status.failedImageStatuses"})
	case s.CompletionTime != nil:
		return report.Ready("all nodes have all images")
	case a.err != nil:
		return report.Retrying(report.WriteFailure(a.err))
	case s.Succeeded == s.Desired: // It never completes.
		return report.Ready("all nodes have all images; new nodes get them")
	}
	return report.Reconciling(report.ReasonProgressing, "nodes have yet to pull images")
}

// counted returns the status without the readiness.
func counted(o observed, p planned, now time.Time) appsv1beta1.ImageListPullJobStatus {
	old := &o.list.Status
	if old.CompletionTime != nil {
		return *old.DeepCopy()
	}
	s := appsv1beta1.ImageListPullJobStatus{
		StartTime: old.StartTime, Desired: int32(len(o.list.Spec.Images)), //nolint:gosec // At most 255.
		Conditions: old.Conditions,
	}
	if s.StartTime == nil {
		s.StartTime = new(metav1.NewTime(now).Rfc3339Copy())
	}
	changing := map[string]bool{}
	for _, job := range p.change {
		changing[job.Name] = true
	}
	for _, image := range o.list.Spec.Images {
		job := p.kept[image]
		if job == nil || job.Status.StartTime == nil {
			continue
		}
		status := &job.Status
		if status.Active > 0 {
			s.Active++
		}
		if status.Succeeded+status.Failed == status.Desired && !changing[job.Name] {
			s.Completed++
			if status.Failed == 0 {
				s.Succeeded++
			}
		}
		var why []string
		if status.Failed > 0 {
			why = append(why, fmt.Sprintf("it failed on %d node(s)", status.Failed))
		}
		if absent := countNamed(&o.list.Spec) - int(status.Desired); absent > 0 && !changing[job.Name] {
			why = append(why, imagepull.Absent(absent))
		}
		if len(why) > 0 {
			s.FailedImageStatuses = append(s.FailedImageStatuses, appsv1beta1.FailedImageStatus{
				ImagePullJob: job.Name, Name: image,
				Message: fmt.Sprintf("%s: run kubectl get imagepulljob %s -o yaml to list them", strings.Join(why, ", "), job.Name),
			})
		}
	}
	complete := 0
	for _, job := range p.kept {
		if job.Status.CompletionTime != nil && !changing[job.Name] {
			complete++
		}
	}
	if complete == len(o.list.Spec.Images) && o.list.Spec.CompletionPolicy.Type != appsv1beta1.ImagePullJobNever {
		s.CompletionTime = new(metav1.NewTime(now).Rfc3339Copy())
	}
	return s
}
