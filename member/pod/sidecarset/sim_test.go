package sidecarset

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/controltest"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Name: "log"}

// openingAll is a podwebhook.Opening that sends the pods of all namespaces.
type openingAll struct{}

func (openingAll) Sent(context.Context, string) (bool, string) { return true, "" }
func (openingAll) Changes() <-chan event.GenericEvent          { return nil }

// simulated returns SidecarSet in the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	s := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(s))
	require.NoError(tb, appsv1beta1.AddToScheme(s))
	self := func(*sim.World, client.Object, client.Object) []reconcile.Request {
		return []reconcile.Request{{NamespacedName: key}}
	}
	return sim.Kind{
		Scheme: s,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{
				Controller: controltest.New(p.Client, p.Live, p.Clock, &testkit.Events{}), Namespace: system, Opening: openingAll{},
			}, nil
		},
		For: &appsv1beta1.SidecarSet{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Pod{}: self, &corev1.Namespace{}: self, &appsv1.ControllerRevision{}: self,
		},
		Actors:  sim.Cluster(2),
		Rules:   []sim.Rule{sim.DeletesByUID(), ownContainers(), budget().Rule()},
		Summary: summarize,
	}
}

// ownContainers is the rule that nothing in a pod except its sidecars is changed.
func ownContainers() sim.Rule {
	return sim.Rule{Name: "the pod's own containers stay", Write: func(_ *sim.World, c sim.Change) error {
		before, wasPod := c.Before.(*corev1.Pod)
		after, isPod := c.After.(*corev1.Pod)
		if !wasPod || !isPod || !c.ByController() {
			return nil
		}
		own := func(pod *corev1.Pod) string { return containerOf(pod, "app").Image }
		if own(before) != own(after) || len(before.Spec.Containers) != len(after.Spec.Containers) {
			return fmt.Errorf("%s changes the pod's own", c.Request)
		}
		return nil
	}}
}

// serves reports whether a pod is ready and runs what was written.
func serves(pod *corev1.Pod) bool {
	for _, c := range inplace.Containers(pod) {
		if st := inplace.Status(pod, c.Name); st == nil || st.Image != c.Image {
			return false
		}
	}
	return podpatch.Ready(pod) && podpatch.Active(pod)
}

// budget is the rule that no more serving pods are updated than maxUnavailable allows, except for those that HotUpgrade keeps in service.
// Pods that wait for an update count only if they are about to restart for an earlier one: any other problem of theirs isn't caused by the
// update.
func budget() sim.AtLeast[*corev1.Pod] {
	return sim.AtLeast[*corev1.Pod]{
		Name: "maxUnavailable is kept",
		Good: func(w *sim.World, pod *corev1.Pod) bool {
			_, leaving := pod.Labels[keys.SpecifiedDelete]
			return !leaving && slices.Contains(injectedIn(pod), key.Name) && (serves(pod) || awaitsUpdate(w, pod))
		},
		Least: func(w *sim.World) int {
			s := sim.Find[*appsv1beta1.SidecarSet](w, key)
			if s == nil {
				return 0
			}
			matched := 0
			for _, pod := range sim.Cached[*corev1.Pod](w) {
				if podpatch.Active(pod) && slices.Contains(injectedIn(pod), key.Name) {
					matched++
				}
			}
			return matched - s.Spec.UpdateStrategy.MaxUnavailable.IntValue()
		},
		Free: func(_ *sim.World, c sim.Change) bool { // A replaced container is emptied, or a pod is repaired.
			pod, ok := c.Before.(*corev1.Pod)
			return ok && (workingIn(pod) != nil || !serves(pod))
		},
	}
}

// awaitsUpdate reports whether a pod has older sidecars, and either all of them run or none ever will.
func awaitsUpdate(w *sim.World, pod *corev1.Pod) bool {
	s := sim.Find[*appsv1beta1.SidecarSet](w, key)
	if s == nil {
		return false
	}
	_, restarts := ranUpdate(key.Name, pod)
	return podRecordsIn(pod, keys.SidecarSetHash)[key.Name].Hash != s.Annotations[keys.SidecarSetHash] && !restarts
}

