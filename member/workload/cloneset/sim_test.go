package cloneset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// simulated returns CloneSet for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		Fields: Registration().Fields,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Draw: p.Draw, Controller: &podcontrol.Controller{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}),
			}}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{})
		},
		For:      &appsv1beta1.CloneSet{},
		Owns:     []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{}},
		Actors:   []sim.Actor{sim.Scheduler{Nodes: 3}, sim.Kubelet{Unpullable: unpullable}, sim.Collector{}, sim.HookHandler{Handles: heldPod}},
		Rules:    rules(),
		Summary:  func(w *sim.World) string { return sceneOf(w).end(lateWrites(w, sim.Create, "")) },
		Describe: sim.Describe(counts),
	}
}

func sceneOf(w *sim.World) scene {
	return scene{
		set: sim.Find[*appsv1beta1.CloneSet](w, key), pods: sim.All[*corev1.Pod](w),
		pvcs: sim.All[*corev1.PersistentVolumeClaim](w), now: w.Now(),
	}
}

// heldPod reports whether a pod belongs to a set with hooks.
func heldPod(w *sim.World, pod *corev1.Pod) bool {
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	return set != nil && set.Spec.Lifecycle != nil && activeIn(set, pod)
}

// simulated returns the act as an edit of the simulator.
func (a act) simulated() sim.Edit {
	e := sim.Edit{Name: a.name, Do: func(ctx context.Context, w *sim.World) error {
		if o := a.change(sceneOf(w)); o != nil {
			return w.User().Update(ctx, o)
		}
		return nil
	}}
	if a.when != nil {
		e.When = func(w *sim.World) bool { return a.when(sceneOf(w)) }
	}
	return e
}

func scenario(name string, set *testkit.CloneSetBuilder, edits ...sim.Edit) sim.Scenario {
	return sim.Scenario{Name: name, Objects: []client.Object{set.Obj(), foreign()}, Edits: edits}
}

func (s story) simulated() sim.Scenario {
	out := scenario(s.name, s.set)
	for _, a := range s.acts {
		out.Edits = append(out.Edits, a.simulated())
	}
	return out
}

// withPVCs is a scenario with PVCs: pods are lost, re-created for an update, fail, and are scaled in.
func withPVCs(name string, set *testkit.CloneSetBuilder) sim.Scenario {
	well := func(w *sim.World) bool { return allAvailable(3, "app:2")(sceneOf(w)) }
	return scenario(name, set,
		sim.LoseNode("node-1", nil),
		edit("a new image", nil, image("app:2")).simulated(),
		sim.EndPods("node-2", well),
		edit("scale to 2", allAvailable(3, "app:2"), scale(2)).simulated())
}

// deletedUnseen is a scenario in which pods are deleted before they appear in the cache.
func deletedUnseen() sim.Scenario {
	return scenario("pods that are lost before the cache shows them", web(3).Rolling("0", "1", "1"),
		deleteUnseen(), edit("a new image", nil, image("app:2")).simulated(), deleteUnseen())
}

// deleteUnseen deletes a pod that is not in the cache yet, or the first pod if all are.
func deleteUnseen() sim.Edit {
	unseen := func(w *sim.World) *corev1.Pod {
		known := map[string]bool{}
		for _, p := range sim.Cached[*corev1.Pod](w) {
			known[p.Name] = true
		}
		for _, p := range sceneOf(w).own() {
			if !known[p.Name] {
				return p
			}
		}
		return nil
	}
	return sim.Edit{
		Name: "lose a new pod",
		When: func(w *sim.World) bool { return unseen(w) != nil },
		Do: func(ctx context.Context, w *sim.World) error {
			if p := unseen(w); p != nil {
				return w.User().Delete(ctx, p)
			}
			for _, p := range sceneOf(w).own() {
				return w.User().Delete(ctx, p)
			}
			return nil
		},
	}
}

