package statefulset

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

func web(n int32) *testkit.StatefulSetBuilder { return testkit.StatefulSet("web").Replicas(n) }

func resizeTemplates(s *appsv1beta1.StatefulSetSpec, size string) {
	for i := range s.VolumeClaimTemplates {
		s.VolumeClaimTemplates[i].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
	}
}

// held returns a set with hooks on the label hold=yes, which its pods are created with.
func held(b *testkit.StatefulSetBuilder) *testkit.StatefulSetBuilder {
	hook := func() *pods.LifecycleHook {
		return &pods.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}
	}
	return b.InPlace().Spec(func(s *appsv1beta1.StatefulSetSpec) {
		s.Lifecycle = &pods.Lifecycle{InPlaceUpdate: hook(), PreDelete: hook()}
		s.Template.Labels["hold"] = "yes"
	})
}

// prioritizeFirstTier gives priority to pods of tier first.
func prioritizeFirstTier(s *appsv1beta1.StatefulSetSpec) {
	s.UpdateStrategy.RollingUpdate.UnorderedUpdate = &appsv1beta1.StatefulSetUnorderedUpdate{
		PriorityStrategy: &pods.UpdatePriorityStrategy{WeightPriority: []pods.UpdatePriorityWeightTerm{{
			Weight: 100, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "first"}},
		}}},
	}
}

func named(pod string, when func(*sim.World) bool) sim.Edit {
	return onPod("label "+pod+" for deletion", when, pod, func(p *corev1.Pod) { p.Labels[keys.SpecifiedDelete] = "true" })
}

func remove(o client.Object, when func(*sim.World) bool) sim.Edit {
	return sim.Edit{Name: "delete " + o.GetName(), When: when, Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, o))
	}}
}

func pvcNamed(name string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: key.Namespace}}
}

// allPVCs reports whether the line of each PVC contains a text.
func allPVCs(text string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		return !slices.ContainsFunc(sim.All[*corev1.PersistentVolumeClaim](w), func(c *corev1.PersistentVolumeClaim) bool {
			return !strings.Contains(pvcLine(c), text)
		})
	}
}

