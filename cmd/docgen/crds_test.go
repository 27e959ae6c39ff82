package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInstallSortsCRDsIntoCharts(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), t.TempDir()
	for _, crds := range folders(root) {
		for _, crd := range crds {
			require.NoError(t, os.WriteFile(filepath.Join(dir, fileOf(crd)), []byte("kind: CustomResourceDefinition\n"), 0o600))
		}
	}
	stale := filepath.Join(root, "charts", "hub", "files", "crds", "fleet.kruise.io_gone.yaml")
	require.NoError(t, os.MkdirAll(filepath.Dir(stale), 0o750))
	require.NoError(t, os.WriteFile(stale, nil, 0o600))

	require.NoError(t, install(dir, root))

	member, hub := list(t, root, "member"), list(t, root, "hub")
	require.Equal(t, []string{
		"apps.kruise.io_advancedcronjobs.yaml", "apps.kruise.io_broadcastjobs.yaml",
		"apps.kruise.io_clonesets.yaml", "apps.kruise.io_containerrecreaterequests.yaml", "apps.kruise.io_daemonsets.yaml",
		"apps.kruise.io_ephemeraljobs.yaml", "apps.kruise.io_imagelistpulljobs.yaml",
		"apps.kruise.io_imagepulljobs.yaml", "apps.kruise.io_nodeimages.yaml", "apps.kruise.io_nodepodprobes.yaml",
		"apps.kruise.io_persistentpodstates.yaml", "apps.kruise.io_podprobemarkers.yaml",
		"apps.kruise.io_resourcedistributions.yaml", "apps.kruise.io_sidecarsets.yaml",
		"apps.kruise.io_statefulsets.yaml", "apps.kruise.io_uniteddeployments.yaml", "apps.kruise.io_workloadspreads.yaml",
		"fleet.kruise.io_appliedworks.yaml", "fleet.kruise.io_memberships.yaml", "policy.kruise.io_podunavailablebudgets.yaml",
	}, member)
	require.Equal(t, []string{
		"apps.kruise.io_clonesets.yaml", "apps.kruise.io_resourcedistributions.yaml", "apps.kruise.io_uniteddeployments.yaml",
		"apps.kruise.io_workloadspreads.yaml", "fleet.kruise.io_clusterpropagations.yaml", "fleet.kruise.io_memberclusters.yaml",
		"fleet.kruise.io_memberworks.yaml", "fleet.kruise.io_propagations.yaml", "fleet.kruise.io_rolloutapprovals.yaml",
		"fleet.kruise.io_workcontents.yaml",
	}, hub, "a file that is not generated must be removed")
}

func TestInstallRefusesAKindThatNoChartHas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "apps.kruise.io_sloops.yaml"), nil, 0o600))
	require.ErrorContains(t, install(dir, t.TempDir()), "apps.kruise.io_sloops.yaml: no chart installs it")
}

func list(t *testing.T, root, chart string) []string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Join(root, "charts", chart, "files", "crds"))
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
