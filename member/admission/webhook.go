package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	jsonpatch "gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// Path is the path of the webhook. Source: OpenKruise. AskedPath is the path for pods that request steps themselves, in namespaces without
// objects. They only go through these steps.
const (
	Path      = "/mutate-pod"
	AskedPath = "/mutate-pod-asked"
)

// Webhook answers requests to create pods.
type Webhook struct {
	// Cache is the reader that steps use.
	Cache client.Reader
	// Steps run in this order.
	Steps []podwebhook.Step
	// Ignore lists the features whose failure doesn't prevent a pod from being created.
	Ignore []string
	// Decoder decodes pods.
	Decoder admission.Decoder
	// Clock measures how long answers take.
	Clock clock.PassiveClock
	// CatchUp waits until Cache has the objects for which pods of a namespace are sent. Nil means no waiting.
	CatchUp func(ctx context.Context, namespace string) error
}

// Handle implements admission.Handler. A pod that no step changes is answered without a patch.
func (w *Webhook) Handle(ctx context.Context, req admission.Request) admission.Response {
	if req.Operation != admissionv1.Create || req.SubResource != "" || req.Resource.Resource != "pods" || req.Resource.Group != "" {
		return admission.Allowed("")
	}
	began := w.Clock.Now()
	defer func() { seconds.Observe(w.Clock.Since(began).Seconds()) }()
	pod := &corev1.Pod{}
	if err := w.Decoder.Decode(req, pod); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the pod: %w", err))
	}
	if pod.Namespace == "" { // The apiserver sets it after admission.
		pod.Namespace = req.Namespace
	}
	log := ctrl.LoggerFrom(ctx)
	if w.CatchUp != nil {
		if err := w.CatchUp(ctx, pod.Namespace); err != nil {
			log.Error(err, "Answered for a pod from the cache")
		}
	}
	dry := req.DryRun != nil && *req.DryRun
	next, outcomes := Run(ctx, w.Cache, w.Steps, pod, dry)
	for _, o := range outcomes {
		steps.WithLabelValues(o.Feature, resultOf(o)).Inc()
		var refused podwebhook.RefusedError
		switch {
		case errors.As(o.Err, &refused):
			return admission.Denied(fmt.Sprintf("%s: %s", o.Feature, refused))
		case o.Err == nil:
			log.V(1).Info("Ran a step", "step", o.Feature, "reason", o.Why)
		case slices.Contains(w.Ignore, o.Feature):
			log.Error(o.Err, "Created a pod without a step", "step", o.Feature)
		default:
			return admission.Errored(http.StatusInternalServerError, fmt.Errorf("%s: %w", o.Feature, o.Err))
		}
	}
	resp := patchResponse(pod, next)
	if _, asked := pod.Annotations[keys.ExplainSteps]; asked && dry {
		resp.Warnings = explanations(outcomes)
	}
	return resp
}

// explanations says what each step did, for kubectl kruise explain.
func explanations(outcomes []Outcome) []string {
	out := make([]string, 0, len(outcomes))
	for _, o := range outcomes {
		why := o.Why
		if o.Err != nil {
			why = o.Err.Error()
		}
		out = append(out, fmt.Sprintf("%s: %s: %s", o.Feature, strings.ToLower(resultOf(o)), why))
	}
	return out
}

// patchResponse answers with the difference between two pods. Both are marshaled from the same type, so unknown fields, and the way the
// apiserver writes empty fields, don't end up in the patch.
func patchResponse(old, changed *corev1.Pod) admission.Response {
	before, err := json.Marshal(old)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("write the pod: %w", err))
	}
	after, err := json.Marshal(changed)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("write the pod: %w", err))
	}
	patch, err := jsonpatch.CreatePatch(before, after)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("compare the pods: %w", err))
	}
	return admission.Patched("", patch...)
}
