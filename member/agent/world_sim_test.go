//go:build !integration

package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/propagation"
	"github.com/flotilla-io/flotilla/hub/resourcedistribution"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/hub/uniteddeployment"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	unitedrules "github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// In the simulations of this file, the hub's controller and the agents of two members run in one world. Each is a process that crashes
// independently. The hub and the members are separate clusters.

const worldHub = "hub-uid"

// worldClock is the clock of the world; the controller of rows only reads it.
type worldClock struct {
	clock.WithTicker
	clock.PassiveClock
}

func (c worldClock) Now() time.Time                  { return c.PassiveClock.Now() }
func (c worldClock) Since(t time.Time) time.Duration { return c.PassiveClock.Since(t) }

// simulatedAgent returns the agent of a member, without watches on what it has applied. An event on any object of the member enqueues all of
// its rows, and each object is read from the apiserver.
func simulatedAgent(tb testing.TB, member string, slice client.Object) sim.Kind {
	tb.Helper()
	rowsOf := func(w *sim.World, before, after client.Object) []reconcile.Request {
		o := after
		if o == nil {
			o = before
		}
		if cluster, _ := sim.Place(o); cluster != member {
			return nil
		}
		return rowsIn(w, member)
	}
	return sim.Kind{
		Name: "agent of " + member,
		For:  &fleetv1alpha1.MemberWork{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			slice:                          rowsOf,
			&fleetv1alpha1.MemberCluster{}: func(w *sim.World, _, _ client.Object) []reconcile.Request { return rowsIn(w, member) },
		},
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			cached, live := p.In(member)
			ledger, err := newLedger(tb.Context(), cached, live)
			if err != nil {
				return nil, err
			}
			find := finder{reader: live, mapper: cached.RESTMapper()}
			bound := &binding{state: bindingState{ours: true, permission: permission{mayAct: true, hubUID: worldHub, epoch: 3, hubEpoch: 3}}}
			return gatedAgent{member: member, hub: p.Live, rows: &rowReconciler{
				link: link.Link{
					Cluster: member, Hub: connection{cached: p.Client, live: p.Live}, Member: connection{cached: cached, live: live},
					Events: &testkit.Events{}, Clock: worldClock{PassiveClock: p.Clock},
				},
				binding: bound, ledger: ledger, find: find,
				writer:  writer{client: cached, reader: live, find: find, ledger: ledger},
				watches: newWatches(nil), memory: newMemory(), breaker: newBreaker(), started: p.Clock.Now(), enqueueBinding: func() {},
				throttle: report.Throttle{Interval: reportEvery},
			}}, nil
		},
	}
}

// rowsIn returns requests for the rows of members.
func rowsIn(w *sim.World, members ...string) []reconcile.Request {
	var out []reconcile.Request
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		if slices.ContainsFunc(members, func(m string) bool { return r.Namespace == fleetv1alpha1.Namespace(m) }) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(r)})
		}
	}
	return out
}

// gatedAgent is an agent that sees the rows of its member, or none while the hub does not reach it.
type gatedAgent struct {
	member string
	hub    client.Reader
	rows   *rowReconciler
}

func (c gatedAgent) Reconcile(ctx context.Context, r reconcile.Request) (reconcile.Result, error) {
	if r.Namespace != fleetv1alpha1.Namespace(c.member) {
		return reconcile.Result{}, nil
	}
	mc := &fleetv1alpha1.MemberCluster{}
	if err := c.hub.Get(ctx, client.ObjectKey{Name: c.member}, mc); err != nil {
		return reconcile.Result{}, client.IgnoreNotFound(err)
	}
	if mc.Status.Phase != fleetv1alpha1.ClusterReady {
		return reconcile.Result{}, nil
	}
	return c.rows.Reconcile(ctx, r)
}

// distributionController is the member's own controller of ResourceDistributions. It reports that it has copied everything it finds.
type distributionController struct{}

func (distributionController) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, rd := range sim.All[*appsv1beta1.ResourceDistribution](w) {
		if member, _ := sim.Place(rd); member != "" && rd.Status.ObservedGeneration != rd.Generation {
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				live := &appsv1beta1.ResourceDistribution{}
				if err := w.In(member).Get(ctx, client.ObjectKey{Name: rd.Name}, live); err != nil {
					return client.IgnoreNotFound(err)
				}
				live.Status = appsv1beta1.ResourceDistributionStatus{ObservedGeneration: live.Generation, Desired: 3, Succeeded: 3}
				return w.In(member).Status().Update(ctx, live)
			}})
		}
	}
	return out
}

