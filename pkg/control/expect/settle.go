package expect

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
)

// ErrGone means that there is nothing to do, because the object is gone or terminating, or another controller handles it.
var ErrGone = errors.New("the object is gone")

// NotYetError means that the cache is older than our own last writes. A watch event will trigger the next reconcile.
type NotYetError struct{ Wait }

// Error returns what is missing.
func (e NotYetError) Error() string { return e.String() }

// Settle turns the error that ended a reconcile before its plan into the result of Reconcile: ErrGone, NotYetError and TerminatingError are not
// failures; any other error is retried. waits counts the reconciles that waited for the cache.
func Settle(ctx context.Context, err error, waits prometheus.Counter) (ctrl.Result, error) {
	var notYet NotYetError
	var terminating TerminatingError
	switch {
	case errors.Is(err, ErrGone):
		return ctrl.Result{}, nil
	case errors.As(err, &notYet):
		ctrl.LoggerFrom(ctx).V(1).Info("Waited for the cache", "count", notYet.Count, "reason", notYet.Error())
		waits.Inc()
		return ctrl.Result{RequeueAfter: notYet.Left}, nil
	case errors.As(err, &terminating):
		ctrl.LoggerFrom(ctx).V(1).Info("Skipped an object in a terminating namespace")
		return ctrl.Result{RequeueAfter: terminating.Left}, nil
	default:
		return ctrl.Result{}, err
	}
}

// Each yields all elements of list, and returns whether to continue. It helps to build one sequence from several lists:
//
//	_ = yield(o.set) && expect.Each(o.pods, yield) && expect.Each(o.pvcs, yield)
func Each[T metav1.Object](list []T, yield func(metav1.Object) bool) bool {
	for _, o := range list {
		if !yield(o) {
			return false
		}
	}
	return true
}
