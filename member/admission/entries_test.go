package admission

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// configured returns the configuration as left by the chart and the certificate controller.
func configured(bundle string) *admissionv1.MutatingWebhookConfiguration {
	return &admissionv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "flotilla-member"},
		Webhooks: []admissionv1.MutatingWebhook{{
			Name: "mcloneset.kb.io", TimeoutSeconds: new(int32(7)),
			ClientConfig: admissionv1.WebhookClientConfig{CABundle: []byte(bundle), Service: &admissionv1.ServiceReference{
				Namespace: "flotilla-system", Name: "flotilla-member", Path: new("/mutate-apps-kruise-io-cloneset"), Port: new(int32(443)),
			}},
		}},
	}
}

// object returns an object that asks for changes. ConfigMaps and Secrets stand for two kinds.
func object(namespace, name string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

func optional(namespace string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a"}}
}

// world is a cluster with Entries, and the writes that they made.
type world struct {
	client.WithWatch
	entries *Entries
	writes  int
	answer  func() error
	hidden  bool
	clock   *clocktesting.FakePassiveClock
	// mutate is a third-party webhook for configurations.
	mutate func(*admissionv1.MutatingWebhookConfiguration)
}

func newWorld(objects ...client.Object) *world {
	w := &world{clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))}
	inner := fake.NewClientBuilder().WithObjects(objects...).Build()
	w.WithWatch = interceptor.NewClient(inner, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			w.writes++
			if w.answer != nil {
				if err := w.answer(); err != nil {
					return err
				}
			}
			if err := c.Patch(ctx, o, p, opts...); err != nil || w.mutate == nil {
				return err
			}
			config, _ := o.(*admissionv1.MutatingWebhookConfiguration)
			w.mutate(config)
			return c.Update(ctx, config)
		},
	})
	cache := interceptor.NewClient(w.WithWatch, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
			if w.hidden {
				return nil
			}
			return c.List(ctx, l, opts...)
		},
	})
	ignored := step("Optional", nil)
	ignored.Object, ignored.List = &corev1.Secret{}, &corev1.SecretList{}
	w.entries = &Entries{
		Client: cache, Live: w.WithWatch, Configuration: "flotilla-member", Steps: []podwebhook.Step{step("Needed", nil), ignored},
		Exempt: []string{"kube-system", "flotilla-system"}, Ignore: []string{"Optional"},
		Namespace: "flotilla-system", Clock: w.clock,
	}
	return w
}

func (w *world) reconcile(t *testing.T) error {
	t.Helper()
	_, err := w.entries.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "flotilla-member"}})
	return err
}

func (w *world) config(t *testing.T) *admissionv1.MutatingWebhookConfiguration {
	t.Helper()
	c := &admissionv1.MutatingWebhookConfiguration{}
	require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "flotilla-member"}, c))
	return c
}

// open returns the namespaces of the entries, by the entry's name.
func (w *world) open(t *testing.T) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	for _, h := range w.config(t).Webhooks[1:] {
		out[h.Name] = h.NamespaceSelector.MatchExpressions[0].Values
	}
	return out
}

func (w *world) sent(tb testing.TB, namespace string) bool {
	tb.Helper()
	ok, _ := w.entries.Sent(tb.Context(), namespace)
	return ok
}

func TestEntriesFollowTheObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		objects []client.Object
		want    map[string][]string
	}{
		{name: "no entry without an object", want: map[string][]string{}},
		{name: "a namespace with an object is sent", objects: []client.Object{object("shop", "a"), object("shop", "b"), object("bank", "a")}, want: map[string][]string{EntryFail: {"bank", "shop"}}},
		{name: "a namespace whose object may be skipped has the other entry", objects: []client.Object{optional("shop")}, want: map[string][]string{entryIgnore: {"shop"}}},
		{
			name:    "an object that must not be skipped decides, and no pod is sent twice",
			objects: []client.Object{optional("shop"), object("shop", "a"), optional("bank")},
			want:    map[string][]string{EntryFail: {"shop"}, entryIgnore: {"bank"}},
		},
		{name: "exempt namespaces are never sent", objects: []client.Object{object("kube-system", "a"), object("flotilla-system", "a")}, want: map[string][]string{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(append(tc.objects, configured("CA"))...)
			require.NoError(t, w.reconcile(t))
			require.Equal(t, tc.want, w.open(t))
			for _, namespace := range []string{"shop", "bank", "kube-system"} {
				open := false
				for _, list := range tc.want {
					for _, n := range list {
						open = open || n == namespace
					}
				}
				require.Equal(t, open, w.sent(t, namespace), namespace)
			}
			require.Empty(t, cmp.Diff(configured("CA").Webhooks[0], w.config(t).Webhooks[0]), "entries of the chart stay")
			written := w.writes
			require.LessOrEqual(t, written, 1)
			require.NoError(t, w.reconcile(t))
			require.Equal(t, written, w.writes, "the same is not written again")
		})
	}
}

