package admission

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// admitted returns an object as admission sees it: with the UID under which it is stored.
func admitted(namespace, name string) *corev1.ConfigMap {
	o := object(namespace, name)
	o.UID = types.UID(namespace + "-" + name)
	return o
}

// marked returns the namespaces of the marks in the configuration.
func (w *world) marked(t *testing.T) []string {
	t.Helper()
	var out []string
	for _, m := range marksIn(w.config(t), w.clock.Now()) {
		out = append(out, m.Namespace)
	}
	return out
}

func (w *world) after(d time.Duration) { w.clock.SetTime(w.clock.Now().Add(d)) }

// leads starts a new leader, which knows nothing yet.
func (w *world) leads() {
	w.entries = &Entries{
		Client: w.entries.Client, Live: w.entries.Live, Configuration: w.entries.Configuration, Steps: w.entries.Steps, Guards: w.entries.Guards,
		Exempt: w.entries.Exempt, Ignore: w.entries.Ignore, Namespace: w.entries.Namespace, Clock: w.clock,
	}
}

// withWide adds a step whose objects are cluster-scoped.
func (w *world) withWide() {
	s := step("Wide", nil)
	s.Object, s.List = &corev1.Node{}, &corev1.NodeList{}
	s.Namespaces = func(o client.Object) []string { return []string{o.GetAnnotations()["for"]} }
	s.Wants = func(o client.Object) string { return "'" + o.GetName() + "' == 'a'" }
	w.entries.Steps = append(w.entries.Steps, s)
}

func TestPodsAreSentBeforeTheirObjectIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"))
	require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")))
	require.Equal(t, map[string][]string{EntryFail: {"shop"}}, w.open(t), "any replica writes the entry")
	require.Equal(t, 1, w.writes)

	w.leads()
	result, err := w.entries.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	require.Equal(t, markLasts, result.RequeueAfter)
	require.Equal(t, 1, w.writes, "the leader keeps the entry without an object")
	require.True(t, w.sent(t, "shop"))

	require.NoError(t, w.Create(t.Context(), admitted("shop", "a")))
	result, err = w.entries.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	require.Equal(t, []string{"shop"}, w.marked(t), "caches of other replicas may not show it yet")
	require.Equal(t, markStays, result.RequeueAfter)
	w.after(markStays)
	require.NoError(t, w.reconcile(t))
	require.Empty(t, w.marked(t))
	require.Equal(t, 2, w.writes)
	require.Equal(t, map[string][]string{EntryFail: {"shop"}}, w.open(t))
	require.NoError(t, w.Delete(t.Context(), admitted("shop", "a")))
	require.NoError(t, w.reconcile(t))
	require.Empty(t, w.open(t))
	require.NotContains(t, w.config(t).Annotations, keys.PodsAskedFor)
}

func TestAMarkDoesNotOutliveItsObject(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"))
	require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")))
	require.NoError(t, w.Create(t.Context(), admitted("shop", "a")))
	require.NoError(t, w.reconcile(t))
	require.NoError(t, w.Delete(t.Context(), admitted("shop", "a")))
	require.NoError(t, w.reconcile(t))
	require.Empty(t, w.open(t))
	w.after(markStays)
	require.NoError(t, w.reconcile(t))
	require.NotContains(t, w.config(t).Annotations, keys.PodsAskedFor)
	require.Empty(t, w.entries.met[Path])
}

