package podcontrol

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/expect"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// ErrTaken means that a name is in use by an object of another owner.
var ErrTaken = errors.New("the name is taken by an object with another owner")

// Client is what a Writer needs of a client.
type Client interface {
	client.Writer
	client.SubResourceClientConstructor
	// GroupVersionKindFor is the method of client.Client.
	GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error)
}

// Writer writes pods and PVCs. It may be used concurrently.
type Writer struct {
	// Client sends the writes.
	Client Client
	// Live reads from the API server. It is used only when a name is taken, and when the response to a write leaves open whether it succeeded.
	Live client.Reader
	// Expect records every write.
	Expect *expect.Store
	// Parallel is how many requests run at once; 0 means control.Parallel.
	Parallel int
}

// PodCreate is a pod to create, after the PVCs that it mounts. The pod has a controller reference to its owner; PVCs have one if they are to be
// deleted with the owner.
type PodCreate struct {
	Pod *corev1.Pod
	// PVCs are the missing PVCs.
	PVCs []*corev1.PersistentVolumeClaim
	// Then returns a patch to send as soon as the pod is created; may be nil. It is not sent to a pod that already existed. If the patch fails,
	// the create is still a success, and a later reconcile repeats the patch.
	Then func(created *corev1.Pod) (podpatch.Patch, error)
}

// Patch is a change of one object.
type Patch struct {
	podpatch.Patch

	Object client.Object
	// Ask is called before the first patch of an object is sent, and may refuse it; may be nil.
	Ask func(context.Context) error
	// Invalid is called if the API server rejects the object with the patch as invalid; the patch is then skipped. If nil, that is an error. It may
	// be called concurrently.
	Invalid func(error)
	// Then is sent to the same object if this patch succeeds; nil if it is the last. Its Object is not read.
	Then *Patch
}

// Result is the result of a class of writes.
type Result struct {
	// Done are the names of the objects that were written or needed no write, in the order of the input.
	Done []string
	// Skipped is how many were skipped because the object has changed meanwhile.
	Skipped int
	// Refused are the messages of writes that a disruption budget or an admission webhook refuses temporarily. They don't stop others.
	Refused []string
	// Taken are the names that objects of other owners have; another attempt needs other names.
	Taken []string
	// Err joins the errors; nil if there were none. Its message has the first five and the number of the others.
	Err error
}

// Unused returns those of names that are neither created nor taken; names are all names that were to be created.
func (r Result) Unused(names []string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(r.Done, n) || slices.Contains(r.Taken, n) })
}

// Create creates pods for owner, each after its PVCs.
func (w *Writer) Create(ctx context.Context, owner types.UID, creates []PodCreate) Result {
	return w.each(ctx, len(creates), 1, func(ctx context.Context, i int) (string, error) {
		b := creates[i]
		for _, c := range b.PVCs {
			if err := w.create(ctx, owner, c, nil); err != nil {
				return b.Pod.Name, fmt.Errorf("create PVC %s: %w", c.Name, err)
			}
		}
		if err := w.create(ctx, owner, b.Pod, b.Then); err != nil {
			return b.Pod.Name, fmt.Errorf("create pod %s: %w", b.Pod.Name, err)
		}
		return b.Pod.Name, nil
	})
}

// CreatePVCs creates PVCs for existing pods of owner.
func (w *Writer) CreatePVCs(ctx context.Context, owner types.UID, pvcs []*corev1.PersistentVolumeClaim) Result {
	return w.each(ctx, len(pvcs), 1, func(ctx context.Context, i int) (string, error) {
		if err := w.create(ctx, owner, pvcs[i], nil); err != nil {
			return pvcs[i].Name, fmt.Errorf("create PVC %s: %w", pvcs[i].Name, err)
		}
		return pvcs[i].Name, nil
	})
}

