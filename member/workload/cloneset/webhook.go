package cloneset

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/podtemplate"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// Defaults of the spec, as OpenKruise sets them.
const (
	defaultReplicas       = 1
	defaultHistoryLimit   = 10
	defaultMaxUnavailable = "20%"
)

// idLength is the number of characters of an instance id.
const idLength = 5

// +kubebuilder:rbac:groups="",resources=podtemplates,verbs=create

// Webhook sets defaults of CloneSets and says what neither schema nor CEL can: what depends on the cluster's idea of a
// pod, on other objects or on resolved percentages. Objects of both versions arrive as v1beta1. It may be used
// concurrently.
type Webhook struct {
	// Client asks the apiserver about templates, by dry runs.
	Client client.Client
	// Live reads pods from the apiserver: a name that a user has just seen may be younger than a cache.
	Live client.Reader
	// KeepTemplates leaves pod and claim templates without defaults (gate TemplateNoDefaults). They are validated still.
	KeepTemplates bool
	// Gates are those of the controller: what can be updated in place depends on them.
	Gates Gates
}

var (
	_ admission.Defaulter[*appsv1beta1.CloneSet] = &Webhook{}
	_ admission.Validator[*appsv1beta1.CloneSet] = &Webhook{}
)

// Default fills in what a user left out. The pod template is completed by the apiserver when it is new or changed, so
// that a scale or a change of strategy never makes a new revision.
func (w *Webhook) Default(ctx context.Context, set *appsv1beta1.CloneSet) error {
	setDefaults(&set.Spec)
	if w.KeepTemplates {
		return nil
	}
	set.Spec.VolumeClaimTemplates = claimDefaults(set.Spec.VolumeClaimTemplates)
	old, err := oldObject(ctx)
	if err != nil {
		return err
	}
	if old != nil && !templateChanged(old, set) {
		return nil
	}
	full, faults, err := podtemplate.Check(ctx, w.Client, namespace(ctx, set), &set.Spec.Template,
		set.Spec.VolumeClaimTemplates, field.NewPath("spec", "template"))
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		return invalid(set, faults)
	}
	set.Spec.Template = *full
	return nil
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
		r.MaxUnavailable = new(intstr.FromString(defaultMaxUnavailable))
	}
	if r.MaxSurge == nil {
		r.MaxSurge = new(intstr.FromInt32(0))
	}
	if r.PodUpdatePolicy != appsv1beta1.PodReCreate && r.InPlaceUpdateStrategy == nil {
		r.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{}
	}
}

func claimDefaults(claims []corev1.PersistentVolumeClaim) []corev1.PersistentVolumeClaim {
	if len(claims) == 0 {
		return claims
	}
	return podtemplate.DefaultClaims(claims)
}

// ValidateCreate implements admission.Validator.
func (w *Webhook) ValidateCreate(ctx context.Context, set *appsv1beta1.CloneSet) (admission.Warnings, error) {
	faults := validateSpec(set)
	more, err := w.validateTemplate(ctx, set)
	if err != nil {
		return nil, err
	}
	return nil, invalid(set, append(faults, more...))
}

