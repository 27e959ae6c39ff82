package link_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

func TestWhatNoHubPlaces(t *testing.T) {
	t.Parallel()
	for kind, want := range map[schema.GroupKind]string{
		{Kind: "ConfigMap"}: "",
		{Group: "apps.kruise.io", Kind: "PodProbeMarker"}: "",
		{Group: "example.com", Kind: "Secret"}:            "",
		{Kind: "Secret"}:                                  "objects of kind Secret are not read by a hub: place them by a ResourceDistribution",
		{Kind: "Node"}:                                    "objects of kind Node belong to the cluster whose components write them",
		{Group: "coordination.k8s.io", Kind: "Lease"}:     "objects of kind Lease belong to the cluster",
		{Group: "apps.kruise.io", Kind: "NodePodProbe"}:   "objects of kind NodePodProbe have the node daemons act in pods of all namespaces",
		{Group: "apps.kruise.io", Kind: "NodeImage"}:      "objects of kind NodeImage have the node daemons act",
		{Group: "fleet.kruise.io", Kind: "MemberWork"}:    "objects of kind MemberWork are the fleet's own",
		{Group: "certificates.k8s.io", Kind: "X"}:         "objects of kind X decide what others may do",
	} {
		if why := link.NeverPlaced(kind); want == "" {
			require.Empty(t, why, kind)
		} else {
			require.Contains(t, why, want, kind)
		}
	}
}

func TestParseResources(t *testing.T) {
	t.Parallel()
	got, err := link.ParseResources([]string{"configmaps", "gameserversets.game.kruise.io"})
	require.NoError(t, err)
	require.Equal(t, []schema.GroupResource{{Resource: "configmaps"}, {Group: "game.kruise.io", Resource: "gameserversets"}}, got)
	for name, want := range map[string]string{
		"Config/Maps":                     `"Config/Maps" is not a resource: use one such as configmaps or deployments.apps`,
		"secrets":                         `"secrets" is never placed: secrets are not read by a hub`,
		"nodepodprobes.apps.kruise.io":    "have the node daemons act",
		"nodeimages.apps.kruise.io":       "have the node daemons act",
		"roles.rbac.authorization.k8s.io": "decide what others may do",
	} {
		_, err := link.ParseResources([]string{"configmaps", name})
		require.ErrorContains(t, err, want)
	}
}

func TestResourceLimits(t *testing.T) {
	t.Parallel()
	claims := schema.GroupResource{Resource: "persistentvolumeclaims"}
	limits := &link.ResourceLimits{Further: []schema.GroupResource{{Resource: "configmaps"}}}
	require.Empty(t, limits.Refuses(schema.GroupResource{Resource: "configmaps"}))
	require.Equal(t, "this cluster accepts no persistentvolumeclaims from a hub: add them to hub.kinds of its chart flotilla-member", limits.Refuses(claims))
	require.NotEmpty(t, limits.Refuses(schema.GroupResource{Group: "example.com", Resource: "configmaps"}), "of another group")
	for _, r := range link.AlwaysPlaced() {
		require.Empty(t, limits.Refuses(r))
	}
	require.Empty(t, (*link.ResourceLimits)(nil).Refuses(claims), "in mode Push")
}
