package propagation

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/allot"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func webAt() types.NamespacedName { return types.NamespacedName{Namespace: shop, Name: "web"} }

// runner is a member with its controllers: it applies its rows, and runs what the manifest of the Deployment says. A ConfigMap holds what it
// has applied and runs. What it reports may be out of date.
type runner string

func runners() []runner { return []runner{"east", "north", "west"} }

func (m runner) key() types.NamespacedName {
	return types.NamespacedName{Namespace: "members", Name: string(m)}
}

func (m runner) number(w *sim.World, name string) int {
	c := sim.Find[*corev1.ConfigMap](w, m.key())
	if c == nil {
		return 0
	}
	n, _ := strconv.Atoi(c.Data[name])
	return n
}

func (m runner) set(ctx context.Context, w *sim.World, values ...any) error {
	return sim.Set(ctx, w, m.key(), func(c *corev1.ConfigMap) {
		for i := 0; i < len(values); i += 2 {
			c.Data[values[i].(string)] = fmt.Sprint(values[i+1])
		}
	})
}

func countPods(w *sim.World, name string) int {
	n := 0
	for _, m := range runners() {
		n += m.number(w, name)
	}
	return n
}

// Steps implements sim.Actor.
func (m runner) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	do := func(f func(context.Context) error) { out = append(out, sim.Step{Do: f}) }
	mc := sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: string(m)})
	if sim.Find[*corev1.ConfigMap](w, m.key()) == nil {
		return nil
	}
	if ready := m.number(w, "ready"); ready < m.number(w, "pods") { // Even while the hub gets no reports from it.
		do(func(ctx context.Context) error { return m.set(ctx, w, "ready", ready+1) })
	}
	switch {
	case mc == nil:
		return out
	case mc.Status.Phase == "": // The cluster joins.
		next := mc.DeepCopy()
		next.Status = member(mc.Name).Status
		do(func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Status().Update(ctx, next)) })
		return out
	case mc.Status.Phase != fleetv1alpha1.ClusterReady:
		return out
	}
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		if r.Namespace != fleetv1alpha1.Namespace(string(m)) {
			continue
		}
		applied := r.Spec.Object.Kind + " " + r.Spec.Object.Name
		switch {
		case r.DeletionTimestamp != nil:
			do(func(ctx context.Context) error { return m.remove(ctx, w, r, applied) })
		case r.Spec.Suspend:
		case m.number(w, applied) != int(r.Generation):
			do(func(ctx context.Context) error { return m.apply(ctx, w, r, applied) })
		default:
			if next := m.report(w, r); fmt.Sprint(next.Status) != fmt.Sprint(r.Status) {
				do(func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Status().Update(ctx, next)) })
			}
		}
	}
	return out
}

func (m runner) remove(ctx context.Context, w *sim.World, r *fleetv1alpha1.MemberWork, applied string) error {
	values := []any{applied, 0}
	if r.Spec.Object.Kind == "Deployment" && r.Spec.DeletionPolicy == fleetv1alpha1.LeaveDelete {
		values = append(values, "pods", 0, "ready", 0)
	}
	if err := m.set(ctx, w, values...); err != nil {
		return err
	}
	next := r.DeepCopy()
	next.Finalizers = nil
	return client.IgnoreNotFound(w.User().Update(ctx, next))
}

// replicasRequested returns how many replicas the manifest of a row requests.
func replicasRequested(w *sim.World, r *fleetv1alpha1.MemberWork) (int, error) {
	content := sim.Find[*fleetv1alpha1.WorkContent](w, types.NamespacedName{Namespace: fleetv1alpha1.SystemNamespace, Name: r.Spec.Content.Name()})
	if content == nil {
		return 0, fmt.Errorf("row %s has no content", r.Name)
	}
	raw, err := row.Merge([]byte(content.Manifest), r.Spec.Patch.Raw)
	if err != nil {
		return 0, err
	}
	d := &appsv1.Deployment{}
	if err := json.Unmarshal(raw, d); err != nil {
		return 0, err
	}
	if g, has := granted(r); has && g.Replicas != *d.Spec.Replicas {
		return 0, fmt.Errorf("row %s is granted %d but requests %d", r.Name, g.Replicas, *d.Spec.Replicas)
	}
	return int(*d.Spec.Replicas), nil
}

