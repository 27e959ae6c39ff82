//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationAttack03FurtherKindsKeepToTheLimits covers the resources that hub.kinds adds.
func TestIntegrationAttack03FurtherKindsKeepToTheLimits(t *testing.T) {
	t.Parallel()
	as := withPolicies(t, "member", "--set=agent.push=true", "--set=hub.allowedNamespaces={shop,kube-system}",
		"--set=hub.kinds[0].resources={configmaps,namespaces}",
		"--set=hub.kinds[1].group=scheduling.k8s.io", "--set=hub.kinds[1].resources={priorityclasses}",
		"--set=hub.kinds[2].group=apps", "--set=hub.kinds[2].resources={statefulsets}")
	admin, agent := as("admin"), as("system:serviceaccount:"+namespace+":flotilla-agent")
	for _, name := range []string{"shop", "bank", namespace} {
		require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	row := map[string]string{keys.FleetRowUID: "row"}
	config := func(in string, annotations map[string]string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: "web", Annotations: annotations}, Data: map[string]string{"a": "b"}}
	}
	class := func(annotations map[string]string) *schedulingv1.PriorityClass {
		return &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "web", Annotations: annotations}, Value: 1}
	}
	create := func(c client.Client, o client.Object) error { return c.Create(t.Context(), o, client.DryRunAll) }
	require.Eventually(t, func() bool { return create(agent, config("bank", row)) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
	for name, tc := range map[string]struct {
		object client.Object
		want   string // expected in the refusal; empty: allowed
	}{
		"in an allowed namespace":                        {config("shop", row), ""},
		"in another namespace":                           {config("bank", row), "add it to hub.allowedNamespaces"},
		"in another namespace, without the annotation":   {config("bank", nil), "add it to hub.allowedNamespaces"},
		"in an allowed namespace that is denied":         {config("kube-system", row), "hub.deniedNamespaces"},
		"in the namespace of the release":                {config(namespace, row), "hub.deniedNamespaces"},
		"a cluster-scoped object":                        {class(row), "add it to hub.allowedNamespaces"},
		"a namespace that is not allowed":                {&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "mine", Annotations: row}}, "add it to hub.allowedNamespaces"},
		"a cluster-scoped object without the annotation": {class(nil), "add it to hub.allowedNamespaces"},
	} {
		if err := create(agent, tc.object); tc.want == "" {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, tc.want, name)
		}
	}
	require.ErrorContains(t, create(admin, config("bank", row)), "add it", "objects with the annotation are refused for any account")
	require.NoError(t, create(admin, config("bank", nil)), "objects of users are not restricted")
	require.ErrorContains(t, agent.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "bank"}}, client.DryRunAll), "add it")

	placed := config("bank", nil)
	require.NoError(t, admin.Create(t.Context(), placed))
	require.ErrorContains(t, agent.Delete(t.Context(), placed, client.DryRunAll), "add it", "the hub may not delete objects of users")
	change := func(c client.Client, edit func(*corev1.ConfigMap)) error {
		next := placed.DeepCopy()
		edit(next)
		return c.Patch(t.Context(), next, client.MergeFrom(placed), client.DryRunAll)
	}
	require.ErrorContains(t, change(agent, func(cm *corev1.ConfigMap) { cm.Annotations = row }), "add it", "the hub may not take over objects of users")
	marked := placed.DeepCopy()
	marked.Annotations = row
	require.NoError(t, admin.Patch(t.Context(), marked, client.MergeFrom(placed)), "an object placed before the namespace was denied")
	placed = marked
	require.NoError(t, change(agent, func(cm *corev1.ConfigMap) { cm.Labels = row }), "a change of metadata only is allowed")
	for name, edit := range map[string]func(*corev1.ConfigMap){
		"another value":   func(cm *corev1.ConfigMap) { cm.Data["a"] = "c" },
		"a field added":   func(cm *corev1.ConfigMap) { cm.BinaryData = map[string][]byte{"x": {1}} },
		"a field removed": func(cm *corev1.ConfigMap) { cm.Data = nil },
	} {
		require.ErrorContains(t, change(agent, edit), "add it", name)
	}
	require.NoError(t, agent.Delete(t.Context(), placed, client.DryRunAll), "placed objects can be withdrawn")

	labels := map[string]string{"app": "db"}
	db := &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "bank", Name: "db"},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(3)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
			},
		},
	}
	require.NoError(t, admin.Create(t.Context(), db))
	mine := db.DeepCopy()
	mine.Annotations = row
	require.NoError(t, admin.Patch(t.Context(), mine, client.MergeFrom(db)))
	for name, tc := range map[string]struct {
		edit func(*appsv1.StatefulSetSpec)
		ok   bool
	}{
		"fewer replicas": {func(s *appsv1.StatefulSetSpec) { s.Replicas = new(int32(1)) }, true},
		"fewer replicas and a lower partition": {func(s *appsv1.StatefulSetSpec) {
			s.Replicas, s.UpdateStrategy.RollingUpdate.Partition = new(int32(1)), new(int32(1))
		}, true},
		"more replicas": {func(s *appsv1.StatefulSetSpec) { s.Replicas = new(int32(4)) }, false},
		"fewer replicas and another field": {func(s *appsv1.StatefulSetSpec) {
			s.Replicas, s.PersistentVolumeClaimRetentionPolicy.WhenScaled = new(int32(1)), appsv1.DeletePersistentVolumeClaimRetentionPolicyType
		}, false},
	} {
		next := mine.DeepCopy()
		tc.edit(&next.Spec)
		if err := agent.Patch(t.Context(), next, client.MergeFrom(mine), client.DryRunAll); tc.ok {
			require.NoError(t, err, name)
		} else {
			require.ErrorContains(t, err, "add it", name)
		}
	}
}