// ValidateUpdate implements admission.Validator. What the old spec has wrong already is warned of, not refused: an object
// from before a rule, such as one that another controller left, can still be scaled and updated, and pods can be taken
// off its list.
func (w *Webhook) ValidateUpdate(ctx context.Context, old, set *appsv1beta1.CloneSet) (admission.Warnings, error) {
	if apiequality.Semantic.DeepEqual(old.Spec, set.Spec) {
		return nil, nil
	}
	faults, warnings := ratchet(validateSpec(set), validateSpec(old))
	faults = append(faults, validateInPlaceOnly(old, set, w.Gates.edits())...)
	if templateChanged(old, set) {
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
	return warnings, invalid(set, append(faults, more...))
}

// ratchet divides faults into new ones and those that were there before, which only make warnings.
func ratchet(faults, before field.ErrorList) (fresh field.ErrorList, warnings admission.Warnings) {
	for _, f := range faults {
		if slices.ContainsFunc(before, func(b *field.Error) bool { return b.Error() == f.Error() }) {
			warnings = append(warnings, f.Error())
		} else {
			fresh = append(fresh, f)
		}
	}
	return fresh, warnings
}

// ValidateDelete implements admission.Validator; nothing is refused.
func (w *Webhook) ValidateDelete(context.Context, *appsv1beta1.CloneSet) (admission.Warnings, error) {
	return nil, nil
}

// validateSpec judges the spec alone.
func validateSpec(set *appsv1beta1.CloneSet) field.ErrorList {
	spec, path := &set.Spec, field.NewPath("spec")
	var faults field.ErrorList
	// The longest name that we make from the set's is a pod's; claims add the template's name before it.
	longest := len(set.Name) + 1 + idLength
	for i := range spec.VolumeClaimTemplates {
		longest = max(longest, len(spec.VolumeClaimTemplates[i].Name)+1+len(set.Name)+1+idLength)
	}
	if longest > validation.DNS1123SubdomainMaxLength {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "name"), set.Name, fmt.Sprintf(
			"names of pods and claims made from it would have %d characters, %d are possible: use a shorter name",
			longest, validation.DNS1123SubdomainMaxLength)))
	}
	faults = append(faults, validateSelector(spec, path)...)
	faults = append(faults, validatePodSpec(spec, path.Child("template", "spec"))...)
	for i, name := range spec.ScaleStrategy.PodsToDelete {
		if slices.Contains(spec.ScaleStrategy.PodsToDelete[:i], name) {
			faults = append(faults, field.Invalid(path.Child("scaleStrategy", "podsToDelete").Index(i), name,
				"stands here before: name it once"))
		}
	}
	return append(faults, validateStrategy(spec, path)...)
}

// ValidateSpec returns what is wrong with a spec that stands at path in another object, which has a selector and replicas
// of its own and checks these: the numbers, the pods that a CloneSet can't run, and the fields that are not served. It
// asks nobody.
func ValidateSpec(s *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	spec := s.DeepCopy()
	setDefaults(spec)
	faults := validatePodSpec(spec, path.Child("template", "spec"))
	return append(faults, validateStrategy(spec, path)...)
}

// validateStrategy judges how pods are scaled and updated.
func validateStrategy(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	faults := validateDeadline(spec, path.Child("progressDeadlineSeconds"))
	if v := spec.ScaleStrategy.MaxUnavailable; v != nil {
		if _, err := rollout.Resolve(v, replicas(spec), rollout.Up); err != nil {
			faults = append(faults, notAmount(path.Child("scaleStrategy", "maxUnavailable"), v))
		}
	}
	at := path.Child("updateStrategy", "rollingUpdate")
	faults = append(faults, validateNumbers(spec, at)...)
	faults = append(faults, validateOrder(spec, at)...)
	return append(faults, validateServed(spec, path)...)
}

// validateDeadline refuses a deadline that a rollout whose pods start at once could miss.
func validateDeadline(spec *appsv1beta1.CloneSetSpec, at *field.Path) field.ErrorList {
	d := spec.ProgressDeadlineSeconds
	if d == nil || *d == math.MaxInt32 || *d > spec.MinReadySeconds {
		return nil
	}
	return field.ErrorList{field.Invalid(at, *d, fmt.Sprintf(
		"must be above minReadySeconds (%d), or no pod could be available in time: raise it, or leave it out for no deadline",
		spec.MinReadySeconds))}
}

// validateOrder judges priorityStrategy and scatterStrategy, as far as the schema can't.
func validateOrder(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return nil
	}
	var faults field.ErrorList
	if p := r.PriorityStrategy; p != nil {
		for i := range p.WeightPriority {
			at, s := path.Child("priorityStrategy", "weightPriority").Index(i).Child("matchSelector"), &p.WeightPriority[i].MatchSelector
			if len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
				faults = append(faults, field.Invalid(at, "{}", "an empty selector gives every pod the same weight: name labels of the pods that it is for"))
			} else if _, err := metav1.LabelSelectorAsSelector(s); err != nil {
				faults = append(faults, field.Invalid(at, metav1.FormatLabelSelector(s), err.Error()))
			}
		}
	}
	for i, t := range r.ScatterStrategy {
		if slices.Contains(r.ScatterStrategy[:i], t) {
			faults = append(faults, field.Invalid(path.Child("scatterStrategy").Index(i), t.Key+"="+t.Value, "stands here before: name it once"))
		}
	}
	return faults
}

