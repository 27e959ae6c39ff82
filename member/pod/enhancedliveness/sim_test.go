package enhancedliveness

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

const (
	// sick is an annotation of pods in the simulator: how often the container has to be restarted before its probe succeeds.
	sick = "sim/sick"
	// stuck is an annotation of pods: how many requests complete without a restart.
	stuck = "sim/stuck"
	// late is an annotation of pods that are not ready until they are restarted.
	late = "sim/late"
	// owner is the UID of the first object in the simulator.
	owner = "00000000-0000-4000-8000-000000000001"
)

// liveDaemons reports live daemons on all nodes.
type liveDaemons struct{}

func (liveDaemons) Does(string, string) bool { return true }

// simulated returns the CloneSet instance of the controller in the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	require.NoError(tb, appsv1alpha1.AddToScheme(scheme))
	ofPod := func(w *sim.World, key types.NamespacedName) []reconcile.Request {
		for _, pod := range sim.Cached[*corev1.Pod](w) {
			if client.ObjectKeyFromObject(pod) == key {
				return requestsForPod(pod, cloneSets())
			}
		}
		return nil
	}
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Client: p.Client, Live: p.Live, Clock: p.Clock, Events: &testkit.Events{}, Daemons: liveDaemons{}, kind: cloneSets()}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{})
		},
		For: &appsv1beta1.CloneSet{}, Fields: podset.FieldNamedPorts,
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Pod{}: func(_ *sim.World, before, after client.Object) []reconcile.Request {
				if before != nil && after != nil && !podChanged(before, after) {
					return nil
				}
				for _, o := range []client.Object{after, before} {
					if pod, ok := o.(*corev1.Pod); ok {
						return requestsForPod(pod, cloneSets())
					}
				}
				return nil
			},
			&appsv1beta1.ContainerRecreateRequest{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				for _, o := range []client.Object{after, before} {
					if r, ok := o.(*appsv1beta1.ContainerRecreateRequest); ok {
						return ofPod(w, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName})
					}
				}
				return nil
			},
			&appsv1alpha1.NodePodProbe{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				var out []reconcile.Request
				for _, key := range podprobe.Changed(before, after) {
					out = append(out, ofPod(w, key)...)
				}
				return out
			},
		},
		Admit:  sameContainer,
		Actors: []sim.Actor{probing{}, restarting{}},
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			{Name: "no more pods are restarted than the budget allows", Write: checkBudget},
			{Name: "a container is restarted once", Write: checkOnce},
			{Name: "a healthy container is not restarted", Write: checkOnlySick},
		},
		Summary:  summarize,
		Describe: func(c sim.Change) string { return c.News(describe) },
	}
}

// describe returns what a story reports about an object.
func describe(o client.Object) []string {
	switch typed := o.(type) {
	case *corev1.Pod:
		if app(typed) == nil {
			return nil
		}
		return []string{fmt.Sprintf("%s ready=%t restarts=%d", typed.Name, podpatch.Ready(typed), app(typed).RestartCount)}
	case *appsv1beta1.ContainerRecreateRequest:
		return []string{fmt.Sprintf("restart %s done=%t", typed.Annotations[keys.RecreateContainerID], recreate.Done(typed))}
	case *appsv1alpha1.NodePodProbe:
		var out []string
		for _, entry := range typed.Status.PodProbeStatuses {
			for _, p := range entry.ProbeStates {
				out = append(out, fmt.Sprintf("%s: %s", p.Name, p.State))
			}
		}
		return out
	}
	return nil
}

// sameContainer acts as the webhook of ContainerRecreateRequests.
func sameContainer(_ *sim.World, q sim.Request, old, created client.Object) error {
	r, ok := created.(*appsv1beta1.ContainerRecreateRequest)
	if !ok || old != nil || q.Verb != sim.Create {
		return nil
	}
	if r.Annotations[keys.RecreateContainerID] == "" {
		return apierrors.NewBadRequest("no container is named")
	}
	return nil
}

