//go:build integration

package cloneset

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/noded/nodelease"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

func TestInPlaceInCluster(t *testing.T) {
	t.Parallel()
	s := begin(t)
	manage(t, s, Options{Options: podcontrol.Options{InPlace: inplace.Options{Resources: true, Env: true}}})
	for name, test := range map[string]func(*testing.T, *fixture){
		"a resize without restart takes three writes for each pod, which stays ready": testResize,
		"an image and a resize with restart are one update":                           testResizeAndImage,
		"containers with launch priorities are updated one after the other":           testBatches,
		"a native sidecar is updated":                                                 testNativeSidecar,
		"a grace period passes before containers change":                              testGrace,
		"B 29: env from metadata re-creates pods where no node daemon is alive":       testEnv,
		"B 29: with InPlaceOnly a condition says why env can't be updated":            testEnvOnly,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, s))
		})
	}
}

// inPlace returns a set of pods that request cpu and memory.
func inPlace(n int32) *testkit.CloneSetBuilder {
	return web(n).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "50%", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
		requesting(&s.Template.Spec.Containers[0], "100m", "64Mi")
	})
}

func requesting(c *corev1.Container, cpu, memory string) {
	c.Resources.Requests = corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
	}
}

// requireSamePods requires that no pod was re-created.
func (g *fixture) requireSamePods(t *testing.T, before map[string]*corev1.Pod) map[string]*corev1.Pod {
	t.Helper()
	after := g.Pods(t)
	for name, p := range after {
		require.NotNil(t, before[name], "no pod was re-created")
		require.Equal(t, before[name].UID, p.UID, "no pod was re-created")
	}
	return after
}

func testResize(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, inPlace(4))
	before := g.Pods(t)
	began := clock.RealClock{}.Now()
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { requesting(&s.Template.Spec.Containers[0], "200m", "64Mi") })
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		require.Equal(t, int32(4), s.Status.ReadyReplicas, "all pods stay ready")
		return rolledOut(s)
	})
	g.PodWrites(t, began, map[string]int{"patch pods": 4, "patch pods/resize": 4, "patch pods/status": 4})
	for _, p := range g.requireSamePods(t, before) {
		st := p.Status.ContainerStatuses[0]
		require.Zero(t, st.RestartCount)
		require.Equal(t, "200m", st.Resources.Requests.Cpu().String())
		require.NotContains(t, p.Annotations[keys.InPlaceUpdateState], "next")
		require.Contains(t, p.Annotations[keys.InPlaceUpdateState], `"updateResources":true`)
	}
}

func testResizeAndImage(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, inPlace(2).Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.Template.Spec.Containers[0].ResizePolicy = []corev1.ContainerResizePolicy{
			{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer},
			{ResourceName: corev1.ResourceCPU, RestartPolicy: corev1.NotRequired},
		}
	}))
	before := g.Pods(t)
	began := clock.RealClock{}.Now()
	g.change(t, func(s *appsv1beta1.CloneSetSpec) {
		c := &s.Template.Spec.Containers[0]
		c.Image = "app:2"
		requesting(c, "100m", "128Mi")
	})
	g.Await(t, rolledOut)
	g.PodWrites(t, began, map[string]int{"patch pods": 2, "patch pods/resize": 2, "patch pods/status": 4})
	for _, p := range g.requireSamePods(t, before) {
		require.Equal(t, "app:2", p.Status.ContainerStatuses[0].Image)
		require.Equal(t, "128Mi", p.Status.ContainerStatuses[0].Resources.Requests.Memory().String())
	}
}

