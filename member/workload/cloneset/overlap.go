package cloneset

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// lookEvery is how often at most a set looks for pods of others: it means to go through all pods of its namespace. A new
// spec makes it look at once.
const lookEvery = 30 * time.Second

// strangers are pods that the selector selects and that are not of the set. They are left alone, whoever was there first;
// but who counts by the selector, as an HPA does, counts them.
type strangers struct {
	count int
	// first is the one whose name comes first, and what controls it.
	first string
}

func (s strangers) failure() failure {
	if s.count == 0 {
		return failure{}
	}
	return standing(appsv1beta1.CloneSetReasonPodsOfOthers, "the selector selects pods of others, which are left alone: make a new CloneSet with a narrower one",
		fmt.Sprintf("%d pods, such as %s", s.count, s.first))
}

// strangersOf finds them among the pods of the set's namespace. Pods of a former CloneSet of the same name, which go with
// it, are none.
func strangersOf(set *appsv1beta1.CloneSet, pods []corev1.Pod) strangers {
	var out strangers
	name := ""
	for i := range pods {
		pod := &pods[i]
		ref := metav1.GetControllerOfNoCopy(pod)
		former := ref != nil && ref.Kind == Kind().Kind && ref.Name == set.Name && strings.HasPrefix(ref.APIVersion, Kind().Group+"/")
		if former || pod.DeletionTimestamp != nil || pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed {
			continue
		}
		out.count++
		if name != "" && name < pod.Name {
			continue
		}
		name, out.first = pod.Name, pod.Name+" of nobody"
		if ref != nil {
			out.first = fmt.Sprintf("%s of %s %s", pod.Name, ref.Kind, ref.Name)
		}
	}
	return out
}

// lookout remembers what was found, and when, for each CloneSet. The zero value is ready.
type lookout struct {
	last sync.Map // sighting by types.NamespacedName
}

type sighting struct {
	uid        types.UID
	generation int64
	at         time.Time
	found      strangers
}

// look returns the strangers of a set, as they were at most lookEvery ago.
func (l *lookout) look(ctx context.Context, r client.Reader, set *appsv1beta1.CloneSet, now time.Time) (strangers, error) {
	key := client.ObjectKeyFromObject(set)
	seen, _ := l.last.Load(key)
	if last, ok := seen.(sighting); ok && last.uid == set.UID && last.generation == set.Generation && now.Sub(last.at) < lookEvery {
		return last.found, nil
	}
	selector, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return strangers{}, nil //nolint:nilerr // Admission lets no such selector pass; it selects nothing.
	}
	var pods corev1.PodList
	err = r.List(ctx, &pods, client.InNamespace(set.Namespace), client.MatchingLabelsSelector{Selector: selector},
		client.UnsafeDisableDeepCopy)
	if err != nil {
		return strangers{}, fmt.Errorf("list pods of the selector: %w", err)
	}
	found := strangersOf(set, pods.Items)
	l.last.Store(key, sighting{set.UID, set.Generation, now, found})
	return found, nil
}

func (l *lookout) forget(key types.NamespacedName) { l.last.Delete(key) }
