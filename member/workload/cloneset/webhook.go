package cloneset

import (
	"context"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Defaults of the spec, as OpenKruise sets them.
const (
	defaultReplicas     = 1
	defaultHistoryLimit = 10
)

// idLength is the number of characters of an instance ID.
const idLength = 5

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Webhook defaults CloneSets and validates what neither schema nor CEL can: rules that depend on the apiserver's validation of pods, on other
// objects or on resolved percentages. Objects of both versions arrive as v1beta1. It is safe for concurrent use.
type Webhook struct {
	// Client creates pod templates with dry runs.
	Client client.Client
	// Live reads pods from the apiserver, because a cache may not show a pod that the user has seen.
	Live client.Reader
	// KeepTemplates disables defaults in pod templates and volumeClaimTemplates (gate TemplateNoDefaults). They are still validated.
	KeepTemplates bool
	// InPlace has the options for in-place updates.
	InPlace inplace.Options
	// Hub is true if a hub runs in this cluster and places CloneSets that are templates.
	Hub bool
	// Off lists the gates that are off, for warnings.
	Off workloadspec.Off

	templates workloadspec.PodTemplates
}

var (
	_ admission.Defaulter[*appsv1beta1.CloneSet] = &Webhook{}
	_ admission.Validator[*appsv1beta1.CloneSet] = &Webhook{}
)

// Default sets defaults. Templates are defaulted only when they are new or changed, so that scaling or a change of strategy never creates a
// new revision.
func (w *Webhook) Default(ctx context.Context, set *appsv1beta1.CloneSet) error {
	setDefaults(&set.Spec)
	old, err := admit.Old[appsv1beta1.CloneSet](ctx)
	if err != nil {
		return err
	}
	var stored workloadspec.Templates
	if old != nil {
		stored = templatesOf(&old.Spec)
	}
	mode := workloadspec.AllDefaults
	if w.KeepTemplates {
		mode = workloadspec.NoDefaults
	}
	done, faults, err := w.templates.Complete(ctx, w.Client, admit.Namespace(ctx, set), stored, templatesOf(&set.Spec), mode,
		field.NewPath("spec", "template"))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return admit.Invalid(Kind(), set.Name, faults)
	}
	set.Spec.Template, set.Spec.VolumeClaimTemplates = *done.Pod, done.PVCs
	return nil
}

func templatesOf(s *appsv1beta1.CloneSetSpec) workloadspec.Templates {
	return workloadspec.Templates{Pod: &s.Template, PVCs: s.VolumeClaimTemplates}
}

func setDefaults(s *appsv1beta1.CloneSetSpec) {
	if s.Replicas == nil {
		s.Replicas = ptr.To[int32](defaultReplicas)
	}
	if s.RevisionHistoryLimit == nil {
		s.RevisionHistoryLimit = ptr.To[int32](defaultHistoryLimit)
	}
	u := &s.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1beta1.CloneSetRollingUpdate
	}
	if u.RollingUpdate == nil {
		if u.Type != appsv1beta1.CloneSetRollingUpdate {
			return
		}
		u.RollingUpdate = &appsv1beta1.CloneSetRollingUpdateStrategy{}
	}
	r := u.RollingUpdate
	if r.PodUpdatePolicy == "" {
		r.PodUpdatePolicy = appsv1beta1.PodReCreate
	}
	if r.Partition == nil {
		r.Partition = new(intstr.FromInt32(0))
	}
	if r.MaxUnavailable == nil {
		r.MaxUnavailable = new(intstr.FromString(workloadspec.CloneSetMaxUnavailable))
	}
	if r.MaxSurge == nil {
		r.MaxSurge = new(intstr.FromInt32(0))
	}
	if r.PodUpdatePolicy != appsv1beta1.PodReCreate && r.InPlaceUpdateStrategy == nil {
		r.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{}
	}
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, set *appsv1beta1.CloneSet) (admission.Warnings, error) {
	faults := append(validateSpec(set), w.validatePlaced(nil, set)...)
	more, err := w.validateTemplate(ctx, set)
	if err != nil {
		return nil, err
	}
	return w.unservedWarnings(set), admit.Invalid(Kind(), set.Name, append(faults, more...))
}

// ValidateUpdate implements admission.Validator. Faults that the old spec already had are only warnings, so an object that was admitted
// without this webhook can still be scaled and updated, and names can be removed from podsToDelete.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, set *appsv1beta1.CloneSet) (admission.Warnings, error) {
	news := admit.NewWarnings(w.unservedWarnings(set), w.unservedWarnings(old))
	if faults := w.validatePlaced(old, set); len(faults) > 0 {
		return news, admit.Invalid(Kind(), set.Name, faults)
	}
	if apiequality.Semantic.DeepEqual(old.Spec, set.Spec) {
		return news, nil // Annotations may have changed.
	}
	faults, warnings := admit.Ratchet(validateSpec(set), validateSpec(old))
	faults = append(faults, validateInPlaceOnly(old, set, w.InPlace)...)
	if !templatesOf(&old.Spec).Same(templatesOf(&set.Spec)) {
		more, err := w.validateTemplate(ctx, set)
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
	}
	more, err := w.validatePodsToDelete(ctx, old, set)
	if err != nil {
		return nil, err
	}
	return append(warnings, news...), admit.Invalid(Kind(), set.Name, append(faults, more...))
}

