//go:build integration

package sim

import (
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// TestSharedCasesOnARealApiserver checks the cases that the simulated apiserver is modeled on.
func TestSharedCasesOnARealApiserver(t *testing.T) {
	config, err := lab.StartT(t, lab.Config{ControlPlaneOnly: true}).REST()
	require.NoError(t, err)
	_, err = envtest.InstallCRDs(config, envtest.CRDInstallOptions{
		Paths: []string{"../../charts/member/files/crds/apps.kruise.io_clonesets.yaml"}, ErrorIfPathMissing: true,
	})
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: caseScheme(t)})
	require.NoError(t, err)
	runShared(t, c)
}
