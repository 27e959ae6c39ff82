package propagation

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

// share returns the share of a cluster, written as "east", "east*2" with a weight, or "east<4" with a maximum.
func share(text string) fleetv1alpha1.PropagationShare {
	s := fleetv1alpha1.PropagationShare{}
	for _, mark := range []string{"<", "*"} {
		name, number, has := strings.Cut(text, mark)
		if !has {
			continue
		}
		var n int32
		if _, err := fmt.Sscan(number, &n); err != nil {
			panic(err)
		}
		if text = name; mark == "*" {
			s.Weight = &n
		} else {
			s.MaxReplicas = &n
		}
	}
	s.Clusters = []string{text}
	return s
}

func dividedBy(how fleetv1alpha1.ReplicaDivision, shares ...string) *fleetv1alpha1.PropagationReplicas {
	out := &fleetv1alpha1.PropagationReplicas{Division: how}
	for _, s := range shares {
		out.Shares = append(out.Shares, share(s))
	}
	return out
}

func deploymentRow() string {
	return fleetv1alpha1.ObjectRowName(fleetv1alpha1.WorkObject{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, shop)
}

// dividing returns a hub with a Deployment that has n replicas, which are divided.
func dividing(t *testing.T, n int32, how *fleetv1alpha1.PropagationReplicas, clusters ...string) *world {
	t.Helper()
	w := newWorld(t, clusters...)
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &n}}
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(d)
	require.NoError(t, err)
	fields["apiVersion"], fields["kind"] = "apps/v1", "Deployment"
	w.objects = []object{{
		WorkObject: fleetv1alpha1.WorkObject{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, row: deploymentRow(),
		live: &unstructured.Unstructured{Object: fields},
	}}
	w.spec.Replicas, w.ungranted = how, map[string]int32{}
	w.current = func(row.Want, *fleetv1alpha1.MemberWork) bool { return true }
	return w
}

// runsGranted gives the Deployment a row in a cluster. The cluster has acknowledged it and has that many available replicas.
func (w *world) runsGranted(cluster string, granted, available int32) *fleetv1alpha1.MemberWork {
	r := w.runsUngranted(cluster, granted, available)
	r.Spec.Grant = fleetv1alpha1.WorkGrant{Replicas: granted, Subsets: []fleetv1alpha1.SubsetGrant{
		{Name: grantName, Replicas: granted, Lower: granted, Upper: granted},
	}}
	delete(w.ungranted, row.Place(r))
	return r
}

// runsUngranted gives the Deployment a row from before replicas were divided.
func (w *world) runsUngranted(cluster string, replicas, available int32) *fleetv1alpha1.MemberWork {
	r := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fleetv1alpha1.Namespace(cluster), Name: deploymentRow(), UID: types.UID(cluster), Generation: 1,
			Labels: map[string]string{keys.FleetCluster: cluster},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Source: fleetv1alpha1.WorkSource{Kind: sourceKind, Namespace: shop, Name: "web", UID: "web"},
			Object: &fleetv1alpha1.WorkObject{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
		},
		Status: fleetv1alpha1.MemberWorkStatus{
			ObservedGeneration: 1, Phase: fleetv1alpha1.WorkHealthy,
			Counts: fleetv1alpha1.WorkCounts{Desired: replicas, Replicas: replicas, Available: available},
		},
	}
	w.Rows[row.Place(r)] = r
	w.ungranted[row.Place(r)] = replicas
	return r
}

// formatGrantsOf describes the rows that are written and withdrawn, and the problems. "east=4" is a grant. "east=4..2" is a grant whose
// cluster may run two until it has acknowledged it.
func formatGrantsOf(p planned) string {
	var parts []string
	for _, want := range p.Wants {
		if len(want.Grant.Subsets) == 0 {
			parts = append(parts, "+"+want.Object.Name+"@"+want.Cluster)
			continue
		}
		g := want.Grant.Subsets[0]
		text := fmt.Sprintf("%s=%d", want.Cluster, g.Replicas)
		if other := g.Lower + g.Upper - g.Replicas; other != g.Replicas {
			text += fmt.Sprintf("(%d)", other)
		}
		parts = append(parts, text)
	}
	slices.Sort(parts)
	for _, w := range p.Withdrawals {
		parts = append(parts, fmt.Sprintf("-%s@%s", w.Row.Spec.Object.Name, w.Row.Labels[keys.FleetCluster]))
	}
	if problems := formatProblems(p.problems); problems != "" {
		parts = append(parts, problems)
	}
	return strings.Join(parts, " ")
}

