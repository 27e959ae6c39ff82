//go:build integration

package cloneset

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
)

const agent = "cloneset-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with one CloneSet.
type fixture struct {
	*testenv.Fixture[*appsv1beta1.CloneSet]
}

func newFixture(t *testing.T, s *testenv.Env) *fixture {
	t.Helper()
	return &fixture{testenv.New(t, s, agent, &appsv1beta1.CloneSet{})}
}

// begin returns a part of the shared cluster for a manager.
func begin(t *testing.T) *testenv.Env {
	t.Helper()
	return testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
}

// manage starts the controller and its webhook, in this process.
func manage(t *testing.T, s *testenv.Env, o Options) {
	t.Helper()
	s.Run(t, agent, Kind(), func(mgr ctrl.Manager) {
		o.Clock = clock.RealClock{}
		require.NoError(t, Setup(t.Context(), mgr, o))
		hook := &Webhook{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), InPlace: o.InPlace}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.CloneSet]{
			Object: &appsv1beta1.CloneSet{}, Defaulter: hook, Validator: hook,
		}))
	})
}

// make creates the set in the test's namespace and waits until all its pods are available.
func (g *fixture) make(t *testing.T, b *testkit.CloneSetBuilder) {
	t.Helper()
	set := b.Obj()
	set.Namespace, set.UID, set.ResourceVersion = g.Namespace, "", ""
	require.NoError(t, g.Create(t.Context(), set))
	g.Await(t, func(s *appsv1beta1.CloneSet) bool { return rolledOut(s) })
}

// rolledOut reports whether the status reflects this spec and all pods are updated and available.
func rolledOut(s *appsv1beta1.CloneSet) bool {
	want := ptr.Deref(s.Spec.Replicas, 0)
	return s.Status.ObservedGeneration == s.Generation && s.Status.Replicas == want &&
		s.Status.UpdatedAvailableReplicas == want && s.Status.CurrentRevision == s.Status.UpdateRevision
}

func (g *fixture) change(t *testing.T, change func(*appsv1beta1.CloneSetSpec)) {
	t.Helper()
	g.Change(t, func(set *appsv1beta1.CloneSet) { change(&set.Spec) })
}

func (g *fixture) pvcs(t *testing.T) []string {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	require.NoError(t, g.List(t.Context(), &list, client.InNamespace(g.Namespace)))
	var out []string
	for i := range list.Items {
		if list.Items[i].DeletionTimestamp == nil {
			out = append(out, list.Items[i].Name)
		}
	}
	return out
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := begin(t)
	manage(t, s, Options{})
	for name, test := range map[string]func(*testing.T, *fixture){
		"creation takes two writes for each pod, an in-place update three, and nothing is written after": testWrites,
		"a partition is kept":                                         testPartition,
		"a ReCreate stays within budget and surge":                    testReCreate,
		"a bad image exhausts the budget and blocks no rollback":      testBadImage,
		"a minimal object is defaulted and an invalid one refused":    testWebhook,
		"a wrong type is refused by the name of its field":            testWrongType,
		"pods in podsToDelete are replaced and the list is truncated": testPodsToDelete,
		"a PVC is reused by the pod that replaces a lost one":         testReuse,
		"without reuse a PVC is deleted with its pod":                 testNoReuse,
		"pods at the old revision have its claims":                    testClaimsOfARevision,
		"a pod that lost its labels is released":                      testRelease,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newFixture(t, s))
		})
	}
}

func testWrites(t *testing.T, g *fixture) {
	t.Helper()
	began := clock.RealClock{}.Now()
	g.make(t, web(10).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "50%", "0"))
	g.PodWrites(t, began, map[string]int{"create pods": 10, "patch pods/status": 10})
	t.Logf("all writes of the creation: %v", g.Writes(t, began))

	before := g.Pods(t)
	began = clock.RealClock{}.Now()
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	g.Await(t, rolledOut)
	g.PodWrites(t, began, map[string]int{"patch pods": 10, "patch pods/status": 20})
	t.Logf("all writes of the update in place: %v", g.Writes(t, began))
	for name, p := range g.Pods(t) {
		require.Equal(t, before[name].UID, p.UID, "no pod was re-created")
		require.Equal(t, int32(1), p.Status.ContainerStatuses[0].RestartCount)
		require.Equal(t, "app:2", p.Status.ContainerStatuses[0].Image)
		require.Equal(t, "Normal", p.Labels[keys.LifecycleState])
		require.Contains(t, p.Annotations, keys.InPlaceUpdateState)
	}

	// A rollback to the first template makes its revision the newest instead of creating a third.
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:1" })
	g.Await(t, rolledOut)
	var history appsv1.ControllerRevisionList
	require.NoError(t, g.List(t.Context(), &history, client.InNamespace(g.Namespace)))
	require.Len(t, history.Items, 2)

	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Replicas = ptr.To[int32](4) })
	g.Await(t, rolledOut)
	require.Eventually(t, func() bool { return len(g.Pods(t)) == 4 }, testenv.Long, testenv.Poll)

	g.Rests(t)
}