// kindUnderTest is what the simulation of a kind adds.
type kindUnderTest struct {
	// key is the object on the hub. slice is an empty object of the kind that members get; nil means the same kind.
	key   types.NamespacedName
	slice client.Object
	// owns are empty objects of the kinds that the hub writes for the object.
	owns   []client.Object
	actors []sim.Actor
	rules  []sim.Rule
	// members are the clusters; nil means members().
	members []string
	// line describes an object on the hub or its slice in that cluster.
	line func(w *sim.World, cluster string, o client.Object) string
}

// fleet returns a hub that places objects of the kind, including the sweep and the end of rows, and the agents of two members.
func fleet[O placement.Observed, P placement.Planned, S any](
	tb testing.TB, kind func(placement.Options, client.Reader) placement.Kind[O, P, S], t kindUnderTest,
) sim.Kind {
	tb.Helper()
	if t.members == nil {
		t.members = members()
	}
	var agents []sim.Kind
	k := kind(placement.Options{}, nil)
	slice, sliceKind := t.slice, k.Name
	if slice == nil {
		slice = k.Object()
	} else {
		sliceKind = slice.GetObjectKind().GroupVersionKind().Kind
	}
	for _, member := range t.members {
		agents = append(agents, simulatedAgent(tb, member, slice))
	}
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, appsv1beta1.AddToScheme, fleetv1alpha1.AddToScheme} {
		require.NoError(tb, add(scheme))
	}
	all := func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: t.key}}
	}
	store := func(p sim.Process) *row.Store { return row.NewStore(p.Client, []byte("key"), p.Clock) }
	hub := sim.Kind{
		Scheme: scheme, Name: "hub",
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			o := placement.Options{Store: store(p), Events: &testkit.Events{}, Clock: p.Clock}
			return kind(o, p.Client).New(o, p.Client, p.Live), nil
		},
		Index: k.Index,
		For:   k.Object(),
		Owns:  t.owns,
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&fleetv1alpha1.MemberWork{}: all, &fleetv1alpha1.MemberCluster{}: all,
			&fleetv1alpha1.WorkContent{}: func(*sim.World, client.Object, client.Object) []reconcile.Request { return nil },
		},
		Beside: []sim.Kind{
			{
				For: &fleetv1alpha1.MemberWork{},
				New: func(p sim.Process) (reconcile.Reconciler, error) { return &row.Finisher{Client: p.Client}, nil },
			},
			{
				For: &fleetv1alpha1.MemberWork{},
				Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
					k.Object(): func(w *sim.World, _, after client.Object) []reconcile.Request {
						if after != nil {
							return nil
						}
						return rowsIn(w, t.members...)
					},
				},
				New: func(p sim.Process) (reconcile.Reconciler, error) {
					s := &placement.Sweeper{Client: p.Client, Live: p.Live, Events: &testkit.Events{}, Clock: p.Clock}
					s.Add(k.Name, k.Object, store(p))
					return s, nil
				},
			},
		},
		Others: agents,
		Actors: t.actors,
		Rules:  append([]sim.Rule{sim.DeletesByUID(), withdrawnOnly(sliceKind)}, t.rules...),
		Summary: func(w *sim.World) string {
			var lines []string
			for _, cluster := range append([]string{""}, t.members...) {
				o := slice.DeepCopyObject().(client.Object)
				if err := w.In(cluster).Get(tb.Context(), client.ObjectKey(t.key), o); err == nil {
					lines = append(lines, t.line(w, cluster, o))
				}
			}
			for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
				lines = append(lines, r.Namespace+" "+string(r.Status.Phase))
			}
			return strings.Join(lines, "\n")
		},
	}
	if t.slice != nil { // It is also read on the hub.
		hub.Maps[t.slice] = all
	}
	return hub
}

func members() []string { return []string{"east", "west"} }