// scenarios returns scenarios that are played in the simulator; some are written to golden files.
func scenarios(t *testing.T) []sim.Scenario {
	t.Helper()
	const retain, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	reserve := func(o ...intstr.IntOrString) func(*appsv1beta1.StatefulSetSpec) {
		return func(s *appsv1beta1.StatefulSetSpec) { s.ReserveOrdinals = o }
	}
	return []sim.Scenario{
		scenario("scale out and in one by one", web(3), edit("scale to 4", nil, scale(4)), edit("scale to 1", nil, scale(1))),
		scenario("scale out and in at once", web(3).Parallel("1").Spec(func(s *appsv1beta1.StatefulSetSpec) {
			s.ScaleStrategy = &appsv1beta1.StatefulSetScaleStrategy{MaxUnavailable: new(intstr.FromInt32(2))}
		}), edit("scale to 6", nil, scale(6)), edit("scale to 2", nil, scale(2))),
		scenario("reserved ordinals", web(3).Reserve("1"),
			edit("reserve 0 and 2 to 3", nil, reserve(intstr.FromInt32(0), intstr.FromString("2-3"))),
			edit("from 2 on", nil, func(s *appsv1beta1.StatefulSetSpec) { s.Ordinals = &appsv1.StatefulSetOrdinals{Start: 2} }),
			edit("reserve none", nil, reserve())),
		scenario("re-created in order", web(3), edit("a new image", nil, image("app:2")), edit("back", someUpdated(1), image("app:1"))),
		scenario("in place with partition", web(4).InPlace().Partition(2),
			edit("a new image", nil, image("app:2")), edit("scale to 5", nil, scale(5)), edit("partition 0", nil, partition(0))),
		scenario("re-created with partition", web(3).Parallel("2").Partition(1),
			edit("a new image", allAvailable(3, "app:1"), image("app:2")), named("web-0", nil), sim.LoseNode("node-1", nil)),
		scenario("in place several at a time", web(5).Parallel("2").InPlace(),
			edit("a new image", nil, image("app:2")), edit("back", someUpdated(2), image("app:1"))),
		scenario("hooks", held(web(3)), edit("a new image", nil, image("app:2")), edit("scale to 2", nil, scale(2)), named("web-0", nil)),
		scenario("hooks and back", held(web(3).Parallel("2")),
			edit("a new image", nil, image("app:2")), edit("back", someUpdated(1), image("app:1"))),
		scenario("paused", web(4).Parallel("1").InPlace(), edit("a new image", nil, image("app:2")),
			edit("pause", someUpdated(1), paused(true)), edit("scale to 5", nil, scale(5)), named("web-0", nil), edit("resume", nil, paused(false))),
		scenario("time until available", web(3).Spec(func(s *appsv1beta1.StatefulSetSpec) {
			s.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(3))
		}), edit("a new image", nil, image("app:2")), edit("scale to 2", nil, scale(2))),
		scenario("a longer time until available comes with the image", web(3).Parallel("1"),
			edit("a new image", nil, func(s *appsv1beta1.StatefulSetSpec) {
				image("app:2")(s)
				s.UpdateStrategy.RollingUpdate.MinReadySeconds = new(int32(3))
			})),
		scenario("priority", web(4).Parallel("1").InPlace().Partition(2).Spec(prioritizeFirstTier),
			onPod("one pod goes first", allAvailable(4, "app:1"), "web-0", func(p *corev1.Pod) { p.Labels["tier"] = "first" }),
			edit("a new image", nil, image("app:2"))),
		scenario("on delete", web(3).Spec(func(s *appsv1beta1.StatefulSetSpec) {
			s.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}), edit("a new image", allAvailable(3, "app:1"), image("app:2")), named("web-1", nil)),
		scenario("PVCs are kept", web(3).Parallel("1").PVCs("data"), sim.LoseNode("node-1", allAvailable(3, "app:1")),
			sim.EndPods("node-2", nil), edit("scale to 1", allAvailable(3, "app:1"), scale(1)), edit("scale to 2", nil, scale(2))),
		scenario("PVCs are deleted with pods", web(3).PVCs("data", "logs").Keep(retain, drop),
			edit("scale to 1", allAvailable(3, "app:1"), scale(1)), edit("scale to 3", nil, scale(3)), edit("reserve 1", nil, reserve(intstr.FromInt32(1)))),
		scenario("PVCs are deleted with the set", web(2).PVCs("data").Keep(drop, drop),
			edit("scale to 1", nil, scale(1)), edit("scale to 2", nil, scale(2)), remove(web(2).Obj(), nil)),
		scenario("another policy", web(3).PVCs("data").Keep(drop, retain),
			edit("scale to 2", allAvailable(3, "app:1"), scale(2)),
			edit("keep PVCs", nil, func(s *appsv1beta1.StatefulSetSpec) { s.PersistentVolumeClaimRetentionPolicy.WhenDeleted = retain }),
			remove(web(2).Obj(), allPVCs("owners []"))),
		keptByChangedPolicy(),
		scenario("another policy while a PVC is being deleted", web(3).Parallel("1").PVCs("data").Keep(drop, drop),
			remove(pvcNamed("data-web-1"), allBound(3, "app:1")), edit("keep PVCs", ending("data-web-1"), keep)),
		scenario("PVCs are resized before pods are updated", web(3).PVCs("data").Resize().InPlace(),
			edit("twice the size and a new image", allBound(3, "app:1"), func(s *appsv1beta1.StatefulSetSpec) {
				resizeTemplates(s, "2Gi")
				image("app:2")(s)
			}), edit("more", allBound(3, "app:2"), storage("3Gi"))),
		scenario("PVCs are resized without an update", web(4).Parallel("2").PVCs("data").Resize().Partition(1),
			edit("twice the size", allBound(4, "app:1"), storage("2Gi")), edit("partition 0", nil, partition(0)), edit("less", allPVCs("requests 2Gi, has 2Gi"), storage("1Gi"))),
		scenario("PVCs that can't be resized", web(2).PVCs("full").Resize(),
			edit("twice the size and a new image", allBound(2, "app:1"), func(s *appsv1beta1.StatefulSetSpec) {
				resizeTemplates(s, "2Gi")
				image("app:2")(s)
			})),
		scenario("a class that does not allow resizing", web(2).PVCs("data").Resize().Spec(func(s *appsv1beta1.StatefulSetSpec) {
			s.VolumeClaimTemplates[0].Spec.StorageClassName = new("slow")
		}), edit("twice the size", allBound(2, "app:1"), storage("2Gi"))),
		scenario("lost PVCs", web(3).Parallel("1").PVCs("data"),
			remove(pvcNamed("data-web-1"), allBound(3, "app:1")), remove(pvcNamed("data-web-2"), nil),
			named("web-1", ending("data-web-1")), edit("scale to 4", nil, scale(4))),
		scenario("another volumeClaimTemplate", web(2).InPlace().PVCs("data"),
			edit("one more", allBound(2, "app:1"), func(s *appsv1beta1.StatefulSetSpec) {
				s.VolumeClaimTemplates = append(s.VolumeClaimTemplates, testkit.StatefulSet("web").PVCs("logs").Obj().Spec.VolumeClaimTemplates...)
				image("app:2")(s)
			})),
		adoptedScenario(t),
	}
}

