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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/expect"
)

// ErrTaken says that a name is in use by an object of somebody else.
var ErrTaken = errors.New("name is taken by an object of another owner")

// Client is what a Writer needs of a client.
type Client interface {
	client.Writer
	client.SubResourceClientConstructor
}

// Writer writes pods and claims. It may be used concurrently.
type Writer struct {
	// Client writes.
	Client Client
	// Live reads from the apiserver, past any cache. It is asked only when a name turns out to be taken, and when the answer to
	// a write leaves open whether it was done.
	Live client.Reader
	// Expect is told of every write.
	Expect *expect.Store
	// Parallel is how many requests run at once; 0 means the constant Parallel.
	Parallel int
}

// PodCreate is a pod to create, after the claims that it mounts. The pod has a controller reference to its owner, and claims have
// one if they go with it.
type PodCreate struct {
	Pod *corev1.Pod
	// Claims are those that have to be created; claims that exist are left out.
	Claims []*corev1.PersistentVolumeClaim
	// Then makes a patch of the pod as the apiserver has just made it, to be sent at once; nil for none. It is not sent to a
	// pod that was there already, and a pod whose patch comes to nothing is created all the same: a later reconcile sees what it
	// lacks.
	Then func(made *corev1.Pod) (Patch, error)
}

// Patch is a change of one object.
type Patch struct {
	Object client.Object
	Type   types.PatchType
	Data   []byte
	// Subresource is where the patch is sent to, "status" or "resize"; empty for the object itself. The status of a pod
	// takes labels and annotations as well.
	Subresource string
	// Then is sent to the same object if this patch was accepted; nil if there is no more. Its Object is not read.
	Then *Patch
}

// Result says what came of a class of writes.
type Result struct {
	// Done are the names of the objects that are now as wished, in the order asked for.
	Done []string
	// Skipped is how many were left out because the world has moved on.
	Skipped int
	// Refused are the answers to writes that a disruption budget or a guard of somebody else refuses for now. They stop no other.
	Refused []string
	// Err holds the errors, nil if there was none; with more than five it shows five and counts the rest.
	Err error
}

// Create makes pods for owner, each after its claims.
func (w *Writer) Create(ctx context.Context, owner types.UID, births []PodCreate) Result {
	return w.each(ctx, len(births), 1, func(ctx context.Context, i int) (string, error) {
		b := births[i]
		for _, c := range b.Claims {
			if err := w.create(ctx, owner, c, nil); err != nil {
				return b.Pod.Name, fmt.Errorf("create claim %s: %w", c.Name, err)
			}
		}
		if err := w.create(ctx, owner, b.Pod, b.Then); err != nil {
			return b.Pod.Name, fmt.Errorf("create pod %s: %w", b.Pod.Name, err)
		}
		return b.Pod.Name, nil
	})
}

// CreateClaims makes claims for pods of owner that are there already.
func (w *Writer) CreateClaims(ctx context.Context, owner types.UID, claims []*corev1.PersistentVolumeClaim) Result {
	return w.each(ctx, len(claims), 1, func(ctx context.Context, i int) (string, error) {
		if err := w.create(ctx, owner, claims[i], nil); err != nil {
			return claims[i].Name, fmt.Errorf("create claim %s: %w", claims[i].Name, err)
		}
		return claims[i].Name, nil
	})
}

func (w *Writer) create(ctx context.Context, owner types.UID, o client.Object, then func(*corev1.Pod) (Patch, error)) error {
	if w.Expect.Terminating(owner) > 0 {
		return errSkip
	}
	made := o.DeepCopyObject().(client.Object)
	err := w.Client.Create(ctx, made)
	switch {
	case err == nil:
		w.Expect.Created(owner, made)
		if pod, isPod := made.(*corev1.Pod); isPod && then != nil {
			w.follow(ctx, owner, pod, then)
		}
		return nil
	case w.Expect.Refused(owner, err):
		return errSkip
	case !apierrors.IsAlreadyExists(err) && !unclear(err):
		return err
	}
	is := o.DeepCopyObject().(client.Object)
	switch lost := w.Live.Get(ctx, client.ObjectKeyFromObject(o), is); {
	case apierrors.IsNotFound(lost) && unclear(err):
		return err
	case lost != nil:
		is.SetUID("")
		w.Expect.Unclear(owner, is)
		return fmt.Errorf("%w; get what has its name: %w", err, lost)
	}
	// What is made for nobody in particular, as claims that outlive their owner, is as good if it is there.
	if ref := metav1.GetControllerOf(is); metav1.GetControllerOf(o) != nil && (ref == nil || ref.UID != owner) {
		return ErrTaken
	}
	w.Expect.Created(owner, is)
	return nil
}

// follow sends what is to be sent after a creation, and lets it be if that fails.
func (w *Writer) follow(ctx context.Context, owner types.UID, made *corev1.Pod, then func(*corev1.Pod) (Patch, error)) {
	p, err := then(made)
	if err == nil && w.patch(ctx, made, &p) == nil {
		w.Expect.Written(owner, made)
	}
}

