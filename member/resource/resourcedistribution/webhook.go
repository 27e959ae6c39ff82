package resourcedistribution

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/feature"
)

// Webhook validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for concurrent use.
type Webhook struct {
	// Secrets lists the names of the Secrets that may be distributed.
	Secrets []string
	// Client checks whether the user of a request may read a source.
	Client client.Client
	// Off means that the feature gate is off, so nothing is distributed.
	Off bool
	// AllowClusters allows objects to name clusters: there is a hub in this cluster, which validates and distributes these objects.
	AllowClusters bool
	// Hub means that this is the webhook of a hub without a member stack. Each member has its own Secrets and gate.
	Hub bool
}

var _ admission.Validator[*appsv1beta1.ResourceDistribution] = &Webhook{}

// ValidateCreate validates a new object.
func (w *Webhook) ValidateCreate(ctx context.Context, rd *appsv1beta1.ResourceDistribution) (admission.Warnings, error) {
	faults := w.validate(&rd.Spec)
	if w.Off && !w.ofHub(&rd.Spec) {
		faults = gateOff()
	} else if len(faults) == 0 {
		faults = w.review(ctx, rd)
	}
	return warnings(&rd.Spec), admit.Invalid(gvk(), rd.Name, faults)
}

// ofHub reports whether a hub in this cluster distributes the object to its members.
func (w *Webhook) ofHub(s *appsv1beta1.ResourceDistributionSpec) bool {
	return w.Hub || w.AllowClusters && s.Targets.Clusters != nil
}

func gateOff() field.ErrorList {
	return field.ErrorList{field.Forbidden(field.NewPath("spec"), fmt.Sprintf(
		"nothing would be distributed: set %s=true in featureGates of the chart", feature.ResourceDistribution))}
}

// ValidateUpdate validates a change. Faults that the object already had are only warnings, because it may be older than the rule. With a
// source, every change of the spec is reviewed, because other targets would give its content to anyone who may read there.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, rd *appsv1beta1.ResourceDistribution) (admission.Warnings, error) {
	fresh, known := admit.Ratchet(w.validate(&rd.Spec), w.validate(&old.Spec))
	if rd.Spec.Source != nil && len(fresh) == 0 && !equality.Semantic.DeepEqual(rd.Spec, old.Spec) {
		if w.Off { // Nothing can be reviewed, and the change would be distributed once the gate is on.
			fresh = gateOff()
		} else {
			fresh = w.review(ctx, rd)
		}
	}
	return append(known, admit.NewWarnings(warnings(&rd.Spec), warnings(&old.Spec))...), admit.Invalid(gvk(), rd.Name, fresh)
}

// review rejects a source that the user of the request may not get, because the manager reads it for everyone who may read the copies. An
// agent may read more than the users of its hub.
func (w *Webhook) review(ctx context.Context, rd *appsv1beta1.ResourceDistribution) field.ErrorList {
	s, path := rd.Spec.Source, field.NewPath("spec", "source")
	if s == nil {
		return nil
	}
	if w.Hub {
		return field.ErrorList{field.Forbidden(path, "a hub doesn't read sources: use resource, with the content")}
	}
	if _, placed := rd.Annotations[keys.FleetRowUID]; placed {
		return field.ErrorList{field.Forbidden(path, "a hub doesn't place ResourceDistributions with a source: use resource, with the content")}
	}
	user, allowed, err := admit.Access(ctx, w.Client, authorizationv1.ResourceAttributes{
		Verb: "get", Version: corev1.SchemeGroupVersion.Version, Resource: strings.ToLower(s.Kind) + "s", Namespace: s.Namespace, Name: s.Name,
	})
	switch {
	case err != nil:
		return field.ErrorList{field.InternalError(path, err)}
	case !allowed:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf(
			"user %q isn't allowed to get %s %s in namespace %s: request that permission, or let somebody who has it make the change",
			user, s.Kind, s.Name, s.Namespace))}
	}
	return nil
}

// ValidateDelete allows every deletion.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.ResourceDistribution) (admission.Warnings, error) {
	return nil, nil
}

