//go:build integration

package workloadspread

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

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
	webhook "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/admission"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const underTest = "workloadspread-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test.
type fixture struct {
	*testenv.Fixture[*appsv1beta1.WorkloadSpread]
}

// replicas are webhooks with their own caches, called in turn as by a Service. Some responses are lost after the step.
type replicas struct {
	all  []*admission.Webhook
	next atomic.Int64
	lose atomic.Bool
}

func (r *replicas) Handle(ctx context.Context, req webhook.Request) webhook.Response {
	n := r.next.Add(1)
	out := r.all[n%int64(len(r.all))].Handle(ctx, req)
	if r.lose.Load() && n%7 == 0 {
		return webhook.Errored(500, errors.New("the replica ended before it answered"))
	}
	return out
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	own := s.Namespace(t)
	site, _, _ := strings.Cut(own, "-")
	second, err := cluster.New(s.REST(), func(o *cluster.Options) { o.Scheme = s.Scheme() })
	require.NoError(t, err)
	lossy := &replicas{}
	s.Run(t, underTest, gvk(), func(mgr ctrl.Manager) {
		versions := versions{"deployment", "replicaset"}
		one, two := newSpreader(own, versions, true, clock.RealClock{}), newSpreader(own, versions, true, clock.RealClock{})
		entries := &admission.Entries{
			Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Configuration: "mutate-workloadspread-" + site, Steps: []podwebhook.Step{one.step()}, Exempt: []string{own},
		}
		require.NoError(t, entries.Setup(t.Context(), mgr))
		require.NoError(t, one.step().Setup(t.Context(), mgr))
		require.NoError(t, scaletarget.IndexSpreads(t.Context(), second.GetFieldIndexer()))
		two.setClients(second.GetClient(), second.GetAPIReader())
		require.NoError(t, two.left.follow(t.Context(), second.GetCache()))
		require.NoError(t, mgr.Add(second))
		require.NoError(t, setUp(t.Context(), mgr, options{Options: control.Options{Clock: clock.RealClock{}}, Namespace: own, Opening: entries, Versions: versions}))
		for _, w := range []struct {
			cache client.Reader
			step  *spreader
		}{{mgr.GetClient(), one}, {second.GetClient(), two}} {
			lossy.all = append(lossy.all, &admission.Webhook{
				Cache: w.cache, Steps: []podwebhook.Step{w.step.step()}, Decoder: webhook.NewDecoder(mgr.GetScheme()), Clock: clock.RealClock{},
			})
		}
		require.NoError(t, admit.Handle(mgr, admission.Path, lossy))
		// The Env has a mutating webhook for each kind; this kind has none.
		require.NoError(t, admit.Handle(mgr, admit.MutatePath(gvk()), lossy))
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.WorkloadSpread]{
			Object: &appsv1beta1.WorkloadSpread{}, Validator: &Webhook{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Namespace: own, Exempt: []string{own}},
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"two replicas never exceed maxReplicas": testLimits,
		"a Deployment is spread by version":     testVersions,
		"pods that can't be scheduled move on":  testReschedule,
		"a patch may change the priority":       testPriority,
		"examples are answered as their lines say": func(t *testing.T, g *fixture) {
			t.Helper()
			webhooktest.DryRun(t, g, g.Namespace, examples, "workloadspread")
		},
		"answers that are lost give back the places": func(t *testing.T, g *fixture) {
			t.Helper()
			testLostResponses(t, g, lossy)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if name != "answers that are lost give back the places" {
				t.Parallel()
			}
			test(t, &fixture{testenv.New(t, s, underTest, &appsv1beta1.WorkloadSpread{})})
		})
	}
}

// spread creates the WorkloadSpread and waits until it takes effect.
func (g *fixture) spread(t *testing.T, ws *appsv1beta1.WorkloadSpread) {
	t.Helper()
	ws.UID, ws.Generation, ws.Namespace, ws.Name, ws.Spec.TargetRef.Name = "", 0, g.Namespace, testenv.Name, testenv.Name
	require.NoError(t, g.Create(t.Context(), ws))
	g.Await(t, func(ws *appsv1beta1.WorkloadSpread) bool {
		return len(ws.Status.Conditions) > 0 && ws.Status.Conditions[0].Status == metav1.ConditionTrue
	})
}

// bySubset counts the pods in each subset that are not terminating.
func (g *fixture) bySubset(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, pod := range g.Pods(t) {
		if m, _ := matchedOf(pod); pod.DeletionTimestamp == nil {
			out[m.Subset]++
		}
	}
	return out
}

