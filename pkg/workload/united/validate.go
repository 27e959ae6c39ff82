package united

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/admit"
	"github.com/flotilla-io/flotilla/pkg/plan/spread"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// notServed is why a field of the API is rejected.
const notServed = "not served yet"

// Options are the context of a validation.
type Options struct {
	// AllowClusters lets subsets name clusters: this cluster has a hub.
	AllowClusters bool
	// CloneSet validates the spec of a CloneSet under a path, like that of a user's CloneSet, with the subset's selector. If nil, faults only show
	// up in a condition when the CloneSet is created.
	CloneSet func(*appsv1beta1.CloneSetSpec, *field.Path) field.ErrorList
	// StatefulSet does the same for StatefulSets of apps.kruise.io.
	StatefulSet func(*appsv1beta1.StatefulSetSpec, *field.Path) field.ErrorList
	// StatefulSetWarnings returns warnings that are specific to such a StatefulSet's spec. May be nil.
	StatefulSetWarnings func(*appsv1beta1.StatefulSetSpec, *field.Path) admission.Warnings
	// CountOrdinals counts the ordinals from first to last that are not reserved. If nil, a subset with too few ordinals gets a condition instead.
	CountOrdinals func(reserved []intstr.IntOrString, first, last int64) int64
	// Unprotected: the label for deletion protection has no effect in this cluster. A template with the label then gets a warning from the webhook,
	// because the policy that warns in other cases doesn't see the user who writes the template.
	Unprotected bool
	// Off says which feature gates are off in this cluster, for warnings.
	Off workloadspec.Off
}

// Validate returns the faults of a defaulted object. It repeats rules from the schema that can't be relied on, because an object may be older
// than a rule.
func Validate(ud *appsv1beta1.UnitedDeployment, o Options) field.ErrorList {
	path := field.NewPath("spec")
	var faults field.ErrorList
	if n := ud.Spec.Replicas; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("replicas"), *n, "must be 0 or more"))
	}
	if n := ud.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("revisionHistoryLimit"), *n, "must be 0 or more"))
	}
	selector, more := validateSelector(ud.Spec.Selector, path.Child("selector"))
	faults = append(faults, more...)
	faults = append(faults, validateTemplate(&ud.Spec.Template, selector, path.Child("template"), o)...)
	faults = append(faults, validateSubsets(ud, selector, path.Child("topology", "subsets"))...)
	faults = append(faults, validateNumbers(ud, path.Child("topology", "subsets"))...)
	faults = append(faults, validateClusters(ud, path.Child("topology"), o)...)
	faults = append(faults, validateOrdinals(ud, path, o)...)
	faults = append(faults, validateSchedule(ud, path.Child("topology"))...)
	return append(faults, validateUpdateStrategy(ud, path.Child("updateStrategy"))...)
}

// ValidateUpdate returns the faults of an update from old to ud: new faults as in Validate, and changes of immutable fields. Faults that old has
// as well become warnings: objects stored by OpenKruise, or before a rule existed, can still be scaled and updated.
func ValidateUpdate(old, ud *appsv1beta1.UnitedDeployment, o Options) (field.ErrorList, admission.Warnings) {
	faults, warnings := admit.Ratchet(Validate(ud, o), Validate(old, o))
	return append(faults, validateFixed(old, ud)...), warnings
}

