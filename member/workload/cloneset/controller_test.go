package cloneset

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
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
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}

// indexer adds indexes to a fake client.
type indexer struct{ *fake.ClientBuilder }

func (i indexer) IndexField(_ context.Context, o client.Object, name string, extract client.IndexerFunc) error {
	i.WithIndex(o, name, extract)
	return nil
}

// stage is a reconciler with a fake client, which serves both cached and live reads unless a test replaces one of them.
type stage struct {
	*Reconciler
	api   client.Client
	clock *clocktesting.FakePassiveClock
	sent  testkit.Events
}

func newStage(t *testing.T, funcs interceptor.Funcs, objects ...client.Object) *stage {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&appsv1beta1.CloneSet{}, &corev1.Pod{})
	require.NoError(t, ownership.IndexByOwner(t.Context(), indexer{b}, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{}))
	// The fake client sets no UIDs, which expectations need.
	api := interceptor.NewClient(b.Build(), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			o.SetUID(types.UID("uid-" + o.GetName()))
			return c.Create(ctx, o, opts...)
		},
	})
	s := &stage{api: api, clock: clocktesting.NewFakePassiveClock(now)}
	s.Reconciler = &Reconciler{Controller: &podcontrol.Controller{Controller: &control.Controller{
		Client: interceptor.NewClient(api, funcs), Live: api, Clock: s.clock, Events: &s.sent,
		Expect: expect.New("Test", s.clock, time.Minute), Parallel: 1, // What a test counts in funcs needs no lock.
	}}}
	return s
}

func (s *stage) reconcile(t *testing.T) (ctrl.Result, error) {
	t.Helper()
	return s.Reconcile(t.Context(), ctrl.Request{NamespacedName: key})
}

func (s *stage) get(t *testing.T) *appsv1beta1.CloneSet {
	t.Helper()
	var set appsv1beta1.CloneSet
	require.NoError(t, s.api.Get(t.Context(), key, &set))
	return &set
}

func (s *stage) pods(t *testing.T) []corev1.Pod {
	t.Helper()
	var list corev1.PodList
	require.NoError(t, s.api.List(t.Context(), &list))
	return list.Items
}

func TestReconcileCreatesPods(t *testing.T) {
	t.Parallel()
	s := newStage(t, interceptor.Funcs{}, web(3).PVCs("data").Obj())
	_, err := s.reconcile(t)
	require.NoError(t, err)
	set := s.get(t)
	pods := s.pods(t)
	require.Len(t, pods, 3)
	for i := range pods {
		p := &pods[i]
		id := p.Labels[keys.CloneSetInstanceID]
		require.Len(t, id, 5)
		require.Equal(t, "web-"+id, p.Name)
		require.Equal(t, "web-", p.GenerateName)
		require.Equal(t, set.Status.UpdateRevision, p.Labels[keys.ControllerRevisionHash])
		require.Equal(t, strings.TrimPrefix(set.Status.UpdateRevision, "web-"), p.Labels[keys.PodTemplateHash])
		require.Equal(t, "PreparingNormal", p.Labels[keys.LifecycleState])
		require.Equal(t, now.Format(time.RFC3339), p.Annotations[keys.LifecycleTimestamp])
		require.Equal(t, []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}, p.Spec.ReadinessGates)
		require.Equal(t, []metav1.OwnerReference{{
			APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: owner,
			Controller: new(true), BlockOwnerDeletion: new(true),
		}}, p.OwnerReferences)

		var c corev1.PersistentVolumeClaim
		require.NoError(t, s.api.Get(t.Context(), types.NamespacedName{Namespace: key.Namespace, Name: "data-web-" + id}, &c))
		require.Equal(t, map[string]string{"app": "web", keys.CloneSetInstanceID: id}, c.Labels)
		require.True(t, metav1.IsControlledBy(&c, set))
		require.Equal(t, c.Name, p.Spec.Volumes[0].PersistentVolumeClaim.ClaimName)
	}
	require.Equal(t, []string{"SuccessfulCreate"}, s.sent.Reasons())
}

func TestReconcileEndsQuietly(t *testing.T) {
	t.Parallel()
	going := web(3).Obj()
	going.DeletionTimestamp, going.Finalizers = new(metav1.NewTime(start)), []string{"foregroundDeletion"}
	tests := []struct {
		name    string
		objects []client.Object
	}{
		{"when the set is gone", nil},
		{"when the set is being deleted", []client.Object{going}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStage(t, interceptor.Funcs{}, tt.objects...)
			got, err := s.reconcile(t)
			require.NoError(t, err)
			require.Zero(t, got)
			require.Empty(t, s.pods(t))
		})
	}
}