// withdrawnOnly returns the rule that an agent deletes an object only for a row that the hub has withdrawn, and deletes no object that is not
// its own (I10, I11, I13).
func withdrawnOnly(kind string) sim.Rule {
	return sim.Rule{Name: "objects are deleted only with their row", Write: func(w *sim.World, c sim.Change) error {
		if c.Verb != sim.Delete || c.Err != nil || c.Kind.Kind != kind {
			return nil
		}
		at, _ := sim.Place(c.Before)
		uid := c.Before.GetAnnotations()[keys.FleetRowUID]
		for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
			if string(r.UID) == uid && r.Namespace == fleetv1alpha1.Namespace(at) && r.DeletionTimestamp != nil && r.Spec.Withdrawn {
				return nil
			}
		}
		return fmt.Errorf("%s in %q: no row of it was withdrawn", c.Request, at)
	}}
}

// phase sets the phase of clusters like the hub's liveness check does. A cluster without a phase joins.
func phase(to fleetv1alpha1.ClusterPhase, clusters ...string) sim.Edit {
	name := fmt.Sprintf("%s: %s", strings.Join(clusters, " and "), to)
	return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
		ready := metav1.ConditionFalse
		if to == fleetv1alpha1.ClusterReady {
			ready = metav1.ConditionTrue
		}
		for _, name := range clusters {
			mc := sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: name}).DeepCopy()
			mc.Status = fleetv1alpha1.MemberClusterStatus{
				Phase: to, Hub: &fleetv1alpha1.HubIdentity{UID: worldHub, Epoch: 3},
				Conditions: []metav1.Condition{{Type: fleetv1alpha1.ConditionReady, Status: ready}},
			}
			if err := w.User().Status().Update(ctx, mc); err != nil {
				return err
			}
		}
		return nil
	}}
}

// withClusters returns the clusters, along with other objects.
func withClusters(more ...client.Object) []client.Object { return clusters(members(), more...) }

// clusters returns these clusters, along with other objects.
func clusters(names []string, more ...client.Object) []client.Object {
	for _, name := range names {
		more = append(more, &fleetv1alpha1.MemberCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"tier": "web"}},
			Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true},
		})
	}
	return more
}

// editWhen applies an edit when the world meets a condition.
func editWhen(when func(*sim.World) bool, e sim.Edit) sim.Edit {
	e.When = when
	return e
}

func join() sim.Edit {
	return editWhen(func(*sim.World) bool { return true }, phase(fleetv1alpha1.ClusterReady, members()...))
}

