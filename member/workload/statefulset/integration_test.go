//go:build integration

package statefulset

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/testenv"
	"github.com/flotilla-io/flotilla/testkit/webhooktest"
)

const agent = "statefulset-under-test"

// TestMain lets the package's tests share a cluster.
func TestMain(m *testing.M) { testenv.Main(m) }

// fixture is the namespace of one test, with one StatefulSet.
type fixture struct {
	*testenv.Fixture[*appsv1beta1.StatefulSet]
}

// create creates the set in the test's namespace.
func (g *fixture) create(t *testing.T, b *testkit.StatefulSetBuilder) {
	t.Helper()
	set := b.Obj()
	set.Namespace, set.UID, set.ResourceVersion = g.Namespace, "", ""
	require.NoError(t, g.Create(t.Context(), set))
}

// awaitRollout waits until all pods of the set are updated and available.
func (g *fixture) awaitRollout(t *testing.T) *appsv1beta1.StatefulSet {
	t.Helper()
	return g.Await(t, func(s *appsv1beta1.StatefulSet) bool {
		return s.Status.ObservedGeneration == s.Generation && s.Status.Replicas == *s.Spec.Replicas &&
			s.Status.UpdatedAvailableReplicas == *s.Spec.Replicas && s.Status.CurrentRevision == s.Status.UpdateRevision
	})
}

func (g *fixture) names(t *testing.T) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(g.Pods(t)))
}

// pvcs returns the PVCs that are not terminating, with their owners' kinds.
func (g *fixture) pvcs(t *testing.T) map[string]string {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	require.NoError(t, g.List(t.Context(), &list, client.InNamespace(g.Namespace)))
	out := map[string]string{}
	for i := range list.Items {
		if c := &list.Items[i]; c.DeletionTimestamp == nil {
			out[c.Name] = "none"
			for _, ref := range c.OwnerReferences {
				out[c.Name] = ref.Kind
			}
		}
	}
	return out
}

func TestInCluster(t *testing.T) {
	t.Parallel()
	s := testenv.Start(t, testenv.Config{Scheme: appsv1beta1.AddToScheme})
	s.Run(t, agent, Kind(), func(mgr ctrl.Manager) {
		edits := inplace.Options{}
		require.NoError(t, Setup(t.Context(), mgr, Options{Options: podcontrol.Options{Options: control.Options{Clock: clock.RealClock{}}, InPlace: edits}, Gates: on()}))
		hook := &Webhook{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Gates: on(), InPlace: edits}
		require.NoError(t, admit.Register(mgr, admit.Registration[*appsv1beta1.StatefulSet]{
			Object: &appsv1beta1.StatefulSet{}, Defaulter: hook, Validator: hook,
		}))
	})
	for name, test := range map[string]func(*testing.T, *fixture){
		"a pod takes one write, an in-place update three, and nothing is written after": testWrites,
		"pods are created, updated and deleted in order":                                testOrder,
		"PVCs are kept or deleted with their pod by the policy":                         testPVCs,
		"a set of Kubernetes is taken over without a restart":                           testMove,
		"returning to Kubernetes restarts no pod":                                       testReturn,
		"examples are accepted, refused or warned about as their comments say":          testExamples,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, &fixture{testenv.New(t, s, agent, &appsv1beta1.StatefulSet{})})
		})
	}
}

func testExamples(t *testing.T, g *fixture) {
	t.Helper()
	webhooktest.DryRun(t, g, g.Namespace, examples, "statefulset")
}

func testWrites(t *testing.T, g *fixture) {
	t.Helper()
	began := clock.RealClock{}.Now()
	g.create(t, web(10).Parallel("50%"))
	g.awaitRollout(t)
	g.PodWrites(t, began, map[string]int{"create pods": 10})
	t.Logf("all writes of the creation: %v", g.Writes(t, began))

	g.Change(t, func(s *appsv1beta1.StatefulSet) { // The gate re-creates pods, with two writes each.
		s.Spec = web(10).Parallel("50%").InPlace().Image("app:2").Obj().Spec
	})
	g.awaitRollout(t)
	before := g.Pods(t)
	began = clock.RealClock{}.Now()
	g.Change(t, func(s *appsv1beta1.StatefulSet) { image("app:3")(&s.Spec) })
	g.awaitRollout(t)
	g.PodWrites(t, began, map[string]int{"patch pods": 10, "patch pods/status": 20})
	for name, p := range g.Pods(t) {
		require.Equal(t, before[name].UID, p.UID, "no pod was re-created")
	}
	g.Rests(t)
}

