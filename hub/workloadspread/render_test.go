package workloadspread

import (
	"testing"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestSlicesHaveEachFieldThatTheHubDoesNotActOn(t *testing.T) {
	t.Parallel()
	refused := []string{"targetFilter", "overflowPolicy"} // Over clusters, admission refuses them.
	testkit.RequireSent(t, appsv1beta1.WorkloadSpreadSpec{}, append(refused, "placement"), sliceSpec{}, slicePatchSpec{})
	testkit.RequireSent(t, appsv1beta1.WorkloadSpreadSubset{}, []string{"cluster", "clusterSelector"}, sliceSubset{})
}
