package expect

import (
	"context"
	"fmt"
	"iter"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read reads owner, which is empty, and its children for a plan: from the cache, or from the apiserver if the cache has failed to
// show our writes for too long. children reads them from either; shown are owner and all that children has read, of the kinds that
// were written. The error is a NotYetError, ErrGone where owner is gone or being deleted, or one of a reader.
func (s *Store) Read(
	ctx context.Context, cache, live client.Reader, key types.NamespacedName, owner client.Object,
	children func(r client.Reader, live bool) error, shown func() iter.Seq[metav1.Object],
) error {
	switch err := cache.Get(ctx, key, owner); {
	case apierrors.IsNotFound(err):
		return ErrGone
	case err != nil:
		return fmt.Errorf("get %s: %w", key, err)
	case owner.GetDeletionTimestamp() != nil:
		s.Forget(owner.GetUID())
		return ErrGone
	}
	if err := children(cache, false); err != nil {
		return err
	}
	return s.Fresh(ctx, owner, shown, live, func() error {
		reflect.ValueOf(owner).Elem().SetZero() // An answer would be decoded over it: what the apiserver has no more would stay.
		if err := live.Get(ctx, key, owner); err != nil {
			return fmt.Errorf("get %s: %w", key, err)
		}
		return children(live, true)
	})
}
