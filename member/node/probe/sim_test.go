package probe

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// answers is an annotation of pods in the simulator: the result of each probe for each container, and since when.
const answers = "example.com/answers"

// paper implements workers without goroutines: they find what the pod in the cache says.
type paper struct {
	client client.Client
	all    map[key]progress
	// began means that a worker has started since the last reconcile.
	began bool
}

// finding is the reconciler. It is called again after workers have started, because they find something.
type finding struct {
	*Reconciler

	workers *paper
}

func (f finding) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	f.workers.began = false
	result, err := f.Reconciler.Reconcile(ctx, req)
	if err == nil && f.workers.began {
		result.RequeueAfter = timing.Sooner(result.RequeueAfter, time.Millisecond)
	}
	return result, err
}

func (p *paper) begin(_ context.Context, w progress) { p.all[w.Key], p.began = w, true }

func (p *paper) end(keys []key) {
	for _, k := range keys {
		delete(p.all, k)
	}
}

func (p *paper) States() map[key]progress {
	out := map[key]progress{}
	for k, w := range p.all {
		pod := &corev1.Pod{}
		if err := p.client.Get(context.TODO(), client.ObjectKey{Namespace: w.namespace, Name: w.podName}, pod); err == nil && pod.UID == k.Pod { //nolint:forbidigo // The interface has no context, and the simulator needs none.
			if said := strings.Fields(pod.Annotations[answers]); len(said) == 3 && said[0] == w.id && string(w.State) != said[1] {
				since, _ := time.Parse(time.RFC3339, said[2])
				w.Result = podprobe.Result{State: appsv1alpha1.ProbeState(said[1]), Message: said[1], At: since}
				p.all[k] = w
			}
		}
		out[k] = w
	}
	return out
}

// kubelet starts the containers of pods.
type kubelet struct{}

func (kubelet) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, pod := range sim.All[*corev1.Pod](w) {
		if len(pod.Status.ContainerStatuses) > 0 {
			continue
		}
		next := pod.DeepCopy()
		next.Status = simPod(pod.Name).Status
		if other := otherDaemon(); pod.Name == other.Name {
			next.Status = other.Status
		}
		out = append(out, sim.Step{Name: "start " + pod.Name, Do: func(ctx context.Context) error {
			return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
		}})
	}
	return out
}

// simulated returns the controller for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1alpha1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			workers := &paper{client: p.Client, all: map[key]progress{}}
			return finding{&Reconciler{Client: p.Client, Clock: p.Clock, Events: &testkit.Events{}, workers: workers}, workers}, nil
		},
		For:    &appsv1alpha1.NodePodProbe{},
		Actors: []sim.Actor{kubelet{}},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Pod{}: func(*sim.World, client.Object, client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: client.ObjectKey{Name: "node-1"}}}
			},
		},
		Rules: []sim.Rule{
			{Name: "results of a container are not lost", Write: remembers},
			{Name: "only the status is written", Write: onlyStatus},
		},
		Summary: end,
	}
}

// states returns the states in a NodePodProbe by pod and probe.
func states(o client.Object) map[key]appsv1alpha1.ContainerProbeState {
	out := map[key]appsv1alpha1.ContainerProbeState{}
	if n, ok := o.(*appsv1alpha1.NodePodProbe); ok {
		for _, pod := range n.Status.PodProbeStatuses {
			for _, s := range pod.ProbeStates {
				out[key{Pod: pod.UID, Name: s.Name}] = s
			}
		}
	}
	return out
}

// podOf returns the pod with that UID from the apiserver; nil if there is none.
func podOf(w *sim.World, uid types.UID) *corev1.Pod {
	for _, pod := range sim.All[*corev1.Pod](w) {
		if pod.UID == uid {
			return pod
		}
	}
	return nil
}

func remembers(w *sim.World, c sim.Change) error {
	if !c.ByController() || c.Late || c.Before == nil || c.After == nil {
		return nil
	}
	current := states(c.After)
	for k, before := range states(c.Before) {
		now, stays := current[k]
		pod := podOf(w, k.Pod)
		if pod == nil || !stays || before.State == unknown || now.State != unknown {
			continue
		}
		if !slices.ContainsFunc(pod.Status.ContainerStatuses, func(st corev1.ContainerStatus) bool {
			return st.State.Running != nil && !st.State.Running.StartedAt.Time.Before(before.LastProbeTime.Time)
		}) {
			return fmt.Errorf("%s forgets that %s was %s", c.Request, k.Name, before.State)
		}
	}
	return nil
}

func onlyStatus(_ *sim.World, c sim.Change) error {
	if c.ByController() && (c.Sub != "status" || c.Kind.Kind != "NodePodProbe") {
		return fmt.Errorf("%s", c.Request)
	}
	return nil
}

