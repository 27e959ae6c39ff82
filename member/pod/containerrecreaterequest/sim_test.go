package containerrecreaterequest

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

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// silent is a label of requests that no daemon answers in the simulator. With value begins, no daemon answers after they have begun.
const (
	silent = "silent"
	begins = "begins"
)

// simulated returns the controller in the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Client: p.Client, Live: p.Live, Clock: p.Clock, Events: &testkit.Events{}}, nil
		},
		Index: index,
		For:   &appsv1beta1.ContainerRecreateRequest{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Pod{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				pod := after
				if pod == nil {
					pod = before
				}
				out := holders(pod)
				for _, r := range sim.Cached[*appsv1beta1.ContainerRecreateRequest](w) {
					if r.Spec.PodName == pod.GetName() {
						out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)})
					}
				}
				return out
			},
		},
		Actors: []sim.Actor{daemon{}},
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			{Name: "a pod is unready only while the request has the finalizer", Write: checkFinalizer},
			{Name: "only requests that can't continue are completed", Write: checkCompletion},
			{Name: "the daemon's states stay", Write: checkStates},
		},
		Summary: summarize,
	}
}

// daemon acts as the node daemon and the kubelet: it carries out the requests for a pod one after another, and restarts containers.
type daemon struct{}

func (daemon) Steps(w *sim.World) []sim.Step {
	requests := sim.All[*appsv1beta1.ContainerRecreateRequest](w)
	slices.SortFunc(requests, func(a, b *appsv1beta1.ContainerRecreateRequest) int { return strings.Compare(a.Name, b.Name) })
	var out []sim.Step
	for _, pod := range sim.All[*corev1.Pod](w) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		if len(pod.Status.ContainerStatuses) == 0 {
			next := pod.DeepCopy()
			next.Status = target().Status
			out = append(out, sim.Step{Name: "start", Do: func(ctx context.Context) error {
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
			continue
		}
		var first *appsv1beta1.ContainerRecreateRequest
		for _, r := range requests {
			switch {
			case r.Labels[silent] == "true" || r.Labels[keys.RecreatePodUID] != string(pod.UID) || r.Labels[keys.RecreateActive] == "" || recreate.Done(r):
			case r.DeletionTimestamp != nil:
			case first == nil:
				first = r
			case r.Status.Phase == "":
				out = append(out, phase(w, r, appsv1beta1.RecreatePending))
			}
		}
		switch {
		case first == nil:
		case first.Status.Phase != appsv1beta1.RecreateRecreating:
			out = append(out, phase(w, first, appsv1beta1.RecreateRecreating))
		case first.Labels[silent] == begins:
		case wantsUnready(first) && !report.IsConditionTrue(first.Status.Conditions, appsv1beta1.RecreatePreGrace):
		case pod.Status.ContainerStatuses[0].ContainerID == first.Spec.Containers[0].StatusContext.ContainerID:
			next := pod.DeepCopy()
			st := &next.Status.ContainerStatuses[0]
			st.RestartCount++
			st.ContainerID = fmt.Sprintf("containerd://app-%d", st.RestartCount)
			st.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.Now().Truncate(time.Second).Add(time.Second))}
			out = append(out, sim.Step{Name: "restart", Do: func(ctx context.Context) error {
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
		default:
			out = append(out, phase(w, first, appsv1beta1.RecreateCompleted))
		}
	}
	return out
}

func phase(w *sim.World, r *appsv1beta1.ContainerRecreateRequest, p appsv1beta1.ContainerRecreateRequestPhase) sim.Step {
	next := r.DeepCopy()
	next.Status.Phase = p
	next.Status.ContainerRecreateStates = []appsv1beta1.ContainerRecreateRequestState{{Name: "app", Phase: p}}
	if p == appsv1beta1.RecreateCompleted {
		next.Status.CompletionTime = new(metav1.NewTime(w.Now()).Rfc3339Copy())
	}
	return sim.Step{Name: r.Name + " " + string(p), Do: func(ctx context.Context) error {
		return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
	}}
}

// checkFinalizer: a pod becomes unready for a request only while the request has the finalizer, which stays until the pod is no longer kept
// unready.
func checkFinalizer(w *sim.World, c sim.Change) error {
	if done := c.ByController() && !c.Late && c.Err == nil; !done {
		return nil
	}
	if r, ok := c.Before.(*appsv1beta1.ContainerRecreateRequest); ok && slices.Contains(r.Finalizers, keys.RecreateUnready) {
		after, _ := c.After.(*appsv1beta1.ContainerRecreateRequest)
		pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: r.Namespace, Name: r.Spec.PodName})
		if (after == nil || !slices.Contains(after.Finalizers, keys.RecreateUnready)) && pod != nil && pod.DeletionTimestamp == nil &&
			lifecycle.Blocks(pod, recreate.Agent, recreate.Key(r)) {
			return fmt.Errorf("%s lets go of %s, whose pod is not ready", c.Request, r.Name)
		}
	}
	before, isPod := c.Before.(*corev1.Pod)
	after, stays := c.After.(*corev1.Pod)
	if !isPod || !stays {
		return nil
	}
	for _, req := range holders(after) {
		r := sim.Find[*appsv1beta1.ContainerRecreateRequest](w, req.NamespacedName)
		if !lifecycle.Blocks(before, recreate.Agent, req.String()) && (r == nil || !slices.Contains(r.Finalizers, keys.RecreateUnready)) {
			return fmt.Errorf("%s makes the pod not ready for %s, which has no finalizer", c.Request, req)
		}
	}
	return nil
}

// checkCompletion: the controller completes a request when its pod is gone or its time is over, and not before.
func checkCompletion(w *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1beta1.ContainerRecreateRequest)
	after, stays := c.After.(*appsv1beta1.ContainerRecreateRequest)
	if !ok || !stays || !c.ByController() || recreate.Done(before) || !recreate.Done(after) {
		return nil
	}
	pod := sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: after.Namespace, Name: after.Spec.PodName})
	age := w.Now().Sub(after.CreationTimestamp.Time)
	late := after.Spec.ActiveDeadlineSeconds != nil && age >= time.Duration(*after.Spec.ActiveDeadlineSeconds)*time.Second
	gone := pod == nil || pod.DeletionTimestamp != nil || string(pod.UID) != after.Labels[keys.RecreatePodUID]
	if !gone && !late && (before.Status.Phase != "" || age < silence) {
		return fmt.Errorf("%s completes %s after %s: %s", c.Request, after.Name, age, after.Status.Message)
	}
	return nil
}

