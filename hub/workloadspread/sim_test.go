package workloadspread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var (
	setKey = types.NamespacedName{Namespace: "shop", Name: "web"}
	wsKey  = types.NamespacedName{Namespace: "shop", Name: "spread"}
)

// simulated returns the controller of CloneSets in the simulator, with members that act on their rows and report at any time.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, appsv1beta1.AddToScheme, fleetv1alpha1.AddToScheme} {
		require.NoError(tb, add(scheme))
	}
	about := func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: setKey}}
	}
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return newReconciler(cloneSets(), p.Client, p.Live, placement.Options{
				Store: row.NewStore(p.Client, []byte("key"), p.Clock), Events: &testkit.Events{}, Clock: p.Clock,
			}), nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return errors.Join(row.IndexBySource(ctx, i), indexByCluster(ctx, i), scaletarget.IndexSpreads(ctx, i))
		},
		For: &appsv1beta1.CloneSet{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&appsv1beta1.WorkloadSpread{}: about, &fleetv1alpha1.MemberWork{}: about, &fleetv1alpha1.MemberCluster{}: about,
		},
		Actors: []sim.Actor{joining{}, member("east"), member("west"), member("north")},
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			{Name: "grants do not exceed the desired replicas plus surge", Write: grantsAtMost},
			{Name: "a cluster that does not answer keeps its grant", Write: keepsDark},
			{Name: "nothing is withdrawn from a cluster that is missing", Write: keepsMissing},
			{Name: "replicas are removed only once others are available", Write: shrinksSurely},
		},
		Summary: finalState,
	}
}

// joining is the hub's controller of clusters. Each cluster joins at some time.
type joining struct{}

// Steps implements sim.Actor.
func (joining) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, mc := range sim.All[*fleetv1alpha1.MemberCluster](w) {
		if mc.Status.Phase == "" {
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				return w.User().Status().Update(ctx, joined(mc))
			}})
		}
	}
	return out
}

// joined returns a cluster that has joined.
func joined(mc *fleetv1alpha1.MemberCluster) *fleetv1alpha1.MemberCluster {
	next := mc.DeepCopy()
	next.Status = newWorld(1).cluster(mc.Name).o.slices.Clusters[mc.Name].Status
	return next
}

// member is a cluster's agent with its controllers. What the cluster runs is in a ConfigMap: the generations of the applied rows, how many
// pods are desired, how many are created, how many are ready, and how many can be scheduled ("" means any number).
type member string

func (m member) key() types.NamespacedName {
	return types.NamespacedName{Namespace: "members", Name: string(m)}
}

// row returns the member's row of a kind, or nil. If there are several, it is one that is being deleted.
func (m member) row(w *sim.World, kind string) *fleetv1alpha1.MemberWork {
	var found *fleetv1alpha1.MemberWork
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		if r.Namespace == fleetv1alpha1.Namespace(string(m)) && r.Spec.Source.Kind == kind && (found == nil || r.DeletionTimestamp != nil) {
			found = r
		}
	}
	return found
}

func (m member) answers(w *sim.World) bool {
	mc := sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: string(m)})
	return mc == nil || report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
}

func (m member) number(w *sim.World, name string) int {
	c := sim.Find[*corev1.ConfigMap](w, m.key())
	if c == nil {
		return 0
	}
	n, _ := strconv.Atoi(c.Data[name])
	return n
}

func (m member) set(ctx context.Context, w *sim.World, values ...any) error {
	return sim.Set(ctx, w, m.key(), func(c *corev1.ConfigMap) {
		for i := 0; i < len(values); i += 2 {
			c.Data[values[i].(string)] = fmt.Sprint(values[i+1])
		}
	})
}

// schedulable returns how many of the pods can be scheduled.
func (m member) schedulable(w *sim.World) int {
	pods := m.number(w, "pods")
	if c := sim.Find[*corev1.ConfigMap](w, m.key()); c != nil && c.Data["fits"] != "" {
		return min(pods, m.number(w, "fits"))
	}
	return pods
}

