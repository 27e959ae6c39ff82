package uniteddeployment

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/uuid"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/testkit"
)

// reconciler is the controller under test.
type reconciler = placement.Controller[*observed, planned, appsv1beta1.UnitedDeploymentStatus]

// fixture is a reconciler with a fake client, and its writes.
type fixture struct {
	*reconciler
	testkit.Writes
	options placement.Options
	sent    *testkit.Events
	clock   *clocktesting.FakePassiveClock
}

func newFixture(tb testing.TB, objects ...client.Object) *fixture {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, appsv1beta1.AddToScheme, fleetv1alpha1.AddToScheme} {
		require.NoError(tb, add(scheme))
	}
	b := &fixture{sent: &testkit.Events{}}
	funcs := b.Funcs()
	create := funcs.Create
	funcs.Create = func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
		if _, ok := o.(*appsv1.ControllerRevision); ok { // The fake client sets no UID, and expectations are by UID.
			o.SetUID(uuid.NewUUID())
		}
		return create(ctx, c, o, opts...)
	}
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&appsv1beta1.UnitedDeployment{}, &fleetv1alpha1.MemberWork{}, &fleetv1alpha1.MemberCluster{}).
		WithInterceptorFuncs(funcs)
	require.NoError(tb, Kind(placement.Options{}).Index(tb.Context(), testkit.Indexes{Builder: builder}))
	c := builder.Build()
	b.clock = clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	b.options = placement.Options{Store: row.NewStore(c, []byte("key"), b.clock), Events: b.sent, Clock: b.clock}
	b.reconciler = Kind(b.options).New(b.options, c, c)
	return b
}

// reconcile reconciles the object until no status waits. It returns the object and the number of writes.
func (b *fixture) reconcile(tb testing.TB, ud *appsv1beta1.UnitedDeployment) (*appsv1beta1.UnitedDeployment, int) {
	tb.Helper()
	b.Verbs = nil
	for wait := time.Hour; wait > 0; b.clock.SetTime(b.clock.Now().Add(wait)) {
		result, err := b.Reconcile(tb.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ud)})
		require.NoError(tb, err)
		wait = result.RequeueAfter
	}
	now := &appsv1beta1.UnitedDeployment{}
	require.NoError(tb, b.Get(tb.Context(), client.ObjectKeyFromObject(ud), now))
	return now, len(b.Verbs)
}

// hub returns a namespace, the cluster east and some objects there with one replica each.
func hub(objects int) ([]client.Object, []*appsv1beta1.UnitedDeployment) {
	w := newWorld(1, subsetIn("a", "east", ""))
	w.cluster("east", nil)
	all := []client.Object{w.o.Clusters["east"], &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	var uds []*appsv1beta1.UnitedDeployment
	for i := range objects {
		ud := w.o.ud.DeepCopy()
		ud.Name = fmt.Sprintf("web-%d", i)
		ud.UID = types.UID(ud.Name)
		all, uds = append(all, ud), append(uds, ud)
	}
	return all, uds
}

func TestNothingIsWrittenWhereNothingChanged(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	b := newFixture(t, all...)
	ud, writes := b.reconcile(t, uds[0])
	require.Equal(t, 4, writes, "a revision, a content, a row and the status")
	require.Len(t, ud.Status.SubsetStatuses, 1)
	events := len(b.sent.All())
	again, writes := b.reconcile(t, ud)
	require.Zero(t, writes)
	require.Equal(t, ud.Status, again.Status)

	require.NoError(t, b.Delete(t.Context(), ud))
	_, writes = b.reconcile(t, ud)
	require.Equal(t, 3, writes, "the mark and the deletion of the row, and the status")
	require.Len(t, b.sent.All(), events+1)
	require.Equal(t, eventWithdrawing, b.sent.All()[events].Reason)
	_, writes = b.reconcile(t, ud)
	require.Zero(t, writes)
	require.Len(t, b.sent.All(), events+1, "no event is sent twice")
}

func TestAStatusThatMayWaitIsCollected(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	b, key := newFixture(t, all...), client.ObjectKeyFromObject(uds[0])
	// reconcile returns when the status is due, and whether it was written.
	reconcile := func(after time.Duration) (time.Duration, bool) {
		b.clock.SetTime(b.clock.Now().Add(after))
		b.Verbs = nil
		result, err := b.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
		require.NoError(t, err)
		return result.RequeueAfter, slices.Contains(b.Verbs, "patch status")
	}
	due, wrote := reconcile(0)
	require.False(t, wrote)
	require.Equal(t, 3*time.Second, due)
	due, wrote = reconcile(2 * time.Second)
	require.False(t, wrote)
	require.Equal(t, time.Second, due)
	require.Empty(t, b.sent.All(), "events are only sent for statuses that were written")
	due, wrote = reconcile(time.Second)
	require.True(t, wrote)
	require.Zero(t, due)
	require.NotEmpty(t, b.sent.All())

	rows := &fleetv1alpha1.MemberWorkList{}
	require.NoError(t, b.List(t.Context(), rows))
	blocked := &rows.Items[0]
	blocked.Status = fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkBlocked, Reason: fleetv1alpha1.ReasonForbidden}
	require.NoError(t, b.Status().Update(t.Context(), blocked))
	_, wrote = reconcile(0)
	require.True(t, wrote, "a failure is written at once")
}

