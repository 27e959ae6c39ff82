package propagation

import (
	"context"
	"fmt"
	"slices"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	validate "k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/hub/placement"
	"github.com/flotilla-io/flotilla/hub/propagation/override"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Webhook validates Propagations or ClusterPropagations, depending on T. It is safe for concurrent use.
type Webhook[T client.Object] struct {
	// Clusters validates clusters. Its client checks what the user of a request may do.
	Clusters placement.ClusterRules
	// Mapper maps the kinds that the hub serves.
	Mapper meta.RESTMapper
	// Kinds are the resources whose objects may be placed.
	Kinds []schema.GroupResource
	// LocalMember is true if the member stack runs in this cluster too.
	LocalMember bool
	// Self is the username of the hub. When the hub writes a Propagation for a UnitedDeployment, the permissions of the user who wrote the
	// UnitedDeployment were already checked.
	Self string
}

var (
	_ admission.Validator[*fleetv1alpha1.Propagation]        = &Webhook[*fleetv1alpha1.Propagation]{}
	_ admission.Validator[*fleetv1alpha1.ClusterPropagation] = &Webhook[*fleetv1alpha1.ClusterPropagation]{}
)

// ValidateCreate implements admission.Validator.
func (w *Webhook[T]) ValidateCreate(ctx context.Context, o T) (admission.Warnings, error) {
	return w.validate(ctx, &fleetv1alpha1.PropagationSpec{}, o)
}

// ValidateUpdate implements admission.Validator. It requires no permission for what the old object already has.
func (w *Webhook[T]) ValidateUpdate(ctx context.Context, old, o T) (admission.Warnings, error) {
	oldSpec, _ := webhookSpec(old)
	newSpec, _ := webhookSpec(o)
	if !o.GetDeletionTimestamp().IsZero() || apiequality.Semantic.DeepEqual(oldSpec, newSpec) {
		return nil, nil
	}
	return w.validate(ctx, oldSpec, o)
}

// ValidateDelete implements admission.Validator.
func (w *Webhook[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) { return nil, nil }

// webhookSpec returns the spec and the kind of an object of either kind.
func webhookSpec(o client.Object) (spec *fleetv1alpha1.PropagationSpec, kind string) {
	if p, ok := o.(*fleetv1alpha1.ClusterPropagation); ok {
		return &p.Spec, clusterSourceKind
	}
	return &o.(*fleetv1alpha1.Propagation).Spec, sourceKind
}

func (w *Webhook[T]) validate(ctx context.Context, oldSpec *fleetv1alpha1.PropagationSpec, o T) (admission.Warnings, error) {
	spec, kind := webhookSpec(o)
	gvk, root := fleetv1alpha1.GroupVersion.WithKind(kind), field.NewPath("spec")
	if faults := validateSpec(spec, root); len(faults) > 0 {
		return nil, admit.Invalid(gvk, o.GetName(), faults)
	}
	if own, err := w.writtenByHub(ctx, o); own || err != nil {
		return nil, err
	}
	var faults field.ErrorList
	warnings := warnAboutShares(spec, root.Child("replicas"))
	auto := placesDependencies(spec)
	checkDependencies := auto && oldSpec.Dependencies != spec.Dependencies // Another selector may bring more dependencies too.
	// A change to what is sent, or sending it to more clusters, affects all objects.
	affectsAll := widens(oldSpec, spec) || !apiequality.Semantic.DeepEqual(oldSpec.Overrides, spec.Overrides) ||
		!apiequality.Semantic.DeepEqual(oldSpec.Apply, spec.Apply) || !apiequality.Semantic.DeepEqual(oldSpec.Replicas, spec.Replicas)
	for i := range spec.Selectors {
		s := &spec.Selectors[i]
		if !affectsAll && slices.ContainsFunc(oldSpec.Selectors, func(old fleetv1alpha1.PropagationSelector) bool {
			return apiequality.Semantic.DeepEqual(&old, s)
		}) {
			continue
		}
		checkDependencies = auto
		refused, warned, err := w.validateSelector(ctx, o.GetNamespace(), s, root.Child("selectors").Index(i))
		if err != nil {
			return nil, err
		}
		faults, warnings = append(faults, refused...), append(warnings, warned...)
	}
	if checkDependencies {
		refused, err := w.validateDependencies(ctx, o.GetNamespace(), root.Child("dependencies"))
		if err != nil {
			return nil, err
		}
		faults = append(faults, refused...)
	}
	clusters := placement.Selected(spec.Clusters)
	refused, warned, err := w.Clusters.ValidateAs(ctx, o.GetNamespace(), placement.Selected(oldSpec.Clusters).Where(), clusters.Where(), placement.Words{
		At: clusters.At(root.Child("clusters")), Gets: "it gets the objects", Wait: "objects wait",
	})
	if err != nil {
		return nil, err
	}
	return append(warnings, warned...), admit.Invalid(gvk, o.GetName(), append(faults, refused...))
}

// widens reports whether more clusters may get the objects.
func widens(oldSpec, newSpec *fleetv1alpha1.PropagationSpec) bool {
	old, now := oldSpec.Clusters, newSpec.Clusters
	lacks := func(all, some []string) bool {
		return slices.ContainsFunc(some, func(name string) bool { return !slices.Contains(all, name) })
	}
	tolerates := slices.ContainsFunc(newSpec.Tolerations, func(t fleetv1alpha1.ClusterToleration) bool {
		return !slices.ContainsFunc(oldSpec.Tolerations, func(o fleetv1alpha1.ClusterToleration) bool { return apiequality.Semantic.DeepEqual(o, t) })
	})
	return tolerates || now.All && !old.All || lacks(now.Excluded, old.Excluded) ||
		now.Selector != nil && !old.All && !apiequality.Semantic.DeepEqual(old.Selector, now.Selector) || !old.All && lacks(old.Names, now.Names)
}

// writtenByHub reports whether the hub itself writes the Propagation of a UnitedDeployment.
func (w *Webhook[T]) writtenByHub(ctx context.Context, o T) (bool, error) {
	owner := metav1.GetControllerOf(o)
	if w.Self == "" || owner == nil || schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind).GroupKind() != unitedKind() {
		return false, nil
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return false, fmt.Errorf("read the request's user: %w", err)
	}
	return req.UserInfo.Username == w.Self, nil
}

// validateSpec validates what the schema can't and what doesn't need the apiserver.
func validateSpec(spec *fleetv1alpha1.PropagationSpec, root *field.Path) field.ErrorList {
	var faults field.ErrorList
	for i, s := range spec.Selectors {
		at := root.Child("selectors").Index(i)
		if _, err := schema.ParseGroupVersion(s.APIVersion); err != nil || strings.HasPrefix(s.APIVersion, "/") {
			faults = append(faults, field.Invalid(at.Child("apiVersion"), s.APIVersion, "must be group/version, or v1 for the core group"))
		}
		if s.Name != "" {
			for _, why := range validate.IsPathSegmentName(s.Name) {
				faults = append(faults, field.Invalid(at.Child("name"), s.Name, why))
			}
		}
		faults = append(faults, metav1validation.ValidateLabelSelector(s.LabelSelector,
			metav1validation.LabelSelectorValidationOptions{}, at.Child("labelSelector"))...)
		if why := misplaced(spec, kindOf(s)); why != nil {
			faults = append(faults, field.Forbidden(at.Child("kind"), why.Message))
		}
	}
	if dependenciesOnly(spec) {
		faults = append(faults, validateOnly(spec, root)...)
	}
	faults = append(faults, placement.Selected(spec.Clusters).Validate(root.Child("clusters"))...)
	if spec.Suspend != nil {
		for i, name := range spec.Suspend.Clusters {
			for _, why := range validate.IsDNS1123Label(name) {
				faults = append(faults, field.Invalid(root.Child("suspend", "clusters").Index(i), name, why))
			}
		}
	}
	faults = append(faults, override.Validate(spec.Overrides, root.Child("overrides"))...)
	if divides(spec) {
		faults = append(faults, validateDivision(spec, root)...)
	}
	return faults
}

// validateOnly refuses fields about the selected objects if only their dependencies are placed.
func validateOnly(spec *fleetv1alpha1.PropagationSpec, root *field.Path) field.ErrorList {
	var faults field.ErrorList
	if spec.Replicas != nil {
		faults = append(faults, field.Forbidden(root.Child("replicas"), "dependencies: Only places no workloads, so there are no replicas to divide"))
	}
	for i, o := range spec.Overrides {
		if o.Kind == unitedKind().Kind {
			faults = append(faults, field.Forbidden(root.Child("overrides").Index(i).Child("kind"),
				"dependencies: Only does not place the UnitedDeployment: use the patches of its subsets instead"))
		}
	}
	return faults
}

// validateSelector refuses kinds that are not placed, and objects that the user may not read and create here. namespace is empty for a
// ClusterPropagation.
func (w *Webhook[T]) validateSelector(
	ctx context.Context, namespace string, s *fleetv1alpha1.PropagationSelector, at *field.Path,
) (faults field.ErrorList, warnings admission.Warnings, err error) {
	kind := schema.FromAPIVersionAndKind(s.APIVersion, s.Kind)
	if why := refusesKind(kind.GroupKind()); why != "" {
		return field.ErrorList{field.Forbidden(at.Child("kind"), why)}, nil, nil
	}
	mapping, err := w.Mapper.RESTMapping(kind.GroupKind())
	if err != nil && !meta.IsNoMatchError(err) {
		return nil, nil, fmt.Errorf("find the resource of kind %s: %w", kind.GroupKind(), err)
	}
	var resources []schema.GroupResource
	if err == nil {
		resources = []schema.GroupResource{mapping.Resource.GroupResource()}
		if isClusterScoped := mapping.Scope.Name() != meta.RESTScopeNameNamespace; isClusterScoped && namespace != "" {
			return field.ErrorList{field.Forbidden(at.Child("kind"), fmt.Sprintf(
				"kind %s is cluster-scoped: select it in a ClusterPropagation", s.Kind))}, nil, nil
		} else if !isClusterScoped && namespace == "" {
			return field.ErrorList{field.Forbidden(at.Child("kind"), fmt.Sprintf(
				"kind %s is namespaced: select it in a Propagation in its namespace", s.Kind))}, nil, nil
		}
	} else if kind.GroupKind() == unitedKind() {
		resources = []schema.GroupResource{{Group: unitedKind().Group, Resource: "uniteddeployments"}}
	} else { // Once the kind is served, its resource may turn out to be any of its group.
		for _, r := range w.Kinds {
			if r.Group == kind.Group {
				resources = append(resources, r)
			}
		}
	}
	if kind.GroupKind() != unitedKind() && (len(resources) == 0 || !slices.Contains(w.Kinds, resources[0])) {
		return field.ErrorList{field.Forbidden(at.Child("kind"), fmt.Sprintf(
			"this hub does not place objects of kind %s: its administrator can add the resource to propagation.kinds of chart flotilla-hub",
			kind.GroupKind()))}, nil, nil
	}
	for _, r := range resources {
		why, err := refusesUser(ctx, w.Clusters.Client, namespace, r, s)
		if err != nil {
			return nil, nil, err
		}
		if why != "" {
			return field.ErrorList{field.Forbidden(at, why)}, nil, nil
		}
	}
	if _, err := w.Mapper.RESTMapping(kind.GroupKind(), kind.Version); meta.IsNoMatchError(err) {
		return nil, admission.Warnings{fmt.Sprintf("%s: this hub does not serve %s in version %s: objects are placed once it does; install "+
			"its CustomResourceDefinition, or name another version", at, kind.GroupKind(), kind.Version)}, nil
	} else if err != nil {
		return nil, nil, fmt.Errorf("find version %s of kind %s: %w", kind.Version, kind.GroupKind(), err)
	}
	if why := w.runsHere(ctx, namespace, kind, s); why != "" {
		warnings = append(warnings, fmt.Sprintf("%s: %s", at, why))
	}
	return nil, warnings, nil
}

// validateDependencies refuses dependencies unless the user may read and create any object that could be one.
func (w *Webhook[T]) validateDependencies(ctx context.Context, namespace string, at *field.Path) (field.ErrorList, error) {
	why, err := RefusesDependencies(ctx, w.Clusters.Client, w.Kinds, namespace)
	if err != nil || why == "" {
		return nil, err
	}
	return field.ErrorList{field.Forbidden(at, why+"; otherwise select objects one by one, with dependencies: Off")}, nil
}

// RefusesDependencies checks whether the user of the request may read and create all objects in a namespace that could be dependencies. It
// returns why not, or "". placed are the resources that the hub places.
func RefusesDependencies(ctx context.Context, c client.Client, placed []schema.GroupResource, namespace string) (string, error) {
	for _, r := range dependencyResources(placed) {
		why, err := refusesUser(ctx, c, namespace, r, &fleetv1alpha1.PropagationSelector{LabelSelector: &metav1.LabelSelector{}})
		if err != nil || why != "" {
			return why, err
		}
	}
	return "", nil
}

// refusesUser checks whether the user of the request may read and create what a selector selects. It returns why not, or "".
func refusesUser(
	ctx context.Context, c client.Client, namespace string, r schema.GroupResource, s *fleetv1alpha1.PropagationSelector,
) (string, error) {
	read := authorizationv1.ResourceAttributes{Group: r.Group, Resource: r.Resource, Namespace: namespace, Verb: "list"}
	create := read
	create.Verb = "create"
	which := r.String()
	if s.LabelSelector == nil {
		read.Verb, read.Name = "get", s.Name
		which += " " + s.Name
	}
	for _, what := range []authorizationv1.ResourceAttributes{read, create} {
		user, allowed, err := admit.Access(ctx, c, what)
		if err != nil {
			return "", err //nolint:wrapcheck // It names the user.
		}
		if allowed {
			continue
		}
		if what.Name == "" {
			which = r.String()
		}
		where := "at the cluster scope"
		if namespace != "" {
			where = "in namespace " + namespace
		}
		return fmt.Sprintf("user %q may not %s %s %s: placing objects in clusters requires permission to read and create them here",
			user, what.Verb, which, where), nil
	}
	return "", nil
}

// refusesKind returns why Propagations don't place objects of a kind and what to use instead, or "".
func refusesKind(kind schema.GroupKind) string {
	if why := link.NeverPlaced(kind); why != "" {
		return why
	}
	switch kind {
	case schema.GroupKind{Kind: "Namespace"}:
		return "a hub does not create namespaces: the administrator of a member does"
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "WorkloadSpread"}:
		return "a WorkloadSpread names its own clusters, in spec.subsets"
	case schema.GroupKind{Group: "apps.kruise.io", Kind: "ResourceDistribution"}:
		return "a ResourceDistribution names its own clusters, in spec.targets.clusters"
	}
	return ""
}

