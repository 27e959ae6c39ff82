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
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
)

func known(t *testing.T, objects ...client.Object) *clientfake.ClientBuilder {
	t.Helper()
	s := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(s))
	require.NoError(t, appsv1alpha1.AddToScheme(s))
	return clientfake.NewClientBuilder().WithScheme(s).WithObjects(objects...).WithStatusSubresource(&appsv1alpha1.EphemeralJob{})
}

// A process that has just started may get its first list from an apiserver that is behind and lacks what a former process did.
func TestAProcessDoesNotTrustItsFirstList(t *testing.T) {
	t.Parallel()
	job := debug(parallel(1), replicas(1), started(0))
	job.ResourceVersion = ""
	patched := 0
	behind, has := web("a"), web("a", quiet)
	behind.ResourceVersion, has.ResourceVersion = "1", "2"
	c := interceptor.NewClient(known(t, job, behind, web("b", older)).Build(), interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if sub == subresource {
				patched++
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	r := reconciler(c, known(t, job, has, web("b", older)).Build(), clocktesting.NewFakePassiveClock(noon), &testkit.Events{})
	req := ctrl.Request{NamespacedName: client.ObjectKeyFromObject(job)}
	for range 2 {
		_, err := r.Reconcile(t.Context(), req)
		require.NoError(t, err)
		require.Zero(t, patched, "pod a has the container, and one pod may")
	}
	is := &appsv1alpha1.EphemeralJob{}
	require.NoError(t, c.Get(t.Context(), req.NamespacedName, is))
	require.Equal(t, int32(1), is.Status.Waiting)
}

// The change to the pod may be one that doesn't start a reconcile.
func TestAPodThatHasChangedGetsTheContainersSoon(t *testing.T) {
	t.Parallel()
	job := debug(started(0))
	job.ResourceVersion = ""
	pod := web("a")
	pod.ResourceVersion = ""
	base := known(t, job, pod).Build()
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
	require.Equal(t, podcontrol.RetrySkipped, result.RequeueAfter)
	result, err = r.Reconcile(t.Context(), req)
	require.NoError(t, err)
	require.Zero(t, result.RequeueAfter)
}

func TestAnEndIsCountedOnce(t *testing.T) {
	t.Parallel()
	r := &Reconciler{}
	job := debug(started(0))
	before := testutil.ToFloat64(finishedTotal.WithLabelValues(ReasonDeadlineExceeded))
	r.count(job)
	at := metav1.NewTime(noon)
	job.Status.Phase, job.Status.CompletionTime = appsv1alpha1.EphemeralJobFailed, &at
	job.Status.Conditions = put(nil, appsv1alpha1.EphemeralJobInitialized, initialized, "", at)
	job.Status.Conditions = put(job.Status.Conditions, appsv1alpha1.EphemeralJobConditionFailed, ReasonDeadlineExceeded, "too late", at)
	r.count(job)
	r.count(job)
	require.InDelta(t, before+1, testutil.ToFloat64(finishedTotal.WithLabelValues(ReasonDeadlineExceeded)), 0)
}

func TestWhatIsRefusedIsForgottenWithTheSpec(t *testing.T) {
	t.Parallel()
	var m memory
	job := debug()
	m.refuse(job, "a", "no such volume")
	m.refuse(job, "b", "no such volume")
	require.Len(t, m.invalid(job), 2)
	m.setRead(job)
	job.Generation++
	require.Empty(t, m.invalid(job))
	require.True(t, m.isRead(job))
	m.forget(client.ObjectKeyFromObject(job))
	require.False(t, m.isRead(job))
}
