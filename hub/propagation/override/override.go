// Package override applies the overrides of a Propagation for one cluster to the objects that it places.
package override

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

// fleetDomain is the domain of the labels and annotations that hub and agent read and write. Overrides must not change them.
const fleetDomain = "fleet.kruise.io"

// operation is a JSON Patch operation (RFC 6902).
type operation struct {
	Op    fleetv1alpha1.PatchOperation `json:"op"`
	Path  string                       `json:"path"`
	Value json.RawMessage              `json:"value,omitempty"`
	// at is the path of the operation in the overrides.
	at string
}

// Overrides are the overrides of one Propagation, to be applied to many objects. They are read-only.
type Overrides struct {
	all []fleetv1alpha1.PropagationOverride
	// clusters holds the cluster names of each override, and selectors its cluster selector. faults says why a selector can't be parsed.
	clusters  []sets.Set[string]
	selectors []labels.Selector
	faults    []error
}

// New returns overrides with their selectors parsed.
func New(all []fleetv1alpha1.PropagationOverride) *Overrides {
	o := &Overrides{
		all: all, clusters: make([]sets.Set[string], len(all)), selectors: make([]labels.Selector, len(all)), faults: make([]error, len(all)),
	}
	for i := range all {
		if all[i].ClusterSelector == nil {
			o.clusters[i] = sets.New(all[i].Clusters...)
			continue
		}
		o.selectors[i], o.faults[i] = metav1.LabelSelectorAsSelector(all[i].ClusterSelector)
	}
	return o
}

// Set identifies the overrides that change one object in one cluster. Sets are comparable: an object is the same in all clusters with the
// same Set.
type Set string

// Concerns reports whether an override applies to objects of that kind and name, in any cluster.
func Concerns(o *fleetv1alpha1.PropagationOverride, kind, name string) bool {
	return (o.Kind == "" || o.Kind == kind) && (o.Name == "" || o.Name == name)
}

// For returns the overrides for an object of that kind and name in a cluster with these labels.
func (o *Overrides) For(cluster string, clusterLabels map[string]string, kind, name string) Set {
	var set []rune
	for i := range o.all {
		entry := &o.all[i]
		if !Concerns(entry, kind, name) {
			continue
		}
		if o.faults[i] != nil || o.clusters[i].Has(cluster) || o.selectors[i] != nil && o.selectors[i].Matches(labels.Set(clusterLabels)) {
			set = append(set, rune(i)) // An override with an invalid selector is included, so that Apply fails.
		}
	}
	return Set(set)
}

// Apply applies these overrides to an object, in order. It doesn't change the given object, but returns it as is if the set is empty. Missing
// labels and annotations maps are created; everything else that a path leads through must exist. An error names the override, the patch and
// the path. It concerns this object only: the path may be valid in others.
func (o *Overrides) Apply(set Set, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	var operations []operation
	for _, i := range set {
		if o.faults[i] != nil {
			return nil, fmt.Errorf("overrides[%d]: clusterSelector: %w", i, o.faults[i])
		}
		for j, p := range o.all[i].Patches {
			op := operation{Op: p.Op, Path: p.Path, at: fmt.Sprintf("overrides[%d].patches[%d]", i, j)}
			if why := refuses(p.Path); why != "" {
				return nil, fmt.Errorf("%s: %s: %s", op.at, p.Path, why)
			}
			if p.Value != nil {
				op.Value = p.Value.Raw
			}
			operations = append(operations, op)
		}
	}
	if len(operations) == 0 {
		return object, nil
	}
	document, err := json.Marshal(withMaps(object, operations))
	if err != nil {
		return nil, fmt.Errorf("marshal the object: %w", err)
	}
	patched, err := patch(document, operations)
	if err != nil {
		return nil, explain(document, operations)
	}
	result := &unstructured.Unstructured{}
	if err := result.UnmarshalJSON(patched); err != nil {
		return nil, fmt.Errorf("read the object with its overrides: %w", err)
	}
	return result, nil
}

// withMaps returns the content of an object, with maps of labels and annotations if an operation adds to them.
func withMaps(object *unstructured.Unstructured, operations []operation) map[string]any {
	out := object.Object
	for _, name := range []string{"labels", "annotations"} {
		meta, _ := out["metadata"].(map[string]any)
		prefix := "/metadata/" + name + "/"
		if meta[name] == nil && slices.ContainsFunc(operations, func(o operation) bool {
			return o.Op == fleetv1alpha1.PatchAdd && strings.HasPrefix(o.Path, prefix)
		}) {
			out, meta = maps.Clone(out), maps.Clone(meta)
			if meta == nil {
				meta = map[string]any{}
			}
			meta[name] = map[string]any{}
			out["metadata"] = meta
		}
	}
	return out
}

