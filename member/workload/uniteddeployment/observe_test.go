package uniteddeployment

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/expect"
)

func TestWhatAHubHoldsIsLeftToIt(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: "shop", UID: "ud-uid", Finalizers: []string{keys.FleetRow}},
		Spec:       appsv1beta1.UnitedDeploymentSpec{Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{{Name: "a"}}}},
	}
	r := &Reconciler{
		Client: fake.NewClientBuilder().WithScheme(scheme).WithObjects(ud).Build(),
		Expect: expect.New(Kind().Kind, clock.RealClock{}, 0),
	}
	_, err := r.observe(t.Context(), client.ObjectKeyFromObject(ud))
	require.ErrorIs(t, err, expect.ErrGone, "its subsets name no cluster any more, but clusters may run it still")
}
