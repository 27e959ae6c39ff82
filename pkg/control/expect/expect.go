package expect

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// DefaultTimeout is the default timeout of a store.
const DefaultTimeout = 5 * time.Minute

// Store holds the writes of one controller that its cache doesn't show yet. It may be used concurrently.
type Store struct {
	kind    string
	clock   clock.PassiveClock
	timeout time.Duration

	mu     sync.Mutex
	owners map[types.UID]map[types.UID]want
	// names maps names to the UIDs of owners that Read has read: a NotFound error has no UID.
	names map[types.NamespacedName]types.UID
	// refused is when the API server last refused a create for an owner because its namespace is terminating.
	refused map[types.UID]time.Time
}

// want is what the cache must show of one child.
type want struct {
	name    string
	mustSee bool   // created: absence doesn't prove that it is gone
	version string // written: this resourceVersion or a later one
	gone    bool   // deleted: terminating or absent
	since   time.Time
	// creation is how to look up a created child; nil if that isn't possible.
	creation *lookup
	// ambiguous is how to look up a child after a write whose response was lost; nil if there was none.
	ambiguous *lookup
}

// New returns an empty store for the controller of that kind; the kind is the label of the timeout metric. A timeout of 0 means DefaultTimeout.
func New(kind string, c clock.PassiveClock, timeout time.Duration) *Store {
	if timeout <= 0 {
		timeout = DefaultTimeout
	}
	return &Store{
		kind: kind, clock: c, timeout: timeout, owners: map[types.UID]map[types.UID]want{},
		names: map[types.NamespacedName]types.UID{}, refused: map[types.UID]time.Time{},
	}
}

// Created records that child was created for owner; child is the API server's response.
func (s *Store) Created(owner types.UID, child metav1.Object) {
	s.note(owner, child.GetUID(), child, func(w *want) {
		w.mustSee = true
		w.creation = lookupOf(owner, child, s.clock.Now())
	})
}

// Written records that child was changed; child is the API server's response.
func (s *Store) Written(owner types.UID, child metav1.Object) {
	s.note(owner, child.GetUID(), child, func(w *want) { w.version = child.GetResourceVersion() })
}

// Deleted records that the API server accepted the delete of child, or that child was gone.
func (s *Store) Deleted(owner types.UID, child metav1.Object) {
	s.note(owner, child.GetUID(), child, func(w *want) { w.gone = true })
}

// Ambiguous records a write of child whose response was lost, and where looking up child failed as well. A child that was to be created has no
// UID. It is looked up before the next plan.
func (s *Store) Ambiguous(owner types.UID, child client.Object) {
	uid := child.GetUID()
	if uid == "" {
		uid = types.UID(fmt.Sprintf("%T %s", child, client.ObjectKeyFromObject(child)))
	}
	s.note(owner, uid, child, func(w *want) { w.ambiguous = lookupOf(owner, child, s.clock.Now()) })
}

func (s *Store) note(owner, uid types.UID, child metav1.Object, change func(*want)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	children := s.owners[owner]
	if children == nil {
		children = map[types.UID]want{}
		s.owners[owner] = children
	}
	w := children[uid]
	w.name, w.since = child.GetName(), s.clock.Now()
	change(&w)
	children[uid] = w
}

// Wait is what a controller still has to wait for. The zero value means nothing.
type Wait struct {
	// Count is how many children the cache shows in a state before our last write; 0 means there is nothing to wait for.
	Count int
	// Example is the name of one of them.
	Example string
	// Overdue: the oldest of these writes is older than the timeout. Read from the API server, then call Renew.
	Overdue bool
	// Left is the time until Overdue, 0 when it is.
	Left time.Duration
}

// String returns a clause for a log line.
func (w Wait) String() string {
	return fmt.Sprintf("the cache lacks the last write of %d children, of %s for example", w.Count, w.Example)
}

// Check compares what was written for owner with the children that the cache shows, of all kinds that were written. It drops the expectations
// that are met.
func (s *Store) Check(owner types.UID, shown iter.Seq[metav1.Object]) Wait {
	s.mu.Lock()
	defer s.mu.Unlock()
	children := s.owners[owner]
	if len(children) == 0 {
		return Wait{}
	}
	seen := make(map[types.UID]metav1.Object, len(children))
	for child := range shown {
		if _, ok := children[child.GetUID()]; ok {
			seen[child.GetUID()] = child
		}
	}
	var wait Wait
	oldest := s.clock.Now()
	for uid, w := range children {
		if w.met(seen[uid]) {
			delete(children, uid)
			continue
		}
		wait.Count++
		if wait.Example == "" || w.name < wait.Example {
			wait.Example = w.name
		}
		if w.since.Before(oldest) {
			oldest = w.since
		}
	}
	if len(children) == 0 {
		delete(s.owners, owner)
		return Wait{}
	}
	if age := s.clock.Now().Sub(oldest); age < s.timeout {
		wait.Left = s.timeout - age
	} else {
		wait.Overdue = true
		timeouts.WithLabelValues(s.kind).Inc()
	}
	return wait
}

func (w want) met(child metav1.Object) bool {
	switch {
	case w.ambiguous != nil:
		return false
	case child == nil:
		return !w.mustSee || w.gone
	case w.gone:
		return child.GetDeletionTimestamp() != nil
	case w.version == "":
		return true
	}
	order, err := resourceversion.CompareResourceVersion(child.GetResourceVersion(), w.version)
	if err != nil {
		// A Kubernetes API server has numeric versions; others can only be compared for equality.
		return child.GetResourceVersion() == w.version
	}
	return order >= 0
}

// Renew records that owner's children were read from the API server, after Overdue. Expectations for children that are gone are dropped. For the
// others the timeout starts again, because the cache is stale.
func (s *Store) Renew(owner types.UID, live iter.Seq[metav1.Object]) {
	s.mu.Lock()
	defer s.mu.Unlock()
	exists := map[types.UID]bool{}
	for child := range live {
		exists[child.GetUID()] = true
	}
	children := s.owners[owner]
	for uid, w := range children {
		if !exists[uid] {
			delete(children, uid)
			continue
		}
		w.since = s.clock.Now()
		children[uid] = w
	}
	if len(children) == 0 {
		delete(s.owners, owner)
	}
}

// Fresh returns nil if the children shown by the cache include all writes for owner. shown are all its children of all kinds that were written.
// live looks up created children that the cache should show by now. reread reads owner and all children from the API server, if the cache has
// not shown our writes within the timeout. The error is a NotYetError, or comes from live or reread.
func (s *Store) Fresh(
	ctx context.Context, owner metav1.Object, shown func() iter.Seq[metav1.Object], live client.Reader, reread func() error,
) error {
	uid := owner.GetUID()
	wait, err := s.lookUp(ctx, uid, shown, live)
	switch {
	case err != nil:
		return err
	case wait.Count == 0:
		return nil
	case !wait.Overdue:
		return NotYetError{wait}
	}
	if err := reread(); err != nil {
		return err
	}
	s.Renew(uid, shown())
	return nil
}

// Forget drops everything known about owner, because it is gone.
func (s *Store) Forget(owner types.UID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, owner)
	delete(s.refused, owner)
}
