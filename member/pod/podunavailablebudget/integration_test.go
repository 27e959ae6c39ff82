//go:build integration

package podunavailablebudget

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/member/admission"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const underTest = "podunavailablebudget-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with one budget.
type fixture struct {
	*testenv.Fixture[*policyv1beta1.PodUnavailableBudget]
}

func addTypes(s *runtime.Scheme) error {
	return errors.Join(appsv1beta1.AddToScheme(s), policyv1beta1.AddToScheme(s))
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: addTypes})
	own, _, _ := strings.Cut(s.Namespace(t), "-")
	s.Run(t, underTest, gvk(), func(mgr ctrl.Manager) {
		require.NoError(t, setUp(t.Context(), mgr, options{Options: control.Options{Clock: clock.RealClock{}}}))
		guards := podwebhook.Guards{{
			Guard: guard(clock.RealClock{}), Judge: newGuard(mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}, &testkit.Events{}),
		}}
		entries := &admission.Entries{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Configuration: "validate-podunavailablebudget-" + own, Guards: guards,
		}
		require.NoError(t, entries.Setup(t.Context(), mgr))
		require.NoError(t, admit.Handle(mgr, admission.GuardPath, &admission.Guard{
			Live: mgr.GetAPIReader(), Guards: guards, Decoder: webhook.NewDecoder(mgr.GetScheme()), Clock: clock.RealClock{},
		}))
		// The Env has a mutating webhook for each kind; this kind has none.
		require.NoError(t, admit.Handle(mgr, admit.MutatePath(gvk()), webhook.HandlerFunc(
			func(context.Context, webhook.Request) webhook.Response { return webhook.Allowed("") })))
		require.NoError(t, admit.Register(mgr, admit.Registration[*policyv1beta1.PodUnavailableBudget]{
			Object: &policyv1beta1.PodUnavailableBudget{}, Validator: newWebhook(mgr.GetClient()),
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"pods of each target are counted, including new ones":          testCounts,
		"granted deletions leave enough pods available":                testConcurrentRequests,
		"an unused grant is returned, and a changed spec takes effect": testUnusedGrant,
		"all kinds of requests are answered":                           testAnswers,
		"a workload can be deleted in the foreground":                  testForegroundDeletion,
		"evictions beside a PodDisruptionBudget":                       testEvictions,
		"examples are answered as their first lines describe":          testExamples,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, underTest, &policyv1beta1.PodUnavailableBudget{})})
		})
	}
}

// run creates a Deployment with n pods.
func (g *fixture) run(t *testing.T, n int32) *appsv1.Deployment {
	t.Helper()
	labels := map[string]string{"app": "web"}
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "web"},
		Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
				Name: "app", Image: "app:1", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m")}},
			}}},
		}},
	}
	require.NoError(t, g.Create(t.Context(), d))
	return d
}

// protect creates a budget.
func (g *fixture) protect(t *testing.T, most int32, change ...func(*policyv1beta1.PodUnavailableBudget)) {
	t.Helper()
	b := budget(0, change...)
	b.Namespace, b.Generation, b.Status = g.Namespace, 0, policyv1beta1.PodUnavailableBudgetStatus{}
	b.Spec.MaxUnavailable = new(intstr.FromInt32(most))
	require.NoError(t, g.Create(t.Context(), b))
}

// awaitCounts waits for these counts.
func (g *fixture) awaitCounts(t *testing.T, total, current, allowed int32) {
	t.Helper()
	g.Await(t, func(b *policyv1beta1.PodUnavailableBudget) bool {
		s := b.Status
		return s.TotalReplicas == total && s.CurrentAvailable == current && s.UnavailableAllowed == allowed && s.ObservedGeneration == b.Generation
	})
}

// replica starts a Guard with its own cache, like another process. stop kills it.
func (g *fixture) replica(t *testing.T) (guard *Guard, stop context.CancelFunc, ctx context.Context) {
	t.Helper()
	ctx, stop = context.WithCancel(t.Context())
	t.Cleanup(stop)
	c, err := cache.New(g.REST(), cache.Options{Scheme: g.Scheme(), DefaultNamespaces: map[string]cache.Config{g.Namespace: {}}})
	require.NoError(t, err)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	cached, err := client.New(g.REST(), client.Options{Scheme: g.Scheme(), Cache: &client.CacheOptions{Reader: c}})
	require.NoError(t, err)
	for _, o := range []client.Object{&policyv1beta1.PodUnavailableBudget{}, &appsv1.Deployment{}, replicaSets()} {
		_, err := c.GetInformer(ctx, o)
		require.NoError(t, err)
	}
	return newGuard(cached, g, clock.RealClock{}, &testkit.Events{}), stop, ctx
}

