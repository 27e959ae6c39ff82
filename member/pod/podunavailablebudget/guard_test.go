package podunavailablebudget

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
)

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	require.NoError(tb, errors.Join(clientgoscheme.AddToScheme(s), appsv1beta1.AddToScheme(s), policyv1beta1.AddToScheme(s)))
	return s
}

// apiserver returns a client with these objects.
func apiserver(tb testing.TB, objects ...client.Object) client.WithWatch {
	tb.Helper()
	return fake.NewClientBuilder().WithScheme(scheme(tb)).WithObjects(testkit.Copies(objects)...).WithStatusSubresource(&policyv1beta1.PodUnavailableBudget{}).Build()
}

func guardOf(c client.Client, live client.Reader, events *testkit.Events) *Guard {
	return newGuard(c, live, clocktesting.NewFakePassiveClock(noon), events)
}

func getBudget(tb testing.TB, c client.Reader) *policyv1beta1.PodUnavailableBudget {
	tb.Helper()
	b := &policyv1beta1.PodUnavailableBudget{}
	require.NoError(tb, c.Get(tb.Context(), types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}, b))
	return b
}

// controlledBy sets an object's controller.
func controlledBy(kind schema.GroupVersionKind, name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { controlBy(p, kind, name) }
}

func controlBy(o client.Object, kind schema.GroupVersionKind, name string) {
	o.SetOwnerReferences([]metav1.OwnerReference{{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name, UID: types.UID("uid-" + name), Controller: new(true),
	}})
}

func targeting(kind schema.GroupVersionKind, name string) func(*policyv1beta1.PodUnavailableBudget) {
	return func(b *policyv1beta1.PodUnavailableBudget) {
		b.Spec.Selector = nil
		b.Spec.TargetRef = &policyv1beta1.TargetReference{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind, Name: name}
	}
}

func TestWhichBudgetProtectsAPod(t *testing.T) {
	t.Parallel()
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: "web-1", UID: "uid-web-1"}}
	controlBy(set, deployment, "web")
	web := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: "web", UID: "uid-web"}}
	controlBy(web, unitedDeployment, "fleet")
	game := schema.GroupVersionKind{Group: "game.kruise.io", Version: "v1", Kind: "GameServerSet"}
	other := func(name string, days int, change ...func(*policyv1beta1.PodUnavailableBudget)) *policyv1beta1.PodUnavailableBudget {
		b := budget(0, change...)
		b.Name = name
		b.CreationTimestamp = metav1.NewTime(noon.AddDate(0, 0, -days))
		return b
	}
	for _, tc := range []struct {
		name    string
		budgets []client.Object
		pod     *corev1.Pod
		want    string
	}{
		{name: "no budget", pod: pod("a")},
		{name: "a budget by the pod's labels", budgets: []client.Object{budget(0)}, pod: pod("a"), want: "web"},
		{name: "other labels", budgets: []client.Object{budget(0)}, pod: pod("a", labelled("app", "db"))},
		{name: "a budget by the pod's controller", budgets: []client.Object{budget(0, targeting(cloneSet, "web"))}, pod: pod("a", controlledBy(cloneSet, "web")), want: "web"},
		{
			name: "a controller in another version", budgets: []client.Object{budget(0, targeting(schema.GroupVersionKind{Group: "apps.kruise.io", Version: "v1alpha1", Kind: "CloneSet"}, "web"))},
			pod: pod("a", controlledBy(cloneSet, "web")), want: "web",
		},
		{name: "another controller", budgets: []client.Object{budget(0, targeting(cloneSet, "web"))}, pod: pod("a", controlledBy(cloneSet, "db"))},
		{name: "a budget by the Deployment of the ReplicaSet", budgets: []client.Object{budget(0, targeting(deployment, "web"))}, pod: pod("a", controlledBy(replicaSet, "web-1")), want: "web"},
		{name: "a budget by the ReplicaSet", budgets: []client.Object{budget(0, targeting(replicaSet, "web-1"))}, pod: pod("a", controlledBy(replicaSet, "web-1")), want: "web"},
		{name: "a budget by the UnitedDeployment of the workload", budgets: []client.Object{budget(0, targeting(unitedDeployment, "fleet"))}, pod: pod("a", controlledBy(replicaSet, "web-1")), want: "web"},
		{name: "a budget by a controller of another kind", budgets: []client.Object{budget(0, targeting(game, "g"))}, pod: pod("a", controlledBy(game, "g")), want: "web"},
		{name: "the older of two budgets", budgets: []client.Object{other("a", 1), other("b", 2)}, pod: pod("a"), want: "b"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b, err := budgetOf(t.Context(), apiserver(t, append(tc.budgets, set, web)...), tc.pod)
			require.NoError(t, err)
			if tc.want == "" {
				require.Nil(t, b)
				return
			}
			require.Equal(t, tc.want, b.Name)
		})
	}
}