func app(pod *corev1.Pod) *corev1.ContainerStatus { return inplace.Status(pod, "app") }

func number(pod *corev1.Pod, annotation string) int {
	n, _ := strconv.Atoi(pod.Annotations[annotation])
	return n
}

func isSick(pod *corev1.Pod) bool { return int(app(pod).RestartCount) < number(pod, sick) }

// probing acts as the controller of NodePodProbes and the node daemon: it has a result for each container that has started up.
type probing struct{}

func (probing) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, n := range sim.All[*appsv1alpha1.NodePodProbe](w) {
		next := n.DeepCopy()
		next.Status.PodProbeStatuses = nil
		for _, pod := range sim.All[*corev1.Pod](w) {
			id := podprobe.Started(pod, "app")
			if id == "" || pod.DeletionTimestamp != nil {
				continue
			}
			state := appsv1alpha1.ProbeSucceeded
			if isSick(pod) {
				state = appsv1alpha1.ProbeFailed
			}
			name := podprobe.LivenessName("app", id)
			current := appsv1alpha1.ContainerProbeState{Name: name, State: state, LastTransitionTime: metav1.NewTime(w.Now()).Rfc3339Copy()}
			if before := podprobe.State(podprobe.Results(n, pod.UID), name); before != nil && before.State == state {
				current = *before
			}
			next.Status.PodProbeStatuses = append(next.Status.PodProbeStatuses, appsv1alpha1.PodProbeStatus{
				Name: pod.Name, Namespace: pod.Namespace, UID: pod.UID, ProbeStates: []appsv1alpha1.ContainerProbeState{current},
			})
		}
		if fmt.Sprint(next.Status) != fmt.Sprint(n.Status) {
			out = append(out, sim.Step{Name: "results", Do: func(ctx context.Context) error {
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
		}
	}
	return out
}

// restarting acts as the daemon that carries out requests, the kubelet, and the webhook's part of a request.
type restarting struct{}

func (restarting) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	write := func(name string, o client.Object, status bool) {
		out = append(out, sim.Step{Name: name, Do: func(ctx context.Context) error {
			if status {
				return client.IgnoreNotFound(w.User().Status().Update(ctx, o))
			}
			return client.IgnoreNotFound(w.User().Update(ctx, o))
		}})
	}
	for _, pod := range sim.All[*corev1.Pod](w) {
		if app(pod) == nil {
			next := pod.DeepCopy()
			next.Status = simPod(pod.Name, 0).Status
			if pod.Annotations[late] != "" {
				ready(next, corev1.ConditionFalse)
			}
			write("start "+pod.Name, next, true)
			continue
		}
		if app(pod).State.Running == nil && pod.DeletionTimestamp == nil {
			next := pod.DeepCopy()
			st := app(next)
			st.RestartCount++
			st.ContainerID = fmt.Sprintf("containerd://%s-%d", pod.Name, st.RestartCount)
			st.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.Now()).Rfc3339Copy()}}
			st.Ready, st.Started = true, new(true)
			ready(next, corev1.ConditionTrue)
			write("start "+pod.Name, next, true)
		}
	}
	for _, r := range sim.All[*appsv1beta1.ContainerRecreateRequest](w) {
		pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName})
		if recreate.Done(r) || pod == nil || app(pod) == nil {
			continue
		}
		next := r.DeepCopy()
		switch st := app(pod); {
		case r.Spec.Containers[0].StatusContext == nil:
			next.Spec.Containers[0].StatusContext = &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: r.Annotations[keys.RecreateContainerID]}
			write("fill in "+r.Name, next, false)
		case number(pod, stuck) > 0 && st.State.Running != nil:
			healed := pod.DeepCopy()
			healed.Annotations[stuck] = strconv.Itoa(number(pod, stuck) - 1)
			complete(w, next, appsv1beta1.RecreateFailed)
			out = append(out, sim.Step{Name: "fail " + r.Name, Do: func(ctx context.Context) error {
				if err := w.User().Update(ctx, healed); err != nil {
					return client.IgnoreNotFound(err)
				}
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
		case st.State.Running == nil:
		case st.ContainerID == r.Spec.Containers[0].StatusContext.ContainerID:
			stopped := pod.DeepCopy()
			app(stopped).State, app(stopped).Ready, app(stopped).Started = corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{}}, false, new(false)
			ready(stopped, corev1.ConditionFalse)
			write("stop "+pod.Name, stopped, true)
		default:
			complete(w, next, appsv1beta1.RecreateSucceeded)
			write("complete "+r.Name, next, true)
		}
	}
	return out
}