// stallingScenarios returns stories that stall, which is then reported.
func stallingScenarios() []sim.Scenario {
	const retain, drop = appsv1.RetainPersistentVolumeClaimRetentionPolicyType, appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	return []sim.Scenario{
		scenario("an image that can't be pulled", web(3), edit("a bad image", nil, image("app:bad")), edit("back", nil, image("app:1"))),
		scenario("scale-in of pods that are not ready", web(4),
			setPodImage("app:bad", "web-3", allAvailable(4, "app:1")), setPodImage("app:bad", "web-2", nil), edit("scale to 2", notReady("web-2", "web-3"), scale(2)),
			setPodImage("app:1", "web-2", nil)),
		scenario("a PVC that terminates slowly", web(2).PVCs("data").Keep(retain, drop),
			addFinalizer(pvcNamed("data-web-1"), allBound(2, "app:1")), edit("scale to 1", nil, scale(1)),
			edit("keep PVCs", ending("data-web-1"), keep), edit("scale to 2", nil, scale(2)),
			removeFinalizer(pvcNamed("data-web-1"), nil)),
		scenario("a PVC that nothing resizes", web(1).PVCs("static").Resize(), edit("twice the size", allBound(1, "app:1"), storage("2Gi"))),
	}
}

// keptByChangedPolicy is about a set whose policy changes to keep PVCs when the pod that owns them is already terminating. No PVC is deleted.
func keptByChangedPolicy() sim.Scenario {
	const drop = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	pod := testkit.Pod("web-2").Obj()
	s := scenario("PVCs are kept by a changed policy", web(3).PVCs("data").Keep(drop, drop),
		addFinalizer(pod, allAvailable(3, "app:1")), edit("scale to 2", nil, scale(2)), edit("keep PVCs", ending("web-2"), keep),
		removeFinalizer(pod, allPVCs("owners []")), edit("scale to 3", nil, scale(3)), remove(web(3).Obj(), allAvailable(3, "app:1")))
	s.Rules = []sim.Rule{noPVCDeleted()}
	return s
}

func noPVCDeleted() sim.Rule {
	return sim.Rule{Name: "no PVC is deleted", State: func(w *sim.World) error {
		for _, c := range sim.All[*corev1.PersistentVolumeClaim](w) {
			if c.DeletionTimestamp != nil {
				return errors.New(c.Name)
			}
		}
		return nil
	}}
}

// keep sets the policy to keep all PVCs.
func keep(s *appsv1beta1.StatefulSetSpec) {
	const remains = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
	s.PersistentVolumeClaimRetentionPolicy = &appsv1beta1.StatefulSetClaimRetentionPolicy{WhenDeleted: remains, WhenScaled: remains}
}

