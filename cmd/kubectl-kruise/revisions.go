package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// revisions lists the set's revisions, oldest first.
func revisions(ctx context.Context, c client.Reader, set workload) ([]*appsv1.ControllerRevision, error) {
	all, err := revision.List(ctx, c, set, client.InNamespace(set.GetNamespace()))
	if err != nil {
		return nil, fmt.Errorf("history of %s: %w", set.id(), err)
	}
	return all, nil
}

// revisionByNumber finds the revision with a number. The error lists the existing ones.
func revisionByNumber(all []*appsv1.ControllerRevision, set workload, number int64) (*appsv1.ControllerRevision, error) {
	var there []int64
	for _, r := range all {
		if r.Revision == number {
			return r, nil
		}
		there = append(there, r.Revision)
	}
	if len(there) == 0 {
		return nil, noHistory(set)
	}
	return nil, fmt.Errorf("%s has no revision %d, only %v; revisionHistoryLimit limits how many are kept", set.id(), number, there)
}

func noHistory(set workload) error {
	return fmt.Errorf("%s has no revisions yet: its controller creates the first one; is it running?", set.id())
}

// content is what a revision holds, including fields that the types here don't know.
type content struct {
	// template is the value of spec.template.
	template map[string]any
	// patches are the patches of subsets, by name. They are nil if the revision says nothing about subsets.
	patches map[string]any
}

// contentOf reads a revision.
func contentOf(ctx context.Context, set workload, r *appsv1.ControllerRevision) (content, error) {
	var data map[string]any
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return content{}, fmt.Errorf("read revision %s: %w", r.Name, err)
	}
	template, ok, err := unstructured.NestedMap(data, "spec", "template")
	if err != nil || !ok {
		return content{}, fmt.Errorf("read revision %s: it has no template", r.Name)
	}
	delete(template, "$patch") // Data is a patch that replaces the template.
	dropNulls(template)
	out := content{template: template}
	if revised := set.kind().revised; revised != nil {
		if out.template, err = revised(ctx, set, template); err != nil {
			return content{}, fmt.Errorf("read revision %s: %w", r.Name, err)
		}
	}
	if found, ok, err := unstructured.NestedFieldNoCopy(data, "spec", "topology", "subsets"); err == nil && ok {
		subsets, err := objects(found)
		if err != nil {
			return content{}, fmt.Errorf("read revision %s: %w", r.Name, err)
		}
		out.patches = patchesOf(subsets)
	} else if overClusters(set) { // A hub records patches, if there are any.
		out.patches = map[string]any{}
	}
	return out, nil
}

// patchesOf returns the patches of subsets, by name.
func patchesOf(subsets []map[string]any) map[string]any {
	out := map[string]any{}
	for _, s := range subsets {
		if name, ok := s["name"].(string); ok && s["patch"] != nil {
			out[name] = s["patch"]
		}
	}
	return out
}

// dropNulls removes fields with value null, such as a creationTimestamp: in a patch, null means deletion.
func dropNulls(v any) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if value == nil {
				delete(v, key)
				continue
			}
			dropNulls(value)
		}
	case []any:
		for _, value := range v {
			dropNulls(value)
		}
	}
}

// has reports whether the set has this content.
func (s workload) has(ctx context.Context, c content) bool {
	now, _, err := unstructured.NestedMap(s.Object, "spec", "template")
	if err != nil {
		return false
	}
	dropNulls(now)
	same := s.kind().same
	if !apiequality.Semantic.DeepEqual(now, c.template) && (same == nil || !same(ctx, s, c.template)) {
		return false
	}
	subsets, err := s.subsets()
	if err != nil {
		return false
	}
	for _, subset := range subsets {
		if name, ok := subset["name"].(string); ok && c.patches != nil && !apiequality.Semantic.DeepEqual(subset["patch"], c.patches[name]) {
			return false
		}
	}
	return true
}

// restore sets what the content holds. It returns the subsets whose patches it can't restore, because they no longer exist.
func (s workload) restore(c content) (gone []string, err error) {
	if err := unstructured.SetNestedMap(s.Object, c.template, "spec", "template"); err != nil {
		return nil, err
	}
	if c.patches == nil {
		return nil, nil
	}
	subsets, err := s.subsets()
	if err != nil {
		return nil, err
	}
	left := maps.Clone(c.patches)
	for _, subset := range subsets {
		name, _ := subset["name"].(string)
		if patch, ok := left[name]; ok {
			subset["patch"] = runtime.DeepCopyJSONValue(patch)
		} else {
			delete(subset, "patch")
		}
		delete(left, name)
	}
	return slices.Sorted(maps.Keys(left)), nil
}
