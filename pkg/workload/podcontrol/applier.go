package podcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Applier applies the plan of one workload. All writes are idempotent, so a reconcile after a crash or a conflict may repeat them.
type Applier struct {
	// Writer sends the requests.
	Writer *Writer
	// Owner is the workload's UID.
	Owner types.UID
	// Hooks are the workload's lifecycle hooks.
	Hooks lifecycle.Hooks
	// Labels are the labels that record a pod's revision.
	Labels podset.RevisionLabels
	// Guards are consulted before pods are deleted or updated.
	Guards podwebhook.Guards
	// Memory keeps the names of pods that could not be created; nil for kinds whose pod names are not random.
	Memory *podset.Memory
}

// EnsureRevision makes the update revision the newest, and reports whether the reconcile may continue. With an invalid spec nothing is written.
func (a Applier) EnsureRevision(ctx context.Context, p *podset.Plan, r *Results) bool {
	if p.InvalidSpec != "" {
		return false
	}
	err := revision.Writer{Client: a.Writer.Client, Live: a.Writer.Live, Expect: a.Writer.Expect}.Write(ctx, a.Owner, p.Revision)
	switch {
	case errors.Is(err, revision.ErrCollision), errors.Is(err, revision.ErrNameTaken):
		r.Collided = true
	case a.Writer.Expect.Terminating(a.Owner) == 0: // Nothing can be created in a terminating namespace; that is not a failure.
		r.Revision = err
	}
	return err == nil
}

// Release removes the controller reference from pods that the selector no longer matches.
func (a Applier) Release(ctx context.Context, p *podset.Plan, r *Results) {
	patches := make([]Patch, 0, len(p.Release))
	for _, pod := range p.Release {
		patch, err := OwnerPatch(pod, []types.UID{a.Owner})
		if err != nil {
			r.Rest = errors.Join(r.Rest, err)
			return
		}
		patches = append(patches, patch)
	}
	r.Add(a.Writer.Patch(ctx, a.Owner, patches))
}

// OwnerPatch replaces the owner references with the UIDs in from, if the object is still at the observed version. A late patch must not set an
// owner that is gone, because the object would be garbage collected.
func OwnerPatch(o client.Object, from []types.UID, to ...metav1.OwnerReference) (Patch, error) {
	refs := make([]any, 0, len(from)+len(to))
	for _, uid := range from {
		refs = append(refs, map[string]any{"$patch": "delete", "uid": uid})
	}
	for _, ref := range to {
		refs = append(refs, ref)
	}
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "ownerReferences": refs,
	}})
	if err != nil {
		return Patch{}, fmt.Errorf("marshal owners of %s: %w", o.GetName(), err)
	}
	return Patch{Object: o, Patch: podpatch.Patch{Type: types.StrategicMergePatchType, Data: data}}, nil
}

// Delete applies the steps that delete pods, and ignores all others.
func (a Applier) Delete(ctx context.Context, steps []podset.Step, r *Results) {
	for i := range classes {
		c := &classes[i]
		if c.Kind != rollout.StepDelete {
			continue
		}
		list, refusals := a.allowed(ctx, c.filter(steps))
		pods := make([]client.Object, 0, len(list))
		for _, s := range list {
			pods = append(pods, s.Pod.Object)
		}
		result := a.Writer.Delete(ctx, a.Owner, pods)
		result.Refused = append(result.Refused, refusals...)
		r.put(c.Class, result)
	}
}

// Patch applies the steps that patch pods: requests to lifecycle hooks, and the writes of in-place updates.
func (a Applier) Patch(ctx context.Context, p *podset.Plan, now time.Time, r *Results) {
	for i := range classes {
		if c := &classes[i]; c.patch != nil {
			r.put(c.Class, a.patch(ctx, c, p, now))
		}
	}
}