func testBatches(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, inPlace(2).Spec(func(s *appsv1beta1.CloneSetSpec) {
		first := s.Template.Spec.Containers[0].DeepCopy()
		first.Name = "first"
		first.Env = []corev1.EnvVar{{Name: keys.EnvContainerPriority, Value: "1"}}
		s.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: keys.EnvContainerPriority, Value: "0"}}
		s.Template.Spec.Containers = append(s.Template.Spec.Containers, *first)
	}))
	before := g.Pods(t)
	g.change(t, func(s *appsv1beta1.CloneSetSpec) {
		s.Template.Spec.Containers[1].Image = "app:2"
		requesting(&s.Template.Spec.Containers[0], "200m", "64Mi") // B 5: a batch of resources alone.
	})
	g.Await(t, rolledOut)
	for _, p := range g.requireSamePods(t, before) {
		require.Equal(t, "app:2", p.Status.ContainerStatuses[1].Image)
		require.Equal(t, "200m", p.Status.ContainerStatuses[0].Resources.Requests.Cpu().String())
		record := p.Annotations[keys.InPlaceUpdateState]
		require.Regexp(t, `"containerBatchesRecord":\[\{[^}]*"containers":\["first"\]\},\{[^}]*"containers":\["app"\]\}\]`, record)
		require.NotContains(t, record, `"next`)
	}
}

func testNativeSidecar(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, inPlace(2).Spec(func(s *appsv1beta1.CloneSetSpec) {
		proxy := s.Template.Spec.Containers[0].DeepCopy()
		proxy.Name, proxy.Image, proxy.RestartPolicy = "proxy", "proxy:1", new(corev1.ContainerRestartPolicyAlways)
		s.Template.Spec.InitContainers = []corev1.Container{*proxy}
	}))
	before := g.Pods(t)
	g.change(t, func(s *appsv1beta1.CloneSetSpec) {
		s.Template.Spec.InitContainers[0].Image = "proxy:2"
		requesting(&s.Template.Spec.InitContainers[0], "200m", "64Mi")
	})
	g.Await(t, rolledOut)
	for _, p := range g.requireSamePods(t, before) {
		st := p.Status.InitContainerStatuses[0]
		require.Equal(t, "proxy:2", st.Image)
		require.Equal(t, "200m", st.Resources.Requests.Cpu().String())
		require.Zero(t, p.Status.ContainerStatuses[0].RestartCount, "the others run on")
	}
}

func testGrace(t *testing.T, g *fixture) {
	t.Helper()
	const grace = 3 * time.Second
	g.make(t, inPlace(2).Rolling("0", "100%", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{GracePeriodSeconds: int32(grace / time.Second)}
	}))
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	g.Await(t, rolledOut)
	closed := map[string]time.Time{}
	for _, w := range g.Requests(t, time.Time{}) {
		switch {
		case w.Agent != agent || w.Verb != "patch":
		case w.Resource == "pods/status":
			if closed[w.Name].IsZero() || w.At.After(closed[w.Name]) {
				closed[w.Name] = w.At
			}
		case w.Resource == "pods":
			require.GreaterOrEqual(t, w.At.Sub(closed[w.Name]), grace, "%s keeps its containers during the grace period", w.Name)
		}
	}
	require.Len(t, closed, 2)
}

func testEnv(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, inPlace(2).Spec(reading("one")))
	before := g.Pods(t)
	g.change(t, reading("two"))
	g.Await(t, func(s *appsv1beta1.CloneSet) bool { return rolledOut(s) && len(g.Pods(t)) == 2 })
	for name := range g.Pods(t) {
		require.NotContains(t, before, name)
	}

	// A container that gets a new image reads the new value when it restarts, so the update is in place.
	before = g.Pods(t)
	g.change(t, func(s *appsv1beta1.CloneSetSpec) {
		reading("three")(s)
		s.Template.Spec.Containers[0].Image = "app:2"
	})
	g.Await(t, rolledOut)
	for _, p := range g.requireSamePods(t, before) {
		require.Equal(t, "three", p.Annotations["config"])
	}
}

func testEnvOnly(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, inPlace(2).Policy(appsv1beta1.PodInPlaceOnly).Spec(reading("one")))
	before := g.Pods(t)
	g.change(t, reading("two"))
	set := g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return slices.ContainsFunc(s.Status.Conditions, func(c appsv1beta1.CloneSetCondition) bool {
			return c.Type == appsv1beta1.CloneSetFailedUpdate
		})
	})
	require.Contains(t, fmt.Sprint(set.Status.Conditions), "container app reads annotation config by env CONFIG, and its node has no daemon that could restart it")
	g.requireSamePods(t, before)
	g.change(t, reading("one"))
	g.Await(t, func(s *appsv1beta1.CloneSet) bool { return rolledOut(s) && len(failures(s.Status.Conditions)) == 0 })
}

