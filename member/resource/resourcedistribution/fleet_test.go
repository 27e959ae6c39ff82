package resourcedistribution

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// overClusters makes a distribution one that a hub handles.
func overClusters(s *appsv1beta1.ResourceDistributionSpec) {
	s.Targets.Clusters = &appsv1beta1.ResourceDistributionClusters{All: true}
}

func ofSecret(s *appsv1beta1.ResourceDistributionSpec) {
	s.Resource = runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"unlisted"}}`)}
}

func TestWhatOnlyAHubDistributesIsLeftToIt(t *testing.T) {
	t.Parallel()
	r := sim.Run(t.Context(), simulated(t), sim.Scenario{Name: "a ResourceDistribution of a hub", Objects: []client.Object{distribution(overClusters), namespace("one")}}, sim.Schedule{})
	require.NoError(t, r.Err)
	require.Zero(t, r.Writes, "neither copies nor a status")
	require.Empty(t, indexed(distribution(overClusters)), "no event of a copy concerns it")
	require.NotEmpty(t, indexed(distribution()))
}

func TestWhoMayNameClusters(t *testing.T) {
	t.Parallel()
	const only = "spec.targets.clusters: Forbidden: only a hub distributes to clusters, and this cluster has none: apply the object on the hub, or remove this field"
	for _, tt := range []struct {
		name    string
		webhook Webhook
		rd      *appsv1beta1.ResourceDistribution
		want    string
	}{
		{"a member without a hub refuses clusters", Webhook{}, distribution(overClusters), only},
		{"a member without a hub refuses clusters while the gate is off", Webhook{Off: true}, distribution(overClusters), "ResourceDistributionGate=true"},
		{"a member with a hub accepts clusters", Webhook{AllowClusters: true}, distribution(overClusters), ""},
		{"a member with a hub accepts clusters while the gate is off, as members have their own gate", Webhook{AllowClusters: true, Off: true}, distribution(overClusters), ""},
		{"a member with a hub accepts an unlisted Secret for clusters", Webhook{AllowClusters: true}, distribution(overClusters, ofSecret), ""},
		{"a Secret for this cluster must be listed", Webhook{AllowClusters: true}, distribution(ofSecret), "spec.resource.metadata.name: Forbidden"},
		{"a hub accepts clusters", Webhook{Hub: true}, distribution(overClusters, ofSecret), ""},
		{"a hub validates the other fields", Webhook{Hub: true}, distribution(overClusters, func(s *appsv1beta1.ResourceDistributionSpec) {
			s.Targets.IncludedNamespaces = named("Shop")
		}), `spec.targets.includedNamespaces.list[0].name: Invalid value: "Shop"`},
		{"a hub reads no source", Webhook{Hub: true}, distribution(byReference), "spec.source: Forbidden: a hub doesn't read sources"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := tt.webhook.ValidateCreate(withUser(t, "reader"), tt.rd)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
}