// finalizer belongs to another controller.
const finalizer = "example.com/snapshot"

func addFinalizer(o client.Object, when func(*sim.World) bool) sim.Edit {
	return finalizers("a finalizer is added to "+o.GetName(), o, when, func(list []string) []string { return append(list, finalizer) })
}

func removeFinalizer(o client.Object, when func(*sim.World) bool) sim.Edit {
	return finalizers("the finalizer is removed from "+o.GetName(), o, when, func(list []string) []string {
		return slices.DeleteFunc(list, func(f string) bool { return f == finalizer })
	})
}

func finalizers(name string, o client.Object, when func(*sim.World) bool, change func([]string) []string) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		live := o.DeepCopyObject().(client.Object)
		if err := w.User().Get(ctx, client.ObjectKeyFromObject(o), live); err != nil {
			return client.IgnoreNotFound(err)
		}
		live.SetFinalizers(change(live.GetFinalizers()))
		return w.User().Update(ctx, live)
	}}
}

// ending reports whether a pod or a PVC is terminating.
func ending(name string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		pod, pvc := sim.Find[*corev1.Pod](w, client.ObjectKey{Namespace: key.Namespace, Name: name}), sim.Find[*corev1.PersistentVolumeClaim](w, client.ObjectKey{Namespace: key.Namespace, Name: name})
		return pod != nil && pod.DeletionTimestamp != nil || pvc != nil && pvc.DeletionTimestamp != nil
	}
}

// setPodImage sets the image of a pod.
func setPodImage(image, pod string, when func(*sim.World) bool) sim.Edit {
	return onPod(pod+" runs "+image, when, pod, func(p *corev1.Pod) { p.Spec.Containers[0].Image = image })
}

// notReady reports whether these pods are not ready.
func notReady(names ...string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		return !slices.ContainsFunc(names, func(name string) bool {
			p := sim.Find[*corev1.Pod](w, client.ObjectKey{Namespace: key.Namespace, Name: name})
			return p == nil || podset.View(p, podset.Rules{}, w.Now()).Ready
		})
	}
}

// adoptedScenario is about a set with the name of a StatefulSet of Kubernetes that was deleted and has left its pods, PVCs and revisions. No pod is
// re-created.
func adoptedScenario(t *testing.T) sim.Scenario {
	t.Helper()
	set := web(3).PVCs("data")
	native, err := wantedRevision(set.Obj())
	require.NoError(t, err)
	native.Name, native.OwnerReferences, native.Revision = "web-59c4bd6fd", nil, 1
	native.Data = runtime.RawExtension{Raw: withoutTimes(t, native.Data.Raw)}
	s := scenario("adopted", set, edit("scale to 4", nil, scale(4)))
	s.Objects = append(s.Objects, native, testkit.Pod("unowned").Node("node-of-its-own").Obj())
	for _, ordinal := range []string{"0", "1", "2"} {
		pod := newPod(set.Obj(), native.Name, &set.Obj().Spec.Template, ordinal, now)
		pod.OwnerReferences, pod.Annotations = nil, nil
		delete(pod.Labels, keys.LifecycleState)
		s.Objects = append(s.Objects, pod, newPVCs(set.Obj(), Gates{}, ordinal)[0])
	}
	s.Rules = []sim.Rule{{Name: "no pod is re-created", Write: func(_ *sim.World, c sim.Change) error {
		if _, isPod := c.Before.(*corev1.Pod); isPod && c.Verb == sim.Delete {
			return errors.New(c.String())
		}
		return nil
	}}}
	return s
}

// withoutTimes returns a revision's data without nulls, as Kubernetes 1.36 writes it.
func withoutTimes(t *testing.T, data []byte) []byte {
	t.Helper()
	var all map[string]any
	require.NoError(t, json.Unmarshal(data, &all))
	meta := all["spec"].(map[string]any)["template"].(map[string]any)["metadata"].(map[string]any)
	delete(meta, "creationTimestamp")
	out, err := json.Marshal(all)
	require.NoError(t, err)
	return out
}