func TestIntegrationAttack22FurtherKindsOfAHub(t *testing.T) {
	t.Parallel()
	set := func(group, resources string) []string {
		return []string{"template", "flotilla", "member", "--set=agent.push=true", "--set=hub.kinds[0].group=" + group, "--set=hub.kinds[0].resources={" + resources + "}"}
	}
	for _, tc := range []struct{ group, resources, want string }{
		{"", "secrets", "hub.kinds[0].resources: a hub places no secrets: a hub reads no Secrets here: it places Secrets by ResourceDistribution"},
		{"apps.kruise.io", "nodepodprobes", "a hub places no nodepodprobes: these have the node daemons act"},
		{"apps.kruise.io", "nodeimages", "a hub places no nodeimages"},
		{"", "configmaps,nodes", "a hub places no nodes"},
		{"", "events", "a hub places no events"},
		{"", "bindings", "a hub places no bindings"},
		{"events.k8s.io", "events", "hub.kinds[0].group: a hub places no objects of group events.k8s.io"},
		{"coordination.k8s.io", "leases", "hub.kinds[0].group"},
		{"fleet.kruise.io", "appliedworks", "the fleet's own"},
		{"rbac.authorization.k8s.io", "roles", "who may do what"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", "who may do what"},
		{"apiextensions.k8s.io", "customresourcedefinitions", "who may do what"},
		{"apiregistration.k8s.io", "apiservices", "who may do what"},
		{"certificates.k8s.io", "certificatesigningrequests", "who may do what"},
		{"apps", "deployments", "a hub may always place deployments of group apps: remove it"},
		{"*", "configmaps", "hub/kinds/0/group"},
		{"", "*", "hub/kinds/0/resources/0"},
		{"", "serviceaccounts/token", "hub/kinds/0/resources/0"},
	} {
		_, err := helm(t, set(tc.group, tc.resources)...)
		require.ErrorContains(t, err, tc.want, "%s %s", tc.group, tc.resources)
	}
	for _, args := range [][]string{{"--set=agent.push=true"}, pull} {
		text := render(t, "member", append([]string{"--set=hub.kinds[0].group=apps", "--set=hub.kinds[0].resources={daemonsets}"}, args...)...)
		found := false
		for _, b := range decode[rbacv1.ClusterRoleBinding](t, text, "ClusterRoleBinding") {
			if b.Name == "flotilla-agent-kinds" {
				found = true
				require.Equal(t, []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: "flotilla-agent"}}, b.Subjects, "attack 22")
			}
		}
		require.True(t, found)
	}
}