// A pod may arrive before the watch events for the object that it is sent for.
func TestAPodWaitsForTheCacheOfTheReplicaThatAnswers(t *testing.T) {
	t.Parallel()
	t.Run("a pod waits for a stored object", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"))
		require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")))
		require.NoError(t, w.Create(t.Context(), admitted("shop", "a")))
		var mu sync.Mutex
		hidden, looked := true, make(chan struct{}, 10)
		w.entries.Client = interceptor.NewClient(w.entries.Client.(client.WithWatch), interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
				mu.Lock()
				defer mu.Unlock()
				defer func() { looked <- struct{}{} }()
				if hidden {
					return nil
				}
				return c.List(ctx, l, opts...)
			},
		})
		done := make(chan error, 1)
		go func() { done <- w.entries.CatchUp(t.Context(), "shop") }()
		<-looked
		w.entries.turn.pass() // An unrelated event.
		<-looked
		require.Empty(t, done)
		mu.Lock()
		hidden = false
		mu.Unlock()
		w.entries.turn.pass()
		require.NoError(t, <-done)
		<-looked
	})
	t.Run("a pod does not wait for an object that was not stored", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"))
		require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")))
		behind, err := w.entries.behind(t.Context(), w.entries.sides()[0], "shop", map[types.UID]bool{})
		require.NoError(t, err)
		require.False(t, behind)
	})
	t.Run("a pod waits for the configuration", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"))
		behind, err := w.entries.behind(t.Context(), w.entries.sides()[0], "shop", map[types.UID]bool{})
		require.NoError(t, err)
		require.True(t, behind, "the apiserver has sent a pod of the namespace")
		require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("bank", "a")))
		behind, err = w.entries.behind(t.Context(), w.entries.sides()[0], "bank", map[types.UID]bool{})
		require.NoError(t, err)
		require.False(t, behind)
	})
}

func TestAnObjectThatIsNotStoredIsForgotten(t *testing.T) {
	t.Parallel()
	for _, leader := range []string{"the same leader", "another leader"} {
		t.Run(leader, func(t *testing.T) {
			t.Parallel()
			w := newWorld(configured("CA"))
			require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")))
			require.NoError(t, w.reconcile(t))
			if leader == "another leader" {
				w.leads()
			}
			w.after(markLasts - time.Second)
			require.NoError(t, w.reconcile(t))
			require.Equal(t, map[string][]string{EntryFail: {"shop"}}, w.open(t))
			w.after(time.Second)
			require.NoError(t, w.reconcile(t))
			require.Empty(t, w.open(t))
			require.NotContains(t, w.config(t).Annotations, keys.PodsAskedFor)
			require.False(t, w.sent(t, "shop"))
		})
	}
}

// A deleted object with the same name is not the one that is about to be stored.
func TestAMarkIsForOneObjectAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"), admitted("shop", "a"))
	require.NoError(t, w.reconcile(t))
	next := admitted("shop", "a")
	next.UID = "next"
	require.NoError(t, w.Delete(t.Context(), admitted("shop", "a")))
	require.Empty(t, w.entries.Ask(t.Context(), nil, next))
	require.NoError(t, w.reconcile(t))
	require.Equal(t, map[string][]string{EntryFail: {"shop"}}, w.open(t))
}

func TestAskWritesOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	deleted := admitted("shop", "other")
	deleted.DeletionTimestamp, deleted.Finalizers = &metav1.Time{Time: time.Unix(0, 0)}, []string{"example.com/wait"}
	for _, tc := range []struct {
		name        string
		objects     []client.Object
		old, object client.Object
		writes      int
		change      func(*world)
	}{
		{name: "a first object", object: admitted("shop", "a"), writes: 1},
		{name: "a second object", objects: []client.Object{admitted("shop", "other")}, object: admitted("shop", "a")},
		{name: "an object beside one that is being deleted", objects: []client.Object{deleted}, object: admitted("shop", "a"), writes: 1},
		{name: "an object that must not be skipped beside one that may be", objects: []client.Object{optional("shop")}, object: admitted("shop", "a"), writes: 1},
		{name: "an object that is being deleted", object: deleted},
		{name: "an unrelated change", objects: []client.Object{admitted("shop", "a")}, old: admitted("shop", "a"), object: admitted("shop", "a")},
		{name: "an exempt namespace", object: admitted("kube-system", "a")},
		{name: "a kind that asks for nothing", object: &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "a"}}},
		{name: "without the webhook", object: admitted("shop", "a"), change: func(w *world) { w.entries.Steps = nil }},
		{name: "another namespace of a cluster-scoped object", objects: []client.Object{wide("shop")}, old: wide("shop"), object: wide("bank"), writes: 1},
		{name: "an unchanged namespace of a cluster-scoped object", objects: []client.Object{wide("shop")}, old: wide("shop"), object: wide("shop")},
		{name: "other pods of all namespaces", objects: []client.Object{wide("*")}, old: wide("*"), object: named2("b"), writes: 1},
		{name: "a namespace of which some pods are sent already", objects: []client.Object{wide("*")}, object: admitted("shop", "a"), writes: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(append(tc.objects, configured("CA"))...)
			w.withWide()
			if tc.change != nil {
				tc.change(w)
			}
			require.NoError(t, w.reconcile(t))
			written := w.writes
			require.Empty(t, w.entries.Ask(t.Context(), tc.old, tc.object))
			require.Equal(t, tc.writes, w.writes-written)
			require.Len(t, w.marked(t), tc.writes)
			require.NoError(t, w.reconcile(t))
			require.Equal(t, tc.writes, w.writes-written, "the leader has nothing to add")
		})
	}
	w := newWorld()
	require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")), "there is nothing to do without a configuration")
	require.Zero(t, w.writes)
}

