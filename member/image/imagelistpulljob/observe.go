package imagelistpulljob

import (
	"context"
	"fmt"
	"iter"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/workload/pulljob"
)

// observed is what one reconcile has read. All objects come straight from the cache and must not be changed.
type observed struct {
	list *appsv1beta1.ImageListPullJob
	// jobs are the ImagePullJobs that the list controls, sorted by name.
	jobs []*appsv1beta1.ImagePullJob
}

// observe reads what a reconcile needs.
func (r *Reconciler) observe(ctx context.Context, key types.NamespacedName) (observed, error) {
	o := observed{list: &appsv1beta1.ImageListPullJob{}}
	children := func(from client.Reader, live bool) (err error) {
		o.jobs, err = pulljob.List(ctx, from, o.list, gvk(), live)
		return err
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
