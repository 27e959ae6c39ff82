//go:build integration

package resourcedistribution

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const (
	underTest = "resourcedistribution-under-test"
	// listedSecret is the only Secret that may be distributed.
	listedSecret = "shared-key"
	team         = "team"
)

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	s.Run(t, underTest, gvk(), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(t.Context(), mgr, options{Options: control.Options{Clock: clock.RealClock{}}, Secrets: []string{listedSecret}}))
		// The Env has a mutating webhook for each kind; this kind has none.
		require.NoError(t, admit.Handle(mgr, admit.MutatePath(gvk()), webhook.HandlerFunc(
			func(context.Context, webhook.Request) webhook.Response { return webhook.Allowed("") })))
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.ResourceDistribution]{
			Object: &appsv1beta1.ResourceDistribution{}, Validator: &Webhook{Secrets: []string{listedSecret}, Client: mgr.GetClient()},
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"copies follow targets and resource": follows, "objects of others are left alone": leavesOthersAlone,
		"Secrets by name only": secretsByName, "copies that another manager has created": takesOver,
		"copies follow a source": followsASource, "a Secret as source": secretAsSource,
		"users who may not read a source may not distribute it": onlyReadersDirect,
		"an apply creates only missing copies":                  createsOnly,
		"examples are answered as their first lines say": func(t *testing.T, f *fixture) {
			t.Helper()
			webhooktest.DryRun(t, renaming{f, f.one}, "", examples, "resourcedistribution")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{s, s.Namespace(t), s.Namespace(t)})
		})
	}
}

// renaming creates objects with a name that the Env's webhooks are called for.
type renaming struct {
	client.Client

	name string
}

func (r renaming) Create(ctx context.Context, o client.Object, opts ...client.CreateOption) error {
	o.SetName(r.name)
	return r.Client.Create(ctx, o, opts...)
}

// fixture belongs to one test: two namespaces, and objects named after the first one.
type fixture struct {
	*testenv.Env

	one, two string
}

func (f *fixture) distribution(raw string) *appsv1beta1.ResourceDistribution {
	return &appsv1beta1.ResourceDistribution{
		ObjectMeta: metav1.ObjectMeta{Name: f.one},
		Spec: appsv1beta1.ResourceDistributionSpec{
			Resource: runtime.RawExtension{Raw: []byte(raw)},
			Targets: appsv1beta1.ResourceDistributionTargets{
				IncludedNamespaces: named(f.one), NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{team: f.one}},
			},
		},
	}
}