func testCounts(t *testing.T, g *fixture) {
	t.Helper()
	g.protect(t, 1, targeting(deployment, "web"))
	g.awaitCounts(t, 0, 0, 0)
	d := g.run(t, 3)
	g.awaitCounts(t, 3, 3, 1)
	require.Eventually(t, func() bool {
		for _, p := range g.Pods(t) {
			if p.Annotations[keys.RelatedPub] != "web" || p.Annotations[keys.RelatedPubOld] != "web" {
				return false
			}
		}
		return true
	}, testenv.Long, testenv.Poll)
	testkit.Change(t, g, d, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(5)) })
	g.awaitCounts(t, 5, 5, 1)
	for _, p := range g.Pods(t) {
		testkit.Change(t, g, p, func(p *corev1.Pod) { p.Labels[keys.UnavailablePodPrefix+"drain"] = "true" })
		break
	}
	g.awaitCounts(t, 5, 4, 0)
	b := g.Object(t)
	b.Spec.TargetRef.Name = "other"
	require.ErrorContains(t, g.Update(t.Context(), b), "targetRef can't be changed")
}

// The garbage collector deletes the pods first, and nothing creates others.
func testForegroundDeletion(t *testing.T, g *fixture) {
	t.Helper()
	g.protect(t, 1, targeting(deployment, "web"))
	d := g.run(t, 3)
	g.awaitCounts(t, 3, 3, 1)
	require.NoError(t, g.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationForeground)))
	require.Eventually(t, func() bool { return len(g.Pods(t)) == 0 }, testenv.Long, testenv.Poll)
	g.awaitCounts(t, 0, 0, 0)
}

// Nothing is deleted here and no controller counts, so the grants can be counted.
func TestTwoReplicasOfWhichOneIsKilledNeverGrantMoreThanThereIs(t *testing.T) {
	t.Parallel()
	g := &fixture{testenv.New(t, testenv.Start(t, testenv.Config{Scheme: addTypes}), underTest, &policyv1beta1.PodUnavailableBudget{})}
	const units, requests, each = 40, 100, 5
	g.protect(t, units, judging(policyv1beta1.Delete, policyv1beta1.Evict, policyv1beta1.Update, policyv1beta1.Resize))
	b := g.Object(t)
	b.Status = policyv1beta1.PodUnavailableBudgetStatus{
		ObservedGeneration: b.Generation, TotalReplicas: requests, CurrentAvailable: requests, DesiredAvailable: requests - units, UnavailableAllowed: units,
	}
	require.NoError(t, g.Status().Update(t.Context(), b))
	first, kill, dies := g.replica(t)
	second, _, lives := g.replica(t)
	var granted, lost atomic.Int32
	var group sync.WaitGroup
	for i := range requests / each {
		guard, ctx := second, lives
		if i%2 == 0 {
			guard, ctx = first, dies
		}
		group.Go(func() { // One after the other, so that the first replica can be killed in the middle.
			for n := range each {
				if ctx.Err() != nil {
					lost.Add(1)
					continue
				}
				p := pod(fmt.Sprintf("web-%d-%d", i, n))
				p.Namespace = g.Namespace
				do := []podwebhook.Operation{podwebhook.Delete, podwebhook.Evict, podwebhook.Update, podwebhook.Resize}[n%4]
				refusal, err := guard.Check(ctx, podwebhook.Request{Operation: do, Old: p})
				switch {
				case err != nil:
					lost.Add(1)
				case refusal == nil && granted.Add(1) == units/4:
					kill()
				}
			}
		})
	}
	group.Wait()
	s := g.Object(t).Status
	recorded := int32(len(s.DisruptedPods) + len(s.UnavailablePods))
	require.LessOrEqual(t, granted.Load(), int32(units))
	require.LessOrEqual(t, granted.Load(), recorded, "grants are recorded")
	require.LessOrEqual(t, recorded, int32(units))
	require.Equal(t, int32(units)-recorded, s.UnavailableAllowed)
	require.Zero(t, s.UnavailableAllowed, "the other replica continued")
	require.NotZero(t, lost.Load(), "the first replica was killed in the middle")
	t.Logf("%d of %d granted, %d requests ended with the replica", granted.Load(), units, lost.Load())
}

