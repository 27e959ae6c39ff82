//go:build integration

package propagation

import (
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// TestIntegrationWhoMayPlaceWhat uses a real apiserver for what it knows: kinds, their scope, and the permissions of users.
func TestIntegrationWhoMayPlaceWhat(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: fleetv1alpha1.AddToScheme})
	namespace := s.Namespace(t)
	live, err := client.New(s.REST(), client.Options{Scheme: s.Scheme()})
	require.NoError(t, err)
	w := &Webhook[*fleetv1alpha1.Propagation]{
		Clusters: placement.ClusterRules{Client: live, Cache: live, Live: live}, Mapper: live.RESTMapper(),
		Kinds: []schema.GroupResource{{Resource: "configmaps"}, {Group: "apps", Resource: "deployments"}, {Group: "example.com", Resource: "gadgets"}},
	}
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"fleet.kruise.io"}, Resources: []string{"memberclusters"}, Verbs: []string{"use"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{"web"}, Verbs: []string{"get"}},
		{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"create"}},
		{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"list", "create"}},
	}}
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "team"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "team"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: namespace + "-user"}},
	}
	template := appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web", keys.FleetTemplate: "true"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "pause"}}},
			},
		},
	}
	for _, o := range []client.Object{role, binding, template.DeepCopy()} {
		require.NoError(t, s.Create(t.Context(), o))
	}
	ask := func(user, apiVersion, kind, name string) (string, error) {
		p := &fleetv1alpha1.Propagation{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
		selector := fleetv1alpha1.PropagationSelector{APIVersion: apiVersion, Kind: kind, Name: name}
		if name == "" {
			selector.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		}
		p.Spec.Selectors = []fleetv1alpha1.PropagationSelector{selector}
		p.Spec.Clusters.All = true
		warnings, err := w.ValidateCreate(asUser(t, user), p)
		if len(warnings) > 0 {
			return warnings[0], err
		}
		return "", err
	}
	user := namespace + "-user"
	require.Eventually(t, func() bool { _, err := ask(user, "v1", "ConfigMap", "web"); return err == nil }, testenv.Long, testenv.Poll,
		"the permissions take effect")
	for _, tc := range []struct {
		name, user, apiVersion, kind, object string
		refused, warned                      string
	}{
		{name: "another user", user: namespace + "-other", apiVersion: "v1", kind: "ConfigMap", object: "web", refused: "may not get configmaps web"},
		{name: "another name", user: user, apiVersion: "v1", kind: "ConfigMap", object: "other", refused: "may not get configmaps other"},
		{name: "all", user: user, apiVersion: "v1", kind: "ConfigMap", refused: "may not list configmaps in namespace " + namespace},
		{name: "templates selected by labels", user: user, apiVersion: "apps/v1", kind: "Deployment"},
		{name: "a Deployment that may not be read", user: user, apiVersion: "apps/v1", kind: "Deployment", object: "web", refused: "may not get deployments.apps web"},
		{name: "a cluster-scoped kind", user: user, apiVersion: "v1", kind: "PersistentVolume", object: "web", refused: "is cluster-scoped: select it in a ClusterPropagation"},
		{name: "a kind that is not listed", user: user, apiVersion: "v1", kind: "Service", object: "web", refused: "this hub does not place objects of kind Service"},
		{name: "a kind that is not served", user: user, apiVersion: "example.com/v1", kind: "Gadget", object: "web", refused: "may not get gadgets.example.com web"},
		{name: "a version that is not served", user: user, apiVersion: "v9", kind: "ConfigMap", object: "web", warned: "this hub does not serve ConfigMap in version v9"},
	} {
		warned, err := ask(tc.user, tc.apiVersion, tc.kind, tc.object)
		if tc.refused != "" {
			require.ErrorContains(t, err, tc.refused, tc.name)
			continue
		}
		require.NoError(t, err, tc.name)
		require.Equal(t, tc.warned == "", warned == "", "%s: %s", tc.name, warned)
		require.Contains(t, warned, tc.warned, tc.name)
	}
	plain := template.DeepCopy()
	plain.Name, plain.Labels = "plain", map[string]string{"app": "web"}
	require.NoError(t, s.Create(t.Context(), plain))
	warned, err := ask(user, "apps/v1", "Deployment", "")
	require.NoError(t, err)
	require.Contains(t, warned, "also runs in the hub's own cluster")
}