func distributions() []sim.Scenario {
	rd := func(content string) *appsv1beta1.ResourceDistribution {
		return &appsv1beta1.ResourceDistribution{
			ObjectMeta: metav1.ObjectMeta{Name: "registry"},
			Spec: appsv1beta1.ResourceDistributionSpec{
				Resource: runtime.RawExtension{Raw: []byte(content)},
				Targets: appsv1beta1.ResourceDistributionTargets{
					AllNamespaces: true, Clusters: &appsv1beta1.ResourceDistributionClusters{All: true},
				},
			},
		}
	}
	const one, two = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"registry"},"data":{"url":"one"}}`,
		`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"registry"},"data":{"url":"two"}}`
	edit := func(name string, change func(*appsv1beta1.ResourceDistribution)) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Name: "registry"}, change)
		}}
	}
	change := edit("another content", func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Resource.Raw = []byte(two) })
	exclude := edit("without west", func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.Clusters.Excluded = []string{"west"} })
	include := edit("with west", func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.Clusters.Excluded = nil })
	remove := sim.Edit{Name: "delete the object", Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, rd(one)))
	}}
	drift := sim.Edit{Name: "another client changes the slice in east", Do: func(ctx context.Context, w *sim.World) error {
		live := &appsv1beta1.ResourceDistribution{}
		if err := w.In("east").Get(ctx, client.ObjectKey{Name: "registry"}, live); err != nil {
			return client.IgnoreNotFound(err)
		}
		live.Spec.Targets.AllNamespaces = false
		return w.In("east").Update(ctx, live)
	}}
	lose := sim.Edit{Name: "another client deletes the slice in east", Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.In("east").Delete(ctx, rd(one)))
	}}
	replace := sim.Edit{Name: "another client replaces the slice in east", Do: func(ctx context.Context, w *sim.World) error {
		return errors.Join(client.IgnoreNotFound(w.In("east").Delete(ctx, rd(one))), client.IgnoreAlreadyExists(w.In("east").Create(ctx, rd(two))))
	}}
	dark, back := phase(fleetv1alpha1.ClusterUnreachable, "west"), phase(fleetv1alpha1.ClusterReady, "west")
	return []sim.Scenario{
		{Name: "a change reaches both members", Objects: withClusters(rd(one)), Edits: []sim.Edit{join(), change}},
		{Name: "the object is deleted", Objects: withClusters(rd(one)), Edits: []sim.Edit{join(), remove}},
		{Name: "out of one cluster and back", Objects: withClusters(rd(one)), Edits: []sim.Edit{join(), exclude, include}},
		{Name: "drift and a deleted object", Objects: withClusters(rd(one)), Edits: []sim.Edit{join(), drift, lose}},
		{Name: "a replaced object", Objects: withClusters(rd(one)), Edits: []sim.Edit{
			join(), editWhen(func(w *sim.World) bool {
				rd := sim.Find[*appsv1beta1.ResourceDistribution](w, types.NamespacedName{Name: "registry"})
				return rd.Status.Succeeded == 6
			}, replace), change, remove,
		}},
		{Name: "a foreign object", Objects: withClusters(rd(one), sim.At("west", rd(two))), Edits: []sim.Edit{join(), change, remove}},
		{Name: "west is dark during a change", Objects: withClusters(rd(one)), Edits: []sim.Edit{join(), dark, change, back}},
		{Name: "west is dark during the deletion", Objects: withClusters(rd(one)), Edits: []sim.Edit{join(), dark, remove, back}},
	}
}

// united returns the scenarios of a UnitedDeployment with four replicas and a subset in each member.
func united() []sim.Scenario {
	ud := func(east, west int) *appsv1beta1.UnitedDeployment {
		return &appsv1beta1.UnitedDeployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: appsv1beta1.UnitedDeploymentSpec{
				Replicas: new(int32(replicas)),
				Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
				Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{}},
				Topology: appsv1beta1.Topology{Subsets: []appsv1beta1.Subset{
					{Name: "east", Cluster: "east", Replicas: new(intstr.FromInt(east))},
					{Name: "west", Cluster: "west", Replicas: new(intstr.FromInt(west))},
				}},
			},
		}
	}
	objects := func() []client.Object {
		out := withClusters(ud(3, 1))
		for _, cluster := range append([]string{""}, members()...) {
			out = append(out, sim.At(cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
		}
		return out
	}
	move := func(east, west int) sim.Edit {
		return editWhen(allAvailable, sim.Edit{Name: fmt.Sprintf("%d in east, %d in west", east, west), Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, webKey(), func(live *appsv1beta1.UnitedDeployment) {
				live.Annotations = map[string]string{wasFull: "true"}
				live.Spec.Topology.Subsets = ud(east, west).Spec.Topology.Subsets
			})
		}})
	}
	remove := sim.Edit{Name: "delete the object", Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, ud(3, 1)))
	}}
	again := editWhen(func(w *sim.World) bool { return sim.Find[*appsv1beta1.UnitedDeployment](w, webKey()) == nil }, sim.Edit{
		Name: "create the object again", Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreAlreadyExists(w.User().Create(ctx, ud(3, 1)))
		},
	})
	template := func(n int32) sim.Edit {
		return editWhen(allApplied, sim.Edit{Name: fmt.Sprintf("template %d", n), Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, webKey(), func(live *appsv1beta1.UnitedDeployment) {
				live.Spec.Template.CloneSetTemplate.Spec.MinReadySeconds = n
				live.Spec.RevisionHistoryLimit = new(int32(1))
			})
		}})
	}
	collide := sim.Edit{Name: "another client takes the name of the next revision", Do: func(ctx context.Context, w *sim.World) error {
		next := ud(3, 1)
		next.Spec.Template.CloneSetTemplate.Spec.MinReadySeconds = 1
		data, err := unitedrules.RevisionData(&next.Spec.Template)
		if err != nil {
			return err
		}
		r := unitedrules.Revision(next, data)
		r.OwnerReferences, r.Data.Raw = nil, []byte(`{"spec":{"template":{}}}`)
		return client.IgnoreAlreadyExists(w.User().Create(ctx, r))
	}}
	dark, back := editWhen(allAvailable, phase(fleetv1alpha1.ClusterUnreachable, "west")), phase(fleetv1alpha1.ClusterReady, "west")
	return []sim.Scenario{
		{Name: "replicas move to west", Objects: objects(), Edits: []sim.Edit{join(), move(1, 3)}},
		{Name: "replicas move to one cluster and back", Objects: objects(), Edits: []sim.Edit{join(), move(0, 4), move(4, 0)}},
		{Name: "west is dark while replicas are to move there", Objects: objects(), Edits: []sim.Edit{join(), dark, move(1, 3), back}},
		{Name: "west is dark while replicas are to leave it", Objects: objects(), Edits: []sim.Edit{join(), move(1, 3), dark, move(3, 1), back}},
		{Name: "the object is deleted", Objects: objects(), Edits: []sim.Edit{join(), remove}},
		{Name: "the object is deleted and created again", Objects: objects(), Edits: []sim.Edit{join(), remove, again}},
		{Name: "a template is changed and restored", Objects: objects(), Edits: []sim.Edit{join(), template(1), template(0), template(1)}},
		{Name: "more templates than are kept", Objects: objects(), Edits: []sim.Edit{join(), template(1), template(2), template(3)}},
		{Name: "the name of a revision is taken", Objects: objects(), Edits: []sim.Edit{join(), collide, template(1), move(1, 3)}},
	}
}

// revisionsOf returns the names and numbers of the revisions of an object, oldest first.
func revisionsOf(w *sim.World, ud *appsv1beta1.UnitedDeployment) []string {
	var out []string
	for _, r := range historyOf(w, ud) {
		out = append(out, fmt.Sprintf("%s #%d", r.Name, r.Revision))
	}
	return out
}

func historyOf(w *sim.World, ud *appsv1beta1.UnitedDeployment) []*appsv1.ControllerRevision {
	out := slices.DeleteFunc(sim.All[*appsv1.ControllerRevision](w), func(r *appsv1.ControllerRevision) bool { return !metav1.IsControlledBy(r, ud) })
	revision.Sort(out)
	return out
}

// revisions returns the rules about the history of the UnitedDeployment: a template has one revision, and it has it before any row has the template.
func revisions() []sim.Rule {
	return []sim.Rule{
		{Name: "a template has one revision", State: func(w *sim.World) error {
			ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
			if ud == nil {
				return nil
			}
			all := historyOf(w, ud)
			for i, a := range all {
				if slices.ContainsFunc(all[:i], func(b *appsv1.ControllerRevision) bool { return revision.Equal(a, b) }) {
					return fmt.Errorf("two revisions have the template of %s", a.Name)
				}
			}
			return nil
		}},
		{Name: "a row has the template of a revision", Write: func(w *sim.World, c sim.Change) error {
			written, ok := c.After.(*fleetv1alpha1.MemberWork)
			if before, old := c.Before.(*fleetv1alpha1.MemberWork); !ok || c.Err != nil || old && before.Spec.Content == written.Spec.Content {
				return nil
			}
			text := written.Spec.Content.Inline
			for _, content := range sim.All[*fleetv1alpha1.WorkContent](w) {
				if content.Name == written.Spec.Content.Name() {
					text = content.Manifest
				}
			}
			slice := &appsv1beta1.UnitedDeployment{}
			if err := json.Unmarshal([]byte(text), slice); err != nil {
				return fmt.Errorf("decode the content of %s: %w", written.Namespace, err)
			}
			data, err := unitedrules.RevisionData(&slice.Spec.Template)
			if err != nil {
				return err
			}
			want := &appsv1.ControllerRevision{Data: runtime.RawExtension{Raw: data}}
			for _, r := range sim.All[*appsv1.ControllerRevision](w) {
				if revision.Equal(r, want) && len(r.OwnerReferences) > 0 {
					return nil
				}
			}
			return fmt.Errorf("no revision has the template of the row in %s", written.Namespace)
		}},
	}
}

const (
	replicas = 4
	// surge is the default maxSurge in these scenarios.
	surge = 1
	// wasFull marks a UnitedDeployment that has had all of its replicas.
	wasFull = "sim/full"
)

func webKey() types.NamespacedName { return types.NamespacedName{Namespace: "shop", Name: "web"} }

// countPods counts the pods of the UnitedDeployments in all members, and how many are available.
func countPods(w *sim.World) (all, available int32) {
	for _, ud := range sim.All[*appsv1beta1.UnitedDeployment](w) {
		if member, _ := sim.Place(ud); member != "" {
			all += ud.Status.Replicas
			available += ud.Status.AvailableReplicas
		}
	}
	return all, available
}

// allAvailable reports whether the hub has shown that all replicas are available.
func allAvailable(w *sim.World) bool {
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
	return ud != nil && ud.Status.AvailableReplicas == replicas
}

// allApplied reports whether the hub has also shown that all members have applied the object.
func allApplied(w *sim.World) bool {
	ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
	return allAvailable(w) && ud.Status.ObservedGeneration == ud.Generation
}

// budgets returns the rules that, while replicas move, no more pods run than the surge allows, and none is missing (I3, I4).
func budgets() []sim.Rule {
	return []sim.Rule{
		{Name: "I3", State: func(w *sim.World) error {
			if all, _ := countPods(w); all > replicas+surge {
				return fmt.Errorf("%d pods run, and %d may", all, replicas+surge)
			}
			return nil
		}},
		{Name: "I4", State: func(w *sim.World) error {
			ud := sim.Find[*appsv1beta1.UnitedDeployment](w, webKey())
			if ud == nil || ud.Annotations[wasFull] == "" {
				return nil
			}
			if _, available := countPods(w); available < replicas {
				return fmt.Errorf("%d pods are available, and %d must be", available, replicas)
			}
			return nil
		}},
	}
}

// unitedDeploymentController is the members' own controller of UnitedDeployments, including its pods. It takes one step for each pod that
// comes, becomes available or goes.
type unitedDeploymentController struct{}

func (unitedDeploymentController) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, ud := range sim.All[*appsv1beta1.UnitedDeployment](w) {
		member, _ := sim.Place(ud)
		if next := nextPod(ud); member != "" && next != nil {
			_, next.Namespace = sim.Place(ud)
			out = append(out, sim.Step{Do: func(ctx context.Context) error {
				return client.IgnoreNotFound(w.In(member).Status().Update(ctx, next))
			}})
		}
	}
	return out
}

// nextPod returns the object after the next step, or nil.
func nextPod(ud *appsv1beta1.UnitedDeployment) *appsv1beta1.UnitedDeployment {
	next := ud.DeepCopy()
	next.Status.SubsetStatuses = nil
	for _, subset := range ud.Spec.Topology.Subsets {
		status := appsv1beta1.SubsetStatus{Name: subset.Name}
		for _, s := range ud.Status.SubsetStatuses {
			if s.Name == subset.Name {
				status = s
			}
		}
		want := int32(0)
		if subset.Replicas != nil {
			want = subset.Replicas.IntVal
		}
		switch {
		case status.Replicas > want:
			status.Replicas--
		case status.AvailableReplicas < status.Replicas:
			status.AvailableReplicas++
		case status.Replicas < want:
			status.Replicas++
		}
		status.AvailableReplicas = min(status.AvailableReplicas, status.Replicas)
		status.ReadyReplicas, status.UpdatedReplicas, status.UpdatedReadyReplicas = status.AvailableReplicas, status.Replicas, status.AvailableReplicas
		next.Status.SubsetStatuses = append(next.Status.SubsetStatuses, status)
	}
	s := &next.Status
	s.ObservedGeneration, s.Replicas, s.AvailableReplicas = ud.Generation, 0, 0
	for _, status := range s.SubsetStatuses {
		s.Replicas += status.Replicas
		s.AvailableReplicas += status.AvailableReplicas
	}
	s.ReadyReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas = s.AvailableReplicas, s.Replicas, s.AvailableReplicas
	if equality.Semantic.DeepEqual(ud.Status, next.Status) {
		return nil
	}
	return next
}

// byOptions adapts a kind that has a memory, so that each process gets its own.
func byOptions[O placement.Observed, P placement.Planned, S any](
	kind func(placement.Options) placement.Kind[O, P, S],
) func(placement.Options, client.Reader) placement.Kind[O, P, S] {
	return func(o placement.Options, _ client.Reader) placement.Kind[O, P, S] { return kind(o) }
}

// withoutReader adapts a kind that reads no further objects.
func withoutReader[O placement.Observed, P placement.Planned, S any](
	k placement.Kind[O, P, S],
) func(placement.Options, client.Reader) placement.Kind[O, P, S] {
	return func(placement.Options, client.Reader) placement.Kind[O, P, S] { return k }
}

// divided returns the scenarios of a Deployment with four replicas, which a Propagation divides among the members.
func divided() []sim.Scenario {
	web := func(east, west int32) *fleetv1alpha1.Propagation {
		return &fleetv1alpha1.Propagation{
			ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"},
			Spec: fleetv1alpha1.PropagationSpec{
				Selectors: []fleetv1alpha1.PropagationSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}},
				Clusters:  fleetv1alpha1.PropagationClusters{Names: members()}, DeletionPolicy: fleetv1alpha1.LeaveDelete,
				Replicas: &fleetv1alpha1.PropagationReplicas{Division: fleetv1alpha1.DivisionWeighted, Shares: []fleetv1alpha1.PropagationShare{
					{Clusters: []string{"east"}, Weight: &east}, {Clusters: []string{"west"}, Weight: &west},
				}},
			},
		}
	}
	objects := func() []client.Object {
		n := int32(replicas)
		out := withClusters(web(3, 1))
		out = append(out, &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &n}})
		for _, cluster := range append([]string{""}, members()...) {
			out = append(out, sim.At(cluster, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}))
		}
		return out
	}
	change := func(name string, do func(*fleetv1alpha1.Propagation)) sim.Edit {
		return editWhen(allDeployed, sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, webKey(), func(p *fleetv1alpha1.Propagation) {
				p.Annotations = map[string]string{wasFull: "true"}
				do(p)
			})
		}})
	}
	move := func(east, west int32) sim.Edit {
		return change(fmt.Sprintf("%d to %d", east, west), func(p *fleetv1alpha1.Propagation) { p.Spec.Replicas = web(east, west).Spec.Replicas })
	}
	only := change("only east", func(p *fleetv1alpha1.Propagation) { p.Spec.Clusters.Names = []string{"east"} })
	remove := sim.Edit{Name: "delete the Propagation", Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, web(3, 1)))
	}}
	dark, back := editWhen(allDeployed, phase(fleetv1alpha1.ClusterUnreachable, "west")), phase(fleetv1alpha1.ClusterReady, "west")
	return []sim.Scenario{
		{Name: "replicas move to west", Objects: objects(), Edits: []sim.Edit{join(), move(1, 3)}},
		{Name: "replicas move to one cluster and back", Objects: objects(), Edits: []sim.Edit{join(), move(0, 1), move(1, 0)}},
		{Name: "west is no longer selected", Objects: objects(), Edits: []sim.Edit{join(), only}},
		{Name: "west is dark while replicas are to leave it", Objects: objects(), Edits: []sim.Edit{join(), dark, only, back}},
		{Name: "the Propagation is deleted", Objects: objects(), Edits: []sim.Edit{join(), remove}},
	}
}

// deployedIn counts the pods of the Deployments in all members, and how many are available.
func deployedIn(w *sim.World) (all, available int32) {
	for _, d := range sim.All[*appsv1.Deployment](w) {
		if member, _ := sim.Place(d); member != "" {
			all += d.Status.Replicas
			available += d.Status.AvailableReplicas
		}
	}
	return all, available
}

// allDeployed reports whether the hub has shown that all replicas are available where they should be.
func allDeployed(w *sim.World) bool {
	p := sim.Find[*fleetv1alpha1.Propagation](w, webKey())
	if p == nil || p.Status.ObservedGeneration != p.Generation {
		return false
	}
	sum := int32(0)
	for _, share := range p.Status.Divided {
		if share.Available != share.Desired {
			return false
		}
		sum += share.Available
	}
	return sum == replicas
}

// shares returns the rules that, while replicas move, no more pods run than the surge allows, and none is missing (I3, I4).
func shares() []sim.Rule {
	return []sim.Rule{
		{Name: "I3", State: func(w *sim.World) error {
			if all, _ := deployedIn(w); all > replicas+surge {
				return fmt.Errorf("%d pods run, and %d may", all, replicas+surge)
			}
			return nil
		}},
		{Name: "I4", State: func(w *sim.World) error {
			p := sim.Find[*fleetv1alpha1.Propagation](w, webKey())
			if p == nil || p.Annotations[wasFull] == "" {
				return nil
			}
			if _, available := deployedIn(w); available < replicas {
				return fmt.Errorf("%d pods are available, and %d must be", available, replicas)
			}
			return nil
		}},
	}
}

// deploymentController is the members' own controller of Deployments, including its pods.
type deploymentController struct{}

func (deploymentController) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, d := range sim.All[*appsv1.Deployment](w) {
		member, _ := sim.Place(d)
		next := d.DeepCopy()
		s, want := &next.Status, *d.Spec.Replicas
		switch {
		case s.Replicas > want:
			s.Replicas--
		case s.AvailableReplicas < s.Replicas:
			s.AvailableReplicas++
		case s.Replicas < want:
			s.Replicas++
		}
		s.AvailableReplicas, s.ObservedGeneration = min(s.AvailableReplicas, s.Replicas), d.Generation
		s.ReadyReplicas, s.UpdatedReplicas = s.AvailableReplicas, s.Replicas
		s.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: corev1.ConditionTrue}}
		if s.AvailableReplicas < want {
			s.Conditions[0].Status = corev1.ConditionFalse
		}
		if member == "" || equality.Semantic.DeepEqual(d.Status, next.Status) {
			continue
		}
		_, next.Namespace = sim.Place(d)
		out = append(out, sim.Step{Do: func(ctx context.Context) error {
			return client.IgnoreNotFound(w.In(member).Status().Update(ctx, next))
		}})
	}
	return out
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	require.NoError(t, registerMetrics())
	plan := sim.Plan{Sweeps: 2, Seeds: 60, Share: 2}
	t.Run("ResourceDistribution", func(t *testing.T) {
		t.Parallel()
		sim.Test(t, fleet(t, withoutReader(resourcedistribution.Kind(resourcedistribution.Options{})), kindUnderTest{
			key: types.NamespacedName{Name: "registry"}, actors: []sim.Actor{distributionController{}},
			line: func(_ *sim.World, cluster string, o client.Object) string {
				rd := o.(*appsv1beta1.ResourceDistribution)
				_, placed := rd.Annotations[keys.FleetRowUID]
				return fmt.Sprintf("%q: placed=%t %s, %d of %d, observed=%t", cluster, placed, rd.Spec.Resource.Raw,
					rd.Status.Succeeded, rd.Status.Desired, rd.Status.ObservedGeneration == rd.Generation)
			},
		}), plan, distributions()...)
	})
	t.Run("UnitedDeployment", func(t *testing.T) {
		t.Parallel()
		sim.Test(t, fleet(t, byOptions(uniteddeployment.Kind), kindUnderTest{
			key: webKey(), actors: []sim.Actor{unitedDeploymentController{}}, rules: append(budgets(), revisions()...),
			owns: []client.Object{&appsv1.ControllerRevision{}},
			line: func(w *sim.World, cluster string, o client.Object) string {
				ud := o.(*appsv1beta1.UnitedDeployment)
				_, placed := ud.Annotations[keys.FleetRowUID]
				return fmt.Sprintf("%q: placed=%t, %d of %d available, observed=%t, revisions %v", cluster, placed,
					ud.Status.AvailableReplicas, ud.Status.Replicas, ud.Status.ObservedGeneration == ud.Generation, revisionsOf(w, ud))
			},
		}), plan, united()...)
	})
	t.Run("Waves", func(t *testing.T) {
		t.Parallel()
		sim.Test(t, wavesKind(t), plan, append(rolling(), inWaves()...)...)
	})
	t.Run("Propagation", func(t *testing.T) {
		t.Parallel()
		deployments := &appsv1.Deployment{TypeMeta: metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"}}
		sim.Test(t, fleet(t, propagation.Kind, kindUnderTest{
			key: webKey(), slice: deployments, actors: []sim.Actor{deploymentController{}}, rules: shares(),
			line: func(_ *sim.World, cluster string, o client.Object) string {
				d := o.(*appsv1.Deployment)
				_, placed := d.Annotations[keys.FleetRowUID]
				return fmt.Sprintf("%q: placed=%t, %d of %d available of %d", cluster, placed, d.Status.AvailableReplicas, d.Status.Replicas, *d.Spec.Replicas)
			},
		}), plan, divided()...)
	})
}