// Granted pods are deleted here, while the controller counts and the Deployment creates new pods.
func testConcurrentRequests(t *testing.T, g *fixture) {
	t.Helper()
	const total, most = 20, 5
	g.protect(t, most, targeting(deployment, "web"))
	g.run(t, total)
	g.awaitCounts(t, total, total, most)
	fewest := g.fewest(t)
	first, kill, dies := g.replica(t)
	second, _, lives := g.replica(t)
	var deleted, tried atomic.Int32
	var group sync.WaitGroup
	stop, end := context.WithTimeout(t.Context(), 6*time.Second)
	defer end()
	for i := range 10 {
		group.Go(func() {
			for stop.Err() == nil && deleted.Load() < 40 {
				guard, ctx := second, lives
				if i%2 == 0 && dies.Err() == nil {
					guard, ctx = first, dies
				}
				if tried.Add(1) == 50 {
					kill()
				}
				for _, p := range g.Pods(t) { //nolint:contextcheck // ctx belongs to the replica.
					refusal, err := guard.Check(ctx, podwebhook.Request{Operation: podwebhook.Delete, Old: p})
					if err != nil || refusal != nil {
						continue
					}
					//nolint:contextcheck // ctx belongs to the replica.
					if err := g.Delete(t.Context(), p, client.Preconditions{UID: &p.UID}, client.GracePeriodSeconds(0)); err == nil {
						deleted.Add(1)
					}
				}
			}
		})
	}
	group.Wait()
	require.GreaterOrEqual(t, fewest(), total-most)
	require.Greater(t, deleted.Load(), int32(most), "unused units are returned")
	t.Logf("%d deletions, and never fewer than %d pods available", deleted.Load(), fewest())
}

// testEvictions reports how long it takes to evict pods concurrently, with a budget of either kind that allows all evictions.
func testEvictions(t *testing.T, g *fixture) {
	t.Helper()
	native := &fixture{testenv.New(t, g.Env, underTest, &policyv1beta1.PodUnavailableBudget{})}
	all := intstr.FromString("100%")
	require.NoError(t, native.Create(t.Context(), &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: native.Namespace, Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{MaxUnavailable: &all, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
	}))
	g.protect(t, evicted-1)
	for _, each := range []*fixture{native, g} {
		each.run(t, evicted)
		require.Eventually(t, func() bool {
			n := 0
			for _, p := range each.Pods(t) {
				if serving(p) {
					n++
				}
			}
			return n == evicted
		}, testenv.Long, testenv.Poll)
	}
	g.awaitCounts(t, evicted, evicted, evicted-1)
	require.Eventually(t, func() bool {
		var pdb policyv1.PodDisruptionBudget
		require.NoError(t, native.Get(t.Context(), client.ObjectKey{Namespace: native.Namespace, Name: "web"}, &pdb))
		return pdb.Status.DisruptionsAllowed == evicted
	}, testenv.Long, testenv.Poll)
	theirs, theirRefusals := native.evictAll(t)
	began := clock.RealClock{}.Now()
	ours, ourRefusals := g.evictAll(t)
	writes := 0
	require.Eventually(t, func() bool { // The audit log may lag.
		writes = g.Writes(t, began)["update podunavailablebudgets.policy.kruise.io/status"]
		return writes > 0
	}, testenv.Long, testenv.Poll)
	t.Logf("%d evictions at once: a PodDisruptionBudget %v and %d answers of 429, a PodUnavailableBudget %v and %d, in %d writes", evicted-1,
		theirs.Round(time.Millisecond), theirRefusals, ours.Round(time.Millisecond), ourRefusals, writes)
}

// evicted is the number of pods in testEvictions.
const evicted = 21

// evictAll evicts all pods but one concurrently, and retries after each 429 until all are evicted.
func (g *fixture) evictAll(t *testing.T) (took time.Duration, refusals int32) {
	t.Helper()
	kube, err := kubernetes.NewForConfig(g.REST())
	require.NoError(t, err)
	names := slices.Collect(maps.Keys(g.Pods(t)))[1:]
	var again atomic.Int32
	var group sync.WaitGroup
	clk := clock.RealClock{}
	began := clk.Now()
	for _, name := range names {
		group.Go(func() {
			assert.Eventually(t, func() bool {
				err := kube.CoreV1().RESTClient().Post().Namespace(g.Namespace).Resource("pods").Name(name).SubResource("eviction").MaxRetries(0).
					Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: name}}).Do(t.Context()).Error()
				if apierrors.IsTooManyRequests(err) {
					again.Add(1)
					return false
				}
				assert.NoError(t, err)
				return true
			}, testenv.Long, time.Millisecond)
		})
	}
	group.Wait()
	return clk.Since(began), again.Load()
}

