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

	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// OverlapScanInterval is the minimum time between two overlap scans of a workload, each of which lists all pods in its namespace. A new spec is
// scanned at once.
const OverlapScanInterval = 30 * time.Second

// ReasonPodsOfOthers: the selector matches pods that have another controller or none.
const ReasonPodsOfOthers = "PodsOfOthers"

// Overlap is the set of pods that a workload's selector matches but that it doesn't control. They are never changed, even if they are newer than
// the workload.
type Overlap struct {
	Count int
	// Loose: none of the pods has a controller, as after deleting their workload with --cascade=orphan.
	Loose bool
	// First is the name of the first pod, in order, along with its controller.
	First string
	// Orphans are pods that the workload adopts; they don't count as overlap. They are objects from the cache as of the scan.
	Orphans []*corev1.Pod
}

// Failure returns the overlap as the content of a condition. kind is the workload's kind.
func (f Overlap) Failure(kind string) report.Failure {
	if f.Count == 0 {
		return report.Failure{}
	}
	if f.Loose {
		return report.StalledFailure(ReasonPodsOfOthers,
			fmt.Sprintf("the selector matches pods without a controller, which are not adopted because nothing shows that they belong to this %s: "+
				"delete them when its own pods are available, or create a new %s with a narrower selector", kind, kind),
			fmt.Sprintf("%d pod(s), such as %s", f.Count, f.First))
	}
	return report.StalledFailure(ReasonPodsOfOthers,
		fmt.Sprintf("the selector matches pods with another controller or none, which are left alone: "+
			"create a new %s with a narrower selector", kind),
		fmt.Sprintf("%d pod(s), such as %s", f.Count, f.First))
}

// overlapOf computes the overlap from the pods that the selector matches. Pods of an earlier workload with the same name don't count: they are
// garbage collected with it.
func (s *OverlapScanner) overlapOf(owner metav1.Object, kind schema.GroupVersionKind, pods []corev1.Pod) Overlap {
	out := Overlap{Loose: true}
	name := ""
	for i := range pods {
		pod := &pods[i]
		ref := metav1.GetControllerOfNoCopy(pod)
		own := RefersTo(ref, kind) && ref.Name == owner.GetName()
		if own || !podpatch.Active(pod) {
			continue
		}
		if ref == nil && s.Adopts != nil && s.Adopts(owner, pod) {
			out.Orphans = append(out.Orphans, pod)
			continue
		}
		out.Count++
		out.Loose = out.Loose && ref == nil
		if name != "" && name < pod.Name {
			continue
		}
		name, out.First = pod.Name, pod.Name+" without controller"
		if ref != nil {
			out.First = fmt.Sprintf("%s of %s %s", pod.Name, ref.Kind, ref.Name)
		}
	}
	out.Loose = out.Loose && out.Count > 0
	return out
}

// Selects reports whether a selector matches a pod. An invalid selector matches nothing.
func Selects(by *metav1.LabelSelector, pod metav1.Object) bool {
	selector, err := metav1.LabelSelectorAsSelector(by)
	return err == nil && selector.Matches(labels.Set(pod.GetLabels()))
}

// OverlapScanner scans workloads for overlaps and remembers the results. The zero value is ready to use; it may be used concurrently.
type OverlapScanner struct {
	// Adopts reports whether a workload adopts a pod that its selector matches and that has no controller; nil means never.
	Adopts func(owner metav1.Object, pod *corev1.Pod) bool

	last sync.Map // scan by types.NamespacedName
}

type scan struct {
	uid        types.UID
	generation int64
	at         time.Time
	found      Overlap
}

// Scan returns the overlap of a workload; the result is at most OverlapScanInterval old.
func (s *OverlapScanner) Scan(
	ctx context.Context, r client.Reader, owner metav1.Object, kind schema.GroupVersionKind, by *metav1.LabelSelector, now time.Time,
) (Overlap, error) {
	key := types.NamespacedName{Namespace: owner.GetNamespace(), Name: owner.GetName()}
	seen, _ := s.last.Load(key)
	if last, ok := seen.(scan); ok && last.uid == owner.GetUID() && last.generation == owner.GetGeneration() &&
		now.Sub(last.at) < OverlapScanInterval {
		return last.found, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(by)
	if err != nil {
		return Overlap{}, nil //nolint:nilerr // Admission rejects an invalid selector; it matches nothing.
	}
	var pods corev1.PodList
	err = r.List(ctx, &pods, client.InNamespace(key.Namespace), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return Overlap{}, fmt.Errorf("list pods of the selector: %w", err)
	}
	found := s.overlapOf(owner, kind, pods.Items)
	s.last.Store(key, scan{owner.GetUID(), owner.GetGeneration(), now, found})
	return found, nil
}

// Forget drops the last result, because the workload is gone or should be scanned at once.
func (s *OverlapScanner) Forget(key types.NamespacedName) { s.last.Delete(key) }