// cloneSet creates a CloneSet that no controller reconciles.
func (g *fixture) cloneSet(t *testing.T, n int32) *appsv1beta1.CloneSet {
	t.Helper()
	set := testkit.CloneSet(testenv.Name).Replicas(n).Obj()
	set.Namespace, set.UID, set.ResourceVersion, set.Generation = g.Namespace, "", "", 0
	require.NoError(t, g.Create(t.Context(), set))
	return set
}

// create creates pods of a CloneSet concurrently, and returns how many were rejected.
func (g *fixture) create(t *testing.T, set *appsv1beta1.CloneSet, n int) (refused int64) {
	t.Helper()
	var all sync.WaitGroup
	var no atomic.Int64
	for range n {
		all.Go(func() {
			pod := newPodOf(ours, "CloneSet", testenv.Name, set.UID)
			pod.Namespace, pod.Labels = g.Namespace, map[string]string{"app": testenv.Name}
			switch err := g.Create(t.Context(), pod); {
			case apierrors.IsForbidden(err):
				no.Add(1)
			case err != nil:
				t.Error(err)
			}
		})
	}
	all.Wait()
	return no.Load()
}

func zoneless(s *appsv1beta1.WorkloadSpreadSubset) { s.RequiredNodeSelector = nil }

func testLimits(t *testing.T, g *fixture) {
	t.Helper()
	set := g.cloneSet(t, 100)
	g.spread(t, with(spreading(ours, "CloneSet", subset("a", 30, zoneless), subset("b", 25, zoneless)), func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.OverflowPolicy = appsv1beta1.OverflowRefuse
	}))
	require.Equal(t, int64(45), g.create(t, set, 100))
	require.Equal(t, map[string]int{"a": 30, "b": 25}, g.bySubset(t))
	g.Await(t, func(ws *appsv1beta1.WorkloadSpread) bool {
		return len(ws.Status.SubsetStatuses) == 2 && ws.Status.SubsetStatuses[0].Replicas == 30 && ws.Status.SubsetStatuses[1].Replicas == 25 &&
			len(ws.Status.SubsetStatuses[0].CreatingPods)+len(ws.Status.SubsetStatuses[1].CreatingPods) == 0
	})
	gone := 0
	for _, pod := range g.Pods(t) {
		if m, _ := matchedOf(pod); m.Subset == "a" && gone < 10 {
			require.NoError(t, g.Delete(t.Context(), pod, client.GracePeriodSeconds(0)))
			gone++
		}
	}
	g.Await(t, func(ws *appsv1beta1.WorkloadSpread) bool { return ws.Status.SubsetStatuses[0].MissingReplicas == 10 })
	require.Equal(t, int64(10), g.create(t, set, 20))
	require.Equal(t, map[string]int{"a": 30, "b": 25}, g.bySubset(t))
}

func (g *fixture) deployment(t *testing.T, n int32, image string) {
	t.Helper()
	labels := map[string]string{"app": testenv.Name}
	require.NoError(t, g.Create(t.Context(), &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name},
		Spec: appsv1.DeploymentSpec{Replicas: &n, Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}},
		}},
	}))
}

func testVersions(t *testing.T, g *fixture) {
	t.Helper()
	g.spreadLater(t, spreading("apps/v1", "Deployment", subset("a", "50%", zoneless, patching(`{"metadata":{"labels":{"subset":"a"}}}`)), subset("b", unlimited, zoneless)))
	g.deployment(t, 8, "app:1")
	// For each number of replicas below 8, a has half of the remaining pods, rounded up.
	costs := map[string][]string{"a": {"999993", "999995", "999997", "999999"}, "b": {"999992", "999994", "999996", "999998"}}
	g.awaitCosts(t, costs)
	for _, pod := range g.Pods(t) {
		m, _ := matchedOf(pod)
		require.Equal(t, m.Subset == "a", pod.Labels["subset"] == "a")
	}
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: testenv.Name}}
	testkit.Change(t, g, d, func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = "app:2" })
	require.Eventually(t, func() bool {
		pods := g.Pods(t)
		for _, pod := range pods {
			if pod.Spec.Containers[0].Image != "app:2" {
				return false
			}
		}
		return len(pods) == 8
	}, testenv.Long, testenv.Poll)
	g.awaitCosts(t, costs)
	testkit.Change(t, g, d, func(d *appsv1.Deployment) { d.Spec.Replicas = new(int32(4)) })
	require.Eventually(t, func() bool { n := g.bySubset(t); return n["a"]+n["b"] == 4 }, testenv.Long, testenv.Poll)
	require.Equal(t, map[string]int{"a": 2, "b": 2}, g.bySubset(t), "the ReplicaSet deletes all surplus pods at once, by their current costs")
}

