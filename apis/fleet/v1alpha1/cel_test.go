//go:build integration

package v1alpha1_test

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/testtimeout"
)

// Objects that are accepted.
const (
	pull       = `{apiVersion: fleet.kruise.io/v1alpha1, kind: MemberCluster, metadata: {name: east}, spec: {}}`
	push       = `{apiVersion: fleet.kruise.io/v1alpha1, kind: MemberCluster, metadata: {name: west}, spec: {mode: Push, push: {kubeconfigSecretRef: {namespace: a, name: b}}}}`
	membership = `{apiVersion: fleet.kruise.io/v1alpha1, kind: Membership, metadata: {name: default}, spec: {hub: {uid: u, cluster: east}}}`
	row        = `{apiVersion: fleet.kruise.io/v1alpha1, kind: MemberWork, metadata: {name: r, namespace: default}, spec: {source: {apiVersion: v1, kind: ConfigMap, name: c, uid: u}, content: {ref: c}}}`
	prop       = `{apiVersion: fleet.kruise.io/v1alpha1, kind: Propagation, metadata: {name: p, namespace: default}, spec: {selectors: [{apiVersion: v1, kind: ConfigMap, name: c}], clusters: {all: true}}}`
	clusterP   = `{apiVersion: fleet.kruise.io/v1alpha1, kind: ClusterPropagation, metadata: {name: p}, spec: {selectors: [{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, name: c}], clusters: {names: [east]}}}`
	approval   = `{apiVersion: fleet.kruise.io/v1alpha1, kind: RolloutApproval, metadata: {name: a, namespace: default}, spec: {target: {kind: UnitedDeployment, name: web}, revision: web-7d9c8b6f5, wave: eu}}`
	content    = `{apiVersion: fleet.kruise.io/v1alpha1, kind: WorkContent, metadata: {name: c, namespace: default}, manifest: "{}"}`
)