// validatePlaced validates what concerns a CloneSet that a hub places in clusters; old is nil for a new one.
func (w *Webhook) validatePlaced(old, set *appsv1beta1.CloneSet) field.ErrorList {
	var before metav1.Object
	if old != nil {
		before = old
	}
	faults := scaletarget.ValidateTemplate(before, set, w.Hub)
	if scaletarget.Template(set) && len(set.Spec.ScaleStrategy.PodsToDelete) > 0 {
		faults = append(faults, field.Forbidden(field.NewPath("spec", "scaleStrategy", "podsToDelete"),
			"its pods run in member clusters: delete them there, or lower replicas"))
	}
	return faults
}

// unservedWarnings returns warnings about OpenKruise features that have no effect here.
func (w *Webhook) unservedWarnings(set *appsv1beta1.CloneSet) admission.Warnings {
	var inPlace *pods.InPlaceUpdateStrategy
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		inPlace = r.InPlaceUpdateStrategy
	}
	return workloadspec.Unserved(&set.ObjectMeta, &set.Spec.Template, inPlace, w.Off, nil)
}

// ValidateDelete implements admission.Validator; nothing is refused.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.CloneSet) (admission.Warnings, error) {
	return nil, nil
}

// validateSpec validates the spec on its own.
func validateSpec(set *appsv1beta1.CloneSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")
	var faults field.ErrorList
	// Check the longest of the names derived from the set's: a PVC's name contains the template's and the pod's.
	longest := len(set.Name) + 1 + idLength
	for i := range spec.VolumeClaimTemplates {
		longest = max(longest, len(spec.VolumeClaimTemplates[i].Name)+1+len(set.Name)+1+idLength)
	}
	if longest > validation.DNS1123SubdomainMaxLength {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), set.Name, fmt.Sprintf(
			"the names of its pods and PVCs would have %d characters, but at most %d are allowed: use a shorter name",
			longest, validation.DNS1123SubdomainMaxLength)))
	}
	faults = append(faults, workloadspec.Selector(spec.Selector, &spec.Template, path)...)
	faults = append(faults, workloadspec.PodSpec(&spec.Template.Spec, Kind().Kind, path.Child("template", "spec"))...)
	listed := make(map[string]bool, len(spec.ScaleStrategy.PodsToDelete)) // The schema doesn't limit the list.
	for i, name := range spec.ScaleStrategy.PodsToDelete {
		if listed[name] {
			faults = append(faults, field.Invalid(path.Child("scaleStrategy", "podsToDelete").Index(i), name,
				"is listed already: list it once"))
		}
		listed[name] = true
	}
	faults = append(faults, workloadspec.ClaimTemplates(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	return append(faults, validateStrategy(spec, path)...)
}

// ValidateSpec validates a spec at path within another object, which validates selector and replicas itself. It checks the numbers, and that
// the pods are ones a CloneSet can run. It makes no requests.
func ValidateSpec(s *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	spec := s.DeepCopy()
	setDefaults(spec)
	faults := workloadspec.PodSpec(&spec.Template.Spec, Kind().Kind, path.Child("template", "spec"))
	faults = append(faults, workloadspec.ClaimTemplates(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	return append(faults, validateStrategy(spec, path)...)
}

// validateStrategy validates the scale and update strategies.
func validateStrategy(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	faults := validateDeadline(spec, path.Child("progressDeadlineSeconds"))
	if v := spec.ScaleStrategy.MaxUnavailable; v != nil {
		_, more := workloadspec.IntOrPercent(v, replicas(spec), 0, path.Child("scaleStrategy", "maxUnavailable"))
		faults = append(faults, more...)
	}
	at := path.Child("updateStrategy", "rollingUpdate")
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return faults
	}
	faults = append(faults, validateNumbers(spec, at)...)
	faults = append(faults, workloadspec.PreDownload(r.InPlaceUpdateStrategy, at.Child("inPlaceUpdateStrategy"))...)
	return append(faults, workloadspec.UpdateOrder(r.PriorityStrategy, r.ScatterStrategy, at)...)
}

// validateDeadline rejects a deadline that no rollout could meet, because pods only become available after it.
func validateDeadline(spec *appsv1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	d := spec.ProgressDeadlineSeconds
	if d == nil || *d == math.MaxInt32 || *d > spec.MinReadySeconds {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *d, fmt.Sprintf(
		"must be greater than minReadySeconds (%d), or no pod could become available in time: raise it, or leave it out for no deadline",
		spec.MinReadySeconds))}
}

// validateNumbers validates partition, maxUnavailable and maxSurge, individually and together.
func validateNumbers(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	r := spec.UpdateStrategy.RollingUpdate
	want := replicas(spec)
	_, faults := workloadspec.IntOrPercent(r.Partition, want, workloadspec.MaxPercent, path.Child("partition"))
	unavailable, more := workloadspec.IntOrPercent(r.MaxUnavailable, want, workloadspec.MaxPercent, path.Child("maxUnavailable"))
	faults = append(faults, more...)
	surge, more := workloadspec.IntOrPercent(r.MaxSurge, want, 10*workloadspec.MaxPercent, path.Child("maxSurge"))
	if faults = append(faults, more...); len(faults) > 0 {
		return faults
	}
	if r.PodUpdatePolicy == appsv1beta1.PodInPlaceOnly && surge > 0 {
		faults = append(faults, field.Invalid(path.Child("maxSurge"), r.MaxSurge.String(),
			"must be 0 with podUpdatePolicy InPlaceOnly, which never re-creates pods"))
	}
	if want > 0 && unavailable < 1 && surge < 1 && r.MaxUnavailable != nil {
		faults = append(faults, field.Invalid(path.Child("maxUnavailable"), r.MaxUnavailable.String(),
			"no pod could ever be updated: raise it or maxSurge to at least 1"))
	}
	return faults
}

// validateInPlaceOnly rejects a template change that can't be made in place.
func validateInPlaceOnly(old, set *appsv1beta1.CloneSet, options inplace.Options) field.ErrorList {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete || r == nil || r.PodUpdatePolicy != appsv1beta1.PodInPlaceOnly {
		return nil
	}
	return workloadspec.InPlaceOnly(&old.Spec.Template, &set.Spec.Template, options, field.NewPath("spec", "template"))
}

// validateTemplate validates the pod template with a dry run.
func (w *Webhook) validateTemplate(ctx context.Context, set *appsv1beta1.CloneSet) (field.ErrorList, error) {
	_, faults, err := w.templates.Check(ctx, w.Client, admit.Namespace(ctx, set), &set.Spec.Template,
		set.Spec.VolumeClaimTemplates, field.NewPath("spec", "template"))
	return faults, err
}

// validatePodsToDelete validates names that were not in the old object. Each must be a pod of this CloneSet that is not terminating, so that
// typos are rejected. A new object may have any names, because it has no pods yet.
func (w *Webhook) validatePodsToDelete(ctx context.Context, old, set *appsv1beta1.CloneSet) (field.ErrorList, error) {
	stored := make(map[string]bool, len(old.Spec.ScaleStrategy.PodsToDelete))
	for _, name := range old.Spec.ScaleStrategy.PodsToDelete {
		stored[name] = true
	}
	added := slices.DeleteFunc(slices.Clone(set.Spec.ScaleStrategy.PodsToDelete), func(name string) bool { return stored[name] })
	pods, err := w.livePods(ctx, admit.Namespace(ctx, set), added)
	if err != nil {
		return nil, err
	}
	var faults field.ErrorList
	path := field.NewPath("spec", "scaleStrategy", "podsToDelete")
	for i, name := range set.Spec.ScaleStrategy.PodsToDelete {
		if stored[name] {
			continue
		}
		switch pod := pods[name]; {
		case pod == nil:
			faults = append(faults, field.Invalid(path.Index(i), name, "there is no such pod: leave it out"))
		case pod.DeletionTimestamp != nil:
			faults = append(faults, field.Invalid(path.Index(i), name, "is being deleted already: leave it out"))
		case !metav1.IsControlledBy(pod, set):
			faults = append(faults, field.Invalid(path.Index(i), name, "is not a pod of this CloneSet: leave it out"))
		}
	}
	return faults, nil
}

// fewPods is how many pods are read one by one. For more, a list takes less time, and always just one request.
const fewPods = 10

// livePods returns the metadata of pods by name. It may return other pods as well.
func (w *Webhook) livePods(ctx context.Context, namespace string, names []string) (map[string]*metav1.PartialObjectMetadata, error) {
	out := make(map[string]*metav1.PartialObjectMetadata, len(names))
	if len(names) > fewPods {
		var list metav1.PartialObjectMetadataList
		list.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PodList"))
		if err := w.Live.List(ctx, &list, client.InNamespace(namespace)); err != nil {
			return nil, fmt.Errorf("list pods: %w", err)
		}
		for i := range list.Items {
			out[list.Items[i].Name] = &list.Items[i]
		}
		return out, nil
	}
	for _, name := range names {
		pod := &metav1.PartialObjectMetadata{}
		pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod"))
		switch err := w.Live.Get(ctx, types.NamespacedName{Namespace: namespace, Name: name}, pod); {
		case apierrors.IsNotFound(err):
		case err != nil:
			return nil, fmt.Errorf("get pod %s: %w", name, err)
		default:
			out[name] = pod
		}
	}
	return out, nil
}