func validateSelector(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	at := path.Child("selector")
	if spec.Selector == nil || len(spec.Selector.MatchLabels)+len(spec.Selector.MatchExpressions) == 0 {
		return field.ErrorList{field.Required(at, "an empty selector would select every pod: name labels of the template")}
	}
	selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
	if err != nil {
		return field.ErrorList{field.Invalid(at, metav1.FormatLabelSelector(spec.Selector), err.Error())}
	}
	if !selector.Matches(labels.Set(spec.Template.Labels)) {
		return field.ErrorList{field.Invalid(path.Child("template", "metadata", "labels"), spec.Template.Labels,
			fmt.Sprintf("the selector %q does not match these labels: add what it asks for", selector))}
	}
	return nil
}

func validatePodSpec(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	pod := &spec.Template.Spec
	if pod.RestartPolicy != "" && pod.RestartPolicy != corev1.RestartPolicyAlways {
		faults = append(faults, field.NotSupported(path.Child("restartPolicy"), pod.RestartPolicy,
			[]corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	if pod.ActiveDeadlineSeconds != nil {
		faults = append(faults, field.Forbidden(path.Child("activeDeadlineSeconds"), "pods of a CloneSet run without end: leave it out"))
	}
	return faults
}

func notAmount(at *field.Path, v *intstr.IntOrString) *field.Error {
	return field.Invalid(at, v.String(), `must be a number of pods, 0 or more, or a percentage such as "20%"`)
}

// validateNumbers judges partition, maxUnavailable and maxSurge, alone and together.
func validateNumbers(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil {
		return nil
	}
	var faults field.ErrorList
	want := int(ptr.Deref(spec.Replicas, defaultReplicas))
	resolve := func(name string, v *intstr.IntOrString, most int) int {
		n, err := rollout.Resolve(v, want, rollout.Up)
		if err != nil {
			faults = append(faults, notAmount(path.Child(name), v))
		} else if percent, _ := rollout.Resolve(v, 100, rollout.Up); v != nil && v.Type == intstr.String && percent > most {
			faults = append(faults, field.Invalid(path.Child(name), v.String(), fmt.Sprintf("must not be above %d%%", most)))
		}
		return n
	}
	const all = 100
	resolve("partition", r.Partition, all)
	unavailable := resolve("maxUnavailable", r.MaxUnavailable, all)
	surge := resolve("maxSurge", r.MaxSurge, 10*all)
	if len(faults) > 0 {
		return faults
	}
	if r.PodUpdatePolicy == appsv1beta1.PodInPlaceOnly && surge > 0 {
		faults = append(faults, field.Invalid(path.Child("maxSurge"), r.MaxSurge.String(),
			"must be 0 with podUpdatePolicy InPlaceOnly, which makes no pod anew"))
	}
	if want > 0 && unavailable < 1 && surge < 1 && r.MaxUnavailable != nil {
		faults = append(faults, field.Invalid(path.Child("maxUnavailable"), r.MaxUnavailable.String(),
			"no pod could ever be updated: raise it or maxSurge to at least 1"))
	}
	return faults
}

// validateServed refuses fields of the API that nothing acts on yet: better than to ignore them.
func validateServed(spec *appsv1beta1.CloneSetSpec, path *field.Path) field.ErrorList {
	r := spec.UpdateStrategy.RollingUpdate
	if r == nil || r.InPlaceUpdateStrategy == nil {
		return nil
	}
	var faults field.ErrorList
	at, s := path.Child("updateStrategy", "rollingUpdate", "inPlaceUpdateStrategy"), r.InPlaceUpdateStrategy
	refuse := func(set bool, name, annotation string) {
		if set {
			faults = append(faults, field.Forbidden(at.Child(name), fmt.Sprintf(
				"not served yet, no image is pulled before an update: leave it out, in v1alpha1 annotation %s too", annotation)))
		}
	}
	refuse(s.ImagePreDownloadParallelism != nil, "imagePreDownloadParallelism", keys.ImagePreDownloadParallelism)
	refuse(s.ImagePreDownloadTimeoutSeconds != nil, "imagePreDownloadTimeoutSeconds", keys.ImagePreDownloadTimeoutSeconds)
	refuse(s.ImagePreDownloadMinUpdatedReadyPods != nil, "imagePreDownloadMinUpdatedReadyPods", keys.ImagePreDownloadMinUpdatedReadyPods)
	return faults
}

// validateInPlaceOnly refuses a template that InPlaceOnly could never bring to the pods.
func validateInPlaceOnly(old, set *appsv1beta1.CloneSet, may inplace.Options) field.ErrorList {
	r := set.Spec.UpdateStrategy.RollingUpdate
	if set.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete || r == nil || r.PodUpdatePolicy != appsv1beta1.PodInPlaceOnly {
		return nil
	}
	if _, why, ok := inplace.Diff(&old.Spec.Template, &set.Spec.Template, may); !ok {
		return field.ErrorList{field.Forbidden(field.NewPath("spec", "template"), fmt.Sprintf(
			"podUpdatePolicy InPlaceOnly can't make this change (%s): use InPlaceIfPossible or ReCreate for it", why))}
	}
	return nil
}

// validateTemplate asks the apiserver about the pod template.
func (w *Webhook) validateTemplate(ctx context.Context, set *appsv1beta1.CloneSet) (field.ErrorList, error) {
	_, faults, err := podtemplate.Check(ctx, w.Client, namespace(ctx, set), &set.Spec.Template,
		set.Spec.VolumeClaimTemplates, field.NewPath("spec", "template"))
	return faults, err
}

// validatePodsToDelete judges names that were not in the old object: each must be a running pod of this CloneSet, so
// that a slip of the pen is told at once. A new object may hold any names: its pods are still to come.
func (w *Webhook) validatePodsToDelete(ctx context.Context, old, set *appsv1beta1.CloneSet) (field.ErrorList, error) {
	var faults field.ErrorList
	path := field.NewPath("spec", "scaleStrategy", "podsToDelete")
	for i, name := range set.Spec.ScaleStrategy.PodsToDelete {
		if slices.Contains(old.Spec.ScaleStrategy.PodsToDelete, name) {
			continue
		}
		var pod corev1.Pod
		err := w.Live.Get(ctx, types.NamespacedName{Namespace: namespace(ctx, set), Name: name}, &pod)
		switch {
		case apierrors.IsNotFound(err):
			faults = append(faults, field.Invalid(path.Index(i), name, "there is no such pod: leave it out"))
		case err != nil:
			return nil, fmt.Errorf("get pod %s: %w", name, err)
		case pod.DeletionTimestamp != nil:
			faults = append(faults, field.Invalid(path.Index(i), name, "is being deleted already: leave it out"))
		case !metav1.IsControlledBy(&pod, set):
			faults = append(faults, field.Invalid(path.Index(i), name, "is no pod of this CloneSet: leave it out"))
		}
	}
	return faults, nil
}

// templateChanged tells whether the apiserver has to be asked anew.
func templateChanged(old, set *appsv1beta1.CloneSet) bool {
	return !apiequality.Semantic.DeepEqual(old.Spec.Template, set.Spec.Template) ||
		!apiequality.Semantic.DeepEqual(old.Spec.VolumeClaimTemplates, set.Spec.VolumeClaimTemplates)
}

// oldObject returns the object before an update, nil on a creation or outside of an admission request.
func oldObject(ctx context.Context) (*appsv1beta1.CloneSet, error) {
	req := request(ctx)
	if len(req.OldObject.Raw) == 0 {
		return nil, nil
	}
	var old appsv1beta1.CloneSet
	if err := json.Unmarshal(req.OldObject.Raw, &old); err != nil {
		return nil, fmt.Errorf("read old object: %w", err)
	}
	return &old, nil
}

// namespace is the request's: the object may come without.
func namespace(ctx context.Context, set *appsv1beta1.CloneSet) string {
	if n := request(ctx).Namespace; n != "" {
		return n
	}
	return set.Namespace
}

// request is the admission request that ctx belongs to, an empty one if there is none.
func request(ctx context.Context) admission.Request {
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return admission.Request{}
	}
	return req
}

func invalid(set *appsv1beta1.CloneSet, faults field.ErrorList) error {
	if len(faults) == 0 {
		return nil
	}
	return apierrors.NewInvalid(Kind().GroupKind(), set.Name, faults)
}
