package ephemeraljob

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// reconciler returns a Reconciler with these clients.
func reconciler(c client.Client, live client.Reader, clk clock.PassiveClock, events *testkit.Events) *Reconciler {
	if clk == nil {
		clk = clock.RealClock{}
	}
	return &Reconciler{Controller: &podcontrol.Controller{
		Controller: controltest.New(c, live, clk, events),
	}}
}

// simulated returns EphemeralJob in the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1alpha1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		Fields: Registration().Fields,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return reconciler(p.Client, p.Live, p.Clock, &testkit.Events{}), nil
		},
		For: &appsv1alpha1.EphemeralJob{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Pod{}: func(w *sim.World, previous, object client.Object) []reconcile.Request {
				before, _ := previous.(*corev1.Pod)
				after, _ := object.(*corev1.Pod)
				if before != nil && after != nil && !podChanged(before, after) {
					return nil
				}
				job := cached(w)
				if job != nil && (before != nil && concerns(job, before) || after != nil && concerns(job, after)) {
					return []reconcile.Request{{NamespacedName: key}}
				}
				return nil
			},
		},
		Actors:   []sim.Actor{sim.Scheduler{Nodes: 1}, sim.Kubelet{}, runner{}},
		Rules:    rules(),
		Summary:  summarize,
		Describe: describe,
	}
}

// rules hold at every write, under all faults.
func rules() []sim.Rule {
	return []sim.Rule{
		sim.DeletesByUID(),
		{Name: "only ephemeral containers of pods are written, and once per job", Write: checkOnce},
		{Name: "only selected pods get containers, and not from paused or finished jobs", Write: checkSelected},
		{Name: "parallelism and replicas hold", Write: checkLimits},
		{Name: "a job finishes when all containers have ended or the deadline has passed, and stays finished", Write: checkEnd},
		{Name: "the counts add up", Write: checkCounts},
	}
}

// containersAdded returns the pod before and after a write by which the controller added containers.
func containersAdded(c sim.Change) (before, after *corev1.Pod, ok bool) {
	before, _ = c.Before.(*corev1.Pod)
	after, ok = c.After.(*corev1.Pod)
	return before, after, ok && before != nil && c.ByController() && c.Err == nil
}

func checkOnce(_ *sim.World, c sim.Change) error {
	before, after, ok := containersAdded(c)
	if !ok {
		return nil
	}
	if len(containers(before)) > 0 {
		return fmt.Errorf("%s: it has %v", c.Request, containers(before))
	}
	if c.Sub != subresource || len(containers(after)) == 0 {
		return fmt.Errorf("%s adds no containers", c.Request)
	}
	if names := containers(after); len(slices.Compact(slices.Sorted(slices.Values(names)))) < len(names) {
		return fmt.Errorf("%s: %v", c.Request, names)
	}
	return nil
}

// containers returns the names of jobs' containers in a pod.
func containers(pod *corev1.Pod) []string {
	var out []string
	for _, c := range pod.Spec.EphemeralContainers {
		if slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == keys.EphemeralJobID }) {
			out = append(out, c.Name)
		}
	}
	return out
}

func checkSelected(w *sim.World, c sim.Change) error {
	before, _, ok := containersAdded(c)
	job := cached(w)
	if !ok || c.Late || job == nil {
		return nil
	}
	if !ownership.Selects(job.Spec.Selector, before) {
		return fmt.Errorf("%s is not selected", c.Request)
	}
	if job.Spec.Paused || finished(job) || job.DeletionTimestamp != nil || before.Spec.NodeName == "" {
		return fmt.Errorf("%s: paused=%t, phase %s, node %q", c.Request, job.Spec.Paused, job.Status.Phase, before.Spec.NodeName)
	}
	return nil
}

// checkLimits counts the pods in the world. A late write can't be prevented, so each raises the limits by one.
func checkLimits(w *sim.World, c sim.Change) error {
	if _, _, ok := containersAdded(c); !ok || c.Late {
		return nil
	}
	have, open, late := 0, 0, 0
	for _, before := range w.Changes() {
		if before.Late {
			late++
		}
	}
	job := cached(w)
	if job == nil {
		return nil
	}
	for _, pod := range sim.All[*corev1.Pod](w) {
		if !has(pod, job.UID) {
			continue
		}
		have++
		if _, after, _ := stateOf(pod, job.UID); after {
			open++
		}
	}
	if n := int(ptr.Deref(job.Spec.Parallelism, 1)) + late; open > n {
		return fmt.Errorf("%s: %d pods run containers, and parallelism is %d", c.Request, open, n)
	}
	if r := job.Spec.Replicas; r != nil && have > int(*r)+late {
		return fmt.Errorf("%s: %d pods have containers, and replicas is %d", c.Request, have, *r)
	}
	return nil
}

