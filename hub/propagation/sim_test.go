package propagation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/row"
	"github.com/flotilla-io/flotilla/pkg/control/kindwatch"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// unserved is a ConfigMap outside the scenario's namespace. While it exists, the hub doesn't serve the kind ConfigMap.
var unserved = types.NamespacedName{Namespace: "kube-system", Name: "unserved"}

// partialReader is an apiserver that may stop serving ConfigMaps.
type partialReader struct{ client.Reader }

func (r partialReader) refused(ctx context.Context, o runtime.Object) error {
	kind := o.GetObjectKind().GroupVersionKind()
	if strings.TrimSuffix(kind.Kind, "List") != configMaps.Kind || r.Reader.Get(ctx, unserved, &corev1.ConfigMap{}) != nil {
		return nil //nolint:nilerr // Without that object the kind is served.
	}
	return &meta.NoKindMatchError{GroupKind: kind.GroupKind(), SearchedVersions: []string{kind.Version}}
}

func (r partialReader) Get(ctx context.Context, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
	if err := r.refused(ctx, o); err != nil {
		return err
	}
	return r.Reader.Get(ctx, key, o, opts...)
}

func (r partialReader) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	if err := r.refused(ctx, list); err != nil {
		return err
	}
	return r.Reader.List(ctx, list, opts...)
}

// simObjects reads selected objects from the simulated cache, which has all kinds.
type simObjects struct {
	client.Reader
	live client.Reader
}

func (simObjects) follow(client.ObjectKey, []schema.GroupVersionKind) error { return nil }

func (s simObjects) readable(ctx context.Context, kind schema.GroupVersionKind) (*problem, error) {
	if !slices.Contains([]string{configMaps.Kind, "Deployment", unitedKind().Kind}, kind.Kind) {
		return &problem{Kind: kind.Kind, Reason: fleetv1alpha1.ReasonKindNotAllowed, Message: "the scenario has none"}, nil
	}
	return probe(ctx, s.live, kind, shop)
}

func (simObjects) watch(b *builder.Builder) *builder.Builder { return b }

func (simObjects) forget(client.ObjectKey) {}

// simSources reads Propagations from the cache of a world.
type simSources struct {
	client.Reader
	w *sim.World
}

func (s simSources) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	for _, p := range sim.Cached[*fleetv1alpha1.Propagation](s.w) {
		list.(*fleetv1alpha1.PropagationList).Items = append(list.(*fleetv1alpha1.PropagationList).Items, *p)
	}
	return nil
}

// simQueue stores what a handler enqueues.
type simQueue struct {
	kindwatch.Queue
	added []reconcile.Request
}

func (q *simQueue) Add(r reconcile.Request) { q.added = append(q.added, r) }

func (q *simQueue) AddAfter(r reconcile.Request, _ time.Duration) { q.Add(r) }

// requestsFor returns what handlers enqueue for a change.
func requestsFor(before, after client.Object, handlers ...handler.EventHandler) []reconcile.Request {
	q, ctx := &simQueue{}, context.Background() //nolint:forbidigo // As an event, which has no context.
	for _, h := range handlers {
		switch {
		case before == nil:
			h.Create(ctx, event.CreateEvent{Object: after}, q)
		case after == nil:
			h.Delete(ctx, event.DeleteEvent{Object: before}, q)
		default:
			h.Update(ctx, event.UpdateEvent{ObjectOld: before, ObjectNew: after}, q)
		}
	}
	return q.added
}

// members are the agents of all reachable clusters. Each applies what it is asked for, one object for each name, and reports it.
type members struct{}

