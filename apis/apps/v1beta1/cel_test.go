//go:build integration

package v1beta1_test

import (
	"os"
	"slices"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

const cloneSet = `
apiVersion: apps.kruise.io/v1beta1
kind: CloneSet
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "web:1"}]}}
`

const unitedDeployment = `
apiVersion: apps.kruise.io/v1beta1
kind: UnitedDeployment
metadata: {name: web}
spec:
  selector: {matchLabels: {app: web}}
  template:
    cloneSetTemplate:
      metadata: {labels: {app: web}}
      spec:
        selector: {matchLabels: {app: web}}
        template: {metadata: {labels: {app: web}}, spec: {containers: [{name: main, image: "web:1"}]}}
  topology: {subsets: [{name: a}, {name: b}]}
`

// celCase is one object that a rule accepts or rejects.
type celCase struct {
	name   string
	base   string
	change string // a merge patch for base
	then   string // if set, a merge patch for an update of the object created so far
	want   string // expected in the error; empty if accepted
	only   string // the version in which it is rejected; empty for both
}

func TestRules(t *testing.T) {
	t.Parallel()
	api := start(t)
	covered := map[string]bool{}
	for _, tt := range slices.Concat(
		cloneSetCases(), daemonSetCases(), persistentPodStateCases(), resourceDistributionCases(), statefulSetCases(), unitedDeploymentCases(),
		workloadSpreadCases(),
	) {
		covered[tt.want] = true
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			if tt.only != "" && tt.only != version {
				continue
			}
			t.Run(version+": "+tt.name, func(t *testing.T) {
				t.Parallel()
				err := api.try(t, version, tt)
				if tt.want == "" {
					require.NoError(t, err)
					return
				}
				require.True(t, apierrors.IsInvalid(err), "%v", err)
				require.ErrorContains(t, err, tt.want)
			})
		}
	}
	for _, message := range messages(t) {
		require.True(t, covered[message], "no case is refused with: %s", message)
	}
}

// TestRulesOfV1alpha1 covers the rules that only v1alpha1 has.
func TestRulesOfV1alpha1(t *testing.T) {
	t.Parallel()
	api := start(t)
	err := api.try(t, "v1alpha1", celCase{base: cloneSet, change: `{spec: {updateStrategy: {type: RollingUpdate}}}`})
	require.ErrorContains(t, err, "RollingUpdate is a type of v1beta1")
	err = api.try(t, "v1alpha1", celCase{
		base: daemonSet, change: `{spec: {updateStrategy: {rollingUpdate: {rollingUpdateType: Surging, maxUnavailable: 1}}}}`,
	})
	require.ErrorContains(t, err, "rollingUpdateType Surging makes the new pod first: set maxUnavailable to 0, or use Standard")
	for _, rolling := range []string{`{}`, `{maxUnavailable: 0}`, `{maxSurge: "20%"}`} {
		err = api.try(t, "v1alpha1", celCase{
			base:   patchedText(t, daemonSet, `{spec: {updateStrategy: {rollingUpdate: {rollingUpdateType: Surging}}}}`),
			change: `{spec: {updateStrategy: {rollingUpdate: ` + rolling + `}}}`,
		})
		require.NoError(t, err)
	}
	err = api.try(t, "v1alpha1", celCase{base: cloneSet, change: `{spec: {updateStrategy: {type: OnDelete, partition: "30%"}}}`})
	require.NoError(t, err)
	for _, form := range []string{`{type: InPlaceIfPossible, partition: 1}`, `{type: RollingUpdate, rollingUpdate: {partition: 1}}`} {
		err = api.try(t, "v1alpha1", celCase{
			base: unitedDeployment, change: `{spec: {template: {cloneSetTemplate: {spec: {updateStrategy: ` + form + `}}}}}`,
		})
		require.NoError(t, err)
	}
}

