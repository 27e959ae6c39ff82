package lifecycle

import (
	"maps"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// Of returns the state of an object, LifecycleNormal if it has none. A value that is no state is returned as it is.
func Of(obj metav1.Object) pods.LifecycleState {
	if s := obj.GetLabels()[keys.LifecycleState]; s != "" {
		return pods.LifecycleState(s)
	}
	return pods.LifecycleNormal
}

// Label is the label that says s.
func Label(s pods.LifecycleState) map[string]string {
	return map[string]string{keys.LifecycleState: string(s)}
}

// Annotation is the annotation that goes with a label written now: RFC 3339 in UTC, to the second.
func Annotation(now time.Time) map[string]string {
	return map[string]string{keys.LifecycleTimestamp: now.UTC().Format(time.RFC3339)}
}

// Stamp writes the state into an object that is about to be created.
func Stamp(obj metav1.Object, s pods.LifecycleState, now time.Time) {
	obj.SetLabels(merge(obj.GetLabels(), Label(s)))
	obj.SetAnnotations(merge(obj.GetAnnotations(), Annotation(now)))
}

// merge returns a new map, because that of an object may be shared with its template.
func merge(into, from map[string]string) map[string]string {
	out := make(map[string]string, len(into)+len(from))
	maps.Copy(out, into)
	maps.Copy(out, from)
	return out
}
