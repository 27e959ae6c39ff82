package podcontrol

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/metric"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// unitBudget is a judge that grants as many requests as it has units, and records which ones it granted.
type unitBudget struct {
	left     int
	blind    bool
	err      error
	granted  []string
	foreseen int
}

func (u *unitBudget) refusal() *podwebhook.Refusal {
	return &podwebhook.Refusal{Message: "budget web allows none"}
}

// Check implements podwebhook.Judge.
func (u *unitBudget) Check(_ context.Context, r podwebhook.Request) (*podwebhook.Refusal, error) {
	if u.err != nil || u.left == 0 {
		return u.refusal(), u.err
	}
	u.left--
	u.granted = append(u.granted, string(r.Operation)+" "+r.Old.Name)
	return nil, nil
}

// Forecast implements podwebhook.Judge.
func (u *unitBudget) Forecast(_ context.Context, requests []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	u.foreseen += len(requests)
	out := make([]*podwebhook.Refusal, len(requests))
	for i := range requests {
		if i >= u.left && !u.blind {
			out[i] = u.refusal()
		}
	}
	return out, u.err
}

func guardsOf(u *unitBudget) podwebhook.Guards {
	return podwebhook.Guards{{
		Guard: podwebhook.Guard{Feature: "Budget", Gates: podwebhook.Gates{podwebhook.Delete: "", podwebhook.Update: ""}}, Judge: u,
	}}
}

// recordingQueue is a queue that records what is added.
type recordingQueue struct {
	workqueue.TypedRateLimitingInterface[ctrl.Request]

	added []ctrl.Request
}

// Add records a request.
func (r *recordingQueue) Add(one ctrl.Request) { r.added = append(r.added, one) }

// updatePlan is a plan with steps of one kind for three pods, which get a new image.
func updatePlan(kind rollout.StepKind) *podset.Plan {
	p := &podset.Plan{Revision: revision.Step{Revision: &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Name: "web-2"}}}}
	for _, name := range []string{"p00", "p01", "p02"} {
		object := pod(name)
		object.Spec = corev1.PodSpec{
			Containers: []corev1.Container{{Name: "app", Image: "app:1"}}, ReadinessGates: []corev1.PodReadinessGate{{ConditionType: "InPlaceUpdateReady"}},
		}
		p.Steps = append(p.Steps, podset.Step{Step: rollout.Step{Kind: kind, Reason: rollout.ReasonInPlace}, Pod: &podset.Pod{
			Pod: rollout.Pod{Key: name}, Object: object, InPlace: inplace.Update{Images: map[string]string{"app": "app:2"}},
		}})
	}
	return p
}

func TestStepsThatAGuardWouldRefuseAreHeld(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		kind    rollout.StepKind
		units   unitBudget
		done    []string
		refused int
		granted []string
		failed  bool
	}{
		{name: "deletes beyond the forecast are not sent", kind: rollout.StepDelete, units: unitBudget{left: 2}, done: []string{"p00", "p01"}, refused: 1},
		{name: "pods are taken out of service when the guard allows it", kind: rollout.StepMarkUnready, units: unitBudget{left: 2}, done: []string{"p00", "p01"}, refused: 1, granted: []string{"UPDATE p00", "UPDATE p01"}},
		{name: "the decision counts, not the forecast", kind: rollout.StepMarkUnready, units: unitBudget{left: 1, blind: true}, done: []string{"p00"}, refused: 2, granted: []string{"UPDATE p00"}},
		{name: "without a forecast deletes are attempted", kind: rollout.StepDelete, units: unitBudget{err: errors.New("no index")}, done: []string{"p00", "p01", "p02"}},
		{name: "without a decision pods stay in service", kind: rollout.StepMarkUnready, units: unitBudget{err: errors.New("no index")}, failed: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			sent := 0
			w, _ := writer(interceptor.Funcs{
				Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
					sent++
					return nil
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					sent++
					return nil
				},
			})
			w.Parallel = 1
			a := Applier{Writer: w, Owner: owner, Guards: guardsOf(&tc.units)}
			p := updatePlan(tc.kind)
			var r Results
			a.Delete(t.Context(), p.Steps, &r)
			a.Patch(t.Context(), p, time.Unix(1000, 0), &r)
			require.Equal(t, tc.done, r.Of(tc.kind, "").Done)
			require.Len(t, r.Of(tc.kind, "").Refused, tc.refused)
			require.Equal(t, len(tc.done), sent)
			require.Equal(t, tc.granted, tc.units.granted)
			require.Equal(t, tc.failed, r.Err() != nil)
			require.Equal(t, tc.refused > 0, r.Recheck() > 0)
		})
	}
}

