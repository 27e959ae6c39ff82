package control

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// A failed reconcile is retried after firstRetry, then after twice that, up to lastRetry, so that one that a quota has stopped succeeds soon after
// the quota is raised.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// defaultWorkers is how many workloads of a kind are reconciled at once by default.
const defaultWorkers = 3

// Queue returns the options of a controller with that many workers (0 means three). Rate limiting is per object, and only after a failed
// reconcile: an overall limit would bound the speed of rollouts, however fast the API server is.
func Queue(workers int) controller.Options {
	if workers == 0 {
		workers = defaultWorkers
	}
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
	}
}
