//go:build integration

package v1beta1_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const statefulSet = `
apiVersion: apps.kruise.io/v1beta1
kind: StatefulSet
metadata: {name: db}
spec:
  selector: {matchLabels: {app: db}}
  serviceName: db
  template: {metadata: {labels: {app: db}}, spec: {containers: [{name: main, image: "db:1"}]}}
`

const daemonSet = `
apiVersion: apps.kruise.io/v1beta1
kind: DaemonSet
metadata: {name: agent}
spec:
  selector: {matchLabels: {app: agent}}
  template: {metadata: {labels: {app: agent}}, spec: {containers: [{name: main, image: "agent:1"}]}}
`

func statefulSetCases() []celCase {
	update := func(rolling string) string { return `{spec: {updateStrategy: {rollingUpdate: ` + rolling + `}}}` }
	parallel := func(rest string) string { return `{spec: {podManagementPolicy: Parallel, ` + rest + `}}` }
	rolling := func(fields string) string { return parallel(`updateStrategy: {rollingUpdate: ` + fields + `}`) }
	return append(statefulSetChanges(), []celCase{
		{name: "A StatefulSet with a selector and a template is accepted.", base: statefulSet},
		{
			name: "A negative number of replicas of a StatefulSet is refused.",
			base: statefulSet, change: `{spec: {replicas: -1}}`,
			want: "should be greater than or equal to 0",
		},
		{
			name: "An unknown pod management policy is refused.",
			base: statefulSet, change: `{spec: {podManagementPolicy: Burst}}`,
			want: `supported values: "OrderedReady", "Parallel"`,
		},
		{name: "A budget of 1 is accepted with OrderedReady.", base: statefulSet, change: update(`{maxUnavailable: 1}`)},
		{
			name: "A budget of 2 needs Parallel.",
			base: statefulSet, change: update(`{maxUnavailable: 2}`),
			want: "rollingUpdate.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which changes one pod at a time: leave it out, or use Parallel",
		},
		{
			name: "A budget in percent needs Parallel, even if OrderedReady is explicit.",
			base: statefulSet, change: `{spec: {podManagementPolicy: OrderedReady, updateStrategy: {rollingUpdate: {maxUnavailable: "10%"}}}}`,
			want: "rollingUpdate.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which changes one pod at a time: leave it out, or use Parallel",
		},
		{name: "A budget in percent is accepted with Parallel.", base: statefulSet, change: rolling(`{maxUnavailable: "10%"}`)},
		{
			name: "A budget of 0 is refused.",
			base: statefulSet, change: rolling(`{maxUnavailable: 0}`),
			want: "rollingUpdate.maxUnavailable must be at least 1, or no pod could be updated: raise it, or use paused to stop the update",
		},
		{
			name: "A budget of 0% is refused.",
			base: statefulSet, change: rolling(`{maxUnavailable: "00%"}`),
			want: "rollingUpdate.maxUnavailable must be at least 1, or no pod could be updated: raise it, or use paused to stop the update",
		},
		{
			name: "A budget that is not a percentage is refused.",
			base: statefulSet, change: rolling(`{maxUnavailable: "2"}`),
			want: "should match '^[0-9]+%$'",
		},
		{
			name: "Scaling several pods at a time needs Parallel.",
			base: statefulSet, change: `{spec: {scaleStrategy: {maxUnavailable: 2}}}`, only: "v1beta1",
			want: "scaleStrategy.maxUnavailable must be 1 with podManagementPolicy OrderedReady, which creates one pod at a time: leave it out, or use Parallel",
		},
		{name: "Scaling several pods at a time is accepted with Parallel.", base: statefulSet, change: parallel(`scaleStrategy: {maxUnavailable: "20%"}`)},
		{
			name: "Scaling 0 pods at a time is refused.",
			base: statefulSet, change: parallel(`scaleStrategy: {maxUnavailable: "0%"}`), only: "v1beta1",
			want: "scaleStrategy.maxUnavailable must be at least 1, or no pod could be created: raise it, or leave it out for no bound",
		},
		{
			name: "unorderedUpdate needs Parallel.",
			base: statefulSet, change: update(`{unorderedUpdate: {}}`),
			want: "rollingUpdate.unorderedUpdate needs podManagementPolicy Parallel: OrderedReady updates by ordinal",
		},
		{
			name: "unorderedUpdate is accepted with Parallel.",
			base: statefulSet, change: rolling(`{unorderedUpdate: {priorityStrategy: {orderPriority: [{orderedKey: num}]}}}`),
		},
		{
			name: "Two lists of priorities of a StatefulSet are refused.",
			base: statefulSet, change: rolling(`{unorderedUpdate: {priorityStrategy: {orderPriority: [], weightPriority: []}}}`),
			want: "only one of orderPriority and weightPriority may be set: remove the other",
		},
		{name: "OnDelete is accepted.", base: statefulSet, change: `{spec: {updateStrategy: {type: OnDelete}}}`},
		{
			name: "OnDelete with a rolling update is refused.",
			base: statefulSet, change: `{spec: {updateStrategy: {type: OnDelete, rollingUpdate: {}}}}`,
			want: "rollingUpdate has no effect with type OnDelete: remove it (rollingUpdate: null), or use type RollingUpdate",
		},
		{
			name: "A partition below 0 is refused.",
			base: statefulSet, change: update(`{partition: -1}`),
			want: "should be greater than or equal to 0",
		},
		{
			name: "More than 300 seconds are refused.",
			base: statefulSet, change: update(`{minReadySeconds: 301}`),
			want: "should be less than or equal to 300",
		},
		{
			name: "Numbers and ranges are accepted as reserved ordinals.",
			base: statefulSet, change: `{spec: {reserveOrdinals: [0, 7, "2-5"]}}`,
		},
		{
			name: "An invalid range is refused.",
			base: statefulSet, change: `{spec: {reserveOrdinals: ["3"]}}`, only: "v1beta1",
			want: "should match '^[0-9]+-[0-9]+$'",
		},
		{name: "A first ordinal is accepted.", base: statefulSet, change: `{spec: {ordinals: {start: 5}}}`},
		{
			name: "A first ordinal below 0 is refused.",
			base: statefulSet, change: `{spec: {ordinals: {start: -1}}}`, only: "v1beta1",
			want: "start can't be negative: the first ordinal is 0 or more",
		},
		{
			name: "An unknown retention policy for PVCs is refused.",
			base: statefulSet, change: `{spec: {persistentVolumeClaimRetentionPolicy: {whenScaled: Keep}}}`, only: "v1beta1",
			want: `supported values: "Retain", "Delete"`,
		},
		{
			name: "An unknown type of PVC update is refused.",
			base: statefulSet, change: `{spec: {volumeClaimUpdateStrategy: {type: Now}}}`, only: "v1beta1",
			want: `supported values: "OnDelete", "OnPodRollingUpdate"`,
		},
	}...)
}