// end returns the state that matters at rest.
func end(w *sim.World) string {
	var lines []string
	for _, n := range sim.All[*appsv1alpha1.NodePodProbe](w) {
		for k, s := range states(n) {
			name := "a pod of before"
			if pod := podOf(w, k.Pod); pod != nil {
				name = pod.Name
			}
			lines = append(lines, fmt.Sprintf("%s %s %s %q", name, k.Name, s.State, s.Message))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// uid returns the UID of the i-th object in the simulator.
func uid(i int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i)) }

// started is before the simulated time.
var started = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

func simPod(name string) *corev1.Pod {
	pod := testkit.Pod(name).Obj()
	pod.Spec.NodeName = "node-1"
	pod.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:1"}}
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{
		Name: "app", ContainerID: "containerd://app-1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(started)}},
	}}}
	return pod
}

// probing returns the NodePodProbe with the probes of each pod. pods maps each pod to the index of the object whose UID it has.
func probing(pods map[string]int, probes ...string) *appsv1alpha1.NodePodProbe {
	n := &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	n.Spec = specOf(pods, probes...)
	return n
}

func specOf(pods map[string]int, probes ...string) appsv1alpha1.NodePodProbeSpec {
	var s appsv1alpha1.NodePodProbeSpec
	for _, name := range []string{"a", "b"} {
		if i := pods[name]; i > 0 {
			e := appsv1alpha1.PodProbe{Namespace: testkit.Namespace, Name: name, UID: uid(i), IP: "10.0.0.1"}
			for _, p := range probes {
				e.Probes = append(e.Probes, appsv1alpha1.ContainerProbe{Name: p, ContainerName: "app", Probe: command("check")})
			}
			s.PodProbes = append(s.PodProbes, e)
		}
	}
	return s
}

// says makes all probes of a container find something from now on. The number of the container counts its starts, from 1.
func says(name string, container int, state appsv1alpha1.ProbeState) sim.Edit {
	return sim.Edit{Name: name + " " + string(state), Do: func(ctx context.Context, w *sim.World) error {
		w.Pass(2 * time.Second)
		return sim.Set(ctx, w, types.NamespacedName{Namespace: testkit.Namespace, Name: name}, func(pod *corev1.Pod) {
			pod.Annotations = map[string]string{answers: fmt.Sprintf("containerd://app-%d %s %s", container, state, w.Now().UTC().Format(time.RFC3339))}
		})
	}}
}

// container changes the status of the only container of a pod.
func container(what, name string, change func(*corev1.ContainerStatus, time.Time)) sim.Edit {
	isThere := func(w *sim.World) bool {
		pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: testkit.Namespace, Name: name})
		return pod != nil && len(pod.Status.ContainerStatuses) > 0
	}
	return sim.Edit{Name: name + " " + what, When: isThere, Do: func(ctx context.Context, w *sim.World) error {
		w.Pass(2 * time.Second)
		pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: testkit.Namespace, Name: name}).DeepCopy()
		change(&pod.Status.ContainerStatuses[0], w.Now().Truncate(time.Second))
		return w.User().Status().Update(ctx, pod)
	}}
}

func restarts(name string) sim.Edit {
	return container("restarts", name, func(st *corev1.ContainerStatus, now time.Time) {
		st.ContainerID = "containerd://app-2"
		st.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	})
}

func dies(name string) sim.Edit {
	return container("ends", name, func(st *corev1.ContainerStatus, now time.Time) {
		st.State = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ContainerID: st.ContainerID, FinishedAt: metav1.NewTime(now)}}
	})
}

// probe changes what is probed.
func probe(what string, spec appsv1alpha1.NodePodProbeSpec) sim.Edit {
	return sim.Edit{Name: what, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, types.NamespacedName{Name: "node-1"}, func(n *appsv1alpha1.NodePodProbe) { n.Spec = spec })
	}}
}

func create(o client.Object) sim.Edit {
	return sim.Edit{Name: "create " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
		next := o.DeepCopyObject().(client.Object)
		next.SetResourceVersion("")
		next.SetUID("")
		return w.User().Create(ctx, next)
	}}
}

