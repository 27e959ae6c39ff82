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
	// workers is the number of concurrent reconciles. One may last as long as a grace period and is idle meanwhile, so there are
	// about as many as a node has pods.
	workers = 100
)

// Queue is that of a controller whose reconciles stop containers of the pods of one node.
func Queue() controller.Options {
	return controller.Options{
		MaxConcurrentReconciles: workers,
		RateLimiter:             workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](firstRetry, lastRetry),
	}
}