// Steps implements sim.Actor.
func (m member) Steps(w *sim.World) []sim.Step {
	if sim.Find[*corev1.ConfigMap](w, m.key()) == nil {
		return nil
	}
	var out []sim.Step
	do := func(f func(context.Context) error) { out = append(out, sim.Step{Do: f}) }
	if ready := m.number(w, "ready"); ready < m.schedulable(w) { // Even while the hub gets no reports from it.
		do(func(ctx context.Context) error { return m.set(ctx, w, "ready", ready+1) })
	}
	if created := m.number(w, "created"); created < m.number(w, "pods") {
		do(func(ctx context.Context) error { return m.set(ctx, w, "created", created+1) })
	}
	if !m.answers(w) {
		return out
	}
	for _, kind := range []string{"CloneSet", "WorkloadSpread"} {
		r := m.row(w, kind)
		switch {
		case r == nil:
		case r.DeletionTimestamp != nil:
			do(func(ctx context.Context) error { return m.remove(ctx, w, r) })
		case m.number(w, kind) != int(r.Generation):
			do(func(ctx context.Context) error { return m.apply(ctx, w, r) })
		default:
			if next := m.report(w, r); fmt.Sprint(next.Status) != fmt.Sprint(r.Status) {
				do(func(ctx context.Context) error { return w.User().Status().Update(ctx, next) })
			}
		}
	}
	return out
}

func (m member) remove(ctx context.Context, w *sim.World, r *fleetv1alpha1.MemberWork) error {
	values := []any{r.Spec.Source.Kind, 0}
	if r.Spec.Source.Kind == "CloneSet" && r.Spec.DeletionPolicy == fleetv1alpha1.LeaveDelete {
		values = append(values, "pods", 0, "created", 0, "ready", 0)
	}
	if err := m.set(ctx, w, values...); err != nil {
		return err
	}
	next := r.DeepCopy()
	controllerutil.RemoveFinalizer(next, keys.FleetRow)
	return w.User().Update(ctx, next)
}

func (m member) apply(ctx context.Context, w *sim.World, r *fleetv1alpha1.MemberWork) error {
	kind := r.Spec.Source.Kind
	if kind != "CloneSet" {
		return m.set(ctx, w, kind, r.Generation)
	}
	had := m.number(w, "pods")
	pods := int(r.Spec.Grant.Replicas)
	if pods > had && m.number(w, "WorkloadSpread") == 0 {
		return fmt.Errorf("%s gets %d pods without their WorkloadSpread", m, pods)
	}
	if err := m.set(ctx, w, kind, r.Generation, "pods", pods, "created", min(m.number(w, "created"), pods),
		"ready", min(m.number(w, "ready"), pods)); err != nil {
		return err
	}
	most := 0
	for _, c := range w.Changes() { // The largest number that users have requested counts.
		if set, ok := c.After.(*appsv1beta1.CloneSet); ok && set != nil {
			most = max(most, maxGranted(set))
		}
	}
	if n := sum(w, "pods"); pods > had && n > most+lateGrowth(w) {
		return fmt.Errorf("%d pods run, but at most %d may", n, most)
	}
	return nil
}

// maxGranted returns the maximum number of replicas that may be granted while they move.
func maxGranted(set *appsv1beta1.CloneSet) int {
	n := int(*set.Spec.Replicas)
	return n + allot.DefaultSurge(n)
}

// lateGrowth returns how many more replicas late writes allow to run. Nothing can prevent them.
func lateGrowth(w *sim.World) int {
	n := 0
	for _, change := range w.Changes() {
		if change.Late && change.Err == nil {
			n += int(max(upperOf(rowOf(change.After))-upperOf(rowOf(change.Before)), 0))
		}
	}
	return n
}