func testOrder(t *testing.T, g *fixture) {
	t.Helper()
	g.create(t, web(3).Reserve("1"))
	g.awaitRollout(t)
	pods := g.Pods(t)
	require.Equal(t, []string{"web-0", "web-2", "web-3"}, g.names(t))
	for _, pair := range [][2]string{{"web-0", "web-2"}, {"web-2", "web-3"}} {
		require.False(t, pods[pair[1]].CreationTimestamp.Time.Before(readyAt(pods[pair[0]]).Truncate(time.Second)), "%v", pair)
	}
	g.Change(t, func(s *appsv1beta1.StatefulSet) {
		s.Spec.Template.Spec.Containers[0].Command = []string{"serve"}
		partition(1)(&s.Spec)
	})
	g.Await(t, func(s *appsv1beta1.StatefulSet) bool {
		return s.Status.UpdatedAvailableReplicas == 2 && s.Status.AvailableReplicas == 3
	})
	require.Equal(t, pods["web-0"].UID, g.Pods(t)["web-0"].UID, "the lowest ordinal stays old")
	g.Change(t, func(s *appsv1beta1.StatefulSet) { partition(0)(&s.Spec) })
	g.awaitRollout(t)
	g.Change(t, func(s *appsv1beta1.StatefulSet) { scale(1)(&s.Spec) })
	g.awaitRollout(t)
	require.Equal(t, []string{"web-0"}, g.names(t))
}

func readyAt(p *corev1.Pod) time.Time {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.LastTransitionTime.Time
		}
	}
	return time.Time{}
}

// volumes creates static volumes, because there is no provisioner.
func (g *fixture) volumes(t *testing.T, n int, set *appsv1beta1.StatefulSet) {
	t.Helper()
	set.Spec.VolumeClaimTemplates[0].Spec.StorageClassName = new(g.Namespace)
	for i := range n {
		v := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: g.Namespace + "-" + string(rune('a'+i))}}
		v.Spec = corev1.PersistentVolumeSpec{
			StorageClassName: g.Namespace, AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Capacity:               corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
		}
		require.NoError(t, g.Create(t.Context(), v))
	}
}

func testPVCs(t *testing.T, g *fixture) {
	t.Helper()
	b := web(3).Parallel("1").PVCs("data").Keep(appsv1.DeletePersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType)
	g.volumes(t, 5, b.Obj())
	g.create(t, b)
	g.awaitRollout(t)
	require.Equal(t, map[string]string{"data-web-0": "StatefulSet", "data-web-1": "StatefulSet", "data-web-2": "StatefulSet"}, g.pvcs(t))
	g.Change(t, func(s *appsv1beta1.StatefulSet) { scale(2)(&s.Spec) })
	g.awaitRollout(t)
	require.Eventually(t, func() bool { return len(g.pvcs(t)) == 2 }, testenv.Long, testenv.Poll, "the PVC is deleted with its pod")

	// If a user deletes the PVC of a pod, the pod continues, even while pods are changed, until it is deleted as well. Then both are re-created.
	lost := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "data-web-1"}}
	require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(lost), lost))
	uid, pod := lost.UID, g.Pods(t)["web-1"]
	require.NoError(t, g.Delete(t.Context(), lost))
	g.Change(t, func(s *appsv1beta1.StatefulSet) { scale(3)(&s.Spec) })
	g.awaitRollout(t)
	require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(lost), lost))
	require.NotNil(t, lost.DeletionTimestamp)
	require.Equal(t, pod.UID, g.Pods(t)["web-1"].UID, "its data can be saved")
	require.NoError(t, g.Delete(t.Context(), pod))
	require.Eventually(t, func() bool {
		live := &corev1.PersistentVolumeClaim{}
		return g.Get(t.Context(), client.ObjectKeyFromObject(lost), live) == nil && live.UID != uid && live.Status.Phase == corev1.ClaimBound
	}, testenv.Long, testenv.Poll)
	g.awaitRollout(t)

	require.NoError(t, g.Delete(t.Context(), g.Object(t)))
	require.Eventually(t, func() bool { return len(g.pvcs(t)) == 0 && len(g.Pods(t)) == 0 }, testenv.Long, testenv.Poll)
}

