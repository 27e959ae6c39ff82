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
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/nodefit"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Kind returns the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind(kind()) }

// wantedRevision returns the revision of the set's template.
func wantedRevision(set *appsv1beta1.DaemonSet) (*appsv1.ControllerRevision, error) {
	return revision.New(revision.Spec{
		Owner: set, Kind: Kind(), Template: &set.Spec.Template, Labels: set.Spec.Template.Labels,
		HashLabel: keys.ControllerRevisionHash, Collisions: set.Status.CollisionCount,
	})
}

// hooks returns the lifecycle hooks of a set, which has only preDelete.
func hooks(s *appsv1beta1.DaemonSetSpec) lifecycle.Hooks {
	if s.Lifecycle == nil {
		return lifecycle.Hooks{}
	}
	return lifecycle.HooksOf(&pods.Lifecycle{PreDelete: s.Lifecycle.PreDelete})
}

// revisionLabels returns the labels that name a pod's revision.
func revisionLabels() podset.RevisionLabels { return podset.RevisionLabels{Short: true} }

// newPod returns a pod for a node at a revision, which is given by name and template.
func newPod(
	set *appsv1beta1.DaemonSet, rev string, template *corev1.PodTemplateSpec, name, node string, now time.Time,
) *corev1.Pod {
	builder := podset.PodBuilder{
		Owner: set, Kind: Kind(), Hooks: hooks(&set.Spec), Gate: inPlace(&set.Spec), Labels: revisionLabels(),
	}
	pod := builder.Pod(name, rev, template, now)
	if g := set.Annotations[keys.DaemonSetTemplateGeneration]; isNumber(g) {
		pod.Labels[keys.PodTemplateGeneration] = g
	}
	pod.Spec.Tolerations = nodefit.DaemonTolerations(&pod.Spec)
	podset.Pin(&pod.Spec, node)
	return pod
}

// matcher returns which nodes the pods of a template run on.
func matcher(t *corev1.PodTemplateSpec) nodefit.Matcher {
	return nodefit.New(&t.Spec, nodefit.DaemonTolerations(&t.Spec))
}

func isNumber(s string) bool {
	_, err := strconv.ParseInt(s, 10, 64)
	return err == nil
}

// nodeOf returns the node that a pod is on or is meant for. A pod that has ended and is terminating occupies no node: it no longer runs
// anything, and may stay for a long time.
func nodeOf(pod *corev1.Pod) string {
	if podpatch.Ended(pod) && pod.DeletionTimestamp != nil {
		return ""
	}
	return podset.Node(pod)
}

// adopts reports whether a set adopts an orphan: a pod that a DaemonSet of the same name created for a node. The DaemonSet of Kubernetes
// leaves such pods when it is deleted without its pods.
func adopts(owner metav1.Object, pod *corev1.Pod) bool {
	return pod.GenerateName == owner.GetName()+"-" && podset.Pinned(pod) != ""
}
