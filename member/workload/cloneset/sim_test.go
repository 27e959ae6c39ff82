package cloneset

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/expect"
	"github.com/flotilla-io/flotilla/pkg/index"
	"github.com/flotilla-io/flotilla/pkg/podview"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/rollout"
	"github.com/flotilla-io/flotilla/pkg/testkit"
	"github.com/flotilla-io/flotilla/pkg/testkit/sim"
)

// simulated is how CloneSet runs in the simulator, with the rules that it keeps in every scenario.
func simulated(t *testing.T) sim.Kind {
	t.Helper()
	scheme := runtime.NewScheme()
	require.NoError(t, clientgoscheme.AddToScheme(scheme))
	require.NoError(t, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{
				Client: p.Client, Live: p.Live, Clock: p.Clock, Expect: expect.New("Test", p.Clock, 0), Events: &said{}, Parallel: 1,
			}, nil
		},
		Index: func(ctx context.Context, i client.FieldIndexer) error {
			return index.ByOwner(ctx, i, &corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{})
		},
		For:    &appsv1beta1.CloneSet{},
		Owns:   []client.Object{&corev1.Pod{}, &corev1.PersistentVolumeClaim{}, &appsv1.ControllerRevision{}},
		Actors: sim.Cluster(3),
		Rules: []sim.Rule{
			sim.DeletesByUID(),
			sim.OwnOnly(owned[*corev1.Pod]), sim.OwnOnly(ownClaim), sim.OwnOnly(owned[*appsv1.ControllerRevision]),
			sim.AtMost("never more pods than replicas and surge", active, func(w *sim.World) int {
				g := simGoal(w)
				return g.Want + g.MaxSurge
			}),
			sim.Floor[*corev1.Pod]{
				Name: "the budget holds", Good: available,
				Least: func(w *sim.World) int { return simGoal(w).Want - simGoal(w).MaxUnavailable },
			}.Rule(),
			sim.Floor[*corev1.Pod]{
				Name: "the partition holds", Good: old, Verbs: []sim.Verb{sim.Patch},
				Least: func(w *sim.World) int { return simGoal(w).Partition },
			}.Rule(),
			{Name: "a pod is updated once for a revision", Write: onceForARevision},
			{Name: "no edit while paused", Write: noEditWhilePaused},
			{Name: "pods keep their claims", State: claimsLive},
		},
		Summary: summary,
	}
}

// cachedSet is the CloneSet as the controller sees it.
func cachedSet(w *sim.World) *appsv1beta1.CloneSet {
	for _, s := range sim.Cached[*appsv1beta1.CloneSet](w) {
		if s.Name == key.Name {
			return s
		}
	}
	return nil
}

func simGoal(w *sim.World) rollout.Goal {
	set := cachedSet(w)
	if set == nil {
		return rollout.Goal{}
	}
	g, err := goalOf(&set.Spec)
	if err != nil {
		return rollout.Goal{}
	}
	return g
}

func owned[T client.Object](w *sim.World, o T) bool {
	set := cmp.Or(sim.Find[*appsv1beta1.CloneSet](w, key), cachedSet(w))
	return set != nil && ownedBy(o, set)
}

// ownClaim: a claim is the set's own, or was given to one of its pods, which may be gone.
func ownClaim(w *sim.World, c *corev1.PersistentVolumeClaim) bool {
	return owned(w, c) || slices.ContainsFunc(w.Changes(), func(was sim.Change) bool {
		p, ok := was.After.(*corev1.Pod)
		return ok && owned(w, p) && len(c.OwnerReferences) > 0 && c.OwnerReferences[0].UID == p.UID
	})
}

func active(w *sim.World, p *corev1.Pod) bool {
	return owned(w, p) && p.DeletionTimestamp == nil && p.Status.Phase != corev1.PodFailed
}

func available(w *sim.World, p *corev1.Pod) bool {
	set := cachedSet(w)
	return set != nil && active(w, p) && podview.View(p, rulesOf(&set.Spec), w.Now()).Available
}

func old(w *sim.World, p *corev1.Pod) bool {
	set := cachedSet(w)
	if set == nil || !active(w, p) {
		return false
	}
	wanted, err := wantedRevision(set)
	return err == nil && !podview.At(p, wanted.Name)
}

// onceForARevision: a write that changes what containers run changes the revision as well, and none is made again.
func onceForARevision(_ *sim.World, c sim.Change) error {
	before, ok := c.Before.(*corev1.Pod)
	after, _ := c.After.(*corev1.Pod)
	if !ok || after == nil || c.Verb != sim.Patch || before.Generation == after.Generation {
		return nil
	}
	was, is := before.Labels[keys.ControllerRevisionHash], after.Labels[keys.ControllerRevisionHash]
	if revision.Same(was, is) {
		return fmt.Errorf("%s changed the spec, and the revision %s was there", c.Request, is)
	}
	return nil
}