func sum(w *sim.World, name string) int {
	n := 0
	for _, m := range []member{"east", "west", "north"} {
		n += m.number(w, name)
	}
	return n
}

// report returns a row with the status that the member would write now.
func (m member) report(w *sim.World, r *fleetv1alpha1.MemberWork) *fleetv1alpha1.MemberWork {
	next := r.DeepCopy()
	pods, ready := int32(m.number(w, "pods")), int32(m.number(w, "ready"))
	s := fleetv1alpha1.MemberWorkStatus{ObservedGeneration: r.Generation, Phase: fleetv1alpha1.WorkHealthy}
	if r.Spec.Source.Kind == "CloneSet" {
		s.Revision = "web-1"
		s.Counts = fleetv1alpha1.WorkCounts{
			Desired: r.Spec.Grant.Replicas, Replicas: pods, Ready: ready, Available: ready, Updated: pods - r.Spec.Grant.Subsets[0].Partition, UpdatedReady: ready,
		}
	} else {
		var slice slicePatch
		if err := json.Unmarshal(r.Spec.Patch.Raw, &slice); err != nil {
			return r
		}
		left := int32(m.number(w, "created"))
		waiting := max(left-int32(m.schedulable(w)), 0)
		for i, subset := range slice.Spec.Subsets {
			c := fleetv1alpha1.WorkCounts{Replicas: left}
			if subset.MaxReplicas != nil {
				c.Replicas = min(left, subset.MaxReplicas.IntVal)
			}
			if i == len(slice.Spec.Subsets)-1 {
				c.Unschedulable = min(waiting, c.Replicas)
			}
			left -= c.Replicas
			s.Subsets = append(s.Subsets, fleetv1alpha1.SubsetCounts{Name: subset.Name, WorkCounts: c})
		}
	}
	next.Status = s
	return next
}

// maxRunning returns the maximum that the copies may run, according to their rows.
func maxRunning(w *sim.World) int {
	n := 0
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		n += int(upperOf(r))
	}
	return n
}

func upperOf(r *fleetv1alpha1.MemberWork) int32 {
	switch {
	case r == nil || r.Spec.Source.Kind != "CloneSet":
		return 0
	case placement.Acknowledged(r):
		return r.Spec.Grant.Replicas
	}
	return r.Spec.Grant.Subsets[0].Upper
}

func rowOf(o client.Object) *fleetv1alpha1.MemberWork {
	r, _ := o.(*fleetv1alpha1.MemberWork)
	return r
}

// arrived reports whether a write took effect when it was sent.
func arrived(c sim.Change) bool { return c.Err == nil && !c.Late }

// grantsAtMost is the rule that a write that allows more to run stays within the replicas that the controller knows of and their surge.
func grantsAtMost(w *sim.World, c sim.Change) error {
	before, after := rowOf(c.Before), rowOf(c.After)
	if !arrived(c) || after == nil || before != nil && after.Spec.Grant.Replicas <= before.Spec.Grant.Replicas {
		return nil
	}
	sets := sim.Cached[*appsv1beta1.CloneSet](w)
	if len(sets) == 0 {
		return nil
	}
	if allowed, most := maxRunning(w), maxGranted(sets[0])+lateGrowth(w); allowed > most {
		return fmt.Errorf("%d may run after %s, but the maximum is %d", allowed, c.Request, most)
	}
	return nil
}