// runsHere returns a warning about objects that take effect in the hub's own cluster too, or "".
func (w *Webhook[T]) runsHere(ctx context.Context, namespace string, kind schema.GroupVersionKind, s *fleetv1alpha1.PropagationSelector) string {
	workloads := []string{"DaemonSet", "StatefulSet", "ReplicaSet", "ReplicationController", "Job", "CronJob", "Pod"}
	group := kind.GroupKind()
	if w.isTemplateNamespace(ctx, namespace) {
		return ""
	}
	switch {
	case group == unitedKind(): // It is not placed.
	case group == schema.GroupKind{Group: "apps", Kind: "Deployment"}, w.LocalMember && group == schema.GroupKind{Group: "apps.kruise.io", Kind: "CloneSet"}:
		if w.allTemplates(ctx, namespace, kind, s) {
			return ""
		}
		return fmt.Sprintf("a %s also runs in the hub's own cluster if its controller does: create it with label %s: \"true\" to run it "+
			"in members only", kind.Kind, keys.FleetTemplate)
	case w.LocalMember && kind.Group == "apps.kruise.io",
		slices.Contains([]string{"", "apps", "batch"}, kind.Group) && slices.Contains(workloads, kind.Kind):
		return fmt.Sprintf("a %s also takes effect in the hub's own cluster if its controller runs there, and no label prevents that", kind.Kind)
	}
	return ""
}