// named2 returns a named cluster-scoped object for all namespaces, which asks for its own pods.
func named2(name string) *corev1.Node {
	n := wide("*")
	n.Name = name
	return n
}

func TestWhatIsWantedOfAllNamespacesIsSentBeforeItsObjectIsStored(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"), wide("*"), admitted("shop", "a"))
	w.withWide()
	require.NoError(t, w.reconcile(t))
	condition := func() string { return wantedBy(&w.config(t).Webhooks[1]) }
	w.hidden = true // The cache of this replica may be behind.
	require.Empty(t, w.entries.Ask(t.Context(), nil, named2("b")))
	require.Equal(t, "request.namespace in ['shop'] || ("+podwebhook.NotOfTheNode+" && ('b' == 'a' || 'n-*' == 'a'))", condition())
	w.hidden = false
	require.NoError(t, w.reconcile(t))
	require.Contains(t, condition(), "'b' == 'a'")
	require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("bank", "a")))
	require.Contains(t, condition(), "request.namespace in ['bank', 'shop'] || ")
	require.Contains(t, condition(), "'b' == 'a'")
	w.after(markLasts)
	require.NoError(t, w.reconcile(t))
	require.Equal(t, "request.namespace in ['shop'] || ("+podwebhook.NotOfTheNode+" && ('n-*' == 'a'))", condition())
}

func TestAskRepeatsAWriteThatConflicts(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"))
	n := 0
	w.answer = func() error {
		if n++; n < 3 {
			return apierrors.NewConflict(schema.GroupResource{}, "flotilla-member", errors.New("another writer"))
		}
		return nil
	}
	require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")))
	require.Equal(t, map[string][]string{EntryFail: {"shop"}}, w.open(t))
}

func TestAskWarnsIfPodsAreNotSent(t *testing.T) {
	t.Parallel()
	const warning = "does not get the pods of namespace shop yet"
	excluded := func(c *admissionv1.MutatingWebhookConfiguration) {
		e := &c.Webhooks[1].NamespaceSelector.MatchExpressions
		*e = append((*e)[:1:1], metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"shop"}})
	}
	full := configured("CA")
	var all marks
	for i := range maxMarks {
		all = append(all, mark{Feature: "Needed", Namespace: fmt.Sprint("n", i), UID: types.UID(strconv.Itoa(i)), Until: metav1.NewTime(time.Unix(60, 0))})
	}
	require.NoError(t, setMarks(full, all))
	for _, tc := range []struct {
		name   string
		config client.Object
		change func(*world)
	}{
		{name: "the apiserver refuses the write", config: configured("CA"), change: func(w *world) { w.answer = func() error { return errors.New("no") } }},
		{name: "another writer excludes the namespace", config: configured("CA"), change: func(w *world) { w.mutate = excluded }},
		{name: "there is no CA bundle yet", config: configured("")},
		{name: "too many objects are being admitted", config: full},
		{name: "the cache does not show the entry in time", config: configured("CA"), change: func(w *world) {
			current := w.config(t)
			inner := w.entries.Client.(client.WithWatch)
			w.entries.Client = interceptor.NewClient(inner, interceptor.Funcs{
				Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
					current.DeepCopyInto(o.(*admissionv1.MutatingWebhookConfiguration))
					return nil
				},
			})
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(tc.config)
			if tc.change != nil {
				tc.change(w)
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			answer := w.answer
			w.answer = func() error {
				cancel() // Its patience ends.
				if answer != nil {
					return answer()
				}
				return nil
			}
			warnings := w.entries.Ask(ctx, nil, admitted("shop", "a"))
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], warning)
			require.Contains(t, warnings[0], "Wait a few seconds", "the kind has no condition Active")
		})
	}
}