// validateFixed rejects changes of immutable fields.
func validateFixed(old, ud *appsv1beta1.UnitedDeployment) field.ErrorList {
	var faults field.ErrorList
	path := field.NewPath("spec")
	if !apiequality.Semantic.DeepEqual(old.Spec.Selector, ud.Spec.Selector) {
		faults = append(faults, field.Forbidden(path.Child("selector"), "can't be changed: make a new UnitedDeployment"))
	}
	faults = append(faults, validateWavesChange(old, ud, path.Child("template"))...)
	faults = append(faults, validateStatefulSetChange(old, ud, path.Child("template", "statefulSetTemplate", "spec"))...)
	faults = append(faults, validateAdvancedChange(old, ud, path.Child("template", "advancedStatefulSetTemplate", "spec"))...)
	for i := range ud.Spec.Topology.Subsets {
		after := &ud.Spec.Topology.Subsets[i]
		at := path.Child("topology", "subsets").Index(i)
		j := slices.IndexFunc(old.Spec.Topology.Subsets, func(s appsv1beta1.Subset) bool { return s.Name == after.Name })
		if j < 0 {
			continue
		}
		before := &old.Spec.Topology.Subsets[j]
		const fixed = "can't be changed while the subset exists: add a subset with another name, and remove this one"
		if !sameTerm(before.NodeSelectorTerm, after.NodeSelectorTerm) {
			faults = append(faults, field.Forbidden(at.Child("nodeSelectorTerm"), fixed))
		}
		if !apiequality.Semantic.DeepEqual(before.Tolerations, after.Tolerations) {
			faults = append(faults, field.Forbidden(at.Child("tolerations"), fixed))
		}
		if !Slice(ud) && !apiequality.Semantic.DeepEqual(before.Ordinals, after.Ordinals) {
			faults = append(faults, field.Forbidden(at.Child("ordinals"), fixed))
		}
	}
	return faults
}

// sameTerm compares the terms of subsets. OpenKruise stores an empty term if a manifest has none.
func sameTerm(a, b *corev1.NodeSelectorTerm) bool {
	return apiequality.Semantic.DeepEqual(ptr.Deref(a, corev1.NodeSelectorTerm{}), ptr.Deref(b, corev1.NodeSelectorTerm{}))
}

// validateStatefulSetChange allows the updates that Kubernetes allows for a StatefulSet, because each subset has one.
func validateStatefulSetChange(old, ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	before, after := old.Spec.Template.StatefulSetTemplate, ud.Spec.Template.StatefulSetTemplate
	if before == nil || after == nil {
		return nil
	}
	before = before.DeepCopy()
	before.Spec.Template = after.Spec.Template
	before.Spec.UpdateStrategy = after.Spec.UpdateStrategy
	before.Spec.PersistentVolumeClaimRetentionPolicy = after.Spec.PersistentVolumeClaimRetentionPolicy
	before.Spec.MinReadySeconds = after.Spec.MinReadySeconds
	before.Spec.Ordinals = after.Spec.Ordinals
	if apiequality.Semantic.DeepEqual(before.Spec, after.Spec) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "only template, updateStrategy, persistentVolumeClaimRetentionPolicy, "+
		"minReadySeconds and ordinals of a StatefulSet can be changed: create a new UnitedDeployment")}
}

// validateAdvancedChange allows the updates of a StatefulSet in apps.kruise.io. It doesn't check sizes of PVCs: what storage classes allow is
// only known when the StatefulSet is updated.
func validateAdvancedChange(old, ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	before, after := old.Spec.Template.AdvancedStatefulSetTemplate, ud.Spec.Template.AdvancedStatefulSetTemplate
	if before == nil || after == nil {
		return nil
	}
	const fixed = "can't be changed because it is immutable in each subset's StatefulSet: create a new UnitedDeployment"
	var faults field.ErrorList
	if before.Spec.ServiceName != after.Spec.ServiceName {
		faults = append(faults, field.Forbidden(path.Child("serviceName"), fixed))
	}
	parallel := func(t *appsv1beta1.AdvancedStatefulSetTemplateSpec) bool {
		return t.Spec.PodManagementPolicy == appsv1.ParallelPodManagement
	}
	if parallel(before) != parallel(after) {
		faults = append(faults, field.Forbidden(path.Child("podManagementPolicy"), fixed))
	}
	return faults
}

