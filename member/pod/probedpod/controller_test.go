package probedpod

import (
	"context"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
)

// A write is remembered until the cache shows it. For a pod that gets no more results, nothing would look again, so the write would be
// remembered forever.
func TestWritesToAPodWithoutProbesAreForgotten(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, corev1.AddToScheme(scheme))
	require.NoError(t, appsv1alpha1.AddToScheme(scheme))
	for _, tc := range []struct {
		name   string
		change func(*corev1.Pod)
		gone   bool
		kept   bool
	}{
		{name: "the pod is unchanged", change: func(*corev1.Pod) {}, kept: true},
		{name: "the pod is gone", gone: true},
		{name: "the pod is being deleted", change: func(p *corev1.Pod) {
			p.DeletionTimestamp, p.Finalizers = new(metav1.NewTime(noon)), []string{"example.com/hold"}
		}},
		{name: "the pod has ended", change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded }},
		{name: "no PodProbeMarker selects the pod", change: func(p *corev1.Pod) { p.Labels = nil }},
		{name: "another pod with its name has no node yet", change: func(p *corev1.Pod) { p.UID, p.Spec.NodeName = "later", "" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := podWith(map[string]string{"game": "yes"})
			pod.Spec.NodeName, pod.ResourceVersion = "node-1", "7"
			with := func(objects ...client.Object) client.Client {
				return clientfake.NewClientBuilder().WithScheme(scheme).WithObjects(append(objects, marker("a", idle))...).Build()
			}
			clk := clocktesting.NewFakePassiveClock(noon)
			r := &Reconciler{Controller: &control.Controller{Client: with(pod.DeepCopy()), Clock: clk, Expect: expect.New("Test", clk, 0)}}
			reconcile := func() ctrl.Result {
				t.Helper()
				got, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(pod)})
				require.NoError(t, err)
				return got
			}
			require.Zero(t, reconcile())
			to := pod.DeepCopy()
			to.ResourceVersion = "8"
			r.Expect.Written(pod.UID, to)
			require.Positive(t, reconcile().RequeueAfter, "the cache lacks the write")
			if tc.gone {
				r.Client = with()
			} else {
				changed := pod.DeepCopy()
				tc.change(changed)
				r.Client = with(changed)
			}
			if _, err := r.observe(t.Context(), client.ObjectKeyFromObject(pod)); !tc.kept {
				require.ErrorIs(t, err, expect.ErrGone)
			}
			require.Equal(t, tc.kept, reconcile().RequeueAfter > 0)
			require.Equal(t, tc.kept, r.Expect.Check(pod.UID, slices.Values([]metav1.Object{pod})).Count > 0)
		})
	}
}

// If a pod was replaced since it was read, the apiserver rejects a patch with the old UID as Invalid. The event for the new pod is coming,
// and there is nothing to tell the user.
func TestAWriteToAPodThatWasReplacedIsNoError(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		field  string
		failed bool
	}{{"metadata.uid", false}, {"metadata.labels", true}} {
		refused := apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{
			field.Invalid(field.NewPath(tc.field), "x", "field is immutable"),
		})
		var events testkit.Events
		r := &Reconciler{
			Controller: &control.Controller{Client: interceptor.NewClient(nil, interceptor.Funcs{
				Patch: func(context.Context, client.WithWatch, client.Object, client.Patch, ...client.PatchOption) error {
					return refused
				},
				SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
					return refused
				},
			}), Events: &events},
		}
		pod := podWith(nil)
		for what, p := range map[string]planned{
			"conditions": {conditions: []podpatch.Condition{{Type: idle, Status: corev1.ConditionTrue}}},
			"labels":     {labels: map[string]*string{"idle": new("yes")}},
		} {
			err := r.apply(t.Context(), pod, p)
			require.Equal(t, tc.failed, err != nil, "%s of %s: %v", tc.field, what, err)
		}
		require.Len(t, events.Reasons(), map[bool]int{true: 2}[tc.failed], tc.field)
	}
}
