package advancedcronjob

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	cron *appsv1beta1.AdvancedCronJob
	// children are the jobs that it controls, of the kind of its template, sorted by name.
	children []child
	// local is the time zone for schedules that don't name one.
	local *time.Location
	// pending is what this process knows about the pending run.
	pending knowledge
	// created is the due time of the latest run whose job this process has created and which the status may not show yet; zero if there is none.
	created time.Time
}

// observe reads what a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{cron: &appsv1beta1.AdvancedCronJob{}, local: r.Local}
	children := func(from client.Reader, live bool) (err error) {
		o.children, err = controlledJobs(ctx, from, o.cron, live)
		return err
	}
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) {
			if !yield(o.cron) {
				return
			}
			for i := range o.children {
				if !yield(o.children[i].object) {
					return
				}
			}
		}
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.cron, children, shown); err != nil {
		return o, fmt.Errorf("read AdvancedCronJob: %w", err)
	}
	o.created = r.memory.Get(o.cron).created()
	if p := o.cron.Status.Pending; p != nil {
		o.pending = r.memory.Get(o.cron).at(p.ScheduleTime.Time)
	}
	return o, nil
}

// confirm returns nil if the AdvancedCronJob on the apiserver is the same as the observed one. It is for runs that are started without a write
// of the status, which would prove that. Otherwise the next reconcile waits until the cache shows the change.
func (r *Reconciler) confirm(ctx context.Context, o observed) error {
	live := &appsv1beta1.AdvancedCronJob{}
	switch err := r.Live.Get(ctx, client.ObjectKeyFromObject(o.cron), live); {
	case apierrors.IsNotFound(err):
		return expect.ErrGone
	case err != nil:
		return fmt.Errorf("read AdvancedCronJob: %w", err)
	case live.UID == o.cron.UID && live.ResourceVersion == o.cron.ResourceVersion:
		return nil
	}
	r.Expect.Written(live.UID, live)
	return expect.NotYetError{Wait: expect.Wait{Count: 1, Example: live.Name, Left: lookAgain}}
}

// controlledJobs returns the jobs that an AdvancedCronJob controls, no matter which controller created them.
func controlledJobs(ctx context.Context, from client.Reader, cron *appsv1beta1.AdvancedCronJob, live bool) ([]child, error) {
	var out []child
	add := func(o client.Object) {
		if ownership.ControlledBy(o, cron, gvk()) {
			out = append(out, childOf(o))
		}
	}
	read := func(found client.ObjectList) error {
		if err := from.List(ctx, found, ownership.OwnedBy(cron, live)...); err != nil {
			return fmt.Errorf("list jobs: %w", err)
		}
		return nil
	}
	switch typeOf(&cron.Spec.Template) {
	case appsv1beta1.AdvancedCronJobOfJobs:
		var found batchv1.JobList
		if err := read(&found); err != nil {
			return nil, err
		}
		for i := range found.Items {
			add(&found.Items[i])
		}
	case appsv1beta1.AdvancedCronJobOfBroadcastJobs:
		var found appsv1beta1.BroadcastJobList
		if err := read(&found); err != nil {
			return nil, err
		}
		for i := range found.Items {
			add(&found.Items[i])
		}
	case appsv1beta1.AdvancedCronJobOfImageListPullJobs:
		var found appsv1beta1.ImageListPullJobList
		if err := read(&found); err != nil {
			return nil, err
		}
		for i := range found.Items {
			add(&found.Items[i])
		}
	}
	slices.SortFunc(out, func(a, b child) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out, nil
}
