package main

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// revisionIn returns a revision of SidecarSet log as OpenKruise writes it.
func revisionIn(namespace, name, data string) *appsv1.ControllerRevision {
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: name, Labels: map[string]string{keys.SidecarSetName: "log"}, Annotations: map[string]string{"hash": "x"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1alpha1", Kind: "SidecarSet", Name: "log", UID: "1", Controller: new(true)}},
		},
		Revision: 3, Data: runtime.RawExtension{Raw: []byte(data)},
	}
}

func listsIn(namespace string, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: whiteLists}, Data: data}
}

func TestMigrateCopy(t *testing.T) {
	t.Parallel()
	const sidecars, states, spreads = "SidecarSet_PatchPodMetadata_WhiteList", "PPS_Watch_Custom_Workload_WhiteList", "WorkloadSpread_Watch_Custom_Workload_WhiteList"
	other := revisionIn(oldNamespace, "of-another-kind", `{}`)
	other.Labels = nil
	k := clusterBuilder(t,
		revisionIn(oldNamespace, "log-1", `{"a":1}`), revisionIn(oldNamespace, "log-2", `{"a":2}`), revisionIn(oldNamespace, "log-3", `{"a":3}`), other,
		revisionIn(ourNamespace, "log-2", `{"a":2}`), revisionIn(ourNamespace, "log-3", `{"a":"other"}`),
		listsIn(oldNamespace, map[string]string{sidecars: "theirs", states: "s", "unknown": "u"}),
		listsIn(ourNamespace, map[string]string{sidecars: "ours", spreads: "w"}),
	).Build()

	out, err := run(t, k, "migrate", "copy", "--dry-run=client")
	require.NoError(t, err)
	require.Contains(t, out, "controllerrevision.apps/log-1 copied (dry run)\n")
	require.True(t, apierrors.IsNotFound(k.Get(t.Context(), client.ObjectKey{Namespace: ourNamespace, Name: "log-1"}, &appsv1.ControllerRevision{})))

	out, err = run(t, k, "migrate", "copy")
	require.NoError(t, err)
	require.Equal(t, "controllerrevision.apps/log-1 copied\n"+
		"Warning: controllerrevision log-3 exists in namespace flotilla-system with different content and is left unchanged\n"+
		"configmap/kruise-configuration: PPS_Watch_Custom_Workload_WhiteList copied\n"+
		"Warning: SidecarSet_PatchPodMetadata_WhiteList of configmap kruise-configuration differs in namespace flotilla-system and is left unchanged\n", out)
	var got appsv1.ControllerRevision
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: ourNamespace, Name: "log-1"}, &got))
	want := revisionIn(ourNamespace, "log-1", `{"a":1}`)
	got.ResourceVersion = ""
	require.Equal(t, want.ObjectMeta, got.ObjectMeta, "the SidecarSet owns the copy too")
	require.Equal(t, want.Revision, got.Revision)
	require.JSONEq(t, `{"a":1}`, string(got.Data.Raw))
	var config corev1.ConfigMap
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: ourNamespace, Name: whiteLists}, &config))
	require.Equal(t, map[string]string{sidecars: "ours", spreads: "w", states: "s"}, config.Data)

	out, err = run(t, k, "migrate", "copy")
	require.NoError(t, err)
	require.NotContains(t, out, "copied", "there is nothing left to copy")

	_, err = run(t, k, "migrate", "copy", "--from", ourNamespace)
	require.ErrorContains(t, err, "must differ from --from")
}

func TestMigrateCopyIntoAnEmptyNamespace(t *testing.T) {
	t.Parallel()
	k := clusterBuilder(t, listsIn("kruise", map[string]string{"PPS_Watch_Custom_Workload_WhiteList": "s"})).Build()
	out, err := run(t, k, "migrate", "copy", "--from", "kruise", "--to", "fleet")
	require.NoError(t, err)
	require.Equal(t, "configmap/kruise-configuration: PPS_Watch_Custom_Workload_WhiteList copied\n", out)
	var config corev1.ConfigMap
	require.NoError(t, k.Get(t.Context(), client.ObjectKey{Namespace: "fleet", Name: whiteLists}, &config))
	require.Equal(t, map[string]string{"PPS_Watch_Custom_Workload_WhiteList": "s"}, config.Data)

	out, err = run(t, clusterBuilder(t).Build(), "migrate", "copy")
	require.NoError(t, err)
	require.Empty(t, out)
}