func (m runner) apply(ctx context.Context, w *sim.World, r *fleetv1alpha1.MemberWork, applied string) error {
	if r.Spec.Object.Kind != "Deployment" {
		return m.set(ctx, w, applied, r.Generation)
	}
	n, err := replicasRequested(w, r)
	if err != nil {
		return err
	}
	had := m.number(w, "pods")
	if err := m.set(ctx, w, applied, r.Generation, "pods", n, "ready", min(m.number(w, "ready"), n)); err != nil {
		return err
	}
	if all, most := countPods(w, "pods"), maxRequested(w)+lateGrowth(w); n > had && all > most {
		return fmt.Errorf("%d pods run, but at most %d may", all, most)
	}
	return nil
}

func (m runner) report(w *sim.World, r *fleetv1alpha1.MemberWork) *fleetv1alpha1.MemberWork {
	next := r.DeepCopy()
	next.Status = fleetv1alpha1.MemberWorkStatus{ObservedGeneration: r.Generation, Phase: fleetv1alpha1.WorkHealthy}
	if r.Spec.Object.Kind == "Deployment" {
		replicas, ready := int32(m.number(w, "pods")), int32(m.number(w, "ready"))
		next.Status.Counts = fleetv1alpha1.WorkCounts{Desired: replicas, Replicas: replicas, Ready: ready, Available: ready, Updated: replicas}
		if ready < replicas {
			next.Status.Phase = fleetv1alpha1.WorkProgressing
		}
	}
	return next
}

// maxReplicas returns the maximum number of replicas that a Deployment and a Propagation allow to run.
func maxReplicas(d *appsv1.Deployment, p *fleetv1alpha1.Propagation) int {
	n := int(*d.Spec.Replicas)
	if !divides(&p.Spec) {
		return n * len(runners())
	}
	return n + allot.DefaultSurge(n)
}

// maxRequested returns the maximum that users have ever allowed to run.
func maxRequested(w *sim.World) int {
	p, d := sim.Find[*fleetv1alpha1.Propagation](w, webAt()), sim.Find[*appsv1.Deployment](w, webAt())
	most := 0
	if p != nil && d != nil {
		most = maxReplicas(d, p)
	}
	for _, c := range w.Changes() {
		for _, o := range []client.Object{c.Before, c.After} {
			switch object := o.(type) {
			case *appsv1.Deployment:
				if object != nil && p != nil {
					most = max(most, maxReplicas(object, p))
				}
			case *fleetv1alpha1.Propagation:
				if object != nil && d != nil {
					most = max(most, maxReplicas(d, object))
				}
			}
		}
	}
	return most
}

// lateGrowth returns how many more replicas late writes allow to run. Nothing can prevent them.
func lateGrowth(w *sim.World) int {
	n := 0
	for _, change := range w.Changes() {
		if change.Late && change.Err == nil {
			n += max(upperOf(w, deployed(change.After))-upperOf(w, deployed(change.Before)), 0)
		}
	}
	return n
}

// deployed returns the row of the Deployment, or nil.
func deployed(o client.Object) *fleetv1alpha1.MemberWork {
	r, _ := o.(*fleetv1alpha1.MemberWork)
	if r == nil || r.Spec.Object == nil || r.Spec.Object.Kind != "Deployment" {
		return nil
	}
	return r
}

func arrived(c sim.Change) bool { return c.Err == nil && !c.Late }

// upperOf and lowerOf return the maximum and the minimum that a row allows to run.
func upperOf(w *sim.World, r *fleetv1alpha1.MemberWork) int { return limitOf(w, r, true) }
func lowerOf(w *sim.World, r *fleetv1alpha1.MemberWork) int { return limitOf(w, r, false) }

func limitOf(w *sim.World, r *fleetv1alpha1.MemberWork, upper bool) int {
	if r == nil {
		return 0
	}
	g, has := granted(r)
	switch {
	case !has:
		n, _ := replicasRequested(w, r)
		return n
	case placement.Acknowledged(r):
		return int(g.Replicas)
	case upper:
		return int(g.Upper)
	}
	return int(g.Lower)
}

