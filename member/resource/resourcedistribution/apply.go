package resourcedistribution

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/go-multierror"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-resourcedistribution")

// noVersion is a resourceVersion that no object has. The apiserver refuses an apply with it if the object exists, and creates the object if it
// doesn't.
const noVersion = "1"

// outcome is the result of one write.
type outcome string

const (
	// done means that the copy is as it should be.
	done outcome = "done"
	// skipped means that the cache is older than the state that the write found. The next event triggers a reconcile.
	skipped outcome = "skipped"
	// taken means that there is an object that is not ours.
	taken outcome = "taken"
	// noNamespace means that the namespace is gone.
	noNamespace outcome = "no namespace"
	// failed means that the write failed; see the error.
	failed outcome = "failed"
)

// write is one write and its result.
type write struct {
	namespace string
	kind      appsv1beta1.ResourceDistributionConditionType
	do        func(context.Context) (outcome, error)

	outcome outcome
	err     error
}

// applied is the result of a plan, in the plan's order.
type applied struct{ writes []write }

// err returns why a reconcile must be repeated; nil if it need not be. If there are more than three errors, it includes the number of the
// others.
func (a applied) err() error {
	var all *multierror.Error
	for _, w := range a.writes {
		if w.err != nil {
			all = multierror.Append(all, w.err)
		}
	}
	if all == nil {
		return nil
	}
	const shown = 3
	all.ErrorFormat = func(errs []error) string {
		var lines []string
		for _, err := range errs[:min(shown, len(errs))] {
			lines = append(lines, err.Error())
		}
		if more := len(errs) - len(lines); more > 0 {
			lines = append(lines, fmt.Sprintf("and %d more", more))
		}
		return strings.Join(lines, "; ")
	}
	return all
}

// apply carries out a plan, idempotently. An error in one namespace does not stop the others.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	got, err := done, error(nil)
	if len(p.create)+len(p.update) > 0 {
		got, err = r.loadSource(ctx, &o)
	}
	// loaded wraps a write that needs the content of the source.
	loaded := func(w write) write {
		if got != done {
			w.kind, w.do = appsv1beta1.ResourceDistributionGetResourceFailed, func(context.Context) (outcome, error) { return got, err }
		}
		return w
	}
	var a applied
	for _, ns := range p.create {
		a.writes = append(a.writes, loaded(write{
			namespace: ns, kind: appsv1beta1.ResourceDistributionCreateResourceFailed,
			do: func(ctx context.Context) (outcome, error) { return r.create(ctx, o, ns) },
		}))
	}
	for _, h := range p.update {
		a.writes = append(a.writes, loaded(write{
			namespace: h.Namespace, kind: appsv1beta1.ResourceDistributionUpdateResourceFailed,
			do: func(ctx context.Context) (outcome, error) { return r.update(ctx, o, h) },
		}))
	}
	for _, h := range p.remove {
		a.writes = append(a.writes, write{
			namespace: h.Namespace, kind: appsv1beta1.ResourceDistributionDeleteResourceFailed,
			do: func(ctx context.Context) (outcome, error) { return r.remove(ctx, o, h) },
		})
	}
	var group errgroup.Group
	group.SetLimit(r.Parallel)
	for i := range a.writes {
		group.Go(func() error {
			w := &a.writes[i]
			w.outcome, w.err = w.do(ctx)
			return nil
		})
	}
	_ = group.Wait() // Each write has its own error.
	return a
}

// loadSource reads the content of a source. If the source differs from what the plan knows, the write is skipped: the source's next event triggers a
// reconcile.
func (r *Reconciler) loadSource(ctx context.Context, o *observed) (outcome, error) {
	s := o.rd.Spec.Source
	if s == nil {
		return done, nil
	}
	live := o.resource.empty()
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: s.Namespace, Name: s.Name}, live)
	switch {
	case apierrors.IsNotFound(err):
		return skipped, nil
	case err != nil:
		return failed, fmt.Errorf("get the source, %s in %s: %w", o.resource.id, s.Namespace, err)
	}
	h, err := newHeld(s.Kind, live)
	if err != nil {
		return failed, err
	}
	if h.UID != o.held[s.Namespace].UID || h.mutable() != o.resource.content {
		return skipped, nil
	}
	o.resource.object = contentOnly(live)
	return done, nil
}

// create creates a copy, or does nothing if there is already an object.
func (r *Reconciler) create(ctx context.Context, o observed, namespace string) (outcome, error) {
	u, err := o.resource.copyFor(o.rd, namespace)
	if err != nil {
		return failed, err
	}
	u.SetResourceVersion(noVersion)
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner)
	switch {
	case err == nil:
		child, err := o.resource.child(u)
		if err != nil {
			return failed, err
		}
		r.Expect.Created(o.rd.UID, child)
		return done, nil
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err):
		return r.checkExisting(ctx, o, namespace)
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return noNamespace, nil
	case apierrors.IsNotFound(err):
		return noNamespace, nil
	}
	return failed, fmt.Errorf("create %s in %s: %w", o.resource.id, namespace, err)
}

