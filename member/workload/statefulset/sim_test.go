package statefulset

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
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(s))
	require.NoError(tb, appsv1beta1.AddToScheme(s))
	return s
}

// simulated returns StatefulSet for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	return sim.Kind{
		Scheme: scheme(tb),
		Fields: Registration().Fields,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Gates: on(), Controller: &podcontrol.Controller{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}), Overlaps: ownership.OverlapScanner{Adopts: adopts},
			}}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{}, &appsv1.ControllerRevision{})
		},
		For:  &appsv1beta1.StatefulSet{},
		Owns: []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.PersistentVolumeClaim{}: func(_ *sim.World, _, _ client.Object) []reconcile.Request {
				return []reconcile.Request{{NamespacedName: key}}
			},
		},
		Actors: []sim.Actor{
			sim.Provisioner{Fails: full, Static: static}, sim.Scheduler{Nodes: 3}, sim.Kubelet{Unpullable: unpullable}, sim.Collector{}, sim.HookHandler{Handles: heldPod},
		},
		Rules: rules(), Summary: end, Describe: sim.Describe(lines),
	}
}

// unpullable reports whether an image can't be pulled.
func unpullable(image string) bool { return strings.HasSuffix(image, ":bad") }

func full(pvc *corev1.PersistentVolumeClaim) bool { return strings.HasPrefix(pvc.Name, "full-") }

// static reports whether nothing resizes the volume of a PVC.
func static(pvc *corev1.PersistentVolumeClaim) bool { return strings.HasPrefix(pvc.Name, "static-") }

// live returns the set as it is; nil if there is none.
func live(w *sim.World) *appsv1beta1.StatefulSet { return sim.Find[*appsv1beta1.StatefulSet](w, key) }

func heldPod(w *sim.World, pod *corev1.Pod) bool {
	set := live(w)
	return set != nil && set.Spec.Lifecycle != nil && active(w, pod)
}

// lines returns the lines of a story about a set or a PVC.
func lines(o client.Object) []string {
	switch o := o.(type) {
	case *appsv1beta1.StatefulSet:
		out := []string{fmt.Sprintf("%d pods, %d available, %d updated", o.Status.Replicas, o.Status.AvailableReplicas, o.Status.UpdatedReplicas)}
		for _, c := range o.Status.Conditions {
			out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
		}
		return out
	case *corev1.PersistentVolumeClaim:
		return []string{pvcLine(o)}
	}
	return nil
}

func pvcLine(c *corev1.PersistentVolumeClaim) string {
	capacity, request := c.Status.Capacity[corev1.ResourceStorage], c.Spec.Resources.Requests[corev1.ResourceStorage]
	owners := make([]string, 0, 1)
	for _, ref := range c.OwnerReferences {
		owners = append(owners, ref.Kind+" "+ref.Name)
	}
	return fmt.Sprintf("PVC %s requests %s, has %s, owners %v", c.Name, request.String(), capacity.String(), owners)
}

// end returns the final state of a story: the pods, the PVCs, and the status.
func end(w *sim.World) string {
	var lines []string
	for _, p := range sim.All[*corev1.Pod](w) {
		f := podset.View(p, podset.Rules{}, w.Now())
		lines = append(lines, fmt.Sprintf("pod %s: %s available=%t %s edit=%d", p.Name, p.Spec.Containers[0].Image, f.Available, f.Lifecycle, f.Update))
	}
	for _, c := range sim.All[*corev1.PersistentVolumeClaim](w) {
		lines = append(lines, pvcLine(c))
	}
	set := live(w)
	if set == nil {
		return strings.Join(append(lines, "no set"), "\n")
	}
	s := &set.Status
	lines = append(lines, fmt.Sprintf("%d pods, %d current, %d ready, %d available; updated: %d, %d ready, %d available",
		s.Replicas, s.CurrentReplicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas))
	for _, v := range s.VolumeClaims {
		lines = append(lines, fmt.Sprintf("PVCs %s: %d, %d ready", v.VolumeClaimName, v.CompatibleReplicas, v.CompatibleReadyReplicas))
	}
	conditions := make([]string, 0, len(s.Conditions))
	for _, c := range s.Conditions { // Their times vary.
		conditions = append(conditions, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Reason))
	}
	return strings.Join(append(lines, fmt.Sprintf("observed=%t done=%t conditions=%s",
		s.ObservedGeneration == set.Generation, s.CurrentRevision == s.UpdateRevision, strings.Join(conditions, " "))), "\n")
}

// edit changes the spec at rest, or when it is due.
func edit(name string, when func(*sim.World) bool, change func(*appsv1beta1.StatefulSetSpec)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(set *appsv1beta1.StatefulSet) { change(&set.Spec) })
	}}
}

func scale(n int32) func(*appsv1beta1.StatefulSetSpec) {
	return func(s *appsv1beta1.StatefulSetSpec) { s.Replicas = &n }
}

