package imagelistpulljob

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/ownership"
)

// observed is what one reconcile has read. All objects are the cache's own: they may not be changed.
type observed struct {
	list *appsv1beta1.ImageListPullJob
	// jobs are those that the list controls, in the order of their names.
	jobs []*appsv1beta1.ImagePullJob
}

// observe reads what a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{list: &appsv1beta1.ImageListPullJob{}}
	children := func(from client.Reader, live bool) error {
		var found appsv1beta1.ImagePullJobList
		if err := from.List(ctx, &found, append(ownership.OwnedBy(o.list, live), client.UnsafeDisableDeepCopy)...); err != nil {
			return fmt.Errorf("list ImagePullJobs: %w", err)
		}
		o.jobs = nil
		for i := range found.Items {
			if job := &found.Items[i]; ownership.ControlledBy(job, o.list, gvk()) {
				o.jobs = append(o.jobs, job)
			}
		}
		slices.SortFunc(o.jobs, func(a, b *appsv1beta1.ImagePullJob) int { return strings.Compare(a.Name, b.Name) })
		return nil
	}
	shown := func() iter.Seq[metav1.Object] {
		return func(yield func(metav1.Object) bool) {
			_ = yield(o.list) && expect.Each(o.jobs, yield)
		}
	}
	if err := r.Expect.Read(ctx, r.Client, r.Live, key, o.list, children, shown); err != nil {
		return o, fmt.Errorf("read ImageListPullJob: %w", err)
	}
	return o, nil
}