// wide returns a cluster-scoped object that asks for the pods of one namespace, or of all. Nodes stand for its kind.
func wide(namespace string) *corev1.Node {
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n-" + namespace, Annotations: map[string]string{"for": namespace}}}
}

func TestEntriesFollowClusterScopedObjects(t *testing.T) {
	t.Parallel()
	not := func(more ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{
			Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: slices.Sorted(slices.Values(append(more, "flotilla-system", "kube-system"))),
		}
	}
	in := func(names ...string) metav1.LabelSelectorRequirement {
		return metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpIn, Values: names}
	}
	for _, tc := range []struct {
		name     string
		objects  []client.Object
		optional bool
		want     map[string]metav1.LabelSelectorRequirement
	}{
		{
			name: "an object for one namespace", objects: []client.Object{wide("shop"), object("bank", "a"), wide("kube-system")},
			want: map[string]metav1.LabelSelectorRequirement{EntryFail: in("bank", "shop")},
		},
		{
			name: "an object for all namespaces covers the others", objects: []client.Object{wide("*"), wide("shop"), object("bank", "a"), optional("farm")},
			want: map[string]metav1.LabelSelectorRequirement{EntryFail: not(), entryIgnore: in("farm")},
		},
		{
			name: "an object for all namespaces that may be skipped leaves others their own entry", optional: true,
			objects: []client.Object{wide("*"), object("bank", "a"), optional("farm")},
			want:    map[string]metav1.LabelSelectorRequirement{EntryFail: in("bank"), entryIgnore: not("bank")},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(append(tc.objects, configured("CA"))...)
			s := step("Wide", nil)
			s.Object, s.List = &corev1.Node{}, &corev1.NodeList{}
			s.Namespaces = func(o client.Object) []string { return []string{o.GetAnnotations()["for"]} }
			w.entries.Steps = append(w.entries.Steps, s)
			if tc.optional {
				w.entries.Ignore = append(w.entries.Ignore, "Wide")
			}
			require.NoError(t, w.reconcile(t))
			got := map[string]metav1.LabelSelectorRequirement{}
			for _, h := range w.config(t).Webhooks[1:] {
				got[h.Name] = h.NamespaceSelector.MatchExpressions[0]
			}
			require.Equal(t, tc.want, got)
			require.NoError(t, w.reconcile(t))
			require.Equal(t, 1, w.writes, "the same is not written again")
			_, all := w.entries.now[podwebhook.AllNamespaces]
			require.Equal(t, all, w.sent(t, "one-to-come"))
			require.False(t, w.sent(t, "kube-system"))

			w.hidden = true // The cache of a new leader may be behind.
			require.NoError(t, w.reconcile(t))
			require.Equal(t, 1, w.writes)
			w.hidden = false
			for _, o := range tc.objects {
				require.NoError(t, w.Delete(t.Context(), o))
			}
			require.NoError(t, w.reconcile(t))
			require.Empty(t, w.open(t))
		})
	}
}