// validateSelector returns the selector; nil if it is invalid.
func validateSelector(s *metav1.LabelSelector, path *field.Path) (labels.Selector, field.ErrorList) {
	if s == nil || len(s.MatchLabels)+len(s.MatchExpressions) == 0 {
		return nil, field.ErrorList{field.Required(path, "an empty selector would select every pod: use labels of the template")}
	}
	selector, err := metav1.LabelSelectorAsSelector(s)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(path, metav1.FormatLabelSelector(s), err.Error())}
	}
	return selector, nil
}

func validateTemplate(t *appsv1beta1.SubsetTemplate, selector labels.Selector, path *field.Path, o Options) field.ErrorList {
	given := 0
	for _, set := range []bool{
		t.StatefulSetTemplate != nil, t.AdvancedStatefulSetTemplate != nil, t.CloneSetTemplate != nil, t.DeploymentTemplate != nil,
	} {
		if set {
			given++
		}
	}
	switch {
	case given == 0:
		return field.ErrorList{field.Required(path,
			"set one of cloneSetTemplate, deploymentTemplate, statefulSetTemplate and advancedStatefulSetTemplate")}
	case given > 1:
		return field.ErrorList{field.Forbidden(path, fmt.Sprintf("%d kinds of workload are set: keep one of them", given))}
	}
	member, _ := TemplateOf(t)
	at := path.Child(member.Field)
	faults := validateLabels(member, selector, at)
	faults = append(faults, validateReserved(t, at.Child("spec"))...)
	if selector == nil {
		return faults
	}
	if c := t.CloneSetTemplate; c != nil && o.CloneSet != nil {
		spec := c.Spec.DeepCopy()
		spec.Replicas = nil // set by the controller; validated as the numbers of the subsets
		faults = append(faults, o.CloneSet(spec, at.Child("spec"))...)
	}
	if s := t.StatefulSetTemplate; s != nil { // Kubernetes rejects invalid claim templates only when pods are created.
		claims := at.Child("spec", "volumeClaimTemplates")
		faults = append(faults, workloadspec.ClaimNames(s.Spec.VolumeClaimTemplates, claims)...)
		faults = append(faults, workloadspec.ClaimTemplates(s.Spec.VolumeClaimTemplates, claims)...)
	}
	if s := t.AdvancedStatefulSetTemplate; s != nil && o.StatefulSet != nil {
		faults = append(faults, o.StatefulSet(&s.Spec, at.Child("spec"))...)
	}
	return faults
}

// validateReserved rejects template fields that the controller sets in each subset's workload.
func validateReserved(t *appsv1beta1.SubsetTemplate, path *field.Path) field.ErrorList {
	var replicas, partition *int32
	var faults field.ErrorList
	switch {
	case t.CloneSetTemplate != nil:
		if len(t.CloneSetTemplate.Spec.ScaleStrategy.PodsToDelete) > 0 {
			faults = append(faults, field.Forbidden(path.Child("scaleStrategy", "podsToDelete"),
				"names pods of one CloneSet, but each subset has its own: name them in the subset's CloneSet"))
		}
	case t.DeploymentTemplate != nil:
		replicas = t.DeploymentTemplate.Spec.Replicas
	case t.StatefulSetTemplate != nil:
		replicas = t.StatefulSetTemplate.Spec.Replicas
		if r := t.StatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate; r != nil {
			partition = r.Partition
		}
	case t.AdvancedStatefulSetTemplate != nil:
		replicas = t.AdvancedStatefulSetTemplate.Spec.Replicas
		if r := t.AdvancedStatefulSetTemplate.Spec.UpdateStrategy.RollingUpdate; r != nil {
			partition = r.Partition
		}
	}
	const set = "is set for each subset by the controller: leave it out"
	if replicas != nil {
		faults = append(faults, field.Forbidden(path.Child("replicas"), set))
	}
	if ptr.Deref(partition, 0) != 0 {
		faults = append(faults, field.Forbidden(path.Child("updateStrategy", "rollingUpdate", "partition"),
			set+", and use spec.updateStrategy.manualUpdate.partitions"))
	}
	return faults
}