func testPartition(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(4).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("3", "50%", "0"))
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:2" })
	set := g.Await(t, func(s *appsv1beta1.CloneSet) bool { return s.Status.UpdatedAvailableReplicas == 1 })
	require.NotEqual(t, set.Status.UpdateRevision, set.Status.CurrentRevision)
	require.Equal(t, int32(1), set.Status.ExpectedUpdatedReplicas)
	// A scale-out keeps the partition: one more pod is updated, three stay old.
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Replicas = ptr.To[int32](5) })
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return s.Status.AvailableReplicas == 5 && s.Status.UpdatedAvailableReplicas == 2
	})
}

func testReCreate(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(6).Rolling("0", "1", "2"))
	before := g.Pods(t)
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Command = []string{"serve"} })
	most, least := 0, len(before)
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		pods := g.Pods(t)
		available := 0
		for _, p := range pods {
			if slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
				return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
			}) {
				available++
			}
		}
		most, least = max(most, len(pods)), min(least, available)
		return rolledOut(s)
	})
	require.LessOrEqual(t, most, 8, "want 6, surge 2")
	require.GreaterOrEqual(t, least, 5, "want 6, budget 1")
	for name := range g.Pods(t) {
		require.NotContains(t, before, name)
	}
}

func testBadImage(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(4).Policy(appsv1beta1.PodInPlaceOnly).Rolling("0", "1", "0"))
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:bad" })
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return s.Status.UpdatedReplicas == 1 && s.Status.AvailableReplicas == 3
	})
	require.Never(t, func() bool { return g.Object(t).Status.AvailableReplicas < 3 }, 3*time.Second, testenv.Poll)
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = "app:1" })
	g.Await(t, rolledOut)
}

func testWebhook(t *testing.T, g *fixture) {
	t.Helper()
	set := &appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "web"}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "app", Image: "app:1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
	}}

	err := g.Create(t.Context(), set.DeepCopy())
	require.ErrorContains(t, err, `spec.template.spec.containers[0].volumeMounts[0].name: Not found: "data"`)
	set.Spec.VolumeClaimTemplates = testkit.CloneSet("web").PVCs("data").Obj().Spec.VolumeClaimTemplates
	require.ErrorContains(t, g.Create(t.Context(), set.DeepCopy()), "spec.volumeClaimTemplates[0].spec.resources.requests[storage]: Required value")
	set.Spec.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	bad := set.DeepCopy()
	bad.Spec.MinReadySeconds, bad.Spec.ProgressDeadlineSeconds = 60, ptr.To[int32](60)
	require.ErrorContains(t, g.Create(t.Context(), bad), "spec.progressDeadlineSeconds: Invalid value: 60: must be greater than minReadySeconds (60)")
	set.Spec.Replicas = ptr.To[int32](0)
	require.NoError(t, g.Create(t.Context(), set))

	got := g.Await(t, rolledOut)
	require.Equal(t, int32(10), *got.Spec.RevisionHistoryLimit)
	require.Equal(t, "20%", got.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable.String())
	require.Equal(t, corev1.RestartPolicyAlways, got.Spec.Template.Spec.RestartPolicy)
	require.Equal(t, corev1.PullAlways, got.Spec.Template.Spec.Containers[0].ImagePullPolicy, "as in OpenKruise")
	require.Equal(t, corev1.PersistentVolumeFilesystem, *got.Spec.VolumeClaimTemplates[0].Spec.VolumeMode)
	require.Empty(t, got.Spec.Template.Spec.Volumes)

	// A scale does not change the template, and thus not the revision.
	generation := got.Status.UpdateRevision
	require.NoError(t, g.Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minReadySeconds":1}}`))))
	require.Equal(t, generation, g.Await(t, rolledOut).Status.UpdateRevision)

	err = g.Patch(t.Context(), got, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"scaleStrategy":{"podsToDelete":["web-none"]}}}`)))
	require.ErrorContains(t, err, `"web-none": there is no such pod`)
}

func testPodsToDelete(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(3))
	before := g.Pods(t)
	var named, labelled string
	for name, p := range before {
		if named == "" {
			named = name
		} else if labelled == "" {
			labelled = name
			require.NoError(t, g.Patch(t.Context(), p, client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{%q:"true"}}}`, keys.SpecifiedDelete))))
		}
	}
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.ScaleStrategy.PodsToDelete = []string{named} })
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		pods := g.Pods(t) // The status may still count them.
		return len(s.Spec.ScaleStrategy.PodsToDelete) == 0 && rolledOut(s) && len(pods) == 3 && pods[named] == nil && pods[labelled] == nil
	})
}

// volumes creates static volumes, because there is no provisioner.
func (g *fixture) volumes(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", g.Namespace, i)}}
		v.Spec = corev1.PersistentVolumeSpec{
			StorageClassName: g.Namespace,
			AccessModes:      []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:         corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{
				HostPath: &corev1.HostPathVolumeSource{Path: "/data"},
			},
		}
		require.NoError(t, g.Create(t.Context(), v))
	}
}