func complete(w *sim.World, r *appsv1beta1.ContainerRecreateRequest, phase appsv1beta1.ContainerRecreateRequestPhase) {
	r.Status.Phase, r.Status.CompletionTime = appsv1beta1.RecreateCompleted, new(metav1.NewTime(w.Now()).Rfc3339Copy())
	r.Status.ContainerRecreateStates = []appsv1beta1.ContainerRecreateRequestState{{Name: "app", Phase: phase}}
}

func ready(pod *corev1.Pod, s corev1.ConditionStatus) {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == corev1.PodReady {
			pod.Status.Conditions[i].Status = s
		}
	}
}

// createdRequest returns the request that a write of the controller created, and its pod.
func createdRequest(w *sim.World, c sim.Change) (*appsv1beta1.ContainerRecreateRequest, *corev1.Pod) {
	r, ok := c.After.(*appsv1beta1.ContainerRecreateRequest)
	if !ok || c.Before != nil || !c.ByController() || c.Late || c.Err != nil {
		return nil, nil
	}
	return r, sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName})
}

func checkBudget(w *sim.World, c sim.Change) error {
	r, target := createdRequest(w, c)
	if r == nil || target == nil || !podpatch.Ready(target) {
		return nil
	}
	out := 0
	for _, pod := range sim.All[*corev1.Pod](w) {
		busy := slices.ContainsFunc(sim.All[*appsv1beta1.ContainerRecreateRequest](w), func(r *appsv1beta1.ContainerRecreateRequest) bool {
			return r.Spec.PodName == pod.Name && !recreate.Done(r)
		})
		if busy || !podpatch.Ready(pod) {
			out++
		}
	}
	if out > 1 {
		return fmt.Errorf("%s: %d pods are out of service", c.Request, out)
	}
	return nil
}

func checkOnce(w *sim.World, c sim.Change) error {
	r, _ := createdRequest(w, c)
	if r == nil {
		return nil
	}
	for _, other := range sim.All[*appsv1beta1.ContainerRecreateRequest](w) {
		if other.Name != r.Name && other.Spec.PodName == r.Spec.PodName && other.Annotations[keys.RecreateContainerID] == r.Annotations[keys.RecreateContainerID] {
			return fmt.Errorf("%s: %s is for the same container", c.Request, other.Name)
		}
	}
	return nil
}

func checkOnlySick(w *sim.World, c sim.Change) error {
	r, pod := createdRequest(w, c)
	if r == nil || pod == nil || app(pod) == nil || app(pod).ContainerID == r.Annotations[keys.RecreateContainerID] && isSick(pod) {
		return nil
	}
	return fmt.Errorf("%s: the container is %s and healthy", c.Request, app(pod).ContainerID)
}

