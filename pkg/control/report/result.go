package report

import (
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Result returns the result of Reconcile for o: err, which is retried with back-off, or else when to reconcile again, where 0 means never.
// controller-runtime logs a warning if both are set. An error in a terminating namespace is dropped.
func (w Writer) Result(o client.Object, recheck time.Duration, err error) (ctrl.Result, error) {
	if left := w.Expect.Terminating(o.GetUID()); left > 0 {
		return ctrl.Result{RequeueAfter: left}, nil
	}
	if err != nil {
		return ctrl.Result{}, err
	}
	return ctrl.Result{RequeueAfter: recheck}, nil
}
