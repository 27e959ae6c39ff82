package uniteddeployment

import (
	"testing"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestSlicesHaveEachFieldThatTheHubDoesNotActOn(t *testing.T) {
	t.Parallel()
	testkit.RequireSent(t, appsv1beta1.UnitedDeploymentSpec{}, nil, sliceSpec{}, slicePatchSpec{})
	testkit.RequireSent(t, appsv1beta1.Topology{}, []string{"scheduleStrategy", "placement", "dependencies"}, sliceTopology{})
	testkit.RequireSent(t, appsv1beta1.Subset{}, []string{"minReplicas", "maxReplicas", "cluster", "clusterSelector"}, sliceSubset{})
	testkit.RequireSent(t, appsv1beta1.UnitedDeploymentUpdateStrategy{}, []string{"rollout"}, sliceStrategy{})
}
