package sidecarset

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/podguard"
	"github.com/flotilla-io/flotilla/testkit"
)

// allows is a judge that allows so many requests.
type allows int

func (allows) Check(context.Context, podguard.Request) (*podguard.Refusal, error) { return nil, nil }

func (n allows) Forecast(_ context.Context, requests []podguard.Request) ([]*podguard.Refusal, error) {
	out := make([]*podguard.Refusal, len(requests))
	for i := range requests {
		if i >= int(n) {
			out[i] = &podguard.Refusal{Message: "no more"}
		}
	}
	return out, nil
}

func TestUpdatesThatABudgetWouldRefuseAreNotSent(t *testing.T) {
	t.Parallel()
	was := admitted(t, `{spec: {updateStrategy: {maxUnavailable: 100%}}}`)
	s := withImage(t, was, "log:2", "30")
	s.Generation, s.ResourceVersion = 1, ""
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	objects := []client.Object{s}
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		objects = append(objects, runs(runningPod(t, name, was)))
	}
	writes := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(s).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if strings.HasPrefix(o.GetName(), "web-") {
				writes++
			}
			return w.Patch(ctx, o, p, opts...)
		},
	})
	clk := clocktesting.NewFakePassiveClock(noon)
	r := &Reconciler{
		Client: c, Live: c, Clock: clk, Expect: expect.New(kind, clk, 0), Events: &testkit.Events{}, Parallel: 1, Namespace: system, Opening: open{},
		Guards: podguard.Guards{{Guard: podguard.Guard{Gates: podguard.Gates{podguard.Update: ""}}, Judge: allows(1)}},
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}
	_, err := r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, 1, writes)
	r.Guards[0].Judge = allows(0)
	for range 3 {
		_, err = r.Reconcile(t.Context(), request)
		require.NoError(t, err)
	}
	require.Equal(t, 1, writes)
	guarding := func(namespace string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "budget"}}
	}
	require.Equal(t, []ctrl.Request{request}, r.refused(t.Context(), guarding("shop")), "it waits for a change of the budget")
	require.Empty(t, r.refused(t.Context(), guarding("other")), "and of no other")
}
