// Package jobend contains what all kinds of jobs have in common at their end: they end at a deadline, are counted, and are deleted after a TTL.
package jobend

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/seconds"
)

// Due reports whether that many seconds have passed since a time, and if not, how long it takes until they have. If either argument is nil, it
// returns false and 0.
func Due[N int32 | int64](since *metav1.Time, after *N, now time.Time) (due bool, in time.Duration) {
	if since == nil || after == nil {
		return false, 0
	}
	at := since.Add(seconds.Duration(int64(*after)))
	if now.Before(at) {
		return false, at.Sub(now)
	}
	return true, 0
}

// Remove deletes a job, along with what it owns, if the job has not changed since it was read; never another one with its name. It is not an
// error if the job is gone or has changed.
func Remove(ctx context.Context, c client.Writer, job client.Object) error {
	uid, version := job.GetUID(), job.GetResourceVersion()
	target, _ := job.DeepCopyObject().(client.Object)
	err := c.Delete(ctx, target, client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(metav1.DeletePropagationBackground))
	if client.IgnoreNotFound(err) != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete %s after its TTL: %w", job.GetName(), err)
	}
	return nil
}