func statefulSetChanges() []celCase {
	return []celCase{
		{
			name: "Most of a StatefulSet can be changed.",
			base: statefulSet,
			then: `{spec: {replicas: 3, template: {metadata: {labels: {app: db, v: "2"}}}, updateStrategy: {rollingUpdate: {partition: 1}},
				reserveOrdinals: [1], revisionHistoryLimit: 2, volumeClaimTemplates: [{metadata: {name: data}}], ordinals: {start: 1},
				persistentVolumeClaimRetentionPolicy: {whenScaled: Delete}, volumeClaimUpdateStrategy: {type: OnPodRollingUpdate},
				lifecycle: {preDelete: {finalizersHandler: [example.com/drain]}}, scaleStrategy: {maxUnavailable: 1}}}`,
		},
		{
			name: "The selector of a StatefulSet can't be changed.",
			base: statefulSet, then: `{spec: {selector: {matchLabels: {app: other}}}}`,
			want: "selector can't be changed: make a new StatefulSet",
		},
		{
			name: "The Service can't be changed.",
			base: statefulSet, then: `{spec: {serviceName: other}}`,
			want: "serviceName can't be changed, it is part of the pods: delete the StatefulSet with --cascade=orphan and create it with the new one, then delete the pods one by one",
		},
		{
			name: "The Service can't be removed.",
			base: statefulSet, then: `{spec: {serviceName: null}}`,
			want: "serviceName can't be changed, it is part of the pods: delete the StatefulSet with --cascade=orphan and create it with the new one, then delete the pods one by one",
		},
		{
			name: "The order of pods can't be changed.",
			base: statefulSet, then: `{spec: {podManagementPolicy: Parallel}}`,
			want: "podManagementPolicy can't be changed: delete the StatefulSet with --cascade=orphan and create it with the new one, its pods and PVCs stay",
		},
		{name: "Setting the default order is not a change.", base: statefulSet, then: `{spec: {podManagementPolicy: OrderedReady}}`},
	}
}

