package admit

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	"sigs.k8s.io/controller-runtime/pkg/webhook/conversion"
)

// ConvertPath is the conversion path for all kinds.
const ConvertPath = "/convert"

// Registration holds the webhooks of a kind. Nil webhooks are not registered; at least one must be set.
type Registration[T client.Object] struct {
	// Object is an empty object of the stored version.
	Object T
	// Defaulter sets defaults that the schema can't.
	Defaulter admission.Defaulter[T]
	// Validator rejects what schema and CEL can't.
	Validator admission.Validator[T]
	// Admitted is called for each object that Validator has let pass on creation or update, except on a dry run. It returns warnings, and may do
	// whatever is needed before the object is stored; the object may still not be stored in the end. old is nil for a new object. The webhook rules
	// then need sideEffects NoneOnDryRun. Nil means no call.
	Admitted func(ctx context.Context, old, object client.Object) []string
	// Converter converts between the versions; use conversion.NewHubSpokeConverter.
	Converter func(*runtime.Scheme) (conversion.Converter, error)
}

// Register adds the webhooks of a kind to the manager's webhook server. Registering a kind twice is an error.
func Register[T client.Object](mgr ctrl.Manager, r Registration[T]) error {
	gvk, err := apiutil.GVKForObject(r.Object, mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("register webhooks: %w", err)
	}
	if r.Defaulter == nil && r.Validator == nil && r.Converter == nil {
		return fmt.Errorf("register webhooks of %s: it has none", gvk.Kind)
	}
	server := mgr.GetWebhookServer()
	if r.Defaulter != nil {
		w := admission.WithDefaulter(mgr.GetScheme(), r.Defaulter)
		w.Handler = typed{w.Handler, r.Object, admission.NewDecoder(mgr.GetScheme()), r.Validator != nil}
		err = errors.Join(err, handle(server, MutatePath(gvk), w))
	}
	if r.Validator != nil {
		v := r.Validator
		if r.Admitted != nil {
			v = observedValidator[T]{v, r.Admitted}
		}
		err = errors.Join(err, handle(server, ValidatePath(gvk), admission.WithValidator(mgr.GetScheme(), v)))
	}
	if r.Converter != nil {
		err = errors.Join(err, convert(mgr, gvk.GroupKind(), r.Converter))
	}
	if err != nil {
		return fmt.Errorf("register webhooks of %s: %w", gvk.Kind, err)
	}
	return nil
}

// Handle adds a webhook for a kind that isn't ours to the manager's webhook server, with the same features as those of our kinds: it recovers
// from panics, logs, and answers while the manager stops.
func Handle(mgr ctrl.Manager, path string, h admission.Handler) error {
	return handle(mgr.GetWebhookServer(), path, &admission.Webhook{Handler: h})
}

// MutatePath is the path of a kind's defaulting webhook.
func MutatePath(gvk schema.GroupVersionKind) string { return path("mutate", gvk) }

// ValidatePath is the path of a kind's validating webhook.
func ValidatePath(gvk schema.GroupVersionKind) string { return path("validate", gvk) }

func path(verb string, gvk schema.GroupVersionKind) string {
	group := strings.ReplaceAll(gvk.Group, ".", "-")
	if group != "" {
		group += "-"
	}
	return "/" + verb + "-" + group + strings.ToLower(gvk.Kind)
}

func handle(server webhook.Server, path string, w *admission.Webhook) error {
	if isRegistered(server, path) {
		return fmt.Errorf("path %s is already taken", path)
	}
	w.Handler = uncancelled{loggingHandler{w.Handler}}
	server.Register(path, w.WithRecoverPanic(true))
	return nil
}

func convert(mgr ctrl.Manager, kind schema.GroupKind, build func(*runtime.Scheme) (conversion.Converter, error)) error {
	converter, err := build(mgr.GetScheme())
	if err != nil {
		return fmt.Errorf("make converter: %w", err)
	}
	registry := mgr.GetConverterRegistry()
	if err := registry.RegisterConverter(kind, converter); err != nil {
		return err
	}
	// One handler serves all kinds. It recovers from panics itself.
	if server := mgr.GetWebhookServer(); !isRegistered(server, ConvertPath) {
		server.Register(ConvertPath, fieldNaming{conversion.NewWebhookHandler(mgr.GetScheme(), registry), conversion.NewDecoder(mgr.GetScheme())})
	}
	return nil
}

func isRegistered(server webhook.Server, path string) bool {
	mux := server.WebhookMux()
	if mux == nil { // Nothing was registered yet.
		return false
	}
	_, pattern := mux.Handler(&http.Request{Method: http.MethodPost, URL: &url.URL{Path: path}})
	return pattern == path
}