func (members) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, mc := range sim.All[*fleetv1alpha1.MemberCluster](w) {
		if mc.Status.Phase == "" { // The cluster joins.
			next := mc.DeepCopy()
			next.Status = member(mc.Name).Status
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
		if placement.Acknowledged(live) {
			if live.Status.Phase == fleetv1alpha1.WorkProgressing {
				next.Status.Phase = fleetv1alpha1.WorkHealthy
				out = append(out, sim.Step{Do: func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Status().Update(ctx, next)) }})
			}
			continue
		}
		next.Status = fleetv1alpha1.MemberWorkStatus{ObservedGeneration: live.Generation, Phase: fleetv1alpha1.WorkHealthy}
		if live.Spec.Object != nil && live.Spec.Object.Kind == "Deployment" && !live.Spec.Suspend { // It is rolled out.
			next.Status.Phase = fleetv1alpha1.WorkProgressing
		}
		out = append(out, sim.Step{Do: func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Status().Update(ctx, next)) }})
	}
	return out
}

// subsets rolls out UnitedDeployments of two pods, one after the other, and reports it.
type subsets struct{}

func (subsets) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, ud := range sim.All[*appsv1beta1.UnitedDeployment](w) {
		next := ud.DeepCopy()
		switch s := &next.Status; {
		case s.ObservedGeneration < ud.Generation:
			s.ObservedGeneration, s.Replicas, s.UpdatedReplicas = ud.Generation, 2, 0
		case s.UpdatedReplicas < s.Replicas:
			s.UpdatedReplicas++
		default:
			continue
		}
		out = append(out, sim.Step{Do: func(ctx context.Context) error { return client.IgnoreNotFound(w.User().Status().Update(ctx, next)) }})
	}
	return out
}

// simulated returns the hub's controller in the simulator, with the rules that apply to every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, appsv1.AddToScheme, appsv1beta1.AddToScheme, fleetv1alpha1.AddToScheme} {
		require.NoError(tb, add(scheme))
	}
	f := namespaced()
	all := func(w *sim.World, _, _ client.Object) (out []reconcile.Request) {
		for _, p := range sim.Cached[*fleetv1alpha1.Propagation](w) {
			out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(p)})
		}
		return out
	}
	objects := func(kind schema.GroupVersionKind) func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return func(w *sim.World, before, after client.Object) (out []reconcile.Request) {
			var states []client.Object
			for _, o := range []client.Object{before, after} {
				if o != nil {
					o = o.DeepCopyObject().(client.Object)
					o.GetObjectKind().SetGroupVersionKind(kind)
					states = append(states, o)
				}
			}
			for _, key := range f.selecting(tb.Context(), simSources{w: w}, states...) {
				out = append(out, reconcile.Request{NamespacedName: key})
			}
			return out
		}
	}
	none := func(*sim.World, client.Object, client.Object) []reconcile.Request { return nil }
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			live := partialReader{p.Live}
			o := options{
				Options: placement.Options{Store: row.NewStore(p.Client, []byte("key"), p.Clock), Events: &testkit.Events{}, Clock: p.Clock},
			}
			return f.placementKind(o, simObjects{p.Client, live}).New(o.Options, p.Client, live), nil
		},
		Index: f.placementKind(options{}, simObjects{}).Index,
		For:   &fleetv1alpha1.Propagation{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.ConfigMap{}:             objects(configMaps.WithVersion("v1")),
			&appsv1.Deployment{}:            objects(appsv1.SchemeGroupVersion.WithKind("Deployment")),
			&appsv1beta1.UnitedDeployment{}: objects(unitedKind().WithVersion("v1beta1")),
			&fleetv1alpha1.MemberWork{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				return requestsFor(before, after, placement.RowHandler(f.kind), f.releasedRowHandler(simSources{w: w}))
			},
			&fleetv1alpha1.Propagation{}: func(w *sim.World, before, after client.Object) []reconcile.Request {
				return requestsFor(before, after, f.peerHandler(simSources{w: w}))
			},
			&fleetv1alpha1.MemberCluster{}: all, &corev1.Namespace{}: none, &fleetv1alpha1.WorkContent{}: none,
		},
		Actors:  []sim.Actor{members{}, subsets{}, sim.Collector{}},
		Rules:   []sim.Rule{sim.DeletesByUID(), withdrawalsHaveReasons(), sameObject(), oneRowPerCluster(), neededObjectsStay(), objectsNeededBySubsetsStay()},
		Summary: finalState,
	}
}

