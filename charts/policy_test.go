//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationHubIsConfined grants the hub's account all rights, so that only the policy restricts it.
func TestIntegrationHubIsConfined(t *testing.T) {
	t.Parallel()
	const account = "system:serviceaccount:" + namespace + ":flotilla-hub"
	as := usersOf(t, lab.Config{})
	admin, hub := as("admin", "system:masters"), as(account, "system:authenticated")

	meta := func(namespace, name string) metav1.ObjectMeta {
		o := metav1.ObjectMeta{Namespace: namespace, Name: name}
		if namespace == "" {
			o.Labels = map[string]string{"fleet.kruise.io/cluster": "east"}
		}
		return o
	}
	east := &corev1.Namespace{ObjectMeta: meta("", "fleet-east")}
	east.Annotations = map[string]string{"fleet.kruise.io/member-cluster-uid": "uid"}
	alike := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-of-ships"}}
	reader := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "view"}
	for _, o := range []client.Object{
		east, alike, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "hub-may-all"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account}},
		},
		&corev1.ServiceAccount{ObjectMeta: meta("fleet-east", "old")},
	} {
		require.NoError(t, admin.Create(t.Context(), o))
	}
	out := render(t, "hub", "--set=crds.managed=false")
	createPolicies(t, admin, out)
	refused := func(err error) bool { return apierrors.IsInvalid(err) || apierrors.IsForbidden(err) }
	require.NotContains(t, render(t, "hub", "--set=crds.managed=false", "--set=admissionPolicy.enabled=false"), "ValidatingAdmissionPolicy")
	dry := func(c client.Client, verb string, o client.Object) error {
		if o = o.DeepCopyObject().(client.Object); verb == "delete" {
			return c.Delete(t.Context(), o, client.DryRunAll)
		}
		return c.Create(t.Context(), o, client.DryRunAll)
	}
	require.Eventually(t, func() bool {
		return refused(dry(hub, "create", &corev1.ServiceAccount{ObjectMeta: meta("default", "probe")}))
	}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")

	for _, tc := range []struct {
		name, verb string
		object     client.Object
		want       string // expected in the refusal; empty: allowed
	}{
		{"a member's namespace is created", "create", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-west", Labels: map[string]string{"fleet.kruise.io/cluster": "west"}}}, ""},
		{"a member's namespace is deleted", "delete", east, ""},
		{"another namespace is not deleted", "delete", &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}, "only namespaces of member clusters"},
		{"a namespace with a similar name is not deleted", "delete", alike, "only namespaces of member clusters"},
		{"another namespace is not created", "create", &corev1.Namespace{ObjectMeta: meta("", "shop")}, "only namespaces of member clusters"},
		{"an account of a member is created", "create", &corev1.ServiceAccount{ObjectMeta: meta("fleet-east", "new")}, ""},
		{"an account of a member is deleted", "delete", &corev1.ServiceAccount{ObjectMeta: meta("fleet-east", "old")}, ""},
		{"an account in another namespace is not deleted", "delete", &corev1.ServiceAccount{ObjectMeta: meta("default", "default")}, "only in namespaces fleet-*"},
		{"a member's Lease is created", "create", &coordinationv1.Lease{ObjectMeta: meta("fleet-east", "member")}, ""},
		{"the manager's Lease too", "create", &coordinationv1.Lease{ObjectMeta: meta(namespace, "flotilla-hub")}, ""},
		{"another Lease is not created", "create", &coordinationv1.Lease{ObjectMeta: meta("kube-system", "scheduler")}, "only in namespaces fleet-*"},
		{"a member's permissions are granted in its namespace", "create", &rbacv1.RoleBinding{ObjectMeta: meta("fleet-east", "rows"), RoleRef: reader}, ""},
		{"permissions are not granted in other namespaces", "create", &rbacv1.RoleBinding{ObjectMeta: meta("default", "rows"), RoleRef: reader}, "only in namespaces fleet-*"},
		{"a member's role is created", "create", &rbacv1.ClusterRole{ObjectMeta: meta("", "flotilla:member:east")}, ""},
		{"another role is not deleted", "delete", &rbacv1.ClusterRole{ObjectMeta: meta("", "view")}, "only roles named flotilla:*"},
		{"another binding is not deleted", "delete", &rbacv1.ClusterRoleBinding{ObjectMeta: meta("", "hub-may-all")}, "only roles named flotilla:*"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.NoError(t, dry(admin, tc.verb, tc.object), "other users are not restricted")
			err := dry(hub, tc.verb, tc.object)
			if tc.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tc.want)
		})
	}

	require.Eventually(t, func() bool {
		next := east.DeepCopy()
		next.Annotations = nil
		return refused(admin.Patch(t.Context(), next, client.MergeFrom(east), client.DryRunAll))
	}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "this policy takes effect, too")
	for name, edit := range map[string]func(*corev1.Namespace){
		"the label removed":            func(n *corev1.Namespace) { delete(n.Labels, "fleet.kruise.io/cluster") },
		"the label of another cluster": func(n *corev1.Namespace) { n.Labels["fleet.kruise.io/cluster"] = "west" },
		"the annotation removed":       func(n *corev1.Namespace) { n.Annotations = nil },
		"another annotation":           func(n *corev1.Namespace) { n.Annotations["fleet.kruise.io/member-cluster-uid"] = "x" },
	} {
		next := east.DeepCopy()
		edit(next)
		require.ErrorContains(t, admin.Patch(t.Context(), next, client.MergeFrom(east), client.DryRunAll), "delete its MemberCluster", "attack 09: %s", name)
	}
	next := east.DeepCopy()
	next.Labels["team"] = "a"
	require.NoError(t, admin.Patch(t.Context(), next, client.MergeFrom(east), client.DryRunAll))
	require.NoError(t, admin.Patch(t.Context(), alike.DeepCopy(), client.MergeFrom(alike), client.DryRunAll))
}
