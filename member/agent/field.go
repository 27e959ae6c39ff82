package agent

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// splitPath splits a path into names: a.b[c.d] becomes a, b and c.d. It reports whether the path is valid.
func splitPath(path string) ([]string, bool) {
	var out []string
	for path != "" {
		var name string
		if rest, bracketed := strings.CutPrefix(path, "["); bracketed {
			var closed bool
			if name, path, closed = strings.Cut(rest, "]"); !closed {
				return nil, false
			}
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			name, path = path[:end], path[end:]
		}
		if name == "" {
			return nil, false
		}
		out = append(out, name)
		if rest, dotted := strings.CutPrefix(path, "."); dotted {
			if path = rest; path == "" {
				return nil, false
			}
		}
	}
	return out, len(out) > 0
}

// joinPath is the inverse of splitPath.
func joinPath(names []string) string {
	b := &strings.Builder{}
	for i, name := range names {
		switch {
		case strings.ContainsAny(name, "./[]"):
			fmt.Fprintf(b, "[%s]", name)
		case i > 0:
			b.WriteString("." + name)
		default:
			b.WriteString(name)
		}
	}
	return b.String()
}

// ignoredPaths returns the split paths of the fields that a row ignores. The error names a path that is invalid or must not be ignored.
func ignoredPaths(apply *fleetv1alpha1.WorkApply) ([][]string, error) {
	if apply == nil {
		return nil, nil
	}
	var out [][]string
	for _, path := range apply.Ignore {
		names, ok := splitPath(path)
		if !ok {
			return nil, fmt.Errorf("spec.apply.ignore: %q is not a path: separate names with dots, as in spec.replicas, or use brackets", path)
		}
		if !mayIgnore(names) {
			return nil, fmt.Errorf("spec.apply.ignore: %q can't be ignored: name a field under spec or data, or a single label or annotation", path)
		}
		out = append(out, names)
	}
	return out, nil
}

// mayIgnore reports whether a row may ignore a field: one that can't identify the object and isn't our annotation.
func mayIgnore(names []string) bool {
	if len(names) < 2 || slices.Contains(names, keys.FleetRowUID) {
		return false
	}
	switch names[0] {
	case "apiVersion", "kind":
		return false
	case "metadata":
		return len(names) == 3 && (names[1] == "labels" || names[1] == "annotations")
	}
	return true
}

// removeFields removes fields from an object, along with parent maps that become empty.
func removeFields(o map[string]any, paths [][]string) {
	for _, names := range paths {
		removeField(o, names)
	}
}

func removeField(o map[string]any, names []string) {
	if len(names) == 1 {
		delete(o, names[0])
		return
	}
	below, ok := o[names[0]].(map[string]any)
	if !ok {
		return
	}
	had := len(below)
	if removeField(below, names[1:]); had > 0 && len(below) == 0 {
		delete(o, names[0])
	}
}

// keepIgnored copies into want the live values of ignored fields that the agent owns. Without them an apply would remove the fields: a manager
// that applies a field and then leaves it out gives it up, and a field without an owner is removed. Once another client has changed such a
// field, that client owns it. It reports whether there were any.
func keepIgnored(want, live *unstructured.Unstructured, paths [][]string) (bool, error) {
	if len(paths) == 0 {
		return false, nil
	}
	mine, err := fieldsOf(live, isAgentApply)
	if err != nil {
		return false, err
	}
	carried := false
	for _, names := range paths {
		if !owns(mine, names) {
			continue
		}
		value, found, err := unstructured.NestedFieldCopy(live.Object, names...)
		if err != nil || !found {
			continue // The field doesn't exist, so nothing can be removed.
		}
		if err := unstructured.SetNestedField(want.Object, value, names...); err != nil {
			return false, fmt.Errorf("keep %s: %w", joinPath(names), err)
		}
		carried = true
	}
	return carried, nil
}

// isAgentApply reports whether an entry belongs to the agent's applies.
func isAgentApply(e metav1.ManagedFieldsEntry) bool {
	return e.Manager == link.AgentManager && e.Operation == metav1.ManagedFieldsOperationApply && e.Subresource == ""
}

