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

	"github.com/flotilla-io/flotilla/pkg/index"
)

// ErrCollision says that a revision of that name exists and holds another template, or belongs to another owner. The
// caller counts it in its status.collisionCount and plans again: the count is part of the hash.
var ErrCollision = errors.New("revision name is taken by another template")

// List returns owner's revisions in the order of Sort, from a reader that has index.Owner for ControllerRevisions. They
// are the cache's own objects: don't change them.
func List(ctx context.Context, r client.Reader, owner metav1.Object) ([]*appsv1.ControllerRevision, error) {
	return list(ctx, r, owner, client.MatchingFields{index.Owner: string(owner.GetUID())}, client.UnsafeDisableDeepCopy)
}

// ListLive is List from the apiserver, for when the cache is too old. It reads all revisions of the namespace.
func ListLive(ctx context.Context, r client.Reader, owner metav1.Object) ([]*appsv1.ControllerRevision, error) {
	return list(ctx, r, owner)
}

func list(ctx context.Context, r client.Reader, owner metav1.Object, opts ...client.ListOption) ([]*appsv1.ControllerRevision, error) {
	var all appsv1.ControllerRevisionList
	if err := r.List(ctx, &all, append(opts, client.InNamespace(owner.GetNamespace()))...); err != nil {
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

// Write does what step says and returns the revision as the apiserver has it. One that exists already with the wanted
// data and owner is success: an earlier pass made it and the cache has not shown it. live reads from the apiserver and
// is only asked then.
func Write(ctx context.Context, w client.Writer, live client.Reader, step Step) (*appsv1.ControllerRevision, error) {
	want := step.Revision
	switch step.Change {
	case Create:
		made := want.DeepCopy()
		err := w.Create(ctx, made)
		if err == nil {
			return made, nil
		}
		if !apierrors.IsAlreadyExists(err) {
			return nil, fmt.Errorf("create revision %s: %w", want.Name, err)
		}
		var is appsv1.ControllerRevision
		if err := live.Get(ctx, client.ObjectKeyFromObject(want), &is); err != nil {
			return nil, fmt.Errorf("get revision %s: %w", want.Name, err)
		}
		if !Equal(&is, want) || !sameOwner(&is, want) {
			return nil, fmt.Errorf("create revision %s: %w", want.Name, ErrCollision)
		}
		return &is, nil
	case Renew:
		// The version makes the patch fail when somebody else has renumbered the history meanwhile.
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": want.ResourceVersion, "annotations": want.Annotations},
			"revision": want.Revision,
		})
		if err != nil {
			return nil, fmt.Errorf("marshal patch of revision %s: %w", want.Name, err)
		}
		made := want.DeepCopy()
		if err := w.Patch(ctx, made, client.RawPatch(types.MergePatchType, patch)); err != nil {
			return nil, fmt.Errorf("renew revision %s: %w", want.Name, err)
		}
		return made, nil
	case Keep:
	}
	return want, nil
}

func sameOwner(a, b metav1.Object) bool {
	x, y := metav1.GetControllerOf(a), metav1.GetControllerOf(b)
	return x != nil && y != nil && x.UID == y.UID
}