// patch applies operations to a document.
func patch(document []byte, operations []operation) ([]byte, error) {
	text, err := json.Marshal(operations)
	if err != nil {
		return nil, fmt.Errorf("marshal the patch: %w", err)
	}
	decoded, err := jsonpatch.DecodePatch(text)
	if err != nil {
		return nil, fmt.Errorf("decode the patch: %w", err)
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.EscapeHTML = false
	return decoded.ApplyWithOptions(document, options) //nolint:wrapcheck // The caller says where it is.
}

// explain returns why the operations can't be applied to the document. The error names the first operation that fails.
func explain(document []byte, operations []operation) error {
	for i, op := range operations {
		var err error
		if document, err = patch(document, operations[i:i+1]); err == nil {
			continue
		}
		if errors.Is(err, jsonpatch.ErrMissing) || errors.Is(err, jsonpatch.ErrInvalidIndex) {
			return fmt.Errorf("%s: the object has no %s", op.at, op.Path)
		}
		return fmt.Errorf("%s: %s %s: %w", op.at, op.Op, op.Path, err)
	}
	return errors.New("the overrides can't be applied together")
}

// Validate returns what is wrong with overrides, regardless of the objects they apply to. path is the path of the list.
func Validate(overrides []fleetv1alpha1.PropagationOverride, path *field.Path) field.ErrorList {
	var faults field.ErrorList
	for i, o := range overrides {
		at := path.Index(i)
		if (len(o.Clusters) > 0) == (o.ClusterSelector != nil) {
			faults = append(faults, field.Invalid(at, "", "an override needs exactly one of clusters and clusterSelector"))
		}
		for j, name := range o.Clusters {
			for _, why := range content.IsDNS1123Label(name) {
				faults = append(faults, field.Invalid(at.Child("clusters").Index(j), name, why))
			}
		}
		faults = append(faults, metav1validation.ValidateLabelSelector(o.ClusterSelector,
			metav1validation.LabelSelectorValidationOptions{}, at.Child("clusterSelector"))...)
		for j, p := range o.Patches {
			faults = append(faults, validatePatch(p, at.Child("patches").Index(j))...)
		}
	}
	return faults
}

func validatePatch(p fleetv1alpha1.PropagationPatch, at *field.Path) field.ErrorList {
	if why := refuses(p.Path); why != "" {
		return field.ErrorList{field.Forbidden(at.Child("path"), p.Path+": "+why)}
	}
	segments := split(p.Path)
	if p.Op == fleetv1alpha1.PatchRemove {
		if p.Value != nil {
			return field.ErrorList{field.Invalid(at.Child("value"), string(p.Value.Raw), "remove takes no value")}
		}
		return nil
	}
	if p.Op != fleetv1alpha1.PatchAdd && p.Op != fleetv1alpha1.PatchReplace {
		return field.ErrorList{field.NotSupported(at.Child("op"), p.Op,
			[]fleetv1alpha1.PatchOperation{fleetv1alpha1.PatchAdd, fleetv1alpha1.PatchReplace, fleetv1alpha1.PatchRemove})}
	}
	if p.Value == nil {
		return field.ErrorList{field.Required(at.Child("value"), string(p.Op)+" needs a value")}
	}
	var value any
	if err := json.Unmarshal(p.Value.Raw, &value); err != nil {
		return field.ErrorList{field.Invalid(at.Child("value"), string(p.Value.Raw), err.Error())}
	}
	if value == nil {
		return field.ErrorList{field.Invalid(at.Child("value"), "null", "null is not allowed: use remove")}
	}
	if segments[0] != "metadata" {
		return nil
	}
	text, ok := value.(string)
	if !ok {
		return field.ErrorList{field.Invalid(at.Child("value"), string(p.Value.Raw),
			"the value of a label or annotation must be a string: put it in quotes")}
	}
	key := segments[2]
	var faults field.ErrorList
	for _, why := range content.IsLabelKey(key) {
		faults = append(faults, field.Invalid(at.Child("path"), p.Path, why))
	}
	if segments[1] == "labels" {
		for _, why := range content.IsLabelValue(text) {
			faults = append(faults, field.Invalid(at.Child("value"), text, why))
		}
	}
	return faults
}

// refuses returns why overrides can't have that path, or "".
func refuses(path string) string {
	segments := split(path)
	if segments == nil {
		return "not a JSON pointer (RFC 6901): it must begin with / and have no empty parts; write / in a name as ~1, and ~ as ~0"
	}
	switch segments[0] {
	case "apiVersion", "kind":
		return "an override can't turn the object into another one: select that one instead"
	case "status":
		return "only the member writes the status"
	case "metadata":
		if len(segments) != 3 || segments[1] != "labels" && segments[1] != "annotations" {
			return "in metadata, an override can only change single labels and annotations, such as /metadata/labels/example.com~1zone"
		}
		domain, _, qualified := strings.Cut(segments[2], "/")
		if qualified && (domain == fleetDomain || strings.HasSuffix(domain, "."+fleetDomain)) {
			return "the key is reserved for the hub and its agents: choose another one"
		}
	}
	return ""
}

// split returns the unescaped parts of a JSON pointer. It returns nil if the pointer is invalid, has empty parts, or refers to the whole
// object.
func split(pointer string) []string {
	if !strings.HasPrefix(pointer, "/") {
		return nil
	}
	segments := strings.Split(pointer[1:], "/")
	plain := strings.NewReplacer("~1", "/", "~0", "~")
	for i, s := range segments {
		if s == "" || strings.Contains(strings.NewReplacer("~1", "", "~0", "").Replace(s), "~") {
			return nil
		}
		segments[i] = plain.Replace(s)
	}
	return segments
}
