package advancedcronjob

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
)

// indexer adds indexes to a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, name string, extract client.IndexerFunc) error {
	i.WithIndex(o, name, extract)
	return nil
}

// decoding reads like from the apiserver: fields that the answer lacks stay in the object that it is decoded into. The fake client empties the
// object first.
type decoding struct{ client.Reader }

func (d decoding) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	object, _ := into.DeepCopyObject().(client.Object)
	if err := d.Reader.Get(ctx, key, object, opts...); err != nil {
		return err
	}
	raw, err := json.Marshal(object)
	if err != nil {
		return err
	}
	return json.Unmarshal(raw, into)
}

// stage is a reconciler of one AdvancedCronJob, whose run at 00:01 is due.
type stage struct {
	*Reconciler

	t     *testing.T
	api   client.Client
	clock *clocktesting.FakePassiveClock
	// cached is the AdvancedCronJob in the cache; nil if it is the same as on the apiserver.
	cached *appsv1beta1.AdvancedCronJob
	// create, remove and patch are the errors for creates, deletes and status patches; nil if they succeed.
	create, remove, patch error
}

func newStage(t *testing.T, cron *appsv1beta1.AdvancedCronJob) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cron).WithStatusSubresource(cron)
	require.NoError(t, ownership.IndexByOwner(t.Context(), indexer{b}, &batchv1.Job{}))
	api := b.Build()
	s := &stage{t: t, api: api, clock: clocktesting.NewFakePassiveClock(at(0, 1, 0))}
	c := interceptor.NewClient(api, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if cron, ok := o.(*appsv1beta1.AdvancedCronJob); ok && s.cached != nil {
				s.cached.DeepCopyInto(cron)
				return nil
			}
			return c.Get(ctx, key, o, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if s.create != nil {
				return s.create
			}
			o.SetUID(types.UID(o.GetName())) // The fake client sets none.
			return c.Create(ctx, o, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if s.remove != nil {
				return s.remove
			}
			return c.Delete(ctx, o, opts...)
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			if s.patch != nil {
				return s.patch
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	})
	s.Reconciler = &Reconciler{
		Controller: controltest.New(c, decoding{s.api}, s.clock, &testkit.Events{}), Local: time.UTC,
	}
	return s
}

func (s *stage) reconcile() (ctrl.Result, error) {
	s.t.Helper()
	return s.Reconcile(s.t.Context(), ctrl.Request{NamespacedName: key})
}

func (s *stage) cron() *appsv1beta1.AdvancedCronJob {
	s.t.Helper()
	cron := &appsv1beta1.AdvancedCronJob{}
	require.NoError(s.t, s.api.Get(s.t.Context(), key, cron))
	return cron
}

func (s *stage) jobs() []batchv1.Job {
	s.t.Helper()
	list := &batchv1.JobList{}
	require.NoError(s.t, s.api.List(s.t.Context(), list))
	return list.Items
}

// No write of the status proves that what was observed matches the apiserver, so the AdvancedCronJob is read.
func TestNoRunStartsFromACacheThatIsBehind(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		do   func(*stage) error
		want time.Duration
	}{
		{name: "a user has paused it", want: lookAgain, do: func(s *stage) error {
			cron := s.cron()
			cron.Spec.Paused = new(true)
			return s.api.Update(t.Context(), cron)
		}},
		{name: "a previous process has written its status", want: lookAgain, do: func(s *stage) error {
			cron := s.cron()
			last(0, 1)(cron)
			return s.api.Status().Update(t.Context(), cron)
		}},
		{name: "it was deleted", do: func(s *stage) error { return s.api.Delete(t.Context(), s.cron()) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nightly(ofKindJob))
			s.cached = s.cron()
			require.NoError(t, tc.do(s))
			for range 2 { // The second one waits for the cache, or finds the same again.
				result, err := s.reconcile()
				require.NoError(t, err)
				require.GreaterOrEqual(t, result.RequeueAfter, tc.want)
				require.Empty(t, s.jobs())
			}
			if s.cached = nil; tc.want > 0 {
				_, err := s.reconcile()
				require.NoError(t, err)
				require.Empty(t, s.jobs())
			}
		})
	}
}