// checkStates: only the daemon writes the states of containers.
func checkStates(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1beta1.ContainerRecreateRequest)
	after, stays := c.After.(*appsv1beta1.ContainerRecreateRequest)
	if ok && stays && c.ByController() && fmt.Sprint(before.Status.ContainerRecreateStates) != fmt.Sprint(after.Status.ContainerRecreateStates) {
		return fmt.Errorf("%s changes the states of %s", c.Request, after.Name)
	}
	return nil
}

// summarize returns what matters at rest. That doesn't include the snapshot: the daemon may be done before it is written.
func summarize(w *sim.World) string {
	var lines []string
	for _, pod := range sim.All[*corev1.Pod](w) {
		if pod.DeletionTimestamp != nil {
			continue
		}
		c := podpatch.Find(pod, keys.KruisePodReady)
		lines = append(lines, fmt.Sprintf("%s restarts=%d gate=%s", pod.Name, pod.Status.ContainerStatuses[0].RestartCount, c.Status))
	}
	for _, r := range sim.All[*appsv1beta1.ContainerRecreateRequest](w) {
		lines = append(lines, fmt.Sprintf("%s %s %q finalizers=%v active=%q", r.Name, r.Status.Phase, r.Status.Message, r.Finalizers,
			r.Labels[keys.RecreateActive]))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// uid is the UID of the first object in the simulator.
const uid = "00000000-0000-4000-8000-000000000001"

func target() *corev1.Pod {
	pod := testkit.Pod("web").Obj()
	pod.Spec.NodeName = "node-1"
	pod.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.KruisePodReady}}
	pod.Status = corev1.PodStatus{
		Phase: corev1.PodRunning,
		Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue}, {Type: keys.KruisePodReady, Status: corev1.ConditionTrue},
		},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: "app", Ready: true, ContainerID: "containerd://app-0", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		}},
	}
	return pod
}

