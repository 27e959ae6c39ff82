package sidecarset

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/member/workload/cloneset"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// workload is the name of the CloneSet controller's process, which crashes independently of the SidecarSet controller's.
const workload = "workload"

var webKey = types.NamespacedName{Namespace: "shop", Name: "web"}

// withWorkload returns SidecarSet beside CloneSet. Both have the pods of one CloneSet: its app, and a sidecar that each new pod gets, from
// the SidecarSet as the webhook sees it.
func withWorkload(tb testing.TB, webhook func(testing.TB, *sim.World) *appsv1beta1.SidecarSet) sim.Kind {
	tb.Helper()
	k := simulated(tb)
	k.Admit = func(w *sim.World, r sim.Request, _, created client.Object) error {
		pod, ok := created.(*corev1.Pod)
		if !ok || r.Verb != sim.Create {
			return nil
		}
		in, err := currentInjection(webhook(tb, w))
		if err == nil {
			_, err = inject(pod, []injection{in}, options{now: metav1.NewTime(noon)})
		}
		return err
	}
	k.Others = []sim.Kind{{
		Name: workload, For: &appsv1beta1.CloneSet{}, Fields: cloneset.Registration().Fields,
		Owns: []client.Object{&corev1.Pod{}, &appsv1.ControllerRevision{}},
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &cloneset.Reconciler{Draw: p.Draw, Controller: &podcontrol.Controller{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}),
			}}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return ownership.IndexByOwner(ctx, i, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{})
		},
	}}
	k.Rules = []sim.Rule{sim.DeletesByUID(), ownImages(), budget().Rule(), workloadBudget().Rule()}
	k.Summary = func(w *sim.World) string {
		set := sim.Find[*appsv1beta1.CloneSet](w, webKey)
		return fmt.Sprintf("%s\n%d of %d updated and available", summarize(w), set.Status.UpdatedAvailableReplicas, set.Status.Replicas)
	}
	return k
}

// outdatedCache is a webhook whose cache is outdated: it shows the first version.
func outdatedCache(tb testing.TB, _ *sim.World) *appsv1beta1.SidecarSet {
	tb.Helper()
	return admitted(tb)
}

// currentCache is a webhook whose cache shows the current version.
func currentCache(_ testing.TB, w *sim.World) *appsv1beta1.SidecarSet {
	return sim.Find[*appsv1beta1.SidecarSet](w, key)
}

// ownImages is the rule that neither writer changes an image of the other, not even back.
func ownImages() sim.Rule {
	return sim.Rule{Name: "each writer changes only its own containers", Write: func(_ *sim.World, c sim.Change) error {
		before, wasPod := c.Before.(*corev1.Pod)
		after, isPod := c.After.(*corev1.Pod)
		if !wasPod || !isPod {
			return nil
		}
		others := "app"
		if c.By == workload {
			others = "log"
		}
		if containerOf(before, others).Image != containerOf(after, others).Image {
			return fmt.Errorf("%s by %s changes container %s", c.Request, c.By, others)
		}
		return nil
	}}
}

// workloadBudget is the rule that the CloneSet takes no more pods out of service than its own maxUnavailable allows. Here a pod is in
// service if it reports ready: the CloneSet doesn't know that a sidecar is about to restart. A PodUnavailableBudget holds both to one
// limit.
func workloadBudget() sim.AtLeast[*corev1.Pod] {
	return sim.AtLeast[*corev1.Pod]{
		Name: "the CloneSet's maxUnavailable is kept", By: workload,
		Good: func(_ *sim.World, pod *corev1.Pod) bool {
			app := slices.IndexFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "app" })
			return podpatch.Ready(pod) && podpatch.Active(pod) && app >= 0 && pod.Status.ContainerStatuses[app].Image == containerOf(pod, "app").Image
		},
		Least: func(w *sim.World) int {
			active := 0
			for _, pod := range sim.CachedBy[*corev1.Pod](w, workload) {
				if podpatch.Active(pod) {
					active++
				}
			}
			return min(active, int(*sim.Find[*appsv1beta1.CloneSet](w, webKey).Spec.Replicas)) - 1
		},
	}
}

// withCloneSet returns a SidecarSet and a CloneSet of four pods.
func withCloneSet(tb testing.TB, policy appsv1beta1.PodUpdatePolicy, changes ...string) []client.Object {
	tb.Helper()
	set := testkit.CloneSet(webKey.Name).Replicas(4).Obj()
	set.Namespace = webKey.Namespace
	set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = policy
	set.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(1))
	s := admitted(tb, changes...)
	s.Generation = 1
	return []client.Object{s, set}
}

