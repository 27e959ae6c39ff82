package advancedcronjob

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// knowledge is what a process knows of the job of a run.
type knowledge int

const (
	// unknown: another process may have created it.
	unknown knowledge = iota
	// notCreated: this process has decided the run, and each attempt to create its job was refused.
	notCreated
	// created: this process has created it.
	created
)

// memory is what a manager knows of runs that are pending, or whose job it has created and the status may not have. The zero value is
// ready; it may be used concurrently. It does not survive a restart.
type memory struct {
	mu   sync.Mutex
	runs map[types.NamespacedName]remembered
}

type remembered struct {
	uid  types.UID
	due  int64 // in seconds since 1970
	what knowledge
}

// of returns what is known of a run.
func (m *memory) of(cron client.Object, due time.Time) knowledge {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.runs[client.ObjectKeyFromObject(cron)]; known.uid == cron.GetUID() && known.due == due.Unix() {
		return known.what
	}
	return unknown
}

// created returns when the run was due whose job this process has created; zero if none is remembered.
func (m *memory) created(cron client.Object) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known := m.runs[client.ObjectKeyFromObject(cron)]; known.uid == cron.GetUID() && known.what == created {
		return time.Unix(known.due, 0).UTC()
	}
	return time.Time{}
}

// note remembers what is known of a run, and forgets the run before.
func (m *memory) note(cron client.Object, due time.Time, what knowledge) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.runs == nil {
		m.runs = map[types.NamespacedName]remembered{}
	}
	m.runs[client.ObjectKeyFromObject(cron)] = remembered{uid: cron.GetUID(), due: due.Unix(), what: what}
}

// forget drops what is known of an AdvancedCronJob that is gone, or whose status has all runs, and none is pending.
func (m *memory) forget(cron types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.runs, cron)
}