func daemonSetCases() []celCase {
	rolling := func(fields string) string { return `{spec: {updateStrategy: {rollingUpdate: ` + fields + `}}}` }
	return []celCase{
		{name: "A DaemonSet with a selector and a template is accepted.", base: daemonSet},
		{
			name: "Most of a DaemonSet can be changed.",
			base: daemonSet,
			then: `{spec: {template: {metadata: {labels: {app: agent, v: "2"}}}, updateStrategy: {type: OnDelete}, burstReplicas: "10%",
				minReadySeconds: 5, revisionHistoryLimit: 2, scaleStrategy: {partitionedScaling: true}, lifecycle: {preDelete: {}}}}`,
		},
		{
			name: "The selector of a DaemonSet can't be changed.",
			base: daemonSet, then: `{spec: {selector: {matchLabels: {app: other}}}}`,
			want: "selector can't be changed: make a new DaemonSet",
		},
		{
			name: "An unknown type of update is refused.",
			base: daemonSet, change: `{spec: {updateStrategy: {type: Rolling}}}`,
			want: `supported values: "RollingUpdate", "OnDelete"`,
		},
		{
			name: "An unknown type of rolling update is refused.",
			base: daemonSet, change: rolling(`{rollingUpdateType: Fast}`),
			want: `supported values: "Standard", "InPlaceIfPossible"`,
		},
		{
			name: "Surging is refused in v1beta1.",
			base: daemonSet, change: rolling(`{rollingUpdateType: Surging}`), only: "v1beta1",
			want: "Surging is a type of v1alpha1: use rollingUpdateType Standard with maxSurge",
		},
		{name: "A surge alone is accepted.", base: daemonSet, change: rolling(`{maxSurge: "10%"}`)},
		{name: "A surge of 0 alone is accepted.", base: daemonSet, change: rolling(`{maxSurge: 0}`)},
		{name: "A budget with a surge of 0 is accepted.", base: daemonSet, change: rolling(`{maxSurge: "0%", maxUnavailable: "100%"}`)},
		{
			name: "A budget and a surge are refused.",
			base: daemonSet, change: rolling(`{maxSurge: 1, maxUnavailable: "10%"}`),
			want: "maxSurge and maxUnavailable can't both be above 0: a node's pod is replaced in one way, set one of them to 0",
		},
		{
			name: "A budget of 0 without a surge is refused.",
			base: daemonSet, change: rolling(`{maxUnavailable: 0}`),
			want: "with maxUnavailable 0 and no maxSurge no pod can be updated: raise one of them, or use paused to stop the update",
		},
		{
			name: "A surge with updates in place is refused.",
			base: daemonSet, change: rolling(`{rollingUpdateType: InPlaceIfPossible, maxSurge: 1}`),
			want: "rollingUpdateType InPlaceIfPossible makes no second pod on a node: set maxSurge to 0, or use Standard",
		},
		{
			name: "A negative budget of a DaemonSet is refused.",
			base: daemonSet, change: rolling(`{maxUnavailable: -1}`),
			want: "maxUnavailable can't be negative",
		},
		{
			name: "A negative surge of a DaemonSet is refused.",
			base: daemonSet, change: rolling(`{maxSurge: -1, maxUnavailable: 0}`),
			want: "maxSurge can't be negative",
		},
		{
			name: "A budget above 100% is refused.",
			base: daemonSet, change: rolling(`{maxUnavailable: "101%"}`),
			want: "spec.updateStrategy.rollingUpdate.maxUnavailable",
		},
		{name: "A partition in percent is accepted.", base: daemonSet, change: rolling(`{partition: "100%"}`)},
		{
			name: "A negative partition of a DaemonSet is refused.",
			base: daemonSet, change: rolling(`{partition: -1}`),
			want: "partition can't be negative",
		},
		{
			name: "A partition above 100% is refused.",
			base: daemonSet, change: rolling(`{partition: "200%"}`),
			want: "spec.updateStrategy.rollingUpdate.partition",
		},
		{name: "A burst of 0 is accepted.", base: daemonSet, change: `{spec: {burstReplicas: 0}}`},
		{
			name: "A negative burst is refused.",
			base: daemonSet, change: `{spec: {burstReplicas: -1}}`,
			want: "burstReplicas can't be negative: leave it out for 250",
		},
		{
			name: "Negative minReadySeconds are refused.",
			base: daemonSet, change: `{spec: {minReadySeconds: -1}}`,
			want: "should be greater than or equal to 0",
		},
		{name: "A preDelete hook is accepted.", base: daemonSet, change: `{spec: {lifecycle: {preDelete: {labelsHandler: {a: b}}}}}`},
		{
			name: "An inPlaceUpdate hook is refused.",
			base: daemonSet, change: `{spec: {lifecycle: {inPlaceUpdate: {}}}}`,
			want: "a DaemonSet has no inPlaceUpdate hook: remove it; preDelete holds pods that are recreated",
		},
	}
}