func remove(o client.Object) sim.Edit {
	return sim.Edit{Name: "delete " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object), client.GracePeriodSeconds(0)))
	}}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	both, first := map[string]int{"a": 1, "b": 2}, map[string]int{"a": 1}
	daemon := otherDaemon()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 3 * time.Second},
		sim.Scenario{
			Name: "results come and go", Objects: []client.Object{simPod("a"), simPod("b"), probing(both, "m#x", "m#y")},
			Edits: []sim.Edit{says("a", 1, success), says("b", 1, failure), says("a", 1, failure), says("a", 1, success)},
		},
		sim.Scenario{
			Name: "a container restarts", Objects: []client.Object{simPod("a"), probing(first, "m#x")},
			Edits: []sim.Edit{says("a", 1, success), restarts("a")},
		},
		sim.Scenario{
			Name: "a container restarts and answers", Objects: []client.Object{simPod("a"), probing(first, "m#x")},
			Edits: []sim.Edit{says("a", 1, success), restarts("a"), says("a", 2, failure)},
		},
		sim.Scenario{
			Name: "a container ends", Objects: []client.Object{simPod("a"), simPod("b"), probing(both, "m#x")},
			Edits: []sim.Edit{says("a", 1, success), dies("a"), dies("b"), restarts("b")},
		},
		sim.Scenario{
			Name: "probes are removed and added", Objects: []client.Object{simPod("a"), simPod("b"), probing(both, "m#x", "m#y")},
			Edits: []sim.Edit{
				says("a", 1, success), probe("one is removed", specOf(both, "m#x")), probe("another is added", specOf(both, "m#x", "n#z")),
				probe("one pod is removed", specOf(first, "m#x", "n#z")),
			},
		},
		sim.Scenario{
			Name: "a pod replaces another", Objects: []client.Object{simPod("a"), simPod("b"), probing(both, "m#x")},
			Edits: []sim.Edit{says("a", 1, success), remove(simPod("a")), create(simPod("a")), probe("it is probed", specOf(map[string]int{"a": 4, "b": 2}, "m#x"))},
		},
		sim.Scenario{
			Name: "the NodePodProbe is re-created", Objects: []client.Object{simPod("a"), probing(first, "m#x")},
			Edits: []sim.Edit{says("a", 1, success), remove(probing(first)), create(probing(first, "m#x"))},
		},
		sim.Scenario{
			Name: "OpenKruise's daemon comes and goes", Objects: []client.Object{simPod("a"), probing(first, "m#x")},
			Edits: []sim.Edit{says("a", 1, success), create(daemon), says("a", 1, failure), remove(daemon)},
		},
	)
}

// otherDaemon is a running pod of OpenKruise's daemon.
func otherDaemon() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-daemon-x"},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{
				Name: "daemon", Command: []string{"/kruise-daemon"}, VolumeMounts: []corev1.VolumeMount{{Name: "run", MountPath: "/hostvarrun"}},
			}},
			Volumes: []corev1.Volume{{Name: "run", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/run"}}}},
		},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
			Name: "daemon", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}}},
	}
}

// faulty does something on each reconcile.
type faulty func(context.Context, *appsv1alpha1.NodePodProbe) error

func (f faulty) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	return reconcile.Result{}, f(ctx, probing(map[string]int{"a": 1}, "m#x"))
}

func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	say := func(n *appsv1alpha1.NodePodProbe, state appsv1alpha1.ProbeState, at time.Time) {
		n.Status.PodProbeStatuses = []appsv1alpha1.PodProbeStatus{{UID: uid(1), ProbeStates: []appsv1alpha1.ContainerProbeState{{
			Name: "m#x", State: state, LastProbeTime: metav1.NewTime(at),
		}}}}
	}
	for name, tc := range map[string]func(sim.Process) faulty{
		"results of a container are not lost": func(p sim.Process) faulty {
			state, next := success, unknown
			return func(ctx context.Context, n *appsv1alpha1.NodePodProbe) error {
				if err := p.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
					return err
				}
				from := n.DeepCopy()
				say(n, state, p.Clock.Now())
				state, next = next, state
				return p.Client.Status().Patch(ctx, n, client.MergeFrom(from))
			}
		},
		"only the status is written": func(p sim.Process) faulty {
			return func(ctx context.Context, n *appsv1alpha1.NodePodProbe) error {
				if err := p.Client.Get(ctx, client.ObjectKeyFromObject(n), n); err != nil {
					return err
				}
				from := n.DeepCopy()
				n.Spec = appsv1alpha1.NodePodProbeSpec{}
				return p.Client.Patch(ctx, n, client.MergeFrom(from))
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			k.New = func(p sim.Process) (reconcile.Reconciler, error) { return tc(p), nil }
			r := sim.Run(t.Context(), k, sim.Scenario{
				Name: name, Objects: []client.Object{simPod("a"), probing(map[string]int{"a": 1}, "m#x")}, Edits: []sim.Edit{says("a", 1, success)},
			}, sim.Schedule{})
			require.ErrorContains(t, r.Err, name)
		})
	}
}
