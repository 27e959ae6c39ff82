package stop

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// RecheckInterval is when a pod is reconciled again for which no runtime answered.
const RecheckInterval = 10 * time.Second

const (
	// A failed reconcile is retried after firstRetry, doubling up to lastRetry: a pod may be out of service meanwhile, or a Job waits.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
	// workers is how many reconciles begin at once. What lasts goes on beside them.
	workers = 20
)

func queue() controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: limiter()}
}

func limiter() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry)
}
