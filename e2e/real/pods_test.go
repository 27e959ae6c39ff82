//go:build e2e

package real

import (
	"context"
	"fmt"
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
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// deployed returns a Deployment of such pods, which Kubernetes' own controllers create.
func deployed(name string, replicas int32, containers ...corev1.Container) *appsv1.Deployment { //nolint:unparam // As with settled.
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": name}}, Template: template(name, containers...),
		},
	}
}

// nodesOf returns the nodes of an app's pods as soon as there are that many and all of them are ready.
func (s *scene) nodesOf(c *fleet.Cluster, app string, pods int) map[string]string {
	s.Helper()
	var out map[string]string
	s.until(func(context.Context) string {
		out = map[string]string{}
		all := s.pods(c, app)
		for name, p := range all {
			if ready(&p) {
				out[name] = p.Spec.NodeName
			}
		}
		if len(all) != pods || len(out) != pods {
			return fmt.Sprintf("%d of %d pods are ready, want %d", len(out), len(all), pods)
		}
		return ""
	})
	return out
}

// countByNode counts pods by node.
func countByNode(nodes map[string]string) map[string]int {
	out := map[string]int{}
	for _, node := range nodes {
		out[node]++
	}
	return out
}

// awaitBudget waits until a budget has counted that many pods, and allows that many of them to go.
func (s *scene) awaitBudget(c *fleet.Cluster, name string, available, allowed int32) {
	s.Helper()
	b := &policyv1beta1.PodUnavailableBudget{}
	s.until(func(ctx context.Context) string {
		if err := c.Client.Get(ctx, s.key(name), b); err != nil {
			return err.Error()
		}
		if b.Status.ObservedGeneration != b.Generation || b.Status.CurrentAvailable != available || b.Status.UnavailableAllowed != allowed {
			return fmt.Sprintf("the budget, generation %d: %+v", b.Generation, b.Status)
		}
		return ""
	})
}

// protect creates a budget for the pods of an app that allows that many of them to go. It waits until the budget is enforced, using one that
// allows none at first.
func (s *scene) protect(c *fleet.Cluster, app string, spec policyv1beta1.PodUnavailableBudgetSpec, most int32) {
	s.Helper()
	pods := s.pods(c, app)
	spec.MaxUnavailable = new(intstr.FromInt32(0))
	b := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: app}, Spec: spec}
	s.create(c, b)
	s.awaitBudget(c, app, int32(len(pods)), 0)
	for _, p := range pods {
		s.until(func(ctx context.Context) string {
			if err := c.Client.Delete(ctx, &p, client.DryRunAll); !apierrors.IsForbidden(err) {
				return fmt.Sprintf("a deletion is not rejected (%v)", err)
			}
			return ""
		})
		break
	}
	change(s, c, b, func(b *policyv1beta1.PodUnavailableBudget) { b.Spec.MaxUnavailable = new(intstr.FromInt32(most)) })
	s.awaitBudget(c, app, int32(len(pods)), most)
}

// TestPodUnavailableBudgetHoldsWhileANodeIsDrained uses kubectl to drain a node with at least two of three pods, one of which may be
// unavailable.
func TestPodUnavailableBudgetHoldsWhileANodeIsDrained(t *testing.T) {
	t.Parallel()
	s, c := newScene(t), env.West
	const pods = 3
	s.create(c, deployed("web", pods, app("app", port)))
	node := ""
	for name, n := range countByNode(s.nodesOf(c, "web", pods)) {
		if n > 1 {
			node = name
		}
	}
	s.protect(c, "web", policyv1beta1.PodUnavailableBudgetSpec{
		TargetRef: &policyv1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
	}, 1)
	// A probe that a busy machine answers late doesn't count.
	fewest := s.watchFewest(c, "web", func(p *corev1.Pod, so bool) bool { return so || ready(p) })

	mark := fleet.Mark()
	t.Cleanup(func() {
		_, err := c.Shell(context.WithoutCancel(t.Context()), "kubectl uncordon "+node)
		require.NoError(t, err)
	})
	_, err := c.Shell(t.Context(), fmt.Sprintf("kubectl drain %s --pod-selector app=web --timeout %s", node, patience))
	require.NoError(t, err)
	for name, current := range s.nodesOf(c, "web", pods) {
		require.NotEqual(t, node, current, name)
	}
	require.Equal(t, pods-1, fewest(), "pods that were ready at the worst moment")
	codes := map[int]int{}
	writes, err := c.Lab.Writes(mark)
	require.NoError(t, err)
	for _, w := range writes {
		if w.Resource == "pods/eviction" && w.Namespace == s.namespace {
			codes[w.Code]++
		}
	}
	t.Logf("answers to evictions: %v", codes)
	require.Greater(t, codes[201], 1)
	require.NotZero(t, codes[429], "kubectl got no 429 after which it had to retry")
	require.Len(t, codes, 2)
}