func TestRules(t *testing.T) {
	t.Parallel()
	client := start(t)
	said := map[string]bool{}
	for _, tt := range []struct {
		name   string
		base   string
		change string // a merge patch for base
		update string // a merge patch for the created object, sent as an update
		want   string // expected in the error; empty if accepted
	}{
		{name: "a pull member needs nothing", base: pull},
		{name: "a pull member may choose the lifetime of its certificate", base: pull, change: `{spec: {pull: {certTTLSeconds: 3600}}}`},
		{name: "a push member names a Secret", base: push},
		{name: "a push member without a Secret", base: push, change: `{spec: {push: null}}`, want: "mode Push needs push.kubeconfigSecretRef"},
		{name: "a push member names a Cluster", base: push, change: `{spec: {push: {kubeconfigSecretRef: null, capiClusterRef: {namespace: a, name: b}}}}`},
		{name: "a push member names both", base: push, change: `{spec: {push: {capiClusterRef: {namespace: a, name: b}}}}`, want: "push needs exactly one of kubeconfigSecretRef and capiClusterRef"},
		{name: "a push member without a Secret or Cluster", base: push, change: `{spec: {push: {kubeconfigSecretRef: null}}}`, want: "push needs exactly one of kubeconfigSecretRef and capiClusterRef"},
		{name: "a push member with an empty Cluster reference", base: push, change: `{spec: {push: {kubeconfigSecretRef: null, capiClusterRef: {namespace: a, name: ""}}}}`, want: "capiClusterRef.name"},
		{name: "a pull member with a Secret", base: push, change: `{spec: {mode: Pull}}`, want: "push is for mode Push only"},
		{name: "a push member with the lifetime of a certificate", base: push, change: `{spec: {pull: {}}}`, want: "pull is for mode Pull only"},
		{name: "a lifetime that Kubernetes does not sign", base: pull, change: `{spec: {pull: {certTTLSeconds: 599}}}`, want: "should be greater than or equal to 600"},
		{name: "failAfter above the lease duration", base: pull, change: `{spec: {heartbeat: {leaseSeconds: 1, failAfterSeconds: 2}}}`},
		{name: "failAfter that each late renewal would exceed", base: pull, change: `{spec: {heartbeat: {leaseSeconds: 30, failAfterSeconds: 30}}}`, want: "failAfterSeconds must be greater than leaseSeconds"},
		{name: "a taint", base: pull, change: `{spec: {taints: [{key: example.com/gpu, value: a100, effect: NoPlace}, {key: example.com/gpu, effect: Evict}]}}`},
		{name: "a taint with an effect for nodes", base: pull, change: `{spec: {taints: [{key: gpu, effect: NoSchedule}]}}`, want: "Unsupported value"},
		{name: "a taint with an invalid key", base: pull, change: `{spec: {taints: [{key: "a b", effect: Evict}]}}`, want: "spec.taints[0].key"},
		{name: "a taint twice", base: pull, change: `{spec: {taints: [{key: gpu, effect: Evict}, {key: gpu, value: a, effect: Evict}]}}`, want: "Duplicate value"},
		{name: "an unknown mode", base: pull, change: `{spec: {mode: Carry}}`, want: "Unsupported value"},
		{name: "an unknown leave policy", base: pull, change: `{spec: {leave: {policy: Keep}}}`, want: "Unsupported value"},
		{name: "a name of 40 characters", base: pull, change: `{metadata: {name: ` + strings.Repeat("a", 40) + `}}`},
		{name: "a name of 41 characters", base: pull, change: `{metadata: {name: ` + strings.Repeat("a", 41) + `}}`, want: "at most 40 characters"},
		{name: "a name with a dot", base: pull, change: `{metadata: {name: east.example}}`, want: "the name of a member cluster is a DNS label"},
		{name: "the hub's own name", base: pull, change: `{metadata: {name: system}}`, want: "the name system is taken"},
		{name: "the name of the hub's own cluster", base: pull, change: `{metadata: {name: local}}`, want: "the name local is reserved"},
		{name: "the binding", base: membership},
		{name: "a Membership without a hub", base: membership, change: `{spec: {hub: null}}`},
		{name: "a hub without a UID", base: membership, change: `{spec: {hub: {uid: ""}}}`, want: "spec.hub.uid"},
		{name: "a second binding", base: membership, change: `{metadata: {name: other}}`, want: "there is one Membership in a cluster, named default"},
		{name: "a row by reference", base: row},
		{name: "a row without content", base: row, change: `{spec: {content: {ref: null}}}`, want: "spec.content.ref"},
		{name: "a row with its manifest inline", base: row, change: `{metadata: {name: inline}, spec: {content: {ref: inline, inline: "{}"}}}`},
		{name: "a row with its manifest inline and by reference", base: row, change: `{spec: {content: {inline: "{}"}}}`, want: "ref is inline in a row that has its manifest inline"},
		{name: "a row inline without its manifest", base: row, change: `{spec: {content: {ref: inline}}}`, want: "ref is inline in a row that has its manifest inline"},
		{name: "a row with apply options", base: row, change: `{spec: {content: {ref: apply.c}, apply: {adoption: OwnFields, ignore: [spec.replicas, "data[a.b]", "metadata.labels[a.b/c]", metadata.annotations.x]}}}`},
		{name: "a row that is suspended", base: row, change: `{spec: {content: {ref: apply.c}, suspend: true}}`},
		{name: "a row that is not suspended", base: row, change: `{spec: {suspend: false}}`},
		{name: "both inline", base: row, change: `{spec: {content: {ref: apply.inline, inline: "{}"}, suspend: true, apply: {}}}`},
		{name: "a row with apply that an older agent would apply", base: row, change: `{spec: {apply: {}}}`, want: "content.ref begins with apply. in a row that has apply or suspend"},
		{name: "a suspended row that an older agent would apply", base: row, change: `{spec: {suspend: true}}`, want: "content.ref begins with apply."},
		{name: "a row that no older agent would apply, for no reason", base: row, change: `{spec: {content: {ref: apply.c}}}`, want: "content.ref begins with apply."},
		{name: "an unknown adoption", base: row, change: `{spec: {content: {ref: apply.c}, apply: {adoption: Always}}}`, want: "Unsupported value"},
		{name: "the name, ignored", base: row, change: `{spec: {content: {ref: apply.c}, apply: {ignore: [metadata.name]}}}`, want: "spec.apply.ignore[0]"},
		{name: "all labels, ignored", base: row, change: `{spec: {content: {ref: apply.c}, apply: {ignore: [metadata.labels]}}}`, want: "spec.apply.ignore[0]"},
		{name: "the whole spec, ignored", base: row, change: `{spec: {content: {ref: apply.c}, apply: {ignore: [spec]}}}`, want: "spec.apply.ignore[0]"},
		{name: "an item of a list, ignored", base: row, change: `{spec: {content: {ref: apply.c}, apply: {ignore: ["spec.containers[name=a]"]}}}`, want: "spec.apply.ignore[0]"},
		{name: "a path twice", base: row, change: `{spec: {content: {ref: apply.c}, apply: {ignore: [spec.a, spec.a]}}}`, want: "Duplicate value"},
		{name: "allowed kinds", base: pull, change: `{spec: {limits: {allowedKinds: [{kind: ConfigMap}, {group: apps, kind: Deployment}]}}}`},
		{name: "a kind twice", base: pull, change: `{spec: {limits: {allowedKinds: [{kind: ConfigMap}, {group: "", kind: ConfigMap}]}}}`, want: "Duplicate value"},
		{name: "a resource for a kind", base: pull, change: `{spec: {limits: {allowedKinds: [{group: apps, kind: deployments}]}}}`, want: "spec.limits.allowedKinds[0].kind"},
		{name: "all kinds by a wildcard", base: pull, change: `{spec: {limits: {allowedKinds: [{group: "*", kind: Deployment}]}}}`, want: "spec.limits.allowedKinds[0].group"},
		{name: "a content gets a label", base: content, change: `{metadata: {name: labelled}}`, update: `{metadata: {labels: {a: b}}}`},
		{name: "a content that changes", base: content, change: `{metadata: {name: changed}}`, update: `{manifest: "{\"a\":1}"}`, want: "a WorkContent never changes"},
		{name: "one object for all clusters", base: prop},
		{name: "one cluster-scoped object", base: clusterP},
		{name: "objects by labels, in clusters by labels", base: prop, change: `{spec: {selectors: [{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {a: b}}}], clusters: {all: null, selector: {matchExpressions: [{key: a, operator: Exists}]}, excluded: [west]}}}`},
		{name: "a Propagation without selectors", base: prop, change: `{spec: {selectors: []}}`, want: "spec.selectors"},
		{name: "a selector of a name and labels", base: prop, change: `{spec: {selectors: [{apiVersion: v1, kind: ConfigMap, name: c, labelSelector: {matchLabels: {a: b}}}]}}`, want: "a selector needs exactly one of name and labelSelector"},
		{name: "a selector of neither a name nor labels", base: clusterP, change: `{spec: {selectors: [{apiVersion: v1, kind: ConfigMap}]}}`, want: "a selector needs exactly one of name and labelSelector"},
		{name: "a selector of every object", base: prop, change: `{spec: {selectors: [{apiVersion: v1, kind: ConfigMap, labelSelector: {matchLabels: {}}}]}}`, want: "an empty selector would select every object of the kind: give labels, or a name"},
		{name: "a selector without a kind", base: prop, change: `{spec: {selectors: [{apiVersion: v1, kind: "", name: c}]}}`, want: "spec.selectors[0].kind"},
		{name: "no clusters", base: prop, change: `{spec: {clusters: {all: null}}}`, want: "clusters needs exactly one of all, names and selector"},
		{name: "clusters in two ways", base: prop, change: `{spec: {clusters: {names: [east]}}}`, want: "clusters needs exactly one of all, names and selector"},
		{name: "all: false", base: clusterP, change: `{spec: {clusters: {all: false}}}`},
		{name: "clusters by no labels", base: prop, change: `{spec: {clusters: {all: null, selector: {}}}}`, want: "an empty selector is ambiguous: use all for every cluster, or give labels"},
		{name: "a cluster twice", base: clusterP, change: `{spec: {clusters: {names: [east, east]}}}`, want: "Duplicate value"},
		{name: "overrides", base: prop, change: `{spec: {overrides: [{clusters: [east], kind: ConfigMap, name: c, patches: [{op: add, path: /data/a~1b, value: {c: [1, true]}}, {op: remove, path: /data/c}]}, {clusterSelector: {matchLabels: {a: b}}, patches: [{op: replace, path: /data/d, value: e}]}]}}`},
		{name: "an override for every cluster", base: prop, change: `{spec: {overrides: [{patches: [{op: remove, path: /data/c}]}]}}`, want: "an override needs exactly one of clusters and clusterSelector"},
		{name: "an override of clusters in two ways", base: prop, change: `{spec: {overrides: [{clusters: [east], clusterSelector: {matchLabels: {a: b}}, patches: [{op: remove, path: /data/c}]}]}}`, want: "an override needs exactly one of clusters and clusterSelector"},
		{name: "an override of clusters by no labels", base: prop, change: `{spec: {overrides: [{clusterSelector: {}, patches: [{op: remove, path: /data/c}]}]}}`, want: "an empty selector would match every cluster: change the object itself, or give labels"},
		{name: "an override without patches", base: prop, change: `{spec: {overrides: [{clusters: [east], patches: []}]}}`, want: "spec.overrides[0].patches"},
		{name: "an unknown operation", base: prop, change: `{spec: {overrides: [{clusters: [east], patches: [{op: move, path: /data/c}]}]}}`, want: "Unsupported value"},
		{name: "an invalid JSON pointer", base: prop, change: `{spec: {overrides: [{clusters: [east], patches: [{op: remove, path: data.c}]}]}}`, want: "spec.overrides[0].patches[0].path"},
		{name: "the whole object", base: prop, change: `{spec: {overrides: [{clusters: [east], patches: [{op: replace, path: "", value: {}}]}]}}`, want: "spec.overrides[0].patches[0].path"},
		{name: "all clusters are suspended", base: prop, change: `{spec: {suspend: {all: true}}}`},
		{name: "all and some are suspended", base: prop, change: `{spec: {suspend: {all: true, clusters: [east]}}}`, want: "give either all or clusters"},
		{name: "a toleration with Exists and a value", base: prop, change: `{spec: {tolerations: [{key: gpu, operator: Exists, value: a}]}}`, want: "operator Exists tolerates every value: remove value, or set operator: Equal"},
		{name: "a toleration without a key", base: prop, change: `{spec: {tolerations: [{value: a}]}}`, want: "a toleration without key tolerates every taint: set operator: Exists, or name a key"},
		{name: "tolerationSeconds for a taint that does not evict", base: clusterP, change: `{spec: {tolerations: [{key: gpu, effect: NoPlace, tolerationSeconds: 9}]}}`, want: "tolerationSeconds is how long replicas stay in spite of a taint that evicts"},
		{name: "dependencies", base: prop, change: `{spec: {dependencies: Auto}}`},
		{name: "dependencies alone", base: prop, change: `{spec: {dependencies: Only}}`},
		{name: "dependencies alone without a namespace", base: clusterP, change: `{spec: {dependencies: Only}}`, want: "only a Propagation has dependencies"},
		{name: "dependencies: Off", base: clusterP, change: `{spec: {dependencies: "Off"}}`},
		{name: "dependencies without a namespace", base: clusterP, change: `{spec: {dependencies: Auto}}`, want: "only a Propagation has dependencies, in its namespace: select here what is in none, such as a SidecarSet"},
		{name: "replicas by weights", base: prop, change: `{spec: {replicas: {division: Weighted, shares: [{clusters: [east], weight: 2}, {clusterSelector: {matchLabels: {a: b}}, maxReplicas: 3}]}}}`},
		{name: "replicas by equal weights", base: prop, change: `{spec: {replicas: {division: Weighted}}}`},
		{name: "replicas in an order", base: prop, change: `{spec: {replicas: {division: Ordered, shares: [{clusters: [east], maxReplicas: 2}, {clusters: [west]}]}}}`},
		{name: "replicas in each cluster", base: prop, change: `{spec: {replicas: {division: Duplicated}}}`},
		{name: "an unknown division", base: prop, change: `{spec: {replicas: {division: Aggregated}}}`, want: "Unsupported value"},
		{name: "an order without clusters", base: prop, change: `{spec: {replicas: {division: Ordered}}}`, want: "division Ordered needs shares: they are its order"},
		{name: "shares of replicas that each cluster runs", base: prop, change: `{spec: {replicas: {division: Duplicated, shares: [{clusters: [east]}]}}}`, want: "with division Duplicated each cluster runs all replicas: remove shares, or choose Weighted or Ordered"},
		{name: "weights in an order", base: prop, change: `{spec: {replicas: {division: Ordered, shares: [{clusters: [east], weight: 2}]}}}`, want: "only division Weighted has weights: remove weight, or choose Weighted"},
		{name: "a share of no clusters", base: prop, change: `{spec: {replicas: {division: Weighted, shares: [{weight: 2}]}}}`, want: "a share needs exactly one of clusters and clusterSelector"},
		{name: "a share of clusters by no labels", base: prop, change: `{spec: {replicas: {division: Weighted, shares: [{clusterSelector: {}}]}}}`, want: "an empty selector is ambiguous: give labels, or clusters by name"},
		{name: "a negative weight", base: prop, change: `{spec: {replicas: {division: Weighted, shares: [{clusters: [east], weight: -1}]}}}`, want: "should be greater than or equal to 0"},
		{name: "replicas of cluster-scoped objects", base: clusterP, change: `{spec: {replicas: {division: Weighted}}}`, want: "only a Propagation divides replicas: workloads are in namespaces"},
		{name: "an approval", base: approval},
		{name: "an approval that is stamped", base: approval, change: `{spec: {user: "system:serviceaccount:ci:deployer", target: {uid: 1b4e28ba-2fa1-11d2-883f-0016d3cca427}}}`},
		{name: "an approval of the last wave", base: approval, change: `{spec: {wave: rest}}`, want: "rest is the last wave: no wave waits for its gates, so name an earlier one"},
		{name: "an approval of no wave", base: approval, change: `{spec: {wave: null}}`, want: "spec.wave: Required value"},
		{name: "an approval of a wave with an invalid name", base: approval, change: `{spec: {wave: EU}}`, want: "spec.wave: Invalid value"},
		{name: "an approval of no revision", base: approval, change: `{spec: {revision: ""}}`, want: "spec.revision: Invalid value"},
		{name: "an approval of another kind", base: approval, change: `{spec: {target: {kind: CloneSet}}}`, want: `spec.target.kind: Unsupported value: "CloneSet"`},
		{name: "an approval of no object", base: approval, change: `{spec: {target: {name: ""}}}`, want: "spec.target.name: Invalid value"},
		{name: "an approval gets a label", base: approval, change: `{metadata: {name: labelled}}`, update: `{metadata: {labels: {a: b}}}`},
		{name: "an approval for another wave", base: approval, change: `{metadata: {name: moved}}`, update: `{spec: {wave: us}}`, want: "an approval never changes: create another one, and delete this one to take it back"},
		{name: "an approval of another user", base: approval, change: `{metadata: {name: forged}}`, update: `{spec: {user: bob}}`, want: "an approval never changes"},
		{name: "an approval of another object", base: approval, change: `{metadata: {name: other}}`, update: `{spec: {target: {uid: b}}}`, want: "an approval never changes"},
		{name: "an unknown deletion policy", base: clusterP, change: `{spec: {deletionPolicy: Keep}}`, want: "Unsupported value"},
		{name: "adoption with an ignored field", base: prop, change: `{spec: {deletionPolicy: Orphan, apply: {adoption: Full, ignore: [data.a]}, tolerations: [{operator: Exists}]}}`},
	} {
		said[tt.want] = true
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			err := client.try(t, tt.base, tt.change, tt.update)
			if tt.want == "" {
				require.NoError(t, err)
				return
			}
			require.ErrorContains(t, err, tt.want)
		})
	}
	for _, message := range messages(t) {
		covered := slices.ContainsFunc(slices.Collect(maps.Keys(said)), func(want string) bool {
			return want != "" && strings.Contains(message, want)
		})
		require.True(t, covered, "no case is refused with: %s", message)
	}
}

