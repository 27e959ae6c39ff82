package daemonset

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestAdoptionIsReported(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		answer error
		want   []string
	}{
		{"adopted pods", nil, []string{"SuccessfulAdopt"}},
		{"pods that can't be patched", errors.New("pods are frozen"), []string{"FailedUpdate"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			scheme := runtime.NewScheme()
			require.NoError(t, clientgoscheme.AddToScheme(scheme))
			require.NoError(t, appsv1beta1.AddToScheme(scheme))
			o := observed{set: web().Obj()}
			o.set.ResourceVersion = ""
			pod := testkit.Pod("web-x").Obj()
			pod.ResourceVersion = ""
			c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(o.set, pod).Build(), interceptor.Funcs{
				Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
					if tc.answer != nil {
						return tc.answer
					}
					return c.Patch(ctx, o, p, opts...)
				},
			})
			require.NoError(t, c.Get(t.Context(), client.ObjectKeyFromObject(pod), pod))
			sent := &testkit.Events{}
			r := reconciler(c, clocktesting.NewFakePassiveClock(now))
			r.Events = sent
			o.orphans = []client.Object{pod}
			_, err := r.adopt(t.Context(), o)
			require.ErrorIs(t, err, tc.answer)
			require.Equal(t, tc.want, sent.Reasons())
		})
	}
}

// The apiserver gives a new set the status of its schema, whose observedGeneration is -1. Sets that are older than this default have 0.
func TestRevisionsOfAnEarlierSetAreFoundBeforeThisOneActs(t *testing.T) {
	t.Parallel()
	orphan, err := wantedRevision(web().Obj())
	require.NoError(t, err)
	orphan.OwnerReferences = nil
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	for _, tc := range []struct {
		name     string
		observed int64
		found    int
	}{{"a new set", -1, 1}, {"a new set without a default status", 0, 1}, {"a set that has acted", 1, 0}} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			r := reconciler(fake.NewClientBuilder().WithScheme(scheme).WithObjects(orphan.DeepCopy()).Build(), clocktesting.NewFakePassiveClock(now))
			o := observed{set: web().Obj()}
			o.set.Status.ObservedGeneration = tc.observed
			require.NoError(t, r.readUncontrolled(t.Context(), &o))
			require.Len(t, o.orphans, tc.found)
		})
	}
}