// withdrawalsHaveReasons is the rule that a row is withdrawn only if, according to the apiserver, its Propagation is being deleted or
// doesn't select the object in that cluster. If the namespace is being deleted, the row must be orphaned.
func withdrawalsHaveReasons() sim.Rule {
	return sim.Rule{Name: "rows are withdrawn for a reason", Write: func(w *sim.World, c sim.Change) error {
		live, ok := c.Before.(*fleetv1alpha1.MemberWork)
		if !ok || c.Verb != sim.Delete || c.Err != nil || c.Late {
			return nil //nolint:nilerr // A write that failed withdraws nothing.
		}
		namespace := sim.Find[*corev1.Namespace](w, types.NamespacedName{Name: shop})
		if namespace.DeletionTimestamp != nil && live.Spec.DeletionPolicy != fleetv1alpha1.LeaveOrphan {
			return fmt.Errorf("%s deletes an object in the member that was deleted with its namespace", c.Request)
		}
		source := sim.Find[*fleetv1alpha1.Propagation](w, types.NamespacedName{Namespace: shop, Name: live.Spec.Source.Name})
		if source == nil || source.DeletionTimestamp != nil {
			return nil
		}
		if sim.Find[*corev1.ConfigMap](w, unserved) != nil {
			return fmt.Errorf("%s: the hub does not serve the kind", c.Request)
		}
		object := sim.Find[*corev1.ConfigMap](w, types.NamespacedName{Namespace: shop, Name: live.Spec.Object.Name})
		if object == nil || live.Spec.Object.UID != "" && live.Spec.Object.UID != string(object.UID) || !selects(&source.Spec, configMaps, object.Name, object.Labels) {
			return nil
		}
		for _, mc := range sim.Cached[*fleetv1alpha1.MemberCluster](w) {
			if mc.Name == live.Labels[keys.FleetCluster] && (mc.Labels["tier"] != "web" || len(mc.Spec.Taints) > 0) {
				return nil
			}
		}
		return fmt.Errorf("%s: %s selects it", c.Request, source.Name)
	}}
}

// sameObject is the rule that a row belongs to one object. Another object with the same name gets another row.
func sameObject() sim.Rule {
	return sim.Rule{Name: "the object of a row does not change", Write: func(_ *sim.World, c sim.Change) error {
		before, ok := c.Before.(*fleetv1alpha1.MemberWork)
		now, stays := c.After.(*fleetv1alpha1.MemberWork)
		if ok && stays && before.Spec.Object != nil && before.Spec.Object.UID != now.Spec.Object.UID {
			return fmt.Errorf("%s: the row of an object becomes the row of another object", c.Request)
		}
		return nil
	}}
}

// neededObjectsStay is the rule that a ConfigMap is not withdrawn while a Deployment needs it, either as it is on the hub or as it is in
// the cluster. There, a Deployment that is being rolled out may have pods of the previous template.
func neededObjectsStay() sim.Rule {
	return sim.Rule{Name: "objects that pods need stay", Write: func(w *sim.World, c sim.Change) error {
		live, ok := c.Before.(*fleetv1alpha1.MemberWork)
		if !ok || c.Verb != sim.Delete || c.Err != nil || c.Late || live.Spec.Object == nil || live.Spec.Object.Kind != configMaps.Kind {
			return nil //nolint:nilerr // As above.
		}
		key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: shop, Name: name} }
		source, object := sim.Find[*fleetv1alpha1.Propagation](w, key(live.Spec.Source.Name)), key(live.Spec.Object.Name)
		if source == nil || source.DeletionTimestamp != nil || source.Spec.Dependencies != fleetv1alpha1.DependenciesAuto {
			return nil
		}
		if sim.Find[*corev1.ConfigMap](w, object) == nil {
			return nil // Somebody has deleted it.
		}
		d := sim.Find[*appsv1.Deployment](w, key(source.Name))
		if d != nil && d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name == object.Name {
			return fmt.Errorf("%s: the Deployment needs it", c.Request)
		}
		for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
			if r.Namespace != live.Namespace || r.Spec.Source.UID != live.Spec.Source.UID || r.Spec.Object.Kind != "Deployment" {
				continue
			}
			content := sim.Find[*fleetv1alpha1.WorkContent](w, types.NamespacedName{Namespace: fleetv1alpha1.SystemNamespace, Name: r.Spec.Content.Name()})
			if content == nil || strings.Contains(content.Manifest, fmt.Sprintf("%q", object.Name)) {
				return fmt.Errorf("%s: the Deployment in the cluster needs it", c.Request)
			}
			if !placement.Acknowledged(r) || r.Status.Phase != fleetv1alpha1.WorkHealthy {
				return fmt.Errorf("%s: there may be pods that need it", c.Request)
			}
		}
		return nil
	}}
}