func TestWhatAStepDoesInTheEyesOfAGuard(t *testing.T) {
	t.Parallel()
	image := inplace.Update{Images: map[string]string{"app": "app:2"}}
	larger := inplace.Update{Resources: map[string]corev1.ResourceRequirements{"app": {}}}
	value := inplace.Update{Labels: map[string]*string{"a": nil}}
	for _, tc := range []struct {
		kind rollout.StepKind
		to   inplace.Update
		want podwebhook.Operation
	}{
		{rollout.StepDelete, image, podwebhook.Delete},
		{rollout.StepPrepareUpdate, image, podwebhook.Update},
		{rollout.StepMarkUnready, image, podwebhook.Update},
		{rollout.StepUpdateInPlace, image, podwebhook.Update},
		{rollout.StepUpdateInPlace, larger, podwebhook.Resize},
		{rollout.StepUpdateInPlace, value, ""},
		{rollout.StepMarkReady, image, ""},
		{rollout.StepPrepareDelete, image, ""},
	} {
		require.Equal(t, tc.want, operation(&podset.Step{Step: rollout.Step{Kind: tc.kind}, Pod: &podset.Pod{Object: pod("a"), InPlace: tc.to}}), tc.kind)
	}
}

// TestHeldPodsAreToldOnceAndWoken: an object whose pods wait is reconciled again when the guarding object changes, and reports the wait once.
func TestHeldPodsAreToldOnceAndWoken(t *testing.T) {
	t.Parallel()
	events := &testkit.Events{}
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: owner, ResourceVersion: "1"}}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := &Controller{Controller: &control.Controller{Client: fake.NewClientBuilder().WithObjects(set.DeepCopy()).Build(), Clock: clock, Expect: expect.New("Test", clock, 0), Events: events}}
	measure := metric.NewPlanning("test", "Test")
	report := func(waits bool) {
		var r Results
		if waits {
			r.refused = []string{"p00: budget web allows none"}
		}
		_, err := c.Report(t.Context(), measure, &r, control.Outcome{Object: set, Was: set.Status, Is: set.Status})
		require.NoError(t, err)
	}
	woken := func(namespace string) []ctrl.Request {
		q := &recordingQueue{}
		c.held.wakeNamespace().Generic(t.Context(), event.GenericEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}}, q)
		return q.added
	}
	report(false)
	require.Empty(t, woken("shop"))
	report(true)
	report(true)
	require.Equal(t, []string{"Refused"}, events.Reasons())
	require.Equal(t, []ctrl.Request{{NamespacedName: types.NamespacedName{Namespace: "shop", Name: "web"}}}, woken("shop"))
	require.Empty(t, woken("bank"))
	report(false)
	require.Empty(t, woken("shop"))
	report(true)
	require.Len(t, events.Reasons(), 2)
}

// TestARefusalThatLastsIsToldInTheCondition: a budget's refusal is in the condition once it has lasted a while, with the same text on each
// attempt.
func TestARefusalThatLastsIsToldInTheCondition(t *testing.T) {
	t.Parallel()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: owner, ResourceVersion: "1"}}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	c := &Controller{Controller: &control.Controller{Client: fake.NewClientBuilder().WithObjects(set.DeepCopy()).Build(), Clock: clock, Expect: expect.New("Test", clock, 0), Events: &testkit.Events{}}}
	measure := metric.NewPlanning("test", "Told")
	conditionAt := func(at int64, refused ...string) string {
		clock.SetTime(time.Unix(1000+at, 0))
		r := Results{refused: refused}
		c.Waits(client.ObjectKeyFromObject(set), &r, clock.Now())
		_, err := c.Report(t.Context(), measure, &r, control.Outcome{Object: set, Was: set.Status, Is: set.Status})
		require.NoError(t, err)
		if r.Waits.Reason != "" {
			require.Equal(t, "Refused", r.Waits.Reason)
		}
		return r.Waits.Message
	}
	budget := func(name, pod string) string {
		return `delete ` + pod + `: admission webhook "vpod.kb.io" denied the request: ` + podwebhook.BudgetMessage(name, "2 of 3 are available")
	}
	require.Empty(t, conditionAt(0, budget("web", "p00")))
	require.Empty(t, conditionAt(9, budget("web", "p00")))
	one := "pods wait for PodUnavailableBudget web, which allows no more of them to become unavailable now"
	require.Equal(t, one, conditionAt(10, budget("web", "p00")))
	require.Equal(t, one, conditionAt(20, budget("web", "p01"), budget("web", "p02")), "regardless of which pods wait")
	require.Equal(t, "pods wait for PodUnavailableBudgets that allow no more of them to become unavailable now: api, web", conditionAt(30, budget("web", "p01"), budget("api", "p02")))
	require.Empty(t, conditionAt(40), "nothing waits any longer")
	require.Empty(t, conditionAt(50, budget("web", "p00")), "the time starts again")

	other := WaitsFor([]string{"p00: no, said at 10:00"})
	first := other.After(nil, clock.Now())
	require.Equal(t, "pods wait because their change is refused for now: p00: no, said at 10:00", first.Message)
	require.Equal(t, first, WaitsFor([]string{"p01: no, said at 10:01"}).After(first, clock.Now().Add(time.Minute)),
		"a message that differs only in what others said is not a change")
}