func paused(value bool) func(*appsv1beta1.StatefulSetSpec) {
	return func(s *appsv1beta1.StatefulSetSpec) { s.UpdateStrategy.RollingUpdate.Paused = value }
}

func partition(n int32) func(*appsv1beta1.StatefulSetSpec) {
	return func(s *appsv1beta1.StatefulSetSpec) { s.UpdateStrategy.RollingUpdate.Partition = &n }
}

func storage(size string) func(*appsv1beta1.StatefulSetSpec) {
	return func(s *appsv1beta1.StatefulSetSpec) { resizeTemplates(s, size) }
}

// onPod changes a pod.
func onPod(name string, when func(*sim.World) bool, pod string, change func(*corev1.Pod)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, types.NamespacedName{Namespace: key.Namespace, Name: pod}, change)
	}}
}

// someUpdated reports whether n pods should run app:2. whole reports whether n pods of an image are available and there are no others.
func someUpdated(n int) func(*sim.World) bool {
	return func(w *sim.World) bool {
		return len(slices.DeleteFunc(sim.All[*corev1.Pod](w), func(p *corev1.Pod) bool {
			return !active(w, p) || p.Spec.Containers[0].Image != "app:2"
		})) >= n
	}
}

func allAvailable(n int, image string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		set, all := live(w), sim.All[*corev1.Pod](w)
		return set != nil && len(all) == n && !slices.ContainsFunc(all, func(p *corev1.Pod) bool {
			return !podset.View(p, rulesOf(&set.Spec), w.Now()).Available || p.DeletionTimestamp != nil || p.Spec.Containers[0].Image != image
		})
	}
}

// allBound is like whole, but each PVC also has a volume.
func allBound(n int, image string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		return allAvailable(n, image)(w) && !slices.ContainsFunc(sim.All[*corev1.PersistentVolumeClaim](w), func(c *corev1.PersistentVolumeClaim) bool {
			return c.Status.Phase != corev1.ClaimBound
		})
	}
}

func scenario(name string, set *testkit.StatefulSetBuilder, edits ...sim.Edit) sim.Scenario {
	return sim.Scenario{Name: name, Objects: []client.Object{set.Obj(), class("fast", true), class("slow", false)}, Edits: edits}
}

func class(name string, grows bool) *storagev1.StorageClass {
	return &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: name}, Provisioner: "lab", AllowVolumeExpansion: &grows}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	const stall = 15 * time.Second
	all := scenarios(t)
	for _, s := range stallingScenarios() {
		s.Stall = stall + podset.DefaultProgressDeadline
		all = append(all, s)
	}
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: stall}, all...)
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	for _, s := range append(scenarios(t), stallingScenarios()...) {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulated(t), s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, key.Name)+"# the end\n"+r.Summary+"\n")
		})
	}
}

func TestALateWriteOfAFormerLeaderTransfersNoPVC(t *testing.T) {
	t.Parallel()
	calm := sim.Run(t.Context(), simulated(t), keptByChangedPolicy(), sim.Schedule{})
	require.NoError(t, calm.Err)
	for at := 1; at <= calm.Writes; at++ {
		late := sim.Schedule{Faults: []sim.Fault{{Kind: sim.LateWrite, At: at, Steps: 400}}}
		r := sim.Run(t.Context(), simulated(t), keptByChangedPolicy(), late)
		require.NoError(t, r.Err, "%s", late)
		require.Equal(t, calm.Summary, r.Summary, "%s", late)
	}
}

func TestNoPVCIsDeletedOnceTheGateIsOff(t *testing.T) {
	t.Parallel()
	const deleted = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	pod, set := testkit.Pod("web-2").Obj(), web(3).PVCs("data").Keep(deleted, deleted)
	story := func() sim.Scenario {
		s := scenario("the gate is switched off", set, addFinalizer(pod, allAvailable(3, "app:1")), edit("scale to 2", nil, scale(2)))
		s.Rules = []sim.Rule{noPVCDeleted()}
		return s
	}
	on := sim.Run(t.Context(), simulated(t), story(), sim.Schedule{})
	require.NoError(t, on.Err)
	for at := 1; at <= on.Writes; at++ {
		kind, starts := simulated(t), 0
		started := kind.New
		kind.New = func(p sim.Process) (reconcile.Reconciler, error) {
			r, err := started(p)
			r.(*Reconciler).Gates.DeletePVCs = starts == 0
			starts++
			return r, err
		}
		s := story()
		s.Edits = append(s.Edits, removeFinalizer(pod, allPVCs("owners []")), remove(set.Obj(), nil))
		off := sim.Run(t.Context(), kind, s, sim.Schedule{Faults: []sim.Fault{{Kind: sim.CrashAfter, At: at}}})
		require.NoError(t, off.Err, "off after write %d", at)
		require.Contains(t, off.Summary, "PVC data-web-2 requests 1Gi, has 1Gi, owners []", "off after write %d", at)
	}
}
