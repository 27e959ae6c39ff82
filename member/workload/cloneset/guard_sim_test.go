package cloneset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// mustStay is how many ready pods the budget of these stories preserves.
const mustStay = 3

// grantFor is how long a grant counts for a pod that is still ready, or is ready again. It is shorter than podcontrol.RefusedRecheck.
const grantFor = 5 * time.Second

// budget returns a PodDisruptionBudget, which stands for any kind that guards pods. Its status records how many disruptions are left, and
// which pods it has granted.
func budget() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}}
}

func serves(p *corev1.Pod, now time.Time) bool {
	return p.DeletionTimestamp == nil && podset.View(p, podset.Rules{}, now).Ready
}

// budgetController counts the pods of the budget.
type budgetController struct{}

// Steps implements sim.Actor.
func (budgetController) Steps(w *sim.World) []sim.Step {
	live := sim.Find[*policyv1.PodDisruptionBudget](w, key)
	if live == nil {
		return nil
	}
	next := live.DeepCopy()
	ready := map[string]bool{}
	for _, p := range sim.All[*corev1.Pod](w) {
		ready[p.Name] = serves(p, w.Now()) && owned(w, p)
	}
	maps.DeleteFunc(ready, func(_ string, ok bool) bool { return !ok })
	maps.DeleteFunc(next.Status.DisruptedPods, func(name string, at metav1.Time) bool {
		return !ready[name] || w.Now().Sub(at.Time) > grantFor
	})
	next.Status.CurrentHealthy = int32(len(ready) - len(next.Status.DisruptedPods))
	next.Status.DisruptionsAllowed = max(next.Status.CurrentHealthy-mustStay, 0)
	if equality.Semantic.DeepEqual(live.Status, next.Status) {
		return nil
	}
	return []sim.Step{{Name: "budget: counts", Do: func(ctx context.Context) error { return w.User().Status().Update(ctx, next) }}}
}

// judge answers for the budget, like a webhook and a forecast do.
type judge struct{ sim.Process }

// Check implements podwebhook.Judge.
func (j judge) Check(ctx context.Context, r podwebhook.Request) (*podwebhook.Refusal, error) {
	b := budget()
	if err := j.Live.Get(ctx, key, b); err != nil {
		return nil, err
	}
	refusal, took := j.consume(b, r)
	if !took {
		return refusal, nil
	}
	return nil, j.Client.Status().Update(ctx, b)
}

// Forecast implements podwebhook.Judge.
func (j judge) Forecast(ctx context.Context, requests []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	b := budget()
	if err := j.Client.Get(ctx, key, b); err != nil {
		return nil, err
	}
	out := make([]*podwebhook.Refusal, len(requests))
	for i, r := range requests {
		out[i], _ = j.consume(b, r)
	}
	return out, nil
}

func (j judge) consume(b *policyv1.PodDisruptionBudget, r podwebhook.Request) (refusal *podwebhook.Refusal, took bool) {
	if _, granted := b.Status.DisruptedPods[r.Old.Name]; granted || !serves(r.Old, j.Clock.Now()) {
		return nil, false
	}
	if b.Status.DisruptionsAllowed == 0 {
		return &podwebhook.Refusal{Message: "the budget web allows none"}, false
	}
	b.Status.DisruptionsAllowed--
	if b.Status.DisruptedPods == nil {
		b.Status.DisruptedPods = map[string]metav1.Time{}
	}
	b.Status.DisruptedPods[r.Old.Name] = metav1.NewTime(j.Clock.Now())
	return nil, true
}

// guardedClient asks the judge about deletions, like an apiserver with the webhook does.
type guardedClient struct {
	client.Client
	judge judge
}

// Delete implements client.Client.
func (c guardedClient) Delete(ctx context.Context, o client.Object, opts ...client.DeleteOption) error {
	if pod, ok := o.(*corev1.Pod); ok {
		refusal, err := c.judge.Check(ctx, podwebhook.Request{Operation: podwebhook.Delete, Old: pod})
		if err != nil {
			return err
		}
		if refusal != nil {
			err := apierrors.NewForbidden(corev1.Resource("pods"), pod.Name, fmt.Errorf("denied: %s", refusal.Message))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: refusal.Cause}}
			return err
		}
	}
	return c.Client.Delete(ctx, o, opts...)
}