// shrinksSurely is the rule that a write that allows fewer to run leaves as many as are requested, counting those that the controller knows
// to be available.
func shrinksSurely(w *sim.World, c sim.Change) error {
	before, after := rowOf(c.Before), rowOf(c.After)
	if !arrived(c) || before == nil || after == nil || lowerOf(after) >= lowerOf(before) {
		return nil
	}
	sets := sim.Cached[*appsv1beta1.CloneSet](w)
	if len(sets) == 0 || sets[0].DeletionTimestamp != nil {
		return nil
	}
	previously, now := 0, 0
	for _, r := range sim.Cached[*fleetv1alpha1.MemberWork](w) {
		live := sim.Find[*fleetv1alpha1.MemberWork](w, client.ObjectKeyFromObject(r))
		if live == nil || r.Spec.Source.Kind != "CloneSet" {
			continue
		}
		now += int(min(r.Status.Counts.Available, lowerOf(live)))
		if live.UID == before.UID {
			live = before
		}
		previously += int(min(r.Status.Counts.Available, lowerOf(live)))
	}
	if least := min(previously, int(*sets[0].Spec.Replicas)); now < least {
		return fmt.Errorf("%d are certain to be available after %s, but before there were %d", now, c.Request, previously)
	}
	return nil
}

// lowerOf returns the minimum that a copy is certain to run, according to its row.
func lowerOf(r *fleetv1alpha1.MemberWork) int32 {
	switch {
	case r == nil || r.Spec.Source.Kind != "CloneSet":
		return 0
	case placement.Acknowledged(r):
		return r.Spec.Grant.Replicas
	}
	return r.Spec.Grant.Subsets[0].Lower
}

// keepsDark is the rule that the grant of a cluster that doesn't answer stays.
func keepsDark(w *sim.World, c sim.Change) error {
	after, before := rowOf(c.After), rowOf(c.Before)
	if !arrived(c) || after == nil || after.Spec.Source.Kind != "CloneSet" {
		return nil
	}
	for _, mc := range sim.Cached[*fleetv1alpha1.MemberCluster](w) {
		if mc.Name != after.Labels[keys.FleetCluster] || report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady) {
			continue
		}
		if before == nil || before.Spec.Grant.Replicas != after.Spec.Grant.Replicas {
			return fmt.Errorf("%s changes the grant of %s", c.Request, mc.Name)
		}
	}
	return nil
}

// keepsMissing is the rule that the controller writes and deletes no row for a cluster whose MemberCluster it doesn't see.
func keepsMissing(w *sim.World, c sim.Change) error {
	r := rowOf(c.Before)
	if r == nil || !arrived(c) {
		return nil
	}
	for _, mc := range sim.Cached[*fleetv1alpha1.MemberCluster](w) {
		if mc.Name == r.Labels[keys.FleetCluster] {
			return nil
		}
	}
	return fmt.Errorf("%s, but its cluster is missing", c.Request)
}

// finalState describes what matters once nothing changes anymore.
func finalState(w *sim.World) string {
	var out []string
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		g := r.Spec.Grant
		line := fmt.Sprintf("%s in %s: %d ", r.Spec.Source.Kind, r.Labels[keys.FleetCluster], g.Replicas)
		names := make([]string, 0, len(g.Subsets))
		for _, s := range g.Subsets {
			names = append(names, s.Name)
		}
		out = append(out, line+strings.Join(names, " "))
	}
	slices.Sort(out)
	out = append(out, fmt.Sprintf("%d pods, %d ready", sum(w, "pods"), sum(w, "ready")))
	if set := sim.Find[*appsv1beta1.CloneSet](w, setKey); set != nil {
		s := set.Status
		out = append(out, fmt.Sprintf("CloneSet: %d, %d ready, observed=%t, held=%t", s.Replicas, s.ReadyReplicas, s.ObservedGeneration == set.Generation, len(set.Finalizers) > 0))
	}
	if ws := sim.Find[*appsv1beta1.WorkloadSpread](w, wsKey); ws != nil {
		for _, s := range ws.Status.SubsetStatuses {
			out = append(out, fmt.Sprintf("%s in %s: %d, %d missing, %d unschedulable, stale=%t", s.Name, s.Cluster, s.Replicas, s.MissingReplicas, s.UnschedulableReplicas, s.Stale))
			for _, c := range s.Conditions {
				out = append(out, fmt.Sprintf("  %s=%s %s", c.Type, c.Status, c.Reason))
			}
		}
		for _, c := range ws.Status.Conditions {
			out = append(out, fmt.Sprintf("%s=%s %s", c.Type, c.Status, c.Reason))
		}
		out = append(out, fmt.Sprintf("observed=%t, held=%t", ws.Status.ObservedGeneration == ws.Generation, len(ws.Finalizers) > 0))
	}
	return strings.Join(out, "\n")
}