func cloneSetCases() []celCase {
	return []celCase{
		{name: "A CloneSet with a selector and a template is accepted.", base: cloneSet},
		{
			name: "Replicas can be changed.",
			base: cloneSet, then: `{spec: {replicas: 3}}`,
		},
		{
			name: "The selector can't be changed.",
			base: cloneSet, then: `{spec: {selector: {matchLabels: {app: other}}}}`,
			want: "selector can't be changed: make a new CloneSet",
		},
		{
			name: "A negative number of replicas is refused.",
			base: cloneSet, change: `{spec: {replicas: -1}}`,
			want: "should be greater than or equal to 0",
		},
		{
			name: "A percentage is accepted instead of a number.",
			base: cloneSet, change: `{spec: {scaleStrategy: {maxUnavailable: "150%"}}}`,
		},
		{
			name: "A string that is not a percentage is refused.",
			base: cloneSet, change: `{spec: {scaleStrategy: {maxUnavailable: "5"}}}`,
			want: "should match '^[0-9]+%$'",
		},
		{
			name: "A negative maxUnavailable is refused.",
			base: cloneSet, change: `{spec: {scaleStrategy: {maxUnavailable: -1}}}`,
			want: "maxUnavailable can't be negative",
		},
	}
}

func unitedDeploymentCases() []celCase {
	update := func(strategy string) string {
		return `{spec: {template: {cloneSetTemplate: {spec: {updateStrategy: {rollingUpdate: ` + strategy + `}}}}}}`
	}
	subsets := func(list string) string { return `{spec: {topology: {subsets: ` + list + `}}}` }
	return append(append(clusterCases(), waveCases()...), []celCase{
		{name: "A UnitedDeployment with subsets is accepted.", base: unitedDeployment},
		{
			name: "The selector of a UnitedDeployment can't be changed.",
			base: unitedDeployment, then: `{spec: {selector: {matchLabels: {app: other}}}}`,
			want: "selector can't be changed: make a new UnitedDeployment",
		},
		{
			name: "The selector of its template can be changed.",
			base: unitedDeployment, then: `{spec: {template: {cloneSetTemplate: {spec: {selector: {matchLabels: {app: b}}}}}}}`,
		},
		{name: "Values of 0 are accepted.", base: unitedDeployment, change: update(`{partition: 0, maxSurge: 0, maxUnavailable: 0}`)},
		{
			name: "A negative partition of a CloneSet is refused.",
			base: unitedDeployment, change: update(`{partition: -1}`),
			want: "partition can't be negative",
		},
		{
			name: "A negative maxSurge is refused.",
			base: unitedDeployment, change: update(`{maxSurge: -1}`),
			want: "maxSurge can't be negative",
		},
		{
			name: "One list of priorities is accepted.",
			base: unitedDeployment, change: update(`{priorityStrategy: {orderPriority: [{orderedKey: num}]}}`),
		},
		{
			name: "Two lists of priorities are refused.",
			base: unitedDeployment, change: update(`{priorityStrategy: {orderPriority: [], weightPriority: []}}`),
			want: "only one of orderPriority and weightPriority may be set: remove the other",
		},
		{
			name: "No template is refused.",
			base: unitedDeployment, change: `{spec: {template: {cloneSetTemplate: null}}}`,
			want: "template needs exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate",
		},
		{
			name: "Two templates are refused.",
			base: unitedDeployment, change: `{spec: {template: {deploymentTemplate: {spec: {}}}}}`,
			want: "template needs exactly one of statefulSetTemplate, advancedStatefulSetTemplate, cloneSetTemplate and deploymentTemplate",
		},
		{
			name: "A range of ordinals may be open, closed or a single ordinal.",
			base: unitedDeployment, change: subsets(`[{name: a, ordinals: {start: 7, end: 7}}, {name: b, ordinals: {start: 8}}]`),
		},
		{
			name: "A range of ordinals that runs backwards is refused.",
			base: unitedDeployment, change: subsets(`[{name: a, ordinals: {start: 7, end: 6}}]`),
			want: "the range runs backwards: end must be start or more",
		},
		{
			name: "A range of ordinals that begins below 0 is refused.",
			base: unitedDeployment, change: subsets(`[{name: a, ordinals: {start: -1}}]`),
			want: "spec.topology.subsets[0].ordinals.start",
		},
		{
			name: "The name of a subset is a DNS label.",
			base: unitedDeployment, change: subsets(`[{name: "A_1"}]`),
			want: "spec.topology.subsets[0].name",
		},
		{
			name: "Numbers and percentages of subsets are accepted.",
			base: unitedDeployment, change: subsets(`[{name: a, replicas: 0}, {name: b, replicas: "100%"}]`),
		},
		{
			name: "A percentage over 100 is refused.",
			base: unitedDeployment, change: subsets(`[{name: a, replicas: "101%"}]`),
			want: "spec.topology.subsets[0].replicas",
		},
		{
			name: "Minima and maxima are accepted in numbers and percentages.",
			base: unitedDeployment, change: subsets(`[{name: a, minReplicas: 2, maxReplicas: 2}, {name: b, minReplicas: 9, maxReplicas: "1%"}, {name: c}]`),
		},
		{
			name: "Replicas in one subset and a minimum in another are refused.",
			base: unitedDeployment, change: subsets(`[{name: a, replicas: 3}, {name: b, minReplicas: 1}]`),
			want: "subsets say either replicas or minReplicas and maxReplicas: use one of the two forms in all subsets",
		},
		{
			name: "Maximums in all subsets are refused.",
			base: unitedDeployment, change: subsets(`[{name: a, maxReplicas: 3}, {name: b, maxReplicas: 3}]`),
			want: "every subset has maxReplicas, so not every number of replicas fits: remove it from one of them",
		},
		{name: "An empty list of subsets is accepted.", base: unitedDeployment, change: subsets(`[]`)},
		{
			name: "Replicas of subsets are refused with the type Adaptive.",
			base: unitedDeployment, change: `{spec: {topology: {scheduleStrategy: {type: Adaptive}, subsets: [{name: a, replicas: 3}]}}}`,
			want: "subsets can't say replicas with scheduleStrategy.type Adaptive: use minReplicas and maxReplicas",
		},
		{
			name: "Partitions are accepted.",
			base: unitedDeployment, change: `{spec: {updateStrategy: {manualUpdate: {partitions: {a: 0, b: 7}}}}}`,
		},
		{
			name: "A negative partition is refused.",
			base: unitedDeployment, change: `{spec: {updateStrategy: {manualUpdate: {partitions: {a: 0, b: -1}}}}}`,
			want: "a partition can't be negative: use 0 to update the whole subset",
		},
		{
			name: "maxUnavailable of subsets is accepted.",
			base: unitedDeployment, change: `{spec: {updateStrategy: {type: Manual, manualUpdate: {maxUnavailable: {a: 0, b: 7}}}}}`,
		},
		{
			name: "A negative maxUnavailable of a subset is refused.",
			base: unitedDeployment, change: `{spec: {updateStrategy: {manualUpdate: {maxUnavailable: {a: 0, b: -1}}}}}`,
			want: "maxUnavailable can't be negative: use 0 to stop the update of a subset",
		},
	}...)
}