// TestExamplesOfWorkloads applies the example manifests of StatefulSets, DaemonSets, BroadcastJobs and AdvancedCronJobs. Invalid ones that
// are accepted here are rejected by the webhook of the kind.
func TestExamplesOfWorkloads(t *testing.T) {
	t.Parallel()
	api := start(t)
	refused := 0
	for _, kind := range []string{"statefulset", "daemonset", "broadcastjob", "advancedcronjob"} {
		valid, err := filepath.Glob("../../../e2e/examples/" + kind + "*.yaml")
		require.NoError(t, err)
		require.NotEmpty(t, valid)
		invalid, err := filepath.Glob("../../../e2e/examples/invalid/" + kind + "-*.yaml")
		require.NoError(t, err)
		require.NotEmpty(t, invalid)
		for _, file := range append(valid, invalid...) {
			text, err := os.ReadFile(file)
			require.NoError(t, err)
			obj := object(t, string(text))
			first, _, _ := strings.Cut(string(text), "\n")
			want, bad := strings.CutPrefix(first, "# refused: ")
			if strings.HasSuffix(file, "statefulset-reserved-no-range.yaml") {
				want = "should match" // The webhook runs before the schema validation and has the longer message.
			}
			err = api.try(t, obj.GroupVersionKind().Version, celCase{base: string(text)})
			switch {
			case err == nil:
			case bad:
				require.ErrorContains(t, err, want, file)
				refused++
			default:
				require.NoError(t, err, file)
			}
		}
	}
	require.Greater(t, refused, 20)
}

const persistentPodState = `
apiVersion: apps.kruise.io/v1beta1
kind: PersistentPodState
metadata: {name: db}
spec:
  targetRef: {apiVersion: apps/v1, kind: StatefulSet, name: db}
  preferredPersistentTopology: []
`

func persistentPodStateCases() []celCase {
	preferred := func(weight, more string) string {
		// The versions use different names for the keys, which may be empty.
		return `{spec: {preferredPersistentTopology: [{weight: ` + weight + `, preference: {keys: [], nodeTopologyKeys: []}}]` + more + `}}`
	}
	return []celCase{
		{name: "Preferred labels of nodes are accepted.", base: persistentPodState, change: preferred("1", "")},
		{
			name: "A PersistentPodState without labels of nodes is refused.", base: persistentPodState,
			want: "requiredPersistentTopology or preferredPersistentTopology is needed, or no pod is brought back: give the node labels of one of them",
		},
		{
			name: "The target of a PersistentPodState can't be changed.",
			base: persistentPodState, change: preferred("1", ""), then: `{spec: {targetRef: {name: other}}}`,
			want: "targetRef can't be changed: the places belong to its pods. Make another PersistentPodState",
		},
		{
			name: "A negative weight is refused.",
			base: persistentPodState, change: preferred("-1", ""), only: "v1beta1",
			want: "should be greater than or equal to 0",
		},
		{
			name: "An unknown retention policy is refused.",
			base: persistentPodState, change: preferred("1", ", persistentPodStateRetentionPolicy: Never"),
			want: `supported values: "WhenScaled", "WhenDeleted"`,
		},
	}
}

const resourceDistribution = `
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata: {name: x}
spec:
  resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: {a: b}}
  targets: {includedNamespaces: {list: [{name: nowhere}]}}
`

const sourced = `
apiVersion: apps.kruise.io/v1beta1
kind: ResourceDistribution
metadata: {name: x}
spec:
  source: {kind: ConfigMap, namespace: a, name: x}
  targets: {includedNamespaces: {list: [{name: nowhere}]}}
`