// hub returns the objects of a hub with three members, on which nothing is placed yet.
func hub(w *world) []client.Object {
	w.cluster("east", "west", "north")
	w.o.target.SetFinalizers(nil)
	w.o.ws.Finalizers = nil
	out := []client.Object{w.o.target, w.o.ws, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}}
	for _, name := range []string{"east", "west", "north"} {
		out = append(out, w.o.slices.Clusters[name], &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "members", Name: name}, Data: map[string]string{"pods": "0"},
		})
	}
	return out
}

// withCapacity limits how many pods a cluster can schedule.
func withCapacity(objects []client.Object, name string, fits int) []client.Object {
	for _, o := range objects {
		if c, ok := o.(*corev1.ConfigMap); ok && c.Name == name {
			c.Data["fits"] = strconv.Itoa(fits)
		}
	}
	return objects
}

// ready returns a condition that is met once n pods are ready and the statuses say that everything is done.
func ready(n int) func(*sim.World) bool {
	return func(w *sim.World) bool {
		ws, set := sim.Find[*appsv1beta1.WorkloadSpread](w, wsKey), sim.Find[*appsv1beta1.CloneSet](w, setKey)
		return sum(w, "ready") == n && ws != nil && ws.Status.ObservedGeneration == ws.Generation &&
			set != nil && set.Status.ObservedGeneration == set.Generation && set.Status.ReadyReplicas == int32(n) &&
			report.IsConditionTrue(ws.Status.Conditions, appsv1beta1.WorkloadSpreadPlaced)
	}
}

func edit[T client.Object](name string, when func(*sim.World) bool, key types.NamespacedName, change func(T)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error { return sim.Set(ctx, w, key, change) }}
}

func scale(n int32, when func(*sim.World) bool) sim.Edit {
	return edit(fmt.Sprintf("scale to %d", n), when, setKey, func(s *appsv1beta1.CloneSet) { s.Spec.Replicas = &n })
}

func subsets(name string, when func(*sim.World) bool, list ...appsv1beta1.WorkloadSpreadSubset) sim.Edit {
	return edit(name, when, wsKey, func(ws *appsv1beta1.WorkloadSpread) { ws.Spec.Subsets = list })
}

func taint(name string, when func(*sim.World) bool, taints ...fleetv1alpha1.ClusterTaint) sim.Edit {
	return edit("taint "+name, when, types.NamespacedName{Name: name}, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Taints = taints })
}

// darken makes a cluster stop answering, or answer again.
func darken(name string, down bool, when func(*sim.World) bool) sim.Edit {
	return sim.Edit{Name: fmt.Sprintf("%s dark: %t", name, down), When: when, Do: func(ctx context.Context, w *sim.World) error {
		mc := joined(sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: name}))
		mc.Status.Conditions[0].Status = report.ConditionStatus(!down)
		return w.User().Status().Update(ctx, mc)
	}}
}

func remove[T client.Object](name string, when func(*sim.World) bool, key types.NamespacedName) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return w.User().Delete(ctx, sim.Find[T](w, key))
	}}
}

