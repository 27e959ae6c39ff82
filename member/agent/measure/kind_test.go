package measure

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

func TestOtherKindsAreMeasuredByKstatus(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		object   string
		want     fleetv1alpha1.MemberWorkStatus
		observed bool
	}{
		{
			name:     "a ConfigMap is healthy as soon as it exists",
			object:   `{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}`,
			want:     fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy},
			observed: true,
		},
		{
			name:     "a custom resource without a status is Applied",
			object:   `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, generation: 1}}`,
			want:     fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkApplied},
			observed: true,
		},
		{
			name: "a custom resource that is not ready is progressing",
			object: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, generation: 1},
				status: {observedGeneration: 1, conditions: [{type: Ready, status: "False", reason: Waiting}]}}`,
			want:     fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing},
			observed: true,
		},
		{
			name: "a custom resource that is stalled is degraded, with its message",
			object: `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a, generation: 1},
				status: {observedGeneration: 1, conditions: [{type: Stalled, status: "True", reason: Quota, message: no quota}]}}`,
			want:     fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkDegraded, Reason: reasonFailed, Message: "no quota"},
			observed: true,
		},
		{
			name: "a workload with fewer available replicas than it asks for is progressing",
			object: `{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {name: a, generation: 2}, spec: {replicas: 3},
				status: {observedGeneration: 2, replicas: 3, readyReplicas: 3, availableReplicas: 2, updatedReplicas: 3, updatedReadyReplicas: 3,
				updatedAvailableReplicas: 2, updateRevision: a-1}}`,
			want: fleetv1alpha1.MemberWorkStatus{
				Phase: fleetv1alpha1.WorkProgressing, Revision: "a-1",
				Counts: fleetv1alpha1.WorkCounts{Desired: 3, Replicas: 3, Ready: 3, Available: 2, Updated: 3, UpdatedReady: 3, UpdatedAvailable: 2},
			},
			observed: true,
		},
		{
			name: "a workload with all replicas available is healthy",
			object: `{apiVersion: apps.kruise.io/v1beta1, kind: CloneSet, metadata: {name: a, generation: 2}, spec: {replicas: 1},
				status: {observedGeneration: 2, replicas: 1, readyReplicas: 1, availableReplicas: 1, updatedReplicas: 1, updatedReadyReplicas: 1, updateRevision: a-1}}`,
			want: fleetv1alpha1.MemberWorkStatus{
				Phase: fleetv1alpha1.WorkHealthy, Revision: "a-1",
				Counts: fleetv1alpha1.WorkCounts{Desired: 1, Replicas: 1, Ready: 1, Available: 1, Updated: 1, UpdatedReady: 1},
			},
			observed: true,
		},
		{
			name: "a status of an older generation is not observed",
			object: `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, generation: 2}, spec: {replicas: 1},
				status: {observedGeneration: 1, replicas: 1, readyReplicas: 1, availableReplicas: 1, updatedReplicas: 1}}`,
			want: fleetv1alpha1.MemberWorkStatus{
				Phase:  fleetv1alpha1.WorkProgressing,
				Counts: fleetv1alpha1.WorkCounts{Desired: 1, Replicas: 1, Ready: 1, Available: 1, Updated: 1},
			},
		},
		{
			name:     "an invalid number counts as 0",
			object:   `{apiVersion: example.com/v1, kind: Widget, metadata: {name: a}, spec: {replicas: many}, status: {replicas: -4, readyReplicas: 5000000000}}`,
			want:     fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy, Counts: fleetv1alpha1.WorkCounts{Ready: 1<<31 - 1}},
			observed: true,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			live := parse(t, tc.object)
			k := KindOf(live.GroupVersionKind())
			var got fleetv1alpha1.MemberWorkStatus
			k.Measure(&got, live)
			require.Equal(t, tc.want, got)
			require.Equal(t, tc.observed, k.Observed(live))
		})
	}
}

func TestABroadcastJobReportsItsNodes(t *testing.T) {
	t.Parallel()
	counts := func(desired, replicas, succeeded int32) fleetv1alpha1.WorkCounts {
		return fleetv1alpha1.WorkCounts{Desired: desired, Replicas: replicas, Ready: succeeded, Available: succeeded}
	}
	for name, tt := range map[string]struct {
		spec, status string
		want         fleetv1alpha1.MemberWorkStatus
	}{
		"no controller has seen it": {"", "", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkApplied}},
		"it runs": {
			"", "phase: running, desired: 3, active: 1, succeeded: 1", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing, Counts: counts(3, 2, 1)},
		},
		"it is paused": {
			"", "phase: paused, desired: 3, failed: 1", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing, Counts: counts(3, 1, 0)},
		},
		"it is complete": {
			"", "phase: completed, desired: 3, succeeded: 2, failed: 1", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy, Counts: counts(3, 3, 2)},
		},
		"it has failed": {
			"", "phase: failed, desired: 3, failed: 1, conditions: [{type: Failed, status: 'True', message: too late}]",
			fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkDegraded, Reason: reasonFailed, Message: "too late", Counts: counts(3, 1, 0)},
		},
		"it never completes, and has run everywhere": {
			"completionPolicy: {type: Never}", "phase: running, desired: 3, succeeded: 3", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy, Counts: counts(3, 3, 3)},
		},
		"it never completes, and still runs": {
			"completionPolicy: {type: Never}", "phase: running, desired: 3, active: 1, succeeded: 2",
			fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing, Counts: counts(3, 3, 2)},
		},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				live := parse(t, fmt.Sprintf("{apiVersion: apps.kruise.io/%s, kind: BroadcastJob, metadata: {name: a}, spec: {%s}, status: {%s}}",
					version, tt.spec, tt.status))
				var got fleetv1alpha1.MemberWorkStatus
				KindOf(live.GroupVersionKind()).Measure(&got, live)
				require.Equal(t, tt.want, got)
			})
		}
	}
}

func TestAnAdvancedCronJobIsAsHealthyAsItsLatestRunThatHasEnded(t *testing.T) {
	t.Parallel()
	failed := fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkDegraded, Reason: reasonFailed, Message: "its latest run, a-2, failed"}
	for name, tt := range map[string]struct {
		status string
		want   fleetv1alpha1.MemberWorkStatus
	}{
		"no controller has seen it":                {"", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkApplied}},
		"no controller has seen the default":       {"observedGeneration: -1", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkApplied}},
		"only OpenKruise's controller has seen it": {"type: Job", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkApplied}},
		"nothing has run":                          {"observedGeneration: 1", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy}},
		"the first run is active":                  {"observedGeneration: 1, runs: [{name: a-1, phase: Running}]", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy}},
		"the latest run has failed":                {"observedGeneration: 1, runs: [{name: a-2, phase: Failed}, {name: a-1, phase: Succeeded}]", failed},
		"a run is active after a failure":          {"observedGeneration: 1, runs: [{name: a-3, phase: Running}, {name: a-2, phase: Failed}]", failed},
		"a run was removed after a failure":        {"observedGeneration: 1, runs: [{name: a-3, phase: Removed}, {name: a-2, phase: Failed}]", failed},
		"a run has succeeded after a failure":      {"observedGeneration: 1, runs: [{name: a-2, phase: Succeeded}, {name: a-1, phase: Failed}]", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy}},
		"a run was removed without a failure":      {"observedGeneration: 1, runs: [{name: a-1, phase: Removed}]", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy}},
	} {
		for _, version := range []string{"v1alpha1", "v1beta1"} {
			t.Run(name+" "+version, func(t *testing.T) {
				t.Parallel()
				live := parse(t, fmt.Sprintf("{apiVersion: apps.kruise.io/%s, kind: AdvancedCronJob, metadata: {name: a, generation: 1}, status: {%s}}", version, tt.status))
				var got fleetv1alpha1.MemberWorkStatus
				k := KindOf(live.GroupVersionKind())
				k.Measure(&got, live)
				require.Equal(t, tt.want, got)
				require.Equal(t, tt.want.Phase != fleetv1alpha1.WorkApplied, k.Observed(live))
			})
		}
	}
	live := parse(t, "{apiVersion: apps.kruise.io/v1beta1, kind: AdvancedCronJob, metadata: {name: a}, status: {runs: 1}}")
	var got fleetv1alpha1.MemberWorkStatus
	KindOf(live.GroupVersionKind()).Measure(&got, live)
	require.Equal(t, fleetv1alpha1.ReasonImplausibleCounts, got.Reason)
}

func TestOtherKindsShrinkByTheirReplicas(t *testing.T) {
	t.Parallel()
	three := parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 3}}`)
	two := parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {replicas: 2}}`)
	none := parse(t, `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {}}`)
	k := KindOf(three.GroupVersionKind())
	require.Equal(t, "spec.replicas", k.ShrunkField(two, three))
	require.Empty(t, k.ShrunkField(three, two))
	require.Empty(t, k.ShrunkField(none, three), "a row without the field leaves it to other writers")
}

func TestTheAgentMayWriteTheKindsOfTheHubAndNoOthers(t *testing.T) {
	t.Parallel()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "charts", "member", "files", "agent-role.yaml"))
	require.NoError(t, err)
	role := rbacv1.ClusterRole{}
	require.NoError(t, yaml.Unmarshal(bytes.Split(raw, []byte("\n---\n"))[0], &role))
	written := map[schema.GroupResource][]string{}
	for _, rule := range role.Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				require.NotEqual(t, "*", group+resource)
				if !slices.Contains([]string{fleetv1alpha1.GroupVersion.Group, "events.k8s.io", "authorization.k8s.io"}, group) && slices.Contains(rule.Verbs, "create") {
					written[schema.GroupResource{Group: group, Resource: resource}] = rule.Verbs
				}
			}
		}
	}
	all := []string{"create", "delete", "get", "list", "patch", "watch"}
	require.Equal(t, map[schema.GroupResource][]string{
		{Group: "apps.kruise.io", Resource: "uniteddeployments"}: all, {Group: "apps.kruise.io", Resource: "workloadspreads"}: all,
		{Group: "apps.kruise.io", Resource: "clonesets"}: all, {Group: "apps", Resource: "deployments"}: all,
		{Group: "apps.kruise.io", Resource: "resourcedistributions"}: all,
	}, written)
}

func TestAWorkloadSpreadReportsWhatCanNotBeScheduled(t *testing.T) {
	t.Parallel()
	const object = `
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: web, namespace: shop, generation: 2}
status:
  observedGeneration: 2
  conditions: [{type: Active, status: "%s", reason: %s, message: because}]
  subsetStatuses:
    - {name: a, replicas: 3, missingReplicas: 0}
    - {name: b, replicas: 4, missingReplicas: -1, unschedulableReplicas: 2}