func checkEnd(w *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1alpha1.EphemeralJob)
	after, stays := c.After.(*appsv1alpha1.EphemeralJob)
	if !ok || !stays || !c.ByController() {
		return nil
	}
	if finished(before) && before.Status.Phase != after.Status.Phase {
		return fmt.Errorf("%s: %s after %s", c.Request, after.Status.Phase, before.Status.Phase)
	}
	if finished(before) || !finished(after) || c.Late {
		return nil
	}
	if d := after.Spec.ActiveDeadlineSeconds; d != nil && w.Now().Sub(after.Status.StartTime.Time).Seconds() >= float64(*d) {
		return nil
	}
	p := plan(observed{job: before, pods: sim.All[*corev1.Pod](w), invalid: refusedIn(w)}, w.Now())
	if p.ending == nil || p.ending.phase != after.Status.Phase {
		return fmt.Errorf("%s: %s, and of the pods it is %s", c.Request, after.Status.Phase, summary(p))
	}
	return nil
}

// refusedIn returns the pods for which the apiserver has rejected the containers.
func refusedIn(w *sim.World) map[types.UID]string {
	out := map[types.UID]string{}
	for _, pod := range sim.All[*corev1.Pod](w) {
		if job := current(w); job != nil && len(pod.Spec.Containers) == 1 && job.Spec.Template.EphemeralContainers[0].TargetContainerName != "" {
			out[pod.UID] = "no such container"
		}
	}
	return out
}

func checkCounts(_ *sim.World, c sim.Change) error {
	job, ok := c.After.(*appsv1alpha1.EphemeralJob)
	if !ok || !c.ByController() || finished(job) {
		return nil
	}
	if s := job.Status; s.Matches != s.Waiting+s.Running+s.Succeeded+s.Failed {
		return fmt.Errorf("%s: %s", c.Request, jobLines(job)[0])
	}
	return nil
}

// describe returns what a write changed in a job, or in a pod's containers.
func describe(c sim.Change) string {
	if pod, ok := c.After.(*corev1.Pod); ok {
		if before, existed := c.Before.(*corev1.Pod); existed && containersIn(before) == containersIn(pod) {
			return ""
		}
		return containersIn(pod)
	}
	return sim.Describe(func(o client.Object) []string {
		if job, ok := o.(*appsv1alpha1.EphemeralJob); ok {
			return jobLines(job)
		}
		return nil
	})(c)
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulated(t), s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "debug")+"# the end\n"+r.Summary+"\n")
		})
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60}, stories()...)
}

// Each of these controllers does what one of the rules forbids.
func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	// put writes a change to a running pod.
	put := func(name string, change func(*corev1.Pod)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			pod := &corev1.Pod{}
			if err := c.Get(ctx, types.NamespacedName{Namespace: key.Namespace, Name: name}, pod); err != nil {
				return err
			}
			change(pod)
			return c.SubResource(subresource).Update(ctx, pod)
		}
	}
	add := func(names ...string) func(*corev1.Pod) {
		return func(pod *corev1.Pod) {
			for _, name := range names {
				pod.Spec.EphemeralContainers = append(pod.Spec.EphemeralContainers, added(name, firstUID))
			}
		}
	}
	report := func(change func(*appsv1alpha1.EphemeralJobStatus)) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			job := &appsv1alpha1.EphemeralJob{}
			if err := c.Get(ctx, key, job); err != nil {
				return err
			}
			change(&job.Status)
			return c.Status().Update(ctx, job)
		}
	}
	for _, tc := range []struct {
		rule string
		do   func(context.Context, client.Client) error
	}{
		{"once per job", put("a", add("again"))},
		{"only ephemeral containers of pods are written", func(ctx context.Context, c client.Client) error {
			return c.Patch(ctx, target("b", ""), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"mine":"1"}}}`)))
		}},
		{"only selected pods get containers", put("other", add("dbg"))},
		{"parallelism and replicas hold", put("b", add("dbg"))},
		{"a job finishes when all containers have ended or the deadline has passed, and stays finished", report(func(s *appsv1alpha1.EphemeralJobStatus) {
			s.Phase = appsv1alpha1.EphemeralJobSucceeded
		})},
		{"the counts add up", report(func(s *appsv1alpha1.EphemeralJobStatus) { s.Matches += 7 })},
		{"deletions name the UID", func(ctx context.Context, c client.Client) error { return c.Delete(ctx, target("b", "")) }},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				n := 0
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					const late = 3 // By then the first pod has its container.
					if n++; n == late {
						return reconcile.Result{}, tc.do(ctx, p.Client)
					}
					return r.Reconcile(ctx, req)
				}), err
			}
			other := target("other", hang)
			other.Labels["app"] = "db"
			s := story("rogue", debug(parallel(1)), all(target("a", hang), target("b", hang), other))
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, tc.rule)
		})
	}
}

// firstUID is the UID of the first object in the simulator.
const firstUID = "00000000-0000-4000-8000-000000000001"