func stories() []sim.Scenario {
	two := func() *world { return newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", "")) }
	evict := fleetv1alpha1.ClusterTaint{Key: "upgrade", Effect: fleetv1alpha1.Evict}
	noPlace := fleetv1alpha1.ClusterTaint{Key: "upgrade", Effect: fleetv1alpha1.NoPlace}
	return []sim.Scenario{
		{Name: "placed", Objects: hub(two())},
		{Name: "scaled out and in", Objects: hub(two()), Edits: []sim.Edit{scale(12, ready(8)), scale(6, ready(12)), scale(2, ready(6))}},
		{Name: "subsets change", Objects: hub(two()), Edits: []sim.Edit{
			subsets("without east", ready(8), subsetIn("b", "west", "")), scale(10, nil),
			subsets("north first", ready(10), subsetIn("c", "north", "4"), subsetIn("a", "east", "3"), subsetIn("b", "west", "")),
		}},
		{Name: "a cluster is dark", Objects: hub(two()), Edits: []sim.Edit{
			darken("east", true, ready(8)), scale(12, nil), scale(6, nil), darken("east", false, nil), scale(3, nil),
		}},
		{Name: "a cluster is missing", Objects: hub(two()), Edits: []sim.Edit{
			remove[*fleetv1alpha1.MemberCluster]("east is missing", ready(8), types.NamespacedName{Name: "east"}), scale(10, nil),
			{Name: "east is created again", Do: func(ctx context.Context, w *sim.World) error {
				return w.User().Create(ctx, newWorld(1).cluster("east").o.slices.Clusters["east"])
			}},
		}},
		{Name: "a cluster is full", Objects: withCapacity(hub(two().adaptive()), "east", 3), Edits: []sim.Edit{scale(9, ready(8))}, Rules: []sim.Rule{
			{Name: "scheduled pods stay", State: func(w *sim.World) error {
				if r := member("east").row(w, "CloneSet"); r != nil && r.Spec.Grant.Replicas < 3 {
					return fmt.Errorf("east is granted %d", r.Spec.Grant.Replicas)
				}
				return nil
			}},
		}},
		{Name: "a cluster is full, and another is dark", Objects: withCapacity(hub(two().adaptive()), "east", 3), Edits: []sim.Edit{
			darken("west", true, nil), darken("west", false, nil),
		}},
		{Name: "a cluster is evicted", Objects: hub(two()), Edits: []sim.Edit{taint("east", ready(8), evict), taint("east", nil)}},
		{Name: "clusters of a selector", Objects: hub(newWorld(9, everywhere("all"))), Edits: []sim.Edit{
			taint("north", ready(9), noPlace), scale(12, nil), taint("north", nil, evict), darken("west", true, nil), taint("north", nil), darken("west", false, nil),
		}},
		{Name: "the WorkloadSpread is deleted", Objects: hub(two()), Edits: []sim.Edit{
			remove[*appsv1beta1.WorkloadSpread]("delete it", ready(8), wsKey),
			scale(9, func(w *sim.World) bool { return sim.Find[*appsv1beta1.WorkloadSpread](w, wsKey) == nil }),
		}},
		twoSpreads(),
		{Name: "the workload is deleted", Objects: hub(two()), Edits: []sim.Edit{
			darken("west", true, ready(8)), remove[*appsv1beta1.CloneSet]("delete it", nil, setKey), darken("west", false, nil),
		}},
		{Name: "a new image with a partition", Objects: hub(two()), Edits: []sim.Edit{
			edit("a partition", ready(8), setKey, func(s *appsv1beta1.CloneSet) {
				s.Spec.Template.Spec.Containers = []corev1.Container{{Name: "web", Image: "web:2"}}
				s.Spec.UpdateStrategy.RollingUpdate.Partition = new(intstr.FromInt32(4))
			}),
		}},
	}
}

// twoSpreads returns the story of a WorkloadSpread that has been placed when an older one with the same target appears. This happens if two are
// created at the same time, so that admission doesn't see the other one, and the cache shows the younger one first. Here the older one has
// another target at first.
func twoSpreads() sim.Scenario {
	w := newWorld(8, subsetIn("a", "east", "5"), subsetIn("b", "west", ""))
	older := w.o.ws.DeepCopy() // Both are created in the same second, so their names decide.
	older.Name, older.UID, older.Finalizers, older.Spec.TargetRef.Name = "older", "older", nil, "db"
	key := client.ObjectKeyFromObject(older)
	return sim.Scenario{Name: "two WorkloadSpreads have one target", Objects: append(hub(w), older), Edits: []sim.Edit{
		edit("the older one gets the target", ready(8), key, func(ws *appsv1beta1.WorkloadSpread) { ws.Spec.TargetRef.Name = "web" }),
		remove[*appsv1beta1.WorkloadSpread]("delete the younger one", func(w *sim.World) bool {
			return report.IsConditionTrue(sim.Find[*appsv1beta1.WorkloadSpread](w, key).Status.Conditions, appsv1beta1.WorkloadSpreadPlaced)
		}, wsKey),
	}}
}

func TestTheOlderOfTwoWorkloadSpreadsCountsInTheMembers(t *testing.T) {
	t.Parallel()
	story := twoSpreads()
	story.Edits = story.Edits[:1]
	for range 2 { // First while the younger one exists, then after it is deleted.
		var sources []string
		k := simulated(t)
		k.Summary = func(w *sim.World) string {
			for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
				sources = append(sources, r.Labels[keys.FleetCluster]+" "+r.Spec.Source.Name)
			}
			if ws := sim.Find[*appsv1beta1.WorkloadSpread](w, wsKey); ws != nil {
				require.Equal(t, reasonTargetTaken, report.GetCondition(ws.Status.Conditions, appsv1beta1.WorkloadSpreadPlaced).Reason)
				require.Empty(t, ws.Status.SubsetStatuses)
				require.Empty(t, ws.Finalizers)
			}
			return finalState(w)
		}
		require.NoError(t, sim.Run(t.Context(), k, story, sim.Schedule{}).Err)
		require.ElementsMatch(t, []string{"east older", "east web", "west older", "west web"}, sources)
		story = twoSpreads()
	}
}