// validateLabels requires that the selector matches the labels of the workload and its pods.
func validateLabels(t Template, selector labels.Selector, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	check := func(s labels.Selector, whose string, have map[string]string, at *field.Path) {
		if s == nil || s.Matches(labels.Set(have)) {
			return
		}
		requirements, _ := s.Requirements()
		for _, r := range requirements {
			if !r.Matches(labels.Set(have)) {
				faults = append(faults, field.Invalid(at, labels.Set(have).String(), fmt.Sprintf(
					"%s requires %s: add that label here, or remove it from %s", whose, r.String(), whose)))
				return
			}
		}
	}
	pods := path.Child("spec", "template", "metadata", "labels")
	check(selector, "spec.selector", t.Metadata.Labels, path.Child("metadata", "labels"))
	check(selector, "spec.selector", t.Pod.Labels, pods)
	if t.Selector != nil {
		own, err := metav1.LabelSelectorAsSelector(t.Selector)
		if err != nil {
			return append(faults, field.Invalid(path.Child("spec", "selector"), metav1.FormatLabelSelector(t.Selector), err.Error()))
		}
		if selector != nil && own.String() == selector.String() {
			return faults // the fault would be repeated
		}
		check(own, path.Child("spec", "selector").String(), t.Pod.Labels, pods)
	}
	return faults
}

// validateSubsets validates each subset separately, except its numbers and clusters. Webhook lets the API server validate its term and
// tolerations.
func validateSubsets(ud *appsv1beta1.UnitedDeployment, selector labels.Selector, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	seen := sets.New[string]()
	member, ok := TemplateOf(&ud.Spec.Template)
	for i := range ud.Spec.Topology.Subsets {
		s, at := &ud.Spec.Topology.Subsets[i], path.Index(i)
		for _, why := range validation.IsDNS1123Label(s.Name) {
			faults = append(faults, field.Invalid(at.Child("name"), s.Name, why))
		}
		if seen.Has(s.Name) {
			faults = append(faults, field.Duplicate(at.Child("name"), s.Name))
		}
		seen.Insert(s.Name)
		if ok && Patch(s) != "" {
			faults = append(faults, validatePatch(member, s, selector, at.Child("patch"))...)
		}
	}
	return faults
}

// validatePatch applies the patch to the template.
func validatePatch(t Template, s *appsv1beta1.Subset, selector labels.Selector, path *field.Path) field.ErrorList {
	pod, err := podTemplate(t.Pod, s, nil, true)
	if err != nil {
		return field.ErrorList{field.Invalid(path, Patch(s), err.Error())}
	}
	if selector != nil && selector.Matches(labels.Set(t.Pod.Labels)) && !selector.Matches(labels.Set(pod.Labels)) {
		return field.ErrorList{field.Invalid(path, Patch(s), fmt.Sprintf(
			"spec.selector %q doesn't match the patched pods: don't change the labels that it requires", selector))}
	}
	for _, key := range []string{keys.SubsetName, keys.SubsetRevision, keys.SubsetReserved} {
		if pod.Labels[key] != t.Pod.Labels[key] {
			return field.ErrorList{field.Invalid(path, Patch(s), fmt.Sprintf("the label %s is managed by the controller: leave it out", key))}
		}
	}
	return nil
}