func TestTheWarningNamesConditionActiveForAKindThatHasIt(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("")) // Without a CA bundle nothing is sent.
	w.entries.Steps[0].Active = true
	warnings := w.entries.Ask(t.Context(), nil, admitted("shop", "a"))
	require.Len(t, warnings, 1)
	require.Contains(t, warnings[0], "Wait until its condition Active is True")
}

func TestAskWaitsUntilTheCacheShowsTheEntry(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"))
	var mu sync.Mutex
	current, looked := w.config(t), make(chan struct{}, 10)
	inner := w.entries.Client.(client.WithWatch)
	w.entries.Client = interceptor.NewClient(inner, interceptor.Funcs{
		Get: func(_ context.Context, _ client.WithWatch, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
			mu.Lock()
			defer mu.Unlock()
			current.DeepCopyInto(o.(*admissionv1.MutatingWebhookConfiguration))
			looked <- struct{}{}
			return nil
		},
	})
	answered := make(chan []string, 1)
	go func() { answered <- w.entries.Ask(t.Context(), nil, admitted("shop", "a")) }()
	<-looked // Before the write.
	<-looked // After the write.
	w.entries.turn.pass()
	<-looked // An unrelated event.
	require.Empty(t, answered)
	mu.Lock()
	current = w.config(t)
	mu.Unlock()
	w.entries.turn.pass()
	require.Empty(t, <-answered)
}

// If a user's objects are rejected again and again, or the user creates many at once, the configuration is written only once per second.
func TestObjectsThatAreRefusedAreOneMark(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"))
	for i := range 100 {
		require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", strconv.Itoa(i))))
		require.NoError(t, w.reconcile(t))
		w.after(100 * time.Millisecond)
	}
	require.Equal(t, 10, w.writes)
	require.Len(t, w.marked(t), 1)
}

func TestAskIsForGuardsToo(t *testing.T) {
	t.Parallel()
	guards := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-member"}}
	setWebhooks(guards, configured("CA").Webhooks)
	w := newWorld(configured("CA"), guards)
	w.entries.Steps, w.entries.Guards = nil, podwebhook.Guards{active(allOperations(), nil)}
	require.Empty(t, w.entries.Ask(t.Context(), nil, admitted("shop", "a")))
	require.Equal(t, 1, w.writes)
	c := &admissionv1.ValidatingWebhookConfiguration{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "flotilla-member"}, c))
	require.Equal(t, []string{"shop"}, c.Webhooks[1].NamespaceSelector.MatchExpressions[0].Values)
	w.answer = func() error { return errors.New("no") }
	require.Contains(t, w.entries.Ask(t.Context(), nil, admitted("bank", "a"))[0], "is not asked about the pods of namespace bank yet")
}

