package member

import (
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSchemeKnowsAllVersions(t *testing.T) {
	t.Parallel()
	s, err := Scheme()
	require.NoError(t, err)
	for _, o := range []client.Object{&appsv1beta1.CloneSet{}, &appsv1alpha1.CloneSet{}, &fleetv1alpha1.Membership{}} {
		_, _, err := s.ObjectKinds(o)
		require.NoError(t, err)
	}
}