func clusterCases() []celCase {
	subsets := func(list string) string { return `{spec: {topology: {subsets: ` + list + `}}}` }
	placed := func(reallocation string) string {
		return `{spec: {topology: {subsets: [{name: a, cluster: east}], placement: {reallocation: ` + reallocation + `}}}}`
	}
	tolerating := func(toleration string) string {
		return `{spec: {topology: {subsets: [{name: a, cluster: east}], placement: {tolerations: [` + toleration + `]}}}}`
	}
	return []celCase{
		{
			name: "A cluster in one subset and a selector in another are accepted.",
			base: unitedDeployment, change: subsets(`[{name: a, cluster: east}, {name: b, clusterSelector: {}}]`),
		},
		{
			name: "With clusters, all subsets may have a maximum: the hub reports what does not fit.",
			base: unitedDeployment, change: subsets(`[{name: a, cluster: east, maxReplicas: 3}]`),
		},
		{
			name: "A cluster and a selector in one subset are refused.",
			base: unitedDeployment, change: subsets(`[{name: a, cluster: east, clusterSelector: {}}]`),
			want: "a subset has either cluster or clusterSelector: remove one of them",
		},
		{
			name: "Subsets with and without a cluster are refused.",
			base: unitedDeployment, change: subsets(`[{name: a, cluster: east}, {name: b}]`),
			want: "either every subset names a cluster or none does: give each subset cluster or clusterSelector, or take them off all",
		},
		{name: "A surge of 0 with maxUnavailable is accepted.", base: unitedDeployment, change: placed(`{maxSurge: 0, maxUnavailable: 1}`)},
		{name: "A surge alone is accepted.", base: unitedDeployment, change: placed(`{maxSurge: "10%"}`)},
		{
			name: "A surge of 0 alone is refused.",
			base: unitedDeployment, change: placed(`{maxSurge: "0%"}`),
			want: "with maxSurge 0 and maxUnavailable 0 no replica can move: raise one of them",
		},
		{
			name: "Dependencies without clusters are refused.", base: unitedDeployment, change: `{spec: {topology: {dependencies: Auto}}}`,
			want: "dependencies are placed in clusters: give each subset cluster or clusterSelector, or remove dependencies",
		},
		{name: "With dependencies: Off no clusters are needed.", base: unitedDeployment, change: `{spec: {topology: {dependencies: "Off"}}}`},
		{
			name: "Dependencies in clusters are accepted.", base: unitedDeployment,
			change: `{spec: {topology: {subsets: [{name: a, cluster: east}], dependencies: Auto}}}`,
		},
		{
			name: "An unknown policy for dependencies is refused.", base: unitedDeployment,
			change: `{spec: {topology: {subsets: [{name: a, cluster: east}], dependencies: All}}}`, want: "Unsupported value",
		},
		{
			name: "Placement without clusters is refused.",
			base: unitedDeployment, change: `{spec: {topology: {placement: {reallocation: {maxSurge: 1}}}}}`,
			want: "placement is about clusters: give each subset cluster or clusterSelector, or remove placement",
		},
		{name: "Every value of a taint may be tolerated.", base: unitedDeployment, change: tolerating(`{key: gpu, operator: Exists}`)},
		{name: "One value of a taint may be tolerated.", base: unitedDeployment, change: tolerating(`{key: gpu, value: a100}`)},
		{name: "Every taint may be tolerated.", base: unitedDeployment, change: tolerating(`{operator: Exists}`)},
		{name: "A taint may be tolerated for some time.", base: unitedDeployment, change: tolerating(`{key: gpu, effect: Evict, tolerationSeconds: 60}`)},
		{
			name: "A value with Exists is refused.",
			base: unitedDeployment, change: tolerating(`{key: gpu, operator: Exists, value: a100}`),
			want: "operator Exists tolerates every value: remove value, or set operator: Equal",
		},
		{
			name: "A toleration without a key needs Exists.",
			base: unitedDeployment, change: tolerating(`{value: a100}`),
			want: "a toleration without key tolerates every taint: set operator: Exists, or name a key",
		},
		{
			name: "tolerationSeconds without effect Evict are refused.",
			base: unitedDeployment, change: tolerating(`{key: gpu, effect: NoPlace, tolerationSeconds: 60}`),
			want: "tolerationSeconds is how long replicas stay in spite of a taint that evicts: set effect: Evict, or remove tolerationSeconds",
		},
	}
}

