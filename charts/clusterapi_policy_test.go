//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationMembersLeaveBeforeTheirClusters uses a simple CRD instead of Cluster API's, because the policy reads only metadata of Clusters.
func TestIntegrationMembersLeaveBeforeTheirClusters(t *testing.T) {
	t.Parallel()
	admin := usersOf(t, lab.Config{}, apiextensionsv1.AddToScheme)("admin", "system:masters")
	out := render(t, "hub", "--set=clusterAPI.namespaces={team-a}", "--set=clusterAPI.refuseDeletion=true")
	crds := []*apiextensionsv1.CustomResourceDefinition{{
		ObjectMeta: metav1.ObjectMeta{Name: "clusters.cluster.x-k8s.io", Annotations: map[string]string{"api-approved.kubernetes.io": "unapproved, a test"}},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "cluster.x-k8s.io", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "clusters", Singular: "cluster", Kind: "Cluster", ListKind: "ClusterList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{Name: "v1beta2", Served: true, Storage: true, Schema: &apiextensionsv1.CustomResourceValidation{
				OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{Type: "object"},
			}}},
		},
	}}
	for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, out, "CustomResourceDefinition") {
		if crd.Name == "memberclusters.fleet.kruise.io" {
			crds = append(crds, &crd)
		}
	}
	require.Len(t, crds, 2)
	create := func(o client.Object) {
		t.Helper()
		require.Eventually(t, func() bool { return admin.Create(t.Context(), o) == nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "%T %s", o, o.GetName())
	}
	for _, crd := range crds {
		create(crd)
	}
	object := func(version, kind, namespace, name string, spec map[string]any) *unstructured.Unstructured {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": version, "kind": kind}}
		u.SetNamespace(namespace)
		u.SetName(name)
		if spec != nil {
			u.Object["spec"] = spec
		}
		return u
	}
	made := func(namespace, name string) *unstructured.Unstructured {
		return object("cluster.x-k8s.io/v1beta2", "Cluster", namespace, name, nil)
	}
	for _, namespace := range []string{"team-a", "team-b"} {
		create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})
	}
	moved := made("team-a", "moved")
	moved.SetAnnotations(map[string]string{"clusterctl.cluster.x-k8s.io/delete-for-move": ""})
	for _, u := range []*unstructured.Unstructured{made("team-a", "east"), made("team-a", "free"), made("team-b", "east"), moved} {
		create(u)
	}
	member := func(name, ref string) *unstructured.Unstructured {
		return object("fleet.kruise.io/v1alpha1", "MemberCluster", "", name, map[string]any{
			"mode": "Push", "push": map[string]any{"capiClusterRef": map[string]any{"namespace": "team-a", "name": ref}},
		})
	}
	create(member("the-east", "east"))
	create(member("the-moved", "moved"))
	create(object("fleet.kruise.io/v1alpha1", "MemberCluster", "", "pulls", map[string]any{}))
	createPolicies(t, admin, out)

	dry := func(u *unstructured.Unstructured) error {
		return admin.Delete(t.Context(), u.DeepCopy(), client.DryRunAll)
	}
	require.Eventually(t, func() bool { return dry(made("team-a", "east")) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
	require.ErrorContains(t, dry(made("team-a", "east")), "MemberCluster the-east names this Cluster: delete that first")
	require.NoError(t, dry(made("team-a", "free")), "a Cluster that is not a member")
	require.NoError(t, dry(made("team-b", "east")), "a Cluster of that name in another namespace")
	require.NoError(t, dry(moved), "a Cluster that clusterctl moves")
	require.NoError(t, admin.Delete(t.Context(), member("the-east", "east")))
	require.Eventually(t, func() bool { return dry(made("team-a", "east")) == nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the member has left")
}