func TestWhichClusterIsGrantedHowManyReplicas(t *testing.T) {
	t.Parallel()
	weighted, ordered := fleetv1alpha1.DivisionWeighted, fleetv1alpha1.DivisionOrdered
	twoToOne := dividedBy(weighted, "east*2", "west*1")
	evict := func(w *world) {
		w.Clusters["west"].Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: fleetv1alpha1.Evict}}
	}
	dark := func(w *world, name string) { w.Clusters[name].Status.Conditions[0].Status = metav1.ConditionFalse }
	for _, tt := range []struct {
		name   string
		n      int32
		how    *fleetv1alpha1.PropagationReplicas
		change func(w *world)
		want   string
	}{
		{"Replicas are divided by weights.", 6, twoToOne, nil, "east=4(0) west=2(0)"},
		{"Without shares they are divided evenly.", 6, dividedBy(weighted), nil, "east=3(0) west=3(0)"},
		{"A cluster in no share gets the object with 0 replicas.", 6, dividedBy(weighted, "east"), nil, "east=6(0) west=0"},
		{"A cluster with weight 0 gets the object with 0 replicas.", 6, dividedBy(weighted, "east", "west*0"), nil, "east=6(0) west=0"},
		{"The first share that matches a cluster counts.", 6, dividedBy(weighted, "east*1", "west*1", "east*5"), nil, "east=3(0) west=3(0)"},
		{"A share selects clusters by labels.", 6, &fleetv1alpha1.PropagationReplicas{Division: weighted, Shares: []fleetv1alpha1.PropagationShare{
			{ClusterSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}},
		}}, nil, "east=3(0) west=3(0)"},
		{"Replicas beyond the maximum of a cluster go to the others.", 6, dividedBy(weighted, "east*2<3", "west*1"), nil, "east=3(0) west=3(0)"},
		{"The limit of a cluster is a maximum too.", 6, twoToOne, func(w *world) {
			w.Clusters["east"].Spec.Limits = &fleetv1alpha1.ClusterLimits{MaxReplicasPerObject: new(int32(1))}
		}, "east=1(0) west=5(0)"},
		{"Clusters are filled in the order of shares.", 6, dividedBy(ordered, "west<4", "east"), nil, "east=2(0) west=4(0)"},
		{"A later cluster gets no replicas while earlier ones have room.", 3, dividedBy(ordered, "west<4", "east"), nil, "east=0 west=3(0)"},
		{"Replicas that no cluster may take are a problem.", 6, dividedBy(ordered, "west<4", "east<1"), nil, "east=1(0) west=4(0) /Deployment/web:Unallocated"},
		{"Nothing moves once all have what they should.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
		}, "east=4 west=2"},
		{"A scale-out reaches both clusters at once.", 12, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
		}, "east=8(4) west=4(2)"},
		{"A scale-in reaches both clusters at once.", 3, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
		}, "east=2(4) west=1(2)"},
		{"When weights change, replicas are added before others are removed.", 6, dividedBy(weighted, "east*1", "west*2"), func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
		}, "east=4 west=4(2)"},
		{"Replicas are removed when others are available.", 6, dividedBy(weighted, "east*1", "west*2"), func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 4, 4)
		}, "east=2(4) west=4"},
		{"Until a cluster has acknowledged its grant, the previous one counts.", 6, dividedBy(weighted, "east*1", "west*2"), func(w *world) {
			w.runsGranted("east", 4, 4)
			g := &w.runsGranted("west", 4, 2).Spec.Grant.Subsets[0]
			g.Lower, w.Rows["west/"+deploymentRow()].Generation = 2, 2
		}, "east=4 west=4(2)"},
		{"Rows from before the division have no grant and run all replicas.", 6, twoToOne, func(w *world) {
			w.runsUngranted("east", 6, 6)
			w.runsUngranted("west", 6, 6)
		}, "east=4(6) west=2(6)"},
		{"Such rows keep the replicas that others lack.", 6, twoToOne, func(w *world) {
			w.runsUngranted("east", 6, 6)
			w.runsUngranted("west", 6, 0)
		}, "east=6 west=2(6)"},

		{"A cluster that does not answer keeps its grant.", 12, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			dark(w, "east")
		}, "east=4 west=8(2) east//:ClusterUnreachable"},
		{"A suspended cluster keeps its grant.", 12, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			w.spec.Suspend = &fleetv1alpha1.PropagationSuspend{Clusters: []string{"east"}}
		}, "east=4 west=8(2)"},
		{"I13: a cluster whose MemberCluster is missing keeps its grant and its row.", 12, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			delete(w.Clusters, "west")
		}, "east=10(4)"},
		{"A new cluster gets its share from the others.", 6, dividedBy(weighted, "east", "west", "north"), func(w *world) {
			w.runsGranted("east", 3, 3)
			w.runsGranted("west", 3, 3)
			w.Clusters["north"] = member("north")
		}, "east=3 north=2(0) west=3"},
		{"A new cluster with a taint gets no replicas.", 6, dividedBy(weighted), func(w *world) {
			w.Clusters["west"].Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: fleetv1alpha1.NoPlace}}
		}, "east=6(0)"},
		{"With NoPlace, a cluster keeps what it has.", 12, dividedBy(weighted), func(w *world) {
			w.runsGranted("east", 3, 3)
			w.runsGranted("west", 3, 3)
			w.Clusters["west"].Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: fleetv1alpha1.NoPlace}}
		}, "east=9(3) west=3"},
		{"Evict moves the replicas first.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			evict(w)
		}, "east=6(4) west=2 west//:ClusterTainted"},
		{"After that, Evict empties the cluster.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 6, 6)
			w.runsGranted("west", 2, 2)
			evict(w)
		}, "east=6 west=0(2) west//:ClusterTainted"},
		{"An evicted cluster that is empty loses the row.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 6, 6)
			w.runsGranted("west", 0, 0)
			evict(w)
		}, "east=6 -web@west west//:ClusterTainted"},
		{"A cluster that is no longer selected is emptied in the same way.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			w.Clusters["west"].Labels = nil
		}, "east=6(4) west=2"},
		{"It keeps its row until it has acknowledged a grant of 0.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 6, 6)
			r := w.runsGranted("west", 0, 0)
			r.Generation, r.Spec.Grant.Subsets[0].Upper = 2, 2
			w.Clusters["west"].Labels = nil
		}, "east=6 west=0(2)"},
		{"It keeps its row while it reports pods.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 6, 6)
			w.runsGranted("west", 0, 0).Status.Counts.Replicas = 1
			w.Clusters["west"].Labels = nil
		}, "east=6 west=0"},
		{"A cluster that has never applied its row loses it.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 6, 6)
			r := w.runsGranted("west", 0, 0)
			r.Generation, r.Status.Phase = 2, fleetv1alpha1.WorkBlocked
			w.Clusters["west"].Labels = nil
		}, "east=6 -web@west"},
		{"While it does not answer, it keeps its replicas, and others don't get them.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			w.Clusters["west"].Labels = nil
			dark(w, "west")
		}, "east=4"},
		{"If no cluster is left, none is emptied.", 6, twoToOne, func(w *world) {
			w.runsGranted("west", 2, 2)
			w.Clusters["west"].Labels, w.Clusters["east"].Labels = nil, nil
		}, "west=2 /Deployment/web:Unallocated //:NoCluster"},
		{"A row that is being deleted counts until it is gone.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2).DeletionTimestamp = new(metav1.Unix(1, 0))
		}, "east=4 -web@west"},
		{"Objects that pods may need stay in a cluster until its replicas have moved.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			w.objects = append(w.objects, objectOf(t, configMap("a", "blue")))
			w.row("east", "a")
			w.row("west", "a")
			w.Clusters["west"].Labels = nil
		}, "+a@east east=6(4) west=2"},
		{"Objects that pods needed are withdrawn once its replicas have moved.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 6, 6)
			w.objects = append(w.objects, objectOf(t, configMap("a", "blue")))
			w.row("east", "a")
			w.row("west", "a")
			w.Clusters["west"].Labels = nil
		}, "+a@east east=6 -a@west"},
		{"An object that is being deleted keeps its rows and grants.", 12, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.runsGranted("west", 2, 2)
			w.objects[0].live.SetDeletionTimestamp(new(metav1.Unix(1, 0)))
			w.Clusters["west"].Labels = nil
		}, "/Deployment/web:Deleting"},
		{"A cluster where another source places the object has no share.", 6, twoToOne, func(w *world) {
			w.heldBy["west/"+deploymentRow()] = "Propagation other"
		}, "east=6(0) west/Deployment/web:Conflict"},
		{"An override that fails changes nothing there.", 6, twoToOne, func(w *world) {
			w.runsGranted("east", 4, 4)
			w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"east"}, Patches: []fleetv1alpha1.PropagationPatch{
				{Op: fleetv1alpha1.PatchRemove, Path: "/spec/none"},
			}}}
		}, "west=2(0) east/Deployment/web:OverrideFailed"},
		{"With Duplicated, each cluster runs all replicas.", 6, dividedBy(fleetv1alpha1.DivisionDuplicated), func(w *world) { w.runsGranted("east", 4, 4) }, "+web@east +web@west"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := dividing(t, tt.n, tt.how, "east", "west")
			if tt.change != nil {
				tt.change(w)
			}
			require.Equal(t, tt.want, formatGrantsOf(plan(w.observed, w.Now)))
		})
	}
}