// TestMain lets the tests of the package share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// apiserver is a real apiserver with our CRDs.
type apiserver struct{ dynamic.Interface }

func start(t *testing.T) apiserver {
	t.Helper()
	client, err := dynamic.NewForConfig(testenv.Start(t, testenv.Config{}).REST())
	require.NoError(t, err)
	for _, resource := range kinds() {
		for _, version := range []string{"v1beta1", "v1alpha1"} {
			require.Eventually(t, func() bool {
				_, err := client.Resource(resourceOf(version, resource)).List(t.Context(), metav1.ListOptions{})
				return err == nil
			}, testtimeout.Scale(30*time.Second), 50*time.Millisecond, "%s %s is not served", resource, version)
		}
	}
	return apiserver{client}
}

// try sends the object of a case in a version. It doesn't store the object unless the case includes an update.
func (a apiserver) try(t *testing.T, version string, tt celCase) error {
	t.Helper()
	obj := patched(t, object(t, tt.base), tt.change)
	gvk := obj.GroupVersionKind()
	gvk.Version = version
	if version == "v1alpha1" {
		flatten(obj)
	}
	obj.SetGroupVersionKind(gvk)
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	client := a.Resource(plural).Namespace("default")
	if gvk.Kind == "ResourceDistribution" { // It is cluster-scoped.
		client = a.Resource(plural).Namespace("")
	}
	dry := []string{metav1.DryRunAll}
	if tt.then == "" {
		_, err := client.Create(t.Context(), obj, metav1.CreateOptions{DryRun: dry})
		return err
	}
	obj.SetName("")
	obj.SetGenerateName("web-")
	made, err := client.Create(t.Context(), obj, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = client.Update(t.Context(), patched(t, made, tt.then), metav1.UpdateOptions{DryRun: dry})
	return err
}

// flatten converts the template of a UnitedDeployment to the fields of v1alpha1.
func flatten(obj *unstructured.Unstructured) {
	path := []string{"spec", "template", "cloneSetTemplate", "spec", "updateStrategy"}
	nested, ok, err := unstructured.NestedMap(obj.Object, append(path, "rollingUpdate")...)
	if err == nil && ok {
		_ = unstructured.SetNestedMap(obj.Object, nested, path...) // The path was just read.
	}
}

func resourceOf(version, resource string) schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: appsv1beta1.GroupVersion.Group, Version: version, Resource: resource}
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &out.Object))
	return out
}

