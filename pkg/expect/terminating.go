package expect

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// terminatingRetry is after how long a reconcile tries again in a namespace that is being deleted. Such a namespace never comes
// back, but for a moment an apiserver may take a new namespace of the same name for it.
const terminatingRetry = 30 * time.Second

// TerminatingError says that nothing can be created for an owner, because its namespace is being deleted.
type TerminatingError struct {
	// Left is the time until it may be tried again.
	Left time.Duration
}

// Error says so.
func (e TerminatingError) Error() string {
	return fmt.Sprintf("the namespace is being deleted; tried again after %s", e.Left)
}

// Refused reports whether err is the apiserver's refusal to create anything in owner's namespace, because it is being deleted,
// and notes it: until Terminating returns 0, Read holds the reconciles of owner back, and no status or event is written.
func (s *Store) Refused(owner types.UID, err error) bool {
	if !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.refused[owner] = s.clock.Now()
	return true
}

// Terminating returns for how long nothing should be written for owner, because its namespace is being deleted; 0 if it is not.
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