func testMove(t *testing.T, g *fixture) {
	t.Helper()
	b := web(3).PVCs("data")
	g.volumes(t, 3, b.Obj())
	spec := &b.Obj().Spec
	native := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "web"}, Spec: appsv1.StatefulSetSpec{
		Replicas: spec.Replicas, Selector: spec.Selector, Template: *spec.Template.DeepCopy(), ServiceName: spec.ServiceName,
		VolumeClaimTemplates: slices.Clone(spec.VolumeClaimTemplates),
	}}
	require.NoError(t, g.Create(t.Context(), native))
	require.Eventually(t, func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(native), native))
		return native.Status.AvailableReplicas == 3
	}, testenv.Long, testenv.Poll)
	before := g.Pods(t)
	require.NoError(t, g.Delete(t.Context(), native, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	g.orphans(t, native.DeepCopy())

	g.create(t, b)
	set := g.awaitRollout(t)
	require.Equal(t, native.Status.UpdateRevision, set.Status.UpdateRevision, "the revision keeps its name")
	for name, p := range g.Pods(t) {
		require.Equal(t, before[name].UID, p.UID)
		require.Equal(t, set.UID, metav1.GetControllerOf(p).UID)
		require.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	}
	require.Equal(t, map[string]string{"data-web-0": "none", "data-web-1": "none", "data-web-2": "none"}, g.pvcs(t))
	g.Rests(t)
	g.Change(t, func(s *appsv1beta1.StatefulSet) { image("app:2")(&s.Spec) })
	g.awaitRollout(t)
	require.Equal(t, []string{"web-0", "web-1", "web-2"}, g.names(t))
}

// testReturn follows the way back to Kubernetes in docs/kinds/statefulset.md.
func testReturn(t *testing.T, g *fixture) {
	t.Helper()
	const deleted = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	b := web(2).Parallel("2").InPlace().PVCs("data").Keep(deleted, deleted)
	g.volumes(t, 2, b.Obj())
	g.create(t, b)
	g.awaitRollout(t)

	// First the readiness gate is removed.
	g.Change(t, func(s *appsv1beta1.StatefulSet) {
		s.Spec.Template.Spec.ReadinessGates = nil
		s.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = appsv1beta1.PodReCreate
	})
	set := g.awaitRollout(t)
	before := g.Pods(t)

	// Step 1.
	require.NoError(t, g.Delete(t.Context(), set, client.PropagationPolicy(metav1.DeletePropagationOrphan)))
	g.orphans(t, set.DeepCopy())

	// Step 2.
	spec := &set.Spec
	native := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: set.Name}, Spec: appsv1.StatefulSetSpec{
		Replicas: spec.Replicas, Selector: spec.Selector, Template: spec.Template, ServiceName: spec.ServiceName,
		VolumeClaimTemplates: spec.VolumeClaimTemplates, PodManagementPolicy: spec.PodManagementPolicy,
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: deleted, WhenScaled: deleted,
		},
	}}
	require.NoError(t, g.Create(t.Context(), native))
	rests := func() bool {
		require.NoError(t, g.Get(t.Context(), client.ObjectKeyFromObject(native), native))
		s := &native.Status
		return s.ObservedGeneration == native.Generation && s.UpdatedReplicas == 2 && s.AvailableReplicas == 2 &&
			s.CurrentRevision == s.UpdateRevision
	}
	require.Eventually(t, rests, testenv.Long, testenv.Poll)
	require.Equal(t, set.Status.UpdateRevision, native.Status.UpdateRevision, "the revision keeps its name")
	pods := g.Pods(t)
	require.Len(t, pods, 2)
	for name, p := range pods {
		require.Equal(t, before[name].UID, p.UID)
		require.Equal(t, native.UID, metav1.GetControllerOf(p).UID)
		require.Zero(t, p.Status.ContainerStatuses[0].RestartCount)
	}
	require.Eventually(t, func() bool {
		return maps.Equal(g.pvcs(t), map[string]string{"data-web-0": "StatefulSet", "data-web-1": "StatefulSet"})
	}, testenv.Long, testenv.Poll)

	older := native.DeepCopy()
	native.Spec.Template.Spec.Containers[0].Image = "app:2"
	require.NoError(t, g.Patch(t.Context(), native, client.MergeFrom(older)))
	require.Eventually(t, rests, testenv.Long, testenv.Poll, "new pods become available")
}

// orphans waits until a StatefulSet of any kind is gone and its pods have no owner.
func (g *fixture) orphans(t *testing.T, set client.Object) {
	t.Helper()
	require.Eventually(t, func() bool {
		return apierrors.IsNotFound(g.Get(t.Context(), client.ObjectKeyFromObject(set), set)) &&
			!slices.ContainsFunc(slices.Collect(maps.Values(g.Pods(t))), func(p *corev1.Pod) bool { return len(p.OwnerReferences) > 0 })
	}, testenv.Long, testenv.Poll)
}
