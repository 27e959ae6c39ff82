package cloneset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// rogue is a CloneSet controller with one fault, which it commits before each reconcile.
type rogue struct {
	reconcile.Reconciler

	p     sim.Process
	habit func(ctx context.Context, c client.Client, s scene) error
}

func (r rogue) Reconcile(ctx context.Context, req ctrl.Request) (ctrl.Result, error) {
	s := scene{set: &appsv1beta1.CloneSet{}, now: r.p.Clock.Now()}
	var all corev1.PodList
	var pvcs corev1.PersistentVolumeClaimList
	err := errors.Join(r.p.Client.Get(ctx, req.NamespacedName, s.set), r.p.Client.List(ctx, &all), r.p.Client.List(ctx, &pvcs))
	if err != nil {
		return ctrl.Result{}, err
	}
	for i := range all.Items {
		s.pods = append(s.pods, &all.Items[i])
	}
	for i := range pvcs.Items {
		s.pvcs = append(s.pvcs, &pvcs.Items[i])
	}
	if err := r.habit(ctx, r.p.Client, s); err != nil {
		return ctrl.Result{}, err
	}
	return r.Reconciler.Reconcile(ctx, req)
}

// findStory returns the story with that name.
func findStory(t *testing.T, name string) sim.Scenario {
	t.Helper()
	all := append(scenarios(), fewReady())
	i := slices.IndexFunc(all, func(s sim.Scenario) bool { return s.Name == name })
	require.GreaterOrEqual(t, i, 0, "no story %s", name)
	return all[i]
}

// fewReady is a story in which one of four pods is ready when two must be deleted.
func fewReady() sim.Scenario {
	set := web(4).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("1", "3", "0").Spec(func(s *appsv1beta1.CloneSetSpec) { s.MinReadySeconds = 3 })
	return scenario("few are ready", set,
		edit("an image that can't be pulled", nil, image("app:bad")).simulated(),
		edit("scale to 2", nil, func(s *appsv1beta1.CloneSetSpec) {
			s.Replicas, s.UpdateStrategy.RollingUpdate.MaxUnavailable = new(int32(2)), new(intstr.FromInt32(1))
		}).simulated())
}

// toImage updates a pod in place to an image; rev is its new revision label, unchanged if empty.
func toImage(ctx context.Context, c client.Client, p *corev1.Pod, image, rev string) error {
	p = p.DeepCopy()
	if rev != "" {
		p.Labels[keys.ControllerRevisionHash] = rev
	}
	data := fmt.Appendf(nil, `{"metadata":{"labels":{%q:%q}},"spec":{"containers":[{"name":"app","image":%q}]}}`,
		keys.ControllerRevisionHash, p.Labels[keys.ControllerRevisionHash], image)
	return c.Patch(ctx, p, client.RawPatch(types.StrategicMergePatchType, data))
}

// podLike returns a new pod like p.
func podLike(p *corev1.Pod) *corev1.Pod {
	p = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
		Namespace: p.Namespace, GenerateName: "web-", Labels: p.Labels, OwnerReferences: p.OwnerReferences,
	}, Spec: *p.Spec.DeepCopy()}
	p.Spec.NodeName = ""
	return p
}

func remove(ctx context.Context, c client.Client, o client.Object) error {
	return client.IgnoreNotFound(c.Delete(ctx, o, client.Preconditions{UID: new(o.GetUID())}))
}

// firstPod returns the first of the set's own pods if there are at least that many and all are available.
func (s scene) firstPod(atLeast int) *corev1.Pod {
	own := s.own()
	if len(own) < atLeast || slices.ContainsFunc(own, func(p *corev1.Pod) bool { return !availableIn(s.set, p, s.now) }) {
		return nil
	}
	return own[0]
}

