package sidecarset

import (
	"fmt"
	"regexp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// validate validates a defaulted SidecarSet on its own, except for what the apiserver's validation of pods covers.
func validate(s *appsv1beta1.SidecarSet) field.ErrorList {
	path := field.NewPath("spec")
	faults := slices.Concat(
		validateName(s.Name, field.NewPath("metadata", "name")),
		validateSelectors(&s.Spec, path),
		validateNames(&s.Spec, path),
		validateUpdate(&s.Spec, path.Child("updateStrategy")),
		validateInjection(&s.Spec.InjectionStrategy, path.Child("injectionStrategy")),
		validatePatches(s.Spec.PatchPodMetadata, path.Child("patchPodMetadata")),
		validateCanary(s),
	)
	if n := s.Spec.RevisionHistoryLimit; n != nil && *n < 0 {
		faults = append(faults, field.Invalid(path.Child("revisionHistoryLimit"), *n, "must be 0 or more"))
	}
	if v := s.Spec.CustomVersion; v != "" {
		for _, why := range validation.IsValidLabelValue(v) {
			faults = append(faults, field.Invalid(path.Child("customVersion"), v, "must be a valid label value: "+why))
		}
	}
	for i := range s.Spec.InitContainers {
		c, at := &s.Spec.InitContainers[i], path.Child("initContainers").Index(i)
		faults = append(faults, validateContainer(c, at)...)
		if restartsAlways(&c.Container) {
			continue
		}
		const endsEarly = "an init container ends before the pod runs: set restartPolicy to Always, or remove this"
		if isHot(c) {
			faults = append(faults, field.Forbidden(at.Child("upgradeStrategy", "upgradeType"), endsEarly))
		}
		if c.ResourcesPolicy != nil {
			faults = append(faults, field.Forbidden(at.Child("resourcesPolicy"), endsEarly))
		}
	}
	for i := range s.Spec.Containers {
		faults = append(faults, validateContainer(&s.Spec.Containers[i], path.Child("containers").Index(i))...)
	}
	return faults
}

func validateName(name string, path *field.Path) field.ErrorList {
	if len(name) > validation.DNS1123LabelMaxLength || !regexp.MustCompile(`^[a-zA-Z0-9-]+$`).MatchString(name) {
		return field.ErrorList{field.Invalid(path, name,
			"must be at most 63 letters, digits and dashes: it is used in lists in pods and in a label of revisions")}
	}
	return nil
}

func validateSelectors(s *appsv1beta1.SidecarSetSpec, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	if emptySelector(s.Selector) {
		faults = append(faults, field.Required(path.Child("selector"), "it would select every pod: name a label that the pods have"))
	} else {
		faults = append(faults, validateSelector(s.Selector, path.Child("selector"))...)
	}
	switch selector := s.NamespaceSelector; {
	case selector == nil:
	case emptySelector(selector):
		faults = append(faults, field.Required(path.Child("namespaceSelector"),
			"an empty selector selects every namespace: leave it unset for that, or name a label"))
	default:
		faults = append(faults, validateSelector(selector, path.Child("namespaceSelector"))...)
	}
	return faults
}

func validateSelector(s *metav1.LabelSelector, path *field.Path) field.ErrorList {
	return metav1validation.ValidateLabelSelector(s, metav1validation.LabelSelectorValidationOptions{}, path)
}

// validateNames validates that there are containers, and that no two have the same name in a pod.
func validateNames(s *appsv1beta1.SidecarSetSpec, path *field.Path) field.ErrorList {
	if len(s.Containers)+len(s.InitContainers) == 0 {
		return field.ErrorList{field.Required(path.Child("containers"), "name at least one container or init container")}
	}
	var faults field.ErrorList
	taken := map[string]*field.Path{}
	for name, list := range containerLists(s) {
		for i := range list {
			at := path.Child(name).Index(i).Child("name")
			names := []string{list[i].Name}
			if isHot(&list[i]) {
				names = []string{firstContainer(list[i].Name), secondContainer(list[i].Name)}
			}
			for _, n := range names {
				if by, ok := taken[n]; ok {
					faults = append(faults, field.Invalid(at, list[i].Name, fmt.Sprintf("it creates a container %s, as does %s: rename one", n, by)))
					continue
				}
				taken[n] = at
			}
		}
	}
	return faults
}

// containerLists yields both container lists with their field names.
func containerLists(s *appsv1beta1.SidecarSetSpec) func(func(string, []appsv1beta1.SidecarContainer) bool) {
	return func(yield func(string, []appsv1beta1.SidecarContainer) bool) {
		if yield("initContainers", s.InitContainers) {
			yield("containers", s.Containers)
		}
	}
}

func validateContainer(c *appsv1beta1.SidecarContainer, path *field.Path) field.ErrorList {
	faults := slices.Concat(
		oneOf(c.PodInjectPolicy, path.Child("podInjectPolicy"), appsv1beta1.BeforeAppContainer, appsv1beta1.AfterAppContainer),
		oneOf(c.ShareVolumePolicy.Type, path.Child("shareVolumePolicy", "type"), appsv1beta1.ShareVolumeEnabled, appsv1beta1.ShareVolumeDisabled),
		oneOf(c.UpgradeStrategy.UpgradeType, path.Child("upgradeStrategy", "upgradeType"),
			appsv1beta1.SidecarContainerColdUpgrade, appsv1beta1.SidecarContainerHotUpgrade),
	)
	if p := c.ShareVolumeDevicePolicy; p != nil && p.Type != "" {
		at := path.Child("shareVolumeDevicePolicy", "type")
		faults = append(faults, oneOf(p.Type, at, appsv1beta1.ShareVolumeEnabled, appsv1beta1.ShareVolumeDisabled)...)
	}
	for i := range c.TransferEnv {
		faults = append(faults, validateTransfer(&c.TransferEnv[i], path.Child("transferEnv").Index(i))...)
	}
	if c.ResourcesPolicy != nil {
		faults = append(faults, validateResources(c, path)...)
	}
	return faults
}

// dubiousSettings returns warnings about settings that have no effect, or that get pods rejected. They are admitted because OpenKruise admits
// them, so stored objects can contain them.
func dubiousSettings(s *appsv1beta1.SidecarSetSpec) admission.Warnings {
	var out admission.Warnings
	warn := func(path *field.Path, format string, args ...any) {
		out = append(out, path.String()+": "+fmt.Sprintf(format, args...))
	}
	for list, containers := range containerLists(s) {
		for i := range containers {
			c, path := &containers[i], field.NewPath("spec", list).Index(i)
			if isHot(c) && c.UpgradeStrategy.HotUpgradeEmptyImage == "" {
				warn(path.Child("upgradeStrategy", "hotUpgradeEmptyImage"),
					"HotUpgrade needs an image that does nothing, for the container that is not in use: pods that get this sidecar are rejected")
			}
			for j := range c.TransferEnv {
				if t := &c.TransferEnv[j]; t.EnvName == "" && len(t.EnvNames) == 0 {
					warn(path.Child("transferEnv").Index(j), "it names no env variable, so none is transferred: set envName or envNames")
				}
			}
			for _, e := range expressions(c.ResourcesPolicy) {
				if e.list != "requests" {
					continue // If a container has no limit, the sidecar gets none.
				}
				parsed, err := parseExpression(e.text, e.variable)
				if err != nil {
					continue
				}
				if never, atZero := tryExpression(parsed, e.variable == string(corev1.ResourceCPU)); never == nil && atZero != nil {
					warn(path.Child("resourcesPolicy", "resourcesExpr", e.list, e.variable),
						"%q: pods whose containers request no %s are rejected: %v. Use max(..., 0), or don't divide by a value that can be 0",
						e.text, e.variable, atZero)
				}
			}
		}
	}
	return out
}

// resourceExpression is one expression in a resourcesPolicy.
type resourceExpression struct{ list, variable, text string }

// expressions returns the expressions that are set.
func expressions(p *appsv1beta1.SidecarResourcesPolicy) []resourceExpression {
	if p == nil {
		return nil
	}
	var out []resourceExpression
	for _, list := range []struct {
		name string
		expr *appsv1beta1.SidecarResourceExpr
	}{{"limits", p.ResourcesExpr.Limits}, {"requests", p.ResourcesExpr.Requests}} {
		e := ptr.Deref(list.expr, appsv1beta1.SidecarResourceExpr{})
		for _, expr := range []resourceExpression{{list.name, "cpu", e.CPU}, {list.name, "memory", e.Memory}} {
			if expr.text != "" {
				out = append(out, expr)
			}
		}
	}
	return out
}

func oneOf[T ~string](value T, path *field.Path, known ...T) field.ErrorList {
	if slices.Contains(known, value) {
		return nil
	}
	return field.ErrorList{field.NotSupported(path, value, known)}
}

func validateTransfer(t *appsv1beta1.TransferEnvVar, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	switch from := t.SourceContainerNameFrom; {
	case from == nil && t.SourceContainerName == "":
		faults = append(faults, field.Required(path.Child("sourceContainerName"),
			"name the container that has the env, or set sourceContainerNameFrom to the pod field that holds its name"))
	case from != nil && t.SourceContainerName != "":
		faults = append(faults, field.Forbidden(path.Child("sourceContainerNameFrom"), "sourceContainerName is set too: remove one of them"))
	case from != nil && from.FieldRef == nil:
		faults = append(faults, field.Required(path.Child("sourceContainerNameFrom", "fieldRef"), "specify the pod field that holds the container's name"))
	case from != nil:
		faults = append(faults, validateFieldPath(from.FieldRef.FieldPath, path.Child("sourceContainerNameFrom", "fieldRef", "fieldPath"))...)
	}
	for i, name := range t.EnvNames {
		if name == "" {
			faults = append(faults, field.Required(path.Child("envNames").Index(i), "name an env variable, or remove the entry"))
		}
	}
	return faults
}

func validateFieldPath(text string, path *field.Path) field.ErrorList {
	const want = "must be metadata.labels['KEY'], metadata.annotations['KEY'] or metadata.name"
	if text == "metadata.name" {
		return nil
	}
	prefix, key := subscript(text)
	if prefix != "metadata.labels" && prefix != "metadata.annotations" {
		return field.ErrorList{field.Invalid(path, text, want)}
	}
	if why := validation.IsQualifiedName(key); len(why) > 0 {
		return field.ErrorList{field.Invalid(path, text, want+": "+why[0])}
	}
	return nil
}

func validateResources(c *appsv1beta1.SidecarContainer, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	p, at := c.ResourcesPolicy, path.Child("resourcesPolicy")
	if len(c.Resources.Limits)+len(c.Resources.Requests)+len(c.Resources.Claims) > 0 {
		faults = append(faults, field.Forbidden(at, "resources is set too: remove one of them"))
	}
	if _, err := regexp.Compile(p.TargetContainersNameRegex); err != nil {
		faults = append(faults, field.Invalid(at.Child("targetContainersNameRegex"), p.TargetContainersNameRegex, err.Error()))
	}
	if p.TargetContainersNameRegex == "" {
		faults = append(faults, field.Required(at.Child("targetContainersNameRegex"), `use ".*" for all containers`))
	}
	faults = append(faults, oneOf(p.TargetContainersMode, at.Child("targetContainersMode"), appsv1beta1.SidecarTargetSum, appsv1beta1.SidecarTargetMax)...)
	at = at.Child("resourcesExpr")
	all := expressions(p)
	for _, e := range all {
		parsed, err := parseExpression(e.text, e.variable)
		if err == nil {
			err, _ = tryExpression(parsed, e.variable == string(corev1.ResourceCPU))
		}
		if err != nil {
			faults = append(faults, field.Invalid(at.Child(e.list, e.variable), e.text, err.Error()))
		}
	}
	if len(all) == 0 {
		faults = append(faults, field.Required(at, "specify at least one expression, in limits or in requests"))
	}
	return faults
}

func validateUpdate(s *appsv1beta1.SidecarSetSpec, path *field.Path) field.ErrorList {
	u := &s.UpdateStrategy
	faults := oneOf(u.Type, path.Child("type"), appsv1beta1.SidecarSetRollingUpdate, appsv1beta1.SidecarSetNotUpdate)
	rolling := u.Type == appsv1beta1.SidecarSetRollingUpdate
	if u.Selector != nil {
		faults = append(faults, validateSelector(u.Selector, path.Child("selector"))...)
		if rolling && moreThanZero(u.Partition) {
			faults = append(faults, field.Forbidden(path.Child("partition"), "can't be combined with selector: remove one of them"))
		}
	}
	for _, f := range []struct {
		name  string
		value *intstr.IntOrString
	}{{"partition", u.Partition}, {"maxUnavailable", u.MaxUnavailable}} {
		_, more := workloadspec.IntOrPercent(f.value, workloadspec.MaxPercent, workloadspec.MaxPercent, path.Child(f.name))
		faults = append(faults, more...)
	}
	return append(faults, workloadspec.UpdateOrder(u.PriorityStrategy, u.ScatterStrategy, path)...)
}

// moreThanZero reports whether a partition is set. 0 doesn't count: it is the default, which is stored with each object.
func moreThanZero(v *intstr.IntOrString) bool {
	n, err := rollout.Resolve(v, workloadspec.MaxPercent, rollout.Up)
	return err == nil && n > 0
}

func validateInjection(s *appsv1beta1.SidecarSetInjectionStrategy, path *field.Path) field.ErrorList {
	r := s.Revision
	if r == nil {
		return nil
	}
	at := path.Child("revision")
	faults := oneOf(r.Policy, at.Child("policy"), appsv1beta1.InjectRevisionAlways, appsv1beta1.InjectRevisionPartial)
	if ptr.Deref(r.RevisionName, "") == "" && ptr.Deref(r.CustomVersion, "") == "" {
		faults = append(faults, field.Required(at, "set revisionName or customVersion, or leave revision unset for the current one"))
	}
	return faults
}

func validatePatches(patches []appsv1beta1.SidecarSetPatchPodMetadata, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	taken := map[string]bool{}
	for i, p := range patches {
		at := path.Index(i)
		faults = append(faults, oneOf(p.PatchPolicy, at.Child("patchPolicy"),
			appsv1beta1.SidecarSetRetain, appsv1beta1.SidecarSetOverwrite, appsv1beta1.SidecarSetMergePatchJSON)...)
		if len(p.Annotations) == 0 {
			faults = append(faults, field.Required(at.Child("annotations"), "name at least one annotation"))
		}
		faults = append(faults, apivalidation.ValidateAnnotations(p.Annotations, at.Child("annotations"))...)
		for key, value := range p.Annotations {
			if taken[key] {
				faults = append(faults, field.Duplicate(at.Child("annotations").Key(key), key))
			}
			taken[key] = true
			if p.PatchPolicy == appsv1beta1.SidecarSetMergePatchJSON && !isObject(value) {
				faults = append(faults, field.Invalid(at.Child("annotations").Key(key), value,
					"MergePatchJson needs a JSON object: specify one, or use another patchPolicy"))
			}
		}
	}
	return faults
}

func validateCanary(s *appsv1beta1.SidecarSet) field.ErrorList {
	at := field.NewPath("metadata", "annotations")
	if s.Annotations[keys.SidecarSetCanary] != "true" {
		return nil
	}
	var faults field.ErrorList
	switch base := s.Annotations[keys.SidecarSetBase]; base {
	case "":
		faults = append(faults, field.Required(at.Key(keys.SidecarSetBase), "a canary needs the name of the SidecarSet that it replaces"))
	case s.Name:
		faults = append(faults, field.Invalid(at.Key(keys.SidecarSetBase), base, "a canary can't replace itself: name another SidecarSet"))
	}
	if t := s.Spec.UpdateStrategy.Type; t != appsv1beta1.SidecarSetNotUpdate {
		faults = append(faults, field.Invalid(field.NewPath("spec", "updateStrategy", "type"), t, "a canary is only for new pods: set it to NotUpdate"))
	}
	return faults
}

// validateChange validates that fields that existing pods depend on don't change.
func validateChange(old, s *appsv1beta1.SidecarSet) field.ErrorList {
	var faults field.ErrorList
	oldContainers := map[string]map[string]*appsv1beta1.SidecarContainer{}
	for list, containers := range containerLists(&old.Spec) {
		oldContainers[list] = map[string]*appsv1beta1.SidecarContainer{}
		for i := range containers {
			oldContainers[list][containers[i].Name] = &containers[i]
		}
	}
	for list, containers := range containerLists(&s.Spec) {
		for i := range containers {
			c, at := &containers[i], field.NewPath("spec", list).Index(i)
			previous := oldContainers[list][c.Name]
			switch runs := list == "containers" || native(*c) && s.Spec.UpdateStrategy.Type == appsv1beta1.SidecarSetRollingUpdate; {
			case runs && (previous == nil || list != "containers" && !native(*previous)):
				faults = append(faults, field.Forbidden(at.Child("name"), fmt.Sprintf(
					"container %s can't be added: running pods would not get it. Create another SidecarSet for it", c.Name)))
			case runs && isHot(c) != isHot(previous):
				faults = append(faults, field.Forbidden(at.Child("upgradeStrategy", "upgradeType"), fmt.Sprintf(
					"the number of containers of %s in running pods can't change: create another SidecarSet for it", c.Name)))
			}
		}
	}
	base := func(s *appsv1beta1.SidecarSet) string { return s.Annotations[keys.SidecarSetBase] }
	if baseOf(s) != "" && baseOf(old) != "" && base(old) != base(s) {
		faults = append(faults, field.Invalid(field.NewPath("metadata", "annotations").Key(keys.SidecarSetBase), base(s), fmt.Sprintf(
			"the base is %s and can't change: create another canary", base(old))))
	}
	return faults
}