func TestB4ReconcileWaitsForItsCacheAndThenReadsLive(t *testing.T) {
	t.Parallel()
	// The cache never shows a pod; the apiserver has them all.
	s := newStage(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	}, web(2).Obj())
	_, err := s.reconcile(t)
	require.NoError(t, err)
	require.Len(t, s.pods(t), 2)

	s.clock.SetTime(now.Add(45 * time.Second))
	got, err := s.reconcile(t)
	require.NoError(t, err)
	require.Equal(t, 15*time.Second, got.RequeueAfter, "rechecked in case no watch event comes")
	require.Len(t, s.pods(t), 2, "no pod is created twice")

	s.clock.SetTime(now.Add(time.Minute))
	_, err = s.reconcile(t)
	require.NoError(t, err)
	require.Len(t, s.pods(t), 2, "the apiserver shows what the cache does not")
	require.Equal(t, int32(2), s.get(t).Status.Replicas)

	got, err = s.reconcile(t)
	require.NoError(t, err)
	require.Equal(t, 30*time.Second, got.RequeueAfter, "the cache is still stale: rechecked later")
	require.Len(t, s.pods(t), 2)
}

func TestACacheThatIsTooLateIsCountedUnderTheNameOfOpenKruise(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	require.NoError(t, register(r))
	set := web(1).Obj()
	set.Name = "leaking" // No other test uses this name.
	s := newStage(t, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, ok := list.(*corev1.PodList); ok {
				return nil
			}
			return c.List(ctx, list, opts...)
		},
	}, set)
	for _, at := range []time.Duration{0, 45 * time.Second, time.Minute, 90 * time.Second} {
		s.clock.SetTime(now.Add(at))
		_, err := s.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(set)})
		require.NoError(t, err)
	}
	all, err := r.Gather()
	require.NoError(t, err)
	got := map[string]float64{}
	for _, family := range all {
		for _, m := range family.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			if labels["name"] == set.Name && labels["namespace"] == set.Namespace && len(labels) == 2 {
				got[family.GetName()] += m.GetCounter().GetValue()
			}
		}
	}
	require.Equal(t, map[string]float64{"cloneset_scale_expectation_leakage": 1}, got, "the time-out is a minute")
}

func TestReconcileCreatesNothingForADeletedSetThatItsCacheStillShows(t *testing.T) {
	t.Parallel()
	s := newStage(t, interceptor.Funcs{
		List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
	}, web(2).Obj())
	_, err := s.reconcile(t)
	require.NoError(t, err)
	require.Len(t, s.pods(t), 2)

	s.Live = interceptor.NewClient(s.api.(client.WithWatch), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			require.Empty(t, o.GetName(), "the answer is decoded into the object, so it must be empty")
			err := c.Get(ctx, key, o, opts...)
			o.SetDeletionTimestamp(new(metav1.NewTime(now)))
			return err
		},
	})
	require.NoError(t, s.api.DeleteAllOf(t.Context(), &corev1.Pod{}, client.InNamespace(key.Namespace)))
	s.clock.SetTime(now.Add(time.Minute))
	got, err := s.reconcile(t)
	require.NoError(t, err)
	require.Zero(t, got)
	require.Empty(t, s.pods(t))
}

func TestReconcileCountsACollision(t *testing.T) {
	t.Parallel()
	set := web(2).Obj()
	taken := revisionOf(t, set, 1)
	taken.Data.Raw = []byte(`{"spec":{"template":{"another":"template"}}}`)
	s := newStage(t, interceptor.Funcs{}, set, taken)
	_, err := s.reconcile(t)
	require.NoError(t, err)
	require.Equal(t, int32(1), *s.get(t).Status.CollisionCount)
	require.Empty(t, s.pods(t), "no pod without a revision")

	_, err = s.reconcile(t)
	require.NoError(t, err)
	require.Len(t, s.pods(t), 2)
	require.NotEqual(t, taken.Name, s.get(t).Status.UpdateRevision)
}

func TestReconcileGoesOnAfterAnErrorOfAnotherClass(t *testing.T) {
	t.Parallel()
	set := web(3).Rolling("0", "100%", "0").Obj()
	toDelete := pod("a").Label(keys.SpecifiedDelete, "true").Rev(revisionOf(t, set, 1).Name).Serving(start).Obj()
	s := newStage(t, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if _, ok := o.(*corev1.Pod); ok {
				return apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, o.GetName(), errors.New("exceeded quota"))
			}
			return c.Create(ctx, o, opts...)
		},
	}, set, toDelete)
	_, err := s.reconcile(t)
	require.ErrorContains(t, err, "exceeded quota")
	require.Empty(t, s.pods(t), "the pod to delete is deleted all the same")
	got := failures(s.get(t).Status.Conditions)
	require.Len(t, got, 1)
	require.Equal(t, appsv1beta1.CloneSetFailedScale, got[0].Type)
	require.Contains(t, got[0].Message, "exceeded quota")
	require.ElementsMatch(t, []string{"SuccessfulDelete", "FailedCreate"}, s.sent.Reasons())
}

