package lifecycle

import (
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// Of returns the state of an object, LifecycleNormal if it has none. An unknown value is returned as is.
func Of(obj metav1.Object) pods.LifecycleState {
	if s := obj.GetLabels()[keys.LifecycleState]; s != "" {
		return pods.LifecycleState(s)
	}
	return pods.LifecycleNormal
}

// SetState sets the state on an object that is about to be created.
func SetState(obj metav1.Object, s pods.LifecycleState, now time.Time) {
	obj.SetLabels(withEntry(obj.GetLabels(), keys.LifecycleState, string(s)))
	obj.SetAnnotations(withEntry(obj.GetAnnotations(), keys.LifecycleTimestamp, timestamp(now)))
}

// withEntry returns a copy of the map with key set; the original may be shared with the object's template.
func withEntry(m map[string]string, key, value string) map[string]string {
	out := make(map[string]string, len(m)+1)
	maps.Copy(out, m)
	out[key] = value
	return out
}

// timestamp formats a time as RFC 3339 in UTC, with a resolution of seconds.
func timestamp(now time.Time) string { return now.UTC().Format(time.RFC3339) }

// Enter returns the write that only brings a pod into a state. If the pod is already in that state, its timestamp stays.
func Enter(pod *corev1.Pod, s pods.LifecycleState, now time.Time) podpatch.Body {
	b := podpatch.New(pod)
	if pod.Labels[keys.LifecycleState] != string(s) {
		b.Metadata.Labels[keys.LifecycleState] = new(string(s))
		b.Metadata.Annotations[keys.LifecycleTimestamp] = new(timestamp(now))
	}
	return b
}