// TestEnvInCluster starts node daemons on nodes whose pods can't be updated in place without them.
func TestEnvInCluster(t *testing.T) {
	t.Parallel()
	s := begin(t)
	daemons := nodelease.NewTracker(clock.RealClock{})
	manage(t, s, Options{Options: podcontrol.Options{InPlace: inplace.Options{Env: true}, Daemons: daemons}})
	g := newFixture(t, s)
	g.make(t, inPlace(3).Policy(appsv1beta1.PodInPlaceOnly).Spec(reading("one")))
	before := g.Pods(t)
	g.change(t, reading("two"))
	g.Await(t, func(s *appsv1beta1.CloneSet) bool { return len(failures(s.Status.Conditions)) > 0 })

	nodes := map[string]bool{}
	for _, p := range before {
		nodes[p.Spec.NodeName] = true
	}
	for node := range nodes {
		h := nodelease.Holder{
			Client: g, Namespace: g.Namespace, Node: node, Identity: "test", Clock: clock.RealClock{}, Does: []string{nodelease.RestartsForEnv},
		}
		require.NoError(t, h.Renew(t.Context()))
	}
	asked := map[string]bool{}
	// updated does what the daemons do after they have restarted containers, until the set is updated.
	updated := func(config string) func(*appsv1beta1.CloneSet) bool {
		return func(set *appsv1beta1.CloneSet) bool {
			for name, p := range g.Pods(t) {
				requests := inplace.RestartRequests(p)
				if len(requests) == 0 {
					continue
				}
				asked[name] = true
				require.Equal(t, config, p.Annotations["config"])
				c := requests[0][0].Container
				report, err := inplace.MarshalStarted([]inplace.StartedContainer{{
					Name: c.Name, ContainerID: p.Status.ContainerStatuses[0].ContainerID,
					Hashes: inplace.StartedHashes{ExtractedEnvFromMetadataHash: inplace.EnvHash(inplace.MetadataEnv(c, p))},
				}})
				require.NoError(t, err)
				from := p.DeepCopy()
				p.Annotations[keys.RuntimeContainersMeta] = report
				require.NoError(t, client.IgnoreNotFound(g.Status().Patch(t.Context(), p, client.MergeFrom(from))))
			}
			return rolledOut(set) && len(failures(set.Status.Conditions)) == 0
		}
	}
	g.Await(t, updated("two"))
	g.requireSamePods(t, before)
	require.Len(t, asked, 3)

	// Somebody has written the next value to a pod, but its container still has the old one.
	clear(asked)
	hand := slices.Min(slices.Collect(maps.Keys(before)))
	p := g.Pods(t)[hand]
	from := p.DeepCopy()
	p.Annotations["config"] = "three"
	require.NoError(t, g.Patch(t.Context(), p, client.MergeFrom(from)))
	g.change(t, reading("three"))
	g.Await(t, updated("three"))
	g.requireSamePods(t, before)
	require.Len(t, asked, 3, "container app of pod %s too is restarted", hand)
}