// objectsNeededBySubsetsStay is the rule that a ConfigMap is not withdrawn while a UnitedDeployment needs it, or may have pods of the
// previous template.
func objectsNeededBySubsetsStay() sim.Rule {
	return sim.Rule{Name: "objects that subsets need stay", Write: func(w *sim.World, c sim.Change) error {
		live, ok := c.Before.(*fleetv1alpha1.MemberWork)
		if !ok || c.Verb != sim.Delete || c.Err != nil || c.Late || live.Spec.Object == nil {
			return nil //nolint:nilerr // As above.
		}
		key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: shop, Name: name} }
		source, object := sim.Find[*fleetv1alpha1.Propagation](w, key(live.Spec.Source.Name)), key(live.Spec.Object.Name)
		if source == nil || source.DeletionTimestamp != nil || !dependenciesOnly(&source.Spec) || sim.Find[*corev1.ConfigMap](w, object) == nil {
			return nil
		}
		ud := sim.Find[*appsv1beta1.UnitedDeployment](w, key(source.Spec.Selectors[0].Name))
		if ud == nil {
			return nil
		}
		if configOf(ud).Name == object.Name {
			return fmt.Errorf("%s: the UnitedDeployment needs it", c.Request)
		}
		if ud.Status.ObservedGeneration < ud.Generation || ud.Status.UpdatedReplicas < ud.Status.Replicas {
			return fmt.Errorf("%s: there may be pods that need it", c.Request)
		}
		return nil
	}}
}

// oneRowPerCluster is the rule that an object has at most one row in a cluster.
func oneRowPerCluster() sim.Rule {
	return sim.Rule{Name: "an object has one row in a cluster", State: func(w *sim.World) error {
		seen := map[string]string{}
		for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
			_, object := row.ObjectOf(r)
			place := r.Namespace + " " + object.Kind + " " + object.Name
			if seen[place] != "" {
				return errors.New(place + ": " + seen[place] + " and " + r.Spec.Source.Name)
			}
			seen[place] = r.Spec.Source.Name
		}
		return nil
	}}
}

// finalState describes what matters once nothing changes anymore.
func finalState(w *sim.World) string {
	var lines []string
	for _, r := range sim.All[*fleetv1alpha1.MemberWork](w) {
		content := sim.Find[*fleetv1alpha1.WorkContent](w, types.NamespacedName{Namespace: fleetv1alpha1.SystemNamespace, Name: r.Spec.Content.Name()})
		_, object := row.ObjectOf(r)
		lines = append(lines, fmt.Sprintf("%s %s of %s red=%t withdrawn=%t %s", r.Namespace, object.Name, r.Spec.Source.Name,
			content != nil && strings.Contains(content.Manifest, "red"), r.Spec.Withdrawn, r.Spec.DeletionPolicy))
	}
	slices.Sort(lines)
	for _, p := range sim.All[*fleetv1alpha1.Propagation](w) {
		s := p.Status
		lines = append(lines, fmt.Sprintf("%s: %d objects in %d clusters, %d stale, %d of %d applied, %d healthy, observed=%t held=%t", p.Name, s.Objects,
			s.Clusters, s.StaleClusters, s.Applied, s.Desired, s.Healthy, s.ObservedGeneration == p.Generation, placement.Held(p)), formatProblems(s.Problems))
		for _, c := range s.Conditions {
			lines = append(lines, fmt.Sprintf("%s=%s %s %s", c.Type, c.Status, c.Reason, c.Message))
		}
	}
	return strings.Join(lines, "\n")
}