// Marks that others wrote into the annotation, or whose clock differs by more than marks last, keep nothing open.
func TestMarksThatAreNotOursAreRemoved(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"no JSON":           "all of them",
		"an unknown step":   `[{"feature":"Gone","namespace":"shop","uid":"1","until":"1970-01-01T00:00:30Z"}]`,
		"an exempt one":     `[{"feature":"Needed","namespace":"kube-system","uid":"1","until":"1970-01-01T00:00:30Z"}]`,
		"one that lasts":    `[{"feature":"Needed","namespace":"shop","uid":"1","until":"1970-01-01T01:00:00Z"}]`,
		"one that is over":  `[{"feature":"Needed","namespace":"shop","uid":"1","until":"1970-01-01T00:00:00Z"}]`,
		"one without an id": `[{"feature":"Needed","namespace":"shop"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := configured("CA")
			c.Annotations = map[string]string{keys.PodsAskedFor: text, "others": "stay"}
			w := newWorld(c)
			require.NoError(t, w.reconcile(t))
			require.Empty(t, w.open(t))
			require.Equal(t, map[string]string{"others": "stay"}, w.config(t).Annotations)
		})
	}
}

func TestPodsWaitUntilTheirNamespaceIsSent(t *testing.T) {
	t.Parallel()
	waits := func(w *world) bool {
		wait, err := w.entries.Awaited(t.Context(), "shop")
		require.NoError(t, err)
		require.Equal(t, wait.Why != "", wait.Left > 0)
		return wait.Why != ""
	}
	t.Run("a namespace with an object is not sent until the cache shows the entry", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"), object("shop", "a"))
		changes := w.entries.Changes()
		require.True(t, waits(w))
		require.NoError(t, w.reconcile(t))
		require.False(t, waits(w))
		require.Len(t, changes, 1, "waiting controllers are notified")
	})
	t.Run("a namespace that an object for all namespaces covers", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"), wide("*"))
		w.withWide()
		require.True(t, waits(w))
		require.NoError(t, w.reconcile(t))
		require.False(t, waits(w))
		require.NoError(t, w.Create(t.Context(), object("shop", "a")))
		require.True(t, waits(w), "some pods of the namespace are sent, but not for this object")
	})
	t.Run("a namespace that is closed while an object is created", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"), object("shop", "a"))
		require.NoError(t, w.reconcile(t))
		require.NoError(t, w.Delete(t.Context(), object("shop", "a")))
		during := false
		w.answer = func() error {
			err := w.Create(t.Context(), object("shop", "b"))
			during = waits(w)
			return err
		}
		require.NoError(t, w.reconcile(t))
		require.True(t, during)
	})
	t.Run("a namespace without an object or with an exemption", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"))
		require.False(t, waits(w))
		require.NoError(t, w.Create(t.Context(), object("shop", "a")))
		w.entries.Exempt = append(w.entries.Exempt, "shop")
		require.False(t, waits(w))
		w = newWorld(configured("CA"), object("shop", "a"))
		w.entries.Steps = nil
		require.False(t, waits(w))
		w = newWorld(object("shop", "a"))
		require.NoError(t, w.reconcile(t))
		require.False(t, waits(w), "there is no configuration")
		w = newWorld(configured("CA"), object("shop", "a"))
		require.NoError(t, w.reconcile(t))
		c := w.config(t)
		terms(func(has []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
			return append(has, metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"shop"}})
		})(&c.Webhooks[1])
		require.NoError(t, w.Update(t.Context(), c))
		require.NoError(t, w.reconcile(t))
		require.False(t, waits(w), "another writer excludes the namespace")
	})
	t.Run("the wait is short", func(t *testing.T) {
		t.Parallel()
		w := newWorld(configured("CA"), object("shop", "a"))
		w.answer = func() error { return errors.New("no") }
		for range 10 {
			require.Error(t, w.reconcile(t))
			require.True(t, waits(w))
			w.after(time.Second)
		}
		require.False(t, waits(w))
		require.Error(t, w.reconcile(t))
		require.False(t, waits(w))
		w.answer = nil
		require.NoError(t, w.reconcile(t))
		require.False(t, waits(w))
		require.NoError(t, w.Delete(t.Context(), object("shop", "a")))
		require.NoError(t, w.reconcile(t))
		require.NoError(t, w.Create(t.Context(), object("shop", "a")))
		require.True(t, waits(w), "another time")
	})
}