func TestKindsWhoseReplicasCannotBeDividedAreNotPlaced(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, apiVersion, kind string
		spec                   map[string]any
		want                   string
	}{
		{"A ReplicaSet can't be divided.", "apps/v1", "ReplicaSet", map[string]any{"replicas": int64(2)}, "/ReplicaSet/web:NotDivided"},
		{"A Job can't be divided.", "batch/v1", "Job", map[string]any{}, "/Job/web:NotDivided"},
		{"A DaemonSet has no replicas.", "apps/v1", "DaemonSet", map[string]any{}, "+web@east"},
		{"A CloneSet is divided.", "apps.kruise.io/v1beta1", "CloneSet", map[string]any{"replicas": int64(2)}, "east=2(0)"},
		{"An advanced StatefulSet is divided.", "apps.kruise.io/v1beta1", "StatefulSet", map[string]any{}, "east=1(0)"},
		{"A StatefulSet is divided.", "apps/v1", "StatefulSet", map[string]any{"replicas": int64(3)}, "east=3(0)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := dividing(t, 1, dividedBy(fleetv1alpha1.DivisionWeighted), "east")
			one := &w.objects[0]
			one.APIVersion, one.Kind = tt.apiVersion, tt.kind
			one.live.SetAPIVersion(tt.apiVersion)
			one.live.SetKind(tt.kind)
			one.live.Object["spec"] = tt.spec
			require.Equal(t, tt.want, formatGrantsOf(plan(w.observed, w.Now)))
		})
	}
}

