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

	"github.com/flotilla-io/flotilla/pkg/control/expect"
)

// ErrCollision means that a revision with that name exists but has another template. The caller increments status.collisionCount and plans
// again: the count is part of the hash.
var ErrCollision = errors.New("the name is taken by another template")

// ErrNameTaken means that a revision with that name and template exists but has another owner, often an earlier object with the owner's name
// whose revisions have not been garbage collected yet.
var ErrNameTaken = errors.New("a revision of a previous object still exists")

// List returns owner's revisions in the order of revision.Sort. opts come from ownership.OwnedBy for this reader. Objects from a cache are not
// copied and must not be changed.
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

// Orphans returns the revisions that an earlier object with owner's name has left after a delete with propagation policy Orphan: they have no
// controller, the selector matches them, and their names have owner's name as prefix. After adopting them the owner knows the revisions of that
// object's pods, because revision.Next finds a revision by its template. Objects from a cache are not copied and must not be changed.
func Orphans(ctx context.Context, r client.Reader, owner metav1.Object, by *metav1.LabelSelector) ([]*appsv1.ControllerRevision, error) {
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return nil, nil //nolint:nilerr // Admission rejects an invalid selector; it matches nothing.
	}
	var all appsv1.ControllerRevisionList
	err = r.List(ctx, &all, client.InNamespace(owner.GetNamespace()), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list orphaned revisions: %w", err)
	}
	var out []*appsv1.ControllerRevision
	for i := range all.Items {
		orphan := &all.Items[i]
		if metav1.GetControllerOfNoCopy(orphan) == nil && orphan.DeletionTimestamp == nil && orphan.Name == owner.GetName()+"-"+Short(orphan.Name) {
			out = append(out, orphan)
		}
	}
	Sort(out)
	return out, nil
}

// Writer writes revisions. It may be used concurrently.
type Writer struct {
	// Client sends the writes.
	Client client.Writer
	// Live reads from the API server. It is used only when a name is taken.
	Live client.Reader
	// Expect records every write.
	Expect *expect.Store
	// TakeOver also makes owner the controller of a revision with the wanted name and template that has none, or whose controller was an
	// earlier object with owner's kind and name. Without it, that is ErrNameTaken until the garbage collector has deleted the revision.
	TakeOver bool
}

// Write applies step for owner. It succeeds if a revision with the wanted data and owner already exists: an earlier reconcile created it and the
// cache doesn't show it yet. Errors are ErrCollision, ErrNameTaken and those of the API server; Expect records a terminating namespace.
func (w Writer) Write(ctx context.Context, owner types.UID, step Step) error {
	switch step.Change {
	case Create:
		created, err := w.create(ctx, step.Revision)
		if err != nil {
			w.Expect.Refused(owner, err)
			return fmt.Errorf("create revision %s: %w", step.Revision.Name, err)
		}
		w.Expect.Created(owner, created)
	case Renew:
		revision := step.Revision.DeepCopy()
		// The version makes the patch fail if another writer has renumbered the history in the meantime.
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": revision.ResourceVersion, "annotations": revision.Annotations},
			"revision": revision.Revision,
		})
		if err != nil {
			return fmt.Errorf("marshal patch of revision %s: %w", revision.Name, err)
		}
		if err := w.Client.Patch(ctx, revision, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return fmt.Errorf("renew revision %s: %w", step.Revision.Name, err)
		}
		w.Expect.Written(owner, revision)
	case Keep:
	}
	return nil
}

// create returns the revision from the API server.
func (w Writer) create(ctx context.Context, want *appsv1.ControllerRevision) (*appsv1.ControllerRevision, error) {
	revision := want.DeepCopy()
	err := w.Client.Create(ctx, revision)
	if !apierrors.IsAlreadyExists(err) {
		return revision, err
	}
	revision = &appsv1.ControllerRevision{}
	if err := w.Live.Get(ctx, client.ObjectKeyFromObject(want), revision); err != nil {
		return nil, fmt.Errorf("get the existing one: %w", err)
	}
	switch owned := sameOwner(revision, want); {
	case !Equal(revision, want):
		return nil, ErrCollision
	case w.TakeOver && revision.DeletionTimestamp == nil && (succeeds(want, revision) || owned && !labeled(revision, want)):
		return revision, w.takeOver(ctx, revision, want)
	case !owned:
		return nil, ErrNameTaken
	}
	return revision, nil
}

// takeOver makes the wanted owner the controller of an existing revision, with the labels by which its cache finds it.
func (w Writer) takeOver(ctx context.Context, existing, want *appsv1.ControllerRevision) error {
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{
			"resourceVersion": existing.ResourceVersion, "labels": want.Labels, "ownerReferences": want.OwnerReferences,
		},
		"revision": want.Revision,
	})
	if err != nil {
		return fmt.Errorf("marshal patch: %w", err)
	}
	if err := w.Client.Patch(ctx, existing, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("take over the existing one: %w", err)
	}
	return nil
}

// succeeds reports whether the owner of a may take over b: b has no controller, or an earlier object with the same kind and name.
func succeeds(a, b metav1.Object) bool {
	x, y := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return y == nil || x != nil && x.UID != y.UID && x.APIVersion == y.APIVersion && x.Kind == y.Kind && x.Name == y.Name
}

// labeled reports whether a has the labels of b.
func labeled(a, b metav1.Object) bool {
	for key, value := range b.GetLabels() {
		if have, ok := a.GetLabels()[key]; !ok || have != value {
			return false
		}
	}
	return true
}

func sameOwner(a, b metav1.Object) bool {
	x, y := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return x != nil && y != nil && x.UID == y.UID
}
