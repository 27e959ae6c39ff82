package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Name: "settings"}

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(s))
	require.NoError(tb, appsv1beta1.AddToScheme(s))
	return s
}

// cached returns the copies from a cache of all ConfigMaps.
type cached struct{ client.Reader }

func (c cached) all(ctx context.Context, key id) ([]*held, bool, error) {
	all, err := listed(ctx, c, key)
	return all, true, err
}

func (cached) keep(func() (map[id]bool, error)) error { return nil }

func reconciler(c client.Client, live client.Reader, clk clock.PassiveClock, events event.Recorder) *Reconciler {
	return &Reconciler{
		Controller: controltest.New(c, live, clk, events), Copies: cached{c},
	}
}

// simulated returns ResourceDistribution for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	always := func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return sim.Kind{
		Scheme: scheme(tb),
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return reconciler(p.Client, p.Live, p.Clock, &testkit.Events{}), nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			byName := func(o client.Object) []string { return []string{o.GetName()} }
			return errors.Join(index(ctx, i), i.IndexField(ctx, &corev1.ConfigMap{}, metav1.ObjectNameField, byName))
		},
		For: &appsv1beta1.ResourceDistribution{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.ConfigMap{}: always,
			&corev1.Namespace{}: func(w *sim.World, old, updated client.Object) []reconcile.Request {
				if old != nil && updated != nil && !namespaceChanged(old, updated) {
					return nil
				}
				return always(w, old, updated)
			},
		},
		Actors: []sim.Actor{sim.Collector{}},
		Rules: []sim.Rule{sim.DeletesByUID(), sim.OwnOnly(func(_ *sim.World, c *corev1.ConfigMap) bool {
			return metav1.GetControllerOf(c) != nil
		})},
		Summary: end,
	}
}

// end returns the state that matters at rest.
func end(w *sim.World) string {
	var lines []string
	for _, c := range sim.All[*corev1.ConfigMap](w) {
		lines = append(lines, fmt.Sprintf("%s/%s %v %v ours=%t", c.Namespace, c.Name, c.Data, c.Labels, metav1.GetControllerOf(c) != nil))
	}
	rd := sim.Find[*appsv1beta1.ResourceDistribution](w, key)
	if rd == nil {
		return strings.Join(append(lines, "no ResourceDistribution"), "\n")
	}
	lines = append(lines, fmt.Sprintf("%d of %d, %d failed, observed=%t", rd.Status.Succeeded, rd.Status.Desired, rd.Status.Failed,
		rd.Status.ObservedGeneration == rd.Generation))
	for _, c := range rd.Status.Conditions {
		if c.Status == metav1.ConditionTrue {
			lines = append(lines, fmt.Sprintf("%s %s %v", c.Type, c.Reason, c.FailedNamespaces))
		}
	}
	return strings.Join(lines, "\n")
}

func namespace(name string, labels ...string) *corev1.Namespace {
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{}}}
	for _, l := range labels {
		ns.Labels[l] = "yes"
	}
	return ns
}

func configMap(data string) []byte {
	return []byte(`{"apiVersion":"v1","data":{"color":"` + data + `"},"kind":"ConfigMap","metadata":{"labels":{"app":"x"},"name":"settings"}}`)
}

// distribution returns a ResourceDistribution to namespace one and to the namespaces with the label team.
func distribution(change ...func(*appsv1beta1.ResourceDistributionSpec)) *appsv1beta1.ResourceDistribution {
	rd := &appsv1beta1.ResourceDistribution{
		ObjectMeta: metav1.ObjectMeta{Name: key.Name, Generation: 1, UID: "rd"},
		Spec: appsv1beta1.ResourceDistributionSpec{
			Resource: runtime.RawExtension{Raw: configMap("blue")},
			Targets: appsv1beta1.ResourceDistributionTargets{
				IncludedNamespaces: named("one"),
				NamespaceSelector:  metav1.LabelSelector{MatchLabels: map[string]string{"team": "yes"}},
			},
		},
	}
	for _, c := range change {
		c(&rd.Spec)
	}
	return rd
}

func named(names ...string) appsv1beta1.ResourceDistributionNamespaces {
	var out appsv1beta1.ResourceDistributionNamespaces
	for _, n := range names {
		out.List = append(out.List, appsv1beta1.ResourceDistributionNamespace{Name: n})
	}
	return out
}

// byReference distributes the ConfigMap in namespace base.
func byReference(s *appsv1beta1.ResourceDistributionSpec) {
	s.Resource = runtime.RawExtension{}
	s.Source = &appsv1beta1.ResourceDistributionSource{Kind: kindConfigMap, Namespace: "base", Name: key.Name}
}

func sourceWith(color string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "base", Name: key.Name}, Data: map[string]string{"color": color}}
}

func foreign(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: key.Name}, Data: map[string]string{"color": "theirs"}}
}

