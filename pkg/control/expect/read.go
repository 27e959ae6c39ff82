package expect

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Read reads owner, which is empty, and its children for a plan: from the cache, or from the API server if the cache doesn't show our writes
// within the timeout. children reads them from either, and may return ErrGone for an owner that another controller handles. shown are owner and
// everything that children has read, of the kinds that were written. The error is ErrGone if owner is gone or terminating, a NotYetError, a
// TerminatingError or a reader's error. Everything known about an owner is forgotten when the cache shows that it is gone, or that another owner
// has its name. The API server's answer doesn't count for that: the cache may still show the old state later.
func (s *Store) Read(
	ctx context.Context, cache, live client.Reader, key types.NamespacedName, owner client.Object,
	children func(r client.Reader, live bool) error, shown func() iter.Seq[metav1.Object],
) error {
	return s.read(ctx, cache, live, key, owner, children, shown, false)
}

// ReadFinalized is Read for a controller that has a finalizer on owner: an owner that is being deleted is read like any other.
func (s *Store) ReadFinalized(
	ctx context.Context, cache, live client.Reader, key types.NamespacedName, owner client.Object,
	children func(r client.Reader, live bool) error, shown func() iter.Seq[metav1.Object],
) error {
	return s.read(ctx, cache, live, key, owner, children, shown, true)
}

func (s *Store) read(
	ctx context.Context, cache, live client.Reader, key types.NamespacedName, owner client.Object,
	children func(r client.Reader, live bool) error, shown func() iter.Seq[metav1.Object], finalized bool,
) error {
	if err := readOwner(ctx, cache, key, owner, finalized); err != nil {
		if errors.Is(err, ErrGone) {
			s.cached(key, "")
		}
		return err
	}
	s.cached(key, owner.GetUID())
	// Nothing is created for an owner that is being deleted, so a controller with a finalizer can continue.
	if left := s.Terminating(owner.GetUID()); left > 0 && owner.GetDeletionTimestamp() == nil {
		return TerminatingError{left}
	}
	if err := children(cache, false); err != nil {
		if errors.Is(err, ErrGone) {
			s.cached(key, "")
		}
		return err
	}
	return s.Fresh(ctx, owner, shown, live, func() error {
		reflect.ValueOf(owner).Elem().SetZero() // Decoding keeps fields that are missing in the response.
		if err := readOwner(ctx, live, key, owner, finalized); err != nil {
			return err
		}
		return children(live, true)
	})
}

func readOwner(ctx context.Context, r client.Reader, key types.NamespacedName, owner client.Object, finalized bool) error {
	switch err := r.Get(ctx, key, owner); {
	case apierrors.IsNotFound(err):
		return ErrGone
	case err != nil:
		return fmt.Errorf("get %s: %w", key, err)
	case owner.GetDeletionTimestamp() != nil && !finalized:
		return ErrGone
	}
	return nil
}

// cached records which owner the cache shows under that name; an empty UID means that there is none to reconcile. An owner with that name and
// another UID is forgotten.
func (s *Store) cached(key types.NamespacedName, uid types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	previous, known := s.names[key]
	if known && previous != uid {
		delete(s.owners, previous)
		delete(s.refused, previous)
	}
	if uid == "" {
		delete(s.names, key)
	} else {
		s.names[key] = uid
	}
}
