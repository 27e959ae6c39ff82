package revision

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/expect"
)

// ErrCollision says that a revision of that name exists and holds another template. The caller counts it in its
// status.collisionCount and plans again: the count is part of the hash.
var ErrCollision = errors.New("name is taken by another template")

// ErrNameTaken says that a revision of that name and template exists and belongs to another owner: often a former object of
// the owner's name, whose revisions are still to be collected.
var ErrNameTaken = errors.New("one of a former object is still there")

// List returns owner's revisions in the order of revision.Sort. opts are ownership.OwnedBy, for the reader that it is. Where they
// are the cache's own objects, nobody may change them.
func List(ctx context.Context, r client.Reader, owner metav1.Object, opts ...client.ListOption) ([]*appsv1.ControllerRevision, error) {
	var all appsv1.ControllerRevisionList
	if err := r.List(ctx, &all, opts...); err != nil {
		return nil, fmt.Errorf("list revisions: %w", err)
	}
	var out []*appsv1.ControllerRevision
	for i := range all.Items {
		if metav1.IsControlledBy(&all.Items[i], owner) {
			out = append(out, &all.Items[i])
		}
	}
	Sort(out)
	return out, nil
}

// Orphans returns the revisions of nobody that a former object of owner's name has left, as a deletion that orphans does: those
// that the selector selects and that have names of owner's. An owner that adopts them, as podcontrol.Writer does it, knows what
// the pods of that object are at, because revision.Next finds a revision by what it holds. r is a cache, and what comes is its
// own.
func Orphans(ctx context.Context, r client.Reader, owner metav1.Object, by *metav1.LabelSelector) ([]*appsv1.ControllerRevision, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil, nil //nolint:nilerr // Admission lets no such selector pass; it selects nothing.
	}
	var all appsv1.ControllerRevisionList
	err = r.List(ctx, &all, client.InNamespace(owner.GetNamespace()), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list revisions of nobody: %w", err)
	}
	var out []*appsv1.ControllerRevision
	for i := range all.Items {
		is := &all.Items[i]
		if metav1.GetControllerOfNoCopy(is) == nil && is.DeletionTimestamp == nil && is.Name == owner.GetName()+"-"+Short(is.Name) {
			out = append(out, is)
		}
	}
	Sort(out)
	return out, nil
}

// Writer writes revisions. It may be used concurrently.
type Writer struct {
	// Client writes.
	Client client.Writer
	// Live reads from the apiserver, past any cache. It is asked only when a name turns out to be taken.
	Live client.Reader
	// Expect is told of every write.
	Expect *expect.Store
}

// Write does what step says for owner. A revision that exists already with the wanted data and owner is success: an
// earlier reconcile created it and the cache has not shown it. Errors are ErrCollision, ErrNameTaken and those of the apiserver;
// Expect is told of a namespace that is being deleted.
func (w Writer) Write(ctx context.Context, owner types.UID, step Step) error {
	switch step.Change {
	case Create:
		is, err := w.create(ctx, step.Revision)
		if err != nil {
			w.Expect.Refused(owner, err)
			return fmt.Errorf("create revision %s: %w", step.Revision.Name, err)
		}
		w.Expect.Created(owner, is)
	case Renew:
		is := step.Revision.DeepCopy()
		// The version makes the patch fail when somebody else has renumbered the history meanwhile.
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": is.ResourceVersion, "annotations": is.Annotations},
			"revision": is.Revision,
		})
		if err != nil {
			return fmt.Errorf("marshal patch of revision %s: %w", is.Name, err)
		}
		if err := w.Client.Patch(ctx, is, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("renew revision %s: %w", step.Revision.Name, err)
		}
		w.Expect.Written(owner, is)
	case Keep:
	}
	return nil
}

// create returns the revision as the apiserver has it.
func (w Writer) create(ctx context.Context, want *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	is := want.DeepCopy()
	err := w.Client.Create(ctx, is)
	if !apierrors.IsAlreadyExists(err) {
		return is, err
	}
	is = &appsv1.ControllerRevision{}
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(want), is); err != nil {
		return nil, fmt.Errorf("get the one that exists: %w", err)
	}
	switch {
	case !Equal(is, want):
		return nil, ErrCollision
	case !sameOwner(is, want):
		return nil, ErrNameTaken
	}
	return is, nil
}

func sameOwner(a, b metav1.Object) bool {
	x, y := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return x != nil && y != nil && x.UID == y.UID
}
