package propagation

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
)

// world is a hub with ConfigMaps a and b and some clusters.
type world struct {
	*observed
	p *fleetv1alpha1.Propagation
}

func newWorld(t *testing.T, clusters ...string) *world {
	t.Helper()
	p := propagation("web", labelled("web"))
	p.Finalizers = []string{keys.FleetRow}
	w := &world{p: p, observed: &observed{
		Fleet: placement.Fleet{
			Clusters: map[string]*fleetv1alpha1.MemberCluster{}, Rows: map[string]*fleetv1alpha1.MemberWork{}, Now: time.Unix(1000, 0),
		},
		source: p, kind: sourceKind, spec: &p.Spec, oldStatus: &p.Status, lost: map[string]fate{}, heldBy: map[string]string{},
	}}
	for _, name := range clusters {
		w.Clusters[name] = member(name)
	}
	w.objects = []object{objectOf(t, configMap("a", "blue")), objectOf(t, configMap("b", "blue"))}
	return w
}

func objectOf(t *testing.T, c *corev1.ConfigMap) object {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(c)
	require.NoError(t, err)
	fields["apiVersion"], fields["kind"] = "v1", "ConfigMap"
	ref := fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: c.Name}
	return object{WorkObject: ref, row: rowName(c.Name), live: &unstructured.Unstructured{Object: fields}}
}

func rowName(name string) string {
	return fleetv1alpha1.ObjectRowName(fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: name}, shop)
}

// row gives ConfigMaps rows in a cluster, which has applied them.
func (w *world) row(cluster string, names ...string) {
	for _, name := range names {
		r := &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: fleetv1alpha1.Namespace(cluster), Name: rowName(name), UID: types.UID(cluster + name), Generation: 1,
				Labels: map[string]string{keys.FleetCluster: cluster},
			},
			Spec: fleetv1alpha1.MemberWorkSpec{
				Source: fleetv1alpha1.WorkSource{Kind: sourceKind, Namespace: shop, Name: "web", UID: "web"},
				Object: &fleetv1alpha1.WorkObject{APIVersion: "v1", Kind: "ConfigMap", Name: name},
			},
			Status: fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 1, Phase: fleetv1alpha1.WorkHealthy},
		}
		w.Rows[row.Place(r)] = r
	}
}

func (w *world) unselect(name string, f fate) {
	w.objects = slices.DeleteFunc(w.objects, func(o object) bool { return o.Name == name })
	w.lost[rowName(name)] = f
}

func (w *world) taint(effect fleetv1alpha1.TaintEffect) {
	w.Clusters["west"].Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: effect}}
}

// outcome describes a plan in a few words: the rows that are written and withdrawn, and the problems.
func outcome(p planned) string {
	var parts []string
	for _, want := range p.Wants {
		parts = append(parts, "+"+want.Object.Name+"@"+want.Cluster)
	}
	for _, w := range p.Withdrawals {
		parts = append(parts, fmt.Sprintf("-%s@%s(%s)", w.Row.Spec.Object.Name, w.Row.Labels[keys.FleetCluster], w.Policy))
	}
	if problems := formatProblems(p.problems); problems != "" {
		parts = append(parts, problems)
	}
	return strings.Join(parts, " ")
}

func TestACacheThatIsBehindIsReadAgainSoonAlsoIfAKindCanNotBeRead(t *testing.T) {
	t.Parallel()
	for _, behind := range []string{"a", "b"} {
		w := newWorld(t, "east")
		w.row("east", "a", "b")
		for _, name := range []string{"a", "b"} {
			w.unselect(name, fate{wait: problem{Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonForbidden}})
		}
		w.lost[rowName(behind)] = fate{behind: true}
		require.Equal(t, recheckLost, plan(w.observed, w.Now).Recheck)
	}
}

