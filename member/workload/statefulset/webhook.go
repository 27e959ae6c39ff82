package statefulset

import (
	"context"
	"fmt"
	"math"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// Defaults of the spec, as OpenKruise sets them.
const (
	defaultReplicas       = 1
	defaultHistoryLimit   = 10
	defaultMaxUnavailable = 1
)

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create
// +kubebuilder:rbac:groups=storage.k8s.io,resources=storageclasses,verbs=list;watch

// Webhook defaults StatefulSets and validates what neither schema nor CEL can. Objects of both versions arrive as v1beta1. It is safe for
// concurrent use.
type Webhook struct {
	// Client creates pod templates with dry runs, and reads storage classes.
	Client client.Client
	// Live reads revisions from the apiserver, because a cache may not show yet that they no longer have an owner.
	Live client.Reader
	// KeepTemplates disables defaults in pod templates and volumeClaimTemplates (gate TemplateNoDefaults). They are still validated.
	KeepTemplates bool
	// InPlace has the options for in-place updates.
	InPlace inplace.Options
	// Gates are the controller's gates. A field whose gate is off causes a warning.
	Gates Gates
	// Off lists the gates that are off, for warnings.
	Off workloadspec.Off

	templates workloadspec.PodTemplates
}

var (
	_ admission.Defaulter[*appsv1beta1.StatefulSet] = &Webhook{}
	_ admission.Validator[*appsv1beta1.StatefulSet] = &Webhook{}
)

// Default sets defaults, and in templates only if they are new or changed. Invalid ordinals are rejected here, because the schema, which
// validates next, would only show its pattern.
func (w *Webhook) Default(ctx context.Context, set *appsv1beta1.StatefulSet) error {
	spec := &set.Spec
	setDefaults(spec)
	old, err := admit.Old[appsv1beta1.StatefulSet](ctx)
	if err != nil {
		return err
	}
	if old == nil || !slices.Equal(old.Spec.ReserveOrdinals, spec.ReserveOrdinals) {
		if _, _, faults := ordinal.Reserve(spec.ReserveOrdinals, ordinalsPath()); len(faults) > 0 {
			return refuse(set, faults)
		}
	}
	var stored workloadspec.Templates
	if old != nil {
		stored = templatesOf(&old.Spec)
	} else if stored, err = w.orphanedTemplates(ctx, set); err != nil {
		return err
	}
	mode := workloadspec.AllDefaults
	if w.KeepTemplates {
		mode = workloadspec.NoDefaults
	}
	done, faults, err := w.templates.Complete(ctx, w.Client, admit.Namespace(ctx, set), stored, templatesOf(spec), mode,
		field.NewPath("spec", "template"))
	if err != nil || len(faults) > 0 {
		return firstError(err, refuse(set, faults))
	}
	spec.Template, spec.VolumeClaimTemplates = *done.Pod, done.PVCs
	return nil
}

// orphanedTemplates returns the templates of an earlier set of this name that has left its pods, such as a StatefulSet of apps, as they are
// in its last revision. Thus the new set has the same pods. The result has no Pod if there is no such set.
func (w *Webhook) orphanedTemplates(ctx context.Context, set *appsv1beta1.StatefulSet) (workloadspec.Templates, error) {
	owner := &metav1.ObjectMeta{Namespace: admit.Namespace(ctx, set), Name: set.Name}
	history, err := revision.Orphans(ctx, w.Live, owner, set.Spec.Selector)
	if err != nil || len(history) == 0 {
		return workloadspec.Templates{}, err
	}
	template, err := revision.PodTemplate(history[len(history)-1])
	if err != nil {
		return workloadspec.Templates{}, nil //nolint:nilerr // It is no revision of pods, and must not stop this set.
	}
	return workloadspec.Templates{Pod: template, PVCs: set.Spec.VolumeClaimTemplates}, nil
}

func templatesOf(s *appsv1beta1.StatefulSetSpec) workloadspec.Templates {
	return workloadspec.Templates{Pod: &s.Template, PVCs: s.VolumeClaimTemplates}
}

func setDefaults(s *appsv1beta1.StatefulSetSpec) {
	orDefault(&s.Replicas, defaultReplicas)
	orDefault(&s.RevisionHistoryLimit, defaultHistoryLimit)
	if s.PodManagementPolicy == "" {
		s.PodManagementPolicy = appsv1.OrderedReadyPodManagement
	}
	if s.VolumeClaimUpdateStrategy.Type == "" {
		s.VolumeClaimUpdateStrategy.Type = appsv1beta1.StatefulSetClaimOnDelete
	}
	if s.PersistentVolumeClaimRetentionPolicy == nil {
		s.PersistentVolumeClaimRetentionPolicy = &appsv1beta1.StatefulSetClaimRetentionPolicy{}
	}
	for _, when := range []*appsv1.PersistentVolumeClaimRetentionPolicyType{
		&s.PersistentVolumeClaimRetentionPolicy.WhenDeleted, &s.PersistentVolumeClaimRetentionPolicy.WhenScaled,
	} {
		if *when == "" {
			*when = appsv1.RetainPersistentVolumeClaimRetentionPolicyType
		}
	}
	u := &s.UpdateStrategy
	if u.Type == "" {
		u.Type = appsv1.RollingUpdateStatefulSetStrategyType
	}
	if u.Type != appsv1.RollingUpdateStatefulSetStrategyType {
		return // It has no rollingUpdate.
	}
	if u.RollingUpdate == nil {
		u.RollingUpdate = &appsv1beta1.StatefulSetRollingUpdateStrategy{}
	}
	r := u.RollingUpdate
	orDefault(&r.Partition, 0)
	orDefault(&r.MinReadySeconds, 0)
	if r.MaxUnavailable == nil {
		r.MaxUnavailable = new(intstr.FromInt32(defaultMaxUnavailable))
	}
	if r.PodUpdatePolicy == "" {
		r.PodUpdatePolicy = appsv1beta1.PodReCreate
	}
}

func orDefault(v **int32, n int32) {
	if *v == nil {
		*v = &n
	}
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, set *appsv1beta1.StatefulSet) (admission.Warnings, error) {
	faults, err := w.checkTemplate(ctx, set)
	if err != nil {
		return nil, err
	}
	faults = append(w.validateSpec(set), faults...)
	return w.warnings(set), refuse(set, faults)
}

// ValidateUpdate implements admission.Validator. Faults that the old spec already had are only warnings.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, set *appsv1beta1.StatefulSet) (admission.Warnings, error) {
	news := admit.NewWarnings(w.warnings(set), w.warnings(old))
	if apiequality.Semantic.DeepEqual(old.Spec, set.Spec) {
		return news, nil // Annotations may have changed.
	}
	faults, warnings := admit.Ratchet(w.validateSpec(set), w.validateSpec(old))
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil && r.PodUpdatePolicy == appsv1beta1.PodInPlaceOnly {
		faults = append(faults, workloadspec.InPlaceOnly(&old.Spec.Template, &set.Spec.Template, w.InPlace, field.NewPath("spec", "template"))...)
		if before, after := volumes(&old.Spec), volumes(&set.Spec); !slices.Equal(before, after) {
			faults = append(faults, field.Forbidden(templatesPath(), fmt.Sprintf("podUpdatePolicy InPlaceOnly can't make this change "+
				"(volumes of PVCs were %v, now %v), because a running pod can't gain or lose a volume: use InPlaceIfPossible for it", before, after)))
		}
	}
	if !templatesOf(&old.Spec).Same(templatesOf(&set.Spec)) {
		more, err := w.checkTemplate(ctx, set)
		if err != nil {
			return nil, err
		}
		faults = append(faults, more...)
		changed, pvcWarnings, err := w.validatePVCChange(ctx, &old.Spec, &set.Spec)
		if err != nil {
			return nil, err
		}
		faults, warnings = append(faults, changed...), append(warnings, pvcWarnings...)
	}
	return append(warnings, news...), refuse(set, faults)
}