// While no replica answers, no pod that is sent can be created.
func TestAttack27OnlyWantedPodsAreSentFromAllNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(wide("*"), object("shop", "a"), optional("farm"), configured("CA"))
	s := step("Wide", nil)
	s.Object, s.List = &corev1.Node{}, &corev1.NodeList{}
	s.Namespaces = func(o client.Object) []string { return []string{o.GetAnnotations()["for"]} }
	s.Wants = func(o client.Object) string { return "'" + o.GetName() + "' == 'a'" }
	w.entries.Steps = append(w.entries.Steps, s, podwebhook.Step{Feature: "Asked", Asks: "asks"})
	conditionOf := func(entry string) string {
		for _, h := range w.config(t).Webhooks {
			if h.Name == entry {
				require.Len(t, h.MatchConditions, 1)
				return h.MatchConditions[0].Expression
			}
		}
		return "there is no entry"
	}
	condition := func() string { return conditionOf(EntryFail) }
	require.NoError(t, w.reconcile(t))
	require.Equal(t, "!(("+podwebhook.NotOfTheNode+" && ('n-*' == 'a')) || asks)", conditionOf(entryIgnore),
		"pods that may be created without a replica are, and none is sent twice")
	require.Equal(t, "request.namespace in ['shop'] || ("+podwebhook.NotOfTheNode+" && ('n-*' == 'a')) || asks", condition())
	written := w.writes
	w.hidden = true
	require.NoError(t, w.reconcile(t))
	require.Equal(t, written, w.writes, "a cache that lacks an object removes nothing")
	w.hidden = false

	more := wide("*")
	more.Name = "more"
	require.NoError(t, w.Create(t.Context(), more))
	require.NoError(t, w.reconcile(t))
	require.Contains(t, condition(), "('more' == 'a' || 'n-*' == 'a')")

	more.Name, more.ResourceVersion = strings.Repeat("x", maxCondition), ""
	require.NoError(t, w.Create(t.Context(), more))
	require.NoError(t, w.reconcile(t))
	require.Equal(t, "request.namespace in ['shop'] || ("+podwebhook.NotOfTheNode+") || asks", condition(), "selectors that are too long")

	require.NoError(t, w.Delete(t.Context(), wide("*")))
	more.Name = "more"
	require.NoError(t, w.Delete(t.Context(), more))
	more.Name = strings.Repeat("x", maxCondition)
	require.NoError(t, w.Delete(t.Context(), more))
	require.NoError(t, w.reconcile(t))
	require.Equal(t, map[string][]string{EntryFail: {"shop"}, entryIgnore: {"farm"}, entryAsked: {"farm", "flotilla-system", "kube-system", "shop"}}, w.open(t))
}

// Pods that request a step themselves are sent from all other namespaces, and none is sent twice.
func TestPodsThatAskAreSentFromNamespacesWithoutObjects(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		objects []client.Object
		ignore  []string
		out     []string // The namespaces that its entry excludes. Nil means that there is no such entry.
		policy  admissionv1.FailurePolicyType
	}{
		{name: "without any object", out: []string{"flotilla-system", "kube-system"}, policy: admissionv1.Fail},
		{
			name: "namespaces that are sent anyway are excluded", objects: []client.Object{object("shop", "a"), optional("bank"), object("kube-system", "a")},
			out: []string{"bank", "flotilla-system", "kube-system", "shop"}, policy: admissionv1.Fail,
		},
		{name: "no entry if all pods are sent", objects: []client.Object{wide("*")}},
		{name: "steps that may be skipped", ignore: []string{"Asked", "AskedToo"}, out: []string{"flotilla-system", "kube-system"}, policy: admissionv1.Ignore},
		{name: "the step that must not be skipped decides", ignore: []string{"Asked"}, out: []string{"flotilla-system", "kube-system"}, policy: admissionv1.Fail},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(append(tc.objects, configured("CA"))...)
			all := step("Wide", nil)
			all.Object, all.List = &corev1.Node{}, &corev1.NodeList{}
			all.Namespaces = func(o client.Object) []string { return []string{o.GetAnnotations()["for"]} }
			w.entries.Steps = append(w.entries.Steps, all, podwebhook.Step{Feature: "Asked", Asks: "a"}, podwebhook.Step{Feature: "AskedToo", Asks: "b"})
			w.entries.Ignore = append(w.entries.Ignore, tc.ignore...)
			require.NoError(t, w.reconcile(t))
			hooks := w.config(t).Webhooks
			i := slices.IndexFunc(hooks, func(h admissionv1.MutatingWebhook) bool { return h.Name == entryAsked })
			require.Equal(t, tc.out != nil, i >= 0)
			if i >= 0 {
				h := hooks[i]
				require.Equal(t, []metav1.LabelSelectorRequirement{{
					Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: tc.out,
				}}, h.NamespaceSelector.MatchExpressions)
				require.Equal(t, []admissionv1.MatchCondition{{Name: "asks", Expression: "a || b"}}, h.MatchConditions)
				require.Equal(t, tc.policy, *h.FailurePolicy)
				require.Equal(t, AskedPath, *h.ClientConfig.Service.Path)
				require.False(t, w.sent(t, "elsewhere"), "no object becomes active by it")
			}
			require.NoError(t, w.reconcile(t))
			require.Equal(t, 1, w.writes, "the same is not written again")
			w.entries.Steps = nil // The gate is off.
			require.NoError(t, w.reconcile(t))
			require.Len(t, w.config(t).Webhooks, 1)
		})
	}
}