// watchFewest watches how many pods of an app serve and are not being deleted. serves decides by the pod, and by whether the pod has served so far.
// The returned function returns the lowest number since the call.
func (s *scene) watchFewest(c *fleet.Cluster, app string, serves func(p *corev1.Pod, so bool) bool) func() int {
	s.Helper()
	var mu sync.Mutex
	serve, least := map[types.UID]bool{}, -1
	synced := make(chan struct{})
	want := len(s.pods(c, app))
	end, err := fleet.Follow(s.ctx, c, &corev1.PodList{}, func(e watch.EventType, p *corev1.Pod) {
		mu.Lock()
		defer mu.Unlock()
		if e != watch.Deleted && p.DeletionTimestamp == nil && serves(p, serve[p.UID]) {
			serve[p.UID] = true
		} else {
			delete(serve, p.UID)
		}
		switch {
		case least >= 0:
			least = min(least, len(serve))
		case len(serve) == want:
			least = want
			close(synced)
		}
	}, client.InNamespace(s.namespace), client.MatchingLabels{"app": app})
	require.NoError(s, err)
	s.Cleanup(end)
	select {
	case <-synced:
	case <-s.ctx.Done():
		require.NoError(s, s.ctx.Err())
	}
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return least
	}
}

// TestPodUnavailableBudgetIsExactOverReplicasOfWhichOneIsKilled evicts pods in parallel, while one of the two answering replicas is killed.
// Nothing replaces the pods, so the grants can be counted. No node runs the pods: their statuses only claim that they are ready.
func TestPodUnavailableBudgetIsExactOverReplicasOfWhichOneIsKilled(t *testing.T) {
	s, c := newScene(t), env.West
	s.restore()
	const pods, units, late = 60, 40, 10
	names := make(chan string, pods)
	for i := range pods {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("web-%d", i)}}
		p.Labels, p.Spec = map[string]string{"app": "web"}, template("web", app("app", port)).Spec
		p.Spec.SchedulerName = "nobody"
		p.Namespace = s.namespace
		s.retry(func(ctx context.Context) error { // The ServiceAccount may still be missing.
			return client.IgnoreAlreadyExists(c.Client.Create(ctx, p))
		})
		patch := []byte(`{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}`)
		require.NoError(t, c.Client.Status().Patch(t.Context(), p, client.RawPatch(types.StrategicMergePatchType, patch)))
		names <- p.Name
	}
	close(names)
	s.protect(c, "web", policyv1beta1.PodUnavailableBudgetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}, ProtectTotalReplicas: new(int32(pods)),
	}, units)

	kube, err := kubernetes.NewForConfig(c.Config)
	require.NoError(t, err)
	evict := func(ctx context.Context, name string) error { // A client retries by itself, ten times.
		return kube.CoreV1().RESTClient().Post().Namespace(s.namespace).Resource("pods").Name(name).SubResource("eviction").MaxRetries(0).
			Body(&policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}).Do(ctx).Error()
	}
	leader, err := c.Manager.Leader(t.Context())
	require.NoError(t, err)
	dead := make(chan struct{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var granted, refused, failed atomic.Int32
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for name := range names {
				if granted.Load() >= units-late { // The rest is for the time after.
					<-dead
				}
				for answered := false; !answered && ctx.Err() == nil; {
					switch err := evict(ctx, name); {
					case err == nil:
						answered = true
						if granted.Add(1) == late {
							group.Go(func() {
								defer close(dead)
								assert.NoError(t, c.KillContainers(ctx, leader))
							})
						}
					case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
						answered = true
						refused.Add(1)
					default: // The killed replica: the pod keeps its unit if it has got one.
						failed.Add(1)
						pause(ctx, 50*time.Millisecond)
					}
				}
			}
		})
	}
	group.Wait()
	t.Logf("%d granted, %d refused, %d not answered", granted.Load(), refused.Load(), failed.Load())
	require.EqualValues(t, units, granted.Load())
	require.EqualValues(t, pods-units, refused.Load())
	require.Len(t, s.pods(c, "web"), pods-units)
	s.awaitBudget(c, "web", pods-units, 0)
	s.until(func(ctx context.Context) string { // Until then, requests of later tests may reach it.
		again := &corev1.Pod{}
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(leader), again); err != nil {
			return err.Error()
		}
		if !ready(again) || again.Status.ContainerStatuses[0].RestartCount == leader.Status.ContainerStatuses[0].RestartCount {
			return "the replica that was killed is not ready again"
		}
		return ""
	})
}

