package nodeimage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// simulated returns NodeImage for the simulator, with the rules that hold in every scenario.
func simulated(tb testing.TB) sim.Kind {
	tb.Helper()
	scheme := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(scheme))
	require.NoError(tb, appsv1beta1.AddToScheme(scheme))
	return sim.Kind{
		Scheme: scheme,
		New: func(p sim.Process) (reconcile.Reconciler, error) {
			return &Reconciler{Client: p.Client, Live: p.Live, Clock: p.Clock, Events: &testkit.Events{}, Delay: defaultDelay}, nil
		},
		Index:  index,
		Fields: podset.FieldNodeReady,
		For:    &appsv1beta1.NodeImage{},
		Maps: map[client.Object]func(*sim.World, client.Object, client.Object) []reconcile.Request{
			&corev1.Node{}: func(_ *sim.World, old, updated client.Object) []reconcile.Request {
				switch {
				case old == nil:
					return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(updated)}}
				case updated == nil || nodeChanged(old, updated):
					return []reconcile.Request{{NamespacedName: client.ObjectKeyFromObject(old)}}
				}
				return nil
			},
			&appsv1beta1.ImagePullJob{}: func(w *sim.World, old, updated client.Object) []reconcile.Request {
				if old != nil && updated != nil && !jobChanged(old, updated) {
					return nil
				}
				job := updated
				if job == nil {
					job = old
				}
				var out []reconcile.Request
				for _, n := range sim.Cached[*appsv1beta1.NodeImage](w) {
					if slices.Contains(imagepull.Owners(n), string(job.GetUID())) {
						out = append(out, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(n)})
					}
				}
				return out
			},
		},
		Actors: []sim.Actor{world{}},
		Rules: []sim.Rule{
			sim.DeletesByUID(), {Name: "wanted entries stay", Write: keepsWanted}, {Name: "each node keeps its NodeImage", Write: keepsNodes},
		},
		Summary: end,
	}
}

// keepsWanted: no entry is removed while it has an owner that exists and is not complete.
func keepsWanted(w *sim.World, c sim.Change) error {
	before, ok := c.Before.(*appsv1beta1.NodeImage)
	after, afterOK := c.After.(*appsv1beta1.NodeImage)
	if !ok || !afterOK || !c.ByController() || c.Late {
		return nil
	}
	for name, image := range before.Spec.Images {
		for i := range image.Tags {
			t := &image.Tags[i]
			for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
				now := imagepull.Find(after, imagepull.Reference{Name: name, Tag: t.Tag})
				if imagepull.Owns(t, job.UID) && job.Status.CompletionTime == nil && (now == nil || !imagepull.Owns(now, job.UID)) {
					return fmt.Errorf("%s removes the entry of %s for %s:%s", c.Request, job.Name, name, t.Tag)
				}
			}
		}
	}
	return nil
}

// keepsNodes: the NodeImage of an existing node is not deleted.
func keepsNodes(w *sim.World, c sim.Change) error {
	if c.Verb == sim.Delete && c.Err == nil && !c.Late && sim.Find[*corev1.Node](w, types.NamespacedName{Name: c.Key.Name}) != nil {
		return fmt.Errorf("%s: there is the node", c.Request)
	}
	return nil
}

// end returns the state that matters at rest.
func end(w *sim.World) string {
	var lines []string
	for _, n := range sim.All[*appsv1beta1.NodeImage](w) {
		lines = append(lines, fmt.Sprintf("%s %v failed=%d", n.Name, n.Labels, n.Status.Failed))
		for _, name := range slices.Sorted(maps.Keys(n.Spec.Images)) {
			for i := range n.Spec.Images[name].Tags {
				t := &n.Spec.Images[name].Tags[i]
				var owners []string
				for _, o := range t.OwnerReferences {
					owners = append(owners, o.Name)
				}
				lines = append(lines, fmt.Sprintf("%s %s:%s of %v %s", n.Name, name, t.Tag, owners,
					imagepull.Phase(n, imagepull.Reference{Name: name, Tag: t.Tag}, t)))
			}
		}
	}
	return strings.Join(lines, "\n")
}

// The simulated apiserver drops the status of objects on creation. world writes it, according to these annotations.
const (
	// isComplete marks jobs that are complete. phaseOf says how far the entries of a NodeImage have come.
	isComplete = "sim/complete"
	phaseOf    = "sim/phase"
	// late is a label of nodes that are not ready.
	late = "late"
)

// world writes the statuses of nodes, jobs and pulls.
type world struct{}