// The entries for requests that guards judge are maintained in the same way, in the other configuration.
func TestEntriesOfGuardsFollowTheirObjects(t *testing.T) {
	t.Parallel()
	guards := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "flotilla-member"}}
	setWebhooks(guards, configured("CA").Webhooks)
	w := newWorld(object("shop", "a"), object("kube-system", "a"), optional("bank"), configured("CA"), guards)
	needed, ignored := active(allOperations(), nil), active(podwebhook.Gates{podwebhook.Delete: ""}, nil)
	ignored.Feature, ignored.Object, ignored.List = "Optional", &corev1.Secret{}, &corev1.SecretList{}
	w.entries.Steps, w.entries.Guards = nil, podwebhook.Guards{needed, ignored}
	read := func() []admissionv1.ValidatingWebhook {
		c := &admissionv1.ValidatingWebhookConfiguration{}
		require.NoError(t, w.Get(t.Context(), client.ObjectKey{Name: "flotilla-member"}, c))
		return c.Webhooks
	}
	require.NoError(t, w.reconcile(t))
	require.Equal(t, 1, w.writes)
	require.Empty(t, w.open(t), "new pods are not sent")
	current := read()
	require.Empty(t, cmp.Diff(guards.Webhooks[0], current[0]), "entries of the chart stay")
	require.Len(t, current, 3)
	for i, want := range []struct {
		name, namespace string
		policy          admissionv1.FailurePolicyType
	}{{guardFail, "shop", admissionv1.Fail}, {guardIgnore, "bank", admissionv1.Ignore}} {
		e := current[i+1]
		require.Equal(t, want.name, e.Name)
		require.Equal(t, want.policy, *e.FailurePolicy)
		require.Equal(t, []string{want.namespace}, e.NamespaceSelector.MatchExpressions[0].Values)
		require.Equal(t, GuardPath, *e.ClientConfig.Service.Path)
		require.Equal(t, admissionv1.SideEffectClassNoneOnDryRun, *e.SideEffects)
		require.Equal(t, conditions(), e.MatchConditions)
	}
	require.NoError(t, w.reconcile(t))
	require.Equal(t, 1, w.writes, "the same is not written again")
	require.NoError(t, w.Delete(t.Context(), object("shop", "a")))
	require.NoError(t, w.Delete(t.Context(), optional("bank")))
	require.NoError(t, w.reconcile(t))
	require.Len(t, read(), 1)
}

func TestAnEntryCallsWhoTheOthersCall(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured("CA"))
	require.NoError(t, w.reconcile(t))
	e := w.config(t).Webhooks[1]
	require.Equal(t, "/mutate-pod", *e.ClientConfig.Service.Path)
	require.Equal(t, "flotilla-member", e.ClientConfig.Service.Name)
	require.Equal(t, int32(443), *e.ClientConfig.Service.Port)
	require.Equal(t, "CA", string(e.ClientConfig.CABundle), "the entry has a certificate from the start")
	require.Equal(t, int32(7), *e.TimeoutSeconds)
	require.Equal(t, admissionv1.Fail, *e.FailurePolicy)
	require.Equal(t, []admissionv1.OperationType{admissionv1.Create}, e.Rules[0].Operations)
	require.Equal(t, []string{"pods"}, e.Rules[0].Resources)
	require.Equal(t, "/mutate-apps-kruise-io-cloneset", *w.config(t).Webhooks[0].ClientConfig.Service.Path)
	outside := admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:9443/mutate-apps-kruise-io-cloneset"), CABundle: []byte("CA")}
	require.Equal(t, "https://127.0.0.1:9443/mutate-pod", *creationShape(nil, "").address(outside).URL)
}

