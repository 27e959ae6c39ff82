package protection

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiextensions-apiserver/pkg/apihelpers"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/feature"
	"github.com/flotilla-io/flotilla/pkg/plan/protect"
)

// page is how many objects are listed at once. The first page nearly always contains one that counts.
const page = 500

var (
	namespaceKind = schema.GroupKind{Kind: "Namespace"}                                                  //nolint:gochecknoglobals // A constant.
	crdKind       = schema.GroupKind{Group: apiextensionsv1.GroupName, Kind: "CustomResourceDefinition"} //nolint:gochecknoglobals // A constant.
)

// validator answers pathValidate.
type validator struct {
	// live reads from the apiserver. A stale cache would allow deleting a namespace whose first pod was just created.
	live client.Reader
	// crds says whether gate DeletionProtectionForCRDCascadingGate is on.
	crds   bool
	report report
}

// Handle implements admission.Handler.
func (w *validator) Handle(ctx context.Context, req admission.Request) admission.Response {
	o, err := deleted(req)
	switch {
	case err != nil:
		return admission.Errored(http.StatusBadRequest, err)
	case o == nil, o.GetLabels()[keys.DeleteProtection] != protect.Cascading, o.GetDeletionTimestamp() != nil:
		return admission.Allowed("")
	}
	var reason, instead string
	switch o.GroupVersionKind().GroupKind() {
	case namespaceKind:
		reason, instead, err = w.inNamespace(ctx, o.GetName())
	case crdKind:
		reason, instead, err = w.ofCRD(ctx, o)
	}
	if err != nil {
		return admission.Errored(http.StatusInternalServerError, fmt.Errorf("look up the contents of %s %s: %w", o.GetKind(), o.GetName(), err))
	}
	if reason == "" {
		return admission.Allowed("")
	}
	why := protect.Sentence(o, reason, instead)
	w.report.reportRefusal(ctx, req, o, why)
	return admission.Denied(protect.Forbidden + why)
}

// inNamespace names an object that protects a namespace: a pod that is neither finished nor being deleted, or a bound PVC that is not being
// deleted.
func (w *validator) inNamespace(ctx context.Context, namespace string) (reason, instead string, err error) {
	active := client.MatchingFieldsSelector{Selector: fields.AndSelectors(
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodSucceeded)),
		fields.OneTermNotEqualSelector("status.phase", string(corev1.PodFailed)),
	)}
	name, err := w.findRemaining(ctx, corev1.SchemeGroupVersion.WithKind("Pod"), client.InNamespace(namespace), active)
	if err != nil {
		return "", "", fmt.Errorf("list pods: %w", err)
	}
	if name != "" {
		return "it contains a pod, " + name, "delete its pods and the workloads that create them", nil
	}
	name, err = findInPages(func(next string) (string, string, error) {
		claims := &corev1.PersistentVolumeClaimList{}
		err := w.live.List(ctx, claims, client.InNamespace(namespace), client.Limit(page), client.Continue(next))
		for i := range claims.Items {
			if c := &claims.Items[i]; c.DeletionTimestamp.IsZero() && c.Status.Phase == corev1.ClaimBound {
				return c.Name, "", err
			}
		}
		return "", claims.Continue, err
	})
	if err != nil {
		return "", "", fmt.Errorf("list PVCs: %w", err)
	}
	if name != "" {
		return "it contains a bound PVC, " + name, "delete its PVCs", nil
	}
	return "", "", nil
}

// ofCRD returns why a CRD is protected: it has an object that is not being deleted, or it can't be determined whether it has one.
func (w *validator) ofCRD(ctx context.Context, o *unstructured.Unstructured) (reason, instead string, err error) {
	if !w.crds {
		return fmt.Sprintf("it isn't checked for objects while feature gate %s is off", feature.DeletionProtectionForCRDCascading),
			"enable the gate", nil
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, crd); err != nil {
		return "", "", fmt.Errorf("read the CRD: %w", err)
	}
	version, served := readable(crd)
	switch {
	case !apihelpers.IsCRDConditionTrue(crd, apiextensionsv1.Established): // It has never been served.
		return "", "", nil
	case !served:
		return "none of its versions is served, so it can't be checked for objects", "serve a version", nil
	}
	name, err := w.findRemaining(ctx, schema.GroupVersionKind{Group: crd.Spec.Group, Version: version, Kind: crd.Spec.Names.Kind})
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Sprintf("flotilla-member isn't allowed to list %s.%s to check for objects", crd.Spec.Names.Plural, crd.Spec.Group),
			"add them to deletionProtection.customResources of its chart", nil
	case err != nil:
		return "", "", fmt.Errorf("list its objects: %w", err)
	case name != "":
		return fmt.Sprintf("it has a %s, %s", crd.Spec.Names.Kind, name), "delete these objects", nil
	}
	return "", "", nil
}

// readable returns the version in which the objects of a CRD are listed: the storage version if it is served, otherwise the first served one.
func readable(crd *apiextensionsv1.CustomResourceDefinition) (version string, served bool) {
	for i := range crd.Spec.Versions {
		v := &crd.Spec.Versions[i]
		if v.Served && (version == "" || v.Storage) {
			version = v.Name
		}
	}
	return version, version != ""
}

// findRemaining returns the name, with namespace, of an object of a kind that is not being deleted; "" if there is none.
func (w *validator) findRemaining(ctx context.Context, kind schema.GroupVersionKind, opts ...client.ListOption) (string, error) {
	return findInPages(func(next string) (string, string, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		err := w.live.List(ctx, list, append(slices.Clone(opts), client.Limit(page), client.Continue(next))...)
		for i := range list.Items {
			if list.Items[i].DeletionTimestamp.IsZero() {
				return strings.TrimPrefix(client.ObjectKeyFromObject(&list.Items[i]).String(), "/"), "", err
			}
		}
		return "", list.Continue, err
	})
}

// findInPages goes through pages until one has a name; "" if none has.
func findInPages(look func(next string) (name, after string, err error)) (string, error) {
	next := ""
	for {
		name, after, err := look(next)
		if err != nil || name != "" || after == "" {
			return name, err
		}
		next = after
	}
}
