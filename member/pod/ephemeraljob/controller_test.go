package ephemeraljob

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/testkit"
)

func builder(t *testing.T, objects ...client.Object) *clientfake.ClientBuilder {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(s))
	require.NoError(t, appsv1alpha1.AddToScheme(s))
	return clientfake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&appsv1alpha1.EphemeralJob{})
}

// A process that has just started may get its first list from an apiserver that is behind and lacks what an earlier process did.
func TestAProcessDoesNotTrustItsFirstList(t *testing.T) {
	t.Parallel()
	job := debug(parallel(1), replicas(1), started(0))
	job.ResourceVersion = ""
	patched := 0
	behind, has := web("a"), web("a", quiet)
	behind.ResourceVersion, has.ResourceVersion = "1", "2"
	c := interceptor.NewClient(builder(t, job, behind, web("b", older)).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if sub == subresource {
				patched++
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	r := reconciler(c, builder(t, job, has, web("b", older)).Build(), clocktesting.NewFakePassiveClock(noon), &testkit.Events{})
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}
	for range 2 {
		_, err := r.Reconcile(t.Context(), req)
		require.NoError(t, err)
		require.Zero(t, patched, "pod a has the container, and one pod may")
	}
	live := &appsv1alpha1.EphemeralJob{}
	require.NoError(t, c.Get(t.Context(), req.NamespacedName, live))
	require.Equal(t, int32(1), live.Status.Waiting)
}

// The change to the pod may be one that doesn't start a reconcile.
func TestAPodThatHasChangedGetsTheContainersSoon(t *testing.T) {
	t.Parallel()
	job := debug(started(0))
	job.ResourceVersion = ""
	pod := web("a")
	pod.ResourceVersion = ""
	base := builder(t, job, pod).Build()
	conflicts := 1
	c := interceptor.NewClient(base, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if sub == subresource && conflicts > 0 {
				conflicts--
				return apierrors.NewConflict(corev1.Resource("pods"), o.GetName(), nil)
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	r := reconciler(c, base, clocktesting.NewFakePassiveClock(noon), &testkit.Events{})
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}
	result, err := r.Reconcile(t.Context(), req)
	require.NoError(t, err)
	require.Zero(t, conflicts)
	require.Equal(t, control.RetrySkipped, result.RequeueAfter)
	result, err = r.Reconcile(t.Context(), req)
	require.NoError(t, err)
	require.Zero(t, result.RequeueAfter)
}

func TestAnEndIsCountedOnce(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	job := debug(started(0))
	before := testutil.ToFloat64(finishedTotal.WithLabelValues(reasonDeadlineExceeded))
	r.count(job)
	at := metav1.NewTime(noon)
	job.Status.Phase, job.Status.CompletionTime = appsv1alpha1.EphemeralJobFailed, &at
	job.Status.Conditions = setCondition(nil, appsv1alpha1.EphemeralJobInitialized, initialized, "", at)
	job.Status.Conditions = setCondition(job.Status.Conditions, appsv1alpha1.EphemeralJobConditionFailed, reasonDeadlineExceeded, "too late", at)
	r.count(job)
	r.count(job)
	require.InDelta(t, before+1, testutil.ToFloat64(finishedTotal.WithLabelValues(reasonDeadlineExceeded)), 0)
}

func TestWhatIsRefusedIsForgottenWithTheSpec(t *testing.T) {
	t.Parallel()
	k := known{read: true}
	k.refuse(1, "a", "no such volume")
	k.refuse(1, "b", "no such volume")
	require.Len(t, k.invalidAt(1), 2)
	require.Empty(t, k.invalidAt(2))
	k.refuse(2, "a", "no such volume")
	require.Len(t, k.invalidAt(2), 1)
	require.True(t, k.read)
}
