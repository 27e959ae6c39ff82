package v1alpha1

import (
	"bytes"
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// kept is the value of keys.ConversionData: the parts of an object that can't be expressed in the version that the annotation is on.
//
//	{"words":"v1beta1","parts":{"excludePreparingDelete":{"was":{"exclude":true},"as":{}}}}
//
// On a v1alpha1 object this means that excludePreparingDelete was true in v1beta1, and is restored as long as v1alpha1 doesn't set it.
type kept struct {
	// Words is the version that Was of each part is in. If it is the version of this object, a user has copied the value from an object in the
	// other version, and it is dropped.
	Words string `json:"words"`
	// Parts are the parts by name.
	Parts map[string]keptPart `json:"parts"`
}

// keptPart is one part of an object.
type keptPart struct {
	// Was is the part in the version that was converted.
	Was json.RawMessage `json:"was"`
	// As is the result of the conversion.
	As json.RawMessage `json:"as"`
}

// Values of kept.Words.
const (
	wordsV1alpha1 = "v1alpha1"
	wordsV1beta1  = "v1beta1"
)

// transfer is one conversion: the parts that were preserved before it, and those that have to be preserved after it.
type transfer struct{ in, out kept }

// newTransfer removes the parts that are preserved for version to from the metadata. A value that can't be parsed is dropped: an error would make
// the object, and each list that contains it, unreadable in one version.
func newTransfer(meta *metav1.ObjectMeta, from, to string) *transfer {
	t := &transfer{out: kept{Words: from, Parts: map[string]keptPart{}}}
	value, ok := meta.Annotations[keys.ConversionData]
	if !ok {
		return t
	}
	meta.Annotations = without(meta.Annotations, keys.ConversionData)
	var in kept
	if err := json.Unmarshal([]byte(value), &in); err == nil && in.Words == to {
		t.in = in
	}
	return t
}

// end writes the parts that have to be preserved to the metadata. The error is from encoding/json.
func (t *transfer) end(meta *metav1.ObjectMeta) error {
	if len(t.out.Parts) == 0 {
		return nil
	}
	value, err := json.Marshal(t.out)
	if err != nil {
		return err
	}
	if meta.Annotations == nil {
		meta.Annotations = map[string]string{}
	}
	meta.Annotations[keys.ConversionData] = string(value)
	return nil
}

// convert converts part a to the other version. If a is unchanged since it was converted from the other version, the original is restored;
// otherwise the rule to applies. The part is preserved if the rule back would not restore it. The error is from encoding/json.
func convert[A, B any](t *transfer, name string, a A, to func(A) B, back func(B) A) (B, error) {
	b := to(a)
	if p, ok := t.in.Parts[name]; ok && equal(p.As, a) {
		var previous B
		if json.Unmarshal(p.Was, &previous) == nil {
			b = previous
		}
	}
	source, err := json.Marshal(a)
	if err != nil {
		return b, err
	}
	if equal(source, back(b)) {
		return b, nil
	}
	as, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	t.out.Parts[name] = keptPart{Was: source, As: as}
	return b, nil
}

// equal reports whether raw is the JSON of value. It decodes raw first, so that order and formatting don't matter.
func equal[T any](raw json.RawMessage, value T) bool {
	var read T
	if json.Unmarshal(raw, &read) != nil {
		return false
	}
	x, errX := json.Marshal(read)
	y, errY := json.Marshal(value)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// without returns m without key. It returns nil if nothing is left.
func without(m map[string]string, key string) map[string]string {
	m = maps.Clone(m)
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}
