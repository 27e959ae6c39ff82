package uniteddeployment

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

func TestChildrenThatAHubPlacesAreLeftAlone(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "ud-uid", Finalizers: []string{keys.FleetRow}},
		Spec:       appsv1beta1.UnitedDeploymentSpec{Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "a"}}}},
	}
	r := &Reconciler{
		Controller: &control.Controller{Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(ud).Build(), Expect: expect.New(Kind().Kind, clock.RealClock{}, 0)},
	}
	_, err := r.observe(t.Context(), client.ObjectKeyFromObject(ud))
	require.ErrorIs(t, err, expect.ErrGone, "its subsets no longer name clusters, but clusters may still run it")
}

func TestADeletionThatTheCacheDoesNotShowIsReadLive(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	ud := &appsv1beta1.UnitedDeployment{ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "ud-uid"}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(ud).Build()
	clk := clocktesting.NewFakePassiveClock(now)
	r := &Reconciler{
		Controller: &control.Controller{
			Live: interceptor.NewClient(api, interceptor.Funcs{
				Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
					require.Empty(t, o.GetName(), "the answer is decoded into the object, so it must be empty")
					err := c.Get(ctx, key, o, opts...)
					o.SetDeletionTimestamp(new(metav1.NewTime(now)))
					return err
				},
			}),
			Expect: expect.New("test", clk, time.Minute), // The cache never shows a child.
			Client: interceptor.NewClient(api, interceptor.Funcs{
				List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return nil },
			}),
		},
	}
	r.Expect.Created(ud.UID, &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "web-a", UID: "a-uid"}})
	clk.SetTime(now.Add(time.Minute))
	_, err := r.observe(t.Context(), client.ObjectKeyFromObject(ud))
	require.ErrorIs(t, err, expect.ErrGone)
}
