package united

import (
	"encoding/json"
	"fmt"
	"iter"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// Revision returns the revision of an object with that data, without a number. Except for collisions, its name depends only on the object's name
// and the data.
func Revision(ud *appsv1beta1.UnitedDeployment, data []byte) *appsv1.ControllerRevision {
	hash := revision.Hash(data, ud.Status.CollisionCount)
	owner := metav1.NewControllerRef(ud, appsv1beta1.GroupVersion.WithKind("UnitedDeployment"))
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name: ud.Name + "-" + hash, Namespace: ud.Namespace,
			Labels:          map[string]string{keys.RevisionHash: hash},
			OwnerReferences: []metav1.OwnerReference{*owner},
		},
		Data: runtime.RawExtension{Raw: data},
	}
}

// patchedSubset is a subset in the data of a revision.
type patchedSubset struct {
	Name  string          `json:"name"`
	Patch json.RawMessage `json:"patch"`
}

// RevisionData returns the patch that restores the template. It is byte for byte the same as in OpenKruise 1.9, so that objects of OpenKruise
// keep their revision and no pod is restarted. Unlike the patch for a pod template, it has no metadata of its own, and each metadata in it has
// the null creationTimestamp that older clients write.
//
// The data also has the patches of these subsets. If none of them has a patch, it is the data of the template alone.
func RevisionData(t *appsv1beta1.SubsetTemplate, subsets ...appsv1beta1.Subset) ([]byte, error) {
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, fmt.Errorf("marshal template: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("decode template: %w", err)
	}
	addCreationTimestamps(fields)
	fields["$patch"] = "replace"
	spec := map[string]any{"template": fields}
	var patched []patchedSubset
	for i := range subsets {
		if patch := Patch(&subsets[i]); patch != "" {
			patched = append(patched, patchedSubset{subsets[i].Name, json.RawMessage(patch)})
		}
	}
	if len(patched) > 0 {
		spec["topology"] = map[string]any{"subsets": patched}
	}
	data, err := json.Marshal(map[string]any{"spec": spec})
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

// RevisionContent returns what RevisionData was made from: the template, and the patches by the names of their subsets.
func RevisionContent(r *appsv1.ControllerRevision) (appsv1beta1.SubsetTemplate, map[string]*runtime.RawExtension, error) {
	var data struct {
		Spec struct {
			Template *appsv1beta1.SubsetTemplate `json:"template"`
			Topology struct {
				Subsets []patchedSubset `json:"subsets"`
			} `json:"topology"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return appsv1beta1.SubsetTemplate{}, nil, fmt.Errorf("decode revision %s: %w", r.Name, err)
	}
	if data.Spec.Template == nil {
		return appsv1beta1.SubsetTemplate{}, nil, fmt.Errorf("decode revision %s: it has no template", r.Name)
	}
	patches := make(map[string]*runtime.RawExtension, len(data.Spec.Topology.Subsets))
	for _, s := range data.Spec.Topology.Subsets {
		patches[s.Name] = &runtime.RawExtension{Raw: s.Patch}
	}
	return *data.Spec.Template, patches, nil
}

// SurplusRevisions returns the revisions beyond the object's limit, oldest first. The update revision, the current one and the used ones are kept
// and don't count.
func SurplusRevisions(
	ud *appsv1beta1.UnitedDeployment, history []*appsv1.ControllerRevision, update string, used iter.Seq[string],
) []*appsv1.ControllerRevision {
	limit := int(ptr.Deref(ud.Spec.RevisionHistoryLimit, DefaultHistoryLimit))
	if len(history) <= limit {
		return nil
	}
	live := map[string]bool{revision.Short(ud.Status.CurrentRevision): true, revision.Short(update): true}
	for name := range used {
		live[revision.Short(name)] = true
	}
	return revision.Surplus(history, func(r *appsv1.ControllerRevision) bool { return live[revision.Short(r.Name)] }, limit)
}
