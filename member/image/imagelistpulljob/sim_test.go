package imagelistpulljob

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/pulljob"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "pull"}

// simulated returns ImageListPullJob for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{})}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &appsv1beta1.ImagePullJob{})
		},
		For: &appsv1beta1.ImageListPullJob{}, Owns: []client.Object{&appsv1beta1.ImagePullJob{}},
		Actors: []sim.Actor{pullers{}, sim.Collector{}},
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			sim.OwnOnly(func(_ *sim.World, job *appsv1beta1.ImagePullJob) bool { return metav1.GetControllerOf(job) != nil }),
			{Name: "an image has one job", Write: oneEach},
		},
		Summary: end,
	}
}

// pullers complete each job on one node. A job fails if its image name contains bad.
type pullers struct{}

func (pullers) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		if job.Status.CompletionTime != nil || job.DeletionTimestamp != nil || metav1.GetControllerOf(job) == nil {
			continue
		}
		updated := job.DeepCopy()
		switch {
		case job.Status.StartTime == nil:
			updated.Status = appsv1beta1.ImagePullJobStatus{StartTime: new(metav1.NewTime(w.Now().Truncate(time.Second))), Desired: 1, Active: 1}
		case strings.Contains(job.Spec.Image, "slow"):
			continue
		default:
			updated.Status.Active, updated.Status.CompletionTime = 0, new(metav1.NewTime(w.Now().Truncate(time.Second)))
			if strings.Contains(job.Spec.Image, "bad") {
				updated.Status.Failed = 1
			} else {
				updated.Status.Succeeded = 1
			}
		}
		out = append(out, sim.Step{Name: job.Spec.Image, Do: func(ctx context.Context) error { return w.User().Status().Update(ctx, updated) }})
	}
	return out
}

// oneEach: the controller creates no second job for an image with the same spec.
func oneEach(w *sim.World, c sim.Change) error {
	made, ok := c.After.(*appsv1beta1.ImagePullJob)
	if !ok || c.Verb != sim.Create || !c.ByController() {
		return nil
	}
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		if job.UID != made.UID && job.DeletionTimestamp == nil && metav1.GetControllerOf(job) != nil && hashOf(pulljob.WithDefaults(job.Spec)) == hashOf(made.Spec) {
			return fmt.Errorf("%s: %s pulls %s already", c.Request, job.Name, job.Spec.Image)
		}
	}
	return nil
}

// end returns the state that matters at rest.
func end(w *sim.World) string {
	var lines []string
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		lines = append(lines, fmt.Sprintf("%s timeout=%d complete=%t ours=%t", job.Spec.Image, *job.Spec.PullPolicy.TimeoutSeconds,
			job.Status.CompletionTime != nil, metav1.GetControllerOf(job) != nil))
	}
	slices.Sort(lines)
	if l := sim.Find[*appsv1beta1.ImageListPullJob](w, key); l != nil {
		s := &l.Status
		lines = append(lines, fmt.Sprintf("desired=%d active=%d completed=%d succeeded=%d complete=%t", s.Desired, s.Active, s.Completed, s.Succeeded,
			s.CompletionTime != nil))
		for _, f := range s.FailedImageStatuses {
			lines = append(lines, "failed: "+f.Name)
		}
	}
	return strings.Join(lines, "\n")
}

func listing(change ...func(*appsv1beta1.ImageListPullJobSpec)) *appsv1beta1.ImageListPullJob {
	l := &appsv1beta1.ImageListPullJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, Generation: 1},
		Spec:       appsv1beta1.ImageListPullJobSpec{Images: []string{"nginx:1", "redis:7"}},
	}
	for _, c := range change {
		c(&l.Spec)
	}
	return l
}

func withImages(images ...string) func(*appsv1beta1.ImageListPullJobSpec) {
	return func(s *appsv1beta1.ImageListPullJobSpec) { s.Images = images }
}

func never(s *appsv1beta1.ImageListPullJobSpec) {
	s.CompletionPolicy.Type = appsv1beta1.ImagePullJobNever
}

func slower(s *appsv1beta1.ImageListPullJobSpec) {
	s.PullPolicy = &appsv1beta1.PullPolicy{TimeoutSeconds: new(int32(900))}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories()...)
}

func stories() []sim.Scenario {
	edit := func(name string, change func(*appsv1beta1.ImageListPullJobSpec)) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key, func(l *appsv1beta1.ImageListPullJob) { change(&l.Spec) })
		}}
	}
	foreign := wanted(listing(), "nginx:1")
	foreign.Name, foreign.OwnerReferences = "somebody", nil
	return []sim.Scenario{
		{Name: "two images", Objects: []client.Object{listing(), foreign}},
		{Name: "one image fails", Objects: []client.Object{listing(withImages("nginx:1", "bad:1"))}},
		{Name: "one image is added and one removed", Objects: []client.Object{listing(never)}, Edits: []sim.Edit{edit("other images", withImages("redis:7", "mysql:9"))}},
		{Name: "a new timeout while one image is slow", Objects: []client.Object{listing(never, withImages("nginx:1", "slow:1"))}, Edits: []sim.Edit{edit("a longer timeout", slower)}},
		{Name: "the list is deleted after its TTL", Stall: 75 * time.Second, Objects: []client.Object{listing(func(s *appsv1beta1.ImageListPullJobSpec) {
			s.CompletionPolicy.TTLSecondsAfterFinished = new(int32(60))
		})}},
		{Name: "the list is deleted", Objects: []client.Object{listing(never)}, Edits: []sim.Edit{{Name: "delete", Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, listing()))
		}}}},
	}
}