func (f *fixture) configMap(data string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q},"data":{%s}}`, f.one, data)
}

// create creates a ResourceDistribution, which is deleted when the test ends.
func (f *fixture) create(t *testing.T, rd *appsv1beta1.ResourceDistribution) {
	t.Helper()
	require.NoError(t, f.Create(t.Context(), rd))
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(f.Delete(context.WithoutCancel(t.Context()), rd))) })
}

// await waits for a status of the current generation.
func (f *fixture) await(t *testing.T, what func(*appsv1beta1.ResourceDistribution) bool) *appsv1beta1.ResourceDistribution {
	t.Helper()
	rd := &appsv1beta1.ResourceDistribution{}
	require.Eventually(t, func() bool {
		return f.Get(t.Context(), types.NamespacedName{Name: f.one}, rd) == nil && rd.Status.ObservedGeneration == rd.Generation && what(rd)
	}, testenv.Long, testenv.Poll)
	return rd
}

func counts(desired, succeeded int32) func(*appsv1beta1.ResourceDistribution) bool {
	return func(rd *appsv1beta1.ResourceDistribution) bool {
		return rd.Status.Desired == desired && rd.Status.Succeeded == succeeded && rd.Status.Failed == desired-succeeded
	}
}

// awaitConfigMap waits until a ConfigMap has this data; nil waits until it is gone.
func (f *fixture) awaitConfigMap(t *testing.T, namespace string, data map[string]string) *corev1.ConfigMap {
	t.Helper()
	c := &corev1.ConfigMap{}
	require.Eventually(t, func() bool {
		c = &corev1.ConfigMap{}
		err := f.Get(t.Context(), types.NamespacedName{Namespace: namespace, Name: f.one}, c)
		if data == nil {
			return apierrors.IsNotFound(err)
		}
		return err == nil && fmt.Sprint(c.Data) == fmt.Sprint(data)
	}, testenv.Long, testenv.Poll, "%s: want %v, is %v", namespace, data, c.Data)
	return c
}

func follows(t *testing.T, f *fixture) {
	t.Helper()
	rd := f.distribution(f.configMap(`"a":"1","b":"2"`))
	f.create(t, rd)
	f.await(t, counts(1, 1))
	c := f.awaitConfigMap(t, f.one, map[string]string{"a": "1", "b": "2"})
	require.Equal(t, f.one, c.Annotations[keys.ResourceDistributionFrom])
	require.Equal(t, rd.UID, c.OwnerReferences[0].UID)
	require.True(t, *c.OwnerReferences[0].BlockOwnerDeletion)

	// A namespace begins to match.
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: f.two}}
	testkit.Change(t, f, ns, func(n *corev1.Namespace) { n.Labels[team] = f.one })
	f.awaitConfigMap(t, f.two, map[string]string{"a": "1", "b": "2"})
	f.await(t, counts(2, 2))

	// Manual edits are undone, including those that an apply alone does not undo.
	testkit.Change(t, f, c, func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "by hand", "c": "by hand"} })
	f.awaitConfigMap(t, f.one, map[string]string{"a": "1", "b": "2"})

	// The resource changes, and loses a key.
	testkit.Change(t, f, rd, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Resource.Raw = []byte(f.configMap(`"b":"3"`)) })
	f.awaitConfigMap(t, f.one, map[string]string{"b": "3"})
	f.awaitConfigMap(t, f.two, map[string]string{"b": "3"})

	// A namespace no longer matches.
	testkit.Change(t, f, ns, func(n *corev1.Namespace) { delete(n.Labels, team) })
	f.awaitConfigMap(t, f.two, nil)
	f.await(t, counts(1, 1))

	// A copy is deleted by hand. Deleting all copies with their owner is up to the garbage collector.
	require.NoError(t, f.Delete(t.Context(), c))
	require.Eventually(t, func() bool { return f.awaitConfigMap(t, f.one, map[string]string{"b": "3"}).UID != c.UID }, testenv.Long, testenv.Poll)
}

func leavesOthersAlone(t *testing.T, f *fixture) {
	t.Helper()
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.one, Name: f.one}, Data: map[string]string{"a": "theirs"}}
	require.NoError(t, f.Create(t.Context(), theirs))
	rd := f.distribution(f.configMap(`"a":"1"`))
	rd.Spec.Targets.IncludedNamespaces = named(f.one, f.two, f.one+"-later")
	f.create(t, rd)
	rd = f.await(t, counts(3, 1))
	require.Equal(t, []string{f.one}, find(rd.Status.Conditions, appsv1beta1.ResourceDistributionConflictOccurred).FailedNamespaces)
	require.Equal(t, []string{f.one + "-later"}, find(rd.Status.Conditions, appsv1beta1.ResourceDistributionNamespaceNotExists).FailedNamespaces)
	live := f.awaitConfigMap(t, f.one, map[string]string{"a": "theirs"})
	require.Equal(t, theirs.ResourceVersion, live.ResourceVersion)
	require.NoError(t, f.Delete(t.Context(), theirs))
	f.awaitConfigMap(t, f.one, map[string]string{"a": "1"})
	f.await(t, counts(3, 2))
}

func secretsByName(t *testing.T, f *fixture) {
	t.Helper()
	rd := f.distribution(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"another"},"stringData":{"key":"1"}}`)
	require.ErrorContains(t, f.Create(t.Context(), rd), "add another to resourceDistribution.secrets of the chart")
	rd.Spec.Resource.Raw = []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"` + listedSecret + `"},"stringData":{"key":"1"}}`)
	f.create(t, rd)
	f.await(t, counts(1, 1))
	s := &corev1.Secret{}
	require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: f.one, Name: listedSecret}, s))
	require.Equal(t, map[string][]byte{"key": []byte("1")}, s.Data)
	// It does not differ from what was requested, so nothing writes it again.
	testkit.Change(t, f, rd, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.ExcludedNamespaces = named("nowhere") })
	f.await(t, counts(1, 1))
	live := &corev1.Secret{}
	require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: f.one, Name: listedSecret}, live))
	require.Equal(t, s.ResourceVersion, live.ResourceVersion)
}

// referring returns a distribution of the object with that kind and name in namespace two, which would otherwise be a target.
func (f *fixture) referring(kind, name string) *appsv1beta1.ResourceDistribution {
	rd := f.distribution("")
	rd.Spec.Resource = runtime.RawExtension{}
	rd.Spec.Source = &appsv1beta1.ResourceDistributionSource{Kind: kind, Namespace: f.two, Name: name}
	rd.Spec.Targets = appsv1beta1.ResourceDistributionTargets{IncludedNamespaces: named(f.one, f.two)}
	return rd
}

func sourceIs(status metav1.ConditionStatus, reason string) func(*appsv1beta1.ResourceDistribution) bool {
	return func(rd *appsv1beta1.ResourceDistribution) bool {
		c := find(rd.Status.Conditions, appsv1beta1.ResourceDistributionGetResourceFailed)
		return c != nil && c.Status == status && c.Reason == reason
	}
}

func followsASource(t *testing.T, f *fixture) {
	t.Helper()
	rd := f.referring(kindConfigMap, f.one)
	f.create(t, rd)
	f.await(t, sourceIs(metav1.ConditionTrue, reasonSourceNotFound))
	source := func(value string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.two, Name: f.one, Labels: map[string]string{"app": "x"}},
			Data:       map[string]string{"a": value, value: "key"}, Immutable: new(value == "2"),
		}
	}
	first := source("1")
	require.NoError(t, f.Create(t.Context(), first))
	c := f.awaitConfigMap(t, f.one, first.Data)
	require.Empty(t, c.Labels)
	f.await(t, counts(1, 1))

	testkit.Change(t, f, first, func(c *corev1.ConfigMap) { c.Data = map[string]string{"b": "1"} })
	f.awaitConfigMap(t, f.one, map[string]string{"b": "1"})
	testkit.Change(t, f, c, func(c *corev1.ConfigMap) { c.Data = map[string]string{"by": "hand"} })
	f.awaitConfigMap(t, f.one, map[string]string{"b": "1"})
	f.await(t, counts(1, 1))

	require.NoError(t, f.Delete(t.Context(), first))
	f.await(t, sourceIs(metav1.ConditionTrue, reasonSourceNotFound))
	require.Equal(t, c.UID, f.awaitConfigMap(t, f.one, map[string]string{"b": "1"}).UID, "a copy stays without its source")
	for _, value := range []string{"2", "3"} { // The first one is immutable, and is replaced.
		require.NoError(t, f.Create(t.Context(), source(value)))
		f.awaitConfigMap(t, f.one, source(value).Data)
		rd = f.await(t, counts(1, 1))
		require.True(t, sourceIs(metav1.ConditionFalse, reasonSucceeded)(rd))
		require.Equal(t, source(value).Labels, f.awaitConfigMap(t, f.two, source(value).Data).Labels, "the source is not written")
		require.Empty(t, f.awaitConfigMap(t, f.two, source(value).Data).OwnerReferences)
		require.NoError(t, f.Delete(t.Context(), source(value)))
		f.await(t, sourceIs(metav1.ConditionTrue, reasonSourceNotFound))
	}

	// A copy that is no longer wanted is deleted even without a source.
	testkit.Change(t, f, rd, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Targets.IncludedNamespaces = named(f.two) })
	f.awaitConfigMap(t, f.one, nil)
}

func secretAsSource(t *testing.T, f *fixture) {
	t.Helper()
	require.ErrorContains(t, f.Create(t.Context(), f.referring(kindSecret, "another")), "add another to resourceDistribution.secrets")
	const value = "not-to-be-seen"
	require.NoError(t, f.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.two, Name: listedSecret}, Type: "team/key", StringData: map[string]string{"key": value},
	}))
	rd := f.referring(kindSecret, listedSecret)
	f.create(t, rd)
	rd = f.await(t, counts(1, 1))
	s := &corev1.Secret{}
	require.NoError(t, f.Get(t.Context(), types.NamespacedName{Namespace: f.one, Name: listedSecret}, s))
	require.Equal(t, map[string][]byte{"key": []byte(value)}, s.Data)
	require.Equal(t, corev1.SecretType("team/key"), s.Type)
	for _, o := range []any{rd, s.Annotations} {
		text := fmt.Sprintf("%+v", o)
		require.NotContains(t, text, value)
		require.NotContains(t, text, "bm90LXRvLWJlLXNlZW4")
	}
}

// onlyReadersDirect: both users may write ResourceDistributions, and one of them may read the source.
func onlyReadersDirect(t *testing.T, f *fixture) {
	t.Helper()
	grant := func(user, namespace string, rule rbacv1.PolicyRule) {
		t.Helper()
		name := f.one + "-" + user + "-" + namespace
		role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: []rbacv1.PolicyRule{rule}}
		ref := rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name}
		subjects := []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: user}}
		var binding client.Object = &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name}, RoleRef: ref, Subjects: subjects}
		if namespace != "" {
			binding = &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: namespace}, RoleRef: ref, Subjects: subjects}
		}
		for _, o := range []client.Object{role, binding} {
			require.NoError(t, f.Create(t.Context(), o))
			t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(f.Delete(context.WithoutCancel(t.Context()), o))) })
		}
	}
	as := func(user string) client.Client {
		cfg := f.REST()
		cfg.Impersonate.UserName = user
		c, err := client.New(cfg, client.Options{Scheme: f.Scheme()})
		require.NoError(t, err)
		return c
	}
	reader, writer := f.one+"-reader", f.one+"-writer"
	for _, user := range []string{reader, writer} {
		grant(user, "", rbacv1.PolicyRule{
			APIGroups: []string{"apps.kruise.io"}, Resources: []string{"resourcedistributions"}, Verbs: []string{"*"},
		})
	}
	grant(reader, f.two, rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"configmaps"}, ResourceNames: []string{f.one}, Verbs: []string{"get"},
	})
	rd := f.referring(kindConfigMap, f.one)
	denied := fmt.Sprintf("spec.source: Forbidden: user %q isn't allowed to get ConfigMap %s in namespace %s", writer, f.one, f.two)
	require.Eventually(t, func() bool { // The apiserver's authorizer catches up with the roles.
		byReader := as(reader).Create(t.Context(), rd.DeepCopy(), client.DryRunAll)
		byWriter := as(writer).Create(t.Context(), rd.DeepCopy(), client.DryRunAll)
		return byReader == nil && byWriter != nil && strings.Contains(byWriter.Error(), denied)
	}, testenv.Long, testenv.Poll)
	require.NoError(t, as(reader).Create(t.Context(), rd))
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(f.Delete(context.WithoutCancel(t.Context()), rd))) })

	change := func(user string, do func(*appsv1beta1.ResourceDistribution)) error {
		live := &appsv1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: rd.Name}}
		require.NoError(t, f.Get(t.Context(), client.ObjectKeyFromObject(rd), live))
		before := live.DeepCopy()
		do(live)
		return as(user).Patch(t.Context(), live, client.MergeFrom(before))
	}
	elsewhere := func(rd *appsv1beta1.ResourceDistribution) {
		rd.Spec.Targets.IncludedNamespaces = named(f.one, "elsewhere")
	}
	require.ErrorContains(t, change(writer, elsewhere), denied)
	require.NoError(t, change(writer, func(rd *appsv1beta1.ResourceDistribution) { rd.Labels = map[string]string{"a": "b"} }))
	require.NoError(t, change(reader, elsewhere))
	require.ErrorContains(t, change(reader, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Source.Namespace = f.one }),
		fmt.Sprintf("user %q isn't allowed to get ConfigMap %s in namespace %s", reader, f.one, f.one))
}

// takesOver: a copy made by OpenKruise has another field manager, which would keep what is no longer applied.
func takesOver(t *testing.T, f *fixture) {
	t.Helper()
	theirs := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.one, Name: f.one}, Data: map[string]string{"a": "1", "former": "2"},
	}
	require.NoError(t, f.Create(t.Context(), theirs, client.FieldOwner("manager")))
	rd := f.distribution(f.configMap(`"a":"1"`))
	f.create(t, rd)
	f.await(t, counts(1, 0))
	testkit.Change(t, f, theirs, func(c *corev1.ConfigMap) {
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(rd, gvk())}
	})
	live := f.awaitConfigMap(t, f.one, map[string]string{"a": "1"})
	require.Equal(t, theirs.UID, live.UID)
	f.await(t, counts(1, 1))
	testkit.Change(t, f, rd, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Resource.Raw = []byte(f.configMap(`"b":"1"`)) })
	f.awaitConfigMap(t, f.one, map[string]string{"b": "1"})
}

// createsOnly: the resourceVersion of a creation prevents an apply from changing an existing object.
func createsOnly(t *testing.T, f *fixture) {
	t.Helper()
	rd := f.distribution(f.configMap(`"a":"1"`))
	rd.UID = "none"
	o := observed{rd: rd}
	var err error
	o.resource, _, err = read(rd.Spec.Resource.Raw)
	require.NoError(t, err)
	r := reconciler(f, f, clock.RealClock{}, &testkit.Events{})
	r.Client, r.Live = f, f
	theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.one, Name: f.one}, Data: map[string]string{"a": "1"}}
	require.NoError(t, f.Create(t.Context(), theirs))
	got, err := r.create(t.Context(), o, f.one)
	require.NoError(t, err)
	require.Equal(t, taken, got)
	require.Equal(t, theirs.ResourceVersion, f.awaitConfigMap(t, f.one, theirs.Data).ResourceVersion)
	got, err = r.create(t.Context(), o, "nowhere")
	require.NoError(t, err)
	require.Equal(t, noNamespace, got)
}

// writesCounted counts the writes of a client by what they write.
type writesCounted struct {
	next  http.RoundTripper
	mu    sync.Mutex
	count map[string]int
}

func (c *writesCounted) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodGet {
		what := "others"
		switch {
		case strings.Contains(r.URL.Path, "/configmaps/"):
			what = "copies"
		case strings.HasSuffix(r.URL.Path, "/status"):
			what = "statuses"
		}
		c.mu.Lock()
		c.count[what]++
		c.mu.Unlock()
	}
	return c.next.RoundTrip(r)
}

// TestAThousandNamespaces reports what a distribution to 1,000 namespaces costs: see docs/operate/sizing.md.
func TestAThousandNamespaces(t *testing.T) {
	lab.Full(t)
	const many = 1000
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme, Own: &lab.Config{ControlPlaneOnly: true}})
	var group errgroup.Group
	group.SetLimit(32)
	for i := range many {
		group.Go(func() error {
			return s.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: fmt.Sprintf("ns-%04d", i), Labels: map[string]string{team: "all"},
			}})
		})
	}
	require.NoError(t, group.Wait())
	counted := &writesCounted{count: map[string]int{}}
	cfg := s.REST()
	cfg.Wrap(func(next http.RoundTripper) http.RoundTripper {
		counted.next = next
		return counted
	})
	mgr, err := event.NewManager(cfg, ctrl.Options{
		Scheme: s.Scheme(), Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true), UsePriorityQueue: new(false)},
	})
	require.NoError(t, err)
	require.NoError(t, setUp(t.Context(), mgr, options{Options: control.Options{Clock: clock.RealClock{}}}))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	defer func() {
		stop()
		require.NoError(t, <-ended)
	}()
	require.True(t, mgr.GetCache().WaitForCacheSync(t.Context()))

	f := &fixture{Env: s, one: "settings"}
	rd := f.distribution(f.configMap(`"a":"1"`))
	rd.Spec.Targets = appsv1beta1.ResourceDistributionTargets{NamespaceSelector: metav1.LabelSelector{MatchLabels: map[string]string{team: "all"}}}
	for _, step := range []struct {
		what string
		do   func()
	}{
		{"created", func() { f.create(t, rd) }},
		{"changed", func() {
			testkit.Change(t, f, rd, func(rd *appsv1beta1.ResourceDistribution) { rd.Spec.Resource.Raw = []byte(f.configMap(`"a":"2"`)) })
		}},
	} {
		counted.mu.Lock()
		clear(counted.count)
		counted.mu.Unlock()
		began := clock.RealClock{}.Now()
		step.do()
		f.await(t, counts(many, many))
		took := clock.RealClock{}.Since(began)
		counted.mu.Lock()
		require.Equal(t, many, counted.count["copies"], "%v", counted.count)
		t.Logf("%d copies %s in %.1f s: %v", many, step.what, took.Seconds(), counted.count)
		counted.mu.Unlock()
	}
}
