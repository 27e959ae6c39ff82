package expect

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// terminatingRetry is how long to wait before a reconcile in a terminating namespace is retried. Such a namespace never comes back, but a stale
// API server may briefly confuse it with a new one of the same name.
const terminatingRetry = 30 * time.Second

// TerminatingError means that nothing can be created for an owner, because its namespace is terminating.
type TerminatingError struct {
	// Left is the time until a retry.
	Left time.Duration
}

// Error implements error.
func (e TerminatingError) Error() string {
	return fmt.Sprintf("the namespace is being deleted; retrying after %s", e.Left)
}

// Refused reports whether err is the API server's refusal to create anything in owner's namespace because it is terminating, and records it:
// until Terminating returns 0, Read ends the reconciles of owner, and no status or event is written.
func (s *Store) Refused(owner types.UID, err error) bool {
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[owner] = s.clock.Now()
	return true
}

// Terminating returns how long nothing should be written for owner, because its namespace is terminating; 0 if it isn't.
func (s *Store) Terminating(owner types.UID) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	at, ok := s.refused[owner]
	if !ok {
		return 0
	}
	left := terminatingRetry - s.clock.Now().Sub(at)
	if left <= 0 {
		delete(s.refused, owner)
		return 0
	}
	return left
}
