package podcontrol

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Adopt adopts the orphans left by an earlier workload with the owner's name, and reports it; what is a plural noun for them. The reconcile ends
// afterwards: the adopted objects and their revisions must be observed before anything is planned.
func (a Applier) Adopt(
	ctx context.Context, events event.Recorder, owner client.Object, kind schema.GroupVersionKind, what string, orphans []client.Object,
) (ctrl.Result, error) {
	result := a.Writer.Adopt(ctx, owner, kind, orphans)
	if n := len(result.Done); n > 0 {
		ctrl.LoggerFrom(ctx).Info("Adopted "+what, "count", n)
		events.Record(owner, Adopted(what, result.Done))
	}
	if result.Err != nil { // The reconcile ends here, so the status doesn't report it.
		events.Record(owner, FailedUpdate(result.Err.Error()))
	}
	return ctrl.Result{RequeueAfter: podset.AdoptionRecheck}, result.Err
}
