package podcontrol

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// A failed reconcile is tried again after firstRetry, then after twice that, up to lastRetry: what failed because of a quota goes
// on soon after the quota is raised.
const (
	firstRetry = 5 * time.Millisecond
	lastRetry  = 2 * time.Minute
)

// defaultWorkers is how many workloads of a kind are worked on at once where nobody says another number.
const defaultWorkers = 3

// Queue is how workloads wait for their reconciles, of which that many run at once (0 means three): each by itself, and only after
// a reconcile that failed. A limit for all together would bound a rollout, whatever the apiserver could do.
func Queue(workers int) controller.Options {
	if workers == 0 {
		workers = defaultWorkers
	}
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
	}
}