func TestReconcileReportsAPVCThatCanNotBeDeleted(t *testing.T) {
	t.Parallel()
	set := web(0).PVCs("data").Obj()
	s := newStage(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			if _, ok := o.(*corev1.PersistentVolumeClaim); ok {
				return errors.New("no right to")
			}
			return c.Delete(ctx, o, opts...)
		},
	}, set, pod("a").Rev(revisionOf(t, set, 1).Name).Serving(start).Obj(), newPVCs(set, "a")[0], newPVCs(set, "lost")[0])
	_, err := s.reconcile(t)
	require.ErrorContains(t, err, "no right to")
	require.Empty(t, s.pods(t))
	got := failures(s.get(t).Status.Conditions)
	require.Len(t, got, 1)
	require.Equal(t, appsv1beta1.CloneSetFailedScale, got[0].Type)
	require.ElementsMatch(t, []string{"SuccessfulDelete", "FailedDelete"}, s.sent.Reasons())
}

func TestReconcileCreatesNewPodsEvenIfTheFormerRevisionCanNotBeRead(t *testing.T) {
	t.Parallel()
	set := web(3).Image("app:2").Obj()
	former := revisionOf(t, web(3).Obj(), 1)
	former.Data.Raw = []byte(`{"spec":{"template":7}}`)
	set.Status.CurrentRevision = former.Name
	s := newStage(t, interceptor.Funcs{}, set, former, pod("a").Rev(former.Name).Serving(start).Obj())
	_, err := s.reconcile(t)
	require.NoError(t, err)
	require.Len(t, s.pods(t), 3)
}

func TestReconcileTruncatesPodsToDelete(t *testing.T) {
	t.Parallel()
	set := web(1).PodsToDelete("web-gone", "web-a").Obj()
	kept := pod("a").Rev(revisionOf(t, set, 1).Name).Serving(start).Obj()
	s := newStage(t, interceptor.Funcs{
		Delete: func(context.Context, client.WithWatch, client.Object, ...client.DeleteOption) error {
			return errors.New("not now")
		},
	}, set, kept)
	_, err := s.reconcile(t)
	require.ErrorContains(t, err, "not now")
	require.Equal(t, []string{"web-a"}, s.get(t).Spec.ScaleStrategy.PodsToDelete)
}

func TestASetInANamespaceThatIsBeingDeletedIsLeftAlone(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		refuse func(client.Object) bool
		made   int // create requests for pods and revisions
	}{
		{"its revision is refused", func(client.Object) bool { return true }, 1},
		{"its pods are refused", func(o client.Object) bool { _, pod := o.(*corev1.Pod); return pod }, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			s := newStage(t, interceptor.Funcs{
				Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
					asked++
					if !tc.refuse(o) {
						return c.Create(ctx, o, opts...)
					}
					err := apierrors.NewForbidden(schema.GroupResource{}, o.GetName(), errors.New("the namespace is being terminated"))
					err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
					return err
				},
			}, web(100).Obj())
			for i := range 3 {
				s.clock.SetTime(now.Add(time.Duration(i) * time.Second))
				got, err := s.reconcile(t)
				require.NoError(t, err)
				require.Equal(t, ctrl.Result{RequeueAfter: 30*time.Second - time.Duration(i)*time.Second}, got)
			}
			require.Equal(t, tc.made, asked, "a refused create is not retried at once")
			require.Empty(t, s.sent.All(), "events would be refused too")
			require.Zero(t, s.get(t).Status)
		})
	}
}

func TestReportWritesCountersAtMostOnceASecond(t *testing.T) {
	t.Parallel()
	s := newStage(t, interceptor.Funcs{}, web(5).Obj())
	report := func(change func(*appsv1beta1.CloneSetStatus)) time.Duration {
		set := s.get(t)
		status := *set.Status.DeepCopy()
		change(&status)
		got, err := s.Report(t.Context(), measure, &podcontrol.Results{}, control.Outcome{Object: set, Was: set.Status, Is: status, MayWait: countsOnly(set, status)})
		require.NoError(t, err)
		return got.RequeueAfter
	}
	require.Zero(t, report(func(s *appsv1beta1.CloneSetStatus) { s.Replicas = 1 }), "the first status is written at once")
	s.clock.SetTime(now.Add(200 * time.Millisecond))
	require.Equal(t, 800*time.Millisecond, report(func(s *appsv1beta1.CloneSetStatus) { s.Replicas = 2 }))
	require.Equal(t, int32(1), s.get(t).Status.Replicas)
	require.Zero(t, report(func(s *appsv1beta1.CloneSetStatus) { s.ObservedGeneration = 2 }), "a change of more than counts is written at once")
	require.Zero(t, report(func(s *appsv1beta1.CloneSetStatus) { s.UpdatedAvailableReplicas = 5 }), "a completed rollout is written at once")
	s.clock.SetTime(now.Add(time.Second))
	require.Zero(t, report(func(s *appsv1beta1.CloneSetStatus) { s.Replicas = 2 }), "a status that has waited long enough is written")
	require.Equal(t, int32(2), s.get(t).Status.Replicas)
}
