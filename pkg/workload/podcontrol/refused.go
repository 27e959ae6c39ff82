package podcontrol

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// RefusedRecheck is how long to wait before a refused step is retried: no watch event tells when it becomes allowed.
const RefusedRecheck = 10 * time.Second

// refusedError is the response to a write that a PodDisruptionBudget or an admission webhook refuses temporarily.
type refusedError struct{ error }

func (e refusedError) Unwrap() error { return e.error }

func isRefused(err error) bool { return errors.As(err, new(refusedError)) }

// overBudget reports whether a write was refused because of a disruption budget: a PodDisruptionBudget, or one that an admission webhook
// enforces.
func overBudget(err error) bool {
	return apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause) || deniedWith(err, http.StatusTooManyRequests)
}

// protected reports whether a delete was refused because of a disruption budget, or because admission protects the object. A patch that
// admission forbids is different: it may never be allowed.
func protected(err error) bool { return overBudget(err) || deniedWith(err, http.StatusForbidden) }

// deniedWith reports whether an admission webhook or policy denied a request with that status code. Only the API server's message shows that;
// otherwise 403 means missing RBAC and 429 an overloaded API server.
func deniedWith(err error, code int32) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != code {
		return false
	}
	message := status.Status().Message
	return strings.Contains(message, "denied the request") || strings.Contains(message, "denied request")
}

// Holds returns the steps that were temporarily refused.
func (r *Results) Holds() []rollout.Hold {
	if len(r.refused) == 0 {
		return nil
	}
	n := len(r.refused)
	return []rollout.Hold{{Reason: rollout.ReasonRefused, Pods: n, Why: fmt.Sprintf("%d pod(s) waiting: %s", n, r.refused[0])}}
}

// WaitsFor turns the refusals for a workload into the content of a condition; the zero value without refusals. It names the budgets but leaves
// out their numbers, so that it stays the same on each attempt.
func WaitsFor(refusals []string) report.Failure {
	if len(refusals) == 0 {
		return report.Failure{}
	}
	var budgets []string
	for _, refusal := range refusals {
		if name := podwebhook.BudgetOf(refusal); name != "" {
			budgets = append(budgets, name)
		}
	}
	slices.Sort(budgets)
	switch budgets = slices.Compact(budgets); len(budgets) {
	case 0:
		const what = "pods wait because their change is refused for now"
		return report.Failure{Reason: string(rollout.ReasonRefused), Message: what + ": " + refusals[0], Stable: what + ":"}
	case 1:
		return report.Failure{
			Reason:  string(rollout.ReasonRefused),
			Message: fmt.Sprintf("pods wait for PodUnavailableBudget %s, which allows no more of them to become unavailable now", budgets[0]),
		}
	}
	return report.Failure{
		Reason:  string(rollout.ReasonRefused),
		Message: "pods wait for PodUnavailableBudgets that allow no more of them to become unavailable now: " + event.Names(budgets),
	}
}

// Recheck is how long to wait before refused steps are retried; 0 if there are none.
func (r *Results) Recheck() time.Duration {
	if len(r.refused) == 0 {
		return 0
	}
	return RefusedRecheck
}
