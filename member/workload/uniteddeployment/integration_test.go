//go:build integration

package uniteddeployment_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	// The pods of a CloneSet or StatefulSet are created by its controller, which has to run here, as it does in a member.
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/member/workload/statefulset"
	"github.com/flotilla-io/flotilla/member/workload/uniteddeployment"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

const agent = "uniteddeployment-under-test"

type (
	object = appsv1beta1.UnitedDeployment
	part   = appsv1beta1.Subset
)

// fixture is the namespace of one test, with one UnitedDeployment.
type fixture struct{ *testenv.Fixture[*object] }

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// manage starts managers in this process: one for the controller under test, whose writes are recognized by its name, one for CloneSets and
// one for StatefulSets.
func manage(t *testing.T, s *testenv.Env) {
	t.Helper()
	s.Run(t, agent, uniteddeployment.Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, uniteddeployment.Setup(t.Context(), mgr, control.Options{Clock: clock.RealClock{}}))
		hook := &united.Webhook{Client: mgr.GetClient(), Options: united.Options{AllowClusters: true}}
		require.NoError(t, admit.Register(mgr, admit.Registration[*object]{Object: &object{}, Defaulter: hook, Validator: hook}))
	})
	s.Run(t, "cloneset", cloneset.Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, cloneset.Setup(t.Context(), mgr, cloneset.Options{Options: podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}}}))
		hook := &cloneset.Webhook{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.CloneSet]{
			Object: &appsv1beta1.CloneSet{}, Defaulter: hook, Validator: hook,
		}))
	})
	s.Run(t, "statefulset", statefulset.Kind(), func(mgr ctrl.Manager) {
		require.NoError(t, statefulset.Setup(t.Context(), mgr, statefulset.Options{Options: podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}}}))
		hook := &statefulset.Webhook{Client: mgr.GetClient(), Live: mgr.GetAPIReader()}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.StatefulSet]{
			Object: &appsv1beta1.StatefulSet{}, Defaulter: hook, Validator: hook,
		}))
	})
}

// web returns an object as a user writes it: replicas of a CloneSet that updates in place.
func (g *fixture) web(replicas int32, subsets ...part) *object {
	labels := map[string]string{"app": "web"}
	ud := &object{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "web"},
		Spec: appsv1beta1.UnitedDeploymentSpec{
			Replicas: &replicas,
			Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: appsv1beta1.SubsetTemplate{CloneSetTemplate: &appsv1beta1.CloneSetTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: appsv1beta1.CloneSetSpec{
					Selector: &metav1.LabelSelector{MatchLabels: labels},
					Template: corev1.PodTemplateSpec{
						ObjectMeta: metav1.ObjectMeta{Labels: labels},
						Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
					},
					UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
						PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible, MaxUnavailable: new(intstr.FromString("100%")),
					}},
				},
			}},
			Topology: appsv1beta1.Topology{Subsets: subsets},
		},
	}
	return ud.DeepCopy()
}

func (g *fixture) make(t *testing.T, ud *object) {
	t.Helper()
	require.NoError(t, g.Create(t.Context(), ud))
	g.Await(t, rolledOut)
}

// rolledOut reports whether the status reflects this spec and all pods are updated and available.
func rolledOut(ud *object) bool {
	want, s := *ud.Spec.Replicas, &ud.Status
	return s.ObservedGeneration == ud.Generation && s.Replicas == want && s.AvailableReplicas == want &&
		s.UpdatedReadyReplicas == want && s.CurrentRevision == s.UpdatedRevision
}

func (g *fixture) change(t *testing.T, change func(*appsv1beta1.UnitedDeploymentSpec)) {
	t.Helper()
	g.Change(t, func(ud *object) { change(&ud.Spec) })
}

// count returns how many pods there are for each subset and the text that say returns for a pod.
func (g *fixture) count(t *testing.T, say func(*corev1.Pod) string) map[string]int {
	t.Helper()
	out := map[string]int{}
	for _, p := range g.Pods(t) {
		out[strings.TrimSpace(p.Labels[keys.SubsetName]+" "+say(p))]++
	}
	return out
}

func anything(*corev1.Pod) string { return "" }

func image(p *corev1.Pod) string { return p.Spec.Containers[0].Image }