// checkExisting determines what to do about an object that the cache did not show.
func (r *Reconciler) checkExisting(ctx context.Context, o observed, namespace string) (outcome, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(o.resource.kind))
	err := r.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: o.resource.name}, live)
	switch {
	case apierrors.IsNotFound(err): // It is gone again.
		return failed, fmt.Errorf("create %s in %s: an object with that name was created and deleted meanwhile", o.resource.id, namespace)
	case err != nil:
		return failed, fmt.Errorf("get %s in %s: %w", o.resource.id, namespace, err)
	case !ours(o.rd, &held{ObjectMeta: live.ObjectMeta}):
		return taken, nil
	}
	return skipped, nil
}

// update turns a copy into what it should be, unless it has changed since it was read.
func (r *Reconciler) update(ctx context.Context, o observed, h *held) (outcome, error) {
	u, err := o.resource.copyFor(o.rd, h.Namespace)
	if err != nil {
		return failed, err
	}
	u.SetUID(h.UID)
	u.SetResourceVersion(h.ResourceVersion)
	err = r.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(u), fieldOwner, client.ForceOwnership)
	if err == nil {
		err = r.prune(ctx, o, u)
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return skipped, nil
	case err != nil:
		return failed, fmt.Errorf("change %s in %s: %w", o.resource.id, h.Namespace, err)
	}
	child, err := o.resource.child(u)
	if err != nil {
		return failed, err
	}
	r.Expect.Written(o.rd.UID, child)
	written := o.resource.empty()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, written); err != nil {
		return failed, fmt.Errorf("decode %s in %s: %w", o.resource.id, h.Namespace, err)
	}
	switch content, err := contentOf(written); {
	case err != nil:
		return failed, err
	case content != o.resource.content: // Somebody has set the type of a Secret, or immutable.
		return failed, fmt.Errorf("change %s in %s: it differs in immutable fields: delete it to have it re-created",
			o.resource.id, h.Namespace)
	}
	return done, nil
}

// prune removes what others have put into a copy outside its metadata, because a field that another manager also owns stays when it is no
// longer applied. u is the copy as it was applied, and is updated to the result.
func (r *Reconciler) prune(ctx context.Context, o observed, u *unstructured.Unstructured) error {
	want, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o.resource.object)
	if err != nil {
		return fmt.Errorf("convert %s: %w", o.resource.id, err)
	}
	patch := map[string]any{}
	for _, field := range []string{"data", "binaryData"} {
		current, _, _ := unstructured.NestedMap(u.Object, field)
		copied, _, _ := unstructured.NestedMap(want, field)
		extra := map[string]any{}
		for key := range current {
			if _, wanted := copied[key]; !wanted {
				extra[key] = nil
			}
		}
		if len(extra) > 0 {
			patch[field] = extra
		}
	}
	if len(patch) == 0 {
		return nil
	}
	patch["metadata"] = map[string]any{"uid": string(u.GetUID()), "resourceVersion": u.GetResourceVersion()}
	data, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("marshal patch: %w", err)
	}
	return r.Client.Patch(ctx, u, client.RawPatch(types.MergePatchType, data), fieldOwner)
}

// remove deletes a copy, and no other object of the same name.
func (r *Reconciler) remove(ctx context.Context, o observed, h *held) (outcome, error) {
	child := o.resource.empty()
	child.SetNamespace(h.Namespace)
	child.SetName(h.Name)
	child.SetUID(h.UID)
	child.SetOwnerReferences(h.OwnerReferences)
	err := r.Client.Delete(ctx, child, client.Preconditions{UID: &h.UID, ResourceVersion: &h.ResourceVersion})
	switch {
	case apierrors.IsConflict(err):
		return skipped, nil
	case client.IgnoreNotFound(err) != nil:
		return failed, fmt.Errorf("delete %s in %s: %w", o.resource.id, h.Namespace, err)
	}
	r.Expect.Deleted(o.rd.UID, child)
	return done, nil
}

// child returns the metadata of a copy as an object of its type, with which it can be looked up.
func (r resource) child(u *unstructured.Unstructured) (client.Object, error) {
	o := r.empty()
	o.SetName(u.GetName())
	o.SetNamespace(u.GetNamespace())
	o.SetUID(u.GetUID())
	o.SetResourceVersion(u.GetResourceVersion())
	o.SetOwnerReferences(u.GetOwnerReferences())
	if o.GetUID() == "" {
		return nil, errors.New("the apiserver's answer has no UID")
	}
	return o, nil
}

// namespaces returns the namespaces of the writes with an outcome, for one kind of condition or for all.
func (a applied) namespaces(want outcome, kind appsv1beta1.ResourceDistributionConditionType) []string {
	var out []string
	for _, w := range a.writes {
		if w.outcome == want && (kind == "" || w.kind == kind) {
			out = append(out, w.namespace)
		}
	}
	slices.Sort(out)
	return out
}

// reasonOf returns the reason of an error in one word.
func reasonOf(err error) string {
	if reason := apierrors.ReasonForError(err); reason != metav1.StatusReasonUnknown {
		return string(reason)
	}
	return reasonError
}