func TestWhatDiffersBetweenClustersIsBesideTheSharedManifest(t *testing.T) {
	t.Parallel()
	w := dividing(t, 6, dividedBy(fleetv1alpha1.DivisionWeighted, "east*2", "west*1"), "east", "west")
	one := &w.objects[0]
	one.APIVersion, one.Kind = "apps.kruise.io/v1beta1", "CloneSet"
	one.live.SetAPIVersion(one.APIVersion)
	one.live.SetKind(one.Kind)
	partition := func(value any) {
		one.live.Object["spec"] = map[string]any{
			"replicas": int64(6), "updateStrategy": map[string]any{"rollingUpdate": map[string]any{"partition": value, "maxSurge": int64(1)}},
		}
	}
	patches := func() []string {
		t.Helper()
		wants := plan(w.observed, w.Now).Wants
		require.Len(t, wants, 2)
		require.Equal(t, wants[0].Manifest, wants[1].Manifest)
		require.NotContains(t, string(wants[0].Manifest), "replicas")
		return []string{string(wants[0].Patch), string(wants[1].Patch)}
	}
	partition(int64(3))
	require.Equal(t, []string{
		`{"spec":{"replicas":4,"updateStrategy":{"rollingUpdate":{"partition":2}}}}`, `{"spec":{"replicas":2,"updateStrategy":{"rollingUpdate":{"partition":1}}}}`,
	}, patches(), "a number is divided")
	require.EqualValues(t, 2, plan(w.observed, w.Now).Wants[0].Grant.Subsets[0].Partition)
	w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"west"}, Patches: []fleetv1alpha1.PropagationPatch{
		{Op: fleetv1alpha1.PatchReplace, Path: "/spec/updateStrategy/rollingUpdate/partition", Value: rawJSON("0")},
	}}}
	require.JSONEq(t, `{"spec":{"replicas":2,"updateStrategy":{"rollingUpdate":{"partition":0}}}}`, patches()[1], "the override applies to that cluster only")
	w.spec.Overrides = nil
	partition("50%")
	require.Equal(t, []string{`{"spec":{"replicas":4}}`, `{"spec":{"replicas":2}}`}, patches(), "a percentage holds in each cluster")
	require.Zero(t, plan(w.observed, w.Now).Wants[0].Grant.Subsets[0].Partition)
}

