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
	// patience is how long a created child may be missing in the cache before it is looked up.
	patience = 2 * time.Second
	// maxLookups is how many children are looked up in one reconcile; for more, reading them all takes less work.
	maxLookups = 16
)

// creation has what is needed to look up a created child.
type creation struct {
	key  types.NamespacedName
	like reflect.Type
	kind schema.GroupVersionKind // empty for types that the scheme knows
	at   time.Time
	next time.Time // when to look it up
}

// creationOf returns nil if child is no object that a client can read.
func creationOf(child metav1.Object, now time.Time) *creation {
	o, ok := child.(client.Object)
	if !ok {
		return nil
	}
	return &creation{
		key: client.ObjectKeyFromObject(o), like: reflect.TypeOf(o).Elem(), kind: o.GetObjectKind().GroupVersionKind(),
		at: now, next: now.Add(patience),
	}
}

// lookUp is Check, and asks the apiserver for created children that the cache lacks for too long.
func (s *Store) lookUp(
	ctx context.Context, owner types.UID, shown func() iter.Seq[metav1.Object], live client.Reader,
) (Wait, error) {
	wait := s.Check(owner, shown())
	for looked := 0; wait.Count > 0 && !wait.Overdue; looked++ {
		uid, c := s.missing(owner)
		switch now := s.clock.Now(); {
		case c == nil:
			return wait, nil
		case c.next.After(now):
			wait.Left = min(wait.Left, c.next.Sub(now))
			return wait, nil
		case looked == maxLookups:
			wait.Overdue, wait.Left = true, 0
			return wait, nil
		}
		exists, err := c.exists(ctx, live, owner, uid)
		if err != nil {
			return wait, err
		}
		if exists {
			s.putOff(owner)
			continue
		}
		s.drop(owner, uid)
		losses.WithLabelValues(s.kind).Inc()
		wait = s.Check(owner, shown())
	}
	return wait, nil
}

// missing returns the created child that is to be looked up next, nil if there is none.
func (s *Store) missing(owner types.UID) (types.UID, *creation) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first types.UID
	var c *creation
	for uid, w := range s.owners[owner] {
		if w.mustSee && !w.gone && w.creation != nil && (c == nil ||
			cmp.Or(w.creation.next.Compare(c.next), cmp.Compare(w.creation.key.String(), c.key.String())) < 0) {
			first, c = uid, w.creation
		}
	}
	return first, c
}

// exists reports whether the apiserver has the child, with owner as its controller.
func (c *creation) exists(ctx context.Context, live client.Reader, owner, uid types.UID) (bool, error) {
	is := reflect.New(c.like).Interface().(client.Object)
	is.GetObjectKind().SetGroupVersionKind(c.kind)
	switch err := live.Get(ctx, c.key, is); {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("look up %s, which the cache does not show: %w", c.key, err)
	}
	ref := metav1.GetControllerOfNoCopy(is)
	return is.GetUID() == uid && ref != nil && ref.UID == owner, nil
}

// putOff notes that one of owner's created children exists, so that the cache is behind: none is looked up until it has been
// missing for twice as long.
func (s *Store) putOff(owner types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.clock.Now()
	for uid, w := range s.owners[owner] {
		if w.creation != nil {
			c := *w.creation
			c.next = now.Add(max(patience, now.Sub(c.at)))
			w.creation = &c
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
