package uniteddeployment

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/overlay"
	"github.com/flotilla-io/flotilla/pkg/workload/united"
)

// Kind returns the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind("UnitedDeployment") }

// wantedRevision returns the revision of the template, without a number. Except for collisions, its name depends only on the object's name and
// template, so the slices of one object have the same revision name in each cluster.
func wantedRevision(ud *appsv1beta1.UnitedDeployment) (*appsv1.ControllerRevision, error) {
	data, err := united.RevisionData(&ud.Spec.Template)
	if err != nil {
		return nil, err //nolint:wrapcheck // It says what failed.
	}
	return united.Revision(ud, data), nil
}

// revisionLabel returns the label of workloads and pods for a revision: the revision's name, or only its hash if the name is too long for a
// label. revision.Same accepts both.
func revisionLabel(name string) string {
	if len(name) > validation.LabelValueMaxLength {
		return revision.Short(name)
	}
	return name
}

// longestHost is the maximum length of a workload's name prefix if its pods use the workload's name and an ordinal of 10 digits as host name.
// It also fits the workload's revisions, whose hash has as many characters. The apiserver adds 5 characters to the prefix.
const longestHost = validation.DNS1123LabelMaxLength - 5 - len("-1234567890")

// prefix returns the generateName for a subset's workload. If the name is part of host names, it is cut and has no dots.
func (k kind) prefix(ud *appsv1beta1.UnitedDeployment, subset string) string {
	full := ud.Name + "-" + subset + "-"
	if len(apivalidation.NameIsDNSSubdomain(full, true)) > 0 {
		full = ud.Name + "-"
	}
	if !k.hosts {
		return full
	}
	host := strings.ReplaceAll(full, ".", "-")
	return strings.TrimRight(host[:min(len(host), longestHost)-1], "-") + "-"
}

// render returns the wanted workload of a subset. An error says why the subset's patch can't be applied to the template.
func (t *target) render(ud *appsv1beta1.UnitedDeployment, subset *appsv1beta1.Subset, revision string) (workload, error) {
	k := t.kind
	w, p := k.make(&ud.Spec.Template)
	annotations := map[string]string{keys.SubsetPatch: united.Patch(subset)}
	template, _ := united.TemplateOf(&ud.Spec.Template)
	own := map[string]string{keys.SubsetName: subset.Name, keys.SubsetRevision: revisionLabel(revision)}
	pod, err := united.PodTemplate(p.pod, subset, own)
	if err != nil {
		return nil, err
	}
	*p.pod = *pod
	*p.replicas = &t.replicas
	if p.partition != nil {
		p.partition(t.partition)
	}
	if t.limit != nil {
		p.limit(*t.limit, t.child.unborn())
		annotations[keys.SubsetMaxUnavailable] = strconv.Itoa(int(*t.limit))
	}
	if k.number != nil {
		k.number(w, subset.Ordinals)
	}
	selector := ud.Spec.Selector.DeepCopy()
	metav1.AddLabelToSelector(selector, keys.SubsetName, subset.Name)
	*p.selector = selector

	w.SetGenerateName(k.prefix(ud, subset.Name))
	w.SetNamespace(ud.Namespace)
	w.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(ud, Kind())})
	w.SetLabels(union(template.Metadata.Labels, ud.Spec.Selector.MatchLabels, own))
	w.SetAnnotations(union(template.Metadata.Annotations, annotations))
	return w, nil
}

// union merges maps; the last one wins.
func union(all ...map[string]string) map[string]string {
	out := map[string]string{}
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// update is a workload with the wanted fields.
type update struct {
	next workload
	// paths lists the fields that differ, sorted.
	paths []string
}

// amend compares a workload with the wanted one. If whole is set, it replaces the spec. Otherwise it compares only fields that want sets, and
// keeps other fields of live (defaults, other writers' fields). It changes neither object.
func (k kind) amend(live, want workload, whole bool) (update, error) {
	current, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return update{}, fmt.Errorf("convert %s %s: %w", k.Kind, live.GetName(), err)
	}
	wanted, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return update{}, fmt.Errorf("convert desired %s: %w", k.Kind, err)
	}
	meta, _ := wanted["metadata"].(map[string]any)
	wanted = map[string]any{
		"metadata": map[string]any{"labels": meta["labels"], "annotations": meta["annotations"]},
		"spec":     wanted["spec"],
	}
	if limited(live) || limited(want) {
		if err := k.unpause(current, wanted); err != nil {
			return update{}, fmt.Errorf("paused of %s %s: %w", k.Kind, live.GetName(), err)
		}
	}
	e := update{paths: overlay.Apply(current, wanted)}
	if limited(live) && !limited(want) {
		unstructured.RemoveNestedField(current, "metadata", "annotations", keys.SubsetMaxUnavailable)
		e.paths = append(e.paths, limitPath)
		slices.Sort(e.paths)
	}
	if len(e.paths) == 0 {
		return update{}, nil
	}
	if whole {
		if err := k.replaceSpec(current, wanted["spec"]); err != nil {
			return update{}, fmt.Errorf("keep fields of %s %s: %w", k.Kind, live.GetName(), err)
		}
	}
	e.next = live.DeepCopyObject().(workload)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(current, e.next); err != nil {
		return update{}, fmt.Errorf("convert %s %s back: %w", k.Kind, live.GetName(), err)
	}
	return e, nil
}

// limitPath is the path of the annotation by which limited recognizes a workload.
const limitPath = "metadata.annotations." + keys.SubsetMaxUnavailable

// unpause sets paused to false in wanted if only current has it. JSON leaves out false, and a field that wanted doesn't set would stay.
func (k kind) unpause(current, wanted map[string]any) error {
	if len(k.paused) == 0 {
		return nil
	}
	is, _, err := unstructured.NestedBool(current, k.paused...)
	if err != nil || !is {
		return err
	}
	if _, set, err := unstructured.NestedBool(wanted, k.paused...); err != nil || set {
		return err
	}
	return unstructured.SetNestedField(wanted, false, k.paused...)
}

// replaceSpec sets the spec of o, except for the field that belongs to other writers.
func (k kind) replaceSpec(o map[string]any, spec any) error {
	if len(k.kept) == 0 {
		o["spec"] = spec
		return nil
	}
	kept, found, err := unstructured.NestedFieldCopy(o, k.kept...)
	o["spec"] = spec
	if err == nil && found {
		err = unstructured.SetNestedField(o, kept, k.kept...)
	}
	return err
}