// Delete deletes objects of owner, and only these: another object that took a name meanwhile is left alone. So is a pod
// that has changed since it was seen: after a failover, with a cache that lags, it may be one that is not to go.
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
		case isPod && guarded(err):
			return o.GetName(), refusedError{fmt.Errorf("delete %s: %w", o.GetName(), err)}
		case err == nil, apierrors.IsNotFound(err):
		case unclear(err):
			is, lost := w.lookUp(ctx, o)
			if lost != nil {
				w.Expect.Unclear(owner, o)
				return o.GetName(), fmt.Errorf("delete %s: %w; get it: %w", o.GetName(), err, lost)
			}
			if is != nil && is.GetDeletionTimestamp() == nil {
				return o.GetName(), fmt.Errorf("delete %s: %w", o.GetName(), err)
			}
		default:
			return o.GetName(), fmt.Errorf("delete %s: %w", o.GetName(), err)
		}
		w.Expect.Deleted(owner, o)
		return o.GetName(), nil
	})
}

// Patch changes objects of owner. The objects given are not changed. One is done when all of its patches are accepted.
func (w *Writer) Patch(ctx context.Context, owner types.UID, patches []Patch) Result {
	return w.each(ctx, len(patches), w.parallel(), func(ctx context.Context, i int) (string, error) {
		o := patches[i].Object.DeepCopyObject().(client.Object)
		for p := &patches[i]; p != nil; p = p.Then {
			version := o.GetResourceVersion()
			switch err := w.patch(ctx, o, p); {
			case err == nil:
				w.Expect.Written(owner, o)
			case overBudget(err):
				return o.GetName(), refusedError{err}
			case !errors.Is(err, errSkip) && unclear(err):
				return o.GetName(), w.expectPatched(ctx, owner, o, version, err)
			default:
				return o.GetName(), err
			}
		}
		return o.GetName(), nil
	})
}

// expectPatched expects what the apiserver has of o, if that is no longer the version that was patched: a patch whose answer was
// lost may have taken a pod out of service. Who has changed it is open, so the patch is an error all the same.
func (w *Writer) expectPatched(ctx context.Context, owner types.UID, o client.Object, version string, err error) error {
	is, lost := w.lookUp(ctx, o)
	if lost != nil {
		w.Expect.Unclear(owner, o)
		return fmt.Errorf("%w; get it: %w", err, lost)
	}
	if is != nil && is.GetResourceVersion() != version {
		w.Expect.Written(owner, is)
	}
	return err
}

// lookUp returns o as the apiserver has it, nil if it is gone, also when another object has its name.
func (w *Writer) lookUp(ctx context.Context, o client.Object) (client.Object, error) {
	is := o.DeepCopyObject().(client.Object)
	is.SetDeletionTimestamp(nil) // Decoding leaves what the answer lacks.
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(o), is); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, err
	case is.GetUID() != o.GetUID():
		return nil, nil
	}
	return is, nil
}

// Adopt makes owner, as it was seen, the controller of objects that nobody controls. The apiserver is asked first whether it is
// still the same and stays: what an owner adopts that goes would go with it.
func (w *Writer) Adopt(ctx context.Context, owner client.Object, kind schema.GroupVersionKind, objects []client.Object) Result {
	if len(objects) == 0 {
		return Result{}
	}
	is := owner.DeepCopyObject().(client.Object)
	switch err := w.Live.Get(ctx, client.ObjectKeyFromObject(owner), is); {
	case apierrors.IsNotFound(err), err == nil && (is.GetUID() != owner.GetUID() || is.GetDeletionTimestamp() != nil):
		return Result{Skipped: len(objects)}
	case err != nil:
		return Result{Err: fmt.Errorf("look whether %s may adopt: %w", owner.GetName(), err)}
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
		if err := w.patch(ctx, o, &Patch{Type: types.StrategicMergePatchType, Data: data}); err != nil {
			return o.GetName(), err
		}
		w.Expect.Created(owner.GetUID(), o) // The cache has to show it as the owner's.
		return o.GetName(), nil
	})
}

// unclear tells whether an answer leaves open that the write was done: there was none, or one of a server that broke down
// on the way. Who would try a creation again under another name then might have one object too many, and who would plan from
// a cache that does not show a deletion yet, take one pod too many.
func unclear(err error) bool {
	var status apierrors.APIStatus
	return !errors.As(err, &status) || status.Status().Code >= http.StatusInternalServerError
}

// patch sends one patch to o, which becomes what the apiserver made of it.
func (w *Writer) patch(ctx context.Context, o client.Object, p *Patch) error {
	var err error
	if p.Subresource == "" {
		err = w.Client.Patch(ctx, o, client.RawPatch(p.Type, p.Data))
	} else {
		err = w.Client.SubResource(p.Subresource).Patch(ctx, o, client.RawPatch(p.Type, p.Data))
	}
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err) && !noEndpoint(err), otherUID(err):
		return errSkip
	case err != nil:
		return fmt.Errorf("patch %s: %w", o.GetName(), err)
	}
	return nil
}

// otherUID tells whether a patch was refused because another object has the name: to the apiserver a UID in a patch is a
// field that can't change, as in kube 1.36.
func otherUID(err error) bool {
	var status apierrors.APIStatus
	return apierrors.IsInvalid(err) && errors.As(err, &status) && status.Status().Details != nil &&
		slices.ContainsFunc(status.Status().Details.Causes, func(c metav1.StatusCause) bool { return c.Field == "metadata.uid" })
}

// noEndpoint tells an apiserver that has no such subresource from one that has no such object: only the latter names it.
func noEndpoint(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		return false
	}
	d := status.Status().Details
	return d == nil || d.Name == "" || apierrors.IsUnexpectedServerError(err)
}