func (w *Writer) create(ctx context.Context, owner types.UID, o client.Object, then func(*corev1.Pod) (podpatch.Patch, error)) error {
	if w.Expect.Terminating(owner) > 0 {
		return errSkip
	}
	created := o.DeepCopyObject().(client.Object)
	err := w.Client.Create(ctx, created)
	switch {
	case err == nil:
		w.Expect.Created(owner, created)
		if pod, isPod := created.(*corev1.Pod); isPod && then != nil {
			w.applyThen(ctx, owner, pod, then)
		}
		return nil
	case w.Expect.Refused(owner, err):
		return errSkip
	case !apierrors.IsAlreadyExists(err) && !ambiguous(err):
		return err
	}
	current := o.DeepCopyObject().(client.Object)
	switch getErr := w.Live.Get(ctx, client.ObjectKeyFromObject(o), current); {
	case apierrors.IsNotFound(getErr) && ambiguous(err):
		return err
	case getErr != nil:
		w.Expect.Ambiguous(owner, o)
		return fmt.Errorf("%w; get the object with its name: %w", err, getErr)
	}
	// An object without a controller, such as a PVC that outlives its owner, may exist already.
	if ref := metav1.GetControllerOf(current); metav1.GetControllerOf(o) != nil && (ref == nil || ref.UID != owner) {
		return ErrTaken
	}
	w.Expect.Created(owner, current)
	return nil
}

// applyThen sends the patch that follows a create, and ignores a failure.
func (w *Writer) applyThen(ctx context.Context, owner types.UID, created *corev1.Pod, then func(*corev1.Pod) (podpatch.Patch, error)) {
	p, err := then(created)
	if err == nil && w.patch(ctx, created, p) == nil {
		w.Expect.Written(owner, created)
	}
}

// Delete deletes objects of owner by UID, so that another object of the same name is left alone. A pod that has changed since it was observed is
// skipped: after a failover, with a stale cache, it may be one that should stay.
func (w *Writer) Delete(ctx context.Context, owner types.UID, objects []client.Object) Result {
	return w.each(ctx, len(objects), w.parallel(), func(ctx context.Context, i int) (string, error) {
		o := objects[i]
		uid, version := o.GetUID(), o.GetResourceVersion()
		seen := client.Preconditions{UID: &uid}
		_, isPod := o.(*corev1.Pod)
		if isPod {
			seen.ResourceVersion = &version
		}
		err := w.Client.Delete(ctx, o, seen)
		switch {
		case apierrors.IsConflict(err):
			return o.GetName(), errSkip
		case isPod && protected(err):
			return o.GetName(), refusedError{fmt.Errorf("delete %s: %w", o.GetName(), err)}
		case err == nil, apierrors.IsNotFound(err):
		case ambiguous(err):
			current, getErr := w.lookUp(ctx, o)
			if getErr != nil {
				w.Expect.Ambiguous(owner, o)
				return o.GetName(), fmt.Errorf("delete %s: %w; get it: %w", o.GetName(), err, getErr)
			}
			if current != nil && current.GetDeletionTimestamp() == nil {
				return o.GetName(), fmt.Errorf("delete %s: %w", o.GetName(), err)
			}
		default:
			return o.GetName(), fmt.Errorf("delete %s: %w", o.GetName(), err)
		}
		w.Expect.Deleted(owner, o)
		return o.GetName(), nil
	})
}

// Patch changes objects of owner. The input is not changed. An object is done when all of its patches have succeeded. The responses are requested
// as metadata: for a pod, that is several times less to encode and decode, and nothing else is used.
func (w *Writer) Patch(ctx context.Context, owner types.UID, patches []Patch) Result {
	return w.each(ctx, len(patches), w.parallel(), func(ctx context.Context, i int) (string, error) {
		o := patches[i].Object
		object, err := w.metadataOf(o)
		if err != nil {
			return o.GetName(), err
		}
		if ask := patches[i].Ask; ask != nil {
			if err := ask(ctx); err != nil {
				return o.GetName(), err
			}
		}
		for p := &patches[i]; p != nil; p = p.Then {
			version := object.ResourceVersion
			switch err := w.patch(ctx, object, p.Patch); {
			case err == nil:
				w.Expect.Written(owner, object)
			case overBudget(err):
				return o.GetName(), refusedError{err}
			case p.Invalid != nil && apierrors.IsInvalid(err):
				p.Invalid(err)
				return o.GetName(), errSkip
			case !errors.Is(err, errSkip) && ambiguous(err):
				return o.GetName(), w.expectPatched(ctx, owner, o, version, err)
			default:
				return o.GetName(), err
			}
		}
		return o.GetName(), nil
	})
}