// ValidateDelete implements admission.Validator; nothing is refused.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.StatefulSet) (admission.Warnings, error) {
	return nil, nil
}

// checkTemplate validates the pod template with a dry run.
func (w *Webhook) checkTemplate(ctx context.Context, set *appsv1beta1.StatefulSet) (field.ErrorList, error) {
	_, faults, err := w.templates.Check(ctx, w.Client, admit.Namespace(ctx, set), &set.Spec.Template, set.Spec.VolumeClaimTemplates,
		field.NewPath("spec", "template"))
	return faults, err
}

// validateSpec validates the spec on its own.
func (w *Webhook) validateSpec(set *appsv1beta1.StatefulSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")
	faults := w.validateNames(set)
	faults = append(faults, workloadspec.Selector(spec.Selector, &spec.Template, path)...)
	return append(faults, validateRest(spec, path)...)
}

// ValidateSpec validates a spec at path within another object, which validates selector and replicas itself. It makes no requests.
func ValidateSpec(s *appsv1beta1.StatefulSetSpec, path *field.Path) field.ErrorList {
	spec := s.DeepCopy()
	setDefaults(spec)
	_, _, faults := ordinal.Reserve(spec.ReserveOrdinals, path.Child("reserveOrdinals"))
	return append(faults, validateRest(spec, path)...)
}

