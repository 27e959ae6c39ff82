//go:build integration

package charts_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// tenantRoles are the chart values that create roles for users.
var tenantRoles = []string{"--set=tenantRoles.enabled=true", "--set=tenantRoles.aggregateTo={admin,edit,view}"}

// documentedRoles returns the resources that each role may write according to the table in security.md, and under "" those that no role may.
func documentedRoles(t *testing.T) map[string][]string {
	t.Helper()
	text, err := os.ReadFile("../docs/operate/security.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Rights that are more than their names\n")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	quoted := regexp.MustCompile("`([^`]+)`")
	out := map[string][]string{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || !strings.Contains(cells[2], "`") {
			continue
		}
		require.NotEmpty(t, strings.TrimSpace(cells[3]), "describe what the permission allows: %s", line)
		var resources []string
		for _, m := range quoted.FindAllStringSubmatch(cells[2], -1) {
			resources = append(resources, m[1])
		}
		slices.Sort(resources)
		roles := quoted.FindAllStringSubmatch(cells[1], -1)
		if len(roles) == 0 {
			require.Equal(t, "none", strings.TrimSpace(cells[1]))
			out[""] = resources
		}
		for _, m := range roles {
			out[m[1]] = resources
		}
	}
	return out
}

// isTenantRole reports whether a role is one that tenantRoles creates.
func isTenantRole(t *testing.T, chart string, role *rbacv1.ClusterRole) bool {
	t.Helper()
	return !slices.ContainsFunc(decode[rbacv1.ClusterRole](t, render(t, chart), "ClusterRole"), func(existing rbacv1.ClusterRole) bool {
		return existing.Name == role.Name
	})
}

// TestIntegrationAttack30RolesAreAsDocumented compares the roles with the table, which has each kind once for each chart: a new kind needs a
// row there.
func TestIntegrationAttack30RolesAreAsDocumented(t *testing.T) {
	t.Parallel()
	want := documentedRoles(t)
	require.NotEmpty(t, want[""])
	got := map[string][]string{"": want[""]}
	for _, chart := range []string{"hub", "member"} {
		text := render(t, chart, tenantRoles...)
		given := map[string]string{}
		for _, role := range decode[rbacv1.ClusterRole](t, text, "ClusterRole") {
			if !isTenantRole(t, chart, &role) {
				continue
			}
			writes := false
			var resources []string
			for _, rule := range role.Rules {
				writes = writes || slices.Contains(rule.Verbs, "create")
				for _, verb := range rule.Verbs {
					require.Contains(t, []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}, verb, role.Name)
				}
				for _, resource := range rule.Resources {
					kind, sub, _ := strings.Cut(resource, "/")
					if require.Contains(t, []string{"", "scale"}, sub, role.Name); sub == "" {
						resources = append(resources, kind)
					}
				}
			}
			var to []string
			for _, name := range []string{"admin", "edit", "view"} {
				if role.Labels["rbac.authorization.k8s.io/aggregate-to-"+name] == "true" {
					to = append(to, name)
				}
			}
			switch name := strings.TrimPrefix(role.Name, "flotilla-"+chart+"-"); name {
			case "tenant":
				require.Equal(t, []string{"admin", "edit"}, to)
			case "tenant-view":
				require.Equal(t, []string{"view"}, to)
				require.False(t, writes)
				continue
			default:
				require.Empty(t, to, "%s: a role that allows more than its name says is bound explicitly", role.Name)
			}
			for _, resource := range resources {
				require.Empty(t, given[resource], "%s is in two roles", resource)
				given[resource] = role.Name
			}
			slices.Sort(resources)
			got[role.Name] = resources
		}
		for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, text, "CustomResourceDefinition") {
			kind := crd.Spec.Names.Plural
			require.NotEqual(t, slices.Contains(want[""], kind), given[kind] != "", "%s of chart %s needs a role, or an entry in the line of kinds without a role", kind, chart)
		}
	}
	require.Equal(t, want, got)
}

// TestIntegrationAttack30TenantsMayDoWhatTheirRoleSays asks a real apiserver what the holder of each role may do.
func TestIntegrationAttack30TenantsMayDoWhatTheirRoleSays(t *testing.T) {
	t.Parallel()
	admin := usersOf(t, lab.Config{ControlPlaneOnly: true})("admin", "system:masters")
	roles := documentedRoles(t)
	resources := map[string]string{"pods": "", "secrets": "", "memberclusters": "fleet.kruise.io"} // Resources with their groups.
	for _, chart := range []string{"hub", "member"} {
		text := render(t, chart, tenantRoles...)
		for _, crd := range decode[apiextensionsv1.CustomResourceDefinition](t, text, "CustomResourceDefinition") {
			resources[crd.Spec.Names.Plural] = crd.Spec.Group
		}
		for _, role := range decode[rbacv1.ClusterRole](t, text, "ClusterRole") {
			if isTenantRole(t, chart, &role) {
				require.NoError(t, admin.Create(t.Context(), &role))
			}
		}
	}
	for role := range roles {
		if role == "" {
			continue
		}
		meta, ref := metav1.ObjectMeta{Namespace: "default", Name: role}, rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role}
		who := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: role}}
		var binding client.Object = &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: who}
		if !strings.Contains(role, "-tenant") {
			meta.Namespace = ""
			binding = &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: ref, Subjects: who}
		}
		require.NoError(t, admin.Create(t.Context(), binding))
	}
	may := func(c require.TestingT, user string, a authorizationv1.ResourceAttributes) bool {
		review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{User: user, ResourceAttributes: &a}}
		require.NoError(c, admin.Create(t.Context(), review))
		return review.Status.Allowed
	}
	for role, writes := range roles {
		if role == "" {
			continue
		}
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			assert.True(c, may(c, role, authorizationv1.ResourceAttributes{
				Namespace: "default", Verb: "create", Group: resources[writes[0]], Resource: writes[0],
			}), role)
		}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the binding takes effect")
		for _, resource := range slices.Sorted(maps.Keys(resources)) {
			for _, verb := range []string{"create", "patch", "delete", "get"} {
				a := authorizationv1.ResourceAttributes{Namespace: "default", Verb: verb, Group: resources[resource], Resource: resource}
				require.Equal(t, slices.Contains(writes, resource), may(t, role, a), "%s: %s %s", role, verb, resource)
				if a.Namespace = "kube-system"; strings.Contains(role, "-tenant") {
					require.False(t, may(t, role, a), "%s: %s %s in another namespace", role, verb, resource)
				}
			}
		}
		for _, a := range []authorizationv1.ResourceAttributes{
			{Verb: "create", Resource: "pods", Subresource: "exec"},
			{Verb: "patch", Resource: "pods", Subresource: "ephemeralcontainers"},
			{Verb: "use", Group: "fleet.kruise.io", Resource: "memberclusters"},
			{Verb: "update", Group: "apps.kruise.io", Resource: "clonesets", Subresource: "status"},
		} {
			a.Namespace = "default"
			require.False(t, may(t, role, a), "%s: %s %s/%s", role, a.Verb, a.Resource, a.Subresource)
		}
	}
}