// validateSchedule validates the strategy, and rejects anything that is not served yet.
func validateSchedule(ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	s, at := &ud.Spec.Topology.ScheduleStrategy, path.Child("scheduleStrategy")
	if s.Type != appsv1beta1.ScheduleAdaptive {
		return nil
	}
	var faults field.ErrorList
	if Federated(ud) {
		faults = append(faults, field.Forbidden(at.Child("type"), "Adaptive between clusters is "+notServed+
			", only between the subsets of one cluster: use Fixed, with minReplicas and maxReplicas of the subsets"))
	}
	for i := range ud.Spec.Topology.Subsets {
		if ud.Spec.Topology.Subsets[i].Replicas != nil {
			faults = append(faults, field.Forbidden(path.Child("subsets").Index(i).Child("replicas"),
				"a subset can't have fixed replicas with scheduleStrategy.type Adaptive: use minReplicas and maxReplicas"))
		}
	}
	if s.Adaptive == nil {
		return faults
	}
	at = at.Child("adaptive")
	seconds := func(name string, n *int32) {
		if n != nil && *n < 0 {
			faults = append(faults, field.Invalid(at.Child(name), *n, "must be a number of seconds, 0 or more: leave it out for the default"))
		}
	}
	seconds("rescheduleCriticalSeconds", s.Adaptive.RescheduleCriticalSeconds)
	seconds("unschedulableDuration", s.Adaptive.UnschedulableDuration)
	if t := &ud.Spec.Template; s.Adaptive.ReserveUnschedulablePods && (t.StatefulSetTemplate != nil || t.AdvancedStatefulSetTemplate != nil) {
		faults = append(faults, field.Forbidden(at.Child("reserveUnschedulablePods"), "pods of a StatefulSet can't be reserved because they are "+
			"removed in the order of their ordinals: leave it out, and pods that can't be scheduled are replaced in other subsets, or use "+
			"cloneSetTemplate or deploymentTemplate"))
	}
	return faults
}

func validateUpdateStrategy(ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	s := &ud.Spec.UpdateStrategy
	switch s.Type {
	case "", appsv1beta1.ManualUpdateStrategyType, appsv1beta1.WavesUpdateStrategyType:
	default:
		faults = append(faults, field.NotSupported(path.Child("type"), s.Type,
			[]appsv1beta1.UnitedDeploymentUpdateStrategyType{appsv1beta1.ManualUpdateStrategyType, appsv1beta1.WavesUpdateStrategyType}))
	}
	faults = append(faults, validateWaves(ud, path)...)
	m, at := s.ManualUpdate, path.Child("manualUpdate")
	if m == nil || Waves(ud) {
		return faults
	}
	faults = append(faults, validateBySubset(ud, m.Partitions, at.Child("partitions"), "use 0 to update the whole subset")...)
	if Federated(ud) { // The hub doesn't act on it, so it would be ignored.
		for _, name := range slices.Sorted(maps.Keys(m.MaxUnavailable)) {
			faults = append(faults, field.Invalid(at.Child("maxUnavailable").Key(name), m.MaxUnavailable[name], "a subset that names clusters can't "+
				"have it: use type Waves with rollout.maxUnavailable, or remove it to have the template limit each cluster separately"))
		}
		return faults
	}
	return append(faults, validateBySubset(ud, m.MaxUnavailable, at.Child("maxUnavailable"), "use 0 to stop the update of the subset")...)
}

// validateBySubset validates numbers of pods by the name of the subset. remedy is for negative ones.
func validateBySubset(ud *appsv1beta1.UnitedDeployment, numbers map[string]int32, path *field.Path, remedy string) field.ErrorList {
	names := sets.New[string]()
	for i := range ud.Spec.Topology.Subsets {
		names.Insert(ud.Spec.Topology.Subsets[i].Name)
	}
	var faults field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(numbers)) {
		switch at, n := path.Key(name), numbers[name]; {
		case !names.Has(name):
			faults = append(faults, field.Invalid(at, n, fmt.Sprintf(
				"subset %s doesn't exist: use one of %v, or remove it", name, sets.List(names))))
		case n < 0:
			faults = append(faults, field.Invalid(at, n, "must be 0 or more: "+remedy))
		}
	}
	return faults
}

