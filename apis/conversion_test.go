package apis_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	policyv1alpha1 "github.com/flotilla-io/flotilla/apis/policy/v1alpha1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

// TestNoFieldIsLostByAConversion converts objects with every field set to the other version and back. TestRoundTrips in the packages of the
// versions draws many values, but only of the fields that its authors thought of: it doesn't notice a new field.
func TestNoFieldIsLostByAConversion(t *testing.T) {
	t.Parallel()
	conversions := map[string]func(*testing.T){
		"advancedcronjob":          backAndForth(appsv1alpha1.AdvancedCronJobToHub, appsv1alpha1.AdvancedCronJobFromHub),
		"broadcastjob":             backAndForth(appsv1alpha1.BroadcastJobToHub, appsv1alpha1.BroadcastJobFromHub),
		"cloneset":                 backAndForth(appsv1alpha1.CloneSetToHub, appsv1alpha1.CloneSetFromHub),
		"containerrecreaterequest": backAndForth(appsv1alpha1.ContainerRecreateRequestToHub, appsv1alpha1.ContainerRecreateRequestFromHub),
		"daemonset":                backAndForth(appsv1alpha1.DaemonSetToHub, appsv1alpha1.DaemonSetFromHub),
		"imagelistpulljob":         backAndForth(appsv1alpha1.ImageListPullJobToHub, appsv1alpha1.ImageListPullJobFromHub),
		"imagepulljob":             backAndForth(appsv1alpha1.ImagePullJobToHub, appsv1alpha1.ImagePullJobFromHub),
		"nodeimage":                backAndForth(appsv1alpha1.NodeImageToHub, appsv1alpha1.NodeImageFromHub),
		"persistentpodstate":       backAndForth(appsv1alpha1.PersistentPodStateToHub, appsv1alpha1.PersistentPodStateFromHub),
		"podunavailablebudget": backAndForth(policyv1alpha1.PodUnavailableBudgetToHub, policyv1alpha1.PodUnavailableBudgetFromHub,
			func(b *policyv1beta1.PodUnavailableBudget) { // An operation that is not known is not moved into the field.
				b.Spec.ProtectOperations = []policyv1beta1.Operation{policyv1beta1.Evict}
			}),
		"resourcedistribution": backAndForth(appsv1alpha1.ResourceDistributionToHub, appsv1alpha1.ResourceDistributionFromHub),
		"sidecarset":           backAndForth(appsv1alpha1.SidecarSetToHub, appsv1alpha1.SidecarSetFromHub),
		"statefulset":          backAndForth(appsv1alpha1.StatefulSetToHub, appsv1alpha1.StatefulSetFromHub),
		"uniteddeployment":     backAndForth(appsv1alpha1.UnitedDeploymentToHub, appsv1alpha1.UnitedDeploymentFromHub),
		"workloadspread": backAndForth(appsv1alpha1.WorkloadSpreadToHub, appsv1alpha1.WorkloadSpreadFromHub,
			func(ws *appsv1beta1.WorkloadSpread) { // The controller sets it again.
				ws.Status.SubsetStatuses[0].Conditions[0].ObservedGeneration = 0
				ws.Status.VersionedSubsetStatuses["x"][0].Conditions[0].ObservedGeneration = 0
			}),
	}
	files, err := filepath.Glob("../charts/member/files/crds/*.yaml")
	require.NoError(t, err)
	converted := 0
	for _, file := range files {
		if crd := readCRD(t, file); len(versions(crd)) > 1 {
			converted++
			require.Contains(t, conversions, crd["names"].(map[string]any)["singular"])
		}
	}
	require.Len(t, conversions, converted)
	for name, check := range conversions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t)
		})
	}
}

// backAndForth converts an object of each version. The edits are made in the filled object of v1beta1.
func backAndForth[Old, Hub any](
	toHub func(context.Context, *Old, *Hub) error, fromHub func(context.Context, *Hub, *Old) error, edits ...func(*Hub),
) func(*testing.T) {
	return func(t *testing.T) {
		t.Helper()
		hub, old := testkit.Fill(new(Hub)), new(Old)
		for _, edit := range edits {
			edit(hub)
		}
		back := new(Hub)
		require.NoError(t, fromHub(t.Context(), hub, old))
		require.NoError(t, toHub(t.Context(), stored(t, old), back))
		require.Empty(t, cmp.Diff(content(t, hub), content(t, back)), "v1beta1 → v1alpha1 → v1beta1")

		old, hub = testkit.Fill(new(Old)), new(Hub)
		oldBack := new(Old)
		require.NoError(t, toHub(t.Context(), old, hub))
		require.NoError(t, fromHub(t.Context(), stored(t, hub), oldBack))
		require.Empty(t, cmp.Diff(content(t, old), content(t, oldBack)), "v1alpha1 → v1beta1 → v1alpha1")
	}
}

// stored returns an object as the apiserver returns it.
func stored[T any](t *testing.T, o *T) *T {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	out := new(T)
	require.NoError(t, json.Unmarshal(raw, out))
	return out
}

// content returns the fields of an object but for those that name its version.
func content(t *testing.T, o any) map[string]any {
	t.Helper()
	raw, err := json.Marshal(o)
	require.NoError(t, err)
	out := map[string]any{}
	require.NoError(t, json.Unmarshal(raw, &out))
	return without(without(out, "apiVersion"), "kind")
}