// TestTakeOverInCluster starts the manager on a set that OpenKruise has left in the middle of an update. One of four pods has its new image
// while its gate is still closed; the partition is two.
func TestTakeOverInCluster(t *testing.T) {
	t.Parallel()
	s := begin(t)
	g := newFixture(t, s)
	left := leftBehind(t)
	g.restore(t, left)
	before := g.Pods(t)
	began := clock.RealClock{}.Now()
	manage(t, s, Options{
		Options: podcontrol.Options{InPlace: inplace.Options{Resources: true, Env: true}}, Gates: gates{RecreateOnPVCChange: true},
	})

	set := &appsv1beta1.CloneSet{}
	key := types.NamespacedName{Namespace: g.Namespace, Name: left.set.Name}
	if !assert.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), key, set))
		return set.Status.UpdatedAvailableReplicas == 2 && set.Status.AvailableReplicas == 4
	}, testenv.Long, testenv.Poll) {
		require.FailNow(t, "the rollout did not continue", "status: %+v\npods: %v", set.Status, g.Describe(t))
	}
	require.Equal(t, left.set.Status.UpdateRevision, set.Status.UpdateRevision)
	require.Equal(t, left.set.Status.CurrentRevision, set.Status.CurrentRevision)
	untouched := 0
	for name, p := range g.requireSamePods(t, before) {
		if p.Labels[keys.ControllerRevisionHash] == before[name].Labels[keys.ControllerRevisionHash] &&
			p.Labels[keys.ControllerRevisionHash] == set.Status.CurrentRevision {
			untouched++
			require.Empty(t, cmp.Diff(before[name].Labels, p.Labels))
			require.Empty(t, cmp.Diff(before[name].Annotations, p.Annotations))
			require.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
		}
	}
	require.Equal(t, 2, untouched, "the partition is kept")
	var history appsv1.ControllerRevisionList
	require.NoError(t, g.List(t.Context(), &history, client.InNamespace(g.Namespace)))
	require.Len(t, history.Items, 2)
	writes := g.Writes(t, began)
	for _, what := range slices.Collect(maps.Keys(writes)) {
		require.False(t, strings.HasPrefix(what, "create ") || strings.HasPrefix(what, "delete "), "writes: %v", writes)
		require.NotContains(t, what, "controllerrevisions", "writes: %v", writes)
	}
	require.Equal(t, 1, writes["patch pods"], "one more pod is updated")
	require.Equal(t, 3, writes["patch pods/status"], "the first gate is opened, the other closed and opened")
}

// restore creates a set with its revisions and pods in the namespace, as another controller left them.
func (g *fixture) restore(t *testing.T, left observed) {
	t.Helper()
	status := left.set.Status
	set := left.set.DeepCopy()
	set.ObjectMeta = metav1.ObjectMeta{Namespace: g.Namespace, Name: set.Name, Annotations: set.Annotations}
	require.NoError(t, g.Create(t.Context(), set))
	set.Status = status
	set.Status.ObservedGeneration = set.Generation
	require.NoError(t, g.Status().Update(t.Context(), set))
	own := func(o client.Object) {
		ref := metav1.GetControllerOf(o)
		ref.UID = set.UID
		o.SetOwnerReferences([]metav1.OwnerReference{*ref})
		o.SetNamespace(g.Namespace)
		o.SetUID("")
		o.SetResourceVersion("")
	}
	for _, r := range left.history {
		own(r)
		require.NoError(t, g.Create(t.Context(), r))
	}
	for _, p := range left.pods {
		g.restorePod(t, p, own)
	}
	revision.Sort(left.history)
}

// restorePod creates a pod, waits until it runs, and sets the conditions and annotations that it had.
func (g *fixture) restorePod(t *testing.T, p *corev1.Pod, own func(client.Object)) {
	t.Helper()
	conditions := p.Status.Conditions
	own(p)
	p.Spec.NodeName, p.Status = "", corev1.PodStatus{}
	p.Spec.Volumes = nil
	for i := range p.Spec.Containers {
		p.Spec.Containers[i].VolumeMounts = nil
	}
	require.NoError(t, g.Create(t.Context(), p))
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(p), p))
		return p.Status.Phase == corev1.PodRunning && len(p.Status.ContainerStatuses) == 2
	}, testenv.Long, testenv.Poll)
	require.Eventually(t, func() bool {
		patch := client.StrategicMergeFrom(p.DeepCopy())
		for _, c := range conditions {
			if c.Type == keys.InPlaceUpdateReady || c.Type == keys.KruisePodReady {
				p.Status.Conditions = append(p.Status.Conditions, c)
			}
		}
		return g.Status().Patch(t.Context(), p, patch) == nil
	}, testenv.Long, testenv.Poll)
	ready := !slices.ContainsFunc(conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionFalse
	})
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(p), p))
		return ready == slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
	}, testenv.Long, testenv.Poll)
}
