package imagepulljob

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
)

// staticCache is a cache of a job and NodeImages that nobody writes. Like a manager's cache, it copies single objects, but not lists that may stay
// uncopied.
type staticCache struct {
	client.Client

	job   *appsv1beta1.ImagePullJob
	nodes []appsv1beta1.NodeImage
}

func (s staticCache) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	s.job.DeepCopyInto(o.(*appsv1beta1.ImagePullJob))
	return nil
}

func (s staticCache) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*appsv1beta1.NodeImageList).Items = append([]appsv1beta1.NodeImage(nil), s.nodes...)
	return nil
}

// BenchmarkReconcileOfAThousandNodes measures the cost of an event of one node that changes nothing for the job. The number of events doesn't
// matter, because they are batched.
func BenchmarkReconcileOfAThousandNodes(b *testing.B) {
	s := staticCache{job: pulling(func(j *appsv1beta1.ImagePullJob) { j.UID, j.Status.StartTime = "job", new(metav1.NewTime(noon)) })}
	for i := range 1000 {
		name, phase := fmt.Sprintf("node-%03d", i), appsv1beta1.ImagePhaseSucceeded
		if i >= 998 {
			phase = appsv1beta1.ImagePhasePulling
		}
		s.nodes = append(s.nodes, *nodeImageWith(name, phase, newEntry(s.job, nginx, name, 0, metav1.NewTime(noon))))
	}
	s.job.Status.Desired, s.job.Status.Active, s.job.Status.Succeeded = 1000, 2, 998
	s.job.Status.Message = "job is running, progress 99.8%"
	s.job.Status.ObservedGeneration = s.job.Generation
	s.job.Status.Conditions = report.SetReadiness(nil, readiness(&s.job.Status, planned{}, applied{}), s.job.Generation, noon)
	r := reconciler(s, s, clocktesting.NewFakePassiveClock(noon), &testkit.Events{})
	b.ReportAllocs()
	for b.Loop() {
		got, err := r.Reconcile(b.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(b, err)
		require.Equal(b, ctrl.Result{}, got)
	}
}
