package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/testkit"
	"github.com/flotilla-io/flotilla/pkg/testkit/sim"
)

// keeper answers hooks of the label hold=yes: it lets go of pods that are to be updated or deleted, and holds those that
// are in service, or shall be.
type keeper struct{}

// Steps implements sim.Actor.
func (keeper) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, pod := range sim.All[*corev1.Pod](w) {
		if !active(w, pod) || pod.Spec.NodeName == "" {
			continue
		}
		_, held := pod.Labels["hold"]
		switch s := lifecycle.Of(pod); {
		case held && (s == pods.LifecyclePreparingUpdate || s == pods.LifecyclePreparingDelete):
			out = append(out, label(w, pod, "keeper lets go of", "hold", ""))
		case !held && (s == pods.LifecycleUpdated || s == pods.LifecycleNormal):
			out = append(out, label(w, pod, "keeper takes", "hold", "yes"))
		}
	}
	return out
}

// label sets a label of a pod, or takes it off if the value is empty.
func label(w *sim.World, pod *corev1.Pod, what, key, value string) sim.Step {
	return sim.Step{Name: what + " " + pod.Name, Do: func(ctx context.Context) error {
		return sim.Set(ctx, w, client.ObjectKeyFromObject(pod), func(p *corev1.Pod) {
			p.Labels[key] = value
			if value == "" {
				delete(p.Labels, key)
			}
		})
	}}
}

// held is a set whose pods have hooks of the label hold=yes, and that label from the start.
func held(n int32) *testkit.CloneSetBuilder {
	hook := func() *pods.LifecycleHook {
		return &pods.LifecycleHook{LabelsHandler: map[string]string{"hold": "yes"}}
	}
	return web(n).Policy(appsv1beta1.PodInPlaceIfPossible).Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.Lifecycle = &pods.Lifecycle{InPlaceUpdate: hook(), PreDelete: hook()}
		s.Lifecycle.InPlaceUpdate.MarkPodNotReady = true
		s.Template.Labels["hold"] = "yes"
	})
}

// noneSkipped: no pod is edited or deleted while its hook holds it, whatever the controller knows.
func noneSkipped(w *sim.World, c sim.Change) error {
	set := sim.Find[*appsv1beta1.CloneSet](w, key)
	before, ok := c.Before.(*corev1.Pod)
	if !ok || c.After == nil || set == nil || set.Spec.Lifecycle == nil || !active(w, before) {
		return nil
	}
	edit := c.Verb == sim.Patch && before.Generation != c.After.GetGeneration()
	if edit && lifecycle.Hooked(set.Spec.Lifecycle.InPlaceUpdate, before) ||
		c.Verb == sim.Delete && lifecycle.Hooked(set.Spec.Lifecycle.PreDelete, before) {
		return errors.New(c.String())
	}
	return nil
}

// firstFirst: while a pod of the tier that goes first is old and in service, no other is taken out of service for its
// update.
func firstFirst(w *sim.World, c sim.Change) error {
	before, ok := c.Before.(*corev1.Pod)
	after, _ := c.After.(*corev1.Pod)
	if !ok || after == nil || c.Verb != sim.Patch || c.Late || before.Labels["tier"] != "" || !available(w, before) ||
		lifecycle.Of(before) == lifecycle.Of(after) {
		return nil
	}
	if i := slices.IndexFunc(sim.Cached[*corev1.Pod](w), func(p *corev1.Pod) bool {
		is := sim.Find[*corev1.Pod](w, client.ObjectKeyFromObject(p))
		return p.Labels["tier"] == "first" && old(w, p) && available(w, p) && is != nil && available(w, is)
	}); i >= 0 {
		return fmt.Errorf("%s, and a pod that goes first has not been updated", c.Request)
	}
	return nil
}

// promote puts the last pod into the tier that goes first.
func promote() sim.Edit {
	return sim.Edit{Name: "one pod goes first", Do: func(ctx context.Context, w *sim.World) error {
		for _, p := range slices.Backward(sim.All[*corev1.Pod](w)) {
			if active(w, p) {
				return label(w, p, "", "tier", "first").Do(ctx)
			}
		}
		return nil
	}}
}

func TestSimulationOfHooks(t *testing.T) {
	k := simulated(t)
	k.Actors = append(k.Actors, keeper{})
	k.Rules = append(k.Rules, sim.Rule{Name: "hooks are never skipped", Write: noneSkipped})
	sim.Test(t, k, sim.Plan{Sweeps: 2, Seeds: 60},
		of("update with hooks", held(3).Rolling("0", "1", "0"),
			edit("a new image", nil, image("app:2")),
			edit("back", some(1, "app:2"), image("app:1"))),
		of("scale in with hooks", held(4),
			edit("scale to 2", nil, scale(2)), nameOne(), edit("scale to 3", nil, scale(3))))
}

func TestSimulationOfPriority(t *testing.T) {
	first := of("who goes first", web(4).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("2", "1", "0").
		Spec(func(s *appsv1beta1.CloneSetSpec) {
			s.UpdateStrategy.RollingUpdate.PriorityStrategy = &pods.UpdatePriorityStrategy{
				WeightPriority: []pods.UpdatePriorityWeightTerm{{
					Weight: 100, MatchSelector: metav1.LabelSelector{MatchLabels: map[string]string{"tier": "first"}},
				}},
			}
		}), promote(), edit("a new image", nil, image("app:2")))
	first.Rules = []sim.Rule{{Name: "the tier goes first", Write: firstFirst}}
	sim.Test(t, simulated(t), sim.Plan{Sweeps: 2, Seeds: 60}, first)
}
