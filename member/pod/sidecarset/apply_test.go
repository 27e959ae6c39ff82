package sidecarset

import (
	"context"
	"fmt"
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
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
)

// allowance is a judge that allows that many requests.
type allowance int

func (allowance) Check(context.Context, podwebhook.Request) (*podwebhook.Refusal, error) {
	return nil, nil
}

func (n allowance) Forecast(_ context.Context, requests []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	out := make([]*podwebhook.Refusal, len(requests))
	for i := range requests {
		if i >= int(n) {
			out[i] = &podwebhook.Refusal{Message: podwebhook.BudgetMessage("web", fmt.Sprintf("%d refused", len(requests)-int(n)))}
		}
	}
	return out, nil
}

// outdated returns a SidecarSet with a new image and a cluster with three pods that have the previous one. Each write to a pod calls patch first.
func outdated(t *testing.T, patch func() error) (*appsv1beta1.SidecarSet, client.WithWatch) {
	t.Helper()
	old := admitted(t, `{spec: {updateStrategy: {maxUnavailable: 100%}}}`)
	s := withImage(t, old, "log:2", "30")
	s.Generation, s.ResourceVersion = 1, ""
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	objects := []client.Object{s}
	for _, name := range []string{"web-0", "web-1", "web-2"} {
		pod := setRunning(runningPod(t, name, old))
		pod.UID = types.UID(name) // Without a UID the cache never shows a write, and nothing is planned after it.
		objects = append(objects, pod)
	}
	return s, interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(s).Build(), interceptor.Funcs{
		Create: func(ctx context.Context, w client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(types.UID(o.GetName()))
			return w.Create(ctx, o, opts...)
		},
		Patch: func(ctx context.Context, w client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			if strings.HasPrefix(o.GetName(), "web-") {
				if err := patch(); err != nil {
					return err
				}
			}
			return w.Patch(ctx, o, p, opts...)
		},
	})
}

func TestAnUpdateThatAWebhookOfAnotherProgramRefusesIsRetried(t *testing.T) {
	t.Parallel()
	refuses, writes := true, 0
	s, c := outdated(t, func() error {
		writes++
		if refuses {
			return apierrors.NewTooManyRequests(`admission webhook "budget.example.com" denied the request: the only pod is unavailable`, 0)
		}
		return nil
	})
	clk := clocktesting.NewFakePassiveClock(noon)
	r := &Reconciler{Controller: controltest.New(c, c, clk, &testkit.Events{}), Namespace: system, Opening: openingAll{}}
	reconcile := func() ctrl.Result {
		result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)})
		require.NoError(t, err)
		return result
	}
	for range 4 { // No watch event tells when the webhook allows the update.
		next := reconcile().RequeueAfter
		require.Positive(t, next)
		clk.SetTime(clk.Now().Add(next))
	}
	require.GreaterOrEqual(t, writes, 4)
	refuses = false
	require.Zero(t, reconcile().RequeueAfter)
	list := &corev1.PodList{}
	require.NoError(t, c.List(t.Context(), list))
	for i := range list.Items {
		require.Equal(t, "log:2", containerOf(&list.Items[i], "log").Image)
	}
}

func TestUpdatesThatABudgetWouldRefuseAreNotSent(t *testing.T) {
	t.Parallel()
	writes := 0
	s, c := outdated(t, func() error {
		writes++
		return nil
	})
	clk := clocktesting.NewFakePassiveClock(noon)
	r := &Reconciler{
		Controller: controltest.New(c, c, clk, &testkit.Events{}), Namespace: system, Opening: openingAll{},
		Guards: podwebhook.Guards{{Guard: podwebhook.Guard{Gates: podwebhook.Gates{podwebhook.Update: ""}}, Judge: allowance(1)}},
	}
	request := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(s)}
	_, err := r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, 1, writes)
	r.Guards[0].Judge = allowance(0)
	for range 3 {
		_, err = r.Reconcile(t.Context(), request)
		require.NoError(t, err)
	}
	require.Equal(t, 1, writes)
	guarded := func(namespace string) client.Object {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "budget"}}
	}
	require.Equal(t, []ctrl.Request{request}, r.forGuard(t.Context(), guarded("shop")), "a changed budget in the pods' namespace triggers a reconcile")
	require.Empty(t, r.forGuard(t.Context(), guarded("other")), "a budget in another namespace does not")

	reconciling := func() string {
		current := &appsv1beta1.SidecarSet{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), current))
		if got := report.GetCondition(current.Status.Conditions, keys.ConditionReconciling); got != nil {
			return got.Reason + ": " + got.Message
		}
		return ""
	}
	require.Equal(t, "Progressing: pods are being updated, or are not ready with the sidecars yet", reconciling(), "a refusal is not reported at once: the budget may be recounted")
	clk.SetTime(noon.Add(9 * time.Second))
	result, err := r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, time.Second, result.RequeueAfter)
	clk.SetTime(noon.Add(10 * time.Second))
	_, err = r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, "Refused: pods wait for PodUnavailableBudget shop/web, which allows no more of them to become unavailable now", reconciling())
	version := func() string {
		current := &appsv1beta1.SidecarSet{}
		require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(s), current))
		return current.ResourceVersion
	}
	written := version()
	for i := range 3 {
		clk.SetTime(noon.Add(time.Duration(11+i) * time.Second))
		_, err = r.Reconcile(t.Context(), request)
		require.NoError(t, err)
	}
	require.Equal(t, written, version(), "the status is written only once")
	r.Guards[0].Judge = allowance(9)
	clk.SetTime(noon.Add(20 * time.Second))
	_, err = r.Reconcile(t.Context(), request)
	require.NoError(t, err)
	require.Equal(t, 3, writes)
	require.NotContains(t, reconciling(), "Refused")
}