func serving(p *corev1.Pod) bool {
	ok, _ := available(p, clock.RealClock{}.Now())
	return ok
}

// fewest watches the pods. It returns a function that stops watching and returns the lowest number of available pods.
func (g *fixture) fewest(t *testing.T) func() int {
	t.Helper()
	var list corev1.PodList
	require.NoError(t, g.List(t.Context(), &list, client.InNamespace(g.Namespace)))
	w, err := g.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(g.Namespace), &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	require.NoError(t, err)
	up := map[string]bool{}
	for i := range list.Items {
		if serving(&list.Items[i]) {
			up[list.Items[i].Name] = true
		}
	}
	least, ended := len(up), make(chan struct{})
	go func() {
		defer close(ended)
		for e := range w.ResultChan() {
			p, ok := e.Object.(*corev1.Pod)
			if !ok {
				continue
			}
			delete(up, p.Name)
			if e.Type != watch.Deleted && serving(p) {
				up[p.Name] = true
			}
			least = min(least, len(up))
		}
	}()
	return sync.OnceValue(func() int {
		w.Stop()
		<-ended
		return least
	})
}

func testUnusedGrant(t *testing.T, g *fixture) {
	t.Helper()
	g.protect(t, 1)
	g.run(t, 3)
	g.awaitCounts(t, 3, 3, 1)
	guard, _, ctx := g.replica(t)
	for _, p := range g.Pods(t) {
		refusal, err := guard.Check(ctx, podwebhook.Request{Operation: podwebhook.Update, Old: p})
		require.NoError(t, err)
		require.Nil(t, refusal)
		break
	}
	g.awaitCounts(t, 3, 2, 0)
	g.awaitCounts(t, 3, 3, 1)
	g.Change(t, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromString("70%")) })
	g.awaitCounts(t, 3, 3, 3)
}

func testAnswers(t *testing.T, g *fixture) {
	t.Helper()
	g.protect(t, 0, judging(policyv1beta1.Delete, policyv1beta1.Evict, policyv1beta1.Update, policyv1beta1.Resize))
	g.run(t, 2)
	g.awaitCounts(t, 2, 2, 0)
	var p *corev1.Pod
	for _, p = range g.Pods(t) {
	}
	require.Eventually(t, func() bool { return apierrors.IsForbidden(g.Delete(t.Context(), p, client.DryRunAll)) }, testenv.Long, testenv.Poll)

	kube, err := kubernetes.NewForConfig(g.REST())
	require.NoError(t, err)
	evict := func() error { // A client retries by itself, ten times.
		return kube.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Name(p.Name).SubResource("eviction").MaxRetries(0).
			Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Name}}).Do(t.Context()).Error()
	}
	err = evict()
	require.True(t, apierrors.IsTooManyRequests(err), "%v", err)
	after, _ := apierrors.SuggestsClientDelay(err)
	require.Equal(t, 5, after)
	require.True(t, apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause))
	require.ErrorContains(t, err, "PodUnavailableBudget web: no more pods may become unavailable: 2 of 2 are available and not about to change, and 2 must be")

	err = g.Delete(t.Context(), p)
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	image := p.DeepCopy()
	image.Spec.Containers[0].Image = "app:2"
	err = g.Patch(t.Context(), image, client.MergeFrom(p)) // Not conditional on the version of p: the controller may have added the budget's name since.
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	resized := p.DeepCopy()
	resized.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m")}
	err = g.SubResource("resize").Patch(t.Context(), resized, client.StrategicMergeFrom(p))
	require.True(t, apierrors.IsForbidden(err), "%v", err)
	plain := p.DeepCopy()
	labelled("team", "web")(plain)
	require.NoError(t, g.Patch(t.Context(), plain, client.MergeFrom(p)), "an update that changes neither is not checked")

	g.Change(t, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(1)) })
	g.awaitCounts(t, 2, 2, 1)
	require.NoError(t, evict())
	g.awaitCounts(t, 2, 2, 1)
}

func testExamples(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "podunavailablebudget")
}