// metadataOf returns what identifies an object, for a request whose response is metadata.
func (w *Writer) metadataOf(o client.Object) (*metav1.PartialObjectMetadata, error) {
	kind, err := w.Client.GroupVersionKindFor(o)
	if err != nil {
		return nil, fmt.Errorf("patch %s: %w", o.GetName(), err)
	}
	object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion(),
	}}
	object.SetGroupVersionKind(kind)
	return object, nil
}

// expectPatched expects the API server's version of o if it is no longer the one that was patched: a patch whose response was lost may have taken
// a pod out of service. It is unknown who changed it, so the patch is an error nevertheless.
func (w *Writer) expectPatched(ctx context.Context, owner types.UID, o client.Object, version string, err error) error {
	current, getErr := w.lookUp(ctx, o)
	if getErr != nil {
		w.Expect.Ambiguous(owner, o)
		return fmt.Errorf("%w; get it: %w", err, getErr)
	}
	if current != nil && current.GetResourceVersion() != version {
		w.Expect.Written(owner, current)
	}
	return err
}

// lookUp returns o from the API server; nil if it is gone, even if another object has its name.
func (w *Writer) lookUp(ctx context.Context, o client.Object) (client.Object, error) {
	current := o.DeepCopyObject().(client.Object)
	current.SetDeletionTimestamp(nil) // Decoding keeps fields that the response lacks.
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(o), current); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case current.GetUID() != o.GetUID():
		return nil, nil
	}
	return current, nil
}

// Adopt makes owner the controller of orphans. It first asks the API server whether the owner still exists and is not terminating: otherwise the
// orphans would be garbage collected with it.
func (w *Writer) Adopt(ctx context.Context, owner client.Object, kind schema.GroupVersionKind, objects []client.Object) Result {
	if len(objects) == 0 {
		return Result{}
	}
	current := owner.DeepCopyObject().(client.Object)
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(owner), current); {
	case apierrors.IsNotFound(err), err == nil && (current.GetUID() != owner.GetUID() || current.GetDeletionTimestamp() != nil):
		return Result{Skipped: len(objects)}
	case err != nil:
		return Result{Err: fmt.Errorf("check whether %s may adopt: %w", owner.GetName(), err)}
	}
	ref := metav1.NewControllerRef(owner, kind)
	return w.each(ctx, len(objects), w.parallel(), func(ctx context.Context, i int) (string, error) {
		o := objects[i].DeepCopyObject().(client.Object)
		data, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": o.GetUID(), "resourceVersion": o.GetResourceVersion(), "ownerReferences": []any{ref},
		}})
		if err != nil {
			return o.GetName(), fmt.Errorf("marshal owner of %s: %w", o.GetName(), err)
		}
		if err := w.patch(ctx, o, podpatch.Patch{Type: types.StrategicMergePatchType, Data: data}); err != nil {
			return o.GetName(), err
		}
		w.Expect.Created(owner.GetUID(), o) // The cache has to show it with this owner.
		return o.GetName(), nil
	})
}

// ambiguous reports whether the response leaves open whether the write succeeded: there was none, or it is a server error. Creating again under
// another name could make one object too many, and planning from a cache that doesn't show a delete yet could delete one pod too many.
func ambiguous(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// patch sends one patch to o, and decodes the response into o.
func (w *Writer) patch(ctx context.Context, o client.Object, p podpatch.Patch) error {
	var err error
	if p.Subresource == "" {
		err = w.Client.Patch(ctx, o, client.RawPatch(p.Type, p.Data))
	} else {
		err = w.Client.SubResource(p.Subresource).Patch(ctx, o, client.RawPatch(p.Type, p.Data))
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err) && !noEndpoint(err), ownership.IsOtherUID(err):
		return errSkip
	case err != nil:
		return fmt.Errorf("patch %s: %w", o.GetName(), err)
	}
	return nil
}

// noEndpoint reports whether the API server has no such subresource, rather than no such object: only a response about an object names it.
func noEndpoint(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d == nil || d.Name == "" || apierrors.IsUnexpectedServerError(err)
}