func (world) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	write := func(o client.Object) {
		out = append(out, sim.Step{Name: "status of " + o.GetName(), Do: func(ctx context.Context) error { return w.User().Status().Update(ctx, o) }})
	}
	for _, n := range sim.All[*corev1.Node](w) {
		if updated := n.DeepCopy(); !ready(n) && n.Labels[late] == "" {
			updated.Status.Conditions = []corev1.NodeCondition{{
				Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(w.Now().Truncate(time.Second)),
			}}
			write(updated)
		}
	}
	for _, job := range sim.All[*appsv1beta1.ImagePullJob](w) {
		if updated := job.DeepCopy(); job.Annotations[isComplete] != "" && job.Status.CompletionTime == nil {
			updated.Status.CompletionTime = new(metav1.NewTime(w.Now().Truncate(time.Second)))
			write(updated)
		}
	}
	for _, n := range sim.All[*appsv1beta1.NodeImage](w) {
		updated, phase := n.DeepCopy(), appsv1beta1.ImagePullPhase(n.Annotations[phaseOf])
		if phase == "" || n.Status.ImageStatuses != nil {
			continue
		}
		var states []appsv1beta1.ImageTagStatus
		for _, t := range updated.Spec.Images["nginx"].Tags {
			states = append(states, appsv1beta1.ImageTagStatus{
				Tag: t.Tag, Version: t.Version, Phase: phase, CompletionTime: new(metav1.NewTime(w.Now().Truncate(time.Second))),
			})
		}
		updated.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: states}}
		write(updated)
	}
	return out
}

// uid returns the UID of the n-th object that is created.
func uid(n int) types.UID { return types.UID(fmt.Sprintf("00000000-0000-4000-8000-%012d", n)) }

// entry returns an entry of jobs, which are given by the order of their creation.
func entry(tag string, jobs ...int) appsv1beta1.ImageTagSpec {
	t := appsv1beta1.ImageTagSpec{
		Tag: tag, CreatedAt: &metav1.Time{Time: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}, Version: 1,
		PullPolicy: &appsv1beta1.ImageTagPullPolicy{TTLSecondsAfterFinished: new(int32(60))},
	}
	for _, n := range jobs {
		t.OwnerReferences = append(t.OwnerReferences, appsv1beta1.ImageTagOwner{
			Kind: kindJob, Namespace: testkit.Namespace, Name: fmt.Sprintf("job-%d", n), UID: uid(n),
		})
	}
	return t
}

func withEntries(name string, phase appsv1beta1.ImagePullPhase, tags ...appsv1beta1.ImageTagSpec) *appsv1beta1.NodeImage {
	n := &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: map[string]string{phaseOf: string(phase)}}}
	n.Spec.Images = map[string]appsv1beta1.ImageSpec{"nginx": {Tags: tags}}
	return n
}

func job(n int, change ...func(*appsv1beta1.ImagePullJob)) *appsv1beta1.ImagePullJob {
	out := &appsv1beta1.ImagePullJob{ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: fmt.Sprintf("job-%d", n)}}
	for _, c := range change {
		c(out)
	}
	return out
}

func complete(job *appsv1beta1.ImagePullJob) { job.Annotations = map[string]string{isComplete: "true"} }

func TestSimulation(t *testing.T) {
	t.Parallel()
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60, Stall: 35 * time.Second}, stories()...)
}

func stories() []sim.Scenario {
	remove := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "delete " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return client.IgnoreNotFound(w.User().Delete(ctx, o.DeepCopyObject().(client.Object)))
		}}
	}
	create := func(o client.Object) sim.Edit {
		return sim.Edit{Name: "create " + o.GetName(), Do: func(ctx context.Context, w *sim.World) error {
			return w.User().Create(ctx, o.DeepCopyObject().(client.Object))
		}}
	}
	done := appsv1beta1.ImagePhaseSucceeded
	a := sim.Node("a")
	return []sim.Scenario{
		{Name: "nodes are added and deleted", Objects: []client.Object{a, sim.Node("b", "type", "virtual-kubelet"), sim.Node("c", late, "yes")}, Edits: []sim.Edit{
			create(sim.Node("d")), remove(a), sim.LabelNode(nil, "c", late, ""),
		}},
		{Name: "a node is re-created", Objects: []client.Object{job(1), a, withEntries("a", done, entry("1", 1))}, Edits: []sim.Edit{
			remove(a),
			{Name: "again", When: func(w *sim.World) bool { return len(sim.All[*appsv1beta1.NodeImage](w)) == 0 }, Do: create(a).Do},
		}},
		{Name: "labels follow", Objects: []client.Object{job(1), a, withEntries("a", done, entry("1", 1))}, Edits: []sim.Edit{
			sim.LabelNode(nil, "a", "zone", "z"),
		}},
		{
			Name:    "a job is deleted",
			Objects: []client.Object{job(1), job(2), a, withEntries("a", done, entry("1", 1, 2), entry("2", 1))},
			Edits:   []sim.Edit{remove(job(1))},
		},
		{Name: "the TTL has passed", Stall: 65 * time.Second, Objects: []client.Object{
			job(1, complete), job(2), a, withEntries("a", done, entry("1", 1), entry("2", 2), entry("3")),
		}},
		{Name: "a node does not answer", Stall: 11 * time.Minute, Objects: []client.Object{job(1), a, withEntries("a", "", entry("1", 1))}},
		{Name: "a simulated node", Objects: []client.Object{job(1), func() client.Object {
			n := withEntries("fake", done, entry("1", 1))
			n.Labels = map[string]string{keys.FakeNodeImage: "true"}
			return n
		}()}},
	}
}
