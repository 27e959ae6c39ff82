package podunavailablebudget

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/component-base/featuregate"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/metrics"

	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/groupwrite"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// guard returns the podwebhook.Guard that checks requests against budgets.
func guard(clk clock.PassiveClock) podwebhook.Guard {
	return podwebhook.Guard{
		Feature: kind,
		Gates: map[podwebhook.Operation]featuregate.Feature{
			podwebhook.Delete: feature.PodUnavailableBudgetDelete, podwebhook.Evict: feature.PodUnavailableBudgetDelete,
			podwebhook.Update: feature.PodUnavailableBudgetUpdate, podwebhook.Resize: feature.PodUnavailableBudgetUpdate,
		},
		Object: &policyv1beta1.PodUnavailableBudget{}, List: &policyv1beta1.PodUnavailableBudgetList{},
		Setup: func(_ context.Context, mgr ctrl.Manager) (podwebhook.Judge, error) {
			if err := registerGuard(metrics.Registry); err != nil {
				return nil, fmt.Errorf("register metrics of %s: %w", kind, err)
			}
			return newGuard(mgr.GetClient(), mgr.GetAPIReader(), clk, event.New(mgr.GetEventRecorder(control.Name(kind)))), nil
		},
	}
}

// Guard grants and refuses requests by checking budgets. It is safe for concurrent use, also in several replicas at once.
type Guard struct {
	cache  client.Reader
	live   client.Reader
	clock  clock.PassiveClock
	events event.Recorder
	ledger *groupwrite.Writer[policyv1beta1.PodUnavailableBudget, *policyv1beta1.PodUnavailableBudget]
}

var _ podwebhook.Judge = &Guard{}

// newGuard returns a Guard. cached reads from the cache and writes; live reads from the apiserver.
func newGuard(cached client.Client, live client.Reader, clk clock.PassiveClock, events event.Recorder) *Guard {
	return &Guard{cache: cached, live: live, clock: clk, events: events, ledger: groupwrite.New[policyv1beta1.PodUnavailableBudget](cached, live)}
}

// Check implements podwebhook.Judge.
func (g *Guard) Check(ctx context.Context, r podwebhook.Request) (*podwebhook.Refusal, error) {
	b, err := budgetOf(ctx, g.cache, r.Old)
	if err != nil || b == nil || !judges(b, r) {
		return nil, err
	}
	if leaves, err := g.deletedWithWorkload(ctx, r); err != nil || leaves {
		return nil, err
	}
	var v verdict
	if r.DryRun {
		v = judge(b.DeepCopy(), r, g.clock.Now())
	} else {
		err = g.ledger.Do(ctx, client.ObjectKeyFromObject(b), func(b *policyv1beta1.PodUnavailableBudget) bool {
			v = judge(b, r, g.clock.Now())
			return v.took
		})
	}
	switch {
	case apierrors.IsNotFound(err): // No budget protects the pod any longer.
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("take from PodUnavailableBudget %s: %w", b.Name, err)
	case v.refusal != nil && !r.DryRun:
		refusals.WithLabelValues(fmt.Sprintf("%s_%s_%s", kind, b.Namespace, b.Name), r.User.Username).Inc()
		g.events.Record(r.Old, event.Warning(reasonPrevented, actionJudge, "refused %s: %s", r.Operation, v.refusal.Message))
	}
	return v.refusal, nil
}

// deletedWithWorkload reports whether a request deletes a pod whose workload is gone or being deleted. Nothing replaces such a pod, and the
// garbage collector would retry the request forever. The cache may be behind, so the apiserver has to confirm it.
func (g *Guard) deletedWithWorkload(ctx context.Context, r podwebhook.Request) (bool, error) {
	ref, ok := scaletarget.Controller(r.Old)
	if r.Operation != podwebhook.Delete || !ok || !isCached(ref.Kind) {
		return false, nil
	}
	for _, from := range []client.Reader{g.cache, g.live} {
		if w, err := scaletarget.Get(ctx, from, ref); err != nil || !leavesWithPods(w) {
			return false, err
		}
	}
	return true, nil
}

// Forecast implements podwebhook.Judge.
func (g *Guard) Forecast(ctx context.Context, requests []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	out := make([]*podwebhook.Refusal, len(requests))
	budgets := map[string]*policyv1beta1.PodUnavailableBudget{}
	now := g.clock.Now()
	for i, r := range requests {
		b, err := budgetOf(ctx, g.cache, r.Old)
		if err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		leaves, err := g.deletedWithWorkload(ctx, r)
		if err != nil {
			return nil, err
		}
		if leaves {
			continue
		}
		key := b.Namespace + "/" + b.Name
		if budgets[key] == nil {
			budgets[key] = b.DeepCopy()
		}
		out[i] = judge(budgets[key], r, now).refusal
	}
	return out, nil
}