// limitSlots gives each node, which is its own zone, an amount of a resource. A pod with this container takes one unit. The first node has one
// unit, and is full with it. CPU would not work: nodes have the machine's CPUs, and other tests use them.
func (s *scene) limitSlots(c *fleet.Cluster, name string, one *corev1.Container) {
	s.Helper()
	resourceName := "example.com/" + name
	for i, node := range c.Lab.RealNodes() {
		n := 1 + 9*i
		patch := fmt.Appendf(nil, `{"status":{"capacity":{%[1]q:"%[2]d"},"allocatable":{%[1]q:"%[2]d"}}}`, resourceName, n)
		o := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}
		require.NoError(s, c.Client.Status().Patch(s.ctx, o, client.RawPatch(types.StrategicMergePatchType, patch)))
	}
	amount := corev1.ResourceList{corev1.ResourceName(resourceName): resource.MustParse("1")}
	one.Resources = corev1.ResourceRequirements{Requests: amount, Limits: amount}
}

// zone selects the nodes of a zone.
func zone(name string) *corev1.NodeSelectorTerm {
	return &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name},
	}}}
}

func TestUnitedDeploymentAdaptiveLeavesAZoneThatIsFull(t *testing.T) {
	t.Parallel()
	s, c := newScene(t), env.East
	one := app("app", port)
	s.limitSlots(c, "ud", &one)
	web := deployed("web", 4, one)
	web.Labels = web.Spec.Template.Labels
	ud := &appsv1beta1.UnitedDeployment{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: web.Spec.Replicas, Selector: web.Spec.Selector,
			Template: appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: web.Labels}, Spec: appsv1.DeploymentSpec{Selector: web.Spec.Selector, Template: web.Spec.Template},
			}},
			Topology: appsv1beta1.Topology{
				ScheduleStrategy: appsv1beta1.UnitedDeploymentScheduleStrategy{
					Type: appsv1beta1.ScheduleAdaptive, Adaptive: &appsv1beta1.AdaptiveScheduleStrategy{RescheduleCriticalSeconds: new(int32(1))},
				},
				Subsets: []appsv1beta1.Subset{{Name: "a", NodeSelectorTerm: zone("zone-a")}, {Name: "b", NodeSelectorTerm: zone("zone-b")}},
			},
		},
	}
	s.create(c, ud)
	require.Equal(t, map[string]int{"node-1": 1, "node-2": 3}, countByNode(s.nodesOf(c, "web", 4)))
	s.until(func(ctx context.Context) string {
		if err := c.Client.Get(ctx, client.ObjectKeyFromObject(ud), ud); err != nil {
			return err.Error()
		}
		for _, subset := range ud.Status.SubsetStatuses {
			for _, cond := range subset.Conditions {
				if subset.Name == "a" && cond.Type == appsv1beta1.SubsetSchedulable && cond.Status == corev1.ConditionFalse && subset.Replicas == 1 {
					return ""
				}
			}
		}
		return fmt.Sprintf("%+v", ud.Status)
	})
}