// waveCases are about a UnitedDeployment that a hub rolls out over clusters.
func waveCases() []celCase {
	strategy := func(strategy string) string {
		return `{spec: {topology: {subsets: [{name: a, cluster: east}, {name: b, clusterSelector: {}}]}, updateStrategy: ` + strategy + `}}`
	}
	rollout := func(fields string) string { return strategy(`{type: Waves, rollout: {` + fields + `}}`) }
	const (
		noClusters = "Waves need clusters: give each subset cluster or clusterSelector, or use Manual"
		noBudget   = "maxUnavailable must be at least 1, or no pod can be updated: use paused to stop the rollout"
		noWaves    = "rollout configures the type Waves: set type to Waves, or remove rollout"
		noSeconds  = "seconds is required for a gate of type Soak, and can't be used with another type"
	)
	return []celCase{
		{name: "Waves over clusters are accepted.", base: unitedDeployment, change: strategy(`{type: Waves}`)},
		{name: "Waves without clusters are refused.", base: unitedDeployment, change: `{spec: {updateStrategy: {type: Waves}}}`, want: noClusters},
		{
			name: "Waves without subsets are refused.",
			base: unitedDeployment, change: `{spec: {topology: {subsets: []}, updateStrategy: {type: Waves}}}`, want: noClusters,
		},
		{
			name: "Waves stay with clusters.", base: unitedDeployment, change: strategy(`{type: Waves}`),
			then: `{spec: {topology: {subsets: [{name: a}]}}}`, want: noClusters,
		},
		{name: "An unknown type of update is refused.", base: unitedDeployment, change: strategy(`{type: Canary}`), want: "Unsupported value"},
		{
			name: "A rollout with all its fields is accepted.",
			base: unitedDeployment, change: rollout(`maxUnavailable: "5%", partition: "10%", paused: true, staleClusters: Skip`),
		},
		{name: "A rollout in numbers of pods is accepted.", base: unitedDeployment, change: rollout(`maxUnavailable: 1, partition: 0`)},
		{name: "A rollout of all pods at once is accepted.", base: unitedDeployment, change: rollout(`maxUnavailable: "100%", partition: "0%"`)},
		{name: "A rollout with type Manual is refused.", base: unitedDeployment, change: strategy(`{type: Manual, rollout: {paused: true}}`), want: noWaves},
		{name: "A rollout without a type is refused.", base: unitedDeployment, change: strategy(`{rollout: {paused: true}}`), want: noWaves},
		{
			name: "Partitions of subsets with Waves are refused.",
			base: unitedDeployment, change: strategy(`{type: Waves, manualUpdate: {partitions: {a: 1}}}`),
			want: "manualUpdate configures the type Manual: use rollout.partition with the type Waves, or remove manualUpdate",
		},
		{name: "A rollout of 0 pods is refused.", base: unitedDeployment, change: rollout(`maxUnavailable: 0`), want: noBudget},
		{name: "A rollout of less than 0 pods is refused.", base: unitedDeployment, change: rollout(`maxUnavailable: -1`), want: noBudget},
		{name: "A rollout of 0% is refused.", base: unitedDeployment, change: rollout(`maxUnavailable: "0%"`), want: "spec.updateStrategy.rollout.maxUnavailable"},
		{
			name: "A rollout of over 100% is refused.", base: unitedDeployment, change: rollout(`maxUnavailable: "101%"`),
			want: "spec.updateStrategy.rollout.maxUnavailable",
		},
		{
			name: "A negative partition of a rollout is refused.", base: unitedDeployment, change: rollout(`partition: -1`),
			want: "partition can't be negative: use 0 to update all pods",
		},
		{
			name: "A partition of a rollout over 100% is refused.", base: unitedDeployment, change: rollout(`partition: "101%"`),
			want: "spec.updateStrategy.rollout.partition",
		},
		{name: "An unknown policy for stale clusters is refused.", base: unitedDeployment, change: rollout(`staleClusters: Wait`), want: "Unsupported value"},
		{
			name: "Waves with all their fields are accepted.", base: unitedDeployment,
			change: rollout(`waves: [{name: a, subsets: [a], clusters: [east], clusterSelector: {}, pods: 1, maxConcurrentClusters: 1, ` +
				`gates: [{type: Soak, seconds: 60}, {type: Approval}]}], gates: [{type: Soak, seconds: 1}]`),
		},
		{
			name: "A wave that selects nothing is refused.", base: unitedDeployment, change: rollout(`waves: [{name: a}]`),
			want: "a wave must select clusters: set subsets, clusters or clusterSelector",
		},
		{
			name: "A wave named rest is refused.", base: unitedDeployment, change: rollout(`waves: [{name: rest, clusters: [east]}]`),
			want: "rest is the name of the last wave, which has all clusters that match no other wave",
		},
		{
			name: "Two waves with one name are refused.", base: unitedDeployment,
			change: rollout(`waves: [{name: a, clusters: [b]}, {name: a, clusters: [c]}]`), want: "Duplicate value",
		},
		{name: "A wave of 0 pods is refused.", base: unitedDeployment, change: rollout(`waves: [{name: a, clusters: [b], pods: 0}]`), want: "pods"},
		{name: "A Soak without seconds is refused.", base: unitedDeployment, change: rollout(`gates: [{type: Soak}]`), want: noSeconds},
		{name: "An Approval with seconds is refused.", base: unitedDeployment, change: rollout(`gates: [{type: Approval, seconds: 1}]`), want: noSeconds},
		{name: "An unknown gate is refused.", base: unitedDeployment, change: rollout(`gates: [{type: Metric}]`), want: "Unsupported value"},
	}
}