// guardedKind returns the kind with the budget. With forecasts it holds pods beforehand; without them it learns only from the answers.
func guardedKind(t *testing.T, change func(*podwebhook.Guards)) sim.Kind {
	t.Helper()
	kind := simulated(t)
	started := kind.New
	kind.New = func(p sim.Process) (reconcile.Reconciler, error) {
		r, err := started(p)
		own := r.(*Reconciler)
		own.Client = guardedClient{own.Client, judge{p}}
		own.Guards = podwebhook.Guards{{
			Guard: podwebhook.Guard{Feature: "Budget", Gates: podwebhook.Gates{podwebhook.Delete: "", podwebhook.Update: ""}}, Judge: judge{p},
		}}
		if change != nil {
			change(&own.Guards)
		}
		return r, err
	}
	kind.Maps = map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
		&policyv1.PodDisruptionBudget{}: func(*sim.World, client.Object, client.Object) []reconcile.Request {
			return []reconcile.Request{{NamespacedName: key}}
		},
	}
	kind.Actors = append(slices.Clone(kind.Actors), budgetController{})
	kind.Rules = append(slices.Clone(kind.Rules), sim.Rule{Name: "the budget of others holds", Write: budgetHolds})
	return kind
}

// budgetHolds rejects a write of the controller that takes away a ready pod and leaves too few. It is checked against the existing pods, not
// against what the controller knows, because the budget knows the existing pods.
func budgetHolds(w *sim.World, c sim.Change) error {
	before, ok := c.Before.(*corev1.Pod)
	if done := c.Err == nil; !ok || !done || c.Late || c.Verb == sim.Create || !serves(before, w.Now()) {
		return nil
	}
	if after, exists := c.After.(*corev1.Pod); exists && c.Verb != sim.Delete && serves(after, w.Now()) {
		return nil
	}
	left := 0
	for _, p := range sim.All[*corev1.Pod](w) {
		if owned(w, p) && serves(p, w.Now()) {
			left++
		}
	}
	if left < mustStay {
		return fmt.Errorf("%d are left after %s, and %d must be", left, c.Request, mustStay)
	}
	return nil
}

// guardedStories returns updates whose maxUnavailable is larger than the budget, and a scale-in that the budget stops.
func guardedStories() []sim.Scenario {
	update := func(name string, policy appsv1beta1.PodUpdatePolicy, edits ...sim.Edit) sim.Scenario {
		set := web(4).Policy(policy).Rolling("0", "4", "0")
		s := scenario(name, set, append([]sim.Edit{edit("a new image", allAvailable(4, "app:1"), image("app:2")).simulated()}, edits...)...)
		s.Objects = append(s.Objects, budget())
		return s
	}
	return []sim.Scenario{
		update("an update in place", appsv1beta1.PodInPlaceIfPossible, edit("and another", nil, image("app:3")).simulated()),
		update("an update by new pods", appsv1beta1.PodReCreate),
		update("a scale-in to the budget", appsv1beta1.PodInPlaceIfPossible, edit("scale to 3", allAvailable(4, "app:2"), scale(3)).simulated()),
	}
}

// The controller's own writes never exceed a budget that is smaller than maxUnavailable, and the update still completes.
func TestSimulationWithAGuard(t *testing.T) {
	t.Parallel()
	sim.Test(t, guardedKind(t, nil), sim.Plan{Sweeps: 1, Seeds: 20, Stall: 15 * time.Second}, guardedStories()...)
}

// withoutForecasts is a judge without forecasts.
type withoutForecasts struct{ judge }

// Forecast implements podwebhook.Judge.
func (withoutForecasts) Forecast(_ context.Context, r []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	return make([]*podwebhook.Refusal, len(r)), nil
}

func TestAForecastSparesRequests(t *testing.T) {
	t.Parallel()
	refusals := func(kind sim.Kind) int {
		r := sim.Run(t.Context(), kind, guardedStories()[0], sim.Schedule{})
		require.NoError(t, r.Err)
		return r.Calls
	}
	foreseen := refusals(guardedKind(t, nil))
	tried := refusals(guardedKind(t, func(g *podwebhook.Guards) { (*g)[0].Judge = withoutForecasts{(*g)[0].Judge.(judge)} }))
	require.Less(t, foreseen, tried)
}

// Without asking before a pod is taken out of service, the budget is exceeded.
func TestTheGuardIsNeeded(t *testing.T) {
	t.Parallel()
	kind := guardedKind(t, func(g *podwebhook.Guards) { *g = nil })
	require.ErrorContains(t, sim.Run(t.Context(), kind, guardedStories()[0], sim.Schedule{}).Err, "the budget of others holds")
}
