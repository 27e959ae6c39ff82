package predownload

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}

// simulated returns the controller for CloneSets in the simulator. The edits do what the CloneSet controller does.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}), kind: cloneSets(),
			}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &appsv1beta1.ImagePullJob{}, &appsv1.ControllerRevision{})
		},
		For: &appsv1beta1.CloneSet{}, Owns: []client.Object{&appsv1beta1.ImagePullJob{}, &appsv1.ControllerRevision{}},
		Actors: []sim.Actor{pullers{}, sim.Collector{}},
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			sim.OwnOnly(func(_ *sim.World, job *appsv1beta1.ImagePullJob) bool { return metav1.GetControllerOf(job) != nil }),
			{Name: "an image is pulled once for a revision", Write: createdOnce},
		},
		Summary: end,
	}
}

// pullers complete each job; ten minutes later it is deleted.
type pullers struct{}

func (pullers) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		updated := job.DeepCopy()
		switch done := job.Status.CompletionTime; {
		case job.DeletionTimestamp != nil, metav1.GetControllerOf(job) == nil:
		case done == nil:
			updated.Status.CompletionTime = new(metav1.NewTime(w.Now().Truncate(time.Second)))
			out = append(out, sim.Step{Name: "pull " + job.Name, Do: func(ctx context.Context) error { return w.User().Status().Update(ctx, updated) }})
		case w.Now().Sub(done.Time) >= ttlSeconds*time.Second:
			out = append(out, sim.Step{Name: "remove " + job.Name, Do: func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Delete(ctx, updated)) }})
		}
	}
	return out
}

// createdOnce: no job is created for a revision that records that its jobs were created.
func createdOnce(w *sim.World, c sim.Change) error {
	made, ok := c.After.(*appsv1beta1.ImagePullJob)
	if !ok || c.Verb != sim.Create || !c.ByController() || c.Late {
		return nil
	}
	for _, r := range sim.All[*appsv1.ControllerRevision](w) {
		if _, marked := r.Labels[keys.PreDownloadCreated]; marked && strings.HasPrefix(made.Name, r.Name+"-") {
			return fmt.Errorf("%s: the jobs of %s were created already", c.Request, r.Name)
		}
	}
	return nil
}

// current reports whether a job has the parallelism that its workload requests.
func current(w *sim.World, job *appsv1beta1.ImagePullJob) bool {
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	if set == nil || metav1.GetControllerOf(job) == nil {
		return true
	}
	want := 1
	if s := set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy; s != nil && s.ImagePreDownloadParallelism != nil {
		want = s.ImagePreDownloadParallelism.IntValue()
	}
	return job.Spec.Parallelism.IntValue() == want
}

func end(w *sim.World) string {
	var lines []string
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		// A complete job no longer changes.
		lines = append(lines, fmt.Sprintf("%s %s current=%t ours=%t", job.Name, job.Spec.Image, job.Status.CompletionTime != nil || current(w, job),
			metav1.GetControllerOf(job) != nil))
	}
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	for _, r := range sim.All[*appsv1.ControllerRevision](w) {
		// For an update that is over, the jobs may or may not have been created, depending on who was faster.
		if set != nil && r.Name == set.Status.UpdateRevision && r.Name != set.Status.CurrentRevision {
			lines = append(lines, fmt.Sprintf("%s created=%s", r.Name, r.Labels[keys.PreDownloadCreated]))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	// report does what the CloneSet controller does: it creates revisions, and writes the status.
	report := func(name string, change func(*appsv1beta1.CloneSetStatus), revisions ...*appsv1.ControllerRevision) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
			set := sim.Find[*appsv1beta1.CloneSet](w, key).DeepCopy()
			for _, r := range revisions {
				revision := r.DeepCopy()
				revision.OwnerReferences[0].UID = set.UID
				if err := w.User().Create(ctx, revision); err != nil {
					return err
				}
			}
			change(&set.Status)
			set.Status.ObservedGeneration = set.Generation
			return w.User().Status().Update(ctx, set)
		}}
	}
	first := report("the first revision", func(s *appsv1beta1.CloneSetStatus) { s.UpdateRevision, s.CurrentRevision = "web-1", "web-1" }, revisionOf(t, "web-1", 1, template("app:1", "side:1")))
	rollout := report("a new template", func(s *appsv1beta1.CloneSetStatus) { s.UpdateRevision = "web-2" }, revisionOf(t, "web-2", 2, template("app:2", "side:2")))
	updated := report("all pods are updated", func(s *appsv1beta1.CloneSetStatus) { s.CurrentRevision = "web-2" })
	back := report("back to the previous template", func(s *appsv1beta1.CloneSetStatus) { s.UpdateRevision = "web-1" })
	ready := report("two pods are updated and ready", func(s *appsv1beta1.CloneSetStatus) { s.UpdatedReadyReplicas = 2 })
	observed := report("the spec is observed", func(*appsv1beta1.CloneSetStatus) {})
	wider := sim.Edit{Name: "on more nodes at once", Do: func(ctx context.Context, w *sim.World) error {
		set := sim.Find[*appsv1beta1.CloneSet](w, key).DeepCopy()
		set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{ImagePreDownloadParallelism: new(intstr.FromInt32(4))}
		return w.User().Update(ctx, set)
	}}
	later := func(set *appsv1beta1.CloneSet) {
		set.Spec.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{ImagePreDownloadMinUpdatedReadyPods: new(int32(2))}
	}
	foreign := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: "other"}, Spec: appsv1beta1.ImagePullJobSpec{Image: "other:1"}}
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 1, Seeds: 40, Stall: 15 * time.Second},
		sim.Scenario{Name: "a rollout", Objects: []client.Object{cloneSet(), foreign}, Edits: []sim.Edit{first, rollout, updated}},
		sim.Scenario{Name: "a rollout that stops by its partition", Stall: 11 * time.Minute, Objects: []client.Object{cloneSet()}, Edits: []sim.Edit{first, rollout}},
		sim.Scenario{Name: "a rollback", Objects: []client.Object{cloneSet()}, Edits: []sim.Edit{first, rollout, back}},
		sim.Scenario{Name: "canaries first", Objects: []client.Object{cloneSet(later)}, Edits: []sim.Edit{first, rollout, ready, wider, observed}},
		sim.Scenario{Name: "the workload is deleted", Objects: []client.Object{cloneSet()}, Edits: []sim.Edit{first, rollout, {
			Name: "delete", Do: func(ctx context.Context, w *sim.World) error {
				return client.IgnoreNotFound(w.User().Delete(ctx, cloneSet()))
			},
		}}},
	)
}
