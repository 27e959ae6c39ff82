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
	// patience is how long a created child may be missing from the cache before it is looked up.
	patience = 2 * time.Second
	// maxLookups is how many children are looked up in one reconcile; beyond that, reading them all is cheaper.
	maxLookups = 16
)

// lookup holds what is needed to look up a child.
type lookup struct {
	uid  types.UID // empty before the child was created
	key  types.NamespacedName
	like reflect.Type
	kind schema.GroupVersionKind // empty for types in the scheme
	// controlled: owner is the child's controller. That is impossible across clusters or namespaces.
	controlled bool

	at   time.Time
	next time.Time // when to look it up
}

// lookupOf returns nil if child isn't an object that a client can read.
func lookupOf(owner types.UID, child metav1.Object, now time.Time) *lookup {
	o, ok := child.(client.Object)
	if !ok {
		return nil
	}
	return &lookup{
		uid: o.GetUID(), key: client.ObjectKeyFromObject(o), like: reflect.TypeOf(o).Elem(), kind: o.GetObjectKind().GroupVersionKind(),
		controlled: controls(owner, child), at: now, next: now.Add(patience),
	}
}

// resolve looks up owner's children with ambiguous writes, and expects them as they are on the API server.
func (s *Store) resolve(ctx context.Context, owner types.UID, live client.Reader) error {
	for uid, c := range s.ambiguous(owner) {
		current, err := c.get(ctx, live)
		if err != nil {
			return err
		}
		s.recordLookup(owner, uid, c, current)
	}
	return nil
}

func (s *Store) ambiguous(owner types.UID) map[types.UID]*lookup {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := map[types.UID]*lookup{}
	for uid, w := range s.owners[owner] {
		if w.ambiguous != nil {
			out[uid] = w.ambiguous
		}
	}
	return out
}

// recordLookup records the object with the child's name on the API server; nil if there is none.
func (s *Store) recordLookup(owner, uid types.UID, c *lookup, current client.Object) {
	if c.uid == "" { // It was to be created.
		s.drop(owner, uid)
		if current != nil && (!c.controlled || controls(owner, current)) {
			s.Created(owner, current)
		}
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	w, ok := s.owners[owner][uid]
	if !ok {
		return
	}
	w.ambiguous = nil
	if current == nil || current.GetUID() != uid {
		w.gone = true
	} else {
		w.version, w.gone = current.GetResourceVersion(), w.gone || current.GetDeletionTimestamp() != nil
	}
	s.owners[owner][uid] = w
}

// lookUp is Check, but also asks the API server about created children that the cache has been missing for too long.
func (s *Store) lookUp(
	ctx context.Context, owner types.UID, shown func() iter.Seq[metav1.Object], live client.Reader,
) (Wait, error) {
	if err := s.resolve(ctx, owner, live); err != nil {
		return Wait{}, err
	}
	wait := s.Check(owner, shown())
	for looked := 0; wait.Count > 0 && !wait.Overdue; looked++ {
		uid, c := s.nextMissing(owner)
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
		exists, err := c.exists(ctx, live, owner)
		if err != nil {
			return wait, err
		}
		if exists {
			s.postponeLookups(owner)
			continue
		}
		s.drop(owner, uid)
		losses.WithLabelValues(s.kind).Inc()
		wait = s.Check(owner, shown())
	}
	return wait, nil
}

// nextMissing returns the created child to look up next; nil if there is none.
func (s *Store) nextMissing(owner types.UID) (types.UID, *lookup) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var first types.UID
	var c *lookup
	for uid, w := range s.owners[owner] {
		if w.mustSee && !w.gone && w.creation != nil && (c == nil ||
			cmp.Or(w.creation.next.Compare(c.next), cmp.Compare(w.creation.key.String(), c.key.String())) < 0) {
			first, c = uid, w.creation
		}
	}
	return first, c
}

func controls(owner types.UID, child metav1.Object) bool {
	ref := metav1.GetControllerOfNoCopy(child)
	return ref != nil && ref.UID == owner
}

// exists reports whether the child exists on the API server, still controlled by owner if it was before.
func (c *lookup) exists(ctx context.Context, live client.Reader, owner types.UID) (bool, error) {
	current, err := c.get(ctx, live)
	return current != nil && current.GetUID() == c.uid && (!c.controlled || controls(owner, current)), err
}

// get returns the object with the child's name from the API server; nil if there is none.
func (c *lookup) get(ctx context.Context, live client.Reader) (client.Object, error) {
	current := reflect.New(c.like).Interface().(client.Object)
	current.GetObjectKind().SetGroupVersionKind(c.kind)
	switch err := live.Get(ctx, c.key, current); {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("look up %s, which the cache does not show: %w", c.key, err)
	}
	return current, nil
}

// postponeLookups records that one of owner's created children exists, so that the cache is behind: none is looked up again until it has been
// missing for twice as long.
func (s *Store) postponeLookups(owner types.UID) {
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