// findingsFor returns the check's findings about what objects need.
func findingsFor(t *testing.T, objects ...client.Object) []finding {
	t.Helper()
	out, _ := run(t, clusterBuilder(t, objects...).Build(), "migrate", "check", "-o", "json") // Others may block.
	var found checkOutput
	require.NoError(t, json.Unmarshal([]byte(out), &found), out)
	return slices.DeleteFunc(found.Findings, func(f finding) bool {
		return !slices.Contains([]string{"NotCopied", "RevisionMissing", "ValuesNeeded", "NotChecked"}, f.Reason)
	})
}

// object returns an object of one of OpenKruise's kinds, or of another group, with a spec.
func object(t *testing.T, apiVersion, kind, name, spec string) client.Object {
	t.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	require.NoError(t, yaml.Unmarshal([]byte("spec: "+spec), &o.Object))
	o.SetAPIVersion(apiVersion)
	o.SetKind(kind)
	o.SetName(name)
	o.SetNamespace("shop")
	return o
}

func TestMigrateCheckFindsWhatIsNotCopied(t *testing.T) {
	t.Parallel()
	sets := crd("SidecarSet", "sidecarsets")
	naming := func(revision string) client.Object {
		return object(t, "apps.kruise.io/v1beta1", "SidecarSet", "log", `{injectionStrategy: {revision: {`+revision+`}}}`)
	}
	previous := []client.Object{
		sets, naming("revisionName: log-1"), revisionIn(oldNamespace, "log-1", `{"a":1}`),
		listsIn(oldNamespace, map[string]string{"PPS_Watch_Custom_Workload_WhiteList": "{}"}),
	}
	between := append([]client.Object{managerOf(oldManager, "kruise-system", 2), webhooksOnly("--webhooks-only")}, previous...)

	found := findingsFor(t, append([]client.Object{managerOf(oldManager, "kruise-system", 2)}, previous...)...)
	require.Len(t, found, 1)
	require.Equal(t, info, found[0].Level, "the guide has a step for this")

	found = findingsFor(t, between...)
	require.Equal(t, []finding{{
		Level: block, Reason: "NotCopied", Object: "namespace kruise-system",
		Message: "it has what namespace flotilla-system lacks: SidecarSet revisions (1), and PPS_Watch_Custom_Workload_WhiteList in " +
			"ConfigMap kruise-configuration; the next step deletes the namespace",
		Do: []string{"kubectl kruise migrate copy --from kruise-system --to flotilla-system"},
	}}, found)

	require.Empty(t, findingsFor(t, append([]client.Object{
		revisionIn(ourNamespace, "log-1", `{"a":1}`), listsIn(ourNamespace, map[string]string{"PPS_Watch_Custom_Workload_WhiteList": "{}"}),
	}, between...)...), "they are copied")

	for _, revision := range []string{"revisionName: log-1", "customVersion: v1"} {
		found = findingsFor(t, sets, naming(revision), managerOf(ourManager, "flotilla-system", 2), revisionIn(ourNamespace, "log-2", `{"a":2}`))
		require.Len(t, found, 1, "OpenKruise and its namespace are gone")
		require.Equal(t, []any{warn, "RevisionMissing", "SidecarSet log"}, []any{found[0].Level, found[0].Reason, found[0].Object})
	}
	versioned := revisionIn(ourNamespace, "log-2", `{"a":2}`)
	versioned.Labels[keys.SidecarSetCustomVersion] = "v1"
	require.Empty(t, findingsFor(t, sets, naming("customVersion: v1"), managerOf(ourManager, "flotilla-system", 2), versioned))
}