func TestWhichObjectsGetKeepAndLoseTheirRowInWhichCluster(t *testing.T) {
	t.Parallel()
	const all = "+a@east +a@west +b@east +b@west"
	limit := func(w *world, l *fleetv1alpha1.ClusterLimits) { w.Clusters["west"].Spec.Limits = l }
	for _, tt := range []struct {
		name   string
		change func(w *world)
		want   string
	}{
		{"Each object has a row in each cluster.", func(*world) {}, all},
		{"Clusters are selected by name, except those that are excluded.", func(w *world) {
			w.spec.Clusters = fleetv1alpha1.PropagationClusters{Names: []string{"west", "east", "gone"}, Excluded: []string{"gone"}}
		}, all},
		{"A cluster that does not exist is a problem of the cluster, once.", func(w *world) {
			w.spec.Clusters = fleetv1alpha1.PropagationClusters{Names: []string{"gone", "east"}}
		}, "+a@east +b@east gone//:UnknownCluster"},
		{"All clusters are selected, except those that are excluded.", func(w *world) {
			w.spec.Clusters = fleetv1alpha1.PropagationClusters{All: true, Excluded: []string{"west"}}
		}, "+a@east +b@east"},
		{"No cluster is selected.", func(w *world) {
			w.spec.Clusters = fleetv1alpha1.PropagationClusters{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"no": "such"}}}
		}, "//:NoCluster"},
		{"No object is selected.", func(w *world) { w.objects = nil }, "//:NoObject"},
		{"A cluster that is no longer selected loses its rows.", func(w *world) {
			w.row("west", "a", "b")
			w.Clusters["west"].Labels = nil
		}, "+a@east +b@east -a@west(Delete) -b@west(Delete)"},
		{"A cluster that is no longer selected keeps the objects with deletionPolicy Orphan.", func(w *world) {
			w.row("west", "a")
			w.Clusters["west"].Labels, w.spec.DeletionPolicy = nil, fleetv1alpha1.LeaveOrphan
		}, "+a@east +b@east -a@west(Orphan)"},
		{"I13: a cluster that is missing from the list keeps its rows.", func(w *world) {
			w.row("west", "a", "b")
			delete(w.Clusters, "west")
		}, "+a@east +b@east"},
		{"The rows of a leaving cluster are left to its own policy.", func(w *world) {
			w.row("west", "a")
			w.Clusters["west"].DeletionTimestamp = new(metav1.Unix(1, 0))
		}, "+a@east +b@east"},
		{"A cluster that does not answer gets changes, but no new objects.", func(w *world) {
			w.row("west", "a")
			w.Clusters["west"].Status.Conditions[0].Status = metav1.ConditionFalse
		}, "+a@east +a@west +b@east west//:ClusterUnreachable"},
		{"A row that is being deleted must be gone before there is a new one.", func(w *world) {
			w.row("west", "a")
			w.Rows["west/"+rowName("a")].DeletionTimestamp = new(metav1.Unix(1, 0))
			w.Rows["west/"+rowName("a")].Spec.DeletionPolicy = fleetv1alpha1.LeaveDelete
		}, "+a@east +b@east +b@west -a@west(Delete)"},
		{"A cluster that is not selected by name and has a taint gets nothing.", func(w *world) { w.taint(fleetv1alpha1.NoNewPlace) }, "+a@east +b@east"},
		{"With NoNewPlace, a cluster keeps what it has.", func(w *world) {
			w.row("west", "a")
			w.taint(fleetv1alpha1.NoNewPlace)
		}, "+a@east +a@west +b@east"},
		{"A cluster that is selected by name and has a taint is a problem.", func(w *world) {
			w.spec.Clusters = fleetv1alpha1.PropagationClusters{Names: []string{"west", "east"}}
			w.taint(fleetv1alpha1.NoPlace)
		}, "+a@east +b@east west//:ClusterTainted"},
		{"Evict withdraws the rows.", func(w *world) {
			w.row("west", "a", "b")
			w.taint(fleetv1alpha1.Evict)
		}, "+a@east +b@east -a@west(Delete) -b@west(Delete) west//:ClusterTainted"},
		{"A tolerated taint has no effect.", func(w *world) {
			w.taint(fleetv1alpha1.Evict)
			w.Tolerations = []fleetv1alpha1.ClusterToleration{{Key: "upgrade", Operator: fleetv1alpha1.TolerationExists}}
		}, all},
		{"Objects in a namespace that a cluster no longer allows are withdrawn.", func(w *world) {
			w.row("west", "a")
			limit(w, &fleetv1alpha1.ClusterLimits{AllowedNamespaces: []string{"other"}})
		}, "+a@east +b@east -a@west(Delete) west//:NamespaceNotAllowed"},
		{"Objects of a kind that a cluster no longer allows are withdrawn.", func(w *world) {
			w.row("west", "a")
			limit(w, &fleetv1alpha1.ClusterLimits{AllowedKinds: []fleetv1alpha1.GroupKind{{Group: "apps", Kind: "Deployment"}}})
		}, "+a@east +b@east -a@west(Delete) west/ConfigMap/:KindNotAllowed"},
		{"A kind that a cluster does not serve gets no new objects, and placed ones stay.", func(w *world) {
			w.row("west", "a")
			w.Clusters["west"].Status.Kinds = []fleetv1alpha1.ServedKind{{Group: "apps", Kind: "Deployment", Versions: []string{"v1"}}}
		}, "+a@east +a@west +b@east west/ConfigMap/:KindNotServed"},
		{"A cluster that the hub has not prepared gets nothing yet.", func(w *world) { w.Clusters["west"].Status.Hub = nil }, "+a@east +b@east"},

		{"An object that is no longer selected loses its rows.", func(w *world) {
			w.row("east", "a", "b")
			w.unselect("b", fate{})
		}, "+a@east +a@west -b@east(Delete)"},
		{"An object that is gone loses its rows.", func(w *world) {
			w.row("east", "a", "b")
			w.unselect("b", fate{gone: true})
		}, "+a@east +a@west -b@east(Delete)"},
		{"An object that is gone with its namespace stays in members.", func(w *world) {
			w.row("east", "b")
			w.unselect("b", fate{gone: true})
			w.namespaceTerminating = true
		}, "+a@east +a@west -b@east(Orphan)"},
		{"An object that is only missing from the cache keeps its rows.", func(w *world) {
			w.row("east", "b")
			w.unselect("b", fate{behind: true})
		}, "+a@east +a@west"},
		{"An object whose kind can't be read keeps its rows.", func(w *world) {
			w.row("east", "a", "b")
			why := problem{Kind: "ConfigMap", Reason: fleetv1alpha1.ReasonKindNotServed}
			w.unselect("a", fate{wait: why})
			w.unselect("b", fate{wait: why})
			w.unreadable = []unreadableKind{{configMaps.WithVersion("v1"), why}}
		}, "/ConfigMap/:KindNotServed"},
		{"I13: the rows of a lost object in a cluster that is missing stay too.", func(w *world) {
			w.row("west", "b")
			w.unselect("b", fate{gone: true})
			delete(w.Clusters, "west")
		}, "+a@east"},
		{"An object that is being deleted gets no new row, and keeps its rows.", func(w *world) {
			w.row("east", "a")
			w.objects[0].live.SetDeletionTimestamp(new(metav1.Unix(1, 0)))
		}, "+b@east +b@west /ConfigMap/a:Deleting"},
		{"An object that is too large gets no new row, and keeps its rows.", func(w *world) {
			w.row("east", "a")
			require.NoError(t, unstructured.SetNestedField(w.objects[0].live.Object, strings.Repeat("x", 1<<20), "data", "color"))
		}, "+b@east +b@west /ConfigMap/a:TooLarge"},
		{"An object stays where an override fails.", func(w *world) {
			w.row("east", "a")
			w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"east"}, Name: "a", Patches: []fleetv1alpha1.PropagationPatch{
				{Op: fleetv1alpha1.PatchRemove, Path: "/data/none"},
			}}}
		}, "+a@west +b@east +b@west east/ConfigMap/a:OverrideFailed"},
		{"The row of an object that was deleted and created again is withdrawn first.", func(w *world) {
			w.row("east", "a")
			w.row("west", "a")
			w.replaced = map[string]bool{row.PlaceOf("east", rowName("a")): true}
		}, "+a@west +b@east +b@west -a@east(Delete)"},
		{"With deletionPolicy Orphan, the object stays in the cluster in the meantime.", func(w *world) {
			w.row("west", "a")
			w.spec.DeletionPolicy, w.replaced = fleetv1alpha1.LeaveOrphan, map[string]bool{row.PlaceOf("west", rowName("a")): true}
		}, "+a@east +b@east +b@west -a@west(Orphan)"},
		{"I13: the row in a cluster that is missing stays.", func(w *world) {
			w.row("west", "a")
			w.replaced = map[string]bool{row.PlaceOf("west", rowName("a")): true}
			delete(w.Clusters, "west")
		}, "+a@east +b@east"},
		{"Objects beyond the limit are a problem.", func(w *world) { w.excess = 3 }, all + " //:TooMany"},

		{
			"An object that another source has placed is left to it.", func(w *world) { w.heldBy["west/"+rowName("a")] = "Propagation other" },
			"+a@east +b@east +b@west west/ConfigMap/a:Conflict",
		},
		{"An older Propagation that selects an object places it.", func(w *world) {
			w.olderSources = []olderSource{{name: "old", spec: &propagation("old", named("a")).Spec}}
		}, "+b@east +b@west east/ConfigMap/a:Conflict west/ConfigMap/a:Conflict"},
		{"An older Propagation only matters in the clusters that it selects.", func(w *world) {
			old := propagation("old", named("a"))
			old.Spec.Clusters = fleetv1alpha1.PropagationClusters{Names: []string{"west"}}
			w.olderSources = []olderSource{{name: "old", spec: &old.Spec}}
		}, "+a@east +b@east +b@west west/ConfigMap/a:Conflict"},
		{"An older Propagation only matters where it tolerates the taints.", func(w *world) {
			w.taint(fleetv1alpha1.NoPlace)
			w.Tolerations = []fleetv1alpha1.ClusterToleration{{Operator: fleetv1alpha1.TolerationExists}}
			w.olderSources = []olderSource{{name: "old", spec: &propagation("old", named("a")).Spec}}
		}, "+a@west +b@east +b@west east/ConfigMap/a:Conflict"},
		{"A Propagation that has a row keeps it.", func(w *world) {
			w.row("west", "a")
			w.olderSources = []olderSource{{name: "old", spec: &propagation("old", named("a")).Spec}}
		}, "+a@west +b@east +b@west east/ConfigMap/a:Conflict"},

		{"The rows of a Propagation that is being deleted are withdrawn.", func(w *world) {
			w.row("east", "a", "b")
			w.p.DeletionTimestamp = new(metav1.Unix(1, 0))
		}, "-a@east(Delete) -b@east(Delete)"},
		{"They are orphaned if the namespace is being deleted.", func(w *world) {
			w.row("east", "a")
			w.p.DeletionTimestamp, w.namespaceTerminating = new(metav1.Unix(1, 0)), true
		}, "-a@east(Orphan)"},
		{"They are orphaned by deletionPolicy Orphan.", func(w *world) {
			w.row("east", "a")
			w.p.DeletionTimestamp, w.spec.DeletionPolicy = new(metav1.Unix(1, 0)), fleetv1alpha1.LeaveOrphan
		}, "-a@east(Orphan)"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, "east", "west")
			tt.change(w)
			require.Equal(t, tt.want, sorted(outcome(plan(w.observed, w.Now))))
		})
	}
}

