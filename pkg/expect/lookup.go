package expect

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"reflect"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// patience is how long a created child may be missing in the cache until it is looked up.
	patience = 2 * time.Second
	// manyLost is how many children are looked up in one reconcile; beyond that, to read them all is less work.
	manyLost = 16
)

// birth is what it takes to look up a created child.
type birth struct {
	key  types.NamespacedName
	like reflect.Type
	kind schema.GroupVersionKind // empty for types that the scheme knows
	at   time.Time
	next time.Time // when to look it up
}

// born is nil if child is no object that a client can read.
func born(child metav1.Object, now time.Time) *birth {
	o, ok := child.(client.Object)
	if !ok {
		return nil
	}
	return &birth{
		key: client.ObjectKeyFromObject(o), like: reflect.TypeOf(o).Elem(), kind: o.GetObjectKind().GroupVersionKind(),
		at: now, next: now.Add(patience),
	}
}

// lookUp is Check, and asks the apiserver for created children that the cache lacks for too long.
func (s *Store) lookUp(
	ctx context.Context, owner types.UID, shown func() iter.Seq[metav1.Object], live client.Reader,
) (Wait, error) {
	wait := s.Check(owner, shown())
	for lost := 0; wait.Count > 0 && !wait.Overdue; lost++ {
		uid, b := s.doubted(owner)
		switch now := s.clock.Now(); {
		case b == nil:
			return wait, nil
		case b.next.After(now):
			wait.Left = min(wait.Left, b.next.Sub(now))
			return wait, nil
		case lost == manyLost:
			wait.Overdue, wait.Left = true, 0
			return wait, nil
		}
		lives, err := b.lives(ctx, live, owner, uid)
		if err != nil {
			return wait, err
		}
		if lives {
			s.putOff(owner)
			continue
		}
		s.drop(owner, uid)
		losses.WithLabelValues(s.kind).Inc()
		wait = s.Check(owner, shown())
	}
	return wait, nil
}

// doubted is the created child that is to be looked up next, nil if there is none.
func (s *Store) doubted(owner types.UID) (types.UID, *birth) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first types.UID
	var b *birth
	for uid, w := range s.owners[owner] {
		if w.mustSee && !w.gone && w.birth != nil && (b == nil ||
			cmp.Or(w.birth.next.Compare(b.next), cmp.Compare(w.birth.key.String(), b.key.String())) < 0) {
			first, b = uid, w.birth
		}
	}
	return first, b
}

// lives tells whether the apiserver has the child, still in the hands of owner.
func (b *birth) lives(ctx context.Context, live client.Reader, owner, uid types.UID) (bool, error) {
	is := reflect.New(b.like).Interface().(client.Object)
	is.GetObjectKind().SetGroupVersionKind(b.kind)
	switch err := live.Get(ctx, b.key, is); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up %s, which the cache does not show: %w", b.key, err)
	}
	ref := metav1.GetControllerOfNoCopy(is)
	return is.GetUID() == uid && ref != nil && ref.UID == owner, nil
}

// putOff notes that one of owner's created children lives, so that the cache is behind: none is looked up until it has been
// missing for twice as long.
func (s *Store) putOff(owner types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for uid, w := range s.owners[owner] {
		if w.birth != nil {
			b := *w.birth
			b.next = now.Add(max(patience, now.Sub(b.at)))
			w.birth = &b
			s.owners[owner][uid] = w
		}
	}
}

// drop ends the wait for a child.
func (s *Store) drop(owner, child types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners[owner], child)
	if len(s.owners[owner]) == 0 {
		delete(s.owners, owner)
	}
}
