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

// OverlapScanInterval is how often at most a workload is scanned for an overlap, which goes through all pods of its namespace. A
// new spec is scanned at once.
const OverlapScanInterval = 30 * time.Second

// ReasonPodsOfOthers: the selector matches pods that have another controller or none.
const ReasonPodsOfOthers = "PodsOfOthers"

// Overlap is the pods that a workload's selector matches and that it does not control. They are left alone, whoever was there
// first.
type Overlap struct {
	Count int
	// First is the one whose name comes first, and its controller.
	First string
	// Orphans are pods that the workload adopts, and that are not counted. They are the cache's own, as they were at the scan.
	Orphans []*corev1.Pod
}

// Failure is the overlap as the content of a condition. kind is the workload's.
func (f Overlap) Failure(kind string) report.Failure {
	if f.Count == 0 {
		return report.Failure{}
	}
	return report.StalledFailure(ReasonPodsOfOthers,
		fmt.Sprintf("the selector matches pods that have another controller or none, and that are left alone: "+
			"create a new %s with a narrower one", kind),
		fmt.Sprintf("%d pods, such as %s", f.Count, f.First))
}

// among returns the overlap among pods that the selector matches. Pods of a former workload of the same name do not count: they
// are deleted with it.
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
		name, out.First = pod.Name, pod.Name+" without controller"
		if ref != nil {
			out.First = fmt.Sprintf("%s of %s %s", pod.Name, ref.Kind, ref.Name)
		}
	}
	return out
}

// Selects reports whether a selector matches a pod. One that can't be read matches none.
func Selects(by *metav1.LabelSelector, pod metav1.Object) bool {
	selector, err := metav1.LabelSelectorAsSelector(by)
	return err == nil && selector.Matches(labels.Set(pod.GetLabels()))
}

// OverlapScanner scans workloads for overlaps and remembers the results. The zero value is ready; it may be used concurrently.
type OverlapScanner struct {
	// Adopts reports whether a workload adopts a pod that its selector matches and that has no controller; nil adopts none.
	Adopts func(owner metav1.Object, pod *corev1.Pod) bool

	last sync.Map // scan by types.NamespacedName
}

type scan struct {
	uid        types.UID
	generation int64
	at         time.Time
	found      Overlap
}

// Scan returns the overlap of a workload, as it was at most OverlapScanInterval ago.
func (l *OverlapScanner) Scan(
	ctx context.Context, r client.Reader, owner metav1.Object, kind schema.GroupVersionKind, by *metav1.LabelSelector, now time.Time,
) (Overlap, error) {
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}
	seen, _ := l.last.Load(key)
	if last, ok := seen.(scan); ok && last.uid == owner.GetUID() && last.generation == owner.GetGeneration() &&
		now.Sub(last.at) < OverlapScanInterval {
		return last.found, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return Overlap{}, nil //nolint:nilerr // Admission refuses such a selector; it matches nothing.
	}
	var pods corev1.PodList
	err = r.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return Overlap{}, fmt.Errorf("list pods of the selector: %w", err)
	}
	found := l.among(owner, kind, pods.Items)
	l.last.Store(key, scan{owner.GetUID(), owner.GetGeneration(), now, found})
	return found, nil
}

// Forget drops the last result: the workload is gone, or is to be scanned at once.
func (l *OverlapScanner) Forget(key types.NamespacedName) { l.last.Delete(key) }