// TestAPartitionIsDividedInEachServedVersion takes the path of the partition from the schema. A version that has it elsewhere would keep the
// whole partition in each cluster.
func TestAPartitionIsDividedInEachServedVersion(t *testing.T) {
	t.Parallel()
	versions := map[schema.GroupVersionKind][]string{
		{Group: "apps", Version: "v1", Kind: "Deployment"}:  nil,
		{Group: "apps", Version: "v1", Kind: "StatefulSet"}: {"spec", "updateStrategy", "rollingUpdate", "partition"},
	}
	for _, resource := range []string{"clonesets", "statefulsets"} {
		raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "member", "files", "crds", "apps.kruise.io_"+resource+".yaml"))
		require.NoError(t, err)
		crd := &apiextensionsv1.CustomResourceDefinition{}
		require.NoError(t, yaml.Unmarshal(raw, crd))
		for _, v := range crd.Spec.Versions {
			require.True(t, v.Served)
			path := partitionIn(v.Schema.OpenAPIV3Schema.Properties["spec"].Properties["updateStrategy"], "spec", "updateStrategy")
			require.NotNil(t, path)
			versions[schema.GroupVersionKind{Group: crd.Spec.Group, Version: v.Name, Kind: crd.Spec.Names.Kind}] = path
		}
	}
	for _, kind := range dividedKinds() {
		require.True(t, slices.ContainsFunc(slices.Collect(maps.Keys(versions)), func(v schema.GroupVersionKind) bool { return v.GroupKind() == kind }), kind)
	}
	for gvk, path := range versions {
		t.Run(gvk.String(), func(t *testing.T) {
			t.Parallel()
			w := dividing(t, 6, dividedBy(fleetv1alpha1.DivisionWeighted, "east*2", "west*1"), "east", "west")
			one := &w.objects[0]
			one.APIVersion, one.Kind = gvk.ToAPIVersionAndKind()
			one.live.SetGroupVersionKind(gvk)
			one.live.Object["spec"] = map[string]any{"replicas": int64(6)}
			want := []int64{0, 0}
			if path != nil {
				require.NoError(t, unstructured.SetNestedField(one.live.Object, int64(3), path...))
				want = []int64{2, 1}
			}
			for i, n := range want {
				rendered := plan(w.observed, w.Now).Wants[i]
				raw, err := row.Merge(rendered.Manifest, rendered.Patch)
				require.NoError(t, err)
				sent := &unstructured.Unstructured{}
				require.NoError(t, sent.UnmarshalJSON(raw))
				got, _, err := unstructured.NestedInt64(sent.Object, path...)
				if path != nil {
					require.NoError(t, err)
				}
				require.Equal(t, n, got, string(raw))
				require.EqualValues(t, n, rendered.Grant.Subsets[0].Partition)
			}
		})
	}
}