func TestMigrateCheckPrintsTheValuesThatObjectsNeed(t *testing.T) {
	t.Parallel()
	games := crd("GameServerSet", "gameserversets", func(d *apiextensionsv1.CustomResourceDefinition) {
		d.Name, d.Spec.Group, d.Labels = "gameserversets.game.kruise.io", "game.kruise.io", map[string]string{keys.DeleteProtection: "Cascading"}
	})
	objects := []client.Object{
		games, crd("ImagePullJob", "imagepulljobs"), crd("AdvancedCronJob", "advancedcronjobs"), crd("ResourceDistribution", "resourcedistributions"),
		crd("PodUnavailableBudget", "podunavailablebudgets"), crd("CloneSet", "clonesets"),
		object(t, "apps.kruise.io/v1beta1", "ImagePullJob", "a", `{pullSecrets: [registry]}`),
		object(t, "apps.kruise.io/v1beta1", "AdvancedCronJob", "a", `{template: {imageListPullJobTemplate: {spec: {pullSecrets: [nightly]}}}}`),
		object(t, "apps.kruise.io/v1beta1", "ResourceDistribution", "a", `{resource: {kind: Secret, metadata: {name: ca}}}`),
		object(t, "apps.kruise.io/v1beta1", "ResourceDistribution", "b", `{source: {kind: Secret, name: tls}}`),
		object(t, "apps.kruise.io/v1beta1", "ResourceDistribution", "c", `{resource: {kind: ConfigMap, metadata: {name: not-secret}}}`),
		object(t, "policy.kruise.io/v1beta1", "PodUnavailableBudget", "a", `{targetRef: {apiVersion: db.example.com/v1, kind: Cluster, name: a}}`),
		object(t, "policy.kruise.io/v1beta1", "PodUnavailableBudget", "b", `{targetRef: {apiVersion: apps/v1, kind: Deployment, name: a}}`),
		demo(func(set *appsv1beta1.CloneSet) {
			set.Spec.Template.Spec.ImagePullSecrets = []corev1.LocalObjectReference{{Name: "before-updates"}}
		}),
		listsIn(oldNamespace, map[string]string{
			"WorkloadSpread_Watch_Custom_Workload_WhiteList": `{"workloads":[{"Group":"game.kruise.io","Version":"v1","Kind":"GameServerSet","subResources":[{"Group":"x.io","Version":"v1","Kind":"Part"}]}]}`,
		}),
	}
	values := func(found []finding) finding {
		i := slices.IndexFunc(found, func(f finding) bool { return f.Reason == "ValuesNeeded" })
		require.GreaterOrEqual(t, i, 0, found)
		return found[i]
	}
	f := values(findingsFor(t, objects...))
	require.Equal(t, info, f.Level)
	require.Equal(t, []string{"# add to the command in step 3 of docs/start/from-openkruise.md: " +
		`--set-json 'customWorkloads=[{"apiGroups":["db.example.com"],"resources":["clusters"]},{"apiGroups":["game.kruise.io"],"resources":["gameserversets"]},{"apiGroups":["x.io"],"resources":["parts"]}]' ` +
		`--set-json 'deletionProtection.customResources=[{"apiGroups":["game.kruise.io"],"resources":["gameserversets"]}]' ` +
		`--set-json 'imagePullJob.secrets=["nightly","registry"]' ` +
		`--set-json 'resourceDistribution.secrets=["ca","tls"]'`}, f.Do)

	old := helmSecret(t, "kruise", "kruise", "default", 1, "deployed", manifest(), map[string]any{"featureGates": "PreDownloadImageForInPlaceUpdate=true"})
	require.Contains(t, values(findingsFor(t, append(objects, old)...)).Do[0], `imagePullJob.secrets=["before-updates","nightly","registry"]`)

	config := map[string]any{
		"customWorkloads": []any{map[string]any{"apiGroups": []any{"game.kruise.io", "x.io"}, "resources": []any{"gameserversets", "parts"}}},
		"imagePullJob":    map[string]any{"secrets": []any{"more", "registry"}},
	}
	ours := helmSecret(t, "flotilla-member", "fleet", "flotilla-system", 1, "deployed", manifest(), config)
	f = values(findingsFor(t, append(objects, ours)...))
	require.Equal(t, warn, f.Level)
	require.Contains(t, f.Do[0], "helm upgrade fleet charts/member --namespace flotilla-system --reset-then-reuse-values --set-json ")
	require.Contains(t, f.Do[0], `--set-json 'imagePullJob.secrets=["more","nightly","registry"]'`, "secrets of the release stay")
	require.Contains(t, f.Do[0], `"resources":["gameserversets","parts"]},{"apiGroups":["db.example.com"],"resources":["clusters"]}]'`)

	maps.Copy(config, map[string]any{
		"deletionProtection":   map[string]any{"customResources": []any{map[string]any{"apiGroups": []any{"game.kruise.io"}, "resources": []any{"gameserversets"}}}},
		"resourceDistribution": map[string]any{"secrets": []any{"ca", "tls"}},
		"imagePullJob":         map[string]any{"secrets": []any{"nightly", "registry"}},
		"customWorkloads":      []any{map[string]any{"apiGroups": []any{"game.kruise.io", "x.io", "db.example.com"}, "resources": []any{"gameserversets", "parts", "clusters"}}},
	})
	ours = helmSecret(t, "flotilla-member", "fleet", "flotilla-system", 1, "deployed", manifest(), config)
	for _, f := range findingsFor(t, append(objects, ours)...) {
		require.NotEqual(t, "ValuesNeeded", f.Reason, "the release has all of them: %v", f.Do)
	}
}