func again(name string, change ...func(*appsv1beta1.ContainerRecreateRequest)) *appsv1beta1.ContainerRecreateRequest {
	r := &appsv1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: name, Labels: map[string]string{
			keys.RecreatePodUID: uid, keys.RecreateNode: "node-1", keys.RecreateActive: "true",
		}},
		Spec: appsv1beta1.ContainerRecreateRequestSpec{
			PodName: "web", Strategy: &appsv1beta1.ContainerRecreateRequestStrategy{FailurePolicy: appsv1beta1.RecreateFail},
			Containers: []appsv1beta1.ContainerRecreateRequestContainer{{
				Name: "app", StatusContext: &appsv1beta1.ContainerRecreateRequestContainerContext{ContainerID: "containerd://app-0"},
			}},
		},
	}
	for _, c := range change {
		c(r)
	}
	return r
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	graceful := func(r *appsv1beta1.ContainerRecreateRequest) {
		r.Spec.Strategy.UnreadyGracePeriodSeconds = new(int64(5))
	}
	unanswered := func(r *appsv1beta1.ContainerRecreateRequest) { r.Labels[silent] = "true" }
	ttl := func(r *appsv1beta1.ContainerRecreateRequest) { r.Spec.TTLSecondsAfterFinished = new(int32(60)) }
	deadline := func(r *appsv1beta1.ContainerRecreateRequest) { r.Spec.ActiveDeadlineSeconds = new(int64(30)) }
	another := func(r *appsv1beta1.ContainerRecreateRequest) { r.Labels[keys.RecreatePodUID] = "another" }
	begun := func(r *appsv1beta1.ContainerRecreateRequest) { r.Labels[silent] = begins }
	create := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "create " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return w.User().Create(ctx, o.DeepCopyObject().(client.Object))
		}}
	}
	remove := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "delete " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object)))
		}}
	}
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 75 * time.Second},
		sim.Scenario{Name: "one", Objects: []client.Object{target(), again("a")}},
		sim.Scenario{Name: "a request with an unready grace period", Objects: []client.Object{target(), again("a", graceful)}},
		sim.Scenario{Name: "two requests for one pod", Objects: []client.Object{target(), again("a", graceful), again("b", graceful)}},
		sim.Scenario{Name: "a request is deleted after its TTL", Objects: []client.Object{target(), again("a", ttl, graceful)}},
		sim.Scenario{Name: "no daemon answers", Objects: []client.Object{target(), again("a", unanswered, graceful)}},
		sim.Scenario{Name: "the deadline passes", Objects: []client.Object{target(), again("a", begun, deadline, graceful)}},
		sim.Scenario{Name: "a request for an earlier pod", Objects: []client.Object{target(), again("a", another)}},
		sim.Scenario{
			Name: "a request is deleted while it waits", Objects: []client.Object{target(), again("a", begun, graceful)},
			Edits: []sim.Edit{remove(again("a"))},
		},
		sim.Scenario{
			Name: "the pod is deleted", Objects: []client.Object{target(), again("a", begun, graceful)}, Edits: []sim.Edit{remove(target())},
		},
		sim.Scenario{
			Name: "another request follows", Objects: []client.Object{target(), again("a", graceful)}, Edits: []sim.Edit{create(again("b", graceful))},
		},
	)
}