// reports returns a condition that is met once the status of Propagation web has a reason.
func reports(reason string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		p := sim.Find[*fleetv1alpha1.Propagation](w, webAt())
		return p != nil && strings.Contains(fmt.Sprint(p.Status), reason)
	}
}

func stories() []sim.Scenario {
	world := func(more ...client.Object) []client.Object {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop, Finalizers: []string{"kubernetes"}}}
		return append(more, namespace, member("east"), member("west"))
	}
	two := world(configMap("a", "blue"), configMap("b", "blue"), propagation("web", labelled("web")))
	key := func(name string) types.NamespacedName { return types.NamespacedName{Namespace: shop, Name: name} }
	change := func(what, name string, do func(*corev1.ConfigMap)) sim.Edit {
		return sim.Edit{Name: name + what, Do: func(ctx context.Context, w *sim.World) error { return sim.Set(ctx, w, key(name), do) }}
	}
	red := func(name string) sim.Edit {
		return change(" is red", name, func(c *corev1.ConfigMap) { c.Data = map[string]string{"color": "red"} })
	}
	spec := func(what string, do func(*fleetv1alpha1.PropagationSpec)) sim.Edit {
		return sim.Edit{Name: "web" + what, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key("web"), func(p *fleetv1alpha1.Propagation) { do(&p.Spec) })
		}}
	}
	cluster := func(what, name string, do func(*fleetv1alpha1.MemberCluster)) sim.Edit {
		return sim.Edit{Name: name + what, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Name: name}, do)
		}}
	}
	create := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "create " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return w.User().Create(ctx, o.DeepCopyObject().(client.Object))
		}}
	}
	remove := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "delete " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object)))
		}}
	}
	placed := func(w *sim.World) bool {
		p := sim.Find[*fleetv1alpha1.Propagation](w, key("web"))
		return p != nil && p.Status.ObservedGeneration == p.Generation && p.Status.Healthy > 0 && p.Status.Healthy == p.Status.Desired
	}
	west := func(ready bool) sim.Edit {
		return sim.Edit{Name: fmt.Sprintf("west ready=%t", ready), Do: func(ctx context.Context, w *sim.World) error {
			mc := sim.Find[*fleetv1alpha1.MemberCluster](w, types.NamespacedName{Name: "west"}).DeepCopy()
			mc.Status = member("west").Status
			if !ready {
				mc.Status.Phase, mc.Status.Conditions[0].Status = fleetv1alpha1.ClusterUnreachable, metav1.ConditionFalse
			}
			return w.User().Status().Update(ctx, mc)
		}}
	}
	tainted := func(effect fleetv1alpha1.TaintEffect) func(*fleetv1alpha1.MemberCluster) {
		return func(mc *fleetv1alpha1.MemberCluster) {
			mc.Spec.Taints = []fleetv1alpha1.ClusterTaint{{Key: "upgrade", Effect: effect}}
		}
	}
	after := func(e sim.Edit, when func(*sim.World) bool) sim.Edit { e.When = when; return e }
	web, again := propagation("web", labelled("web")), propagation("again", named("a"))
	marker := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: unserved.Namespace, Name: unserved.Name}}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: shop}}
	held := configMap("a", "blue")
	held.Finalizers = []string{"example.com/held"}
	orphaning := propagation("web", labelled("web"))
	orphaning.Spec.DeletionPolicy = fleetv1alpha1.LeaveOrphan
	spread := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{Name: "spread", Namespace: fleetv1alpha1.Namespace("west"), Labels: map[string]string{keys.FleetCluster: "west"}},
		Spec:       fleetv1alpha1.MemberWorkSpec{Source: fleetv1alpha1.WorkSource{APIVersion: "v1", Kind: "ConfigMap", Namespace: shop, Name: "a", UID: "cm"}},
	}
	deployment := func() *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "web", Generation: 1}}
		d.Spec.Template.Spec.Containers = []corev1.Container{{Name: "main"}}
		setConfig(d, "a")
		return d
	}
	template := func(config string) sim.Edit {
		return sim.Edit{Name: "web needs " + config, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key("web"), func(d *appsv1.Deployment) { setConfig(d, config) })
		}}
	}
	auto := func(name string) *fleetv1alpha1.Propagation {
		p := propagation(name, fleetv1alpha1.PropagationSelector{APIVersion: "apps/v1", Kind: "Deployment", Name: name})
		p.Spec.Dependencies = fleetv1alpha1.DependenciesAuto
		return p
	}
	united := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: shop, Name: "united", Generation: 1},
		Spec: appsv1beta1.UnitedDeploymentSpec{Template: appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{
			Spec: deployment().Spec,
		}}},
	}
	subset := func(config string) sim.Edit {
		return sim.Edit{Name: "united needs " + config, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key("united"), func(ud *appsv1beta1.UnitedDeployment) { configOf(ud).Name = config })
		}}
	}
	onlyFor := propagation("web", fleetv1alpha1.PropagationSelector{APIVersion: "apps.kruise.io/v1beta1", Kind: unitedKind().Kind, Name: "united"})
	onlyFor.Spec.Dependencies = fleetv1alpha1.DependenciesOnly
	another := deployment()
	another.Name = "other"
	many := []client.Object{propagation("web", labelled("web"))}
	for i := range 11 { // The breaker lets ten withdrawals pass.
		many = append(many, configMap(fmt.Sprintf("c%02d", i), "blue"))
	}
	return []sim.Scenario{
		{Name: "a change reaches all clusters", Objects: two, Edits: []sim.Edit{red("a")}},
		{Name: "an object is created, and one is relabelled", Objects: two, Edits: []sim.Edit{
			create(configMap("c", "red")),
			change(" is no longer selected", "b", func(c *corev1.ConfigMap) { c.Labels = nil }),
		}},
		{Name: "an object is deleted on the hub", Objects: two, Edits: []sim.Edit{after(remove(configMap("a", "")), placed), red("b")}},
		{Name: "an object is replaced", Objects: two, Edits: []sim.Edit{remove(configMap("a", "")), create(configMap("a", "red"))}},
		{Name: "the hub stops serving the kind, and its objects are gone", Objects: two, Edits: []sim.Edit{
			after(create(marker), placed), remove(configMap("a", "")), remove(configMap("b", "")),
		}, Stall: 5 * time.Minute},
		{Name: "the hub serves the kind again, and one object is gone", Objects: two, Edits: []sim.Edit{
			after(create(marker), placed), remove(configMap("a", "")), remove(marker),
		}, Stall: 5 * time.Minute},
		{Name: "an object waits for its finalizer", Objects: world(held, propagation("web", labelled("web"))), Edits: []sim.Edit{
			after(remove(held), placed), create(configMap("b", "blue")),
			change(" is gone", "a", func(c *corev1.ConfigMap) { c.Finalizers = nil }),
		}},
		{Name: "the Propagation is deleted while a cluster does not answer", Objects: two, Edits: []sim.Edit{west(false), remove(web), west(true)}},
		{Name: "the Propagation is deleted and its objects stay", Objects: world(configMap("a", "blue"), orphaning), Edits: []sim.Edit{
			after(remove(web), placed),
		}},
		{Name: "the namespace is deleted", Objects: two, Edits: []sim.Edit{
			after(remove(namespace), placed), remove(configMap("a", "")), remove(web), remove(configMap("b", "")),
		}},
		{Name: "of two Propagations the older has an object until it is deleted", Objects: world(configMap("a", "blue"), web, again), Edits: []sim.Edit{
			remove(web), red("a"),
		}},
		{Name: "a Propagation that has placed an object keeps it", Objects: world(configMap("a", "blue"), propagation("web", named("b")), again), Edits: []sim.Edit{
			after(spec(" selects it too", func(s *fleetv1alpha1.PropagationSpec) { s.Selectors = append(s.Selectors, named("a")) }), func(w *sim.World) bool {
				return len(rowsOf(w, "again")) == 2
			}),
			red("a"),
		}},
		{Name: "an object changes to another Propagation when the older one no longer selects it", Stall: missingTimeout + time.Minute, Objects: world(configMap("a", "blue"), web, again), Edits: []sim.Edit{
			spec(" selects others", func(s *fleetv1alpha1.PropagationSpec) { s.Selectors = []fleetv1alpha1.PropagationSelector{named("b")} }),
		}},
		{Name: "another kind places an object in a cluster", Objects: world(configMap("a", "blue"), web, spread), Edits: []sim.Edit{red("a"), remove(spread)}},
		{Name: "a cluster is added and another one no longer selected", Objects: append(world(configMap("a", "blue"), web), member("north")), Edits: []sim.Edit{
			cluster(" has another label", "west", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels = nil }),
			after(cluster(" is closed", "north", tainted(fleetv1alpha1.NoNewPlace)), placed),
			after(create(configMap("b", "blue")), func(w *sim.World) bool {
				return slices.ContainsFunc(sim.Cached[*fleetv1alpha1.MemberCluster](w), func(mc *fleetv1alpha1.MemberCluster) bool {
					return mc.Name == "north" && len(mc.Spec.Taints) > 0
				})
			}),
		}},
		{Name: "a cluster is emptied", Objects: two, Edits: []sim.Edit{cluster(" evicts", "west", tainted(fleetv1alpha1.Evict))}},
		{Name: "a MemberCluster disappears, and nothing is withdrawn", Objects: two, Edits: []sim.Edit{
			after(remove(member("west")), placed), after(red("a"), reports(placement.ReasonUnknownCluster)),
		}},
		{Name: "a cluster does not answer while an object changes", Objects: two, Edits: []sim.Edit{west(false), red("a"), west(true)}},
		{Name: "an override fails, and placed objects stay", Objects: two, Edits: []sim.Edit{
			after(spec(" has an override", func(s *fleetv1alpha1.PropagationSpec) {
				s.Overrides = []fleetv1alpha1.PropagationOverride{{Clusters: []string{"west"}, Name: "a", Patches: []fleetv1alpha1.PropagationPatch{
					{Op: fleetv1alpha1.PatchRemove, Path: "/data/none"},
				}}}
			}), placed), after(red("a"), reports(reasonOverride)),
		}},
		{Name: "a template needs another ConfigMap", Objects: world(configMap("a", "blue"), configMap("b", "blue"), deployment(), auto("web")), Edits: []sim.Edit{
			after(template("b"), placed), red("b"),
		}},
		{Name: "a template changes back to the previous ConfigMap", Objects: world(configMap("a", "blue"), configMap("b", "blue"), deployment(), auto("web")), Edits: []sim.Edit{
			after(template("b"), placed), template("a"),
		}},
		{Name: "a dependency is created later, and deleted", Stall: missingTimeout + time.Minute, Objects: world(deployment(), auto("web")), Edits: []sim.Edit{
			after(create(configMap("a", "blue")), reports(reasonNoDependency)), after(remove(configMap("a", "")), func(w *sim.World) bool { return len(rowsOf(w, "web")) == 4 }),
		}},
		{Name: "a workload is deleted along with its dependencies", Stall: missingTimeout + time.Minute, Objects: world(configMap("a", "blue"), deployment(), auto("web")), Edits: []sim.Edit{
			after(remove(configMap("a", "")), placed), remove(deployment()),
		}},
		{Name: "two workloads need one ConfigMap, and one of them is no longer placed", Objects: world(configMap("a", "blue"), deployment(), another, auto("web"), auto("other")), Edits: []sim.Edit{
			remove(auto("web")), red("a"),
		}},
		{Name: "subsets need another ConfigMap", Objects: world(configMap("a", "blue"), configMap("b", "blue"), united, onlyFor), Edits: []sim.Edit{
			after(subset("b"), placed), red("b"),
		}},
		{Name: "subsets change back to the previous ConfigMap", Objects: world(configMap("a", "blue"), configMap("b", "blue"), united, onlyFor), Edits: []sim.Edit{
			after(subset("b"), placed), subset("a"),
		}},
		{Name: "a UnitedDeployment is deleted and created again", Stall: missingTimeout + time.Minute, Objects: world(configMap("a", "blue"), united, onlyFor), Edits: []sim.Edit{
			after(remove(united), placed), create(united),
		}},
		{
			Name: "many objects are withdrawn because they are deleted", Objects: world(many...), Stall: 2 * time.Minute,
			Edits: []sim.Edit{after(remove(web), placed)},
		},
		{
			Name: "many objects are withdrawn, and an administrator allows it", Stall: missingTimeout + time.Minute, Objects: world(many...), Actors: []sim.Actor{administrator{}},
			Edits: []sim.Edit{after(spec(" selects nothing", func(s *fleetv1alpha1.PropagationSpec) {
				s.Selectors = []fleetv1alpha1.PropagationSelector{labelled("none")}
			}), placed)},
		},
	}
}