// partitionIn returns the path of a field partition in a schema, or nil.
func partitionIn(s apiextensionsv1.JSONSchemaProps, at ...string) []string {
	if _, has := s.Properties["partition"]; has {
		return append(at, "partition")
	}
	for name, below := range s.Properties {
		if path := partitionIn(below, append(slices.Clone(at), name)...); path != nil {
			return path
		}
	}
	return nil
}

func TestARowWithoutAGrantRequestsTheReplicasOfItsManifest(t *testing.T) {
	t.Parallel()
	r := &fleetv1alpha1.MemberWork{Status: fleetv1alpha1.MemberWorkStatus{Counts: fleetv1alpha1.WorkCounts{Desired: 5}}}
	ask := func(raw string) int32 {
		t.Helper()
		n, err := replicasIn([]byte(raw), r)
		require.NoError(t, err)
		return n
	}
	require.EqualValues(t, 3, ask(`{"spec":{"replicas":3}}`))
	require.EqualValues(t, 1, ask(`{"spec":{}}`))
	require.EqualValues(t, 0, ask(`{"spec":{"replicas":-3}}`))
	n, err := replicasIn(nil, r)
	require.NoError(t, err)
	require.EqualValues(t, 5, n, "the content of the row is missing")
	r.Spec.Apply = &fleetv1alpha1.WorkApply{Ignore: []string{"spec.replicas"}}
	require.EqualValues(t, 5, ask(`{"spec":{"replicas":3}}`), "ignored replicas")
	_, err = replicasIn([]byte(`{"spec":`), &fleetv1alpha1.MemberWork{})
	require.Error(t, err)
}

// TestStoriesOfADivision also simulates the members: each applies its row, and has its replicas available immediately.
func TestStoriesOfADivision(t *testing.T) {
	t.Parallel()
	weighted := fleetv1alpha1.DivisionWeighted
	for _, tt := range []struct {
		name   string
		before *fleetv1alpha1.PropagationReplicas
		change func(w *world)
	}{
		{"other weights", dividedBy(weighted, "east*2", "west*1"), func(w *world) { w.spec.Replicas = dividedBy(weighted, "east*1", "west*5") }},
		{"a cluster is no longer selected", dividedBy(weighted, "east*2", "west*1"), func(w *world) { w.Clusters["east"].Labels = nil }},
		{"divided for the first time", dividedBy(fleetv1alpha1.DivisionDuplicated), func(w *world) { w.spec.Replicas = dividedBy(weighted, "east*2", "west*1") }},
		{"filled in order", dividedBy(weighted), func(w *world) {
			w.spec.Replicas = dividedBy(fleetv1alpha1.DivisionOrdered, "east<8", "west")
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := dividing(t, 12, tt.before, "east", "west")
			b := &strings.Builder{}
			w.play(b)
			tt.change(w)
			fmt.Fprintf(b, "\n%s:\n", tt.name)
			w.play(b)
			golden.Equal(t, "division "+tt.name, b.String())
		})
	}
}

// play reconciles until nothing changes.
func (w *world) play(b *strings.Builder) {
	for range 50 {
		p := plan(w.observed, w.Now)
		changed := false
		for _, want := range p.Wants {
			n, old := want.Grant.Replicas, w.Rows[want.Place()]
			if len(want.Grant.Subsets) == 0 {
				n = 12
			}
			if old != nil && old.Status.Counts.Desired == n && len(old.Spec.Grant.Subsets) == len(want.Grant.Subsets) {
				continue
			}
			changed = true
			if w.runsUngranted(want.Cluster, n, n); len(want.Grant.Subsets) > 0 {
				w.runsGranted(want.Cluster, n, n)
			}
		}
		for _, withdrawal := range p.Withdrawals {
			changed = true
			delete(w.Rows, row.Place(withdrawal.Row))
		}
		fmt.Fprintln(b, formatGrantsOf(p))
		for _, move := range p.moves {
			fmt.Fprintln(b, "   ", move.Message)
		}
		if !changed {
			return
		}
	}
	fmt.Fprintln(b, "and so on")
}
