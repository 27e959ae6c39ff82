package daemonset

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podset"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// Kind is the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind()) }

// wantedRevision is the revision of the set's template.
func wantedRevision(set *appsv1beta1.DaemonSet) (*appsv1.ControllerRevision, error) {
	return revision.New(revision.Spec{
		Owner: set, Kind: Kind(), Template: &set.Spec.Template, Labels: set.Spec.Template.Labels,
		HashLabel: keys.ControllerRevisionHash, Collisions: set.Status.CollisionCount,
	})
}

// hooks are those of a set: it has that of deletions only.
func hooks(s *appsv1beta1.DaemonSetSpec) lifecycle.Hooks {
	if s.Lifecycle == nil {
		return lifecycle.Hooks{}
	}
	return lifecycle.HooksOf(&pods.Lifecycle{PreDelete: s.Lifecycle.PreDelete})
}

// newPod is a pod for a node, at a revision given by its name and template.
func newPod(
	set *appsv1beta1.DaemonSet, rev string, template *corev1.PodTemplateSpec, name, node string, now time.Time,
) *corev1.Pod {
	mold := podset.PodBuilder{Owner: set, Kind: Kind(), Hooks: hooks(&set.Spec), Gate: inPlace(&set.Spec), ShortHash: true}
	pod := mold.Pod(name, rev, template, now)
	if g := set.Annotations[keys.DaemonSetTemplateGeneration]; isNumber(g) {
		pod.Labels[keys.PodTemplateGeneration] = g
	}
	pod.Spec.Tolerations = tolerations(&pod.Spec)
	pin(&pod.Spec, node)
	return pod
}

func isNumber(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// pin lets a pod go to one node only. What its template demands of a node was judged before, and is replaced.
func pin(pod *corev1.PodSpec, node string) {
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchFields: []corev1.NodeSelectorRequirement{{
			Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}}}},
	}
}

// nodeOf is the node that a pod is on or is for. One that has ended and is being deleted holds no node: nothing more is to come
// of it, and nobody knows how long it stays.
func nodeOf(pod *corev1.Pod) string {
	ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if ended && pod.DeletionTimestamp != nil {
		return ""
	}
	return podset.Node(pod)
}

// adopts tells whether a set takes over a pod of nobody: one that a DaemonSet of its name made for a node, as the one of
// Kubernetes leaves them when it is deleted without its pods.
func adopts(owner metav1.Object, pod *corev1.Pod) bool {
	return pod.GenerateName == owner.GetName()+"-" && podset.Pinned(pod) != ""
}
