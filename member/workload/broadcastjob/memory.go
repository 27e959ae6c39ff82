package broadcastjob

import (
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// memory is what a manager knows about jobs before their status shows it. The zero value is ready to use. It is safe for concurrent use and
// doesn't survive a restart.
type memory struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]*remembered
}

type remembered struct {
	uid types.UID
	// succeeded are the nodes on which the pod was seen to succeed.
	succeeded map[string]bool
	// crowded means that more pods were active than parallelism allows.
	crowded bool
}

// of returns what is known about a job. The caller holds the lock.
func (m *memory) of(key types.NamespacedName, uid types.UID) *remembered {
	known := m.jobs[key]
	if known == nil || known.uid != uid {
		known = &remembered{uid: uid}
		if m.jobs == nil {
			m.jobs = map[types.NamespacedName]*remembered{}
		}
		m.jobs[key] = known
	}
	return known
}

// nodes returns the nodes on which a job is known to have succeeded.
func (m *memory) nodes(key types.NamespacedName, uid types.UID) map[string]bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(key, uid).succeeded // The map is replaced, never changed.
}

// note remembers from a plan on which nodes the job has succeeded and whether it is crowded. It reports whether the job has just become
// crowded.
func (m *memory) note(key types.NamespacedName, uid types.UID, succeeded map[string]bool, crowded bool) (begins bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(key, uid)
	begins = crowded && !known.crowded
	known.succeeded, known.crowded = succeeded, crowded
	return begins
}

// forget drops what is known about a job that is gone.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.jobs, key)
}
