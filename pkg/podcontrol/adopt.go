package podcontrol

import (
	"context"

	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/event"
	"github.com/flotilla-io/flotilla/pkg/podset"
)

// Adopt adopts what a former workload of the owner's name has left, and tells of it; what is a word for it in the plural. That
// is a reconcile of its own: which pods there are, and what they are at, must be known before anything is planned.
func (d Applier) Adopt(
	ctx context.Context, events event.Recorder, owner client.Object, kind schema.GroupVersionKind, what string, left []client.Object,
) (ctrl.Result, error) {
	did := d.Writer.Adopt(ctx, owner, kind, left)
	if n := len(did.Done); n > 0 {
		ctrl.LoggerFrom(ctx).Info("Adopted "+what, "count", n)
		events.Record(owner, Adopted(what, did.Done))
	}
	if did.Err != nil { // Nothing else is done until then, nor said in the status.
		events.Record(owner, FailedUpdate(did.Err.Error()))
	}
	return ctrl.Result{RequeueAfter: podset.AdoptionRecheck}, did.Err
}
