package measure

import (
	"testing"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestAResourceDistributionReportsItsNamespaces(t *testing.T) {
	t.Parallel()
	const object = `{apiVersion: apps.kruise.io/v1beta1, kind: ResourceDistribution, metadata: {name: a, generation: 2}`
	for _, tt := range []struct {
		name, status string
		want         fleetv1alpha1.MemberWorkStatus
		observed     bool
	}{
		{"before its first status", ``, fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing}, false},
		{
			"with all copies", `{observedGeneration: 2, desired: 5, succeeded: 5, conditions: [{type: ConflictOccurred, status: "False", reason: Succeeded}]}`,
			fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy, Counts: fleetv1alpha1.WorkCounts{Desired: 5, Available: 5}},
			true,
		},
		{
			"of a former generation", `{observedGeneration: 1, desired: 5, succeeded: 5}`,
			fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing, Counts: fleetv1alpha1.WorkCounts{Desired: 5, Available: 5}},
			false,
		},
		{
			"with a failure", `{observedGeneration: 2, desired: 5, succeeded: 3, failed: 2, conditions: [{type: GetResourceFailed, status: "False"},
				{type: ConflictOccurred, status: "True", reason: Conflict, message: there is an object, failedNamespaces: [bank, shop]}]}`,
			fleetv1alpha1.MemberWorkStatus{
				Phase: fleetv1alpha1.WorkDegraded, Reason: "ConflictOccurred", Message: "Conflict: bank, shop: there is an object",
				Counts: fleetv1alpha1.WorkCounts{Desired: 5, Available: 3},
			},
			true,
		},
		{
			"that can't write at all", `{observedGeneration: 2, desired: 1, failed: 1, conditions: [{type: CreateResourceFailed, status: "True", reason: SecretNotAllowed, message: add it}]}`,
			fleetv1alpha1.MemberWorkStatus{
				Phase: fleetv1alpha1.WorkDegraded, Reason: "CreateResourceFailed", Message: "SecretNotAllowed: add it",
				Counts: fleetv1alpha1.WorkCounts{Desired: 1},
			},
			true,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			text := object + `}`
			if tt.status != "" {
				text = object + `, status: ` + tt.status + `}`
			}
			live := parse(t, text)
			k := KindOf(appsv1beta1.GroupVersion.WithKind("ResourceDistribution"))
			var got fleetv1alpha1.MemberWorkStatus
			k.Measure(&got, live)
			require.Equal(t, tt.want, got)
			require.Equal(t, tt.observed, k.Observed(live))
		})
	}
	nonsense := parse(t, object+`, status: {desired: many}}`)
	var got fleetv1alpha1.MemberWorkStatus
	measureResourceDistribution(&got, nonsense)
	require.Equal(t, fleetv1alpha1.ReasonImplausibleCounts, got.Reason)
}

func TestI20ARestoredHubDeletesNoCopies(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, live, want, where string }{
		{"the same", `{includedNamespaces: {list: [{name: a}, {name: b}]}}`, `{includedNamespaces: {list: [{name: b}, {name: a}]}}`, ""},
		{"one namespace more", `{includedNamespaces: {list: [{name: a}]}}`, `{includedNamespaces: {list: [{name: a}, {name: b}]}}`, ""},
		{"one namespace less", `{includedNamespaces: {list: [{name: a}, {name: b}]}}`, `{includedNamespaces: {list: [{name: a}]}}`, "spec.targets.includedNamespaces"},
		{"one namespace excluded", `{allNamespaces: true}`, `{allNamespaces: true, excludedNamespaces: {list: [{name: a}]}}`, "spec.targets.excludedNamespaces"},
		{"no namespace excluded", `{allNamespaces: true, excludedNamespaces: {list: [{name: a}]}}`, `{allNamespaces: true}`, ""},
		{"some namespaces instead of all", `{allNamespaces: true}`, `{includedNamespaces: {list: [{name: a}]}}`, "spec.targets.allNamespaces"},
		{"all namespaces instead of some", `{includedNamespaces: {list: [{name: a}]}, namespaceSelector: {matchLabels: {a: b}}}`, `{allNamespaces: true}`, ""},
		{"other labels", `{namespaceSelector: {matchLabels: {a: b}}}`, `{namespaceSelector: {matchLabels: {a: c}}}`, "spec.targets.namespaceSelector"},
		{"labels", `{includedNamespaces: {list: [{name: a}]}}`, `{includedNamespaces: {list: [{name: a}]}, namespaceSelector: {matchLabels: {a: b}}}`, ""},
		{"unreadable targets", `{allNamespaces: true}`, `{includedNamespaces: a}`, "spec.targets"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			object := func(targets string) string {
				return `{apiVersion: apps.kruise.io/v1beta1, kind: ResourceDistribution, metadata: {name: a}, spec: {targets: ` + targets + `}}`
			}
			live := parse(t, object(tt.live))
			require.Equal(t, tt.where, KindOf(live.GroupVersionKind()).ShrunkField(parse(t, object(tt.want)), live))
		})
	}
}