func TestWhatMayWait(t *testing.T) {
	t.Parallel()
	type status = appsv1beta1.UnitedDeploymentStatus
	set := func(s *status, kind appsv1beta1.UnitedDeploymentConditionType, value corev1.ConditionStatus, reason string) {
		s.Conditions = united.SetCondition(s.Conditions, appsv1beta1.UnitedDeploymentCondition{Type: kind, Status: value, Reason: reason}, time.Unix(1000, 0))
	}
	rest := status{
		ObservedGeneration: 1, Replicas: 4, AvailableReplicas: 4, UpdatedReplicas: 4, UpdatedReadyReplicas: 4,
		SubsetStatuses: []appsv1beta1.SubsetStatus{{Name: "a", Replicas: 4}},
	}
	set(&rest, appsv1beta1.SubsetFailure, corev1.ConditionFalse, "NoFailure")
	set(&rest, appsv1beta1.SubsetProvisioned, corev1.ConditionTrue, "AllClusters")
	set(&rest, appsv1beta1.SubsetUpdated, corev1.ConditionTrue, "AllSubsets")
	set(&rest, appsv1beta1.UnitedDeploymentPlaced, corev1.ConditionTrue, "AllPlaced")
	updating := *rest.DeepCopy()
	set(&updating, appsv1beta1.SubsetUpdated, corev1.ConditionFalse, "Updating")
	updating.ObservedGeneration, updating.UpdatedReplicas, updating.UpdatedReadyReplicas = 2, 1, 1
	begun := *updating.DeepCopy()
	begun.UpdatedReplicas, begun.UpdatedReadyReplicas = 0, 0
	moving := func(s *status) { set(s, appsv1beta1.UnitedDeploymentPlaced, corev1.ConditionFalse, "Moving") }
	for _, tt := range []struct {
		name   string
		before status
		change func(s *status)
		// wait is how long it waits, or 0 if it doesn't wait.
		wait time.Duration
	}{
		{"a change that was sent to the clusters", rest, func(s *status) { set(s, appsv1beta1.SubsetProvisioned, corev1.ConditionFalse, "Waiting") }, begunDelay},
		{"a change that has just begun", rest, func(s *status) { *s = begun }, begunDelay},
		{"a change that has just begun and removes a pod", rest, func(s *status) { *s = begun; s.AvailableReplicas = 3 }, placement.StatusDelay},
		{"a change of an object that was not complete", updating, func(s *status) { *s = begun }, placement.StatusDelay},
		{"the first pod", rest, func(s *status) { *s = updating }, begunDelay},
		{"a scale-out", rest, func(s *status) { s.SubsetStatuses[0].Replicas = 5 }, placement.StatusDelay},
		{"a move that has just begun", rest, func(s *status) { *s = begun; moving(s) }, placement.StatusDelay},
		{"counts of a change", updating, func(s *status) { s.UpdatedReplicas = 2 }, placement.StatusDelay},
		{"counts of an object at rest", rest, func(s *status) { s.ReadyReplicas, s.AvailableReplicas = 3, 3 }, placement.StatusDelay},
		{"the end of a change", updating, func(s *status) { *s = rest; s.ObservedGeneration = 2 }, 0},
		{"a change that is done at once", rest, func(s *status) { s.ObservedGeneration = 2 }, 0},
		{"pods that are not available yet", updating, func(s *status) { *s = rest; s.AvailableReplicas = 3 }, placement.StatusDelay},
		{"a failure", updating, func(s *status) { set(s, appsv1beta1.SubsetFailure, corev1.ConditionTrue, "Quota") }, 0},
		{"a deletion", rest, func(s *status) { set(s, appsv1beta1.UnitedDeploymentPlaced, corev1.ConditionFalse, reasonDeleting) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			after := *tt.before.DeepCopy()
			tt.change(&after)
			require.Equal(t, tt.wait, changed(0, tt.before, after).Collect)
		})
	}
	failed := *rest.DeepCopy()
	set(&failed, appsv1beta1.SubsetFailure, corev1.ConditionTrue, "Quota")
	require.Zero(t, changed(0, failed, updating).Collect, "the end of a failure")
	deleting := *rest.DeepCopy()
	set(&deleting, appsv1beta1.UnitedDeploymentPlaced, corev1.ConditionFalse, reasonDeleting)
	fewer := *deleting.DeepCopy()
	fewer.Replicas = 2
	require.NotZero(t, changed(0, deleting, fewer).Collect, "the counts of a deletion wait")
}

