package persistentpodstate

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the name under which the controller writes.
const fieldOwner = client.FieldOwner("flotilla-persistentpodstate")

// applied is the result of a plan.
type applied struct {
	created, updated, removed bool
	// err is why a generated PersistentPodState could not be written.
	err error
}

// apply writes the generated PersistentPodState. It is idempotent: if the object already exists, is gone or has changed meanwhile, an event
// is coming.
func (r *Reconciler) apply(ctx context.Context, o observed, p planned) applied {
	var a applied
	var err error
	switch g := p.generation; {
	case g.create != nil:
		err = r.Client.Create(ctx, g.create.DeepCopy(), fieldOwner)
		a.created = err == nil
	case g.update != nil:
		err = r.Client.Patch(ctx, g.update.DeepCopy(), client.MergeFromWithOptions(o.pps, client.MergeFromWithOptimisticLock{}), fieldOwner)
		a.updated = err == nil
	case g.remove:
		err = r.Client.Delete(ctx, o.pps.DeepCopy(), client.Preconditions{UID: &o.pps.UID})
		a.removed = err == nil
	}
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.IsConflict(err) && !apierrors.IsNotFound(err) {
		a.err = fmt.Errorf("write PersistentPodState %s: %w", o.key, err)
	}
	return a
}
