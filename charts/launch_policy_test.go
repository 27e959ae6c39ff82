//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// TestIntegrationAttack36ManagerWritesOnlyConfigMapsOfPods uses the rights and the policies of the chart, with and without copies of
// ResourceDistributions.
func TestIntegrationAttack36ManagerWritesOnlyConfigMapsOfPods(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"alone": nil, "with copies": {"--set=featureGates=ResourceDistributionGate=true"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			users := usersOf(t, lab.Config{ControlPlaneOnly: true})
			admin, manager := users("admin", "system:masters"), users("system:serviceaccount:"+namespace+":flotilla-member")
			text := render(t, "member", args...)
			require.NoError(t, admin.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
			createKind[rbacv1.ClusterRole](t, admin, text, "ClusterRole")
			createKind[rbacv1.ClusterRoleBinding](t, admin, text, "ClusterRoleBinding")
			createPolicies(t, admin, text)
			barrier := func(name string, change ...func(*corev1.ConfigMap)) *corev1.ConfigMap {
				cm := &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, OwnerReferences: []metav1.OwnerReference{{
						APIVersion: "v1", Kind: "Pod", Name: "web-0", UID: "6f6a0a9e-0000-0000-0000-000000000001",
					}}},
					Data: map[string]string{"p_0": "true", "p_-1": "true"},
				}
				for _, c := range change {
					c(cm)
				}
				return cm
			}
			plain := func(cm *corev1.ConfigMap) { cm.OwnerReferences, cm.Data = nil, map[string]string{"mine": "1"} }
			for _, cm := range []*corev1.ConfigMap{barrier("ours-barrier"), barrier("settings", plain), barrier("their-barrier", plain)} {
				require.NoError(t, admin.Create(t.Context(), cm))
			}
			create := func(cm *corev1.ConfigMap) func(client.Client) error {
				return func(c client.Client) error { return c.Create(t.Context(), cm.DeepCopy(), client.DryRunAll) }
			}
			patch := func(name, data string) func(client.Client) error {
				return func(c client.Client) error {
					cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
					return c.Patch(t.Context(), cm, client.RawPatch(types.MergePatchType, []byte(data)), client.DryRunAll)
				}
			}
			foreign := create(barrier("settings-2", plain))
			require.Eventually(t, func() bool { return foreign(manager) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
			for _, tc := range []struct {
				name string
				do   func(client.Client) error
				want string // expected in the refusal; empty: allowed
			}{
				{"the ConfigMap of a pod", create(barrier("web-0-abcde-barrier")), ""},
				{"another key", patch("ours-barrier", `{"data":{"p_-2":"true"}}`), ""},
				{"an empty patch", patch("ours-barrier", `{}`), ""},
				{"a ConfigMap with another name", create(barrier("web-0")), "manager"},
				{"a ConfigMap without an owner", create(barrier("a-barrier", plain)), "manager"},
				{"a ConfigMap with a second owner", create(barrier("a-barrier", func(cm *corev1.ConfigMap) {
					cm.OwnerReferences = append(cm.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "Node", Name: "n", UID: "n"})
				})), "manager"},
				{"a ConfigMap with other keys", create(barrier("a-barrier", func(cm *corev1.ConfigMap) { cm.Data["nginx.conf"] = "true" })), "only keys such as p_10"},
				{"a ConfigMap with other values", create(barrier("a-barrier", func(cm *corev1.ConfigMap) { cm.Data["p_0"] = "rm -rf" })), "only keys such as p_10"},
				{"a change of another ConfigMap", patch("settings", `{"data":{"mine":"2"}}`), "manager"},
				{"an empty patch of another ConfigMap", patch("settings", `{}`), "manager"},
				{"an empty patch of another ConfigMap with such a name", patch("their-barrier", `{}`), "manager"},
				{"another pod as the owner", patch("ours-barrier", `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]}}`), "and not their owner"},
				{"a pod as the owner of another's ConfigMap", patch("their-barrier",
					`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Pod","name":"x","uid":"x"}]},"data":{"mine":null,"p_0":"true"}}`), "manager"},
			} {
				t.Run(tc.name, func(t *testing.T) {
					t.Parallel()
					if err := tc.do(manager); tc.want != "" {
						require.ErrorContains(t, err, tc.want)
					} else {
						require.NoError(t, err)
					}
				})
			}
		})
	}
}