func TestContentsAreReadOnlyForRowsWithoutAPatch(t *testing.T) {
	t.Parallel()
	all, uds := hub(1)
	long := uds[0].DeepCopy()
	long.Name, long.UID = "long", "long"
	long.Spec.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"metadata":{"annotations":{"a":%q}}}`, strings.Repeat("x", 4096))}
	b := newFixture(t, append(all, long)...)
	for _, ud := range []*appsv1beta1.UnitedDeployment{uds[0], long} {
		b.reconcile(t, ud)
	}
	read := 0
	b.Rows = row.NewStore(b.Client.Client, []byte("key"), b.clock) // A new store has cached nothing.
	b.Live = interceptor.NewClient(b.Client.Client.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if _, content := o.(*fleetv1alpha1.WorkContent); content {
				read++
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	o, err := observe(t.Context(), b.Client, client.ObjectKeyFromObject(uds[0]), b.options)
	require.NoError(t, err)
	require.Zero(t, read)
	require.Len(t, o.sliceSubsets("east"), 1)

	o, err = observe(t.Context(), b.Client, client.ObjectKeyFromObject(long), b.options)
	require.NoError(t, err)
	require.Equal(t, 1, read, "the patch is too long for the row")
	require.Len(t, o.sliceSubsets("east"), 1)
	require.Contains(t, string(o.sliceSubsets("east")[0].Patch.Raw), "xxxx")
}

func TestI13ObjectsDeletedTooFastReportHowToContinue(t *testing.T) {
	t.Parallel()
	const objects = 12
	all, uds := hub(objects)
	b := newFixture(t, all...)
	for i, ud := range uds {
		uds[i], _ = b.reconcile(t, ud)
		require.NoError(t, b.Delete(t.Context(), ud))
	}
	held := 0
	for _, ud := range uds {
		ud, _ = b.reconcile(t, ud)
		failure := find(ud.Status.Conditions, appsv1beta1.SubsetFailure)
		if failure.Status != corev1.ConditionTrue {
			continue
		}
		held++
		require.Equal(t, placement.ReasonPaused, failure.Reason)
		require.Contains(t, failure.Message, "kubectl annotate membercluster east "+keys.FleetWithdrawalsPaused+"-")
		warning := b.sent.All()[len(b.sent.All())-2]
		require.Equal(t, corev1.EventTypeWarning, warning.Type)
		require.Contains(t, warning.Note, "kubectl annotate membercluster east "+keys.FleetWithdrawalsPaused+"-")
		_, writes := b.reconcile(t, ud)
		require.Zero(t, writes, "a paused withdrawal waits without writes")
	}
	require.Equal(t, 2, held, "ten withdrawals are allowed within a minute")

	east := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, b.Get(t.Context(), client.ObjectKey{Name: "east"}, east))
	delete(east.Annotations, keys.FleetWithdrawalsPaused)
	require.NoError(t, b.Update(t.Context(), east))
	for _, ud := range uds {
		ud, _ = b.reconcile(t, ud)
		require.Equal(t, corev1.ConditionFalse, find(ud.Status.Conditions, appsv1beta1.SubsetFailure).Status)
	}
	rows := &fleetv1alpha1.MemberWorkList{}
	require.NoError(t, b.List(t.Context(), rows))
	for i := range rows.Items {
		require.NotNil(t, rows.Items[i].DeletionTimestamp, "all are withdrawn once an administrator allows it")
	}
}

func TestI28AGenerationIsNotObservedWhereARowWasNotWritten(t *testing.T) {
	t.Parallel()
	rows := fleetv1alpha1.GroupVersion.WithResource("memberworks").GroupResource()
	for _, tt := range []struct {
		name string
		// before is true if the object is already running.
		before bool
		fail   func(verb string, o client.Object) error
	}{
		{"another client has written the row in the meantime", true, func(verb string, o client.Object) error {
			if _, row := o.(*fleetv1alpha1.MemberWork); row && verb == "update" {
				return apierrors.NewConflict(rows, o.GetName(), errors.New("the object has been modified"))
			}
			return nil
		}},
		{"the row exists, but the cache does not show it yet", false, func(verb string, o client.Object) error {
			if _, row := o.(*fleetv1alpha1.MemberWork); row && verb == "create" {
				return apierrors.NewAlreadyExists(rows, o.GetName())
			}
			return nil
		}},
		{"the finalizer could not be set", false, func(verb string, o client.Object) error {
			if _, source := o.(*appsv1beta1.UnitedDeployment); source && verb == "patch" {
				return apierrors.NewConflict(rows, o.GetName(), errors.New("the object has been modified"))
			}
			return nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			all, uds := hub(1)
			ud := uds[0]
			if !tt.before {
				ud.Finalizers = nil
			}
			b := newFixture(t, all...)
			if tt.before {
				b.reconcile(t, ud)
				ud, _ = b.reconcile(t, ud)
				require.Equal(t, int64(1), ud.Status.ObservedGeneration)
				require.Equal(t, int64(1), ud.Status.SubsetStatuses[0].ObservedGeneration)
			}
			ud.Generation, *ud.Spec.Replicas = ud.Generation+1, 5
			require.NoError(t, b.Update(t.Context(), ud))
			before := ud.Status.ObservedGeneration
			b.Fail = tt.fail
			for range 3 { // The first sets the finalizer, the third writes a status that waited.
				_, _ = b.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(ud)})
				b.clock.SetTime(b.clock.Now().Add(placement.StatusDelay))
			}
			require.NoError(t, b.Get(t.Context(), client.ObjectKeyFromObject(ud), ud))
			require.Equal(t, before, ud.Status.ObservedGeneration)
			require.NotEqual(t, ud.Generation, ud.Status.SubsetStatuses[0].ObservedGeneration)
			require.Equal(t, corev1.ConditionFalse, find(ud.Status.Conditions, appsv1beta1.SubsetProvisioned).Status)
			require.Equal(t, "1 cluster has not applied its part yet", find(ud.Status.Conditions, appsv1beta1.SubsetProvisioned).Message)

			b.Fail = nil
			for range 3 {
				ud, _ = b.reconcile(t, ud)
			}
			require.Equal(t, ud.Generation, ud.Status.ObservedGeneration)
			require.Equal(t, ud.Generation, ud.Status.SubsetStatuses[0].ObservedGeneration)
		})
	}
}
