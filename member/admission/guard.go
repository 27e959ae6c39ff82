package admission

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// GuardPath is the path of the webhook that judges requests. Source: OpenKruise.
const GuardPath = "/validate-pod"

// Guard answers requests to delete, evict, update and resize pods.
type Guard struct {
	// Live reads an evicted pod from the apiserver: a cache that is behind may still have an earlier pod with the same name, for which a guard
	// has already answered.
	Live client.Reader
	// Guards are called in this order. The first refusal is the answer.
	Guards podwebhook.Guards
	// Ignore lists the features whose requests are allowed rather than failed if their guard fails.
	Ignore []string
	// Decoder decodes pods.
	Decoder admission.Decoder
	// Clock measures how long answers take.
	Clock clock.PassiveClock
}

// Handle implements admission.Handler.
func (g *Guard) Handle(ctx context.Context, req admission.Request) admission.Response {
	began := g.Clock.Now()
	defer func() { guardSeconds.Observe(g.Clock.Since(began).Seconds()) }()
	r, err := g.request(ctx, req)
	switch {
	case errors.Is(err, errUnread):
		return failureResponse(podwebhook.Evict, err)
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	case r == nil:
		return admission.Allowed("")
	}
	log := ctrl.LoggerFrom(ctx)
	for _, guard := range g.Guards {
		if !guard.Judges(r.Operation) {
			continue
		}
		refusal, err := check(ctx, guard, *r)
		answers.WithLabelValues(guard.Feature, string(r.Operation), answerOf(refusal, err)).Inc()
		switch {
		case err != nil && slices.Contains(g.Ignore, guard.Feature):
			log.Error(err, "Let a request go ahead without a guard", "guard", guard.Feature)
		case err != nil:
			return failureResponse(r.Operation, fmt.Errorf("%s: %w", guard.Feature, err))
		case refusal != nil:
			log.V(1).Info("Refused a request", "guard", guard.Feature, "operation", r.Operation, "reason", refusal.Message)
			return refusalResponse(r, refusal)
		}
	}
	return admission.Allowed("")
}

// request returns the request, or nil if no guard needs to judge it.
func (g *Guard) request(ctx context.Context, req admission.Request) (*podwebhook.Request, error) {
	if req.Resource.Group != "" || req.Resource.Resource != "pods" {
		return nil, nil
	}
	r := &podwebhook.Request{DryRun: req.DryRun != nil && *req.DryRun, User: req.UserInfo}
	var err error
	switch {
	case req.Operation == admissionv1.Delete && req.SubResource == "":
		r.Operation = podwebhook.Delete
		r.Old, err = g.decode(req.Namespace, req.OldObject.Raw)
	case req.Operation == admissionv1.Create && req.SubResource == "eviction":
		r.Operation = podwebhook.Evict
		err = g.completeEviction(ctx, req, r)
	case req.Operation == admissionv1.Update && (req.SubResource == "" || req.SubResource == "resize"):
		if r.Old, err = g.decode(req.Namespace, req.OldObject.Raw); err == nil {
			r.New, err = g.decode(req.Namespace, req.Object.Raw)
		}
		if err == nil {
			r.Operation = podwebhook.OperationOf(r.Old, r.New)
		}
	}
	if err != nil || r.Operation == "" || r.Old == nil || r.Old.DeletionTimestamp != nil {
		return nil, err
	}
	if _, static := r.Old.Annotations[corev1.MirrorPodAnnotationKey]; static { // The pod runs whatever happens to its object.
		return nil, nil
	}
	return r, nil
}

func (g *Guard) decode(namespace string, raw []byte) (*corev1.Pod, error) {
	pod := &corev1.Pod{}
	if err := g.Decoder.DecodeRaw(runtime.RawExtension{Raw: raw}, pod); err != nil {
		return nil, fmt.Errorf("read the pod: %w", err)
	}
	pod.Namespace = namespace
	return pod, nil
}

// completeEviction completes the request for an eviction, which contains only the pod's name and delete options, in any version of the kind.
// It is also a dry run if only those options say so, as kubectl drain --dry-run=server sends it. If the eviction is meant for another pod with
// that name, or the pod doesn't exist, the apiserver itself rejects it, and r gets no pod.
func (g *Guard) completeEviction(ctx context.Context, req admission.Request, r *podwebhook.Request) error {
	var eviction policyv1.Eviction
	if err := json.Unmarshal(req.Object.Raw, &eviction); err != nil {
		return fmt.Errorf("read the eviction: %w", err)
	}
	options := ptr.Deref(eviction.DeleteOptions, metav1.DeleteOptions{})
	r.DryRun = r.DryRun || len(options.DryRun) > 0
	key, pod := client.ObjectKey{Namespace: req.Namespace, Name: req.Name}, &corev1.Pod{}
	switch err := g.Live.Get(ctx, key, pod); {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("%w %s: %w", errUnread, key, err)
	}
	if p := options.Preconditions; p == nil || p.UID == nil || *p.UID == pod.UID {
		r.Old = pod
	}
	return nil
}

var errUnread = errors.New("can't read pod")

// check calls one guard. It turns a panic into an error.
func check(ctx context.Context, guard podwebhook.Active, r podwebhook.Request) (refusal *podwebhook.Refusal, err error) {
	defer recoverPanic(ctx, &err)
	return guard.Judge.Check(ctx, r)
}

// refusalResponse returns the answer to a request that must not proceed now. Evictions are answered as by a PodDisruptionBudget, so that
// kubectl drain and autoscalers retry. Every answer has the same cause, by which our own controllers recognize it.
func refusalResponse(r *podwebhook.Request, refusal *podwebhook.Refusal) admission.Response {
	status := metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: refusal.Message,
		Details: &metav1.StatusDetails{
			Name: r.Old.Name, Kind: "pods", UID: r.Old.UID,
			Causes: []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: refusal.Cause}},
		},
	}
	if r.Operation == podwebhook.Evict {
		status.Code, status.Reason = http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests
		status.Details.RetryAfterSeconds = wholeSeconds(refusal.RetryAfter)
	}
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// failureResponse returns the answer to a request that a guard failed to judge. Eviction clients retry only after a 429, here after one
// second.
func failureResponse(o podwebhook.Operation, err error) admission.Response {
	if o != podwebhook.Evict {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	status := apierrors.NewTooManyRequests(err.Error(), 1).Status()
	return admission.Response{AdmissionResponse: admissionv1.AdmissionResponse{Result: &status}}
}

// wholeSeconds rounds up to whole seconds.
func wholeSeconds(d time.Duration) int32 { return int32(math.Ceil(d.Seconds())) }
