package broadcastjob

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// reconciler returns a Reconciler with these clients.
func reconciler(c client.Client, live client.Reader, clk clock.PassiveClock, events *testkit.Events) *Reconciler {
	return &Reconciler{Controller: &podcontrol.Controller{
		Controller: controltest.New(c, live, clk, events),
	}}
}

// simulated returns BroadcastJob for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		Fields: Registration().Fields,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return reconciler(p.Client, p.Live, p.Clock, &testkit.Events{}), nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{}, &appsv1.ControllerRevision{})
		},
		For:  &appsv1beta1.BroadcastJob{},
		Owns: []client.Object{&corev1.Pod{}},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Node{}: func(w *sim.World, old, updated client.Object) []reconcile.Request {
				before, _ := old.(*corev1.Node)
				after, _ := updated.(*corev1.Node)
				if job := cachedJob(w); job != nil && concerns(job, before, after) {
					return []reconcile.Request{{NamespacedName: key}}
				}
				return nil
			},
		},
		Actors:   []sim.Actor{sim.Scheduler{Nodes: 1}, sim.Kubelet{Ends: podEnds}, sim.Collector{}, sim.PodCollector{}},
		Rules:    rules(),
		Summary:  end,
		Describe: describe,
	}
}

// rules returns the rules that hold at every write of a BroadcastJob, under all faults.
func rules() []sim.Rule {
	return []sim.Rule{
		sim.DeletesByUID(),
		sim.OwnOnly(owned),
		{Name: "no node runs a pod twice", Write: onlyOnce},
		{Name: "no pod is created for a node that does not fit, or for a job that is paused or has ended", Write: onlyWanted},
		{Name: "only pods that are not wanted are deleted", Write: onlyUnwanted},
		{Name: "an end is final", Write: endIsFinal},
		sim.AtMost("parallelism holds", func(w *sim.World, p *corev1.Pod) bool { return owned(w, p) && !podpatch.Ended(p) && !overLimit(w, p) }, parallelism),
	}
}

// overLimit reports whether a pod has failed because it has restarted too often.
func overLimit(w *sim.World, p *corev1.Pod) bool {
	job := cachedJob(w)
	return job != nil && p.DeletionTimestamp == nil && stateOf(p, &job.Spec.FailurePolicy) == failed
}

func parallelism(w *sim.World) int {
	job := cachedJob(w)
	if job == nil {
		return math.MaxInt32
	}
	desired := 0
	for _, n := range sim.Cached[*corev1.Node](w) {
		if run, _ := nodefit.ForJob(&job.Spec.Template.Spec).Match(n); run {
			desired++
		}
	}
	n, _ := rollout.Resolve(job.Spec.Parallelism, max(desired, int(job.Status.Desired)), rollout.Up) // 0 if it is invalid.
	return n
}

func created(c sim.Change) (*corev1.Pod, bool) {
	pod, ok := c.After.(*corev1.Pod)
	return pod, ok && c.Verb == sim.Create && c.ByController()
}

// onlyOnce: no pod is created for a node that has one or whose pod has succeeded, not even by a late write. If a node was gone, or a pod was
// deleted, only the job's status counts.
func onlyOnce(w *sim.World, c sim.Change) error {
	made, ok := created(c)
	if !ok {
		return nil
	}
	for _, p := range own(w) {
		if p.UID != made.UID && podset.Node(p) == podset.Node(made) {
			return fmt.Errorf("%s: node %s has pod %s, which is %s", c.Request, podset.Node(made), p.Name, p.Status.Phase)
		}
	}
	if job := current(w); !c.Late && job != nil && slices.Contains(job.Status.SucceededNodes, podset.Node(made)) &&
		sim.Find[*corev1.Node](w, client.ObjectKey{Name: podset.Node(made)}) != nil && !hasLeft(w, podset.Node(made)) {
		return fmt.Errorf("%s: node %s has succeeded", c.Request, podset.Node(made))
	}
	return nil
}

// hasLeft reports whether a node has left in this story. A node with the same name is then a different node.
func hasLeft(w *sim.World, name string) bool {
	return slices.ContainsFunc(w.Changes(), func(c sim.Change) bool {
		n, ok := c.Before.(*corev1.Node)
		return ok && c.Verb == sim.Delete && n.Name == name
	})
}

func onlyWanted(w *sim.World, c sim.Change) error {
	made, ok := created(c)
	job := cachedJob(w)
	if !ok || c.Late || job == nil {
		return nil
	}
	if job.Spec.Paused || finished(job) {
		return fmt.Errorf("%s: paused=%t, phase %s", c.Request, job.Spec.Paused, job.Status.Phase)
	}
	for _, n := range sim.Cached[*corev1.Node](w) {
		if run, _ := nodefit.ForJob(&job.Spec.Template.Spec).Match(n); run && n.Name == podset.Node(made) {
			return nil
		}
	}
	return fmt.Errorf("%s for %s", c.Request, podset.Node(made))
}

// onlyUnwanted: the controller deletes only pods of a job that has ended, pods for nodes that do not fit, and duplicates. It never deletes
// pods that have ended.
func onlyUnwanted(w *sim.World, c sim.Change) error {
	pod, ok := c.Before.(*corev1.Pod)
	job := cachedJob(w)
	if !ok || c.Verb != sim.Delete || !c.ByController() || c.Late || job == nil {
		return nil
	}
	if podpatch.Ended(pod) && c.Err == nil {
		return fmt.Errorf("%s: the pod is %s", c.Request, pod.Status.Phase)
	}
	if finished(job) || slices.ContainsFunc(sim.Cached[*corev1.Pod](w), func(p *corev1.Pod) bool {
		return p.UID != pod.UID && podset.Node(p) == podset.Node(pod)
	}) || slices.Contains(job.Status.SucceededNodes, podset.Node(pod)) {
		return nil
	}
	for _, n := range sim.Cached[*corev1.Node](w) {
		m := nodefit.ForJob(&job.Spec.Template.Spec)
		if run, _ := m.Match(n); c.Err == nil && n.Name == podset.Node(pod) && (run || pod.Spec.NodeName != "" && m.Selects(n)) {
			return fmt.Errorf("%s: node %s fits", c.Request, n.Name)
		}
	}
	return nil
}

// endIsFinal: a job that has ended does not start again.
func endIsFinal(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1beta1.BroadcastJob)
	after, same := c.After.(*appsv1beta1.BroadcastJob)
	if ok && same && after != nil && finished(before) && before.Status.Phase != after.Status.Phase {
		return fmt.Errorf("%s: %s after %s", c.Request, after.Status.Phase, before.Status.Phase)
	}
	return nil
}

// describe returns what a write has changed in a pod or a job, and the node of a new pod.
func describe(c sim.Change) string {
	what := sim.Describe(func(o client.Object) []string {
		if job, ok := o.(*appsv1beta1.BroadcastJob); ok {
			return append(counts(job), fmt.Sprintf("paused=%t", job.Spec.Paused))
		}
		return nil
	})(c)
	if pod, ok := created(c); ok {
		what = "for " + podset.Node(pod) + ", " + what
	}
	return what
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulated(t), s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "scan")+"# the end\n"+r.Summary+"\n")
		})
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories()...)
}
