//go:build integration

package charts_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// targets of a ResourceDistribution: all namespaces, namespaces with a label, or namespaces by name.
func targets(all, labelled bool, included, excluded []string) appsv1beta1.ResourceDistributionTargets {
	list := func(names []string) (out appsv1beta1.ResourceDistributionNamespaces) {
		for _, name := range names {
			out.List = append(out.List, appsv1beta1.ResourceDistributionNamespace{Name: name})
		}
		return out
	}
	t := appsv1beta1.ResourceDistributionTargets{AllNamespaces: all, IncludedNamespaces: list(included), ExcludedNamespaces: list(excluded)}
	if labelled {
		t.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "team", Operator: metav1.LabelSelectorOpExists}}
	}
	return t
}

func copying(in appsv1beta1.ResourceDistributionTargets, annotations map[string]string) *appsv1beta1.ResourceDistribution {
	return &appsv1beta1.ResourceDistribution{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Annotations: annotations},
		Spec: appsv1beta1.ResourceDistributionSpec{
			Resource: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"settings"}}`)}, Targets: in,
		},
	}
}

// TestIntegrationAttack03CopiesStayWithinTheLimits also uses the agent's account without the annotation.
func TestIntegrationAttack03CopiesStayWithinTheLimits(t *testing.T) {
	t.Parallel()
	row := map[string]string{keys.FleetRowUID: "row"}
	closed := []string{"kube-node-lease", namespace}
	for _, tt := range []struct {
		name string
		args []string
		// probe is rejected once the policy is in force.
		probe appsv1beta1.ResourceDistributionTargets
		cases map[string]struct {
			targets appsv1beta1.ResourceDistributionTargets
			want    string // expected in the refusal; empty: allowed
		}
	}{
		{
			name: "denied namespaces", probe: targets(true, false, nil, nil),
			cases: map[string]struct {
				targets appsv1beta1.ResourceDistributionTargets
				want    string
			}{
				"by name":                                {targets(false, false, []string{"shop"}, nil), ""},
				"in a denied namespace":                  {targets(false, false, []string{"shop", namespace}, nil), "hub.deniedNamespaces"},
				"in a denied namespace that is excluded": {targets(false, false, []string{"shop", namespace}, []string{namespace}), ""},
				"in all namespaces":                      {targets(true, false, nil, nil), "spec.targets.excludedNamespaces: exclude what is in hub.deniedNamespaces"},
				"in all namespaces except some of the denied ones": {targets(true, false, nil, closed[:1]), namespace},
				"in all namespaces except the denied ones":         {targets(true, false, nil, closed), ""},
				"by labels": {targets(false, true, nil, nil), "exclude what is in hub.deniedNamespaces"},
				"by labels, except the denied namespaces": {targets(false, true, nil, closed), ""},
				"nowhere": {targets(false, false, nil, nil), ""},
			},
		},
		{
			name: "allowed namespaces", args: []string{"--set=hub.allowedNamespaces={shop,kube-system}"}, probe: targets(true, false, nil, closed),
			cases: map[string]struct {
				targets appsv1beta1.ResourceDistributionTargets
				want    string
			}{
				"by name":                                 {targets(false, false, []string{"shop"}, nil), ""},
				"in another namespace":                    {targets(false, false, []string{"shop", "bank"}, nil), "hub.allowedNamespaces"},
				"in another namespace that is excluded":   {targets(false, false, []string{"shop", "bank"}, []string{"bank"}), ""},
				"in an allowed namespace that is denied":  {targets(false, false, []string{"kube-system"}, nil), "hub.deniedNamespaces"},
				"in all namespaces that are not excluded": {targets(true, false, nil, append([]string{"bank"}, closed...)), "select these by name, and no others: shop, kube-system"},
				"by labels":                               {targets(false, true, nil, closed), "select these by name"},
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			as := withPolicies(t, "member", append([]string{"--set=agent.push=true"}, tt.args...)...)
			admin, agent := as("admin"), as("system:serviceaccount:"+namespace+":flotilla-agent")
			create := func(c client.Client, o *appsv1beta1.ResourceDistribution) error {
				return c.Create(t.Context(), o, client.DryRunAll)
			}
			require.EventuallyWithT(t, func(c *assert.CollectT) {
				assert.NoError(c, create(admin, copying(tt.probe, nil)), "the kind is served, and objects that are not a hub's are not restricted")
			}, testtimeout.Scale(30*time.Second), 100*time.Millisecond)
			require.Eventually(t, func() bool { return create(agent, copying(tt.probe, row)) != nil }, testtimeout.Scale(30*time.Second), 100*time.Millisecond, "the policy takes effect")
			for name, tc := range tt.cases {
				for who, attempt := range map[string]func() error{
					"an agent":                         func() error { return create(agent, copying(tc.targets, row)) },
					"an agent without the annotation":  func() error { return create(agent, copying(tc.targets, nil)) },
					"another user with the annotation": func() error { return create(admin, copying(tc.targets, row)) },
				} {
					if err := attempt(); tc.want == "" {
						require.NoError(t, err, "%s: %s", who, name)
					} else {
						require.ErrorContains(t, err, tc.want, "%s: %s", who, name)
					}
				}
			}
			there := copying(tt.probe, nil)
			require.NoError(t, admin.Create(t.Context(), there))
			taken := there.DeepCopy()
			taken.Annotations = row
			require.NoError(t, agent.Patch(t.Context(), taken, client.MergeFrom(there), client.DryRunAll), "a change of metadata only is allowed")
			taken.Spec.Targets.ExcludedNamespaces.List = []appsv1beta1.ResourceDistributionNamespace{{Name: "x"}}
			require.Error(t, agent.Patch(t.Context(), taken, client.MergeFrom(there), client.DryRunAll), "a change of the spec is refused")
			sourced := copying(targets(false, false, []string{"shop"}, nil), row)
			sourced.Spec.Resource, sourced.Spec.Source = runtime.RawExtension{}, &appsv1beta1.ResourceDistributionSource{Kind: "ConfigMap", Namespace: "shop", Name: "settings"}
			require.ErrorContains(t, create(agent, sourced), "spec.source: a hub may not place a ResourceDistribution with a source")
		})
	}
}
