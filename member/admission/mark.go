package admission

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/apis/keys"
)

// mark is what one object asks for. In the annotation of a configuration it announces an object whose admission was just answered: the
// apiserver may store the object next, but no cache shows it yet. The entries are kept as if the object existed, until it does or the mark
// expires.
type mark struct {
	// Feature is the feature of a step or guard.
	Feature string `json:"feature"`
	// Namespace is the namespace whose pods are asked for, or podwebhook.AllNamespaces. In the latter case Wants says which pods, as in
	// podwebhook.Step.Wants.
	Namespace string `json:"namespace"`
	Wants     string `json:"wants,omitempty"`
	// UID is the object's UID.
	UID types.UID `json:"uid"`
	// Until is when the mark expires because the object was not stored.
	Until metav1.Time `json:"until"`
}

// Limits of marks.
const (
	// markLasts is longer than a request may take after its admission.
	markLasts = time.Minute
	// markStays is how long a mark stays after its object was seen.
	markStays = 10 * time.Second
	// markPace limits how often a mark that asks for the same is written.
	markPace = time.Second
	// maxMarks and maxMarkBytes limit how many objects may be announced in a configuration, and the size of the annotation. Objects beyond that
	// are admitted with a warning.
	maxMarks     = 50
	maxMarkBytes = 64 << 10
)

var errTooManyMarks = errors.New("too many objects are being admitted at once")

// asksSame reports whether two marks ask for the same.
func (m mark) asksSame(other mark) bool {
	return m.Feature == other.Feature && m.Namespace == other.Namespace && m.Wants == other.Wants
}

// marks are the marks in a configuration.
type marks []mark

// marksIn returns the unexpired marks of a configuration. It ignores marks that can't be parsed, or that last longer than any mark written
// here.
func marksIn(config client.Object, now time.Time) marks {
	var all marks
	if json.Unmarshal([]byte(config.GetAnnotations()[keys.PodsAskedFor]), &all) != nil {
		return nil
	}
	return slices.DeleteFunc(all, func(m mark) bool {
		return !m.Until.After(now) || m.Until.After(now.Add(2*markLasts)) // Clocks differ.
	})
}

// setMarks writes the marks into a configuration.
func setMarks(config client.Object, all marks) error {
	annotations := maps.Clone(config.GetAnnotations())
	if len(all) == 0 {
		delete(annotations, keys.PodsAskedFor)
		config.SetAnnotations(annotations)
		return nil
	}
	text, err := json.Marshal(all)
	if err != nil {
		return fmt.Errorf("encode the objects that are being admitted: %w", err)
	}
	if len(all) > maxMarks || len(text) > maxMarkBytes {
		return errTooManyMarks
	}
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[keys.PodsAskedFor] = string(text)
	config.SetAnnotations(annotations)
	return nil
}

// without returns the marks except the one of an existing object that asks for the same.
func (all marks) without(seen mark) marks {
	isSeen := func(m mark) bool { return m.UID == seen.UID && m.asksSame(seen) }
	if !slices.ContainsFunc(all, isSeen) {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), isSeen)
}

// with returns the marks with m added, replacing one that asks for the same. So several objects created at once, or one that is rejected
// again and again, take up only one mark.
func (all marks) with(m mark) marks {
	out := slices.DeleteFunc(slices.Clone(all), m.asksSame)
	return append(out, m)
}

// hasFresh reports whether a mark that asks for the same was written just now. It covers another object too.
func (all marks) hasFresh(wanted mark, now time.Time) bool {
	return slices.ContainsFunc(all, func(m mark) bool { return m.asksSame(wanted) && m.Until.After(now.Add(markLasts-markPace)) })
}
