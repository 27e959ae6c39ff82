package report

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/testkit"
)

// refused returns the API server's response to a create in a terminating namespace.
func refused() error {
	err := apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "web-0", errors.New("it is being terminated"))
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
	return err
}

func TestNothingIsReportedInATerminatingNamespace(t *testing.T) {
	t.Parallel()
	set := testkit.CloneSet("web").Obj()
	store := expect.New("test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)
	var sent testkit.Events
	w := Writer{Expect: store, Events: &sent} // No client: nothing may be written.
	require.True(t, store.Refused(set.UID, refused()))
	status := set.Status
	status.ReadyReplicas++
	wrote, err := w.Write(t.Context(), set, set.Status, status, []event.Event{event.Normal("Made", "Make", "made")})
	require.NoError(t, err)
	require.False(t, wrote)
	require.Empty(t, sent.All())
	got, err := w.Result(set, time.Second, refused())
	require.NoError(t, err)
	require.Equal(t, ctrl.Result{RequeueAfter: 30 * time.Second}, got)
}

// TestResultIsAnErrorOrATime: controller-runtime logs a warning for each reconcile that returns both.
func TestResultIsAnErrorOrATime(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tc := range []struct {
		name    string
		recheck time.Duration
		err     error
		want    ctrl.Result
	}{
		{name: "nothing to wait for"},
		{name: "a time", recheck: time.Minute, want: ctrl.Result{RequeueAfter: time.Minute}},
		{name: "an error", err: boom},
		{name: "an error is retried regardless of the time", recheck: time.Minute, err: boom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := Writer{Expect: expect.New("test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)}
			got, err := w.Result(testkit.CloneSet("web").Obj(), tc.recheck, tc.err)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.err, err)
		})
	}
}

func TestWrite(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	for _, tc := range []struct {
		name   string
		ready  int32 // before: 1
		answer error
		wrote  bool
		want   error
	}{
		{name: "a changed status is written, and expected in the cache", ready: 2, wrote: true},
		{name: "an unchanged status is not written", ready: 1},
		{name: "no status for an object that is gone", ready: 2, answer: apierrors.NewNotFound(schema.GroupResource{}, "web")},
		{name: "nor for one that has changed meanwhile", ready: 2, answer: apierrors.NewConflict(schema.GroupResource{}, "web", boom)},
		{name: "an error of the API server is retried", ready: 2, answer: boom, want: boom},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			set := testkit.CloneSet("web").Status(appsv1beta1.CloneSetStatus{ReadyReplicas: 1}).Obj()
			set.ResourceVersion = ""
			scheme := runtime.NewScheme()
			require.NoError(t, appsv1beta1.AddToScheme(scheme))
			c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(set).WithStatusSubresource(set).Build()
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(set), set))
			store := expect.New("test", clocktesting.NewFakePassiveClock(time.Unix(1000, 0)), 0)
			var sent testkit.Events
			w := Writer{Expect: store, Events: &sent, Owner: "test", Client: interceptor.NewClient(c, interceptor.Funcs{
				SubResourcePatch: func(
					ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
				) error {
					if tc.answer != nil {
						return tc.answer
					}
					return c.SubResource(sub).Patch(ctx, o, p, opts...)
				},
			})}
			status := set.Status
			status.ReadyReplicas = tc.ready
			wrote, err := w.Write(t.Context(), set, set.Status, status, []event.Event{event.Normal("Done", "Do", "done")})
			require.ErrorIs(t, err, tc.want)
			require.Equal(t, tc.wrote, wrote)
			require.Equal(t, []string{"Done"}, sent.Reasons())
			require.Equal(t, int32(1), set.Status.ReadyReplicas, "the cached object is not modified")
			require.Equal(t, tc.wrote, store.Check(set.UID, slices.Values([]metav1.Object{set})).Count == 1)
		})
	}
}

func TestPatchHasZeroValues(t *testing.T) {
	t.Parallel()
	data, err := patch("7", appsv1beta1.CloneSetStatus{}, appsv1beta1.CloneSetStatus{ReadyReplicas: 2, CurrentRevision: "web-2"})
	require.NoError(t, err)
	var got map[string]any
	require.NoError(t, json.Unmarshal(data, &got))
	require.Empty(t, cmp.Diff(map[string]any{
		"metadata": map[string]any{"resourceVersion": "7"},
		"status": map[string]any{
			"replicas": 0.0, "readyReplicas": 2.0, "availableReplicas": 0.0, "updatedReplicas": 0.0, "updatedReadyReplicas": 0.0,
			"updatedAvailableReplicas": 0.0, "expectedUpdatedReplicas": 0.0, "observedGeneration": nil,
			"currentRevision": "web-2", "updateRevision": nil, "collisionCount": nil, "conditions": nil, "labelSelector": nil,
		},
	}, got))
}

// A number in a struct that JSON omits as 0 must not keep its old value.
func TestPatchRemovesFieldsOfStructs(t *testing.T) {
	t.Parallel()
	old := appsv1beta1.UnitedDeploymentStatus{Rollout: &pods.RolloutStatus{Wave: "canary", SoakedSeconds: 20}}
	data, err := patch("7", old, appsv1beta1.UnitedDeploymentStatus{Rollout: &pods.RolloutStatus{Wave: "second"}})
	require.NoError(t, err)
	var got struct {
		Status struct{ Rollout map[string]any }
	}
	require.NoError(t, json.Unmarshal(data, &got))
	soaked, has := got.Status.Rollout["soakedSeconds"]
	require.True(t, has)
	require.Nil(t, soaked)
	require.Equal(t, "second", got.Status.Rollout["wave"])
}

// TestPatchRemovesKeysOfMaps: a merge patch leaves unchanged what it doesn't mention.
func TestPatchRemovesKeysOfMaps(t *testing.T) {
	t.Parallel()
	type state = appsv1beta1.PodState
	old := appsv1beta1.PersistentPodStateStatus{PodStates: map[string]state{
		"db-0": {NodeName: "a", NodeTopologyLabels: map[string]string{"zone": "1", "rack": "2"}}, "db-1": {NodeName: "b"},
	}}
	status := appsv1beta1.PersistentPodStateStatus{ObservedGeneration: 3, PodStates: map[string]state{
		"db-0": {NodeName: "a", NodeTopologyLabels: map[string]string{"zone": "1"}},
	}}
	data, err := patch("7", old, status)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"resourceVersion":"7"},"status":{"observedGeneration":3,"conditions":null,
		"podStates":{"db-0":{"nodeName":"a","nodeTopologyLabels":{"zone":"1","rack":null}},"db-1":null}}}`, string(data))
	status.PodStates = nil
	data, err = patch("7", old, status)
	require.NoError(t, err)
	require.JSONEq(t, `{"metadata":{"resourceVersion":"7"},"status":{"observedGeneration":3,"conditions":null,"podStates":null}}`, string(data))
}