func TestAJobThatAUserDeletesBeforeTheStatusHasItsRunIsNotCreatedAgain(t *testing.T) {
	t.Parallel()
	s := newStage(t, nightly(ofKindJob))
	s.patch = apierrors.NewInternalError(errors.New("etcd is away"))
	_, err := s.reconcile()
	require.ErrorContains(t, err, "etcd is away")
	require.Len(t, s.jobs(), 1)
	require.Nil(t, s.cron().Status.LastScheduleTime)

	require.NoError(t, s.api.Delete(t.Context(), &s.jobs()[0]))
	s.patch = nil
	s.clock.SetTime(at(0, 1, 5)) // The cache may not have shown the job by then.
	_, err = s.reconcile()
	require.NoError(t, err)
	require.Empty(t, s.jobs())
	require.True(t, timeOf(at(0, 1, 0)).Equal(s.cron().Status.LastScheduleTime))
	_, err = s.reconcile()
	require.NoError(t, err)
	require.Empty(t, s.jobs())
}

func TestARunWhoseJobIsRefusedIsPending(t *testing.T) {
	t.Parallel()
	s := newStage(t, nightly(ofKindJob))
	s.create = apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "nightly", errors.New("exceeded quota"))
	_, err := s.reconcile()
	require.ErrorContains(t, err, "exceeded quota")
	require.True(t, timeOf(at(0, 1, 0)).Equal(&s.cron().Status.Pending.ScheduleTime))
	require.True(t, timeOf(at(0, 1, 0)).Equal(s.cron().Status.LastScheduleTime))

	s.create = nil
	_, err = s.reconcile()
	require.NoError(t, err)
	require.Len(t, s.jobs(), 1)
	require.Nil(t, s.cron().Status.Pending)
	require.Len(t, s.cron().Status.Active, 1)
}

func TestARunWhoseNameAJobOfSomebodyElseHasIsPending(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		owners []metav1.OwnerReference
	}{
		{name: "an object without a controller"}, // Then the answer has no owner references.
		{name: "an object of another controller", owners: []metav1.OwnerReference{
			{APIVersion: "apps.kruise.io/v1beta1", Kind: "AdvancedCronJob", Name: key.Name, UID: "former", Controller: new(true)},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, nightly(ofKindJob))
			foreign := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{
				Namespace: key.Namespace, Name: nameOf(s.cron(), at(0, 1, 0)), UID: "foreign", OwnerReferences: tc.owners,
			}}
			require.NoError(t, s.api.Create(t.Context(), foreign))
			_, err := s.reconcile()
			require.ErrorContains(t, err, "an object with that name exists that doesn't belong to this AdvancedCronJob")
			require.Empty(t, s.cron().Status.Active)
			require.True(t, timeOf(at(0, 1, 0)).Equal(&s.cron().Status.Pending.ScheduleTime))

			require.NoError(t, s.api.Delete(t.Context(), foreign))
			_, err = s.reconcile()
			require.NoError(t, err)
			require.Len(t, s.cron().Status.Active, 1)
		})
	}
}

func TestAJobThatCanNotBeDeletedKeepsNoRunFromStarting(t *testing.T) {
	t.Parallel()
	s := newStage(t, nightly(ofKindJob, limits(0, 0)))
	_, err := s.reconcile()
	require.NoError(t, err)
	require.NoError(t, s.api.Status().Update(t.Context(), ended(&s.jobs()[0], at(0, 1, 1), true)))
	s.remove = apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "jobs"}, "nightly", errors.New("jobs are kept for an audit"))
	s.clock.SetTime(at(0, 1, 5))
	_, err = s.reconcile()
	require.NoError(t, err, "its result is recorded before it is deleted")

	s.clock.SetTime(at(0, 2, 0))
	result, err := s.reconcile()
	require.NoError(t, err, "a back-off could delay the next run")
	require.Equal(t, lookAgain, result.RequeueAfter)
	require.Len(t, s.jobs(), 2)
	require.True(t, timeOf(at(0, 2, 0)).Equal(s.cron().Status.LastScheduleTime))
	sent, _ := s.Events.(*testkit.Events)
	require.Contains(t, sent.Reasons(), reasonFailedDelete)

	s.remove = nil
	s.clock.SetTime(at(0, 2, 5))
	_, err = s.reconcile()
	require.NoError(t, err)
	require.Len(t, s.jobs(), 1)
}