// awaitPods waits until pods are as wanted.
func (g *fixture) awaitPods(t *testing.T, say func(*corev1.Pod) string, want map[string]int) {
	t.Helper()
	var got map[string]int
	if !assert.Eventually(t, func() bool {
		got = g.count(t, say)
		return maps.Equal(got, want)
	}, testenv.Long, testenv.Poll) {
		require.Equal(t, want, got)
	}
}

// children returns the workloads of a kind, by subset.
func children[L client.ObjectList](t *testing.T, g *fixture, list L, each func(L, func(client.Object))) map[string]client.Object {
	t.Helper()
	require.NoError(t, g.List(t.Context(), list, client.InNamespace(g.Namespace)))
	out := map[string]client.Object{}
	each(list, func(o client.Object) { out[o.GetLabels()[keys.SubsetName]] = o })
	return out
}

func (g *fixture) cloneSets(t *testing.T) map[string]client.Object {
	t.Helper()
	return children(t, g, &appsv1beta1.CloneSetList{}, func(l *appsv1beta1.CloneSetList, yield func(client.Object)) {
		for i := range l.Items {
			yield(&l.Items[i])
		}
	})
}

func zone(name string) *corev1.NodeSelectorTerm {
	return &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
		{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}},
	}}
}

func TestIntegration(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	manage(t, s)
	for name, test := range map[string]func(*testing.T, *fixture){
		"replicas are spread, updated in place by partitions and scaled, and nothing is written after": testLife,
		"subsets are filled in their order between minimum and maximum":                                testElastic,
		"subsets are Deployments":                                                                   testDeployment,
		"subsets are StatefulSets, and no update gets stuck":                                        testStatefulSet,
		"updated pods stay counted through scales and partitions of CloneSets":                      testScale(asCloneSets, map[string]int32{"a": 1, "b": 1}),
		"updated pods stay counted through scales of Deployments":                                   testScale(asDeployments, nil),
		"updated pods stay counted through scales and partitions of StatefulSets":                   testScale(asStatefulSets, map[string]int32{"a": 1, "b": 1}),
		"subsets are StatefulSets of apps.kruise.io, with ordinals of their own":                    testAdvanced,
		"updated pods stay counted through scales and partitions of StatefulSets of apps.kruise.io": testScale(asAdvancedSets, map[string]int32{"a": 1, "b": 1}),
		"the update of CloneSets is stopped and goes on":                                            testStopped(asCloneSets),
		"the update of Deployments is stopped and goes on, and new ones get pods":                   testStopped(asDeployments),
		"the update of StatefulSets is stopped and goes on":                                         testStopped(asStatefulSets),
		"the update of StatefulSets of apps.kruise.io is stopped and goes on":                       testStopped(asAdvancedSets),
		"subsets and kinds of workload are added and removed":                                       testComeAndGo,
		"minimal objects are defaulted and invalid ones refused":                                    testWebhook,
		"an object whose subsets name clusters is left alone":                                       testFederated,
		"changes of others are reverted":                                                            testDrift,
		"pods that can't be scheduled move to other subsets and don't return":                       testAdaptive(asCloneSets),
		"unschedulable pods of Deployments move to other subsets":                                   testAdaptive(asDeployments),
		"unschedulable pods of StatefulSets move to other subsets":                                  testAdaptive(asStatefulSets),
		"reserved pods wait while others run in their place":                                        testReserved(asCloneSets),
		"reserved pods of Deployments wait while others run in their place":                         testReserved(asDeployments),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, agent, &object{})})
		})
	}
}

