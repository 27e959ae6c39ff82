package probe

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"
)

const (
	// maxExecs is how many commands run at once on a node, and maxExecsOf those of one namespace among them. What waits for its turn is
	// probed later, and takes nobody else's.
	maxExecs   = 64
	maxExecsOf = 8
)

// slots limit how many commands run at once. They are given in the order in which they are asked for.
type slots struct {
	all *semaphore.Weighted

	mu sync.Mutex
	of map[string]*namespaceSlots
}

type namespaceSlots struct {
	*semaphore.Weighted

	// users are those that hold or wait for one.
	users int
}

func newSlots() *slots {
	return &slots{all: semaphore.NewWeighted(maxExecs), of: map[string]*namespaceSlots{}}
}

// take waits for a slot of a namespace, and returns what gives it back. An error means that ctx has ended.
func (s *slots) take(ctx context.Context, namespace string) (func(), error) {
	s.mu.Lock()
	own := s.of[namespace]
	if own == nil {
		own = &namespaceSlots{Weighted: semaphore.NewWeighted(maxExecsOf)}
		s.of[namespace] = own
	}
	own.users++
	s.mu.Unlock()
	leave := func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if own.users--; own.users == 0 {
			delete(s.of, namespace)
		}
	}
	if err := own.Acquire(ctx, 1); err != nil {
		leave()
		return nil, err //nolint:wrapcheck // It is that of ctx.
	}
	if err := s.all.Acquire(ctx, 1); err != nil { // Who waits here holds up its own namespace alone.
		own.Release(1)
		leave()
		return nil, err //nolint:wrapcheck // Likewise.
	}
	return func() {
		s.all.Release(1)
		own.Release(1)
		leave()
	}, nil
}
