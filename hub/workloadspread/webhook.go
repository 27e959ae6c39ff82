package workloadspread

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Webhook validates WorkloadSpreads on a hub, with the rules of members and those for clusters. It is safe for concurrent use.
type Webhook struct {
	// Spreads are the rules of members; they must allow clusters. If the member stack runs in this cluster too, its own webhook applies them,
	// and Spreads is nil.
	Spreads admission.Validator[*appsv1beta1.WorkloadSpread]
	// Clusters validates the clusters of subsets.
	Clusters placement.ClusterRules
	// LocalMember is true if this cluster also runs the member stack.
	LocalMember bool
}

var _ admission.Validator[*appsv1beta1.WorkloadSpread] = &Webhook{}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, ws *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	warnings, err := w.validate(ctx, nil, ws)
	if err != nil || w.Spreads == nil || !scaletarget.Federated(ws) {
		return warnings, err
	}
	more, err := w.Spreads.ValidateCreate(ctx, ws)
	return append(warnings, more...), err
}

// ValidateUpdate implements admission.Validator. It checks only clusters that the old object doesn't name, because a cluster that has left
// the fleet must not block a change.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, ws *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	if apiequality.Semantic.DeepEqual(old.Spec, ws.Spec) {
		return nil, nil
	}
	if federated := scaletarget.Federated(ws); federated != scaletarget.Federated(old) {
		why := "member clusters run the workload: keep cluster or clusterSelector in each subset, or delete the object and create another one"
		if federated {
			why = "the object is for pods of this cluster: name no clusters in the subsets, or create another one for a workload that is a template"
		}
		return nil, admit.Invalid(spreadKind(), ws.Name, field.ErrorList{field.Forbidden(field.NewPath("spec", "subsets"), why)})
	}
	warnings, err := w.validate(ctx, old, ws)
	if err != nil || w.Spreads == nil || !scaletarget.Federated(ws) {
		return warnings, err
	}
	more, err := w.Spreads.ValidateUpdate(ctx, old, ws)
	return append(warnings, more...), err
}

// ValidateDelete implements admission.Validator. It refuses nothing.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	return nil, nil
}

func (w *Webhook) validate(ctx context.Context, old, ws *appsv1beta1.WorkloadSpread) (admission.Warnings, error) {
	if !scaletarget.Federated(ws) {
		if w.LocalMember {
			return nil, nil
		}
		return admission.Warnings{"no subset names a cluster, and this cluster runs no member stack, so nothing spreads these pods: " +
			"give each subset cluster or clusterSelector"}, nil
	}
	faults := validateFederated(&ws.Spec)
	if len(faults) > 0 {
		return nil, admit.Invalid(spreadKind(), ws.Name, faults)
	}
	var before []placement.Where
	if old != nil {
		before = subsetsOf(old)
	}
	faults, warnings, err := w.Clusters.Validate(ctx, admit.Namespace(ctx, ws), before, subsetsOf(ws), field.NewPath("spec", "subsets"))
	if err != nil {
		return nil, err
	}
	return warnings, admit.Invalid(spreadKind(), ws.Name, faults)
}

// validateFederated validates what is different if subsets are in clusters.
func validateFederated(s *appsv1beta1.WorkloadSpreadSpec) field.ErrorList {
	path := field.NewPath("spec")
	var faults field.ErrorList
	if why := refuses(scaletarget.SpreadTarget(&appsv1beta1.WorkloadSpread{Spec: *s}).Kind.GroupKind()); why != "" {
		faults = append(faults, field.Invalid(path.Child("targetRef", "kind"), s.TargetRef.Kind, why))
	}
	if s.TargetFilter != nil {
		faults = append(faults, field.Forbidden(path.Child("targetFilter"),
			"clusters get all pods of a workload: omit it, or create a separate workload for these pods"))
	}
	if s.OverflowPolicy == appsv1beta1.OverflowCreate {
		faults = append(faults, field.NotSupported(path.Child("overflowPolicy"), s.OverflowPolicy,
			[]appsv1beta1.WorkloadSpreadOverflowPolicy{appsv1beta1.OverflowRefuse}))
	}
	count := map[string]int{}
	for i := range s.Subsets {
		subset, at := &s.Subsets[i], path.Child("subsets").Index(i)
		if found := validation.IsDNS1123Label(subset.Name); len(found) > 0 {
			faults = append(faults, field.Invalid(at.Child("name"), subset.Name, "must be a DNS label if subsets are in clusters: "+strings.Join(found, ", ")))
		}
		if subset.Cluster == "" {
			continue
		}
		if count[subset.Cluster]++; count[subset.Cluster] == fleetv1alpha1.SubsetsPerRow+1 {
			faults = append(faults, field.Invalid(at.Child("cluster"), subset.Cluster, fmt.Sprintf(
				"at most %d subsets may name the same cluster: merge some of them", fleetv1alpha1.SubsetsPerRow)))
		}
	}
	return faults
}

