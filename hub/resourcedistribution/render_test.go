package resourcedistribution

import (
	"testing"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestSlicesHaveEachFieldThatTheHubDoesNotActOn(t *testing.T) {
	t.Parallel()
	refused := []string{"source"} // Over clusters, admission refuses it.
	testkit.RequireSent(t, appsv1beta1.ResourceDistributionSpec{}, refused, sliceSpec{})
	testkit.RequireSent(t, appsv1beta1.ResourceDistributionTargets{}, []string{"clusters"}, sliceTargets{})
	testkit.RequireSent(t, appsv1beta1.ResourceDistributionNamespaces{}, nil, sliceNamespaces{})
}