func (g *fixture) withPVCs(b *testkit.CloneSetBuilder) *testkit.CloneSetBuilder {
	return b.PVCs("data").Spec(func(s *appsv1beta1.CloneSetSpec) {
		spec := &s.VolumeClaimTemplates[0].Spec
		spec.StorageClassName = new(g.Namespace)
		spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	})
}

// evict deletes one pod, like an eviction would, and returns it.
func (g *fixture) evict(t *testing.T) *corev1.Pod {
	t.Helper()
	for _, p := range g.Pods(t) {
		require.NoError(t, g.Delete(t.Context(), p))
		return p
	}
	require.Fail(t, "no pod")
	return nil
}

func testReuse(t *testing.T, g *fixture) {
	t.Helper()
	g.volumes(t, 3)
	g.make(t, g.withPVCs(web(2)).Reuse())
	before := g.pvcs(t)
	require.Len(t, before, 2)
	lost := g.evict(t)
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		p := g.Pods(t)[lost.Name]
		return rolledOut(s) && p != nil && p.UID != lost.UID
	})
	require.ElementsMatch(t, before, g.pvcs(t), "the same PVCs, no other")

	// A scale-in deletes the PVC as well.
	g.change(t, func(s *appsv1beta1.CloneSetSpec) { s.Replicas = ptr.To[int32](1) })
	g.Await(t, rolledOut)
	require.Eventually(t, func() bool { return len(g.pvcs(t)) == 1 }, testenv.Long, testenv.Poll)
}

func testNoReuse(t *testing.T, g *fixture) {
	t.Helper()
	g.volumes(t, 4)
	g.make(t, g.withPVCs(web(2)))
	before := g.pvcs(t)
	lost := g.evict(t)
	g.Await(t, func(s *appsv1beta1.CloneSet) bool { return rolledOut(s) && g.Pods(t)[lost.Name] == nil })
	require.Eventually(t, func() bool {
		after := g.pvcs(t)
		return len(after) == 2 && !slices.Contains(after, "data-"+lost.Name) && slices.Contains(before, "data-"+lost.Name)
	}, testenv.Long, testenv.Poll)
}

func testWrongType(t *testing.T, g *fixture) {
	t.Helper()
	for field, value := range map[string]any{
		"replicas": "three", "scaleStrategy": map[string]any{"maxUnavailable": true}, "updateStrategy": "RollingUpdate",
	} {
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": map[string]any{"name": "wrong", "namespace": g.Namespace},
			"spec": map[string]any{
				"selector": map[string]any{"matchLabels": map[string]any{"app": "web"}},
				"template": map[string]any{
					"metadata": map[string]any{"labels": map[string]any{"app": "web"}},
					"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "app:1"}}},
				},
				field: value,
			},
		}}
		err := g.Create(t.Context(), o)
		require.True(t, apierrors.IsInvalid(err), "%v", err)
		require.ErrorContains(t, err, "spec."+field)
	}
}

// kruise#1872: a claim template and its mount are removed, and more pods are wanted, all at the old revision.
func testClaimsOfARevision(t *testing.T, g *fixture) {
	t.Helper()
	g.volumes(t, 8)
	both := g.withPVCs(web(2).Rolling("0", "1", "0").Spec(mounts("data", "logs"))).Spec(func(s *appsv1beta1.CloneSetSpec) {
		logs := s.VolumeClaimTemplates[0].DeepCopy()
		logs.Name = "logs"
		s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, *logs)
	})
	g.make(t, both)
	g.change(t, func(s *appsv1beta1.CloneSetSpec) {
		s.Replicas, s.UpdateStrategy.RollingUpdate.Partition = ptr.To[int32](4), new(intstr.FromInt32(4))
		s.Template.Spec.Containers[0].Image = "app:2"
		s.Template.Spec.Containers[0].VolumeMounts = s.Template.Spec.Containers[0].VolumeMounts[:1]
		s.VolumeClaimTemplates = s.VolumeClaimTemplates[:1]
	})
	g.Await(t, func(s *appsv1beta1.CloneSet) bool {
		return s.Status.AvailableReplicas == 4 && s.Status.UpdatedReplicas == 0
	})
	for name, p := range g.Pods(t) {
		require.Contains(t, g.pvcs(t), "logs-"+name)
		require.Equal(t, "app:1", p.Spec.Containers[0].Image)
	}
}

func testRelease(t *testing.T, g *fixture) {
	t.Helper()
	g.make(t, web(2))
	var free *corev1.Pod
	for _, free = range g.Pods(t) {
		break
	}
	require.NoError(t, g.Patch(t.Context(), free, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"app":"mine"}}}`))))
	g.Await(t, func(s *appsv1beta1.CloneSet) bool { return rolledOut(s) && len(g.Pods(t)) == 3 })
	require.Nil(t, metav1.GetControllerOf(g.Pods(t)[free.Name]))
}