`
	for _, tt := range []struct {
		status, reason string
		phase          fleetv1alpha1.WorkPhase
	}{
		{"True", "Spreading", fleetv1alpha1.WorkHealthy},
		{"False", "TargetGone", fleetv1alpha1.WorkApplied},
		{"False", "PodsNotSent", fleetv1alpha1.WorkDegraded},
	} {
		live := parse(t, fmt.Sprintf(object, tt.status, tt.reason))
		var s fleetv1alpha1.MemberWorkStatus
		k := KindOf(live.GroupVersionKind())
		require.True(t, k.Observed(live))
		k.Measure(&s, live)
		require.Equal(t, tt.phase, s.Phase)
		require.EqualValues(t, 2, s.Counts.Unschedulable)
		require.Equal(t, []fleetv1alpha1.SubsetCounts{
			{Name: "a", WorkCounts: fleetv1alpha1.WorkCounts{Replicas: 3}},
			{Name: "b", WorkCounts: fleetv1alpha1.WorkCounts{Replicas: 4, Unschedulable: 2}},
		}, s.Subsets)
	}
	spread := appsv1beta1.GroupVersion.WithKind("WorkloadSpread")
	require.False(t, KindOf(spread).Observed(parse(t, "{apiVersion: v1, kind: A, metadata: {generation: 1}}")))
}

func TestWhatOnlyLowersAWorkloadWithAPartition(t *testing.T) {
	t.Parallel()
	for apiVersion, strategy := range map[string]string{
		"apps.kruise.io/v1beta1, kind: CloneSet":     "{rollingUpdate: {partition: %d}}",
		"apps.kruise.io/v1alpha1, kind: CloneSet":    "{partition: %d}",
		"apps.kruise.io/v1beta1, kind: StatefulSet":  "{rollingUpdate: {partition: %d}}",
		"apps.kruise.io/v1alpha1, kind: StatefulSet": "{rollingUpdate: {partition: %d}}",
		"apps/v1, kind: StatefulSet":                 "{rollingUpdate: {partition: %d}}",
	} {
		t.Run(apiVersion, func(t *testing.T) {
			t.Parallel()
			at := func(replicas, ready, partition int) *unstructured.Unstructured {
				return parse(t, fmt.Sprintf("{apiVersion: %s, metadata: {name: web}, spec: {replicas: %d, minReadySeconds: %d, updateStrategy: %s}}",
					apiVersion, replicas, ready, fmt.Sprintf(strategy, partition)))
			}
			k := KindOf(at(1, 0, 0).GroupVersionKind())
			require.True(t, k.OnlyShrinks(at(3, 0, 1), at(5, 0, 2)))
			require.False(t, k.OnlyShrinks(at(6, 0, 2), at(5, 0, 2)))
			require.False(t, k.OnlyShrinks(at(3, 9, 2), at(5, 0, 2)))
			require.Equal(t, "spec.replicas", k.ShrunkField(at(3, 0, 0), at(5, 0, 0)))
		})
	}
}

// TestEachServedVersionIsJudgedAlike: a row uses the version that its author chose. That must not bypass what the agent knows about a kind.
func TestEachServedVersionIsJudgedAlike(t *testing.T) {
	t.Parallel()
	rule := func(f any) uintptr { return reflect.ValueOf(f).Pointer() }
	for name, crd := range servedByMember(t) {
		var first *Kind
		for _, version := range crd.Spec.Versions {
			k := KindOf(schema.GroupVersionKind{Group: crd.Spec.Group, Version: version.Name, Kind: crd.Spec.Names.Kind})
			if first == nil {
				first = &k
			}
			require.Equal(t, rule(first.Observed), rule(k.Observed), "%s %s", name, version.Name)
			require.Equal(t, rule(first.Measure), rule(k.Measure), "%s %s", name, version.Name)
			require.Equal(t, rule(first.ShrunkField), rule(k.ShrunkField), "%s %s", name, version.Name)
			require.Equal(t, rule(first.OnlyShrinks), rule(k.OnlyShrinks), "%s %s", name, version.Name)
			require.Equal(t, rule(first.Targets), rule(k.Targets), "%s %s", name, version.Name)
		}
	}
	ud := parse(t, `{apiVersion: apps.kruise.io/v1alpha1, kind: UnitedDeployment, metadata: {name: a, generation: 1}, spec: {replicas: 2,
		topology: {subsets: [{name: a, replicas: 2}]}}, status: {observedGeneration: 1, replicas: 2, updateStatus: {updatedRevision: a-1},
		subsetStatuses: [{name: a, replicas: 2, availableReplicas: 2, updatedReplicas: 2}]}}`)
	var got fleetv1alpha1.MemberWorkStatus
	KindOf(ud.GroupVersionKind()).Measure(&got, ud)
	require.Equal(t, fleetv1alpha1.WorkHealthy, got.Phase)
	require.Equal(t, "a-1", got.Revision)
	require.Equal(t, "a", got.Subsets[0].Name)

	require.NoError(t, unstructured.SetNestedSlice(ud.Object, []any{map[string]any{"name": "a", "replicas": "100%"}}, "spec", "topology", "subsets"))
	got = fleetv1alpha1.MemberWorkStatus{}
	KindOf(ud.GroupVersionKind()).Measure(&got, ud)
	require.Equal(t, fleetv1alpha1.WorkHealthy, got.Phase, "a subset with a percentage is complete")
	require.Equal(t, int32(2), got.Subsets[0].Desired)
	for field, apiVersion := range map[string]string{"namespaceSelector": "v1beta1", "namespaceLabelSelector": "v1alpha1"} {
		distribution := func(value string) *unstructured.Unstructured {
			return parse(t, fmt.Sprintf("{apiVersion: apps.kruise.io/%s, kind: ResourceDistribution, metadata: {name: a}, spec: {targets: {%s: {matchLabels: {a: %s}}}}}",
				apiVersion, field, value))
		}
		k := KindOf(distribution("b").GroupVersionKind())
		in, err := k.Targets(distribution("b"))
		require.NoError(t, err)
		require.True(t, in.Any, apiVersion)
		require.Equal(t, "spec.targets.namespaceSelector", k.ShrunkField(distribution("b"), distribution("c")), apiVersion)
	}
}

// servedByMember returns the CRDs of a member by name.
func servedByMember(t *testing.T) map[string]*apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", "..", "charts", "member", "files", "crds", "*.yaml"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	out := map[string]*apiextensionsv1.CustomResourceDefinition{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(raw, crd))
		out[crd.Name] = crd
	}
	return out
}

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(text))
	require.NoError(t, err)
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON(raw))
	return o
}

func TestAUnitedDeploymentShrinks(t *testing.T) {
	t.Parallel()
	object := func(replicas int64, subsets ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
			"replicas": replicas, "topology": map[string]any{"subsets": subsets},
		}}}
	}
	subset := func(name string, replicas int64) any { return map[string]any{"name": name, "replicas": replicas} }
	percent := func(replicas string) any { return map[string]any{"name": "a", "replicas": replicas} }
	tests := []struct {
		name       string
		want, live *unstructured.Unstructured
		where      string
	}{
		{"equal numbers don't shrink", object(5, subset("a", 5)), object(5, subset("a", 5)), ""},
		{"a lower total shrinks", object(4), object(5), "spec.replicas"},
		{"a lower subset shrinks even with the same total", object(5, subset("a", 2), subset("b", 3)), object(5, subset("a", 3), subset("b", 2)), "spec.topology.subsets[a]"},
		{"a removed subset shrinks", object(5, subset("a", 5)), object(5, subset("a", 5), subset("b", 0)), "spec.topology.subsets[b]"},
		{"growth doesn't shrink", object(6, subset("a", 6)), object(5, subset("a", 5)), ""},
		{"equal percentages don't shrink", object(5, percent("50%")), object(5, percent("50%")), ""},
		{"a higher percentage doesn't shrink", object(5, percent("100%")), object(5, percent("50%")), ""},
		{"a lower percentage shrinks", object(5, percent("9%")), object(5, percent("50%")), "spec.topology.subsets[a]"},
		{"a percentage instead of a number may shrink", object(5, percent("50%")), object(5, subset("a", 5)), "spec.topology.subsets[a]"},
		{"a removed subset without replicas of its own shrinks", object(5), object(5, map[string]any{"name": "a"}), "spec.topology.subsets[a]"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.where, shrunkUnitedDeployment(tc.want, tc.live))
		})
	}
}

func TestAttack06WhatOnlyLowersReplicas(t *testing.T) {
	t.Parallel()
	const live = `{apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, metadata: {name: web, uid: x, generation: 3}, spec: {
		replicas: 5, revisionHistoryLimit: 10, template: {cloneSetTemplate: {spec: {template: {spec: {containers: [{name: app, image: "app:1", imagePullPolicy: Always}]}}}}},
		topology: {subsets: [{name: a, replicas: 3, tolerations: []}, {name: b, replicas: 2}]}, updateStrategy: {manualUpdate: {partitions: {a: 3}}}}}`
	object := func(image, rest string) string {
		return `{apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, metadata: {name: web}, spec: {
			template: {cloneSetTemplate: {spec: {template: {spec: {containers: [{name: app, image: "` + image + `"}]}}}}}, ` + rest + `}}`
	}
	for _, tt := range []struct {
		name, want string
		lowers     bool
	}{
		{"the same", object("app:1", `replicas: 5, topology: {subsets: [{name: a, replicas: 3}, {name: b, replicas: 2}]}`), true},
		{"fewer replicas of a subset", object("app:1", `replicas: 4, topology: {subsets: [{name: a, replicas: 2}, {name: b, replicas: 2}]}`), true},
		{"fewer replicas and a lower partition", object("app:1", `replicas: 4, topology: {subsets: [{name: a, replicas: 2}, {name: b, replicas: 2}]},
			updateStrategy: {manualUpdate: {partitions: {a: 2}}}`), true},
		{"another maxUnavailable", object("app:1", `replicas: 5, topology: {subsets: [{name: a, replicas: 3}, {name: b, replicas: 2}]},
			updateStrategy: {manualUpdate: {maxUnavailable: {a: 2, b: 0}}}`), true},
		{"another maxUnavailable and another image", object("app:2", `replicas: 5, topology: {subsets: [{name: a, replicas: 3}, {name: b, replicas: 2}]},
			updateStrategy: {manualUpdate: {maxUnavailable: {a: 0}}}`), false},
		{"one subset less", object("app:1", `replicas: 3, topology: {subsets: [{name: a, replicas: 3}]}`), true},
		{"subsets in another order", object("app:1", `replicas: 5, topology: {subsets: [{name: b, replicas: 2}, {name: a, replicas: 3}]}`), true},
		{"more replicas of a subset", object("app:1", `replicas: 5, topology: {subsets: [{name: a, replicas: 4}, {name: b, replicas: 1}]}`), false},
		{"more replicas", object("app:1", `replicas: 6, topology: {subsets: [{name: a, replicas: 3}, {name: b, replicas: 2}]}`), false},
		{"a new subset", object("app:1", `replicas: 5, topology: {subsets: [{name: a, replicas: 3}, {name: b, replicas: 2}, {name: c, replicas: 0}]}`), false},
		{"another image", object("app:2", `replicas: 4, topology: {subsets: [{name: a, replicas: 2}, {name: b, replicas: 2}]}`), false},
		{"other nodes", object("app:1", `replicas: 4, topology: {subsets: [{name: a, replicas: 2, tolerations: [{key: x}]}, {name: b, replicas: 2}]}`), false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tt.lowers, onlyShrinksUnitedDeployment(parse(t, tt.want), parse(t, live)))
		})
	}
	percentages := func(a, b string) *unstructured.Unstructured {
		return parse(t, `{apiVersion: apps.kruise.io/v1beta1, kind: UnitedDeployment, spec: {replicas: 5, topology: {subsets: [`+
			`{name: a, replicas: `+a+`}, {name: b, replicas: `+b+`}]}}}`)
	}
	require.True(t, onlyShrinksUnitedDeployment(percentages("40%", "50%"), percentages("50%", "50%")))
	require.False(t, onlyShrinksUnitedDeployment(percentages("40%", "60%"), percentages("50%", "50%")), "a subset grows")
	require.False(t, onlyShrinksUnitedDeployment(percentages("40%", "50%"), percentages("4", "50%")), "a percentage may be more than the number")
	require.False(t, onlyShrinksUnitedDeployment(percentages("null", "50%"), percentages("40%", "50%")), "the rest may be more")
	three, two := parse(t, `{kind: Deployment, apiVersion: apps/v1, spec: {replicas: 3, paused: true}}`), parse(t, `{kind: Deployment, apiVersion: apps/v1, spec: {replicas: 2}}`)
	require.True(t, onlyShrinksReplicas(two, three))
	require.False(t, onlyShrinksReplicas(three, two))
	four := parse(t, `{kind: Deployment, apiVersion: apps/v1, spec: {replicas: 4}}`)
	require.False(t, onlyShrinksReplicas(four, two), "only more replicas")
}

func TestAnEphemeralJobReportsItsPods(t *testing.T) {
	t.Parallel()
	counts := func(desired, replicas, succeeded int32) fleetv1alpha1.WorkCounts {
		return fleetv1alpha1.WorkCounts{Desired: desired, Replicas: replicas, Ready: succeeded, Available: succeeded}
	}
	for name, tt := range map[string]struct {
		status string
		want   fleetv1alpha1.MemberWorkStatus
	}{
		"no controller has seen it": {"", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkApplied}},
		"it waits for pods":         {"phase: Waiting", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing}},
		"it runs": {
			"phase: Running, match: 4, waiting: 1, running: 1, succeeded: 1, failed: 1",
			fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing, Counts: counts(4, 3, 1)},
		},
		"it has succeeded": {
			"phase: Succeeded, match: 2, succeeded: 2", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkHealthy, Counts: counts(2, 2, 2)},
		},
		"it has failed": {
			"phase: Failed, match: 1, failed: 1, conditions: [{type: Initialized, status: 'True'}, {type: JobFailed, status: 'True', message: too late}]",
			fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkDegraded, Reason: reasonFailed, Message: "too late", Counts: counts(1, 1, 0)},
		},
		"its spec is invalid": {
			"phase: Error, conditions: [{type: JobError, status: 'True', message: it is empty}]",
			fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkDegraded, Reason: reasonFailed, Message: "it is empty"},
		},
		"a phase of OpenKruise": {"phase: Unknown", fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing}},
		"it can't be read": {"match: many", fleetv1alpha1.MemberWorkStatus{
			Phase: fleetv1alpha1.WorkDegraded, Reason: fleetv1alpha1.ReasonImplausibleCounts,
			Message: "its status can't be read: cannot convert string to int32",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			live := parse(t, fmt.Sprintf("{apiVersion: apps.kruise.io/v1alpha1, kind: EphemeralJob, metadata: {name: a}, status: {%s}}", tt.status))
			var got fleetv1alpha1.MemberWorkStatus
			k := KindOf(live.GroupVersionKind())
			k.Measure(&got, live)
			if got.Reason == fleetv1alpha1.ReasonImplausibleCounts {
				require.Contains(t, got.Message, "its status can't be read")
				got.Message = tt.want.Message
			}
			require.Equal(t, tt.want, got)
			require.Empty(t, k.ShrunkField(parse(t, "{apiVersion: a/v1, kind: A, spec: {replicas: 1}}"), parse(t, "{apiVersion: a/v1, kind: A, spec: {replicas: 2}}")), "no pod is lost")
		})
	}
}