func summarize(w *sim.World) string {
	var lines []string
	for _, pod := range sim.All[*corev1.Pod](w) {
		lines = append(lines, fmt.Sprintf("%s restarts=%d ready=%t sick=%t", pod.Name, app(pod).RestartCount, podpatch.Ready(pod), isSick(pod)))
	}
	for _, r := range sim.All[*appsv1beta1.ContainerRecreateRequest](w) {
		lines = append(lines, fmt.Sprintf("%s done=%t of %s", r.Name[:len("web-0-liveness")], recreate.Done(r), r.Annotations[keys.RecreateContainerID]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// simPod returns a pod that serves and whose container has to be restarted that often.
func simPod(name string, times int, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := testkit.Pod(name).OwnedBy(owner).Annotation(keys.ContainerProbeContext, probes).Annotation(sick, strconv.Itoa(times)).Node("node-1").Ready(noon).Obj()
	pod.ResourceVersion = ""
	app(pod).ContainerID = "containerd://" + name + "-0"
	for _, c := range change {
		c(pod)
	}
	return pod
}

func stories() []sim.Scenario {
	with := func(pods ...client.Object) []client.Object {
		set := testkit.CloneSet("web").Replicas(int32(len(pods))).Rolling("0", "1", "0").Obj()
		set.ResourceVersion = ""
		return append([]client.Object{set, &appsv1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}}, pods...)
	}
	notReady := func(pod *corev1.Pod) { pod.Annotations[late] = "true" }
	sicken := func(pod string, times int) sim.Edit {
		return sim.Edit{Name: pod + " is sick", Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Namespace: testkit.Namespace, Name: pod}, func(p *corev1.Pod) { p.Annotations[sick] = strconv.Itoa(times) })
		}}
	}
	return []sim.Scenario{
		{Name: "one container fails", Objects: with(simPod("web-0", 1), simPod("web-1", 0), simPod("web-2", 0))},
		{Name: "all containers fail at once", Objects: with(simPod("web-0", 1), simPod("web-1", 1), simPod("web-2", 1))},
		{Name: "a container fails again", Objects: with(simPod("web-0", 2), simPod("web-1", 1))},
		{Name: "other pods are not ready", Objects: with(simPod("web-0", 1), simPod("web-1", 1, notReady), simPod("web-2", 1, notReady))},
		{
			Name: "a request has no effect", Objects: with(simPod("web-0", 1, func(pod *corev1.Pod) { pod.Annotations[stuck] = "1" }), simPod("web-1", 0)),
		},
		{Name: "containers fail one after another", Objects: with(simPod("web-0", 0), simPod("web-1", 0)), Edits: []sim.Edit{sicken("web-0", 1), sicken("web-1", 1)}},
		{Name: "an invalid annotation", Objects: with(simPod("web-0", 0, func(pod *corev1.Pod) { pod.Annotations[keys.ContainerProbeContext] = "{" }), simPod("web-1", 1))},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 45 * time.Second}, stories()...)
}

func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	make := func(pod, name, id string) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			err := c.Create(ctx, &appsv1beta1.ContainerRecreateRequest{
				ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: name, Annotations: map[string]string{keys.RecreateContainerID: id}},
				Spec:       appsv1beta1.ContainerRecreateRequestSpec{PodName: pod, Containers: []appsv1beta1.ContainerRecreateRequestContainer{{Name: "app"}}},
			})
			return client.IgnoreAlreadyExists(err)
		}
	}
	both := func(all ...func(context.Context, client.Client) error) func(context.Context, client.Client) error {
		return func(ctx context.Context, c client.Client) error {
			for _, do := range all {
				if err := do(ctx, c); err != nil {
					return err
				}
			}
			return nil
		}
	}
	for rule, do := range map[string]func(context.Context, client.Client) error{
		"no more pods are restarted":    both(make("web-0", "web-0-liveness-1", "containerd://web-0-0"), make("web-1", "web-1-liveness-1", "containerd://web-1-0")),
		"a container is restarted once": both(make("web-0", "web-0-liveness-1", "containerd://web-0-0"), make("web-0", "web-0-liveness-2", "containerd://web-0-0")),
		"a healthy container":           make("web-2", "web-2-liveness-1", "containerd://web-2-0"),
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				return reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
					var pods corev1.PodList
					if err := p.Live.List(ctx, &pods); err != nil || slices.ContainsFunc(pods.Items, func(pod corev1.Pod) bool { return app(&pod) == nil }) {
						return reconcile.Result{}, err
					}
					return reconcile.Result{}, do(ctx, p.Client)
				}), nil
			}
			s := stories()[1]
			s.Objects[4].GetAnnotations()[sick] = "0"
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, rule)
		})
	}
}
