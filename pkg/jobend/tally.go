package jobend

import (
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RunBuckets are the buckets for job durations, in seconds: 1 s to 18 hours.
func RunBuckets() []float64 { return prometheus.ExponentialBuckets(1, 4, 9) }

// Tally counts each end of a job once, for metrics. The zero value is ready to use; it may be used concurrently.
type Tally struct {
	mu sync.Mutex
	// running holds the UIDs of the jobs that were seen before they ended.
	running map[types.NamespacedName]types.UID
}

// Count calls ended when the end of a job is seen for the first time, but only if the job was seen before its end: what an earlier process has
// counted is not counted again.
func (t *Tally) Count(job client.Object, finished bool, ended func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := client.ObjectKeyFromObject(job)
	switch {
	case !finished:
		if t.running == nil {
			t.running = map[types.NamespacedName]types.UID{}
		}
		t.running[key] = job.GetUID()
	case t.running[key] == job.GetUID():
		delete(t.running, key)
		ended()
	}
}

// Forget drops what is known about a job that is gone.
func (t *Tally) Forget(key types.NamespacedName) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.running, key)
}
