package podcontrol

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// budgetExhausted is the response of the eviction API, and of webhooks that imitate it.
func budgetExhausted() error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: "The budget web needs 3 healthy pods"}}
	return err
}

// denied is the response to a request that admission denies.
func denied(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func TestARefusedDeleteStopsNoOther(t *testing.T) {
	t.Parallel()
	const webhook = `admission webhook "guard.example.com" denied the request: `
	rbac := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "p00", errors.New(`User "flotilla" cannot delete resource "pods"`))
	for _, tt := range []struct {
		name   string
		answer error
		held   bool
	}{
		{"a disruption budget", budgetExhausted(), true},
		{"a webhook with its own budget", denied(http.StatusTooManyRequests, webhook+"2 of 3 pods are unavailable"), true},
		{"a webhook that protects the pod", denied(http.StatusForbidden, webhook+"the pod is protected"), true},
		{
			"a policy that protects the pod",
			denied(http.StatusForbidden, "ValidatingAdmissionPolicy 'guard' with binding 'guard' denied request: the pod is protected"), true,
		},
		{"a webhook that fails", denied(http.StatusInternalServerError, webhook+"nil pointer"), false},
		{"missing RBAC", rbac, false},
		{"a busy API server", apierrors.NewTooManyRequests("slow down", 1), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := writer(interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
					if o.GetName() == "p00" {
						return tt.answer
					}
					return nil
				},
			}, pod("p00"))
			objects := make([]client.Object, 30) // Several batches: an error in the first one stops the others.
			for i := range objects {
				objects[i] = pod(fmt.Sprintf("p%02d", i))
			}
			got := w.Delete(t.Context(), owner, objects)
			if !tt.held {
				require.Error(t, got.Err)
				require.Empty(t, got.Refused)
				return
			}
			require.NoError(t, got.Err)
			require.Len(t, got.Done, 29)
			require.Equal(t, []string{"delete p00: " + tt.answer.Error()}, got.Refused)
			require.Zero(t, waits(w, objects[0]), "its deletion is not expected")
		})
	}
}

func TestAPatchIsHeldOnlyByABudget(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		answer error
		held   bool
	}{
		{"a budget", budgetExhausted(), true},
		{"a policy that forbids the patch", denied(http.StatusForbidden, `admission webhook "images" denied the request: no`), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w, _ := writer(interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return tt.answer
				},
			})
			got := w.Patch(t.Context(), owner, []Patch{{Object: pod("p00"), Patch: nothing}})
			require.Equal(t, tt.held, got.Err == nil)
			require.Equal(t, tt.held, len(got.Refused) == 1)
		})
	}
}

func TestRefusedStepsAreHoldsNotFailures(t *testing.T) {
	t.Parallel()
	w, _ := writer(interceptor.Funcs{
		Delete: func(_ context.Context, _ client.WithWatch, o client.Object, _ ...client.DeleteOption) error {
			if o.GetName() == "p01" {
				return nil
			}
			return budgetExhausted()
		},
	})
	p := &podset.Plan{Revision: revision.Step{Revision: &appsv1.ControllerRevision{}}}
	for _, s := range []struct {
		name   string
		reason rollout.Reason
	}{{"p00", rollout.ReasonScaleIn}, {"p01", rollout.ReasonScaleIn}, {"p02", rollout.ReasonRecreate}} {
		p.Steps = append(p.Steps, podset.Step{
			Step: rollout.Step{Kind: rollout.StepDelete, Reason: s.reason},
			Pod:  &podset.Pod{Pod: rollout.Pod{Key: s.name}, Object: pod(s.name)},
		})
	}
	var r Results
	require.Zero(t, r.Recheck())
	Applier{Writer: w, Owner: owner}.Delete(t.Context(), p.Steps, &r)
	require.NoError(t, r.Err())
	require.Equal(t, RefusedRecheck, r.Recheck())
	const why = "2 pod(s) waiting: delete p00: Cannot evict pod as it would violate the pod's disruption budget."
	require.Equal(t, []rollout.Hold{{Reason: rollout.ReasonRefused, Pods: 2, Why: why}}, r.Holds())
	scale, update := r.Failures(p)
	require.Equal(t, [2]report.Failure{}, [2]report.Failure{scale, update})
	notes := []string{}
	for _, e := range r.Events(p, false, nil, nil) {
		notes = append(notes, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
	}
	require.Equal(t, []string{"Normal SuccessfulDelete: deleted 1 pod(s): p01"}, notes, "Report tells of those that wait, once")
}