// setConfig makes a ConfigMap the only one that the pods of a Deployment need.
func setConfig(d *appsv1.Deployment, config string) {
	d.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}},
	}}
}

// configOf returns the ConfigMap that the pods of a UnitedDeployment need.
func configOf(ud *appsv1beta1.UnitedDeployment) *corev1.ConfigMapEnvSource {
	return ud.Spec.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef
}

// administrator lets paused withdrawals continue.
type administrator struct{}

func (administrator) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, mc := range sim.All[*fleetv1alpha1.MemberCluster](w) {
		if next := mc.DeepCopy(); next.Annotations[keys.FleetWithdrawalsPaused] != "" {
			delete(next.Annotations, keys.FleetWithdrawalsPaused)
			out = append(out, sim.Step{Name: "allow in " + mc.Name, Do: func(ctx context.Context) error { return w.User().Update(ctx, next) }})
		}
	}
	return out
}

// rowsOf returns the rows of a Propagation that its members have applied.
func rowsOf(w *sim.World, name string) []*fleetv1alpha1.MemberWork {
	return slices.DeleteFunc(sim.All[*fleetv1alpha1.MemberWork](w), func(r *fleetv1alpha1.MemberWork) bool {
		return r.Spec.Source.Name != name || !placement.Acknowledged(r)
	})
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	plan := sim.Plan{Sweeps: 2, Seeds: 60, Stall: 40 * time.Second, Share: 2}
	t.Run("Placement", func(t *testing.T) {
		t.Parallel()
		sim.Test(t, simulated(t), plan, stories()...)
	})
	t.Run("Division", func(t *testing.T) {
		t.Parallel()
		sim.Test(t, simulatedDivision(t), plan, divisionScenarios()...)
	})
}

// One of two ConfigMaps in two clusters changes.
func TestWritesOfAPlacement(t *testing.T) {
	t.Parallel()
	r := sim.Run(t.Context(), simulated(t), stories()[0], sim.Schedule{})
	require.NoError(t, r.Err)
	require.Equal(t, map[string]int{
		"patch propagation": 1, "create workcontent": 3, "create workcontent: AlreadyExists": 1, "create memberwork": 4, "update memberwork": 2,
		"patch propagation/status": 5,
	}, r.Sent)
}