// refuses returns why a kind can't be the target of a WorkloadSpread over clusters, or "" if it can.
func refuses(kind schema.GroupKind) string {
	for _, w := range workloads() {
		if w.gvk.GroupKind() == kind {
			return ""
		}
	}
	const instead = "use a Deployment or a CloneSet"
	switch kind {
	case schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		return "nothing keeps this cluster from running a StatefulSet of apps itself, and pods of several clusters would have the same names: " +
			"use a UnitedDeployment, or " + instead
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "StatefulSet"}:
		return "pods of several clusters would have the same names: use a UnitedDeployment, which gives each cluster ordinals of its own, or " + instead
	case schema.GroupKind{Group: "batch", Kind: "Job"}:
		return "completions of a Job can't be divided, since pods of one cluster do not count in another: apply a Job in each cluster, or " + instead
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		return "nothing keeps this cluster from running a ReplicaSet itself: " + instead
	default:
		return "the hub can't divide objects of this kind: " + instead
	}
}

// deploymentWebhook keeps kube-controller-manager from running Deployments that are templates: it pauses them, and they stay templates for as
// long as they exist. It is called only for objects that have or had the label, and preserves fields that its version of the API doesn't
// know. It is safe for concurrent use.
type deploymentWebhook struct{}

var _ admission.Handler = deploymentWebhook{}

// Handle implements admission.Handler.
func (deploymentWebhook) Handle(_ context.Context, req admission.Request) admission.Response {
	var deployment appsv1.Deployment
	var old *appsv1.Deployment
	if err := json.Unmarshal(req.Object.Raw, &deployment); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the Deployment: %w", err))
	}
	if len(req.OldObject.Raw) > 0 {
		old = &appsv1.Deployment{}
		if err := json.Unmarshal(req.OldObject.Raw, old); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the old Deployment: %w", err))
		}
	}
	if err := admit.Invalid(deployments().gvk, deployment.Name, validateDeployment(old, &deployment)); err != nil {
		response := admission.Denied("")
		if status := apierrors.APIStatus(nil); errors.As(err, &status) {
			response.Result = new(status.Status())
		}
		return response
	}
	changed, err := paused(old, &deployment, req.Object.Raw)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	return admission.PatchResponseFromRaw(req.Object.Raw, changed)
}

// validateDeployment validates a Deployment that is or was a template. old is nil for a new one.
func validateDeployment(old, deployment *appsv1.Deployment) field.ErrorList {
	var before metav1.Object
	if old != nil {
		before = old
	}
	faults := scaletarget.ValidateTemplate(before, deployment, true)
	if value, has := deployment.Annotations[keys.FleetPaused]; has && value != "true" && value != "false" {
		faults = append(faults, field.NotSupported(field.NewPath("metadata", "annotations").Key(keys.FleetPaused), value, []string{"true", "false"}))
	}
	return faults
}

// paused returns the JSON of a template with spec.paused. keys.FleetPaused holds what the user wants for the members. It is set on a
// Deployment that is created paused.
func paused(old, deployment *appsv1.Deployment, raw []byte) ([]byte, error) {
	if !scaletarget.Template(deployment) {
		return raw, nil
	}
	var o unstructured.Unstructured
	if err := json.Unmarshal(raw, &o.Object); err != nil {
		return nil, fmt.Errorf("read the Deployment: %w", err)
	}
	if _, says := deployment.Annotations[keys.FleetPaused]; old == nil && deployment.Spec.Paused && !says {
		annotations := maps.Clone(deployment.Annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[keys.FleetPaused] = "true"
		o.SetAnnotations(annotations)
	}
	if err := unstructured.SetNestedField(o.Object, true, "spec", "paused"); err != nil {
		return nil, fmt.Errorf("pause the Deployment: %w", err)
	}
	out, err := json.Marshal(o.Object)
	if err != nil {
		return nil, fmt.Errorf("write the Deployment: %w", err)
	}
	return out, nil
}