// TestIntegrationPullMemberTakesConfigMapsOfAHub checks that the policies for ConfigMaps that the manager writes for itself don't apply to the
// agent's account. They apply to the manager, whatever mark a ConfigMap has.
func TestIntegrationPullMemberTakesConfigMapsOfAHub(t *testing.T) {
	t.Parallel()
	kinds := append([]string{"--set=hub.kinds[0].resources={configmaps}", "--set=hub.allowedNamespaces={default}"}, pull...)
	for name, args := range map[string][]string{"alone": kinds, "with copies": append([]string{"--set=featureGates=ResourceDistributionGate=true"}, kinds...)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			as := withPolicies(t, "member", args...)
			account := func(name string) client.Client { return as("system:serviceaccount:" + namespace + ":" + name) }
			admin, agent, manager := as("admin"), account("flotilla-agent"), account("flotilla-member")
			row := map[string]string{keys.FleetRowUID: "row"}
			config := func(in, name string, annotations map[string]string) *corev1.ConfigMap {
				return &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: in, Name: name, Annotations: annotations}, Data: map[string]string{"a": "b"},
				}
			}
			for _, cm := range []*corev1.ConfigMap{config("default", "placed", row), config("default", "theirs", nil)} {
				require.NoError(t, admin.Create(t.Context(), cm))
			}
			type do func(client.Client) error
			create := func(cm *corev1.ConfigMap) do {
				return func(c client.Client) error { return c.Create(t.Context(), cm.DeepCopy(), client.DryRunAll) }
			}
			patch := func(name, data string) do {
				return func(c client.Client) error {
					return c.Patch(t.Context(), config("default", name, nil), client.RawPatch(types.MergePatchType, []byte(data)), client.DryRunAll)
				}
			}
			remove := func(name string) do {
				return func(c client.Client) error {
					return c.Delete(t.Context(), config("default", name, nil), client.DryRunAll)
				}
			}
			require.Eventually(t, func() bool {
				return create(config("default", "early", nil))(manager) != nil && create(config("kube-public", "early", row))(agent) != nil
			}, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policies take effect")
			for _, tc := range []struct {
				name string
				do   do
				want string // expected in the refusal of the agent; empty: allowed
			}{
				{"a ConfigMap of a hub is created", create(config("default", "web", row)), ""},
				{"a ConfigMap of a hub is changed", patch("placed", `{"data":{"a":"c"}}`), ""},
				{"a ConfigMap of a hub is orphaned", patch("placed", `{"metadata":{"annotations":{"fleet.kruise.io/row-uid":null}}}`), ""},
				{"a ConfigMap of a hub is deleted", remove("placed"), ""},
				{"an existing ConfigMap is adopted", patch("theirs", `{"metadata":{"annotations":{"fleet.kruise.io/row-uid":"row"}},"data":{"a":"c"}}`), ""},
				{"a ConfigMap of a hub in a namespace that is not allowed", create(config("kube-public", "web", row)), "hub.deniedNamespaces"},
			} {
				if err := tc.do(agent); tc.want == "" {
					require.NoError(t, err, tc.name)
				} else {
					require.ErrorContains(t, err, tc.want, tc.name)
				}
				require.Error(t, tc.do(manager), tc.name)
			}
			for name, do := range map[string]do{
				"a ConfigMap without the annotation": create(config("default", "web", nil)), "a change of one": patch("theirs", `{"data":{"a":"c"}}`),
				"an empty patch of a ConfigMap without the annotation": patch("theirs", `{}`), "a deletion of one": remove("theirs"),
			} {
				require.ErrorContains(t, do(manager), "a manager", name)
			}
		})
	}
}

func TestIntegrationKindsThatPropagationsPlace(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ group, resources, want string }{
		{"", "secrets", "propagation.kinds[0].resources: no secrets are placed: a hub does not read Secrets"},
		{"", "configmaps,namespaces", "no namespaces are placed: a hub does not create namespaces"},
		{"", "nodes", "no nodes are placed"},
		{"apps.kruise.io", "nodepodprobes", "no nodepodprobes.apps.kruise.io are placed"},
		{"apps.kruise.io", "nodeimages", "no nodeimages.apps.kruise.io are placed"},
		{"", "events", "no events are placed"},
		{"", "bindings", "no bindings are placed"},
		{"", "componentstatuses", "no componentstatuses are placed"},
		{"apps.kruise.io", "uniteddeployments", "they name their own clusters, in spec.topology.subsets"},
		{"apps.kruise.io", "workloadspreads", "they name their own clusters, in spec.subsets"},
		{"apps.kruise.io", "resourcedistributions", "they name their own clusters, in spec.targets.clusters"},
		{"events.k8s.io", "events", "propagation.kinds[0].group: no objects of group events.k8s.io are placed"},
		{"coordination.k8s.io", "leases", "propagation.kinds[0].group"},
		{"fleet.kruise.io", "propagations", "the fleet's own"},
		{"rbac.authorization.k8s.io", "roles", "who may do what"},
		{"admissionregistration.k8s.io", "validatingadmissionpolicies", "who may do what"},
		{"apiextensions.k8s.io", "customresourcedefinitions", "who may do what"},
		{"apiregistration.k8s.io", "apiservices", "who may do what"},
		{"certificates.k8s.io", "certificatesigningrequests", "who may do what"},
		{"*", "configmaps", "propagation/kinds/0/group"},
		{"", "*", "propagation/kinds/0/resources/0"},
		{"", "serviceaccounts/token", "propagation/kinds/0/resources/0"},
	} {
		_, err := helm(t, "template", "flotilla", "hub", "--set=propagation.kinds[0].group="+tc.group, "--set=propagation.kinds[0].resources={"+tc.resources+"}")
		require.ErrorContains(t, err, tc.want, "%s %s", tc.group, tc.resources)
	}
}