// warnings returns warnings about settings that have no effect.
func warnings(s *appsv1beta1.ResourceDistributionSpec) admission.Warnings {
	t, path, never := &s.Targets, field.NewPath("spec", "targets"), map[string]string{
		metav1.NamespaceSystem: "never gets a copy", metav1.NamespacePublic: "never gets a copy",
	}
	if s.Source != nil {
		never[s.Source.Namespace] = "has the source and gets no copy"
	}
	var out admission.Warnings
	if !t.AllNamespaces && len(t.IncludedNamespaces.List) == 0 &&
		len(t.NamespaceSelector.MatchLabels)+len(t.NamespaceSelector.MatchExpressions) == 0 {
		out = append(out, fmt.Sprintf("%s: no namespaces are selected: set allNamespaces, or specify names or labels", path))
	}
	for i, ns := range t.IncludedNamespaces.List {
		if why := never[ns.Name]; why != "" {
			out = append(out, fmt.Sprintf("%s: %s %s", path.Child("includedNamespaces", "list").Index(i).Child("name"), ns.Name, why))
		}
	}
	return out
}

// validate validates a spec.
func (w *Webhook) validate(s *appsv1beta1.ResourceDistributionSpec) field.ErrorList {
	path := field.NewPath("spec")
	faults := validateTargets(&s.Targets, path.Child("targets"))
	if s.Targets.Clusters != nil && !w.ofHub(s) {
		faults = append(faults, field.Forbidden(path.Child("targets", "clusters"),
			"only a hub distributes to clusters, and this cluster has none: apply the object on the hub, or remove this field"))
	}
	if s.Source != nil {
		return append(w.validateSource(s.Source, path.Child("source")), faults...)
	}
	return append(w.validateResource(s, path.Child("resource")), faults...)
}

// mayDistribute reports whether the manager has permissions for a resource. The permissions on a hub's members are not known here.
func (w *Webhook) mayDistribute(s *appsv1beta1.ResourceDistributionSpec, key id) bool {
	return key.kind != kindSecret || w.ofHub(s) || slices.Contains(w.Secrets, key.name)
}

func (w *Webhook) validateSource(s *appsv1beta1.ResourceDistributionSource, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for _, why := range content.IsDNS1123Label(s.Namespace) {
		faults = append(faults, field.Invalid(path.Child("namespace"), s.Namespace, why))
	}
	for _, why := range content.IsDNS1123Subdomain(s.Name) {
		faults = append(faults, field.Invalid(path.Child("name"), s.Name, why))
	}
	if s.Kind == kindSecret && !slices.Contains(w.Secrets, s.Name) {
		faults = append(faults, field.Forbidden(path.Child("name"), notAllowed(s.Name)))
	}
	return faults
}

func (w *Webhook) validateResource(s *appsv1beta1.ResourceDistributionSpec, path *field.Path) field.ErrorList {
	r, strict, err := read(s.Resource.Raw)
	if err != nil {
		return field.ErrorList{field.Invalid(path, r.String(), err.Error()+": use a Secret or ConfigMap of v1")}
	}
	var faults field.ErrorList
	for _, err := range strict {
		faults = append(faults, field.Invalid(path, r.String(), err.Error()))
	}
	if !w.mayDistribute(s, r.id) {
		faults = append(faults, field.Forbidden(path.Child("metadata", "name"), notAllowed(r.name)))
	}
	faults = append(faults, validateMetadata(r, path.Child("metadata"))...)
	switch o := r.object.(type) {
	case *corev1.Secret:
		return append(faults, validateSecret(o, path)...)
	case *corev1.ConfigMap:
		return append(faults, validateConfigMap(o, path)...)
	}
	return faults
}

// validateMetadata validates the metadata that a copy gets.
func validateMetadata(r resource, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if r.name == "" {
		faults = append(faults, field.Required(path.Child("name"), "all copies have this name"))
	} else {
		for _, why := range content.IsDNS1123Subdomain(r.name) {
			faults = append(faults, field.Invalid(path.Child("name"), r.name, why))
		}
	}
	o := r.object
	for name, given := range map[string]bool{
		"finalizers": len(o.GetFinalizers()) > 0, "ownerReferences": len(o.GetOwnerReferences()) > 0, "generateName": o.GetGenerateName() != "",
	} {
		if given {
			faults = append(faults, field.Forbidden(path.Child(name), "copies only get name, labels and annotations: leave it out"))
		}
	}
	faults = append(faults, metav1validation.ValidateLabels(o.GetLabels(), path.Child("labels"))...)
	return append(faults, apivalidation.ValidateAnnotations(o.GetAnnotations(), path.Child("annotations"))...)
}