// summarize returns the part of the final state that must not depend on the schedule.
func summarize(w *sim.World) string {
	s := sim.Find[*appsv1beta1.SidecarSet](w, key)
	if s == nil {
		return "no SidecarSet"
	}
	var lines []string
	newest := ""
	var number int64
	for _, r := range sim.All[*appsv1.ControllerRevision](w) {
		lines = append(lines, fmt.Sprintf("%s %v", r.Name, r.Labels))
		if r.Revision > number {
			newest, number = r.Name, r.Revision
		}
	}
	slices.Sort(lines)
	st := s.Status
	c := report.GetCondition(st.Conditions, appsv1beta1.SidecarSetInjected)
	images := map[string]int{}
	for _, pod := range sim.All[*corev1.Pod](w) {
		if slices.Contains(injectedIn(pod), key.Name) {
			words := []string{}
			working := workingIn(pod)["log"]
			for _, c := range inplace.Containers(pod) {
				switch c.Name {
				case "app":
				case "log", working: // Which of the two containers works depends on the order.
					words = append(words, "works="+c.Image)
				default:
					words = append(words, "idle="+c.Image)
				}
			}
			if c := podpatch.Find(pod, keys.SidecarSetUpgradable); c != nil && c.Status == corev1.ConditionFalse {
				words = append(words, "waits")
			}
			slices.Sort(words)
			images[strings.Join(words, " ")]++
		}
	}
	for _, line := range slices.Sorted(maps.Keys(images)) {
		lines = append(lines, fmt.Sprintf("%d %s", images[line], line))
	}
	return fmt.Sprintf("%s\nmatched %d, updated %d, ready %d, both %d, observed %t, latest is the newest %t\n%s", strings.Join(lines, "\n"),
		st.MatchedPods, st.UpdatedPods, st.ReadyPods, st.UpdatedReadyPods, st.ObservedGeneration == s.Generation, st.LatestRevision == newest, c.Message)
}

// revised waits for the revision of the last edit: an edit that is overtaken by the next one never gets a revision.
func revised(w *sim.World) bool {
	s := sim.Find[*appsv1beta1.SidecarSet](w, key)
	return s != nil && s.Status.ObservedGeneration == s.Generation
}

// imageEdit gives the sidecar another image.
func imageEdit(tb testing.TB, image string) sim.Edit {
	tb.Helper()
	return sim.Edit{Name: "image " + image, When: revised, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(s *appsv1beta1.SidecarSet) {
			setImage(s, image)
			rehash(tb, s)
		})
	}}
}

// setImage gives the only sidecar another image.
func setImage(s *appsv1beta1.SidecarSet, image string) {
	for c := range updatable(&s.Spec) {
		c.Image = image
	}
}

