package propagation

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
)

// Paths of the webhooks of templateWebhook.
const (
	// templatePath is for workloads in namespaces with the label keys.FleetTemplate.
	templatePath = "/mutate-template"
	// unrunPath is for objects of kinds that only a member stack runs, on a hub without one.
	unrunPath = "/validate-unrun"
)

// templateWebhook warns about new objects that nothing runs: the hub's own cluster doesn't run them, and nothing places them in clusters. It
// is safe for concurrent use.
type templateWebhook struct {
	// Reader reads Propagations, ClusterPropagations and WorkloadSpreads.
	Reader client.Reader
	// Labels is true for templatePath. The webhook then also sets the label keys.FleetTemplate on Deployments and CloneSets, because all
	// objects in a namespace with that label are templates. An object whose own label is "false" keeps it, and its pods get it too; otherwise a
	// policy of the chart would refuse them.
	Labels bool
}

var _ admission.Handler = &templateWebhook{}

// Handle implements admission.Handler.
func (w *templateWebhook) Handle(ctx context.Context, req admission.Request) admission.Response {
	object, old := &unstructured.Unstructured{}, &unstructured.Unstructured{}
	if err := json.Unmarshal(req.Object.Raw, &object.Object); err != nil {
		return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the object: %w", err))
	}
	if len(req.OldObject.Raw) > 0 {
		if err := json.Unmarshal(req.OldObject.Raw, &old.Object); err != nil {
			return admission.Errored(http.StatusBadRequest, fmt.Errorf("read the old object: %w", err))
		}
	}
	response := admission.Allowed("")
	if w.Labels {
		if err := labelTemplate(object, old, schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}); err != nil {
			return admission.Errored(http.StatusBadRequest, err)
		}
		raw, err := json.Marshal(object.Object)
		if err != nil {
			return admission.Errored(http.StatusInternalServerError, fmt.Errorf("write the object: %w", err))
		}
		response = admission.PatchResponseFromRaw(req.Object.Raw, raw)
	}
	if req.Operation != admissionv1.Create || w.Labels && optsOut(object) || metav1.GetControllerOf(object) != nil {
		return response
	}
	placed, err := w.isPlaced(ctx, req, object)
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, err)
	}
	if !placed {
		response.Warnings = append(response.Warnings, fmt.Sprintf("the hub does not run this %s: select it in a %s to place it in member clusters",
			req.Kind.Kind, sourceOf(req.Namespace)))
	}
	return response
}

// sourceOf returns the kind that places objects of a namespace, where "" stands for cluster-scoped objects.
func sourceOf(namespace string) string {
	if namespace == "" {
		return clusterSourceKind
	}
	return sourceKind
}

// optsOut reports whether an object opts out of being a template by its own label.
func optsOut(o metav1.Object) bool { return o.GetLabels()[keys.FleetTemplate] == "false" }

// labelTemplate labels an object in a namespace of templates. old is empty for a new object. Only Deployments and CloneSets get the label,
// because their own controllers check it. An existing object that is not a template yet stays as it is.
func labelTemplate(object, old *unstructured.Unstructured, kind schema.GroupKind) error {
	if optsOut(object) {
		for _, path := range [][]string{{"spec", "template"}, {"spec", "jobTemplate"}, {"spec", "jobTemplate", "spec", "template"}} {
			if _, has, _ := unstructured.NestedMap(object.Object, path...); !has {
				continue
			}
			if err := unstructured.SetNestedField(object.Object, "false", append(path, "metadata", "labels", keys.FleetTemplate)...); err != nil {
				return fmt.Errorf("label the pods: %w", err)
			}
		}
		return nil
	}
	_, has := object.GetLabels()[keys.FleetTemplate]
	checksLabel := kind == schema.GroupKind{Group: "apps", Kind: "Deployment"} || kind == schema.GroupKind{Group: appsv1beta1.GroupVersion.Group, Kind: "CloneSet"}
	if has || !checksLabel || old.Object != nil && !scaletarget.Template(old) {
		return nil
	}
	if err := unstructured.SetNestedField(object.Object, "true", "metadata", "labels", keys.FleetTemplate); err != nil {
		return fmt.Errorf("label the object: %w", err)
	}
	return nil
}

// isPlaced reports whether something places an object in clusters.
func (w *templateWebhook) isPlaced(ctx context.Context, req admission.Request, o metav1.Object) (bool, error) {
	kind := schema.GroupKind{Group: req.Kind.Group, Kind: req.Kind.Kind}
	f := namespaced()
	if req.Namespace == "" {
		f = clusterScoped()
	}
	all, err := f.all(ctx, w.Reader, req.Namespace)
	if err != nil {
		return false, err
	}
	for _, source := range all {
		if spec, _ := f.specAndStatus(source); selects(spec, kind, o.GetName(), o.GetLabels()) {
			return true, nil
		}
	}
	if req.Namespace == "" {
		return false, nil
	}
	var spreads appsv1beta1.WorkloadSpreadList
	if err := w.Reader.List(ctx, &spreads, client.InNamespace(req.Namespace), client.UnsafeDisableDeepCopy); err != nil {
		return false, fmt.Errorf("list WorkloadSpreads: %w", err)
	}
	return slices.ContainsFunc(spreads.Items, func(ws appsv1beta1.WorkloadSpread) bool {
		target := scaletarget.SpreadTarget(&ws)
		return scaletarget.Federated(&ws) && target.Kind.GroupKind() == kind && target.Name == o.GetName()
	}), nil
}
