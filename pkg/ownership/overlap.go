package ownership

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/flotilla-io/flotilla/pkg/report"
)

// OverlapScanInterval is how often at most a workload looks for pods of others: it means to go through all pods of its namespace. A new
// spec makes it look at once.
const OverlapScanInterval = 30 * time.Second

// ReasonPodsOfOthers: pods that the selector selects are controlled by somebody else, or by nobody.
const ReasonPodsOfOthers = "PodsOfOthers"

// Overlap are pods that the selector selects and that are not of the workload. They are left alone, whoever was there first.
type Overlap struct {
	Count int
	// First is the one whose name comes first, and what controls it.
	First string
	// Orphans are pods of nobody that the workload takes over, which are no strangers. They are the cache's own, as they were
	// when it looked.
	Orphans []*corev1.Pod
}

// Failure is what a condition says of them. kind is the workload's.
func (f Overlap) Failure(kind string) report.Failure {
	if f.Count == 0 {
		return report.Failure{}
	}
	return report.StalledFailure(ReasonPodsOfOthers,
		fmt.Sprintf("the selector selects pods of others, which are left alone: make a new %s with a narrower one", kind),
		fmt.Sprintf("%d pods, such as %s", f.Count, f.First))
}

// among finds them among the pods of the workload's namespace. Pods of a former workload of the same name, which go with it,
// are none.
func (l *OverlapScanner) among(owner metav1.Object, kind schema.GroupVersionKind, pods []corev1.Pod) Overlap {
	var out Overlap
	name := ""
	for i := range pods {
		pod := &pods[i]
		ref := metav1.GetControllerOfNoCopy(pod)
		former := RefersTo(ref, kind) && ref.Name == owner.GetName()
		if former || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		if ref == nil && l.Adopts != nil && l.Adopts(owner, pod) {
			out.Orphans = append(out.Orphans, pod)
			continue
		}
		out.Count++
		if name != "" && name < pod.Name {
			continue
		}
		name, out.First = pod.Name, pod.Name+" of nobody"
		if ref != nil {
			out.First = fmt.Sprintf("%s of %s %s", pod.Name, ref.Kind, ref.Name)
		}
	}
	return out
}

// Selects tells whether a selector selects a pod. One that can't be read selects none.
func Selects(by *metav1.LabelSelector, pod metav1.Object) bool {
	selector, err := metav1.LabelSelectorAsSelector(by)
	return err == nil && selector.Matches(labels.Set(pod.GetLabels()))
}

// OverlapScanner remembers what was found, and when, for each workload. The zero value is ready; it may be used concurrently.
type OverlapScanner struct {
	// Adopts tells whether a workload takes over a pod of nobody that its selector selects; nil takes over none.
	Adopts func(owner metav1.Object, pod *corev1.Pod) bool

	last sync.Map // sighting by types.NamespacedName
}

type sighting struct {
	uid        types.UID
	generation int64
	at         time.Time
	found      Overlap
}

// Scan returns the strangers of a workload, as they were at most OverlapScanInterval ago.
func (l *OverlapScanner) Scan(
	ctx context.Context, r client.Reader, owner metav1.Object, kind schema.GroupVersionKind, by *metav1.LabelSelector, now time.Time,
) (Overlap, error) {
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}
	seen, _ := l.last.Load(key)
	if last, ok := seen.(sighting); ok && last.uid == owner.GetUID() && last.generation == owner.GetGeneration() &&
		now.Sub(last.at) < OverlapScanInterval {
		return last.found, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return Overlap{}, nil //nolint:nilerr // Admission lets no such selector pass; it selects nothing.
	}
	var pods corev1.PodList
	err = r.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return Overlap{}, fmt.Errorf("list pods of the selector: %w", err)
	}
	found := l.among(owner, kind, pods.Items)
	l.last.Store(key, sighting{owner.GetUID(), owner.GetGeneration(), now, found})
	return found, nil
}

// Forget drops what is known of a workload: it is gone, or is to look at once.
func (l *OverlapScanner) Forget(key types.NamespacedName) { l.last.Delete(key) }