// awaitCosts waits until all pods are ready and have these costs, by subset.
func (g *fixture) awaitCosts(t *testing.T, want map[string][]string) {
	t.Helper()
	var got map[string][]string
	ok := false
	defer func() {
		if !ok {
			t.Log(got)
		}
	}()
	require.Eventually(t, func() bool {
		got = map[string][]string{}
		for _, pod := range g.Pods(t) {
			if m, _ := matchedOf(pod); pod.DeletionTimestamp == nil && podpatch.Ready(pod) {
				got[m.Subset] = append(got[m.Subset], pod.Annotations[keys.PodDeletionCost])
			}
		}
		for _, costs := range got {
			slices.Sort(costs)
		}
		ok = maps.EqualFunc(want, got, slices.Equal[[]string])
		return ok
	}, testenv.Long, testenv.Poll)
}

// spreadLater creates the WorkloadSpread before its workload.
func (g *fixture) spreadLater(t *testing.T, ws *appsv1beta1.WorkloadSpread) {
	t.Helper()
	ws.UID, ws.Generation, ws.Namespace, ws.Name, ws.Spec.TargetRef.Name = "", 0, g.Namespace, testenv.Name, testenv.Name
	require.NoError(t, g.Create(t.Context(), ws))
	g.Await(t, func(ws *appsv1beta1.WorkloadSpread) bool {
		return len(ws.Status.Conditions) > 0 && ws.Status.Conditions[0].Reason == reasonTargetGone
	})
	var config admissionv1.MutatingWebhookConfiguration
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKey{Name: "mutate-workloadspread-" + strings.SplitN(g.Namespace, "-", 2)[0]}, &config))
		return strings.Contains(fmt.Sprint(config.Webhooks), g.Namespace)
	}, testenv.Long, testenv.Poll)
}

func (g *fixture) awaitPods(t *testing.T, want map[string]int) {
	t.Helper()
	ok := false
	defer func() {
		if !ok {
			t.Log(g.bySubset(t))
		}
	}()
	require.Eventually(t, func() bool {
		got := g.bySubset(t)
		for subset, n := range want {
			if got[subset] != n {
				return false
			}
		}
		return len(got) == len(want)
	}, testenv.Long, testenv.Poll)
	ok = true
}

func testReschedule(t *testing.T, g *fixture) {
	t.Helper()
	g.spreadLater(t, with(spreading("apps/v1", "Deployment", subset("nowhere", 2), subset("b", unlimited, zoneless)), adaptive(1)))
	g.deployment(t, 4, "app:1")
	g.awaitPods(t, map[string]int{"b": 4})
	ws := g.Object(t)
	require.Equal(t, reasonUnschedulable, ws.Status.SubsetStatuses[0].Conditions[0].Reason)
	require.Equal(t, reasonSufficient, ws.Status.SubsetStatuses[1].Conditions[0].Reason)
}

func testPriority(t *testing.T, g *fixture) {
	t.Helper()
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "low-" + g.Namespace}, Value: -5, PreemptionPolicy: new(corev1.PreemptNever)}
	require.NoError(t, g.Create(t.Context(), class))
	t.Cleanup(func() { _ = g.Delete(context.WithoutCancel(t.Context()), class) })
	set := g.cloneSet(t, 1)
	g.spread(t, spreading(ours, "CloneSet", subset("a", unlimited, zoneless, patching(fmt.Sprintf(`{"spec":{"priorityClassName":%q}}`, class.Name)))))
	require.Zero(t, g.create(t, set, 1))
	for _, pod := range g.Pods(t) {
		require.Equal(t, int32(-5), *pod.Spec.Priority)
		require.Equal(t, corev1.PreemptNever, *pod.Spec.PreemptionPolicy)
	}
}

func testLostResponses(t *testing.T, g *fixture, r *replicas) {
	t.Helper()
	set := g.cloneSet(t, 100)
	g.spread(t, spreading(ours, "CloneSet", subset("a", 20, zoneless), subset("b", unlimited, zoneless)))
	r.lose.Store(true)
	defer r.lose.Store(false)
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			pod := newPodOf(ours, "CloneSet", testenv.Name, set.UID)
			pod.Namespace, pod.Labels = g.Namespace, map[string]string{"app": testenv.Name}
			_ = g.Create(t.Context(), pod)
		})
	}
	all.Wait()
	n := g.bySubset(t)
	require.LessOrEqual(t, n["a"], 20)
	require.Less(t, n["a"]+n["b"], 40)
}