// isTemplateNamespace reports whether a namespace has the label for templates, so that no pods run in it. It returns false if the namespace can't be
// read.
func (w *Webhook[T]) isTemplateNamespace(ctx context.Context, namespace string) bool {
	if namespace == "" {
		return false
	}
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	err := w.Clusters.Live.Get(ctx, client.ObjectKey{Name: namespace}, ns)
	return err == nil && ns.Labels[keys.FleetTemplate] == "true"
}

// allTemplates reports whether all selected objects have the label of a template. It is true if there are no objects yet, and false if they
// can't be read.
func (w *Webhook[T]) allTemplates(ctx context.Context, namespace string, kind schema.GroupVersionKind, s *fleetv1alpha1.PropagationSelector) bool {
	if s.Name != "" {
		one := &metav1.PartialObjectMetadata{}
		one.SetGroupVersionKind(kind)
		err := w.Clusters.Live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.Name}, one)
		return apierrors.IsNotFound(err) || err == nil && one.Labels[keys.FleetTemplate] == "true"
	}
	selector, err := metav1.LabelSelectorAsSelector(s.LabelSelector)
	if err != nil {
		return false
	}
	none, err := labels.NewRequirement(keys.FleetTemplate, selection.NotIn, []string{"true"})
	if err != nil {
		return false
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = w.Clusters.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingLabelsSelector{Selector: selector.Add(*none)}, client.Limit(1))
	return err == nil && len(list.Items) == 0
}

// ParseKinds parses resources such as deployments.apps, as they appear in flags. It refuses resources that are never placed, even if something
// other than the chart grants the hub permission for them.
func ParseKinds(names []string) ([]schema.GroupResource, error) {
	kinds, err := link.ParseResources(names)
	if err != nil {
		return nil, err //nolint:wrapcheck // It names the resource.
	}
	if slices.Contains(kinds, schema.GroupResource{Resource: "namespaces"}) {
		return nil, fmt.Errorf("%q is never placed: %s", "namespaces", refusesKind(schema.GroupKind{Kind: "Namespace"}))
	}
	return kinds, nil
}