func noEditWhilePaused(w *sim.World, c sim.Change) error {
	if before, ok := c.Before.(*corev1.Pod); ok && c.After != nil && c.Verb == sim.Patch && !c.Late && simGoal(w).Paused &&
		before.Generation != c.After.GetGeneration() {
		return errors.New(c.String())
	}
	return nil
}

// claimsLive: what an active pod on a node mounts is there and stays. A late deletion may take a claim that the next leader
// has given to another pod, which then has to go.
func claimsLive(w *sim.World) error {
	for _, pod := range sim.All[*corev1.Pod](w) {
		if !active(w, pod) || pod.Spec.NodeName == "" {
			continue
		}
		for _, v := range pod.Spec.Volumes {
			name := client.ObjectKey{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName}
			if c := sim.Find[*corev1.PersistentVolumeClaim](w, name); (c == nil || c.DeletionTimestamp != nil) && lately(w, sim.Delete, name.Name) == 0 {
				return fmt.Errorf("pod %s mounts %s, which is gone or going", pod.Name, name.Name)
			}
		}
	}
	return nil
}

// lately counts the late writes that did that to a claim; an empty name is any.
func lately(w *sim.World, verb sim.Verb, name string) int {
	n := 0
	for _, c := range w.Changes() {
		if c.Late && c.Verb == verb && c.Kind.Kind == "PersistentVolumeClaim" && (name == "" || c.Key.Name == name) {
			n++
		}
	}
	return n
}

// summary is the end of a scenario: what the status says, the pods without their names, and the claims. How many pods have
// ended is chance, and they and what is theirs may stay. With reuse, so may as many claims without a pod as were made late,
// for pods that never were.
func summary(w *sim.World) string {
	var lines []string
	ids := map[string]bool{}
	for _, pod := range sim.All[*corev1.Pod](w) {
		ids[instanceID(pod)] = true
		if pod.Status.Phase == corev1.PodFailed {
			continue
		}
		f := podview.View(pod, podview.Rules{}, w.Now())
		lines = append(lines, fmt.Sprintf("pod of %s: %s available=%t %s edit=%d",
			ownerName(pod), pod.Spec.Containers[0].Image, f.Available, f.Lifecycle, f.Edit))
	}
	spare := lately(w, sim.Create, "")
	for _, c := range sim.All[*corev1.PersistentVolumeClaim](w) {
		owner := ownerName(c)
		if owner != "Pod" && !ids[instanceID(c)] && spare > 0 {
			spare--
		} else if owner != "Pod" {
			lines = append(lines, "claim of "+owner)
		}
	}
	slices.Sort(lines)
	if set := sim.Find[*appsv1beta1.CloneSet](w, key); set != nil {
		s := set.Status
		conditions := make([]string, 0, len(s.Conditions))
		for _, c := range s.Conditions { // Their times are chance.
			conditions = append(conditions, fmt.Sprintf("%s=%s: %s", c.Type, c.Status, c.Reason))
		}
		lines = append(lines, fmt.Sprintf("%d pods, %d ready, %d available; updated: %d, %d ready, %d available, %d expected",
			s.Replicas, s.ReadyReplicas, s.AvailableReplicas, s.UpdatedReplicas, s.UpdatedReadyReplicas, s.UpdatedAvailableReplicas,
			s.ExpectedUpdatedReplicas),
			fmt.Sprintf("observed=%t done=%t podsToDelete=%v conditions=%v", s.ObservedGeneration == set.Generation,
				s.CurrentRevision == s.UpdateRevision, set.Spec.ScaleStrategy.PodsToDelete, conditions))
	}
	return strings.Join(lines, "\n")
}

// ownerName is who owns an object, a pod by its kind alone as its name is drawn by lot.
func ownerName(o client.Object) string {
	for _, ref := range o.GetOwnerReferences() {
		return ref.Kind
	}
	return "nobody"
}

// edit changes the spec at rest, or when the time has come.
func edit(name string, when func(*sim.World) bool, change func(*appsv1beta1.CloneSetSpec)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(s *appsv1beta1.CloneSet) { change(&s.Spec) })
	}}
}

func image(name string) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) { s.Template.Spec.Containers[0].Image = name }
}

func scale(n int32) func(*appsv1beta1.CloneSetSpec) {
	return func(s *appsv1beta1.CloneSetSpec) { s.Replicas = &n }
}

// some tells, for Edit.When, whether n pods run an image.
func some(n int, image string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		have := 0
		for _, p := range sim.All[*corev1.Pod](w) {
			if active(w, p) && p.Spec.Containers[0].Image == image {
				have++
			}
		}
		return have >= n
	}
}

// whole tells, for Edit.When, whether all is well with n pods of an image.
func whole(n int, image string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		have := 0
		for _, p := range sim.All[*corev1.Pod](w) {
			switch {
			case !owned(w, p):
			case !available(w, p) || p.Spec.Containers[0].Image != image:
				return false
			default:
				have++
			}
		}
		return have == n
	}
}