// longest is the longest timeout that an API server uses, as in Kubernetes 1.36.
const longest = 30 * time.Second

// uncancelled lets requests finish. controller-runtime cancels their contexts as soon as the manager is stopped, and only then waits for them: a
// webhook that calls the API server would fail, and the request would be rejected.
type uncancelled struct{ admission.Handler }

// Handle implements admission.Handler.
func (f uncancelled) Handle(ctx context.Context, req admission.Request) admission.Response {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), longest)
	defer cancel()
	return f.Handler.Handle(ctx, req)
}

// typed always answers with a patch, even if no default was missing, so that the object is stored as its type serializes it. Without a patch the
// API server stores what it was given, not what it converted for us. Whether a container has "resources: {}" would then depend on the version
// that was applied, and each apply of an unchanged manifest could increase the object's generation.
type typed struct {
	admission.Handler

	empty   runtime.Object
	decoder admission.Decoder
	// validated: the kind has a validating webhook too.
	validated bool
}

// Handle implements admission.Handler.
func (t typed) Handle(ctx context.Context, req admission.Request) admission.Response {
	if t.validated && req.Operation != admissionv1.Delete && t.decoder.Decode(req, t.empty.DeepCopyObject()) != nil {
		// The schema is checked next. It names the field whose type is wrong, unlike the error from decoding a quantity, a time or an int-or-string.
		// Anything that the schema lets pass is rejected by the validation.
		return admission.Allowed("it can't be read, which the schema says better")
	}
	resp := t.Handler.Handle(ctx, req)
	if !resp.Allowed || len(resp.Patches) > 0 || req.Operation == admissionv1.Delete {
		return resp
	}
	o := t.empty.DeepCopyObject()
	if err := t.decoder.Decode(req, o); err != nil {
		return admission.Errored(http.StatusBadRequest, err)
	}
	defaulted, err := json.Marshal(o)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	resp.Patches = admission.PatchResponseFromRaw(req.Object.Raw, defaulted).Patches
	for i := range slices.Backward(resp.Patches) {
		if resp.Patches[i].Operation == "remove" { // A newer schema may have fields that the type doesn't.
			resp.Patches = slices.Delete(resp.Patches, i, i+1)
		}
	}
	if len(resp.Patches) == 0 { // A patch that changes nothing.
		resp.Patch, resp.PatchType = fmt.Appendf(nil, `[{"op":"test","path":"/kind","value":%q}]`, req.Kind.Kind), new(admissionv1.PatchTypeJSONPatch)
	}
	return resp
}

// observedValidator is a Validator that calls a function for the objects that it lets pass.
type observedValidator[T client.Object] struct {
	admission.Validator[T]

	tell func(ctx context.Context, old, object client.Object) []string
}

// ValidateCreate implements admission.Validator.
func (a observedValidator[T]) ValidateCreate(ctx context.Context, object T) (admission.Warnings, error) {
	warnings, err := a.Validator.ValidateCreate(ctx, object)
	return a.addWarnings(ctx, nil, object, warnings, err)
}

// ValidateUpdate implements admission.Validator.
func (a observedValidator[T]) ValidateUpdate(ctx context.Context, old, object T) (admission.Warnings, error) {
	warnings, err := a.Validator.ValidateUpdate(ctx, old, object)
	return a.addWarnings(ctx, old, object, warnings, err)
}

func (a observedValidator[T]) addWarnings(
	ctx context.Context, old, object client.Object, warnings admission.Warnings, err error,
) (admission.Warnings, error) {
	if err != nil {
		return warnings, err
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return warnings, err //nolint:wrapcheck // The handler always sets it.
	}
	if req.DryRun != nil && *req.DryRun {
		return warnings, nil
	}
	return append(warnings, a.tell(ctx, old, object)...), nil
}

// loggingHandler logs decisions at V(1).
type loggingHandler struct{ admission.Handler }

// Handle implements admission.Handler.
func (l loggingHandler) Handle(ctx context.Context, req admission.Request) admission.Response {
	resp := l.Handler.Handle(ctx, req)
	log := ctrl.LoggerFrom(ctx).V(1)
	if !log.Enabled() {
		return resp
	}
	// controller-runtime's logger already has the object and the user.
	log = log.WithValues("kind", req.Kind.Kind, "step", req.Operation)
	if resp.Allowed {
		log.Info("Admitted", "count", len(resp.Patches))
		return resp
	}
	reason := ""
	if resp.Result != nil {
		reason = resp.Result.Message
	}
	log.Info("Refused", "reason", reason)
	return resp
}