func (a Applier) patch(ctx context.Context, c *class, p *podset.Plan, now time.Time) Result {
	steps, refusals := a.allowed(ctx, c.filter(p.Steps))
	patches := make([]Patch, 0, len(steps))
	for _, s := range steps {
		all, err := c.patch(a, p, s, now)
		if err != nil {
			return Result{Err: err}
		}
		if patch := chain(s.Pod.Object, all); patch != nil {
			patch.Ask = a.guardCheck(&s)
			patches = append(patches, *patch)
		}
	}
	result := a.Writer.Patch(ctx, a.Owner, patches)
	result.Refused = append(result.Refused, refusals...)
	return result
}

// Patches returns the requests for a step that patches a pod.
func (a Applier) Patches(p *podset.Plan, s podset.Step, now time.Time) ([]podpatch.Patch, error) {
	i := slices.IndexFunc(classes, func(c class) bool { return c.has(&s) && c.patch != nil })
	if i < 0 {
		return nil, nil
	}
	return classes[i].patch(a, p, s, now)
}

// chain links patches so that they are sent one after the other, and returns the first; nil if there are none.
func chain(pod *corev1.Pod, all []podpatch.Patch) *Patch {
	var first *Patch
	for _, p := range slices.Backward(all) {
		first = &Patch{Object: pod, Patch: p, Then: first}
	}
	return first
}

// Create applies the steps that create pods. build returns the pod for a step, given the name and the template of its revision.
func (a Applier) Create(
	ctx context.Context, p *podset.Plan, template *corev1.PodTemplateSpec, now time.Time, r *Results,
	build func(s podset.Step, rev string, template *corev1.PodTemplateSpec) PodCreate,
) {
	steps := p.Of(rollout.StepCreate)
	if len(steps) == 0 {
		a.Memory.KeepNames(nil)
		return
	}
	var current *corev1.PodTemplateSpec
	if slices.ContainsFunc(steps, func(s podset.Step) bool { return s.Old }) {
		var err error
		if current, err = revision.PodTemplate(p.Current); err != nil {
			r.put(Class{Kind: rollout.StepCreate}, Result{Err: err})
			return
		}
	}
	creates, names := make([]PodCreate, 0, len(steps)), make([]string, 0, len(steps))
	for _, s := range steps {
		rev, source := p.Revision.Revision.Name, template
		if s.Old {
			rev, source = p.Current.Name, current
		}
		c := build(s, rev, source)
		c.Then = a.IntoService(c.Pod, now)
		creates, names = append(creates, c), append(names, c.Pod.Name)
	}
	a.CreatePods(ctx, creates, r)
	a.Memory.KeepNames(r.Of(rollout.StepCreate, "").Unused(names))
}

// CreatePods creates pods and records the result under the create steps. It is for kinds whose pods have no revision.
func (a Applier) CreatePods(ctx context.Context, creates []PodCreate, r *Results) {
	r.put(Class{Kind: rollout.StepCreate}, a.Writer.Create(ctx, a.Owner, creates))
}

// IntoService returns a patch that opens the readiness gates of a pod at its creation; nil if the pod has none or a lifecycle hook has to answer
// first. Opening the gates later, while the pod starts, would cost all watchers one more update.
func (a Applier) IntoService(pod *corev1.Pod, now time.Time) func(*corev1.Pod) (podpatch.Patch, error) {
	if a.Hooks.HoldsService() || lifecycle.Of(pod) == pods.LifecycleNormal {
		return nil
	}
	return func(created *corev1.Pod) (podpatch.Patch, error) {
		return inplace.MarkReady(created, a.Hooks.Serve(created, now), now)
	}
}

// DeleteRevisions deletes revisions beyond the limit.
func (a Applier) DeleteRevisions(ctx context.Context, p *podset.Plan, r *Results) {
	r.Add(a.Writer.Delete(ctx, a.Owner, Objects(p.RevisionsToDelete)))
}

// Objects returns a list as client.Objects.
func Objects[O client.Object](list []O) []client.Object {
	out := make([]client.Object, 0, len(list))
	for _, o := range list {
		out = append(out, o)
	}
	return out
}