func resourceDistributionCases() []celCase {
	const (
		either   = "give either resource, with the content, or source, which names an object that exists"
		switched = "kind and name can't be changed: the copies have them. Make another ResourceDistribution"
		moved    = "kind and name of source can't be changed: the copies have them. Make another ResourceDistribution"
	)
	const (
		fixed = "apiVersion, kind and metadata.name of resource can't be changed: the copies have them. Make another ResourceDistribution"
		one   = "clusters needs exactly one of all, names and selector"
		local = "clusters can't be added or removed: what was distributed would be left behind. Make another ResourceDistribution, and delete this one"
	)
	clusters := func(are string) string { return `{spec: {targets: {clusters: ` + are + `}}}` }
	many := func(n int) string {
		names := make([]string, n)
		for i := range names {
			names[i] = fmt.Sprintf("c%d", i)
		}
		return strings.Join(names, ", ")
	}
	return []celCase{
		{name: "Other data of a resource is accepted.", base: resourceDistribution, then: `{spec: {resource: {data: {a: c}}}}`},
		{
			name: "The kind of a resource can't be changed.", base: resourceDistribution,
			then: `{spec: {resource: {kind: Secret, data: null}}}`, want: fixed,
		},
		{
			name: "The name of a resource can't be changed.", base: resourceDistribution,
			then: `{spec: {resource: {metadata: {name: other}}}}`, want: fixed,
		},
		{name: "A source can be in another namespace.", base: sourced, then: `{spec: {source: {namespace: b}}}`},
		{name: "The name of a source can't be changed.", base: sourced, then: `{spec: {source: {name: other}}}`, want: moved},
		{name: "The kind of a source can't be changed.", base: sourced, then: `{spec: {source: {kind: Secret}}}`, want: moved},
		{name: "A ResourceDistribution without a resource is refused.", base: sourced, change: `{spec: {source: null}}`, want: either},
		{
			name: "A resource and a source are refused.", base: resourceDistribution, want: either,
			change: `{spec: {source: {kind: ConfigMap, namespace: a, name: x}}}`,
		},
		{
			name: "A resource can become a source of its name.", base: resourceDistribution,
			then: `{spec: {resource: null, source: {kind: ConfigMap, namespace: a, name: x}}}`,
		},
		{
			name: "A resource can't become a source of another name.", base: resourceDistribution, want: switched,
			then: `{spec: {resource: null, source: {kind: ConfigMap, namespace: a, name: other}}}`,
		},
		{
			name: "A source can become a resource of its name.", base: sourced,
			then: `{spec: {source: null, resource: {apiVersion: v1, kind: ConfigMap, metadata: {name: x}}}}`,
		},
		{
			name: "A source can't become a resource of another kind.", base: sourced, want: switched,
			then: `{spec: {source: null, resource: {apiVersion: v1, kind: Secret, metadata: {name: x}}}}`,
		},
		{name: "All clusters can be selected.", base: resourceDistribution, change: clusters(`{all: true, excluded: [west]}`)},
		{name: "Clusters can be named.", base: resourceDistribution, change: clusters(`{names: [east, west]}`)},
		{name: "Clusters can be selected by labels.", base: resourceDistribution, change: clusters(`{all: false, selector: {matchLabels: {a: b}}}`)},
		{
			name: "Clusters can be selected by an expression, and by others later.", base: resourceDistribution,
			change: clusters(`{selector: {matchExpressions: [{key: a, operator: Exists}]}}`), then: clusters(`{selector: null, all: true}`),
		},
		{name: "No clusters are refused.", base: resourceDistribution, change: clusters(`{}`), want: one},
		{name: "all: false selects no clusters.", base: resourceDistribution, change: clusters(`{all: false, excluded: [a]}`), want: one},
		{name: "All clusters and names are refused.", base: resourceDistribution, change: clusters(`{all: true, names: [a]}`), want: one},
		{name: "Names and labels are refused.", base: resourceDistribution, change: clusters(`{names: [a], selector: {matchLabels: {a: b}}}`), want: one},
		{
			name: "An empty selector is refused.", base: resourceDistribution, change: clusters(`{selector: {matchLabels: {}}}`),
			want: "an empty selector is ambiguous: use all for every cluster, or give labels",
		},
		{name: "An empty list of names is refused.", base: resourceDistribution, change: clusters(`{names: []}`), want: "should have at least 1 items"},
		{name: "A cluster named twice is refused.", base: resourceDistribution, change: clusters(`{names: [a, a]}`), want: "Duplicate value"},
		{name: "A cluster name of more than 63 letters is refused.", base: resourceDistribution, change: clusters(`{names: [` + strings.Repeat("a", 64) + `]}`), want: "may not be more than 63"},
		{name: "An excluded name of more than 63 letters is refused.", base: resourceDistribution, change: clusters(`{all: true, excluded: [` + strings.Repeat("a", 64) + `]}`), want: "may not be more than 63"},
		{name: "At most 1,000 clusters are named.", base: resourceDistribution, change: clusters(`{names: [` + many(1001) + `]}`), want: "must have at most 1000 items"},
		{name: "At most 1,000 clusters are excluded.", base: resourceDistribution, change: clusters(`{all: true, excluded: [` + many(1001) + `]}`), want: "must have at most 1000 items"},
		{name: "Clusters can't be added.", base: resourceDistribution, change: `{}`, then: clusters(`{all: true}`), want: local},
		{name: "Clusters can't be removed.", base: resourceDistribution, change: clusters(`{all: true}`), then: `{spec: {targets: {clusters: null}}}`, want: local},
		{
			name: "A source is refused with clusters.", base: sourced, change: clusters(`{all: true}`),
			want: "source is read in one cluster: with targets.clusters give resource, with the content",
		},
	}
}

