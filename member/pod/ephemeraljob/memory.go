package ephemeraljob

import (
	"maps"
	"sync"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
)

// memory is what a manager knows about jobs but stores in no object. The zero value is ready to use. It is safe for concurrent use. It is
// lost on a restart: then pods that were rejected are rejected again.
type memory struct {
	mu   sync.Mutex
	jobs map[types.NamespacedName]*remembered
}

type remembered struct {
	uid types.UID
	// read means that the pods were read from the apiserver.
	read bool
	// invalid maps pods that can't have the containers to the reason, for the spec of that generation. The map is replaced, never changed.
	invalid    map[types.UID]string
	generation int64
}

// of returns the entry for a job. The caller must hold the lock.
func (m *memory) of(job *appsv1alpha1.EphemeralJob) *remembered {
	key := client.ObjectKeyFromObject(job)
	known := m.jobs[key]
	if known == nil || known.uid != job.UID {
		known = &remembered{uid: job.UID}
		if m.jobs == nil {
			m.jobs = map[types.NamespacedName]*remembered{}
		}
		m.jobs[key] = known
	}
	if known.generation != job.Generation {
		known.generation, known.invalid = job.Generation, nil
	}
	return known
}

// invalid returns the pods that can't have the containers of the job's current spec.
func (m *memory) invalid(job *appsv1alpha1.EphemeralJob) map[types.UID]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(job).invalid
}

// refuse records that a pod can't have the containers of a job.
func (m *memory) refuse(job *appsv1alpha1.EphemeralJob, pod types.UID, why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.of(job)
	next := maps.Clone(known.invalid)
	if next == nil {
		next = map[types.UID]string{}
	}
	next[pod] = why
	known.invalid = next
}

// isRead reports whether this process has read the job's pods from the apiserver.
func (m *memory) isRead(job *appsv1alpha1.EphemeralJob) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.of(job).read
}

func (m *memory) setRead(job *appsv1alpha1.EphemeralJob) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.of(job).read = true
}

// forget drops the entry of a job that no longer exists.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.jobs, key)
}