func stories() []sim.Scenario {
	world := func(more ...client.Object) []client.Object {
		return append([]client.Object{distribution(), namespace("one"), namespace("two", "team"), namespace("three")}, more...)
	}
	spec := func(name string, change func(*appsv1beta1.ResourceDistributionSpec)) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key, func(rd *appsv1beta1.ResourceDistribution) { change(&rd.Spec) })
		}}
	}
	label := func(name string, value map[string]string) sim.Edit {
		return sim.Edit{Name: "labels of " + name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Name: name}, func(ns *corev1.Namespace) { ns.Labels = value })
		}}
	}
	data := func(ns string, value map[string]string) sim.Edit {
		return sim.Edit{Name: "edit in " + ns, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Namespace: ns, Name: key.Name}, func(c *corev1.ConfigMap) { c.Data = value })
		}}
	}
	remove := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "delete " + o.GetNamespace() + "/" + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object)))
		}}
	}
	create := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "create " + o.GetNamespace() + "/" + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return w.User().Create(ctx, o.DeepCopyObject().(client.Object))
		}}
	}
	// replace handles an object that may have come back, because a controller with a stale cache creates a copy by the old spec.
	replace := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "replace " + o.GetNamespace() + "/" + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			if err := remove(o).Do(ctx, w); err != nil {
				return err
			}
			return create(o).Do(ctx, w)
		}}
	}
	// referring returns a world with a source in namespace base, which has the label as well.
	referring := func(more ...client.Object) []client.Object {
		return append([]client.Object{
			distribution(byReference), namespace("base", "team"), namespace("one"), namespace("two", "team"),
		}, more...)
	}
	return []sim.Scenario{
		{Name: "a change reaches all copies", Objects: world(), Edits: []sim.Edit{
			spec("another color", func(s *appsv1beta1.ResourceDistributionSpec) { s.Resource.Raw = configMap("red") }),
		}},
		{Name: "a namespace is added and another one is no longer selected", Objects: world(), Edits: []sim.Edit{
			label("three", map[string]string{"team": "yes"}), label("two", nil),
		}},
		{Name: "an object of another owner stays", Objects: world(foreign("two")), Edits: []sim.Edit{
			spec("another color", func(s *appsv1beta1.ResourceDistributionSpec) { s.Resource.Raw = configMap("red") }),
			remove(foreign("two")),
		}},
		{Name: "manual edits are reverted", Objects: world(), Edits: []sim.Edit{
			data("one", map[string]string{"color": "green", "size": "XL"}), data("two", nil),
		}},
		{Name: "a copy is deleted by hand", Objects: world(), Edits: []sim.Edit{remove(foreign("one"))}},
		{Name: "a named namespace does not exist", Objects: world(), Edits: []sim.Edit{
			spec("one more", func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.IncludedNamespaces = named("one", "later") }),
			{Name: "create later", Do: func(ctx context.Context, w *sim.World) error { return w.User().Create(ctx, namespace("later")) }},
		}},
		{Name: "a source is changed, deleted and re-created", Objects: referring(sourceWith("blue")), Edits: []sim.Edit{
			data("base", map[string]string{"color": "red"}), remove(sourceWith("")),
			spec("a namespace leaves", func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.NamespaceSelector = metav1.LabelSelector{} }),
			create(sourceWith("green")),
		}},
		{Name: "a source is replaced by another object of the same name", Objects: referring(sourceWith("blue")), Edits: []sim.Edit{
			remove(sourceWith("")), create(sourceWith("blue")), data("base", map[string]string{"color": "red"}),
		}},
		{Name: "a source that is created later", Objects: referring(), Edits: []sim.Edit{create(sourceWith("blue"))}},
		{Name: "a resource becomes a source, and a resource again", Objects: world(namespace("base", "team")), Edits: []sim.Edit{
			data("one", map[string]string{"color": "green"}),
			spec("by reference to a copy", byReference), remove(sourceWith("")), replace(sourceWith("white")),
			spec("by value", func(s *appsv1beta1.ResourceDistributionSpec) {
				s.Source, s.Resource = nil, runtime.RawExtension{Raw: configMap("red")}
			}),
		}},
		{Name: "the ResourceDistribution is deleted", Objects: world(), Edits: []sim.Edit{remove(distribution())}},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories()...)
}

// 1,000 namespaces cost 1,000 writes of copies and one of the status.
func TestWritesOfAThousandNamespaces(t *testing.T) {
	t.Parallel()
	objects := []client.Object{distribution(func(s *appsv1beta1.ResourceDistributionSpec) { s.Targets.AllNamespaces = true }), namespace("one")}
	for i := range 999 {
		objects = append(objects, namespace(fmt.Sprintf("ns-%03d", i)))
	}
	r := sim.Run(t.Context(), simulated(t), sim.Scenario{Name: "many", Objects: objects}, sim.Schedule{})
	require.NoError(t, r.Err)
	require.Equal(t, 1001, r.Writes)
	require.Contains(t, r.Summary, "1000 of 1000, 0 failed")
}
