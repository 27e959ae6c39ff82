package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var simKey = types.NamespacedName{Name: "registry"}

// members are all members, which join, and the agents of those that are reachable. Each applies what it is asked for, and reports it later. A
// report may be for a generation that is over by then, so a lost report is the same as a late one.
type members struct{}

func (members) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, mc := range sim.All[*fleetv1alpha1.MemberCluster](w) {
		if mc.Status.Phase == "" { // The cluster joins.
			next := mc.DeepCopy()
			next.Status = newWorld(all()).cluster(mc.Name).Status
			out = append(out, sim.Step{Do: func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Status().Update(ctx, next)) }})
		}
	}
	for _, live := range sim.All[*fleetv1alpha1.MemberWork](w) {
		mc := sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: live.Labels[keys.FleetCluster]})
		if mc == nil || mc.Status.Phase != fleetv1alpha1.ClusterReady {
			continue
		}
		next := live.DeepCopy()
		if live.DeletionTimestamp != nil {
			next.Finalizers = nil // Nothing is left there, and the hub has read that.
			out = append(out, sim.Step{Do: func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Update(ctx, next)) }})
			continue
		}
		if live.Spec.Source.Kind != sourceKind || placement.Acknowledged(live) {
			continue
		}
		next.Status = fleetv1alpha1.MemberWorkStatus{
			ObservedGeneration: live.Generation, Phase: fleetv1alpha1.WorkHealthy, Counts: fleetv1alpha1.WorkCounts{Desired: 2, Available: 2},
		}
		out = append(out, sim.Step{Do: func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Status().Update(ctx, next)) }})
	}
	return out
}

// simulated returns the hub's controller in the simulator, with the rules that apply to every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1beta1.AddToScheme, fleetv1alpha1.AddToScheme} {
		require.NoError(tb, add(scheme))
	}
	handler := func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: simKey}}
	}
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			o := placement.Options{Store: row.NewStore(p.Client, []byte("key"), p.Clock), Events: &testkit.Events{}, Clock: p.Clock}
			return Kind(Options{Options: o}).New(o, p.Client, p.Live), nil
		},
		Index: Kind(Options{}).Index,
		For:   &appsv1beta1.ResourceDistribution{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&fleetv1alpha1.MemberWork{}: handler, &fleetv1alpha1.MemberCluster{}: handler,
			&fleetv1alpha1.WorkContent{}: func(*sim.World, client.Object, client.Object) []reconcile.Request { return nil },
		},
		Actors:  []sim.Actor{members{}, sim.Collector{}},
		Rules:   []sim.Rule{sim.DeletesByUID(), keepsRows(), keepsSecrets()},
		Summary: finalState,
	}
}

// keepsRows is the rule that the row of south, which is always selected, is withdrawn only with the object.
func keepsRows() sim.Rule {
	return sim.Rule{Name: "rows are withdrawn for a reason", Write: func(w *sim.World, c sim.Change) error {
		row, ok := c.Before.(*fleetv1alpha1.MemberWork)
		rd := sim.Find[*appsv1beta1.ResourceDistribution](w, simKey)
		if ok && c.Verb == sim.Delete && row.Labels[keys.FleetCluster] == "south" && rd != nil && rd.DeletionTimestamp == nil {
			return fmt.Errorf("%s: cluster south is always selected", c.Request)
		}
		return nil
	}}
}

// keepsSecrets is the rule that Secrets are stored only in rows.
func keepsSecrets() sim.Rule {
	return sim.Rule{Name: "a Secret is in no shared content", State: func(w *sim.World) error {
		for _, content := range sim.All[*fleetv1alpha1.WorkContent](w) {
			if strings.Contains(content.Manifest, password) || strings.Contains(content.Manifest, "Secret") {
				return fmt.Errorf("content %s has the Secret", content.Name)
			}
		}
		for _, rd := range sim.All[*appsv1beta1.ResourceDistribution](w) {
			if strings.Contains(fmt.Sprint(rd.Status), password) {
				return errors.New("the status has the Secret")
			}
		}
		return nil
	}}
}