func stories(tb testing.TB) []sim.Scenario {
	tb.Helper()
	set := func(changes ...string) *appsv1beta1.SidecarSet {
		s := admitted(tb, changes...)
		s.Generation = 1
		return s
	}
	image := func(name string) sim.Edit { return imageEdit(tb, name) }
	edit := func(name string, change func(*appsv1beta1.SidecarSetSpec)) sim.Edit {
		return sim.Edit{Name: name, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, key, func(s *appsv1beta1.SidecarSet) { change(&s.Spec) })
		}}
	}
	create := func(pod *corev1.Pod) sim.Edit {
		return sim.Edit{Name: "create " + pod.Name, Do: func(ctx context.Context, w *sim.World) error { return w.User().Create(ctx, pod.DeepCopy()) }}
	}
	remove := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "delete " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object)))
		}}
	}
	// app acts as a workload or a user: a pod's own container gets another image.
	app := func(pod string) sim.Edit {
		return sim.Edit{Name: "app of " + pod, Do: func(ctx context.Context, w *sim.World) error {
			return sim.Set(ctx, w, types.NamespacedName{Namespace: "shop", Name: pod}, func(p *corev1.Pod) { containerOf(p, "app").Image = "app:2" })
		}}
	}
	shop := func(team string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", Labels: map[string]string{"team": team}}}
	}
	with := runningPod(tb, "web-0", set())
	// five returns five pods of a SidecarSet.
	five := func(changes ...string) []client.Object {
		s := set(changes...)
		out := []client.Object{s}
		for i := range 5 {
			pod := runningPod(tb, fmt.Sprintf("web-%d", i), s)
			pod.Labels["canary"] = strconv.FormatBool(i < 2)
			out = append(out, pod)
		}
		return out
	}
	strategy := func(fields string) string { return `{spec: {updateStrategy: {` + fields + `}}}` }
	hot := `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}]}}`
	native := `{spec: {containers: null, initContainers: [{name: log, image: "log:1", restartPolicy: Always}]}}`
	nativeHot := `{spec: {containers: null, initContainers: [
		{name: log, image: "log:1", restartPolicy: Always, upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}]}}`
	immutable := sim.Edit{Name: "another command", When: revised, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(s *appsv1beta1.SidecarSet) {
			s.Spec.Containers[0].Command = []string{"run"}
			rehash(tb, s)
		})
	}}
	back := sim.Edit{Name: "the original command", When: revised, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(s *appsv1beta1.SidecarSet) {
			s.Spec.Containers[0].Command = nil
			rehash(tb, s)
		})
	}}
	return []sim.Scenario{
		{Name: "pods come and go", Objects: []client.Object{set(), with}, Edits: []sim.Edit{
			create(runningPod(tb, "web-1", set())), create(runningPod(tb, "web-2")), remove(with),
		}},
		{Name: "the image changes and comes back", Objects: []client.Object{set(), with}, Edits: []sim.Edit{image("log:2"), image("log:3"), image("log:1")}},
		{Name: "old revisions are deleted", Objects: []client.Object{set(`{spec: {revisionHistoryLimit: 1}}`), with}, Edits: []sim.Edit{
			image("log:2"), image("log:3"), image("log:4"), remove(with),
		}},
		{Name: "a revision gets a version", Objects: []client.Object{set(`{spec: {customVersion: v1}}`)}, Edits: []sim.Edit{
			edit("v2", func(s *appsv1beta1.SidecarSetSpec) { s.CustomVersion = "v2" }),
		}},
		{Name: "a namespace gets a label", Objects: []client.Object{set(`{spec: {namespaceSelector: {matchLabels: {team: a}}}}`), with, shop("b")}, Edits: []sim.Edit{
			{Name: "label", Do: func(ctx context.Context, w *sim.World) error {
				return sim.Set(ctx, w, types.NamespacedName{Name: "shop"}, func(n *corev1.Namespace) { n.Labels["team"] = "a" })
			}},
		}},
		{Name: "sidecars are updated within a budget", Objects: five(strategy(`maxUnavailable: 2`)), Edits: []sim.Edit{image("log:2")}},
		{Name: "a partition keeps pods", Objects: five(strategy(`partition: 3`)), Edits: []sim.Edit{image("log:2")}},
		{Name: "a selector limits the update", Objects: five(strategy(`selector: {matchLabels: {canary: "true"}}`)), Edits: []sim.Edit{image("log:2")}},
		{Name: "an update is paused and resumed", Objects: five(strategy(`paused: true`)), Edits: []sim.Edit{
			image("log:2"), edit("resume", func(s *appsv1beta1.SidecarSetSpec) { s.UpdateStrategy.Paused = false }),
		}},
		{Name: "NotUpdate leaves pods unchanged", Objects: five(strategy(`type: NotUpdate`)), Edits: []sim.Edit{image("log:2")}},
		{Name: "sidecars are updated to an image and back", Objects: five(), Edits: []sim.Edit{image("log:2"), image("log:1")}},
		{Name: "a hot upgrade", Objects: five(hot), Edits: []sim.Edit{image("log:2"), image("log:3")}},
		{Name: "native sidecars are updated within a budget", Objects: five(native, strategy(`maxUnavailable: 2`)), Edits: []sim.Edit{image("log:2")}},
		{Name: "a hot upgrade of native sidecars", Objects: five(nativeHot), Edits: []sim.Edit{image("log:2"), image("log:3")}},
		{Name: "changes other than images wait for new pods", Objects: five(), Edits: []sim.Edit{immutable, back}},
		{Name: "workloads update pods at the same time", Objects: five(), Edits: []sim.Edit{app("web-4"), image("log:2"), app("web-3")}},
		{Name: "the SidecarSet is deleted", Objects: []client.Object{set(), with}, Edits: []sim.Edit{remove(set())}},
	}
}

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 15 * time.Second}, stories(t)...)
	sim.Test(t, withWorkload(t, outdatedCache), sim.Plan{Sweeps: 1, Seeds: 60, Stall: 15 * time.Second, Share: 4}, workloadStories(t)...)
	sim.Test(t, withWorkload(t, currentCache), sim.Plan{Sweeps: 1, Seeds: 60, Stall: 15 * time.Second, Share: 4}, recreateStories(t)...)
}