// nameOne asks for the deletion of the first pod by its label.
func nameOne() sim.Edit {
	return sim.Edit{Name: "name a pod for deletion", Do: func(ctx context.Context, w *sim.World) error {
		for _, p := range sim.All[*corev1.Pod](w) {
			if active(w, p) {
				return sim.Set(ctx, w, client.ObjectKeyFromObject(p), func(p *corev1.Pod) { p.Labels[keys.SpecifiedDelete] = "true" })
			}
		}
		return nil
	}}
}

// listOne puts the first pod on the list podsToDelete and wants n pods.
func listOne(n int32) sim.Edit {
	return sim.Edit{Name: "put a pod on podsToDelete", Do: func(ctx context.Context, w *sim.World) error {
		for _, p := range sim.All[*corev1.Pod](w) {
			if active(w, p) {
				return sim.Set(ctx, w, key, func(s *appsv1beta1.CloneSet) {
					s.Spec.Replicas = &n
					s.Spec.ScaleStrategy.PodsToDelete = []string{p.Name}
				})
			}
		}
		return nil
	}}
}

// stranger is a pod that the selector selects and that nobody owns.
func stranger() *corev1.Pod {
	p := testkit.Pod("stranger").Obj()
	p.Spec.NodeName = "node-of-its-own"
	return p
}

func of(name string, set *testkit.CloneSetBuilder, edits ...sim.Edit) sim.Scenario {
	return sim.Scenario{Name: name, Objects: []client.Object{set.Obj(), stranger()}, Edits: edits}
}

func scenarios() []sim.Scenario {
	inPlace := func(n int32) *testkit.CloneSetBuilder { return web(n).Policy(appsv1beta1.PodInPlaceIfPossible) }
	return []sim.Scenario{
		of("scale out and in", web(3),
			edit("scale to 6", nil, scale(6)), edit("scale to 2", nil, scale(2))),
		of("update in place with a partition", inPlace(5).Rolling("3", "2", "0"),
			edit("a new image", nil, image("app:2")),
			edit("partition 0", nil, func(s *appsv1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Partition = nil })),
		of("re-create with surge", web(4).Rolling("0", "1", "2"),
			edit("a new image", nil, image("app:2"))),
		of("named pods", inPlace(4).Rolling("0", "1", "0"),
			nameOne(), listOne(3), edit("a new image", nil, image("app:2")), nameOne()),
		of("rollback in the middle", inPlace(5).Rolling("0", "2", "0"),
			edit("a new image", nil, image("app:2")), edit("back", some(2, "app:2"), image("app:1"))),
		of("paused and resumed", inPlace(4).Rolling("0", "2", "0"),
			edit("a new image", nil, image("app:2")),
			edit("pause", some(1, "app:2"), func(s *appsv1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Paused = true }),
			edit("resume", nil, func(s *appsv1beta1.CloneSetSpec) { s.UpdateStrategy.RollingUpdate.Paused = false })),
		of("minReadySeconds", inPlace(4).Rolling("0", "1", "0").Spec(func(s *appsv1beta1.CloneSetSpec) { s.MinReadySeconds = 10 }),
			edit("a new image", nil, image("app:2")), edit("scale to 5", nil, scale(5))),
	}
}

// withClaims is a life with claims: pods are lost, re-created for an update, end by themselves, and are scaled in.
func withClaims(name string, set *testkit.CloneSetBuilder) sim.Scenario {
	return of(name, set,
		sim.LoseNode("node-1", nil),
		edit("a new image", nil, image("app:2")),
		sim.EndPods("node-2", whole(3, "app:2")),
		edit("scale to 2", whole(3, "app:2"), scale(2)))
}

// onlyOfItsOwn: with reuse, the set deletes no claim but those of pods that it deletes itself.
func onlyOfItsOwn(w *sim.World, c sim.Change) error {
	claim, ok := c.Before.(*corev1.PersistentVolumeClaim)
	if !ok || c.Verb != sim.Delete {
		return nil
	}
	for _, pod := range sim.Cached[*corev1.Pod](w) {
		if active(w, pod) && instanceID(pod) == instanceID(claim) {
			return nil // that it was lost is not known yet; and if it stays, another rule is broken
		}
	}
	for _, was := range w.Changes() {
		if pod, ok := was.Before.(*corev1.Pod); ok && was.ByController() && was.Verb == sim.Delete && instanceID(pod) == instanceID(claim) {
			return nil
		}
	}
	return fmt.Errorf("%s, and its pod was lost", c.Request)
}

func TestSimulation(t *testing.T) {
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60}, scenarios()...)
}

func TestSimulationOfClaims(t *testing.T) {
	kept := withClaims("claims that are reused", web(3).Claims("data").Reuse())
	kept.Rules = []sim.Rule{{Name: "claims of lost pods are kept", Write: onlyOfItsOwn}}
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60}, withClaims("claims that go with their pod", web(3).Claims("data")), kept)
}