func TestAGrantIsWritten(t *testing.T) {
	t.Parallel()
	events := &testkit.Events{}
	c := apiserver(t, budget(1))
	g := guardOf(c, c, events)
	dry := podwebhook.Request{Operation: podwebhook.Delete, Old: pod("web-0"), DryRun: true}
	refusal, err := g.Check(t.Context(), dry)
	require.NoError(t, err)
	require.Nil(t, refusal)
	require.Equal(t, int32(1), getBudget(t, c).Status.UnavailableAllowed, "a dry run takes nothing")

	refusal, err = g.Check(t.Context(), podwebhook.Request{Operation: podwebhook.Delete, Old: pod("web-0")})
	require.NoError(t, err)
	require.Nil(t, refusal)
	require.Contains(t, getBudget(t, c).Status.DisruptedPods, "web-0")

	before := getBudget(t, c).ResourceVersion
	refusal, err = g.Check(t.Context(), podwebhook.Request{Operation: podwebhook.Evict, Old: pod("web-1"), User: authenticationv1.UserInfo{Username: "ann"}})
	require.NoError(t, err)
	require.NotNil(t, refusal)
	require.Equal(t, before, getBudget(t, c).ResourceVersion, "a refusal writes nothing")
	require.Equal(t, []string{reasonPrevented}, events.Reasons())
	require.Contains(t, events.Lines()[0], "refused EVICT: PodUnavailableBudget web: no more pods may become unavailable")

	dry.Old = pod("web-1")
	refusal, err = g.Check(t.Context(), dry)
	require.NoError(t, err)
	require.NotNil(t, refusal, "a dry run is answered too")
	require.Len(t, events.All(), 1)
}

func TestWithoutAnAnswerNothingGoesAhead(t *testing.T) {
	t.Parallel()
	boom := apierrors.NewInternalError(errors.New("boom"))
	c := interceptor.NewClient(apiserver(t, budget(1)), interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return boom
		},
	})
	_, err := guardOf(c, c, &testkit.Events{}).Check(t.Context(), podwebhook.Request{Operation: podwebhook.Delete, Old: pod("web-0")})
	require.ErrorContains(t, err, "take from PodUnavailableBudget web")
	gone := interceptor.NewClient(apiserver(t, budget(1)), interceptor.Funcs{
		SubResourceUpdate: func(context.Context, client.Client, string, client.Object, ...client.SubResourceUpdateOption) error {
			return apierrors.NewNotFound(schema.GroupResource{}, "web")
		},
	})
	refusal, err := guardOf(gone, gone, &testkit.Events{}).Check(t.Context(), podwebhook.Request{Operation: podwebhook.Delete, Old: pod("web-0")})
	require.NoError(t, err)
	require.Nil(t, refusal, "a budget that was deleted meanwhile protects nothing")
}

