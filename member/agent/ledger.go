package agent

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// ledger holds a line for each object that was applied here. The agent is its only writer, so it is read once at start-up and then served from
// memory. It is safe for concurrent use.
type ledger struct {
	client client.Client
	reader client.Reader

	mu    sync.Mutex
	lines map[string]fleetv1alpha1.AppliedWork
	// inherited marks the lines that this run of the agent has read but not written.
	inherited map[string]bool
}

// newLedger reads the ledger from the apiserver. If a line were missing in a stale cache, its object would count as foreign.
func newLedger(ctx context.Context, c client.Client, reader client.Reader) (*ledger, error) {
	list := &fleetv1alpha1.AppliedWorkList{}
	if err := reader.List(ctx, list); err != nil {
		return nil, fmt.Errorf("read the ledger: %w", err)
	}
	l := &ledger{
		client: c, reader: reader, lines: make(map[string]fleetv1alpha1.AppliedWork, len(list.Items)), inherited: map[string]bool{},
	}
	for i := range list.Items {
		l.lines[list.Items[i].Name], l.inherited[list.Items[i].Name] = list.Items[i], true
	}
	return l, nil
}

// get returns a copy of a line, or nil.
func (l *ledger) get(name string) *fleetv1alpha1.AppliedWork {
	l.mu.Lock()
	defer l.mu.Unlock()
	line, ok := l.lines[name]
	if !ok {
		return nil
	}
	return line.DeepCopy()
}

// size returns the number of lines.
func (l *ledger) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.lines)
}

// isInherited reports whether an earlier run of the agent was the last to write a line.
func (l *ledger) isInherited(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.inherited[name]
}

// rowHolding returns the name of the line, other than except, whose object has that UID, or "" if no line does.
func (l *ledger) rowHolding(uid, except string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for name, line := range l.lines {
		if name != except && line.Spec.Object.UID == uid {
			return name
		}
	}
	return ""
}

// linesOf returns copies of all lines of one hub, sorted by name.
func (l *ledger) linesOf(hubUID string) []*fleetv1alpha1.AppliedWork {
	l.mu.Lock()
	defer l.mu.Unlock()
	var out []*fleetv1alpha1.AppliedWork
	for _, name := range slices.Sorted(maps.Keys(l.lines)) {
		if line := l.lines[name]; line.Spec.HubUID == hubUID {
			out = append(out, line.DeepCopy())
		}
	}
	return out
}

// put writes a line and returns it as stored. After a conflict, the line is read again and the error causes a retry.
func (l *ledger) put(ctx context.Context, name string, spec fleetv1alpha1.AppliedWorkSpec) (*fleetv1alpha1.AppliedWork, error) {
	line := l.get(name)
	var err error
	if line == nil {
		line = &fleetv1alpha1.AppliedWork{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}
		err = l.client.Create(ctx, line)
	} else {
		line.Spec = spec
		err = l.client.Update(ctx, line)
	}
	if err != nil {
		return nil, l.rereadAfterConflict(ctx, fmt.Errorf("write line %s of the ledger: %w", name, err), name)
	}
	l.set(name, line)
	return line.DeepCopy(), nil
}

// deleteLine deletes a line, if there is one.
func (l *ledger) deleteLine(ctx context.Context, name string) error {
	line := l.get(name)
	if line == nil {
		return nil
	}
	uid := line.UID
	err := l.client.Delete(ctx, line, client.Preconditions{UID: &uid})
	if client.IgnoreNotFound(err) != nil {
		return l.rereadAfterConflict(ctx, fmt.Errorf("delete line %s of the ledger: %w", name, err), name)
	}
	l.set(name, nil)
	return nil
}

// rereadAfterConflict reads a line again after a conflict, for the next reconcile.
func (l *ledger) rereadAfterConflict(ctx context.Context, cause error, name string) error {
	if !apierrors.IsConflict(cause) && !apierrors.IsAlreadyExists(cause) && !apierrors.IsNotFound(cause) {
		return cause
	}
	line := &fleetv1alpha1.AppliedWork{}
	err := l.reader.Get(ctx, client.ObjectKey{Name: name}, line)
	switch {
	case err == nil:
		l.set(name, line)
	case apierrors.IsNotFound(err):
		l.set(name, nil)
	}
	return cause
}

func (l *ledger) set(name string, line *fleetv1alpha1.AppliedWork) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.inherited, name)
	if line == nil {
		delete(l.lines, name)
		return
	}
	l.lines[name] = *line.DeepCopy()
}
