//go:build !integration

package agent

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
)

// failing is an agent with a row for a ConfigMap. Its member answers requests of one kind with err while err is not nil.
type failing struct {
	rows    *rowReconciler
	hub     client.Client
	member  client.WithWatch
	clock   *clocktesting.FakeClock
	key     client.ObjectKey
	request string
	err     error
}

func newFailing(t *testing.T) *failing {
	t.Helper()
	require.NoError(t, registerMetrics())
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	f := &failing{clock: clocktesting.NewFakeClock(time.Unix(1000, 0)), key: client.ObjectKey{Namespace: fleetv1alpha1.Namespace("east"), Name: "settings"}}
	row := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: f.key.Namespace, Name: f.key.Name, UID: "row", Generation: 1, CreationTimestamp: metav1.Unix(1, 0), Finalizers: []string{"fleet/row"},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Content: fleetv1alpha1.WorkContentSource{
				Ref: fleetv1alpha1.InlineContent, Inline: `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"shop","name":"settings"},"data":{"a":"b"}}`,
			},
			Grant: fleetv1alpha1.WorkGrant{Epoch: 3}, Withdrawn: true,
		},
	}
	f.hub = fake.NewClientBuilder().WithScheme(scheme).WithObjects(row).WithStatusSubresource(row).Build()
	fail := func(request string) error {
		if f.request == request {
			return f.err
		}
		return nil
	}
	f.member = interceptor.NewClient(
		fake.NewClientBuilder().WithScheme(scheme).WithObjects(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}).Build(),
		interceptor.Funcs{
			Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
				if err := fail("get"); err != nil && key.Namespace == "shop" {
					return err
				}
				return c.Get(ctx, key, o, opts...)
			},
			Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
				if err := fail("apply"); err != nil {
					return err
				}
				return c.Apply(ctx, o, opts...)
			},
			Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
				if err := fail("delete"); err != nil && o.GetNamespace() == "shop" {
					return err
				}
				return c.Delete(ctx, o, opts...)
			},
		})
	ledger, err := newLedger(t.Context(), f.member, f.member)
	require.NoError(t, err)
	find := finder{reader: f.member, mapper: f.member.RESTMapper()}
	f.rows = &rowReconciler{
		link: link.Link{
			Cluster: "east", Hub: connection{cached: f.hub, live: f.hub}, Member: connection{cached: f.member, live: f.member},
			Events: &testkit.Events{}, Clock: worldClock{PassiveClock: f.clock},
		},
		binding: &binding{state: bindingState{ours: true, permission: permission{mayAct: true, hubUID: worldHub, epoch: 3, hubEpoch: 3}}},
		ledger:  ledger, find: find, writer: writer{client: f.member, reader: f.member, find: find, ledger: ledger},
		watches: newWatches(nil), memory: newMemory(), breaker: newBreaker(), started: f.clock.Now(), enqueueBinding: func() {},
		throttle: report.Throttle{Interval: reportEvery},
	}
	return f
}

// try reconciles the row several times, and returns it.
func (f *failing) try(t *testing.T, times int) *fleetv1alpha1.MemberWork {
	t.Helper()
	for range times {
		f.clock.Step(reportEvery)
		_, err := f.rows.Reconcile(t.Context(), ctrl.Request{NamespacedName: f.key})
		require.Equal(t, f.err != nil, err != nil, "%v", err)
	}
	row := &fleetv1alpha1.MemberWork{}
	require.NoError(t, f.hub.Get(t.Context(), f.key, row))
	return row
}

func TestAnErrorOfTheMemberIsReported(t *testing.T) {
	t.Parallel()
	const message = `failed calling webhook "policy": connection refused`
	for _, request := range []string{"apply", "get", "delete"} {
		t.Run(request, func(t *testing.T) {
			t.Parallel()
			f := newFailing(t)
			row := f.try(t, 2)
			before := row.Status
			require.Equal(t, fleetv1alpha1.WorkHealthy, before.Phase)
			if request == "delete" {
				require.NoError(t, f.hub.Delete(t.Context(), row))
			} else {
				row.Spec.Patch.Raw = []byte(`{"data":{"a":"c"}}`)
				row.Generation++
				require.NoError(t, f.hub.Update(t.Context(), row))
			}

			f.request, f.err = request, apierrors.NewInternalError(errors.New(message))
			require.Equal(t, before, f.try(t, reportAfterFailures-1).Status, "a short failure is not reported")
			degraded := f.try(t, 1)
			require.Equal(t, fleetv1alpha1.WorkDegraded, degraded.Status.Phase)
			require.Equal(t, fleetv1alpha1.ReasonError, degraded.Status.Reason)
			require.Contains(t, degraded.Status.Message, message)
			require.Equal(t, before.ObservedGeneration, degraded.Status.ObservedGeneration, "the row is not acknowledged")

			f.err = apierrors.NewInternalError(errors.New("another port each time"))
			require.Equal(t, degraded, f.try(t, 5), "a changing message is not reported each time")
			f.clock.Step(messageLifetime)
			require.Contains(t, f.try(t, 8).Status.Message, "another port")

			f.err = nil
			after := f.try(t, 1).Status
			require.NotEqual(t, fleetv1alpha1.WorkDegraded, after.Phase)
			require.Empty(t, after.Reason)
			require.Empty(t, after.Message)
		})
	}
}

func TestAMemberThatIsNotReachedIsNoErrorOfItsRows(t *testing.T) {
	t.Parallel()
	for _, err := range []error{
		&url.Error{Op: "Get", URL: "https://member", Err: syscall.ECONNREFUSED}, context.Canceled,
		fmt.Errorf("client rate limiter: %w", context.DeadlineExceeded),
	} {
		f := newFailing(t)
		f.request, f.err = "get", err
		require.Empty(t, f.try(t, 2*reportAfterFailures).Status)
	}
}
