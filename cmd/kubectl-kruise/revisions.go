package main

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

// template reads the template of a revision, including fields that the types here don't know.
func template(r *appsv1.ControllerRevision) (map[string]any, error) {
	var data map[string]any
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("read revision %s: %w", r.Name, err)
	}
	found, ok, err := unstructured.NestedMap(data, "spec", "template")
	if err != nil || !ok {
		return nil, fmt.Errorf("read revision %s: it has no template", r.Name)
	}
	delete(found, "$patch") // Data is a patch that replaces the template.
	dropNulls(found)
	return found, nil
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

// has reports whether the set has this template.
func (s workload) has(template map[string]any) bool {
	now, _, err := unstructured.NestedMap(s.Object, "spec", "template")
	if err != nil {
		return false
	}
	dropNulls(now)
	return apiequality.Semantic.DeepEqual(now, template)
}