func TestWorkloadSpreadAdaptiveLeavesAZoneThatIsFull(t *testing.T) {
	lab.Full(t) // The slices of a fleet do the same in e2e/suite, with the same scheduler.
	t.Parallel()
	s, c := newScene(t), env.East
	one := app("app", port)
	s.limitSlots(c, "ws", &one)
	web := deployed("web", 0, one)
	s.create(c, web)
	ws := &appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Name: "web"},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"},
			ScheduleStrategy: appsv1beta1.WorkloadSpreadScheduleStrategy{
				Type: appsv1beta1.AdaptiveWorkloadSpread, Adaptive: &appsv1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: new(int32(1))},
			},
			Subsets: []appsv1beta1.WorkloadSpreadSubset{
				{Name: "a", RequiredNodeSelector: zone("zone-a"), MaxReplicas: new(intstr.FromInt32(3))},
				{Name: "b", RequiredNodeSelector: zone("zone-b")},
			},
		},
	}
	s.create(c, ws)
	spread := func(missing func() string) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(ws), ws); err != nil {
				return err.Error()
			}
			return missing()
		})
	}
	spread(func() string {
		if !meta.IsStatusConditionTrue(ws.Status.Conditions, appsv1beta1.WorkloadSpreadActive) {
			return fmt.Sprintf("%+v", ws.Status)
		}
		return ""
	})
	change(s, c, web, func(web *appsv1.Deployment) { web.Spec.Replicas = new(int32(4)) })
	require.Equal(t, map[string]int{"node-1": 1, "node-2": 3}, countByNode(s.nodesOf(c, "web", 4)))
	spread(func() string {
		for _, subset := range ws.Status.SubsetStatuses {
			if subset.Name == "a" && subset.Replicas == 1 &&
				meta.IsStatusConditionFalse(subset.Conditions, appsv1beta1.WorkloadSpreadSubsetSchedulable) {
				return ""
			}
		}
		return fmt.Sprintf("%+v", ws.Status)
	})
}

func TestPersistentPodStateBringsPodsBackToTheirNodes(t *testing.T) {
	t.Parallel()
	s, c := newScene(t), env.East
	const pods = 4
	s.create(c, &appsv1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Name: "db", Annotations: map[string]string{
			keys.AutoGeneratePersistentPodState: "true", keys.RequiredPersistentTopology: corev1.LabelHostname,
		}},
		Spec: appsv1.StatefulSetSpec{
			Replicas: new(int32(pods)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "db"}},
			Template: template("db", app("app", port)), ServiceName: "db", PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	})
	s.nodesOf(c, "db", pods)
	pps := &appsv1beta1.PersistentPodState{}
	s.until(func(ctx context.Context) string {
		if err := c.Client.Get(ctx, s.key("db"), pps); err != nil {
			return err.Error()
		}
		if len(pps.Status.PodStates) != pods {
			return fmt.Sprintf("%+v", pps.Status)
		}
		return ""
	})
	before := s.pods(c, "db")
	for name, p := range before {
		require.Equal(t, p.Spec.NodeName, pps.Status.PodStates[name].NodeName)
		require.NoError(t, c.Client.Delete(t.Context(), &p, client.Preconditions{UID: &p.UID}))
	}
	s.until(func(context.Context) string {
		after := s.pods(c, "db")
		for name, old := range before {
			current := after[name]
			if current.UID == old.UID || !ready(&current) {
				return "the next " + name + " is not ready"
			}
			require.Equal(t, old.Spec.NodeName, current.Spec.NodeName, name)
			require.Equal(t, old.Spec.NodeName, current.Spec.NodeSelector[corev1.LabelHostname], name)
		}
		return ""
	})
}
