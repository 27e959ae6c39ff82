package report

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Result returns the result of Reconcile for o: err, which is retried with a backoff, or else when to reconcile again, 0 for
// never. controller-runtime logs a warning if there are both. An error in a terminating namespace is dropped.
func (w Writer) Result(o client.Object, recheck time.Duration, err error) (ctrl.Result, error) {
	if left := w.Expect.Terminating(o.GetUID()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: recheck}, nil
}

// Sooner returns the shorter of two waits; 0 means never.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