// validateNumbers validates replicas, minReplicas and maxReplicas, individually and in combination.
func validateNumbers(ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	subsets := ud.Spec.Topology.Subsets
	total := int(ptr.Deref(ud.Spec.Replicas, DefaultReplicas))
	var faults field.ErrorList
	elastic, sum, percent, bounded := Elastic(ud), 0, 0, 0
	requests := make([]spread.Subset, 0, len(subsets))
	for i := range subsets {
		s, at := &subsets[i], path.Index(i)
		var found field.ErrorList
		replicas := readNumber(s.Replicas, total, at.Child("replicas"), &found)
		least := readNumber(s.MinReplicas, total, at.Child("minReplicas"), &found)
		most := readNumber(s.MaxReplicas, total, at.Child("maxReplicas"), &found)
		if s.Replicas != nil {
			sum += replicas
			if s.Replicas.Type == intstr.String {
				percent += readNumber(s.Replicas, 100, at.Child("replicas"), &field.ErrorList{}) // Its faults are reported above.
			}
			if elastic {
				found = append(found, field.Forbidden(at.Child("replicas"),
					"subsets say either replicas or minReplicas and maxReplicas: use one of the two forms in all subsets"))
			}
		}
		if s.MaxReplicas != nil {
			bounded++
			if len(found) == 0 && s.MinReplicas != nil && least > most {
				found = append(found, field.Invalid(at.Child("minReplicas"), s.MinReplicas.String(), fmt.Sprintf(
					"is greater than maxReplicas (%d > %d of %d replicas): lower it, or raise maxReplicas", least, most, total)))
			}
		}
		faults = append(faults, found...)
		requests = append(requests, spread.Subset{Name: s.Name, Replicas: s.Replicas})
	}
	if bounded > 0 && bounded == len(subsets) && !Federated(ud) {
		faults = append(faults, field.Invalid(path, bounded,
			"every subset has maxReplicas, so not every number of replicas fits: remove it from one of them"))
	}
	if len(faults) > 0 || elastic || ud.Spec.Replicas == nil || total < 0 {
		return faults
	}
	switch contradict := spread.Divide(total, requests).Ineffective; {
	case percent > 100: // With few replicas rounding may hide it until the next scale.
		faults = append(faults, field.Invalid(path, fmt.Sprintf("%d%%", percent), fmt.Sprintf(
			"percentages add up to %d%%: lower them to 100%% in total", percent)))
	case contradict && sum > total:
		faults = append(faults, field.Invalid(path, sum, fmt.Sprintf(
			"subsets ask for %d replicas, more than spec.replicas (%d): lower them, or raise spec.replicas", sum, total)))
	case contradict:
		faults = append(faults, field.Invalid(path, sum, fmt.Sprintf(
			"subsets ask for %d of %d replicas, and none is left to take the rest: remove replicas from one of them", sum, total)))
	}
	return faults
}

// invalidNumbers returns faults for replicas that are neither a number nor a percentage.
func invalidNumbers(ud *appsv1beta1.UnitedDeployment, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for i := range ud.Spec.Topology.Subsets {
		s, at := &ud.Spec.Topology.Subsets[i], path.Child("subsets").Index(i)
		readNumber(s.Replicas, 0, at.Child("replicas"), &faults)
		readNumber(s.MinReplicas, 0, at.Child("minReplicas"), &faults)
		readNumber(s.MaxReplicas, 0, at.Child("maxReplicas"), &faults)
	}
	if p := ud.Spec.Topology.Placement; p != nil && p.Reallocation != nil {
		at := path.Child("placement", "reallocation")
		readNumber(p.Reallocation.MaxSurge, 0, at.Child("maxSurge"), &faults)
		readNumber(p.Reallocation.MaxUnavailable, 0, at.Child("maxUnavailable"), &faults)
	}
	return faults
}

// readNumber resolves a number of replicas; nil is 0. An invalid value is reported as a fault.
func readNumber(v *intstr.IntOrString, total int, path *field.Path, faults *field.ErrorList) int {
	if v == nil {
		return 0
	}
	n, err := spread.Resolve(*v, total)
	if err != nil {
		*faults = append(*faults, field.Invalid(path, v.String(), `must be a number, 0 or more, or a whole percentage from "0%" to "100%"`))
	}
	return n
}