// findSource returns the Deployment and the Propagation as the controller knows them, and whether the Propagation divides the Deployment.
func findSource(w *sim.World) (*appsv1.Deployment, *fleetv1alpha1.Propagation, bool) {
	ds, ps := sim.Cached[*appsv1.Deployment](w), sim.Cached[*fleetv1alpha1.Propagation](w)
	if len(ds) == 0 || len(ps) == 0 || ps[0].DeletionTimestamp != nil || !divides(&ps[0].Spec) {
		return nil, nil, false
	}
	return ds[0], ps[0], true
}

// grantsAtMost is the rule that a write that allows more to run stays within the replicas that the controller knows of and their surge (I3).
func grantsAtMost(w *sim.World, c sim.Change) error {
	before, after := deployed(c.Before), deployed(c.After)
	d, p, ok := findSource(w)
	if !ok || !arrived(c) || after == nil || upperOf(w, after) <= upperOf(w, before) {
		return nil
	}
	sum := 0
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		sum += upperOf(w, deployed(r))
	}
	if most := maxReplicas(d, p) + lateGrowth(w); sum > most {
		return fmt.Errorf("%d may run after %s, but the maximum is %d", sum, c.Request, most)
	}
	return nil
}

// shrinksSurely is the rule that a write that allows fewer to run leaves as many as are requested, counting those that the controller knows
// to be available (I4).
func shrinksSurely(w *sim.World, c sim.Change) error {
	before, after := deployed(c.Before), deployed(c.After)
	d, _, ok := findSource(w)
	if !ok || !arrived(c) || before == nil || lowerOf(w, after) >= lowerOf(w, before) {
		return nil
	}
	previously, now := 0, 0
	for _, r := range sim.Cached[*fleetv1alpha1.MemberWork](w) {
		live := sim.Find[*fleetv1alpha1.MemberWork](w, client.ObjectKeyFromObject(r))
		if live == nil || deployed(live) == nil {
			continue
		}
		available := int(r.Status.Counts.Available)
		now += min(available, lowerOf(w, live))
		if live.UID == before.UID {
			live = before
		}
		previously += min(available, lowerOf(w, live))
	}
	if least := min(previously, int(*d.Spec.Replicas)); now < least {
		return fmt.Errorf("%d are certain to be available after %s, but before there were %d", now, c.Request, previously)
	}
	return nil
}

// keepsDark is the rule that the grant of a cluster that doesn't answer stays, and so does its row (I6, I13).
func keepsDark(w *sim.World, c sim.Change) error {
	before, after := deployed(c.Before), deployed(c.After)
	if _, _, ok := findSource(w); !ok || !arrived(c) || before == nil {
		return nil
	}
	for _, mc := range sim.Cached[*fleetv1alpha1.MemberCluster](w) {
		if mc.Name == before.Labels[keys.FleetCluster] && mc.Status.Phase == fleetv1alpha1.ClusterReady {
			return nil
		}
	}
	if c.Verb == sim.Delete || after != nil && after.Spec.Grant.Replicas != before.Spec.Grant.Replicas && !placedBefore(before) {
		return fmt.Errorf("%s changes the grant of a cluster that does not answer", c.Request)
	}
	return nil
}

// placedBefore reports whether the row is from before the division.
func placedBefore(r *fleetv1alpha1.MemberWork) bool {
	_, has := granted(r)
	return !has
}

// deletesNothing is the rule that a row is withdrawn only if no pods are left, and the rows of the pods' dependencies only after the
// workload's row.
func deletesNothing(w *sim.World, c sim.Change) error {
	r, ok := c.Before.(*fleetv1alpha1.MemberWork)
	if _, _, divides := findSource(w); !ok || !divides || c.Verb != sim.Delete || !arrived(c) {
		return nil
	}
	if n := runner(r.Labels[keys.FleetCluster]).number(w, "pods"); n > 0 {
		return fmt.Errorf("%s, and %d pods are there", c.Request, n)
	}
	if r.Spec.Object.Kind == "Deployment" {
		return nil
	}
	for _, other := range sim.All[*fleetv1alpha1.MemberWork](w) {
		if other.Namespace == r.Namespace && deployed(other) != nil {
			return fmt.Errorf("%s, and the Deployment is still there", c.Request)
		}
	}
	return nil
}

