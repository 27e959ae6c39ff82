package uniteddeployment

import (
	"encoding/json"
	"fmt"
	"maps"
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
	"github.com/flotilla-io/flotilla/pkg/overlay"
	"github.com/flotilla-io/flotilla/pkg/revision"
	"github.com/flotilla-io/flotilla/pkg/united"
)

// Kind is the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind("UnitedDeployment") }

// wantedRevision is the revision of the template, without a number. Except for collisions, its name depends only on the object's
// name and template, so that the slices of one object have the same in each cluster.
func wantedRevision(ud *appsv1beta1.UnitedDeployment) (*appsv1.ControllerRevision, error) {
	data, err := revisionData(&ud.Spec.Template)
	if err != nil {
		return nil, err
	}
	hash := revision.Hash(data, ud.Status.CollisionCount)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: ud.Name + "-" + hash, Namespace: ud.Namespace,
			Labels:          map[string]string{keys.RevisionHash: hash},
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(ud, Kind())},
		},
		Data: runtime.RawExtension{Raw: data},
	}, nil
}

// revisionData is the patch that restores the template. It is byte for byte that of OpenKruise 1.9, so that objects of OpenKruise
// keep their revision and no pod is restarted: unlike that of a pod template, it has no metadata of its own, and each metadata in
// it has the null creationTimestamp that older clients write.
func revisionData(t *appsv1beta1.SubsetTemplate) ([]byte, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("marshal template: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("read template: %w", err)
	}
	addCreationTimestamps(fields)
	fields["$patch"] = "replace"
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	if err != nil {
		return nil, fmt.Errorf("marshal revision: %w", err)
	}
	return data, nil
}

func addCreationTimestamps(v any) {
	switch v := v.(type) {
	case map[string]any:
		if meta, ok := v["metadata"].(map[string]any); ok {
			if _, ok := meta["creationTimestamp"]; !ok {
				meta["creationTimestamp"] = nil
			}
		}
		for _, e := range v {
			addCreationTimestamps(e)
		}
	case []any:
		for _, e := range v {
			addCreationTimestamps(e)
		}
	}
}

// revisionLabel is the label of workloads and pods for a revision: its name, or only its hash where the name is too long for a
// label. revision.Same accepts both.
func revisionLabel(name string) string {
	if len(name) > validation.LabelValueMaxLength {
		return revision.Short(name)
	}
	return name
}

// longestHost is the longest prefix of a workload whose pods have its name and an ordinal of 10 digits as their host name, which also holds
// for its revisions: their hash has as many. The apiserver adds 5 characters to the prefix.
const longestHost = validation.DNS1123LabelMaxLength - 5 - len("-1234567890")

// prefix is the generateName of a subset's workload. One whose name is part of host names is cut, and has no dots.
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
func (k kind) render(
	ud *appsv1beta1.UnitedDeployment, subset *appsv1beta1.Subset, revision string, replicas, partition int32,
) (workload, error) {
	w, p := k.make(&ud.Spec.Template)
	t, _ := united.TemplateOf(&ud.Spec.Template)
	own := map[string]string{keys.SubsetName: subset.Name, keys.SubsetRevision: revisionLabel(revision)}
	pod, err := united.PodTemplate(p.pod, subset, own)
	if err != nil {
		return nil, err
	}
	*p.pod = *pod
	*p.replicas = &replicas
	if p.partition != nil {
		p.partition(partition)
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
	w.SetLabels(union(t.Metadata.Labels, ud.Spec.Selector.MatchLabels, own))
	w.SetAnnotations(union(t.Metadata.Annotations, map[string]string{keys.SubsetPatch: united.Patch(subset)}))
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
	// paths are the fields that differ, sorted.
	paths []string
}

// amend compares a workload with the wanted one. whole replaces its spec; otherwise only fields that want sets are compared, and
// other fields of live (defaults, other writers') are kept. Neither object is changed.
func (k kind) amend(live, want workload, whole bool) (update, error) {
	has, err := runtime.DefaultUnstructuredConverter.ToUnstructured(live)
	if err != nil {
		return update{}, fmt.Errorf("read %s %s: %w", k.Kind, live.GetName(), err)
	}
	asks, err := runtime.DefaultUnstructuredConverter.ToUnstructured(want)
	if err != nil {
		return update{}, fmt.Errorf("read %s as wanted: %w", k.Kind, err)
	}
	meta, _ := asks["metadata"].(map[string]any)
	asks = map[string]any{
		"metadata": map[string]any{"labels": meta["labels"], "annotations": meta["annotations"]},
		"spec":     asks["spec"],
	}
	e := update{paths: overlay.Apply(has, asks)}
	if len(e.paths) == 0 {
		return update{}, nil
	}
	if whole {
		if err := k.replaceSpec(has, asks["spec"]); err != nil {
			return update{}, fmt.Errorf("keep fields of %s %s: %w", k.Kind, live.GetName(), err)
		}
	}
	e.next = live.DeepCopyObject().(workload)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(has, e.next); err != nil {
		return update{}, fmt.Errorf("write %s %s: %w", k.Kind, live.GetName(), err)
	}
	return e, nil
}

// replaceSpec sets the spec of o, except the field of other writers.
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