const workloadSpread = `
apiVersion: apps.kruise.io/v1beta1
kind: WorkloadSpread
metadata: {name: web}
spec:
  targetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
  subsets: [{name: a, maxReplicas: 3}, {name: b}]
`

func workloadSpreadCases() []celCase {
	subsets := func(list string) string { return `{spec: {subsets: ` + list + `}}` }
	placed := func(placement string) string {
		return `{spec: {subsets: [{name: a, cluster: east}], placement: ` + placement + `}}`
	}
	return []celCase{
		{
			name: "A WorkloadSpread with a cluster and a selector is accepted.", base: workloadSpread,
			change: subsets(`[{name: a, cluster: east, maxReplicas: 3}, {name: b, clusterSelector: {}}]`),
		},
		{
			name: "A cluster and a selector in one subset of a WorkloadSpread are refused.", base: workloadSpread,
			change: subsets(`[{name: a, cluster: east, clusterSelector: {}}]`), want: "a subset has either cluster or clusterSelector: remove one of them",
		},
		{
			name: "Subsets of a WorkloadSpread with and without a cluster are refused.", base: workloadSpread,
			change: subsets(`[{name: a, cluster: east}, {name: b}]`),
			want:   "either every subset names a cluster or none does: give each subset cluster or clusterSelector, or take them off all",
		},
		{
			name: "Placement of a WorkloadSpread is accepted.", base: workloadSpread,
			change: placed(`{tolerations: [{operator: Exists}], reallocation: {maxSurge: 1}}`),
		},
		{
			name: "Placement of a WorkloadSpread without clusters is refused.", base: workloadSpread, change: `{spec: {placement: {tolerations: [{operator: Exists}]}}}`,
			want: "placement is about clusters: give each subset cluster or clusterSelector, or remove placement",
		},
		{
			name: "A surge of 0 alone is refused in a WorkloadSpread.", base: workloadSpread, change: placed(`{reallocation: {maxSurge: 0}}`),
			want: "with maxSurge 0 and maxUnavailable 0 no replica can move: raise one of them",
		},
		{name: "A WorkloadSpread is accepted.", base: workloadSpread, change: `{spec: {overflowPolicy: Refuse, scheduleStrategy: {type: Adaptive}}}`},
		{
			name: "The target of a WorkloadSpread can't be changed.", base: workloadSpread, change: `{spec: {}}`, then: `{spec: {targetRef: {name: other}}}`,
			want: "targetRef can't be changed: pods are counted by it. Make another WorkloadSpread",
		},
		{
			name: "An unknown strategy is refused.", base: workloadSpread, change: `{spec: {scheduleStrategy: {type: Random}}}`,
			want: `supported values: "Adaptive", "Fixed"`,
		},
		{
			name: "An unknown overflow policy is refused.", base: workloadSpread, change: `{spec: {overflowPolicy: Wait}}`,
			want: `supported values: "Create", "Refuse"`,
		},
	}
}