// sorted sorts the withdrawals and problems of an outcome, because withdrawals and problems of rows come from maps.
func sorted(text string) string {
	parts := strings.Fields(text)
	slices.SortStableFunc(parts, func(a, b string) int {
		if a[0] != '-' || b[0] != '-' {
			return 0
		}
		return strings.Compare(a, b)
	})
	return strings.Join(parts, " ")
}

func TestARowSaysHowItIsApplied(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east", "west")
	w.objects = w.objects[:1]
	w.spec.Apply = &fleetv1alpha1.WorkApply{Adoption: fleetv1alpha1.AdoptFull}
	w.spec.Suspend = &fleetv1alpha1.PropagationSuspend{Clusters: []string{"west"}}
	w.spec.DeletionPolicy = fleetv1alpha1.LeaveOrphan
	w.spec.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"west"}, Patches: []fleetv1alpha1.PropagationPatch{
		{Op: fleetv1alpha1.PatchRemove, Path: "/data/color"},
	}}}
	wants := plan(w.observed, w.Now).Wants
	require.Len(t, wants, 2)
	for _, want := range wants {
		require.Equal(t, fleetv1alpha1.WorkSource{
			APIVersion: "fleet.kruise.io/v1alpha1", Kind: "Propagation", Namespace: shop, Name: "web", UID: "web",
		}, want.Source)
		require.Equal(t, want.Apply, w.spec.Apply)
		require.Equal(t, fleetv1alpha1.LeaveOrphan, want.DeletionPolicy)
		require.EqualValues(t, 3, want.Grant.Epoch)
		require.Equal(t, want.Suspend, want.Cluster == "west")
		require.JSONEq(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"shop","labels":{"app":"web"}},"data":{"color":"blue"}}`,
			string(want.Manifest), "differences between clusters are in the patch, next to the shared manifest")
	}
	require.Empty(t, wants[0].Patch)
	require.JSONEq(t, `{"data":{"color":null}}`, string(wants[1].Patch))
	w.spec.Suspend.All = true
	require.True(t, plan(w.observed, w.Now).Wants[0].Suspend)
}

func TestObjectsBeyondTheLimitDoNotPushOutWhatIsPlaced(t *testing.T) {
	t.Parallel()
	w, found := newWorld(t, "east"), map[string]object{}
	w.objects = nil
	for i := range maxObjects + 2 {
		one := objectOf(t, configMap(fmt.Sprintf("c%03d", i), "blue"))
		found[one.row] = one
	}
	w.row("east", "c501")
	w.selectObjects(found)
	require.Len(t, w.objects, maxObjects)
	require.Equal(t, 2, w.excess)
	require.Equal(t, "c498", w.objects[maxObjects-2].Name)
	require.Equal(t, "c501", w.objects[maxObjects-1].Name)
}

func TestTheFinalizerComesFirstAndGoesLast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east")
	w.p.Finalizers = nil
	require.True(t, plan(w.observed, w.Now).AddFinalizer)
	w.p.Finalizers, w.p.DeletionTimestamp = []string{keys.FleetRow}, new(metav1.Unix(1, 0))
	require.True(t, plan(w.observed, w.Now).RemoveFinalizer)
	w.row("east", "a")
	require.False(t, plan(w.observed, w.Now).RemoveFinalizer)
}

// TestAttack29ObjectsKeepTheirRowsOfOlderHubs: row names used to have 48 bits. An upgrade withdraws no row, and no object gets a second one.
func TestAttack29ObjectsKeepTheirRowsOfOlderHubs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, "east", "west")
	w.row("east", "a", "b")
	w.row("west", "a", "gone")
	for _, r := range w.Rows {
		r.Name = r.Name[:len(r.Name)-20]
	}
	w.lost[rowName("gone")] = fate{gone: true}
	p := plan(w.observed, w.Now)
	require.Equal(t, "+a@east +a@west +b@east +b@west -gone@west(Delete)", outcome(p))
	for _, want := range p.Wants {
		require.Equal(t, want.Object.Name+"@"+want.Cluster != "b@west", w.Rows[want.Place()] != nil)
	}
	objects := w.objects
	w.selectObjects(map[string]object{"a": objects[0], "b": objects[1]})
	require.NoError(t, w.observeReplaced(t.Context(), placement.Client{}))
	require.NoError(t, w.observeLost(t.Context(), placement.Client{}, false))
	require.Len(t, w.lost, 1, "the object that already has a row is selected")
}