// allServe reports whether all pods run with the first version of both.
func allServe(w *sim.World) bool {
	pods := sim.All[*corev1.Pod](w)
	return len(pods) == 4 && !slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return !serves(pod) })
}

// newApp gives the CloneSet's app another image.
func newApp(when func(*sim.World) bool) sim.Edit {
	return sim.Edit{Name: "the app is app:2", When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, webKey, func(set *appsv1beta1.CloneSet) { set.Spec.Template.Spec.Containers[0].Image = "app:2" })
	}}
}

func workloadStories(tb testing.TB) []sim.Scenario {
	tb.Helper()
	sidecar := func(image string, when func(*sim.World) bool) sim.Edit {
		return sim.Edit{Name: "the sidecar is " + image, When: when, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key, func(s *appsv1beta1.SidecarSet) {
				s.Spec.Containers[0].Image = image
				rehash(tb, s)
			})
		}}
	}
	const inPlace = appsv1beta1.PodInPlaceOnly
	return []sim.Scenario{
		{Name: "app and sidecar are updated at the same time", Objects: withCloneSet(tb, inPlace), Edits: []sim.Edit{newApp(allServe), sidecar("log:2", nil)}},
		{Name: "the sidecar is updated twice beside the app", Objects: withCloneSet(tb, inPlace), Edits: []sim.Edit{
			sidecar("log:2", allServe), newApp(nil), sidecar("log:3", func(w *sim.World) bool { // Otherwise the second one has no revision.
				s := sim.Find[*appsv1beta1.SidecarSet](w, key)
				return s.Spec.Containers[0].Image == "log:2" && s.Status.ObservedGeneration == s.Generation
			}),
		}},
		{Name: "pods are recreated while the sidecar is updated", Objects: withCloneSet(tb, appsv1beta1.PodReCreate), Edits: []sim.Edit{
			sidecar("log:2", allServe), newApp(nil),
		}},
	}
}

// recreateStories change more of a sidecar than its image. The CloneSet's pods get that when they are recreated.
func recreateStories(tb testing.TB) []sim.Scenario {
	tb.Helper()
	command := sim.Edit{Name: "another command", When: allServe, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(s *appsv1beta1.SidecarSet) {
			s.Spec.Containers[0].Command = []string{"run"}
			rehash(tb, s)
		})
	}}
	objects := func(fields string) []client.Object {
		return withCloneSet(tb, appsv1beta1.PodInPlaceIfPossible, `{spec: {updateStrategy: {podUpdatePolicy: InPlaceIfPossible`+fields+`}}}`)
	}
	return []sim.Scenario{
		{Name: "pods are recreated by their workload", Objects: objects(``), Edits: []sim.Edit{command}},
		{Name: "a partition keeps pods from being recreated", Objects: objects(`, partition: 2, maxUnavailable: 3`), Edits: []sim.Edit{command}},
		{Name: "another command, and then an image", Objects: objects(``), Edits: []sim.Edit{command, imageEdit(tb, "log:2")}},
		{Name: "pods are recreated while the workload updates them", Objects: objects(`, maxUnavailable: 2`), Edits: []sim.Edit{command, newApp(nil)}},
	}
}

// TestWritesOfARecreation: each pod that the workload recreates takes one write of the SidecarSet controller, and no condition.
func TestWritesOfARecreation(t *testing.T) {
	t.Parallel()
	wantWrites := map[string]int{"pods are recreated by their workload": 4, "a partition keeps pods from being recreated": 2}
	for _, s := range recreateStories(t) {
		want, counted := wantWrites[s.Name]
		if !counted {
			continue
		}
		delete(wantWrites, s.Name)
		r := sim.Run(t.Context(), withWorkload(t, currentCache), s, sim.Schedule{})
		require.NoError(t, r.Err)
		require.Contains(t, r.Summary, fmt.Sprintf("matched 4, updated %d, ready 4", want))
		others := slices.DeleteFunc(slices.Clone(r.WriteLines), func(line string) bool {
			return strings.Contains(line, "  "+workload+" #") || !strings.Contains(line, " pod")
		})
		require.Len(t, others, want)
	}
	require.Empty(t, wantWrites)
}