func TestWithoutACABundleNothingIsOpened(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured(""))
	require.NoError(t, w.reconcile(t))
	require.Empty(t, w.open(t))
	require.False(t, w.sent(t, "shop"))
}

func TestANamespaceIsClosedOnlyIfTheApiserverConfirmsIt(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured("CA"))
	require.NoError(t, w.reconcile(t))
	w.hidden = true // The cache of a new leader may be behind.
	require.NoError(t, w.reconcile(t))
	require.True(t, w.sent(t, "shop"))
	require.Equal(t, 1, w.writes)
	require.NoError(t, w.Delete(t.Context(), object("shop", "a")))
	require.NoError(t, w.reconcile(t))
	require.False(t, w.sent(t, "shop"))
	require.Len(t, w.config(t).Webhooks, 1, "no pod is sent any longer")
}

func TestWhatRemovesAnEntryIsRepaired(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured("CA"))
	require.NoError(t, w.reconcile(t))
	c := w.config(t)
	c.Webhooks = c.Webhooks[:1] // As helm upgrade --force does.
	require.NoError(t, w.Update(t.Context(), c))
	require.NoError(t, w.reconcile(t))
	require.Equal(t, map[string][]string{EntryFail: {"shop"}}, w.open(t))
}

// Exclusions added by others stay, such as by the Admissions Enforcer of AKS, GKE Autopilot and policy engines.
func TestExclusionsOfOthersStay(t *testing.T) {
	t.Parallel()
	aks := []metav1.LabelSelectorRequirement{
		{Key: "control-plane", Operator: metav1.LabelSelectorOpDoesNotExist},
		{Key: "kubernetes.azure.com/managedby", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"aks"}},
	}
	gke := []metav1.LabelSelectorRequirement{{Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"gke-managed-system", "kube-system"}}}
	shop := metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"shop"}}
	for _, tc := range []struct {
		name    string
		add     func(*admissionv1.MutatingWebhook)
		want    []metav1.LabelSelectorRequirement
		written int // How often the entry is written back.
		blind   string
	}{
		{name: "an exclusion after ours is kept", add: terms(func(has []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
			return append(has, aks...)
		}), want: append([]metav1.LabelSelectorRequirement{shop}, aks...)},
		{name: "an exclusion before ours is kept", add: terms(func(has []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
			return append(slices.Clone(gke), has...)
		}), want: append(slices.Clone(gke), shop)},
		{name: "an exclusion of a sent namespace is kept", add: terms(func(has []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
			return append(has, metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"shop"}})
		}), want: []metav1.LabelSelectorRequirement{shop, {Key: metadataName, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"shop"}}}, blind: "excludes namespace shop"},
		{name: "a term that selects only some namespaces is removed", add: terms(func(has []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
			return append(has, append(aks, metav1.LabelSelectorRequirement{Key: "team", Operator: metav1.LabelSelectorOpExists})...)
		}), want: append([]metav1.LabelSelectorRequirement{shop}, aks...), written: 1},
		{name: "a second term with names is removed", add: terms(func(has []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
			return append(has, metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpIn, Values: []string{"bank"}})
		}), want: []metav1.LabelSelectorRequirement{shop}, written: 1},
		{name: "a term without names is removed", add: terms(func(has []metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement {
			return append(has, metav1.LabelSelectorRequirement{Key: metadataName, Operator: metav1.LabelSelectorOpDoesNotExist})
		}), want: []metav1.LabelSelectorRequirement{shop}, written: 1},
		{name: "labels are removed", add: func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector.MatchLabels = map[string]string{"a": "b"} }, want: []metav1.LabelSelectorRequirement{shop}, written: 1},
		{name: "pod labels are removed", add: func(w *admissionv1.MutatingWebhook) {
			w.ObjectSelector = &metav1.LabelSelector{MatchExpressions: aks}
		}, want: []metav1.LabelSelectorRequirement{shop}, written: 1},
		{name: "another failurePolicy is reverted", add: func(w *admissionv1.MutatingWebhook) { w.FailurePolicy = new(admissionv1.Ignore) }, want: []metav1.LabelSelectorRequirement{shop}, written: 1},
		{name: "a missing namespaceSelector is restored", add: func(w *admissionv1.MutatingWebhook) { w.NamespaceSelector = nil }, want: []metav1.LabelSelectorRequirement{shop}, written: 1},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(object("shop", "a"), configured("CA"))
			require.NoError(t, w.reconcile(t))
			c := w.config(t)
			tc.add(&c.Webhooks[1])
			require.NoError(t, w.Update(t.Context(), c))
			for range 3 {
				require.NoError(t, w.reconcile(t))
			}
			require.Equal(t, 1+tc.written, w.writes)
			current := w.config(t).Webhooks[1]
			require.Equal(t, tc.want, current.NamespaceSelector.MatchExpressions)
			require.Empty(t, current.NamespaceSelector.MatchLabels)
			require.Equal(t, &metav1.LabelSelector{}, current.ObjectSelector)
			require.Equal(t, admissionv1.Fail, *current.FailurePolicy)
			sent, why := w.entries.Sent(t.Context(), "shop")
			require.Equal(t, tc.blind == "", sent)
			require.Contains(t, why, tc.blind)

			// What is sent changes with the objects. What others exclude doesn't.
			require.NoError(t, w.Create(t.Context(), object("bank", "a")))
			require.NoError(t, w.reconcile(t))
			require.Len(t, w.config(t).Webhooks[1].NamespaceSelector.MatchExpressions, len(tc.want))
			require.True(t, w.sent(t, "bank"))
			all := newWorld(w.config(t), wide("*"))
			s := step("Wide", nil)
			s.Object, s.List = &corev1.Node{}, &corev1.NodeList{}
			s.Namespaces = func(o client.Object) []string { return []string{o.GetAnnotations()["for"]} }
			all.entries.Steps = append(all.entries.Steps, s)
			require.NoError(t, all.reconcile(t))
			require.Len(t, all.config(t).Webhooks[1].NamespaceSelector.MatchExpressions, len(tc.want))
			require.NoError(t, all.Delete(t.Context(), wide("*")))
			require.NoError(t, all.Create(t.Context(), object("shop", "a")))
			require.NoError(t, all.reconcile(t))
			require.Equal(t, tc.want, all.config(t).Webhooks[1].NamespaceSelector.MatchExpressions, "and reverted")
		})
	}
}

