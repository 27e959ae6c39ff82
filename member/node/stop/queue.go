package stop

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"
)

// RecheckInterval is when a pod is reconciled again if no runtime answered for it.
const RecheckInterval = 10 * time.Second

const (
	// A failed reconcile is retried after firstRetry, doubling up to lastRetry, because meanwhile a pod may be out of service or a Job may wait.
	firstRetry = 100 * time.Millisecond
	lastRetry  = time.Minute
	// workers is how many reconciles can start concurrently. Long ones continue outside the workers.
	workers = 20
)

func queue() controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: limiter()}
}

func limiter() workqueue.TypedRateLimiter[ctrl.Request] {
	return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry)
}