func patchedText(t *testing.T, text, patch string) string {
	t.Helper()
	out, err := patched(t, object(t, text), patch).MarshalJSON()
	require.NoError(t, err)
	return string(out)
}

func patched(t *testing.T, obj *unstructured.Unstructured, patch string) *unstructured.Unstructured {
	t.Helper()
	if patch == "" {
		return obj
	}
	before, err := obj.MarshalJSON()
	require.NoError(t, err)
	change, err := yaml.YAMLToJSON([]byte(patch))
	require.NoError(t, err)
	after, err := jsonpatch.MergePatch(before, change)
	require.NoError(t, err)
	out := &unstructured.Unstructured{}
	require.NoError(t, out.UnmarshalJSON(after))
	return out
}

// kinds returns the plural names of all kinds.
func kinds() []string {
	return []string{
		"clonesets", "daemonsets", "persistentpodstates", "resourcedistributions", "statefulsets", "uniteddeployments", "workloadspreads",
	}
}

// messages returns the messages of the CEL rules of all kinds in v1beta1.
func messages(t *testing.T) []string {
	t.Helper()
	var found []string
	for _, kind := range kinds() {
		text, err := os.ReadFile("../../../charts/member/files/crds/apps.kruise.io_" + kind + ".yaml")
		require.NoError(t, err)
		list, _, err := unstructured.NestedSlice(object(t, string(text)).Object, "spec", "versions")
		require.NoError(t, err)
		for _, v := range list {
			if version := v.(map[string]any); version["name"] == "v1beta1" {
				found = append(found, messagesIn(version["schema"])...)
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

func messagesIn(node any) []string {
	var found []string
	switch node := node.(type) {
	case map[string]any:
		if rule, ok := node["rule"].(string); ok && rule != "" {
			if message, ok := node["message"].(string); ok {
				found = append(found, message)
			}
		}
		for _, child := range node {
			found = append(found, messagesIn(child)...)
		}
	case []any:
		for _, child := range node {
			found = append(found, messagesIn(child)...)
		}
	}
	return found
}