func simulatedDivision(tb testing.TB) sim.Kind {
	tb.Helper()
	k := simulated(tb)
	k.Actors = []sim.Actor{sim.Collector{}}
	for _, m := range runners() {
		k.Actors = append(k.Actors, m)
	}
	k.Rules = []sim.Rule{
		sim.DeletesByUID(), oneRowPerCluster(),
		{Name: "grants do not exceed the desired replicas plus surge", Write: grantsAtMost},
		{Name: "replicas are removed only once others are available", Write: shrinksSurely},
		{Name: "a cluster that does not answer keeps its grant", Write: keepsDark},
		{Name: "nothing is deleted because of a division", Write: deletesNothing},
	}
	k.Summary = func(w *sim.World) string { return formatGrants(w) + "\n" + finalState(w) }
	return k
}

// formatGrants returns what each cluster is granted and runs.
func formatGrants(w *sim.World) string {
	var out []string
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		if deployed(r) == nil {
			continue
		}
		name := r.Labels[keys.FleetCluster]
		n, err := replicasRequested(w, r)
		out = append(out, fmt.Sprintf("%s=%d/%d", name, runner(name).number(w, "ready"), n))
		if err != nil {
			out = append(out, err.Error())
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// divisionStory is a scenario, and what the clusters run in the end: available of granted.
type divisionStory struct {
	sim.Scenario

	end string
}

func divisionStories() []divisionStory {
	weighted := fleetv1alpha1.DivisionWeighted
	deployment := func(n int32) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web", Generation: 1}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
		d.Spec.Replicas = &n
		return d
	}
	web := func(how *fleetv1alpha1.PropagationReplicas) *fleetv1alpha1.Propagation {
		p := propagation("web", labelled("web"), fleetv1alpha1.PropagationSelector{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"})
		p.Spec.Replicas = how
		return p
	}
	world := func(how *fleetv1alpha1.PropagationReplicas, n int32, clusters ...string) []client.Object {
		out := []client.Object{
			&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}, configMap("a", "blue"), deployment(n), web(how),
		}
		for _, name := range clusters {
			out = append(out, member(name))
		}
		for _, m := range runners() {
			out = append(out, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.key().Namespace, Name: m.key().Name}, Data: map[string]string{"pods": "0"}})
		}
		return out
	}
	all := func(n int) func(*sim.World) bool { // All are available, and the status says that everything is done.
		return func(w *sim.World) bool {
			p := sim.Find[*fleetv1alpha1.Propagation](w, webAt())
			return countPods(w, "ready") == n && p != nil && p.Status.ObservedGeneration == p.Generation && p.Status.Healthy == p.Status.Desired &&
				slices.ContainsFunc(p.Status.Conditions, func(c metav1.Condition) bool {
					return c.Type == fleetv1alpha1.PropagationPlaced && c.Status == metav1.ConditionTrue
				})
		}
	}
	edit := func(name string, when func(*sim.World) bool, do func(context.Context, *sim.World) error) sim.Edit {
		return sim.Edit{Name: name, When: when, Do: do}
	}
	divide := func(when func(*sim.World) bool, how *fleetv1alpha1.PropagationReplicas) sim.Edit {
		return edit(fmt.Sprint("divide ", how), when, func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, webAt(), func(p *fleetv1alpha1.Propagation) { p.Spec.Replicas = how })
		})
	}
	scale := func(when func(*sim.World) bool, n int32) sim.Edit {
		return edit(fmt.Sprint("scale to ", n), when, func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, webAt(), func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
		})
	}
	suspend := func(when func(*sim.World) bool, s *fleetv1alpha1.PropagationSuspend) sim.Edit {
		return edit(fmt.Sprint("suspend ", s), when, func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, webAt(), func(p *fleetv1alpha1.Propagation) { p.Spec.Suspend = s })
		})
	}
	cluster := func(what, name string, when func(*sim.World) bool, do func(*fleetv1alpha1.MemberCluster)) sim.Edit {
		return edit(name+what, when, func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Name: name}, do)
		})
	}
	tier := func(value string, when func(*sim.World) bool) sim.Edit {
		return cluster(" is in "+value, "east", when, func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = map[string]string{"tier": value} })
	}
	taint := func(name string, when func(*sim.World) bool, taints ...fleetv1alpha1.ClusterTaint) sim.Edit {
		return cluster(fmt.Sprint(" has taints ", len(taints)), name, when, func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Taints = taints })
	}
	dark := func(name string, down bool, when func(*sim.World) bool) sim.Edit {
		return edit(fmt.Sprintf("%s dark=%t", name, down), when, func(ctx context.Context, w *sim.World) error {
			mc := sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: name}).DeepCopy()
			mc.Status = member(name).Status
			if down {
				mc.Status.Phase, mc.Status.Conditions[0].Status = fleetv1alpha1.ClusterUnreachable, metav1.ConditionFalse
			}
			return w.User().Status().Update(ctx, mc)
		})
	}
	evict := fleetv1alpha1.ClusterTaint{Key: "upgrade", Effect: fleetv1alpha1.Evict}
	two := func() []client.Object {
		return world(dividedBy(weighted, "east*2", "west*1", "north*3"), 6, "east", "west")
	}
	story := func(name, end string, objects []client.Object, edits ...sim.Edit) divisionStory {
		return divisionStory{sim.Scenario{Name: name, Objects: objects, Edits: edits}, end}
	}
	return []divisionStory{
		story("by weights", "east=4/4 west=2/2", two()),
		story("scaled out and in", "east=2/2 west=1/1", two(), scale(all(6), 12), scale(all(12), 3)),
		story("other weights", "east=1/1 west=5/5", two(), divide(all(6), dividedBy(weighted, "east*1", "west*5"))),
		story("in order", "east=2/2 west=4/4", two(), divide(all(6), dividedBy(fleetv1alpha1.DivisionOrdered, "west<4", "east"))),
		story("duplicated, then divided", "east=4/4 west=2/2", world(nil, 6, "east", "west"), divide(all(12), dividedBy(weighted, "east*2", "west*1"))),
		story("divided, then duplicated", "east=6/6 west=6/6", two(), divide(all(6), nil)),
		story("a cluster is added", "east=2/2 north=3/3 west=1/1", two(), edit("create north", all(6), func(ctx context.Context, w *sim.World) error {
			return w.User().Create(ctx, member("north"))
		})),
		story("a cluster is no longer selected", "west=6/6", two(), tier("db", all(6))),
		story("a cluster is no longer selected, and then again", "east=4/4 west=2/2", two(), tier("db", all(6)), tier("web", nil)),
		story("a cluster is evicted", "east=6/6", two(), taint("west", all(6), evict)),
		story("a cluster is evicted, and then the taint is removed", "east=4/4 west=2/2", two(), taint("west", all(6), evict), taint("west", nil)),
		story("a cluster is dark during a scale-out, and then answers again", "east=8/8 west=4/4", two(), dark("west", true, all(6)), scale(nil, 12), dark("west", false, nil)),
		story("a cluster is dark and no longer selected", "west=6/6", two(), dark("east", true, all(6)), tier("db", nil), dark("east", false, nil)),
		story("a cluster is dark while weights change", "east=1/1 west=5/5", two(),
			dark("east", true, all(6)), divide(nil, dividedBy(weighted, "east*1", "west*5")), dark("east", false, nil)),
		story("a MemberCluster disappears", "east=10/10 west=2/2", two(), edit("delete west", all(6), func(ctx context.Context, w *sim.World) error {
			return w.User().Delete(ctx, member("west"))
		}), scale(reports(placement.ReasonUnknownCluster), 12)),
		story("a cluster is suspended during a scale-out, and resumed", "east=8/8 west=4/4", two(),
			suspend(all(6), &fleetv1alpha1.PropagationSuspend{Clusters: []string{"west"}}), scale(nil, 12), suspend(nil, nil)),
		story("the Propagation is deleted", "", two(), edit("delete it", all(6), func(ctx context.Context, w *sim.World) error {
			return w.User().Delete(ctx, web(nil))
		})),
	}
}