// TestMain lets the tests of the package share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

type api struct{ dynamic.Interface }

func start(t *testing.T) api {
	t.Helper()
	client, err := dynamic.NewForConfig(testenv.Start(t, testenv.Config{}).REST())
	require.NoError(t, err)
	a := api{client}
	for _, base := range []string{pull, membership, row, content, prop, clusterP, approval} {
		require.Eventually(t, func() bool { return a.try(t, base, "", "") == nil }, testtimeout.Scale(time.Minute), 50*time.Millisecond)
	}
	return a
}

// try creates base with change applied, then updates it. Everything except what an update needs is a dry run.
func (a api) try(t *testing.T, base, change, update string) error {
	t.Helper()
	o := merged(t, base, change)
	gvk := o.GroupVersionKind()
	resource := a.Resource(schema.GroupVersionResource{Group: gvk.Group, Version: gvk.Version, Resource: strings.ToLower(gvk.Kind) + "s"}).Namespace(o.GetNamespace())
	if update == "" {
		_, err := resource.Create(t.Context(), o, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err
	}
	made, err := resource.Create(t.Context(), o, metav1.CreateOptions{})
	require.NoError(t, err)
	raw, err := made.MarshalJSON()
	require.NoError(t, err)
	_, err = resource.Update(t.Context(), merged(t, string(raw), update), metav1.UpdateOptions{})
	require.NoError(t, resource.Delete(t.Context(), o.GetName(), metav1.DeleteOptions{}))
	return err
}

func merged(t *testing.T, base, change string) *unstructured.Unstructured {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(base))
	require.NoError(t, err)
	if change != "" {
		patch, err := yaml.YAMLToJSON([]byte(change))
		require.NoError(t, err)
		raw, err = jsonpatch.MergePatch(raw, patch)
		require.NoError(t, err)
	}
	o := &unstructured.Unstructured{}
	require.NoError(t, o.UnmarshalJSON(raw))
	return o
}

// messages returns the messages of all CEL rules of this group.
func messages(t *testing.T) []string {
	t.Helper()
	sources, err := filepath.Glob("*_types.go")
	require.NoError(t, err)
	rule := regexp.MustCompile(`XValidation:.*message="([^"]+)"`)
	var out []string
	for _, file := range sources {
		raw, err := os.ReadFile(file)
		require.NoError(t, err)
		for _, m := range rule.FindAllStringSubmatch(string(raw), -1) {
			out = append(out, m[1])
		}
	}
	require.NotEmpty(t, out)
	return out
}
