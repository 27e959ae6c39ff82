package v1alpha1

import (
	"bytes"
	"encoding/json"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// kept is the value of keys.ConversionData: the parts of an object that can't be expressed in the version that it is on.
//
//	{"words":"v1beta1","parts":{"excludePreparingDelete":{"was":{"exclude":true},"as":{}}}}
//
// on a v1alpha1 object means: excludePreparingDelete was true in v1beta1, and is restored as long as v1alpha1 does not set
// it.
type kept struct {
	// Words is the version that Was of each part is in. If it is this object's own version, a user has copied the value from an
	// object in the other one, and it is dropped.
	Words string `json:"words"`
	// Parts are by name.
	Parts map[string]keptPart `json:"parts"`
}

// keptPart is one part of an object.
type keptPart struct {
	// Was is the part as it was in the version converted from.
	Was json.RawMessage `json:"was"`
	// As is what it was converted to.
	As json.RawMessage `json:"as"`
}

// Values of kept.Words.
const (
	wordsV1alpha1 = "v1alpha1"
	wordsV1beta1  = "v1beta1"
)

// transfer is one conversion: what was preserved before, and what has to be preserved from now on.
type transfer struct{ in, out kept }

// begin removes what is preserved for version to from the metadata. An unreadable value is dropped: refusing it would make the
// object, and each list that it is in, unreadable in one version.
func begin(meta *metav1.ObjectMeta, from, to string) *transfer {
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

// end writes what has to be preserved into the metadata. The error is of encoding/json.
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

// convert converts part a to the other version: to what it was there, if a is still what that was converted to, otherwise
// by the rule to. What the rule back would not restore is preserved. The error is of encoding/json.
func convert[A, B any](t *transfer, name string, a A, to func(A) B, back func(B) A) (B, error) {
	b := to(a)
	if p, ok := t.in.Parts[name]; ok && equal(p.As, a) {
		var was B
		if json.Unmarshal(p.Was, &was) == nil {
			b = was
		}
	}
	was, err := json.Marshal(a)
	if err != nil {
		return b, err
	}
	if equal(was, back(b)) {
		return b, nil
	}
	as, err := json.Marshal(b)
	if err != nil {
		return b, err
	}
	t.out.Parts[name] = keptPart{Was: was, As: as}
	return b, nil
}

// equal returns whether raw is value in JSON. It decodes raw into the type first, so that order and formatting don't matter.
func equal[T any](raw json.RawMessage, value T) bool {
	var read T
	if json.Unmarshal(raw, &read) != nil {
		return false
	}
	x, errX := json.Marshal(read)
	y, errY := json.Marshal(value)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// without returns m without key; nil if nothing is left.
func without(m map[string]string, key string) map[string]string {
	m = maps.Clone(m)
	delete(m, key)
	if len(m) == 0 {
		return nil
	}
	return m
}