func TestAWorkloadSpreadThatIsDeletedWhileItIsReadHasNoYoungerOnes(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, errors.Join(corev1.AddToScheme(scheme), appsv1beta1.AddToScheme(scheme), fleetv1alpha1.AddToScheme(scheme)))
	w := newWorld(8, subsetIn("a", "east", ""))
	younger := w.o.ws.DeepCopy()
	younger.Name, younger.UID = "younger", "younger"
	b := fake.NewClientBuilder().WithScheme(scheme).WithObjects(w.o.target, w.o.ws, younger)
	indexes := testkit.Indexes{Builder: b}
	require.NoError(t, errors.Join(row.IndexBySource(t.Context(), indexes), scaletarget.IndexSpreads(t.Context(), indexes)))
	c := interceptor.NewClient(b.Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if key == wsKey {
				return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
			}
			return c.Get(ctx, key, o, opts...)
		},
	})
	clock := clocktesting.NewFakePassiveClock(w.now)
	r := newReconciler(cloneSets(), c, c, placement.Options{Store: row.NewStore(c, []byte("key"), clock), Events: &testkit.Events{}, Clock: clock})
	o, err := r.observe(t.Context(), setKey)
	require.NoError(t, err)
	require.Nil(t, o.ws)
	require.Empty(t, o.younger, "their statuses name the older one")
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 6 * time.Minute}, stories()...)
}

func TestWritesOfAPlacement(t *testing.T) {
	t.Parallel()
	r := sim.Run(t.Context(), simulated(t), stories()[0], sim.Schedule{})
	require.NoError(t, r.Err)
	require.Equal(t, map[string]int{
		"patch workloadspread": 1, "patch cloneset": 1, "create workcontent": 2, "create memberwork": 4, "patch workloadspread/status": 5, "patch cloneset/status": 2,
	}, r.Sent)
}