// required returns the keys that the apiserver requires in Secrets of a type. all says whether it requires all of them or just one.
func required(t corev1.SecretType) (keys []string, all bool) {
	switch t { //nolint:exhaustive // The others need none.
	case corev1.SecretTypeTLS:
		return []string{corev1.TLSCertKey, corev1.TLSPrivateKeyKey}, true
	case corev1.SecretTypeDockerConfigJson:
		return []string{corev1.DockerConfigJsonKey}, true
	case corev1.SecretTypeDockercfg:
		return []string{corev1.DockerConfigKey}, true
	case corev1.SecretTypeSSHAuth:
		return []string{corev1.SSHAuthPrivateKey}, true
	case corev1.SecretTypeBasicAuth:
		return []string{corev1.BasicAuthUsernameKey, corev1.BasicAuthPasswordKey}, false
	}
	return nil, true
}

func validateSecret(s *corev1.Secret, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if s.Type == corev1.SecretTypeServiceAccountToken {
		faults = append(faults, field.Forbidden(path.Child("type"),
			"the token of a ServiceAccount belongs to one namespace: distribute the objects that use it instead"))
	}
	size := 0
	for _, key := range slices.Sorted(maps.Keys(s.Data)) {
		faults = append(faults, validateKey(key, path.Child("data"))...)
		size += len(s.Data[key])
	}
	keys, all := required(s.Type)
	found := 0
	for _, key := range keys {
		if _, ok := s.Data[key]; ok {
			found++
		} else if all {
			faults = append(faults, field.Required(path.Child("data").Key(key), fmt.Sprintf("Secrets of type %s must have it", s.Type)))
		}
	}
	if !all && found == 0 {
		faults = append(faults, field.Required(path.Child("data"), fmt.Sprintf("Secrets of type %s must have %s or %s", s.Type, keys[0], keys[1])))
	}
	return append(faults, validateSize(size, path.Child("data"))...)
}

func validateConfigMap(c *corev1.ConfigMap, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	size := 0
	for _, key := range slices.Sorted(maps.Keys(c.Data)) {
		faults = append(faults, validateKey(key, path.Child("data"))...)
		size += len(c.Data[key])
	}
	for _, key := range slices.Sorted(maps.Keys(c.BinaryData)) {
		faults = append(faults, validateKey(key, path.Child("binaryData"))...)
		if _, both := c.Data[key]; both {
			faults = append(faults, field.Invalid(path.Child("binaryData").Key(key), key, "data has the same key"))
		}
		size += len(c.BinaryData[key])
	}
	return append(faults, validateSize(size, path.Child("data"))...)
}

func validateKey(key string, path *field.Path) field.ErrorList {
	whys := validation.IsConfigMapKey(key)
	faults := make(field.ErrorList, 0, len(whys))
	for _, why := range whys {
		faults = append(faults, field.Invalid(path.Key(key), key, why))
	}
	return faults
}

func validateSize(size int, path *field.Path) field.ErrorList {
	if size > corev1.MaxSecretSize {
		return field.ErrorList{field.TooLong(path, nil, corev1.MaxSecretSize)}
	}
	return nil
}

func validateTargets(t *appsv1beta1.ResourceDistributionTargets, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	names := func(list []appsv1beta1.ResourceDistributionNamespace, path *field.Path) map[string]bool {
		out := map[string]bool{}
		for i, ns := range list {
			for _, why := range content.IsDNS1123Label(ns.Name) {
				faults = append(faults, field.Invalid(path.Index(i).Child("name"), ns.Name, why))
			}
			out[ns.Name] = true
		}
		return out
	}
	excluded := names(t.ExcludedNamespaces.List, path.Child("excludedNamespaces", "list"))
	included := path.Child("includedNamespaces", "list")
	names(t.IncludedNamespaces.List, included)
	for i, ns := range t.IncludedNamespaces.List {
		if excluded[ns.Name] {
			faults = append(faults, field.Invalid(included.Index(i).Child("name"), ns.Name, "is also in excludedNamespaces: remove it from one of them"))
		}
	}
	return append(faults, metav1validation.ValidateLabelSelector(&t.NamespaceSelector,
		metav1validation.LabelSelectorValidationOptions{}, path.Child("namespaceSelector"))...)
}