// finalState describes what matters once nothing changes anymore.
func finalState(w *sim.World) string {
	var lines []string
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		if r.Spec.Source.Kind == sourceKind {
			lines = append(lines, fmt.Sprintf("%s inline=%t red=%t withdrawn=%t", r.Namespace, r.Spec.Content.Inline != "",
				strings.Contains(r.Spec.Content.Inline, "red"), r.Spec.Withdrawn))
		}
	}
	rd := sim.Find[*appsv1beta1.ResourceDistribution](w, simKey)
	if rd == nil {
		return strings.Join(append(lines, "no ResourceDistribution"), "\n")
	}
	lines = append(lines, fmt.Sprintf("%d of %d in %d clusters, %d stale, observed=%t held=%t", rd.Status.Succeeded, rd.Status.Desired,
		rd.Status.SelectedClusters, rd.Status.StaleClusters, rd.Status.ObservedGeneration == rd.Generation, placement.Held(rd)))
	for _, c := range rd.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			lines = append(lines, fmt.Sprintf("%s %s %s", c.Type, c.Reason, c.Message))
		}
	}
	return strings.Join(lines, "\n")
}

// acknowledged reports whether the member of a cluster has done what it was asked for.
func acknowledged(w *sim.World, cluster string) bool {
	return slices.ContainsFunc(sim.All[*fleetv1alpha1.MemberWork](w), func(r *fleetv1alpha1.MemberWork) bool {
		return r.Labels[keys.FleetCluster] == cluster && r.Spec.Source.Kind == sourceKind && placement.Acknowledged(r)
	})
}