// Each of these breaks a rule on purpose.
func TestEachRuleIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	grant := func(change func(r *fleetv1alpha1.MemberWork, g *fleetv1alpha1.SubsetGrant)) func(context.Context, client.Client, *fleetv1alpha1.MemberWork) error {
		return func(ctx context.Context, c client.Client, r *fleetv1alpha1.MemberWork) error {
			next := r.DeepCopy()
			g := &next.Spec.Grant.Subsets[0]
			g.Lower, g.Upper = g.Replicas, g.Replicas
			change(next, g)
			next.Spec.Grant.Replicas = g.Replicas
			return c.Update(ctx, next)
		}
	}
	fewer := func(n int32) func(context.Context, client.Client, *fleetv1alpha1.MemberWork) error {
		return grant(func(_ *fleetv1alpha1.MemberWork, g *fleetv1alpha1.SubsetGrant) { g.Replicas, g.Lower = n, n })
	}
	for _, tc := range []struct {
		rule string
		// subsetIn is the scenario in which a rogue controller stops its normal work and does that to the copy of east, once it exists and is due.
		in  string
		due func(context.Context, client.Client, *fleetv1alpha1.MemberWork) bool
		do  func(context.Context, client.Client, *fleetv1alpha1.MemberWork) error
	}{
		{"deletions name the UID", "placed", nil, func(ctx context.Context, c client.Client, r *fleetv1alpha1.MemberWork) error {
			return c.Delete(ctx, r)
		}},
		{"grants do not exceed the desired replicas plus surge", "placed", nil, grant(func(_ *fleetv1alpha1.MemberWork, g *fleetv1alpha1.SubsetGrant) {
			g.Replicas, g.Upper = 20, 20
		})},
		{"replicas are removed only once others are available", "placed", nil, fewer(1)},
		{"a cluster that does not answer keeps its grant", "a cluster is dark", func(ctx context.Context, c client.Client, _ *fleetv1alpha1.MemberWork) bool {
			mc := &fleetv1alpha1.MemberCluster{}
			return c.Get(ctx, client.ObjectKey{Name: "east"}, mc) == nil && !report.IsConditionTrue(mc.Status.Conditions, fleetv1alpha1.ConditionReady)
		}, grant(func(_ *fleetv1alpha1.MemberWork, g *fleetv1alpha1.SubsetGrant) { g.Replicas-- })},
		{"nothing is withdrawn from a cluster that is missing", "a cluster is missing", func(ctx context.Context, c client.Client, _ *fleetv1alpha1.MemberWork) bool {
			return c.Get(ctx, client.ObjectKey{Name: "east"}, &fleetv1alpha1.MemberCluster{}) != nil
		}, func(ctx context.Context, c client.Client, r *fleetv1alpha1.MemberWork) error {
			return c.Delete(ctx, r, client.Preconditions{UID: &r.UID})
		}},
		{"scheduled pods stay", "a cluster is full", func(_ context.Context, _ client.Client, r *fleetv1alpha1.MemberWork) bool {
			return r.Status.Counts.Available == 3
		}, fewer(2)},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			k.Rules = slices.DeleteFunc(k.Rules, func(r sim.Rule) bool { return r.Name != tc.rule }) // A change may break several rules.
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				done := false
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					east := &fleetv1alpha1.MemberWorkList{}
					if err := p.Client.List(ctx, east, client.InNamespace(fleetv1alpha1.Namespace("east"))); err != nil || done {
						return reconcile.Result{}, err
					}
					for _, copied := range east.Items {
						applied := copied.Spec.Source.Kind == "CloneSet" && placement.Acknowledged(&copied)
						if applied && (tc.due == nil && copied.Status.Counts.Available == 5 || tc.due != nil && tc.due(ctx, p.Client, &copied)) {
							done = true
							return reconcile.Result{}, tc.do(ctx, p.Client, &copied)
						}
					}
					return r.Reconcile(ctx, req)
				}), err
			}
			all := stories()
			s := all[slices.IndexFunc(all, func(s sim.Scenario) bool { return s.Name == tc.in })]
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, tc.rule)
		})
	}
}