// deletedPVC is a scenario in which a user deletes the PVC of a running pod, and later the pod.
func deletedPVC() sim.Scenario {
	return scenario("the PVC of a running pod is deleted", web(2).PVCs("data"),
		sim.Edit{
			Name: "delete the PVC of a pod", When: func(w *sim.World) bool { return allAvailable(2, "app:1")(sceneOf(w)) },
			Do: func(ctx context.Context, w *sim.World) error {
				for _, p := range sceneOf(w).own() {
					return w.User().Delete(ctx, &corev1.PersistentVolumeClaim{
						ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: "data-" + p.Name},
					})
				}
				return nil
			},
		},
		edit("scale to 3", nil, scale(3)).simulated(),
		act{name: "label that pod for deletion", change: func(s scene) client.Object {
			own := s.own()
			if len(own) == 0 {
				return nil
			}
			i := max(0, slices.IndexFunc(own, func(p *corev1.Pod) bool { // It may have been replaced before it ran.
				return slices.ContainsFunc(s.pvcs, func(c *corev1.PersistentVolumeClaim) bool {
					return c.DeletionTimestamp != nil && c.Name == "data-"+p.Name
				})
			}))
			p := own[i].DeepCopy()
			p.Labels[keys.SpecifiedDelete] = "true"
			return p
		}}.simulated())
}

func scenarios() []sim.Scenario {
	all := make([]sim.Scenario, 0, len(stories())+4)
	for _, s := range stories() {
		all = append(all, s.simulated())
	}
	kept := withPVCs("PVCs that are reused", web(3).PVCs("data").Reuse())
	return append(all, withPVCs("PVCs that go with their pod", web(3).PVCs("data")), kept, deletedUnseen(), deletedPVC())
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, scenarios()...)
}

// A revision has no volumeClaimTemplates, so a change of them alone makes no pod old. The next change of the template finds the pods that were
// created before, whatever happened in between.
func TestPodsAreMadeAnewAlsoIfTheirPVCTemplatesChangedBeforeTheTemplate(t *testing.T) {
	t.Parallel()
	kind := simulated(t)
	started := kind.New
	kind.New = func(p sim.Process) (reconcile.Reconciler, error) {
		r, err := started(p)
		r.(*Reconciler).Gates.RecreateOnPVCChange = true
		return r, err
	}
	kind.Rules = slices.DeleteFunc(kind.Rules, func(r sim.Rule) bool { return r.Name == "only deletable pods are deleted" }) // It doesn't know the gate.
	kind.Summary = func(w *sim.World) string {
		deleted := map[types.UID]bool{}
		for _, c := range w.Changes() {
			if pod, ok := c.Before.(*corev1.Pod); ok && c.ByController() && c.Verb == sim.Delete && c.Err == nil {
				deleted[pod.UID] = true
			}
		}
		lines := []string{fmt.Sprintf("%d pods were deleted", len(deleted))}
		for _, pod := range sceneOf(w).own() {
			lines = append(lines, "a pod of "+pod.Spec.Containers[0].Image)
		}
		for _, c := range sceneOf(w).pvcs {
			size := c.Spec.Resources.Requests[corev1.ResourceStorage]
			lines = append(lines, "a PVC of "+size.String())
		}
		return strings.Join(lines, "\n")
	}
	size := func(size string) func(*appsv1beta1.CloneSetSpec) {
		return func(s *appsv1beta1.CloneSetSpec) {
			s.VolumeClaimTemplates[0].Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
		}
	}
	story := func(set *testkit.CloneSetBuilder) sim.Scenario {
		set.Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "2", "0").PVCs("data").Spec(size("1Gi"))
		return scenario("PVC templates change first", set,
			edit("a new image", allAvailable(2, "app:1"), image("app:2")).simulated(),
			edit("larger PVCs", allAvailable(2, "app:2"), size("2Gi")).simulated(),
			edit("back to the previous image", nil, image("app:1")).simulated(),
			edit("an image that no pod had", allAvailable(2, "app:1"), image("app:3")).simulated())
	}
	calm := sim.Run(t.Context(), kind, story(web(2)), sim.Schedule{})
	require.NoError(t, calm.Err)
	const want = "2 pods were deleted\na pod of app:3\na pod of app:3\na PVC of 2Gi\na PVC of 2Gi"
	require.Equal(t, want, calm.Summary, "once, because the first and the last update are in place")
	for at := 1; at <= calm.Writes; at++ {
		r := sim.Run(t.Context(), kind, story(web(2)), sim.Schedule{Faults: []sim.Fault{{Kind: sim.CrashAfter, At: at}}})
		require.NoError(t, r.Err, "a crash after write %d", at)
		require.Equal(t, calm.Summary, r.Summary, "a crash after write %d", at)
	}
}