// The garbage collector deletes the pods of a workload that is gone, and nothing replaces them.
func TestPodsThatGoWithTheirWorkloadAreLetGo(t *testing.T) {
	t.Parallel()
	set := func(change ...func(*appsv1.ReplicaSet)) *appsv1.ReplicaSet {
		s := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: "web-1", UID: "uid-web-1"}}
		for _, c := range change {
			c(s)
		}
		return s
	}
	deleted := func(how string) func(*appsv1.ReplicaSet) {
		return func(s *appsv1.ReplicaSet) {
			s.DeletionTimestamp, s.Finalizers = new(metav1.NewTime(noon)), []string{how}
		}
	}
	for _, tc := range []struct {
		name         string
		cached, live []client.Object
		kind         schema.GroupVersionKind
		operation    podwebhook.Operation
		refused      bool
	}{
		{name: "the workload exists", cached: []client.Object{set()}, live: []client.Object{set()}, refused: true},
		{name: "the workload is gone"},
		{name: "another workload has its name", cached: []client.Object{set(func(s *appsv1.ReplicaSet) { s.UID = "other" })}},
		{name: "the workload is being deleted with its pods", cached: []client.Object{set(deleted(metav1.FinalizerDeleteDependents))}, live: []client.Object{set(deleted(metav1.FinalizerDeleteDependents))}},
		{
			name: "the workload is being deleted without its pods", refused: true,
			cached: []client.Object{set(deleted(metav1.FinalizerOrphanDependents))}, live: []client.Object{set(deleted(metav1.FinalizerOrphanDependents))},
		},
		{name: "the cache does not have it yet", live: []client.Object{set()}, refused: true},
		{name: "an eviction", operation: podwebhook.Evict, refused: true},
		{name: "a kind that is not cached", kind: job, refused: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.kind.Empty() {
				tc.kind = replicaSet
			}
			if tc.operation == "" {
				tc.operation = podwebhook.Delete
			}
			g := guardOf(apiserver(t, append(tc.cached, budget(0))...), apiserver(t, append(tc.live, budget(0))...), &testkit.Events{})
			r := podwebhook.Request{Operation: tc.operation, Old: pod("web-0", controlledBy(tc.kind, "web-1"))}
			refusal, err := g.Check(t.Context(), r)
			require.NoError(t, err)
			require.Equal(t, tc.refused, refusal != nil)
			all, err := g.Forecast(t.Context(), []podwebhook.Request{r})
			require.NoError(t, err)
			require.Equal(t, tc.refused, all[0] != nil)
		})
	}
}

func TestForecast(t *testing.T) {
	t.Parallel()
	c := apiserver(t, budget(2))
	var requests []podwebhook.Request
	for i := range 4 {
		requests = append(requests, podwebhook.Request{Operation: podwebhook.Delete, Old: pod(fmt.Sprintf("web-%d", i))})
	}
	requests = append(requests, podwebhook.Request{Operation: podwebhook.Delete, Old: pod("db-0", labelled("app", "db"))},
		podwebhook.Request{Operation: podwebhook.Delete, Old: pod("web-5", annotated(keys.NoProtect, "true"))})
	got, err := guardOf(c, c, &testkit.Events{}).Forecast(t.Context(), requests)
	require.NoError(t, err)
	var refused []bool
	for _, r := range got {
		refused = append(refused, r != nil)
	}
	require.Equal(t, []bool{false, false, true, true, false, false}, refused)
	require.Equal(t, int32(2), getBudget(t, c).Status.UnavailableAllowed, "the request takes no unit")
}

// There are two replicas, one of which has a cache that never sees a write, and 200 concurrent requests.
func TestTwoReplicasNeverGrantTheSameUnit(t *testing.T) {
	t.Parallel()
	const units, requests = 30, 200
	c := apiserver(t, budget(units))
	first := getBudget(t, c)
	stale := interceptor.NewClient(c, interceptor.Funcs{
		Get: func(ctx context.Context, w client.WithWatch, key client.ObjectKey, o client.Object, opts ...client.GetOption) error {
			if b, ok := o.(*policyv1beta1.PodUnavailableBudget); ok {
				first.DeepCopyInto(b)
				return nil
			}
			return w.Get(ctx, key, o, opts...)
		},
	})
	guards := []*Guard{guardOf(c, c, &testkit.Events{}), guardOf(stale, c, &testkit.Events{})}
	var granted atomic.Int32
	var group sync.WaitGroup
	for i := range requests {
		group.Go(func() {
			do := []podwebhook.Operation{podwebhook.Delete, podwebhook.Evict, podwebhook.Update}[i%3]
			refusal, err := guards[i%2].Check(t.Context(), podwebhook.Request{Operation: do, Old: pod(fmt.Sprintf("web-%d", i))})
			if err == nil && refusal == nil {
				granted.Add(1)
			}
		})
	}
	group.Wait()
	s := getBudget(t, c).Status
	require.Equal(t, int32(units), granted.Load())
	require.Zero(t, s.UnavailableAllowed)
	require.Len(t, s.DisruptedPods, units-len(s.UnavailablePods))
}
