package protection

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/plan/protect"
)

// report reports refusals.
type report struct{ events event.Recorder }

// reportRefusal counts, logs and records a refusal. A dry run has no effects.
func (r report) reportRefusal(ctx context.Context, req admission.Request, o *unstructured.Unstructured, why string) {
	if req.DryRun != nil && *req.DryRun {
		return
	}
	user := req.UserInfo.Username
	switch o.GroupVersionKind().GroupKind() {
	case namespaceKind:
		namespaces.WithLabelValues(o.GetName(), user).Inc()
	case crdKind:
		crds.WithLabelValues(o.GetName(), user).Inc()
	default:
		workloads.WithLabelValues(fmt.Sprintf("%s_%s_%s", o.GetKind(), o.GetNamespace(), o.GetName()), user).Inc()
	}
	ctrl.LoggerFrom(ctx).Info("Refused a deletion", "kind", o.GetKind(), "reason", why)
	r.events.Record(o, refusedEvent(user, why))
}

// reporter answers pathReport.
type reporter struct{ report report }

// Handle implements admission.Handler. It allows everything.
func (w *reporter) Handle(ctx context.Context, req admission.Request) admission.Response {
	o, err := deleted(req)
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to report a deletion")
	}
	if o == nil {
		return admission.Allowed("")
	}
	if why := protect.Why(o); why != "" {
		w.report.reportRefusal(ctx, req, o, why)
	}
	return admission.Allowed("")
}

// deleted returns the object that a request deletes; nil if it deletes no object, or only a subresource.
func deleted(req admission.Request) (*unstructured.Unstructured, error) {
	if req.Operation != admissionv1.Delete || req.SubResource != "" {
		return nil, nil
	}
	o := &unstructured.Unstructured{}
	if err := o.UnmarshalJSON(req.OldObject.Raw); err != nil {
		return nil, fmt.Errorf("decode the object: %w", err)
	}
	return o, nil
}