func stories() []sim.Scenario {
	// world returns an object for three clusters selected by labels, and one more cluster.
	world := func(more ...client.Object) []client.Object {
		w := newWorld(labelled("web"), "east", "south", "west", "north")
		w.o.Clusters["north"].Labels = nil
		w.o.rd.Finalizers = nil
		out := []client.Object{w.o.rd}
		for _, name := range slices.Sorted(maps.Keys(w.o.Clusters)) {
			out = append(out, w.o.Clusters[name])
		}
		return append(out, more...)
	}
	spec := func(name string, change func(*appsv1beta1.ResourceDistributionSpec)) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, simKey, func(rd *appsv1beta1.ResourceDistribution) { change(&rd.Spec) })
		}}
	}
	cluster := func(what, name string, change func(*fleetv1alpha1.MemberCluster)) sim.Edit {
		return sim.Edit{Name: what, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Name: name}, change)
		}}
	}
	west := func(ready bool) sim.Edit {
		const name = "west"
		return sim.Edit{Name: fmt.Sprintf("west ready=%t", ready), Do: func(ctx context.Context, w *sim.World) error {
			mc := sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: name}).DeepCopy()
			mc.Status = newWorld(all()).cluster(name).Status
			mc.Status.Phase, mc.Status.Conditions[0].Status = fleetv1alpha1.ClusterReady, metav1.ConditionTrue
			if !ready {
				mc.Status.Phase, mc.Status.Conditions[0].Status = fleetv1alpha1.ClusterUnreachable, metav1.ConditionFalse
			}
			return w.User().Status().Update(ctx, mc)
		}}
	}
	red := spec("another password", func(s *appsv1beta1.ResourceDistributionSpec) {
		s.Resource.Raw = []byte(strings.Replace(string(s.Resource.Raw), `"name":"registry"`, `"labels":{"color":"red"},"name":"registry"`, 1))
	})
	remove := sim.Edit{Name: "delete the object", Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, &appsv1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: simKey.Name}}))
	}}
	tainted := func(effect fleetv1alpha1.TaintEffect) func(*fleetv1alpha1.MemberCluster) {
		return func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: effect}}
		}
	}
	pods := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Namespace: fleetv1alpha1.Namespace("west"), Labels: map[string]string{keys.FleetCluster: "west"}},
		Spec: fleetv1alpha1.MemberWorkSpec{
			Source: fleetv1alpha1.WorkSource{Kind: "UnitedDeployment", Namespace: "shop", Name: "web", UID: "ud"},
			Grant:  fleetv1alpha1.WorkGrant{Replicas: 2},
		},
	}
	return []sim.Scenario{
		{Name: "a change reaches all clusters", Objects: world(), Edits: []sim.Edit{red}},
		{Name: "a cluster is added and another one no longer selected", Objects: world(), Edits: []sim.Edit{
			cluster("north has the label", "north", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = map[string]string{"tier": "web"} }),
			cluster("west no longer has it", "west", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = nil }),
		}},
		{Name: "a cluster is excluded and comes back", Objects: world(), Edits: []sim.Edit{
			spec("without west", func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.Clusters.Excluded = []string{"west"} }),
			spec("with west", func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.Clusters.Excluded = nil }),
		}},
		{Name: "a cluster does not answer while the Secret changes", Objects: world(), Edits: []sim.Edit{west(false), red, west(true)}},
		{Name: "a MemberCluster disappears, and nothing is withdrawn", Objects: world(), Edits: []sim.Edit{
			{Name: "south is gone", When: func(w *sim.World) bool { return acknowledged(w, "south") }, Do: func(ctx context.Context, w *sim.World) error {
				return w.User().Delete(ctx, &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "south"}})
			}},
			{Name: red.Name, Do: red.Do, When: func(w *sim.World) bool { // Before, south may or may not get it.
				return !slices.ContainsFunc(sim.Cached[*fleetv1alpha1.MemberCluster](w), func(mc *fleetv1alpha1.MemberCluster) bool { return mc.Name == "south" })
			}},
		}},
		{Name: "a cluster is emptied, and its copies are withdrawn last", Objects: world(pods), Edits: []sim.Edit{
			cluster("west evicts", "west", tainted(fleetv1alpha1.Evict)),
			{Name: "no pods are left", Do: func(ctx context.Context, w *sim.World) error {
				return sim.Set(ctx, w, client.ObjectKeyFromObject(pods), func(r *fleetv1alpha1.MemberWork) { r.Spec.Grant.Replicas = 0 })
			}},
		}},
		{Name: "a cluster gets nothing new", Objects: world(), Edits: []sim.Edit{
			cluster("north is closed", "north", tainted(fleetv1alpha1.NoPlace)),
			cluster("north has the label", "north", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = map[string]string{"tier": "web"} }), red,
		}},
		{Name: "the object is deleted while a cluster does not answer", Objects: world(), Edits: []sim.Edit{west(false), remove, west(true)}},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories()...)
}

// 200 clusters cost one row each, and one write of the object's status.
func TestWritesOfManyClusters(t *testing.T) {
	t.Parallel()
	const clusters = 200
	w := newWorld(all())
	var objects []client.Object
	for i := range clusters {
		objects = append(objects, w.cluster(fmt.Sprintf("member-%03d", i)))
	}
	r := sim.Run(t.Context(), simulated(t), sim.Scenario{Name: "many", Objects: objects, Edits: []sim.Edit{
		{Name: "create the object", Do: func(ctx context.Context, w *sim.World) error { return w.User().Create(ctx, newWorld(all()).o.rd) }},
	}}, sim.Schedule{})
	require.NoError(t, r.Err)
	require.Equal(t, clusters+1, r.Writes)
	require.Contains(t, r.Summary, "400 of 400 in 200 clusters, 0 stale, observed=true held=true")
}

// No status is sent after the finalizer, because it would be refused.
func TestWritesOfANewObject(t *testing.T) {
	t.Parallel()
	w := newWorld(all(), "east", "west")
	w.o.rd.Finalizers = nil
	r := sim.Run(t.Context(), simulated(t), sim.Scenario{
		Name: "new", Objects: []client.Object{w.o.rd, w.o.Clusters["east"], w.o.Clusters["west"]},
	}, sim.Schedule{})
	require.NoError(t, r.Err)
	require.Equal(t, map[string]int{"patch resourcedistribution": 1, "create memberwork": 2, "patch resourcedistribution/status": 3}, r.Sent)
}
