//go:build integration

package charts_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// openKruise is the path of a chart that stands in for OpenKruise's.
const openKruise = "../e2e/real/testdata/kruise-like"

// TestIntegrationOpenKruisesCRDsOutliveItsRelease checks what docs/start/from-openkruise.md relies on: helm deletes according to its stored
// manifest, so an annotation of a live CRD keeps the CRD in an upgrade but not in an uninstall.
func TestIntegrationOpenKruisesCRDsOutliveItsRelease(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		// letGo upgrades the release to one without CRDs before it is uninstalled.
		letGo bool
	}{
		{"a release that was upgraded without CRDs leaves them", true},
		{"CRDs of a release are deleted with it", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			k := newKube(t)
			k.helm("install", "kruise", openKruise)
			before := k.crds("")
			require.Len(t, before, 18)

			_, err := helm(t, k.flag, "install", "flotilla", "member", "--namespace="+namespace, "--create-namespace", "--take-ownership")
			require.ErrorContains(t, err, "CustomResourceDefinition advancedcronjobs.apps.kruise.io is of kruise: take it over as docs/start/from-openkruise.md says")

			require.Equal(t, before, k.crds("keep"))
			if tc.letGo {
				k.helm("upgrade", "kruise", openKruise, "--reset-then-reuse-values", "--set=crds.managed=false")
			}
			k.helm("uninstall", "kruise", "--no-hooks")
			if tc.letGo {
				require.Equal(t, before, k.crds(""))
				return
			}
			k.requireDeletion()
		})
	}
}

// kube is a cluster for helm without nodes and controllers.
type kube struct {
	*testing.T
	client client.Client
	// flag points helm at it.
	flag string
}

func newKube(t *testing.T) *kube {
	t.Helper()
	c := lab.StartT(t, lab.Config{ControlPlaneOnly: true})
	cfg, err := c.REST()
	require.NoError(t, err)
	scheme := runtime.NewScheme()
	require.NoError(t, apiextensionsv1.AddToScheme(scheme))
	cli, err := client.New(cfg, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return &kube{T: t, client: cli, flag: "--kubeconfig=" + c.Kubeconfig}
}

func (k *kube) helm(args ...string) {
	k.Helper()
	_, err := helm(k.T, append([]string{k.flag}, args...)...)
	require.NoError(k, err)
}

// requireDeletion requires that every existing CRD is being deleted, which takes the apiserver a while.
func (k *kube) requireDeletion() {
	k.Helper()
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(k, k.client.List(k.Context(), list))
	for i := range list.Items {
		require.NotNil(k, list.Items[i].DeletionTimestamp, list.Items[i].Name)
	}
}

// crds returns the UIDs of all CRDs by name. It first sets their resource policy, unless that is empty.
func (k *kube) crds(policy string) map[string]types.UID {
	k.Helper()
	list := &apiextensionsv1.CustomResourceDefinitionList{}
	require.NoError(k, k.client.List(k.Context(), list))
	out := map[string]types.UID{}
	for i := range list.Items {
		crd := &list.Items[i]
		out[crd.Name] = crd.UID
		if policy != "" {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata": {"annotations": {"helm.sh/resource-policy": "`+policy+`"}}}`))
			require.NoError(k, k.client.Patch(k.Context(), crd, patch))
		}
	}
	return out
}
