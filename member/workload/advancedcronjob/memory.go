package advancedcronjob

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// knowledge is what a process knows about the job of a run.
type knowledge int

const (
	// unknown means that another process may have created the job.
	unknown knowledge = iota
	// notCreated means that this process has decided the run, and each attempt to create its job was refused.
	notCreated
	// created means that this process has created the job.
	created
)

// memory is what a manager knows about pending runs, and about runs whose job it has created but the status may not show yet. The zero value
// is ready to use. It is safe for concurrent use and doesn't survive a restart.
type memory struct {
	mu   sync.Mutex
	runs map[types.NamespacedName]remembered
}

type remembered struct {
	uid  types.UID
	due  int64 // in seconds since 1970
	what knowledge
}

// of returns what is known about a run.
func (m *memory) of(cron client.Object, due time.Time) knowledge {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.runs[client.ObjectKeyFromObject(cron)]; known.uid == cron.GetUID() && known.due == due.Unix() {
		return known.what
	}
	return unknown
}

// created returns the due time of the run whose job this process has created; zero if none is remembered.
func (m *memory) created(cron client.Object) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.runs[client.ObjectKeyFromObject(cron)]; known.uid == cron.GetUID() && known.what == created {
		return time.Unix(known.due, 0).UTC()
	}
	return time.Time{}
}

// note remembers what is known about a run, and forgets the previous run.
func (m *memory) note(cron client.Object, due time.Time, what knowledge) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.runs = map[types.NamespacedName]remembered{}
	}
	m.runs[client.ObjectKeyFromObject(cron)] = remembered{uid: cron.GetUID(), due: due.Unix(), what: what}
}

// forget drops what is known about an AdvancedCronJob that is gone, or whose status shows all runs and none is pending.
func (m *memory) forget(cron types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, cron)
}