func terms(change func([]metav1.LabelSelectorRequirement) []metav1.LabelSelectorRequirement) func(*admissionv1.MutatingWebhook) {
	return func(w *admissionv1.MutatingWebhook) {
		w.NamespaceSelector.MatchExpressions = change(w.NamespaceSelector.MatchExpressions)
	}
}

// A change by another writer is reverted at once, and then less and less often. What the objects ask for isn't delayed by that.
func TestAWriterWhoDoesNotAgreeIsWrittenBackLessAndLess(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured("CA"))
	require.NoError(t, w.reconcile(t))
	remove := func() {
		c := w.config(t)
		c.Webhooks = c.Webhooks[:1]
		require.NoError(t, w.Update(t.Context(), c))
	}
	for range 10 * 60 { // Ten minutes with an event each second.
		remove()
		require.NoError(t, w.reconcile(t))
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	require.LessOrEqual(t, w.writes, 18)
	remove()
	result, err := w.entries.Reconcile(t.Context(), ctrl.Request{})
	require.NoError(t, err)
	require.Positive(t, result.RequeueAfter, "no event is needed")
	require.False(t, w.sent(t, "shop"), "pods don't count as sent")
	written := w.writes
	require.NoError(t, w.Create(t.Context(), object("bank", "a")))
	require.NoError(t, w.reconcile(t))
	require.Equal(t, written+1, w.writes)
	require.Equal(t, map[string][]string{EntryFail: {"bank", "shop"}}, w.open(t))
}

// A third-party webhook that changes what is written, as a policy engine does, causes no loop, and what it excludes is not reported as sent.
func TestAPolicyThatChangesEachWriteIsWrittenToLessAndLess(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured("CA"))
	w.mutate = func(c *admissionv1.MutatingWebhookConfiguration) { c.Webhooks = c.Webhooks[:1] }
	for range 10 * 60 {
		require.NoError(t, w.reconcile(t))
		require.False(t, w.sent(t, "shop"))
		w.clock.SetTime(w.clock.Now().Add(time.Second))
	}
	require.LessOrEqual(t, w.writes, 18)
}