func testLife(t *testing.T, g *fixture) {
	t.Helper()
	began := clock.RealClock{}.Now()
	g.make(t, g.web(10, part{Name: "a", NodeSelectorTerm: zone("zone-a")}, part{Name: "b", NodeSelectorTerm: zone("zone-b")}, part{Name: "c"}))
	require.Equal(t, map[string]int{"a": 3, "b": 3, "c": 4}, g.count(t, anything))
	t.Logf("writes of the creation: %v", g.Writes(t, began))
	var nodes corev1.NodeList
	require.NoError(t, g.List(t.Context(), &nodes))
	zones := map[string]string{}
	for i := range nodes.Items {
		zones[nodes.Items[i].Name] = nodes.Items[i].Labels[corev1.LabelTopologyZone]
	}
	ud := g.Object(t)
	for name, p := range g.Pods(t) {
		require.True(t, strings.HasPrefix(name, "web-"+p.Labels[keys.SubsetName]+"-"), "%s", name)
		require.Equal(t, ud.Status.UpdatedRevision, p.Labels[keys.SubsetRevision])
		if s := p.Labels[keys.SubsetName]; s != "c" {
			require.Equal(t, "zone-"+s, zones[p.Spec.NodeName])
		}
	}
	require.Equal(t, "app=web", ud.Status.LabelSelector)

	before := g.Pods(t)
	began = clock.RealClock{}.Now()
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
		s.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
		s.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 2, "b": 9}
	})
	ud = g.Await(t, func(ud *object) bool {
		return ud.Status.ObservedGeneration == ud.Generation && ud.Status.UpdatedReadyReplicas == 5 && ud.Status.AvailableReplicas == 10
	})
	require.Equal(t, map[string]int{"a app:1": 2, "a app:2": 1, "b app:1": 3, "c app:2": 4}, g.count(t, image))
	require.NotEqual(t, ud.Status.CurrentRevision, ud.Status.UpdatedRevision)
	require.Equal(t, int32(3), ud.Status.SubsetStatuses[1].Partition, "a partition is bounded by the replicas")
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.UpdateStrategy.ManualUpdate.Partitions = nil })
	g.Await(t, rolledOut)
	t.Logf("writes of the update in two steps: %v", g.Writes(t, began))
	for name, p := range g.Pods(t) {
		require.Equal(t, before[name].UID, p.UID, "no pod was re-created")
		require.Equal(t, "app:2", p.Status.ContainerStatuses[0].Image)
	}

	// The same with percentages, and through the scale subresource. A rollback reuses the old revision.
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
		s.Topology.Subsets[0].Replicas = new(intstr.FromString("50%"))
		s.Template.CloneSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:1"
	})
	g.Await(t, rolledOut)
	g.awaitPods(t, image, map[string]int{"a app:1": 5, "b app:1": 2, "c app:1": 3})
	began = clock.RealClock{}.Now()
	require.NoError(t, g.SubResource("scale").Patch(t.Context(), g.Object(t),
		client.RawPatch(types.MergePatchType, []byte(`{"spec":{"replicas":12}}`))))
	g.Await(t, rolledOut)
	g.awaitPods(t, anything, map[string]int{"a": 6, "b": 3, "c": 3})
	require.Eventually(t, func() bool { return g.Writes(t, began)["patch clonesets.apps.kruise.io"] == 2 }, testenv.Long, testenv.Poll,
		"the audit log shows one for each subset that gets another number")
	var history appsv1.ControllerRevisionList
	require.NoError(t, g.List(t.Context(), &history, client.InNamespace(g.Namespace)))
	own := 0
	for i := range history.Items {
		if metav1.IsControlledBy(&history.Items[i], ud) {
			own++
		}
	}
	require.Equal(t, 2, own)

	g.Rests(t)
}

