package imagelistpulljob

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/imagepull"
)

// Reasons and action of events.
const (
	// ReasonSuccessfulCreate: an ImagePullJob was created.
	ReasonSuccessfulCreate = "SuccessfulCreate"
	// ReasonFailedCreate: an ImagePullJob, or a change of one, was refused. It is tried again.
	ReasonFailedCreate = "FailedCreate"
	// ReasonSuccessfulDelete: an ImagePullJob was deleted, because the list has its image not any more, or wants it in another way.
	ReasonSuccessfulDelete = "SuccessfulDelete"
	// ReasonFailedDelete: the deletion of an ImagePullJob was refused. It is tried again.
	ReasonFailedDelete = "FailedDelete"

	actionPull = "PullImages"
)

// named returns how many nodes a selector names.
func named(s *appsv1beta1.ImageListPullJobSpec) int {
	if s.PodSelector != nil || s.Selector == nil {
		return 0
	}
	return len(slices.Compact(slices.Sorted(slices.Values(s.Selector.Names))))
}

// status returns the new status.
func status(o observed, p planned, now time.Time) appsv1beta1.ImageListPullJobStatus {
	old := &o.list.Status
	if old.CompletionTime != nil {
		return *old
	}
	s := appsv1beta1.ImageListPullJobStatus{StartTime: old.StartTime, Desired: int32(len(o.list.Spec.Images))} //nolint:gosec // At most 255.
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
		is := &job.Status
		if is.Active > 0 {
			s.Active++
		}
		if is.Succeeded+is.Failed == is.Desired && !changing[job.Name] {
			s.Completed++
			if is.Failed == 0 {
				s.Succeeded++
			}
		}
		var why []string
		if is.Failed > 0 {
			why = append(why, fmt.Sprintf("it failed on %d nodes", is.Failed))
		}
		if absent := named(&o.list.Spec) - int(is.Desired); absent > 0 && !changing[job.Name] {
			why = append(why, imagepull.Absent(absent))
		}
		if len(why) > 0 {
			s.FailedImageStatuses = append(s.FailedImageStatuses, appsv1beta1.FailedImageStatus{
				ImagePullJob: job.Name, Name: image,
				Message: fmt.Sprintf("%s: kubectl get imagepulljob %s -o yaml lists them", strings.Join(why, ", "), job.Name),
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