// A new leader finds the entries as the previous one left them, and repairs what a crash before or after a write left incomplete.
func TestANewLeaderGoesOnWhereTheFormerOneEnded(t *testing.T) {
	t.Parallel()
	for _, crashed := range []string{"before its write", "after its write"} {
		t.Run(crashed, func(t *testing.T) {
			t.Parallel()
			w := newWorld(object("shop", "a"), configured("CA"))
			if crashed == "after its write" {
				require.NoError(t, w.reconcile(t))
			}
			next := &Entries{
				Client: w.entries.Client, Live: w.entries.Live, Configuration: w.entries.Configuration, Steps: w.entries.Steps,
				Exempt: w.entries.Exempt, Ignore: w.entries.Ignore,
			}
			w.entries = next
			require.Equal(t, crashed == "after its write", w.sent(t, "shop"), "what was active stays active")
			require.False(t, w.sent(t, "bank"))
			changes := next.Changes()
			require.NoError(t, w.reconcile(t))
			require.True(t, w.sent(t, "shop"))
			require.Equal(t, 1, w.writes)
			require.Len(t, changes, 1, "early callers are notified")
		})
	}
}

func TestAWriteThatFailsOpensNothing(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	conflict := apierrors.NewConflict(schema.GroupResource{}, "flotilla-member", boom)
	for name, tc := range map[string]struct{ answer, want error }{
		"an error is retried":                           {boom, boom},
		"a conflict waits for the other writer's event": {conflict, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(object("shop", "a"), configured("CA"))
			require.NoError(t, w.reconcile(t))
			require.NoError(t, w.Create(t.Context(), object("bank", "a")))
			w.answer = func() error { return tc.answer }
			require.ErrorIs(t, w.reconcile(t), tc.want)
			require.True(t, w.sent(t, "shop"), "the namespace is open before and after")
			require.False(t, w.sent(t, "bank"))
			w.answer = nil
			require.NoError(t, w.reconcile(t))
			require.True(t, w.sent(t, "bank"))
		})
	}
}

func TestWithoutTheConfigurationNothingIsSent(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"))
	require.NoError(t, w.reconcile(t))
	require.False(t, w.sent(t, "shop"))
}

func TestWithTheGateOffEntriesAreRemoved(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured("CA"))
	require.NoError(t, w.reconcile(t))
	w.entries.Steps = nil
	require.NoError(t, w.reconcile(t))
	require.Empty(t, w.open(t))
	_, why := w.entries.Sent(t.Context(), "shop")
	require.Contains(t, why, "enable feature gate PodWebhook")
	_, why = w.entries.Sent(t.Context(), "kube-system")
	require.Contains(t, why, "namespace kube-system is exempt")
}

// A namespace that is about to be closed is closed by the time a concurrent caller gets the answer.
func TestWhoAsksWhileEntriesChangeGetsWhatComesOfIt(t *testing.T) {
	t.Parallel()
	w := newWorld(object("shop", "a"), configured("CA"))
	require.NoError(t, w.reconcile(t))
	require.NoError(t, w.Delete(t.Context(), object("shop", "a")))
	var asked sync.WaitGroup
	var open bool
	w.answer = func() error {
		started := make(chan struct{})
		asked.Go(func() {
			close(started)
			open = w.sent(t, "shop")
		})
		<-started
		return nil
	}
	require.NoError(t, w.reconcile(t))
	asked.Wait()
	require.False(t, open)
}

func TestSeveralChangesAreOneEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(configured("CA"))
	a, b := w.entries.Changes(), w.entries.Changes()
	for _, namespace := range []string{"a", "b", "c"} {
		require.NoError(t, w.Create(t.Context(), object(namespace, "x")))
		require.NoError(t, w.reconcile(t))
	}
	require.Len(t, a, 1)
	require.Len(t, b, 1)
	<-a
	require.NoError(t, w.reconcile(t))
	require.Empty(t, a, "nothing has changed")
}
