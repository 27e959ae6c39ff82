package control

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// RunBuckets are the buckets for job durations, in seconds: 1 s to 18 hours.
func RunBuckets() []float64 { return prometheus.ExponentialBuckets(1, 4, 9) }

// Tally counts the ends of jobs, each once, for metrics. The zero value is ready; it is safe for concurrent use.
type Tally struct {
	// running are the jobs that were seen before they ended.
	running Memory[bool]
}

// Count calls ended when the end of a job is seen for the first time, and if the job was seen before it: ends that an earlier process has
// counted aren't counted again.
func (t *Tally) Count(job client.Object, finished bool, ended func()) {
	if finished && !t.running.Get(job) {
		return
	}
	t.running.Change(job, func(running *bool) {
		if *running = !finished; finished {
			ended()
		}
	})
}

// Forget drops what is known about a job that is gone.
func (t *Tally) Forget(key types.NamespacedName) { t.running.Forget(key) }

// RemoveJob deletes a job, along with what it owns, if the job has not changed since it was read; never another one with its name. It is not an
// error if the job is gone or has changed.
func RemoveJob(ctx context.Context, c client.Writer, job client.Object) error {
	uid, version := job.GetUID(), job.GetResourceVersion()
	target, _ := job.DeepCopyObject().(client.Object)
	err := c.Delete(ctx, target, client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s after its TTL: %w", job.GetName(), err)
	}
	return nil
}