func testElastic(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, g.web(6,
		part{Name: "a", MinReplicas: new(intstr.FromInt32(2)), MaxReplicas: new(intstr.FromInt32(4))},
		part{Name: "b", MinReplicas: new(intstr.FromInt32(1))}, part{Name: "c"}))
	require.Equal(t, map[string]int{"a": 4, "b": 2}, g.count(t, anything), "c gets no replicas while b may take all")
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
		s.Replicas = ptr.To[int32](2)
		s.Topology.Subsets[0].Patch = &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"app","image":"app:2"}]}}`)}
	})
	g.Await(t, rolledOut)
	g.awaitPods(t, image, map[string]int{"a app:2": 2})
}

func asCloneSets(*appsv1beta1.UnitedDeploymentSpec) {}

func asDeployments(s *appsv1beta1.UnitedDeploymentSpec) {
	c := s.Template.CloneSetTemplate
	s.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1.DeploymentSpec{Selector: c.Spec.Selector, Template: c.Spec.Template},
	}}
}

func asStatefulSets(s *appsv1beta1.UnitedDeploymentSpec) {
	c := s.Template.CloneSetTemplate
	s.Template = appsv1beta1.SubsetTemplate{StatefulSetTemplate: &appsv1beta1.StatefulSetTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1.StatefulSetSpec{Selector: c.Spec.Selector, Template: c.Spec.Template, ServiceName: "web"},
	}}
}

func asAdvancedSets(s *appsv1beta1.UnitedDeploymentSpec) {
	c := s.Template.CloneSetTemplate
	s.Template = appsv1beta1.SubsetTemplate{AdvancedStatefulSetTemplate: &appsv1beta1.AdvancedStatefulSetTemplateSpec{
		ObjectMeta: c.ObjectMeta, Spec: appsv1beta1.StatefulSetSpec{
			Selector: c.Spec.Selector, Template: c.Spec.Template, PodManagementPolicy: appsv1.ParallelPodManagement,
		},
	}}
}

// testStopped creates two subsets whose updates are stopped, and updates one after the other.
func testStopped(as func(*appsv1beta1.UnitedDeploymentSpec)) func(*testing.T, *fixture) {
	return func(t *testing.T, g *fixture) {
		t.Helper()
		ud := g.web(6, part{Name: "a"}, part{Name: "b"})
		as(&ud.Spec)
		ud.Spec.UpdateStrategy.ManualUpdate = &appsv1beta1.ManualUpdate{MaxUnavailable: map[string]int32{"a": 0, "b": 0}}
		g.make(t, ud)
		// settled waits until all pods are available, and that many of a and b are updated.
		settled := func(a, b int32) {
			t.Helper()
			g.Await(t, func(ud *object) bool {
				s := ud.Status
				return s.ObservedGeneration == ud.Generation && s.Replicas == *ud.Spec.Replicas && s.AvailableReplicas == *ud.Spec.Replicas &&
					s.SubsetStatuses[0].UpdatedAvailableReplicas == a && s.SubsetStatuses[1].UpdatedAvailableReplicas == b
			})
		}
		g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
			template, _ := united.TemplateOf(&s.Template)
			template.Pod.Spec.Containers[0].Image = "app:2"
			s.UpdateStrategy.ManualUpdate.MaxUnavailable = map[string]int32{"a": 0, "b": 2}
		})
		settled(0, 3)
		require.Equal(t, map[string]int{"a app:1": 3, "b app:2": 3}, g.count(t, image))
		g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.UpdateStrategy.ManualUpdate.MaxUnavailable["a"] = 1 })
		g.Await(t, rolledOut)
		g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
			s.Replicas = new(int32(8))
			s.UpdateStrategy.ManualUpdate.MaxUnavailable["a"] = 0
		})
		settled(4, 4)
		g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.UpdateStrategy.ManualUpdate.MaxUnavailable = nil })
		g.Await(t, rolledOut)
		require.Equal(t, map[string]int{"a app:2": 4, "b app:2": 4}, g.count(t, image))
	}
}

// testScale scales out, holds some pods back and scales in. All pods are at one revision the whole time, so no write of the status may say
// otherwise.
func testScale(as func(*appsv1beta1.UnitedDeploymentSpec), partitions map[string]int32) func(*testing.T, *fixture) {
	return func(t *testing.T, g *fixture) {
		t.Helper()
		ud := g.web(6, part{Name: "a"}, part{Name: "b"})
		as(&ud.Spec)
		g.make(t, ud)
		seen, err := g.Watch(t.Context(), &appsv1beta1.UnitedDeploymentList{}, client.InNamespace(g.Namespace))
		require.NoError(t, err)
		defer seen.Stop()
		for _, change := range []func(*appsv1beta1.UnitedDeploymentSpec){
			func(s *appsv1beta1.UnitedDeploymentSpec) { s.Replicas = ptr.To[int32](10) },
			func(s *appsv1beta1.UnitedDeploymentSpec) { s.UpdateStrategy.ManualUpdate.Partitions = partitions },
			func(s *appsv1beta1.UnitedDeploymentSpec) { s.Replicas = ptr.To[int32](6) },
		} {
			g.change(t, change)
			g.Await(t, rolledOut)
		}
		last := g.Object(t).ResourceVersion
		writes := map[int64]int{}
		for e := range seen.ResultChan() {
			ud := e.Object.(*object)
			writes[ud.Generation]++
			assert.GreaterOrEqual(t, ud.Status.UpdatedReplicas, int32(6))
			assert.GreaterOrEqual(t, ud.Status.UpdatedReadyReplicas, int32(6))
			for _, s := range ud.Status.SubsetStatuses {
				assert.GreaterOrEqual(t, s.UpdatedReplicas, int32(3), s.Name)
				assert.GreaterOrEqual(t, s.UpdatedReadyReplicas, int32(3), s.Name)
			}
			if ud.ResourceVersion == last {
				break
			}
		}
		t.Logf("writes of spec and status by generation: %v", writes)
	}
}

func testDeployment(t *testing.T, g *fixture) {
	t.Helper()
	ud := g.web(5, part{Name: "a", Replicas: new(intstr.FromInt32(2))}, part{Name: "b"})
	asDeployments(&ud.Spec)
	g.make(t, ud)
	require.Equal(t, map[string]int{"a": 2, "b": 3}, g.count(t, anything))
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
		s.Template.DeploymentTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
		s.Replicas = ptr.To[int32](6)
	})
	g.Await(t, rolledOut)
	g.awaitPods(t, image, map[string]int{"a app:2": 2, "b app:2": 4})
}

func testStatefulSet(t *testing.T, g *fixture) {
	t.Helper()
	ud := g.web(5, part{Name: "a", Replicas: new(intstr.FromInt32(2))}, part{Name: "b"})
	asStatefulSets(&ud.Spec)
	g.make(t, ud)
	require.Equal(t, corev1.RestartPolicyAlways, g.Object(t).Spec.Template.StatefulSetTemplate.Spec.Template.Spec.RestartPolicy)
	require.Equal(t, map[string]int{"a": 2, "b": 3}, g.count(t, anything))

	set := func(image string, partitions map[string]int32) {
		g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
			s.Template.StatefulSetTemplate.Spec.Template.Spec.Containers[0].Image = image
			s.UpdateStrategy.ManualUpdate.Partitions = partitions
		})
	}
	set("app:2", map[string]int32{"a": 2, "b": 2})
	g.awaitPods(t, image, map[string]int{"a app:1": 2, "b app:1": 2, "b app:2": 1})
	g.Await(t, func(ud *object) bool {
		return ud.Status.UpdatedReadyReplicas == 1 && ud.Status.AvailableReplicas == 5 && ud.Status.ObservedGeneration == ud.Generation
	})

	// A native StatefulSet never gets past a pod that does not start, not even with a fixed template. Here it does.
	set("app:bad", nil)
	g.Await(t, func(ud *object) bool { return ud.Status.AvailableReplicas == 3 })
	set("app:3", nil)
	g.Await(t, rolledOut)
	g.awaitPods(t, image, map[string]int{"a app:3": 2, "b app:3": 3})
}

func testAdvanced(t *testing.T, g *fixture) {
	t.Helper()
	ud := g.web(5, part{Name: "a", Replicas: new(intstr.FromInt32(2)), Ordinals: &appsv1beta1.SubsetOrdinals{Start: 0, End: new(int32(9))}},
		part{Name: "b", Ordinals: &appsv1beta1.SubsetOrdinals{Start: 10, End: new(int32(13))}})
	asAdvancedSets(&ud.Spec)
	ud.Spec.Template.AdvancedStatefulSetTemplate.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(11)}
	g.make(t, ud)
	index := func(p *corev1.Pod) string { return p.Labels[appsv1.PodIndexLabel] }
	at := map[string]int{"a 0": 1, "a 1": 1, "b 10": 1, "b 12": 1, "b 13": 1}
	g.awaitPods(t, index, at)
	began := clock.RealClock{}.Now()

	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
		s.Template.AdvancedStatefulSetTemplate.Spec.Template.Spec.Containers[0].Image = "app:2"
		s.UpdateStrategy.ManualUpdate.Partitions = map[string]int32{"a": 2, "b": 1}
	})
	g.awaitPods(t, func(p *corev1.Pod) string { return index(p) + " " + image(p) },
		map[string]int{"a 0 app:1": 1, "a 1 app:1": 1, "b 10 app:1": 1, "b 12 app:2": 1, "b 13 app:2": 1})
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.UpdateStrategy.ManualUpdate.Partitions = nil })
	g.Await(t, rolledOut)
	g.awaitPods(t, index, at)
	t.Logf("writes of the update in two steps: %v", g.Writes(t, began))

	// The range of b is full, and b does not use the range of another subset.
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.Replicas = ptr.To[int32](6) })
	g.Await(t, func(ud *object) bool {
		return slices.ContainsFunc(ud.Status.Conditions, func(c appsv1beta1.UnitedDeploymentCondition) bool {
			return c.Type == appsv1beta1.SubsetFailure && c.Status == corev1.ConditionTrue && strings.Contains(c.Message, "ordinals end at")
		})
	})
	g.awaitPods(t, index, at)
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.Topology.Subsets[0].Replicas = new(intstr.FromInt32(3)) })
	g.Await(t, rolledOut)
	g.awaitPods(t, index, map[string]int{"a 0": 1, "a 1": 1, "a 2": 1, "b 10": 1, "b 12": 1, "b 13": 1})
}

func testComeAndGo(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, g.web(4, part{Name: "a"}, part{Name: "b"}))
	g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.Topology.Subsets = []part{{Name: "b"}, {Name: "c"}} })
	g.Await(t, rolledOut)
	g.awaitPods(t, anything, map[string]int{"b": 2, "c": 2})
	require.Len(t, g.cloneSets(t), 2)

	// A second workload of a subset, as a crash between two writes could leave behind.
	duplicate := g.cloneSets(t)["b"].DeepCopyObject().(*appsv1beta1.CloneSet)
	name := duplicate.Name
	duplicate.Name, duplicate.ResourceVersion, duplicate.UID = "web-b-duplicate", "", ""
	require.NoError(t, g.Create(t.Context(), duplicate))
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(g.Get(t.Context(), client.ObjectKeyFromObject(duplicate), &appsv1beta1.CloneSet{}))
	}, testenv.Long, testenv.Poll)
	require.Equal(t, name, g.cloneSets(t)["b"].GetName())

	g.change(t, asDeployments)
	require.Eventually(t, func() bool { return len(g.cloneSets(t)) == 0 }, testenv.Long, testenv.Poll)
	g.Await(t, rolledOut)
	g.awaitPods(t, func(p *corev1.Pod) string { return p.OwnerReferences[0].Kind }, map[string]int{"b ReplicaSet": 2, "c ReplicaSet": 2})
}

func testWebhook(t *testing.T, g *fixture) {
	t.Helper()
	ud := g.web(1, part{Name: "a"})
	ud.Spec.Replicas, ud.Spec.UpdateStrategy.Type = nil, ""
	require.NoError(t, g.Create(t.Context(), ud))
	got := g.Await(t, rolledOut)
	require.Equal(t, int32(1), *got.Spec.Replicas)
	require.Equal(t, int32(10), *got.Spec.RevisionHistoryLimit)
	require.Equal(t, appsv1beta1.ManualUpdateStrategyType, got.Spec.UpdateStrategy.Type)
	require.NotNil(t, got.Spec.UpdateStrategy.ManualUpdate)

	for name, tt := range map[string]struct {
		change func(*object)
		want   string
	}{
		"a sum that exceeds replicas": {
			func(ud *object) {
				ud.Spec.Topology.Subsets = []part{{Name: "a", Replicas: new(intstr.FromInt32(9))}, {Name: "b"}}
			},
			"spec.topology.subsets: Invalid value: 9: subsets ask for 9 replicas, more than spec.replicas (4)",
		},
		"a percentage for which the schema has no message": {
			func(ud *object) {
				ud.Spec.Topology.Subsets = []part{{Name: "a", Replicas: new(intstr.FromString("150%"))}}
			},
			`spec.topology.subsets[0].replicas: Invalid value: "150%": must be a number, 0 or more, or a whole percentage from "0%" to "100%"`,
		},
		"a term with an unknown operator": {
			func(ud *object) {
				ud.Spec.Topology.Subsets = []part{{Name: "a", NodeSelectorTerm: &corev1.NodeSelectorTerm{
					MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: "Near"}},
				}}}
			},
			`spec.topology.subsets[0].nodeSelectorTerm.matchExpressions[0].operator: Invalid value`,
		},
		"a toleration with an unknown effect": {
			func(ud *object) {
				ud.Spec.Topology.Subsets = []part{{Name: "a", Tolerations: []corev1.Toleration{{Key: "spot", Operator: "Exists", Effect: "Maybe"}}}}
			},
			`spec.topology.subsets[0].tolerations[0].effect: Unsupported value`,
		},
		"a patch that makes pods invalid": {
			func(ud *object) {
				ud.Spec.Topology.Subsets = []part{{Name: "a", Patch: &runtime.RawExtension{Raw: []byte(`{"spec":{"containers":[{"name":"log"}]}}`)}}}
			},
			`spec.topology.subsets[0].patch.spec.containers[0].image: Required value`,
		},
		"a template that the selector doesn't match": {
			func(ud *object) {
				ud.Spec.Template.CloneSetTemplate.Spec.Template.Labels = map[string]string{"app": "shop"}
			},
			"spec.selector requires app=web",
		},
		"Adaptive with reserved pods of StatefulSets": {
			func(ud *object) {
				asStatefulSets(&ud.Spec)
				adapt(ud, 1, 1).ReserveUnschedulablePods = true
			},
			"spec.topology.scheduleStrategy.adaptive.reserveUnschedulablePods: Forbidden: pods of a StatefulSet",
		},
		"Adaptive with a negative time": {
			func(ud *object) { adapt(ud, -1, 1) },
			"spec.topology.scheduleStrategy.adaptive.rescheduleCriticalSeconds: Invalid value: -1",
		},
		"Adaptive with clusters": {
			func(ud *object) {
				adapt(ud, 1, 1)
				ud.Spec.Topology.Subsets = []part{{Name: "a", Cluster: "east"}}
			},
			"spec.topology.scheduleStrategy.type: Forbidden: Adaptive between clusters",
		},
	} {
		bad := g.web(4, part{Name: "a"})
		bad.Name = "bad"
		tt.change(bad)
		err := g.Create(t.Context(), bad)
		require.True(t, apierrors.IsInvalid(err), "%s: %v", name, err)
		require.ErrorContains(t, err, tt.want, name)
	}

	before := got.DeepCopy()
	got.Spec.Topology.Subsets[0].NodeSelectorTerm = zone("zone-b")
	require.ErrorContains(t, g.Patch(t.Context(), got, client.MergeFrom(before)), "spec.topology.subsets[0].nodeSelectorTerm: Forbidden: can't be changed while the subset exists")
}

// adapt sets the strategy Adaptive with these times, in seconds.
func adapt(ud *object, critical, closed int32) *appsv1beta1.AdaptiveScheduleStrategy {
	s := &appsv1beta1.AdaptiveScheduleStrategy{RescheduleCriticalSeconds: &critical, UnschedulableDuration: &closed}
	ud.Spec.Topology.ScheduleStrategy = appsv1beta1.UnitedDeploymentScheduleStrategy{Type: appsv1beta1.ScheduleAdaptive, Adaptive: s}
	return s
}

// testAdaptive: the nodes of subset a get their label late.
func testAdaptive(as func(*appsv1beta1.UnitedDeploymentSpec)) func(*testing.T, *fixture) {
	return func(t *testing.T, g *fixture) {
		t.Helper()
		schedulable := func(status corev1.ConditionStatus) func(*object) bool {
			return func(ud *object) bool {
				for _, s := range ud.Status.SubsetStatuses {
					for _, c := range s.Conditions {
						if s.Name == "a" && c.Type == appsv1beta1.SubsetSchedulable && c.Status == status {
							return true
						}
					}
				}
				return false
			}
		}
		label := g.Namespace + ".example/a"
		ud := g.web(3, part{Name: "a", NodeSelectorTerm: &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: label, Operator: corev1.NodeSelectorOpExists},
		}}}, part{Name: "b"})
		as(&ud.Spec)
		adapt(ud, 1, 3)
		require.NoError(t, g.Create(t.Context(), ud))
		g.Await(t, schedulable(corev1.ConditionFalse))
		g.Await(t, rolledOut)
		g.awaitPods(t, anything, map[string]int{"b": 3})
		moved := g.Pods(t)

		g.Await(t, schedulable(corev1.ConditionTrue))
		var nodes corev1.NodeList
		require.NoError(t, g.List(t.Context(), &nodes, client.MatchingLabels{corev1.LabelTopologyZone: "zone-a"}))
		require.NotEmpty(t, nodes.Items)
		set := func(value string) error {
			return g.Patch(t.Context(), nodes.Items[0].DeepCopy(),
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+label+`":`+value+`}}}`)))
		}
		require.NoError(t, set(`""`))
		g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) { s.Replicas = ptr.To[int32](5) })
		g.Await(t, rolledOut)
		g.awaitPods(t, anything, map[string]int{"a": 2, "b": 3})
		for name, p := range moved {
			require.Equal(t, p.UID, g.Pods(t)[name].UID, "what runs elsewhere stays there")
		}
		require.NoError(t, set("null"))
	}
}