// validateRest validates what does not depend on the object's name, selector and number of pods.
func validateRest(spec *appsv1beta1.StatefulSetSpec, path *field.Path) field.ErrorList {
	faults := workloadspec.PodSpec(&spec.Template.Spec, Kind().Kind, path.Child("template", "spec"))
	if spec.ServiceName != "" { // It is immutable, and an invalid one would make every pod invalid.
		for _, why := range validation.IsDNS1123Label(spec.ServiceName) {
			faults = append(faults, field.Invalid(path.Child("serviceName"), spec.ServiceName,
				"it is the subdomain of the pods, and the name of a Service: "+why))
		}
	}
	faults = append(faults, workloadspec.ClaimNames(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	faults = append(faults, workloadspec.ClaimTemplates(spec.VolumeClaimTemplates, path.Child("volumeClaimTemplates"))...)
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return faults
	}
	at := path.Child("updateStrategy", "rollingUpdate")
	if r.UnorderedUpdate != nil {
		faults = append(faults, workloadspec.UpdateOrder(r.UnorderedUpdate.PriorityStrategy, nil, at.Child("unorderedUpdate"))...)
	}
	faults = append(faults, workloadspec.PreDownload(r.InPlaceUpdateStrategy, at.Child("inPlaceUpdateStrategy"))...)
	gated := slices.ContainsFunc(spec.Template.Spec.ReadinessGates, func(g corev1.PodReadinessGate) bool {
		return g.ConditionType == keys.InPlaceUpdateReady
	})
	if r.PodUpdatePolicy != "" && r.PodUpdatePolicy != appsv1beta1.PodReCreate && !gated {
		faults = append(faults, field.Required(path.Child("template", "spec", "readinessGates"), fmt.Sprintf(
			"podUpdatePolicy %s takes pods out of service with a readiness gate: add {conditionType: %s}", r.PodUpdatePolicy, keys.InPlaceUpdateReady)))
	}
	return faults
}

// validateNames validates the ordinals, and the names derived from them. A pod's name is also its host name.
func (w *Webhook) validateNames(set *appsv1beta1.StatefulSet) field.ErrorList {
	name, at := set.Name, field.NewPath("metadata", "name")
	var faults field.ErrorList
	for _, why := range validation.IsDNS1123Label(name) {
		faults = append(faults, field.Invalid(at, name, "it is part of the pods' host names: "+why))
	}
	if o := set.Spec.Ordinals; !w.Gates.StartOrdinal && o != nil && o.Start > 0 { // If it was already stored, this becomes a warning.
		faults = append(faults, field.Invalid(field.NewPath("spec", "ordinals", "start"), o.Start, fmt.Sprintf(
			"feature gate %s is off, so pods would be numbered from 0 and pods with higher ordinals deleted: "+
				"enable the gate first, or leave this out", gateStartOrdinal)))
	}
	r, _, unread := ordinal.Reserve(set.Spec.ReserveOrdinals, ordinalsPath())
	faults = append(faults, unread...)
	last := max(r.Last(w.Gates.start(&set.Spec), ptr.Deref(set.Spec.Replicas, defaultReplicas)), 0)
	if last > math.MaxInt32 {
		return append(faults, field.Invalid(ordinalsPath(), last, fmt.Sprintf(
			"the last pod would have this ordinal, but ordinals end at %d: lower replicas or ordinals.start, or reserve fewer", math.MaxInt32)))
	}
	pod := fmt.Sprintf("%s-%d", name, last)
	if len(pod) > validation.DNS1123LabelMaxLength && len(name) <= validation.DNS1123LabelMaxLength {
		faults = append(faults, field.Invalid(at, name, fmt.Sprintf(
			"the host name of pod %s would have %d characters, but at most %d are allowed: use a shorter name",
			pod, len(pod), validation.DNS1123LabelMaxLength)))
	}
	return faults
}

// warnings returns all warnings about settings that have no effect.
func (w *Webhook) warnings(set *appsv1beta1.StatefulSet) admission.Warnings {
	var inPlace *pods.InPlaceUpdateStrategy
	if r := set.Spec.UpdateStrategy.RollingUpdate; r != nil {
		inPlace = r.InPlaceUpdateStrategy
	}
	unserved := workloadspec.Unserved(&set.ObjectMeta, &set.Spec.Template, inPlace, w.Off, nil)
	return append(unserved, w.Gates.Warnings(&set.Spec, field.NewPath("spec"))...)
}

// Warnings returns warnings about fields in the spec at path that don't have the effect a user may expect, as far as they are specific to this
// kind.
func (g Gates) Warnings(spec *appsv1beta1.StatefulSetSpec, path *field.Path) admission.Warnings {
	var warnings admission.Warnings
	if _, duplicate, _ := ordinal.Reserve(spec.ReserveOrdinals, path.Child("reserveOrdinals")); duplicate != "" {
		warnings = append(warnings, duplicate)
	}
	replicas := ptr.Deref(spec.Replicas, defaultReplicas)
	if r := spec.UpdateStrategy.RollingUpdate; r != nil && replicas > 0 && ptr.Deref(r.Partition, 0) > replicas {
		warnings = append(warnings, fmt.Sprintf("%s: %d is greater than replicas (%d): no pod will be updated until it is lower",
			path.Child("updateStrategy", "rollingUpdate", "partition"), *r.Partition, replicas))
	}
	off := func(asked bool, what *field.Path, gate, instead string) {
		if asked {
			warnings = append(warnings, fmt.Sprintf("%s has no effect while feature gate %s is off: %s", what, gate, instead))
		}
	}
	off(!g.ResizePVCs && spec.VolumeClaimUpdateStrategy.Type == appsv1beta1.StatefulSetClaimOnPodRollingUpdate,
		path.Child("volumeClaimUpdateStrategy", "type"), gateResizePVCs, "PVCs are not resized")
	p := spec.PersistentVolumeClaimRetentionPolicy
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	off(!g.DeletePVCs && p != nil && (p.WhenDeleted == remove || p.WhenScaled == remove),
		path.Child("persistentVolumeClaimRetentionPolicy"), gateDeletePVCs, "PVCs are kept")
	return warnings
}

func ordinalsPath() *field.Path { return field.NewPath("spec", "reserveOrdinals") }

func refuse(set *appsv1beta1.StatefulSet, faults field.ErrorList) error {
	return admit.Invalid(Kind(), set.Name, faults)
}

func firstError(err, other error) error {
	if err != nil {
		return err
	}
	return other
}