func TestDivisionsEndAsTheySay(t *testing.T) {
	t.Parallel()
	for _, s := range divisionStories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulatedDivision(t), s.Scenario, sim.Schedule{})
			require.NoError(t, r.Err, strings.Join(r.Story, "\n"))
			first, _, _ := strings.Cut(r.Summary, "\n")
			require.Equal(t, s.end, first, r.Summary)
		})
	}
}

func divisionScenarios() []sim.Scenario {
	var out []sim.Scenario
	for _, s := range divisionStories() {
		out = append(out, s.Scenario)
	}
	return out
}

// Each of these breaks a rule on purpose.
func TestEachRuleOfADivisionIsBrokenByWhoBreaksIt(t *testing.T) {
	t.Parallel()
	grant := func(change func(*fleetv1alpha1.SubsetGrant)) func(context.Context, client.Client, *fleetv1alpha1.MemberWork) error {
		return func(ctx context.Context, c client.Client, r *fleetv1alpha1.MemberWork) error {
			next := r.DeepCopy()
			g := &next.Spec.Grant.Subsets[0]
			change(g)
			next.Spec.Grant.Replicas = g.Replicas
			next.Spec.Patch.Raw = fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, g.Replicas)
			return c.Update(ctx, next)
		}
	}
	remove := func(ctx context.Context, c client.Client, r *fleetv1alpha1.MemberWork) error {
		return c.Delete(ctx, r, client.Preconditions{UID: &r.UID})
	}
	for _, tt := range []struct {
		rule string
		// in is the story in which a rogue controller stops its normal work and does that to the row of east, once it is due.
		in  string
		due func(context.Context, client.Client) bool
		do  func(context.Context, client.Client, *fleetv1alpha1.MemberWork) error
	}{
		{"grants do not exceed the desired replicas plus surge", "by weights", nil, grant(func(g *fleetv1alpha1.SubsetGrant) { g.Replicas, g.Upper = 20, 20 })},
		{"replicas are removed only once others are available", "by weights", nil, grant(func(g *fleetv1alpha1.SubsetGrant) { g.Replicas, g.Lower = 1, 1 })},
		{
			"a cluster that does not answer keeps its grant", "a cluster is dark while weights change", func(ctx context.Context, c client.Client) bool {
				mc := &fleetv1alpha1.MemberCluster{}
				return c.Get(ctx, client.ObjectKey{Name: "east"}, mc) == nil && mc.Status.Phase == fleetv1alpha1.ClusterUnreachable
			}, grant(func(g *fleetv1alpha1.SubsetGrant) { g.Replicas, g.Lower = 1, 1 }),
		},
		{"nothing is deleted because of a division", "by weights", nil, remove},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			t.Parallel()
			k := simulatedDivision(t)
			k.Rules = slices.DeleteFunc(k.Rules, func(r sim.Rule) bool { return r.Name != tt.rule }) // A change may break several rules.
			inner := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				r, err := inner(p)
				done := false
				return reconcile.Func(func(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
					rows := &fleetv1alpha1.MemberWorkList{}
					if err := p.Client.List(ctx, rows, client.InNamespace(fleetv1alpha1.Namespace("east"))); err != nil || done {
						return reconcile.Result{}, err
					}
					for i := range rows.Items {
						live := deployed(&rows.Items[i])
						if live != nil && placement.Acknowledged(live) && live.Status.Counts.Available == 4 && (tt.due == nil || tt.due(ctx, p.Client)) {
							done = true
							return reconcile.Result{}, tt.do(ctx, p.Client, live)
						}
					}
					return r.Reconcile(ctx, req)
				}), err
			}
			all := divisionScenarios()
			s := all[slices.IndexFunc(all, func(s sim.Scenario) bool { return s.Name == tt.in })]
			require.ErrorContains(t, sim.Run(t.Context(), k, s, sim.Schedule{}).Err, tt.rule)
		})
	}
}