// TestEachRuleCatchesARogueController proves that each rule is needed: for each rule, there is a controller that only this rule catches.
func TestEachRuleCatchesARogueController(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		story string
		habit func(ctx context.Context, c client.Client, s scene) error
		want  string
	}{
		{"takes a pod out of service beyond the budget", "minReadySeconds", func(ctx context.Context, c client.Client, s scene) error {
			for _, p := range s.own() {
				if availableIn(s.set, p, s.now) && someUpdated(1)(s) && p.Labels[keys.SpecifiedDelete] == "" {
					return remove(ctx, c, p)
				}
			}
			return nil
		}, "the budget holds"},
		{"deletes the only ready pod at scale-in", "few are ready", func(ctx context.Context, c client.Client, s scene) error {
			for _, p := range s.own() {
				if len(s.own()) == 4 && *s.set.Spec.Replicas == 2 && p.Spec.Containers[0].Image == "app:1" {
					return remove(ctx, c, p)
				}
			}
			return nil
		}, "enough pods are ready"},
		{"creates one pod too many", "surge with re-create", func(ctx context.Context, c client.Client, s scene) error {
			if len(s.own()) <= 4 {
				return nil
			}
			return errors.Join(c.Create(ctx, podLike(s.own()[0])), c.Create(ctx, podLike(s.own()[0])))
		}, "never more pods than replicas and surge"},
		{"#1153: surges while paused", "paused surge", func(ctx context.Context, c client.Client, s scene) error {
			if p := s.firstPod(3); p != nil {
				return c.Create(ctx, podLike(p))
			}
			return nil
		}, "never more pods than replicas and surge"},
		{"updates a pod twice for a revision", "in place with partition", func(ctx context.Context, c client.Client, s scene) error {
			for _, p := range s.own() {
				if p.Spec.Containers[0].Image == "app:2" {
					return toImage(ctx, c, p, "app:3", "")
				}
			}
			return nil
		}, "a pod is updated once for a revision"},
		{"updates a pod to an unwanted revision", "in place with partition", func(ctx context.Context, c client.Client, s scene) error {
			if p := s.firstPod(5); p != nil {
				return toImage(ctx, c, p, "app:3", "web-another")
			}
			return nil
		}, "which is not wanted"},
		{"goes below the partition", "in place with partition", func(ctx context.Context, c client.Client, s scene) error {
			if p := s.firstPod(5); p != nil && s.set.Status.UpdatedReplicas == 2 {
				for _, p := range s.own() {
					if p.Spec.Containers[0].Image == "app:1" {
						return toImage(ctx, c, p, "app:2", s.set.Status.UpdateRevision)
					}
				}
			}
			return nil
		}, "the partition holds"},
		{"updates while paused", "paused", func(ctx context.Context, c client.Client, s scene) error {
			if slices.ContainsFunc(s.own(), func(p *corev1.Pod) bool { return !availableIn(s.set, p, s.now) }) {
				return nil // It would break the budget too.
			}
			for _, p := range s.own() {
				if s.set.Spec.UpdateStrategy.RollingUpdate.Paused && p.Spec.Containers[0].Image == "app:1" {
					return toImage(ctx, c, p, "app:2", s.set.Status.UpdateRevision)
				}
			}
			return nil
		}, "no update while paused"},
		{"deletes a pod that is not deletable", "scale out and in", func(ctx context.Context, c client.Client, s scene) error {
			if own := s.own(); len(own) > 0 && !availableIn(s.set, own[0], s.now) {
				return remove(ctx, c, own[0])
			}
			return nil
		}, "only deletable pods are deleted"},
		{"prepares the deletion of a pod that is not deletable", "scale-in with hooks", func(ctx context.Context, c client.Client, s scene) error {
			if p := s.firstPod(4); p != nil {
				return c.Patch(ctx, p, client.RawPatch(types.MergePatchType,
					fmt.Appendf(nil, `{"metadata":{"labels":{%q:"PreparingDelete"}}}`, keys.LifecycleState)))
			}
			return nil
		}, "only deletable pods are deleted"},
		{"deletes a pod that its hook holds", "scale-in with hooks", func(ctx context.Context, c client.Client, s scene) error {
			for _, p := range s.own() {
				if p.Labels[keys.LifecycleState] == "PreparingDelete" && p.Labels["hold"] != "" {
					return remove(ctx, c, p)
				}
			}
			return nil
		}, "hooks are never skipped"},
		{"updates a pod that its hook holds", "rollback midway with hooks", func(ctx context.Context, c client.Client, s scene) error {
			for _, p := range s.own() {
				if p.Labels[keys.LifecycleState] == "PreparingUpdate" && p.Labels["hold"] != "" {
					return toImage(ctx, c, p, "app:2", s.set.Status.UpdateRevision)
				}
			}
			return nil
		}, "hooks are never skipped"},
		{"deletes the pods of the highest cost", "scale-in order", func(ctx context.Context, c client.Client, s scene) error {
			for _, p := range s.own() {
				if costOf(p) != "" && len(s.own()) > int(*s.set.Spec.Replicas) {
					return remove(ctx, c, p)
				}
			}
			return nil
		}, "pods of lower deletion cost are deleted first"},
		{"updates pods without the priority first", "updates by priority", func(ctx context.Context, c client.Client, s scene) error {
			p := s.firstPod(4)
			if p == nil || p.Labels["tier"] != "" || len(slices.DeleteFunc(s.own(), func(p *corev1.Pod) bool { return p.Labels["tier"] == "" })) == 0 {
				return nil
			}
			wanted, err := wantedRevision(s.set)
			if err != nil || wanted.Name == p.Labels[keys.ControllerRevisionHash] {
				return err
			}
			return c.Patch(ctx, p, client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"labels":{%q:"PreparingUpdate"}}}`, keys.LifecycleState)))
		}, "pods of the priority are updated first"},
		{"deletes by name without the UID", "scale out and in", func(ctx context.Context, c client.Client, s scene) error {
			if p := s.firstPod(6); p != nil {
				return c.Delete(ctx, p)
			}
			return nil
		}, "deletions name the UID"},
		{"changes pods of others", "scale out and in", func(ctx context.Context, c client.Client, s scene) error {
			for _, p := range s.pods {
				if p.Name == foreign().Name {
					return c.Patch(ctx, p, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"mine":"now"}}}`)))
				}
			}
			return nil
		}, "others' objects are left alone"},
		{"deletes a PVC that a pod mounts", "PVCs that are reused", func(ctx context.Context, c client.Client, s scene) error {
			for _, pvc := range s.pvcs {
				if pvc.DeletionTimestamp == nil && s.firstPod(3) != nil {
					return remove(ctx, c, pvc)
				}
			}
			return nil
		}, "pods keep their PVCs"},
		{"deletes the PVC of a lost pod", "PVCs that are reused", func(ctx context.Context, c client.Client, s scene) error {
			for _, pvc := range s.pvcs {
				if !slices.ContainsFunc(s.own(), func(p *corev1.Pod) bool { return instanceID(p) == instanceID(pvc) }) {
					return remove(ctx, c, pvc)
				}
			}
			return nil
		}, "PVCs of lost pods are kept"},
		{"writes at each reconcile", "scale out and in", func(ctx context.Context, c client.Client, s scene) error {
			return c.Patch(ctx, s.set, client.RawPatch(types.MergePatchType,
				fmt.Appendf(nil, `{"metadata":{"annotations":{"seen":"%d"}}}`, s.now.UnixNano())))
		}, "did not come to rest"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			k := simulated(t)
			sound := k.New
			k.New = func(p sim.Process) (reconcile.Reconciler, error) {
				inner, err := sound(p)
				return rogue{inner, p, tt.habit}, err
			}
			r := sim.Run(t.Context(), k, findStory(t, tt.story), sim.Schedule{})
			require.ErrorContains(t, r.Err, tt.want)
		})
	}
}
