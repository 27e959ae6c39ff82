//go:build integration

package agent_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionregv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// The first applies follow each other at once. Each further one waits twice as long as the previous one (plan.go).
const (
	freeApplies = 3
	firstWait   = 2 * time.Second
)

// TestI41WhatChangesEachApplyIsAppliedLessAndLessOften covers a mutating webhook, after which there may be no watch event, and a controller,
// which causes one each time.
func TestI41WhatChangesEachApplyIsAppliedLessAndLessOften(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/*.yaml")
	member.namespace(t, "shop")
	f := &fleet{hub: hub, member: member, name: unique("contended")}
	f.join(t, "hub-1")
	stop, ended := f.run(t)
	t.Cleanup(func() {
		require.NoError(t, stop())
		require.NoError(t, <-ended)
	})

	for _, c := range []struct {
		name  string
		rival func(t *testing.T, member *controlPlane, name string) (end func())
	}{
		{name: "webhook", rival: relabelByWebhook},
		{name: "controller", rival: relabelByController},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			end := c.rival(t, member, c.name)
			since := clock.RealClock{}.Now()
			row := f.row(t, "shop", c.name, 2, fleetv1alpha1.LeaveDelete)
			s := f.awaitStatus(t, row, "Contended", func(s fleetv1alpha1.MemberWorkStatus) bool { return s.Reason == "Contended" })
			require.Equal(t, fleetv1alpha1.WorkDegraded, s.Phase)
			require.Contains(t, s.Message, "mutating webhooks")
			require.Equal(t, "rival", f.united(t, c.name).Labels["app"])

			var applies []time.Time
			require.True(t, eventually(t, func() bool {
				applies = member.applies(t, c.name, since)
				return len(applies) >= freeApplies+2
			}), "it does not give up: %v", applies)
			for i := freeApplies; i < len(applies); i++ {
				// One second less, because the wait begins before the previous apply is sent, which may take a while.
				wait := firstWait<<(i-freeApplies) - time.Second
				require.Greater(t, applies[i].Sub(applies[i-1]), wait, "apply %d of %v", i+1, applies)
			}

			end()
			f.awaitStatus(t, row, "applied", func(s fleetv1alpha1.MemberWorkStatus) bool {
				return s.Reason == "" && f.united(t, c.name).Labels["app"] == "web"
			})
		})
	}
}

// applies returns when the agent applied the object of that name in namespace shop. Applies refused due to a conflict are not included: the
// same apply follows with force.
func (e *controlPlane) applies(t *testing.T, name string, since time.Time) []time.Time {
	t.Helper()
	var out []time.Time
	for _, w := range e.writes(t, since) {
		if w.Resource == "uniteddeployments.apps.kruise.io" && w.Name == name && w.Code < http.StatusBadRequest {
			require.Equal(t, "patch", w.Verb)
			out = append(out, w.At)
		}
	}
	return slices.SortedFunc(slices.Values(out), time.Time.Compare)
}

// relabelByWebhook makes the apiserver change a label of the object in each write.
func relabelByWebhook(t *testing.T, member *controlPlane, name string) (end func()) {
	t.Helper()
	config := &admissionregv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "relabel"},
		Webhooks: []admissionregv1.MutatingWebhook{{
			Name: "relabel.example.com",
			ClientConfig: admissionregv1.WebhookClientConfig{
				Service: &admissionregv1.ServiceReference{Namespace: "x", Name: "x", Path: new("/relabel")}, // Replaced by Install.
			},
			Rules: []admissionregv1.RuleWithOperations{{
				Operations: []admissionregv1.OperationType{admissionregv1.Create, admissionregv1.Update},
				Rule:       admissionregv1.Rule{APIGroups: []string{"apps.kruise.io"}, APIVersions: []string{"*"}, Resources: []string{"uniteddeployments"}},
			}},
			MatchConditions: []admissionregv1.MatchCondition{{Name: "name", Expression: fmt.Sprintf("request.name == %q", name)}},
			SideEffects:     ptr.To(admissionregv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		}},
	}
	hooks := &envtest.WebhookInstallOptions{MutatingWebhooks: []*admissionregv1.MutatingWebhookConfiguration{config}}
	require.NoError(t, hooks.Install(member.cfg))
	server := webhook.NewServer(webhook.Options{Host: hooks.LocalServingHost, Port: hooks.LocalServingPort, CertDir: hooks.LocalServingCertDir})
	server.Register("/relabel", &webhook.Admission{Handler: admission.HandlerFunc(func(_ context.Context, r admission.Request) admission.Response {
		o := &unstructured.Unstructured{}
		if err := json.Unmarshal(r.Object.Raw, o); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		o.SetLabels(map[string]string{"app": "rival"})
		changed, err := json.Marshal(o)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, err)
		}
		return admission.PatchResponseFromRaw(r.Object.Raw, changed)
	})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- server.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		require.NoError(t, <-ended)
		require.NoError(t, hooks.Cleanup())
	})
	require.True(t, eventually(t, func() bool {
		probe := &appsv1beta1.UnitedDeployment{}
		require.NoError(t, json.Unmarshal([]byte(manifest(t, "shop", name)), probe))
		// While the server is starting, the apiserver refuses it.
		return member.Create(t.Context(), probe, client.DryRunAll) == nil && probe.Labels["app"] == "rival"
	}), "the webhook is called")
	return func() {
		require.NoError(t, member.Delete(t.Context(), &admissionregv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "relabel"}}))
	}
}

// relabelByController changes the label back after each apply.
func relabelByController(t *testing.T, member *controlPlane, name string) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	own, err := client.NewWithWatch(member.cfg, client.Options{Scheme: member.Scheme()})
	require.NoError(t, err)
	w, err := own.Watch(ctx, &appsv1beta1.UnitedDeploymentList{}, client.InNamespace("shop"))
	require.NoError(t, err)
	done := make(chan struct{})
	go func() {
		defer close(done)
		for e := range w.ResultChan() {
			ud, ok := e.Object.(*appsv1beta1.UnitedDeployment)
			if !ok || ud.Name != name || ud.Labels["app"] == "rival" {
				continue
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"rival"}}}`))
			_ = own.Patch(ctx, ud, patch, client.FieldOwner("rival")) // If this fails, it is repeated at the next apply.
		}
	}()
	return func() {
		cancel()
		w.Stop()
		<-done
	}
}
