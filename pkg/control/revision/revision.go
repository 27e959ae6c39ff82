package revision

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// Spec is the input of a revision.
type Spec struct {
	// Owner is the workload; the revision gets the owner's name as a prefix, its namespace and a controller reference to it.
	Owner metav1.Object
	// Kind is the owner's kind.
	Kind schema.GroupVersionKind
	// Template is the value under the owner's spec.template.
	Template any
	// Labels are the labels of the revision; usually the template's, so that the owner's selector matches it.
	Labels map[string]string
	// Annotations are added to the owner's annotations, except those that contain a whole object.
	Annotations map[string]string
	// HashLabel is the label that holds the hash part of the name; empty means keys.RevisionHash.
	HashLabel string
	// Collisions is the owner's status.collisionCount; nil if it has none.
	Collisions *int32
}

// New returns the revision of a template, without a number. It returns an error if the template doesn't marshal to an object.
func New(s Spec) (*appsv1.ControllerRevision, error) {
	data, err := Data(s.Template)
	if err != nil {
		return nil, err
	}
	hash := Hash(data, s.Collisions)
	labels := maps.Clone(s.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	labels[cmp.Or(s.HashLabel, keys.RevisionHash)] = hash
	annotations := maps.Clone(s.Owner.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	// They describe the owner's current version.
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, keys.ConversionData)
	maps.Copy(annotations, s.Annotations)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{
			Name:            s.Owner.GetName() + "-" + hash,
			Namespace:       s.Owner.GetNamespace(),
			Labels:          labels,
			Annotations:     annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(s.Owner, s.Kind)},
		},
		Data: runtime.RawExtension{Raw: data},
	}, nil
}

// Data returns the data of a revision of template.
func Data(template any) ([]byte, error) {
	raw, err := json.Marshal(template)
	if err != nil {
		return nil, fmt.Errorf("marshal template: %w", err)
	}
	var fields map[string]any
	if err := json.Unmarshal(raw, &fields); err != nil {
		return nil, fmt.Errorf("decode template: %w", err)
	}
	meta, _ := fields["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	if _, ok := meta["creationTimestamp"]; !ok {
		meta["creationTimestamp"] = nil
	}
	fields["metadata"] = meta
	fields["$patch"] = "replace"
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	if err != nil {
		return nil, fmt.Errorf("marshal revision: %w", err)
	}
	return data, nil
}

// Hash returns the last part of a revision's name. Source: OpenKruise 1.9, FNV-1 32 over the data and the decimal collision count (0 for nil),
// in the alphabet that Kubernetes uses for names.
func Hash(data []byte, collisions *int32) string {
	var n int64
	if collisions != nil {
		n = int64(*collisions)
	}
	h := fnv.New32()
	_, _ = h.Write(data) // writing to a hash never fails
	_, _ = h.Write(strconv.AppendInt(nil, n, 10))
	return rand.SafeEncodeString(strconv.FormatUint(uint64(h.Sum32()), 10))
}

// Short returns the part of a revision's name after the last dash, which is what names are compared by; a name without a dash is returned whole.
func Short(name string) string { return name[strings.LastIndexByte(name, '-')+1:] }

// Same reports whether a and b name the same revision. An empty name is never the same.
func Same(a, b string) bool { return a != "" && b != "" && Short(a) == Short(b) }

// Equal reports whether two revisions have the same template: equal bytes, or equal JSON without fields that are null
// or the zero creationTimestamp. In the patches of subsets, null means that a field is removed, so it counts.
func Equal(a, b *appsv1.ControllerRevision) bool {
	if slices.Equal(a.Data.Raw, b.Data.Raw) {
		return true
	}
	// The API server keeps the data's bytes, so different bytes with the same meaning come from another version of a client; parsing is rare.
	var x, y any
	if json.Unmarshal(a.Data.Raw, &x) != nil || json.Unmarshal(b.Data.Raw, &y) != nil {
		return false
	}
	return reflect.DeepEqual(subsetsOf(x), subsetsOf(y)) && reflect.DeepEqual(withoutNulls(x), withoutNulls(y))
}

// subsetsOf takes the subsets of a UnitedDeployment out of a revision's data.
func subsetsOf(data any) any {
	fields, _ := data.(map[string]any)
	spec, _ := fields["spec"].(map[string]any)
	topology := spec["topology"]
	delete(spec, "topology")
	return topology
}

func withoutNulls(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if e == nil {
				delete(v, k)
				continue
			}
			v[k] = withoutNulls(e)
		}
	case []any:
		for i := range v {
			v[i] = withoutNulls(v[i])
		}
	}
	return v
}

// PodTemplate returns the pod template of a revision.
func PodTemplate(r *appsv1.ControllerRevision) (*corev1.PodTemplateSpec, error) {
	var data struct {
		Spec struct {
			Template corev1.PodTemplateSpec `json:"template"`
		} `json:"spec"`
	}
	if err := json.Unmarshal(r.Data.Raw, &data); err != nil {
		return nil, fmt.Errorf("decode revision %s: %w", r.Name, err)
	}
	return &data.Spec.Template, nil
}

// Sort orders history by number, then by name, oldest first.
func Sort(history []*appsv1.ControllerRevision) {
	slices.SortFunc(history, func(a, b *appsv1.ControllerRevision) int {
		if a.Revision != b.Revision {
			if a.Revision < b.Revision {
				return -1
			}
			return 1
		}
		return strings.Compare(a.Name, b.Name)
	})
}

// Find returns the newest revision with that name, compared like Same; nil if there is none.
func Find(history []*appsv1.ControllerRevision, name string) *appsv1.ControllerRevision {
	for _, r := range slices.Backward(history) {
		if Same(r.Name, name) {
			return r
		}
	}
	return nil
}

// Surplus returns the revisions beyond limit, oldest first. Revisions for which live returns false count against the limit; the others are kept
// and don't count. A negative limit keeps everything.
func Surplus(history []*appsv1.ControllerRevision, live func(*appsv1.ControllerRevision) bool, limit int) []*appsv1.ControllerRevision {
	idle := slices.DeleteFunc(slices.Clone(history), live)
	if limit < 0 || len(idle) <= limit {
		return nil
	}
	return idle[:len(idle)-limit]
}