// testReserved: the nodes of subset a get their label late.
func testReserved(as func(*appsv1beta1.UnitedDeploymentSpec)) func(*testing.T, *fixture) {
	return func(t *testing.T, g *fixture) {
		t.Helper()
		label := g.Namespace + ".example/a"
		ud := g.web(3, part{Name: "a", MaxReplicas: new(intstr.FromInt32(2)), NodeSelectorTerm: &corev1.NodeSelectorTerm{
			MatchExpressions: []corev1.NodeSelectorRequirement{{Key: label, Operator: corev1.NodeSelectorOpExists}},
		}}, part{Name: "b"})
		as(&ud.Spec)
		if d := ud.Spec.Template.DeploymentTemplate; d != nil { // Reserved pods are unavailable, so a rollout would wait for them.
			d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: new(intstr.FromString("100%"))}
		}
		adapt(ud, 1, 1).ReserveUnschedulablePods = true
		g.make(t, ud)
		got := g.Await(t, func(ud *object) bool { return ud.Status.ReservedPods == 2 && rolledOut(ud) })
		require.Equal(t, int32(2), got.Status.SubsetStatuses[0].ReservedPods)
		mark := func(p *corev1.Pod) string { return p.Labels[keys.SubsetReserved] }
		g.awaitPods(t, mark, map[string]int{"a true": 2, "b": 3})
		scale := &autoscalingv1.Scale{}
		require.NoError(t, g.SubResource("scale").Get(t.Context(), got, scale))
		selector, err := labels.Parse(scale.Status.Selector)
		require.NoError(t, err)
		var selected corev1.PodList
		require.NoError(t, g.List(t.Context(), &selected, client.InNamespace(g.Namespace), client.MatchingLabelsSelector{Selector: selector}))
		require.Len(t, selected.Items, int(scale.Status.Replicas), "an autoscaler averages over the pods that run")

		// A rollout replaces reserved pods too, and they stay reserved.
		seen, err := g.Watch(t.Context(), &appsv1beta1.UnitedDeploymentList{}, client.InNamespace(g.Namespace))
		require.NoError(t, err)
		defer seen.Stop()
		g.change(t, func(s *appsv1beta1.UnitedDeploymentSpec) {
			template, _ := united.TemplateOf(&s.Template)
			template.Pod.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "VERSION", Value: "2"}}
		})
		g.Await(t, rolledOut)
		g.awaitPods(t, mark, map[string]int{"a true": 2, "b": 3})
		last := g.Object(t).ResourceVersion
		for e := range seen.ResultChan() {
			ud := e.Object.(*object)
			for i, want := range []int32{2, 3} {
				assert.Equal(t, want, ud.Status.SubsetStatuses[i].Replicas)
			}
			if ud.ResourceVersion == last {
				break
			}
		}

		var nodes corev1.NodeList
		require.NoError(t, g.List(t.Context(), &nodes, client.MatchingLabels{corev1.LabelTopologyZone: "zone-a"}))
		set := func(value string) {
			require.NoError(t, g.Patch(t.Context(), nodes.Items[0].DeepCopy(),
				client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"`+label+`":`+value+`}}}`))))
		}
		set(`""`)
		g.awaitPods(t, mark, map[string]int{"a false": 2, "b": 1})
		g.Await(t, func(ud *object) bool { return ud.Status.ReservedPods == 0 && rolledOut(ud) })
		set("null")
		if ud.Spec.Template.CloneSetTemplate != nil {
			g.Rests(t)
		}
	}
}

func testFederated(t *testing.T, g *fixture) {
	t.Helper()
	began := clock.RealClock{}.Now()
	require.NoError(t, g.Create(t.Context(), g.web(2, part{Name: "a", Cluster: "east"})))
	require.Never(t, func() bool { return len(g.Writes(t, began)) > 0 }, 3*time.Second, testenv.Poll)
	require.Empty(t, g.cloneSets(t))
	require.Empty(t, g.Object(t).Status.Conditions)
}

func testDrift(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, g.web(2, part{Name: "a"}))
	set := g.cloneSets(t)["a"]
	require.NoError(t, g.Patch(t.Context(), set, client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"team":"shop"}},"spec":{"replicas":5,"minReadySeconds":1}}`))))
	require.Eventually(t, func() bool {
		return *g.cloneSets(t)["a"].(*appsv1beta1.CloneSet).Spec.Replicas == 2
	}, testenv.Long, testenv.Poll)
	got := g.cloneSets(t)["a"].(*appsv1beta1.CloneSet)
	require.Equal(t, "shop", got.Labels["team"], "what is not in the template is left alone")
	g.Await(t, rolledOut)

	// A workload that a user deletes is re-created.
	require.NoError(t, g.Delete(t.Context(), got))
	require.Eventually(t, func() bool {
		again := g.cloneSets(t)["a"]
		return again != nil && again.GetUID() != got.UID
	}, testenv.Long, testenv.Poll)
	g.Await(t, rolledOut)
}