// fieldsOf returns the fields of the entries that match.
func fieldsOf(o *unstructured.Unstructured, match func(metav1.ManagedFieldsEntry) bool) (*fieldpath.Set, error) {
	all := fieldpath.NewSet()
	for _, e := range o.GetManagedFields() {
		if e.FieldsV1 == nil || !match(e) {
			continue
		}
		set := fieldpath.NewSet()
		if err := set.FromJSON(bytes.NewReader(e.FieldsV1.GetRawBytes())); err != nil {
			return nil, fmt.Errorf("read managedFields of %s: %w", describe(o), err)
		}
		all = all.Union(set)
	}
	return all, nil
}

// owns reports whether a set contains a field, one below it, or one above it that is owned as a whole.
func owns(set *fieldpath.Set, names []string) bool {
	for _, name := range names {
		at := fieldpath.PathElement{FieldName: &name}
		below, deeper := set.Children.Get(at)
		if set.Members.Has(at) && !deeper {
			return true
		}
		if !deeper {
			return false
		}
		set = below
	}
	return true
}

// leaveToOwners removes from want the fields that others own in live, and returns their paths, sorted. For a field within a list, it returns
// the path of the list.
func leaveToOwners(want, live *unstructured.Unstructured) ([]string, error) {
	others, err := fieldsOf(live, func(e metav1.ManagedFieldsEntry) bool { return !isAgentApply(e) })
	if err != nil {
		return nil, err
	}
	s := &stripper{}
	s.value(want.Object, others, nil)
	slices.Sort(s.left)
	return slices.Compact(s.left), nil
}

// stripper removes fields that others own.
type stripper struct {
	// left lists the paths of the removed fields.
	left []string
}

// value removes from v, the value at path at, the fields in set. It returns what remains of v, and whether to keep it.
func (s *stripper) value(v any, set *fieldpath.Set, at []string) (any, bool) {
	switch v := v.(type) {
	case map[string]any:
		had := len(v)
		for name, field := range v {
			if name == keys.FleetRowUID { // This annotation is always ours.
				continue
			}
			rest, keep := s.field(fieldpath.PathElement{FieldName: &name}, field, set, append(slices.Clone(at), name))
			if v[name] = rest; !keep {
				delete(v, name)
			}
		}
		return v, had == 0 || len(v) > 0
	case []any:
		rest := make([]any, 0, len(v))
		for _, item := range v {
			if item, keep := s.item(item, set, at); keep {
				rest = append(rest, item)
			}
		}
		return rest, len(v) == 0 || len(rest) > 0
	default:
		return v, true
	}
}

func (s *stripper) field(e fieldpath.PathElement, v any, set *fieldpath.Set, at []string) (any, bool) {
	if below, deeper := set.Children.Get(e); deeper {
		return s.value(v, below, at)
	}
	if set.Members.Has(e) {
		s.left = append(s.left, joinPath(at))
		return nil, false
	}
	return v, true
}

// item handles an item of a set, or of a list that is merged by keys. An item with keys stays whole, or keeps at least its keys, unless
// nothing else is left of it.
func (s *stripper) item(v any, set *fieldpath.Set, at []string) (any, bool) {
	fields, ok := v.(map[string]any)
	if !ok {
		scalar := value.NewValueInterface(v)
		if set.Members.Has(fieldpath.PathElement{Value: &scalar}) {
			s.left = append(s.left, joinPath(at))
			return nil, false
		}
		return v, true
	}
	for e := range set.Children.All() {
		if e.Key == nil || !hasKeys(fields, *e.Key) {
			continue
		}
		below, _ := set.Children.Get(e)
		kept := map[string]any{}
		for _, key := range *e.Key {
			if keyValue, found := fields[key.Name]; found {
				kept[key.Name] = keyValue
				delete(fields, key.Name)
			}
		}
		before := len(s.left)
		s.value(fields, below, at)
		for i := range s.left[before:] { // Items have no path of their own; use the path of the list.
			s.left[before+i] = joinPath(at)
		}
		if len(fields) == 0 {
			return nil, false
		}
		maps.Copy(fields, kept)
		return fields, true
	}
	return v, true
}

// hasKeys reports whether an item has these keys. A key that is missing in the item may have a default.
func hasKeys(item map[string]any, by value.FieldList) bool {
	found := false
	for _, key := range by {
		actual, has := item[key.Name]
		if has && !value.Equals(value.NewValueInterface(actual), key.Value) {
			return false
		}
		found = found || has
	}
	return found
}
