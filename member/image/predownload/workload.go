package predownload

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/workloadspec"
)

// fewReplicas is the number of replicas up to which pulling ahead has no benefit, because the update is over before the pulls are. Source:
// OpenKruise.
const fewReplicas = 3

// workload is what a plan needs to know about a workload.
type workload struct {
	object   client.Object
	gvk      schema.GroupVersionKind
	selector *metav1.LabelSelector
	// update is the name of the update revision, empty while the status is behind the spec. current is the revision of the pods that are not
	// updated, empty if it may be any other revision. done means that all pods are updated.
	update, current string
	done            bool
	// replicas is how many pods are wanted. ready is how many are updated and ready.
	replicas, ready int
	// inPlace means that nothing is pulled for an update that has to re-create pods, because they may be scheduled to other nodes.
	inPlace bool
	// useless says why, according to the spec, nothing is pulled; empty if something may be.
	useless string

	ask
}

// ask is what fields and annotations request.
type ask struct {
	parallelism *intstr.IntOrString
	// timeout is how many seconds an attempt may take; 0 means the default.
	timeout int32
	// minReady is how many pods must be updated and ready before images are pulled.
	minReady *intstr.IntOrString
}

// kind defines how the controller reads a kind of workload.
type kind struct {
	gvk   schema.GroupVersionKind
	empty func() client.Object
	read  func(client.Object) workload
}

func cloneSets() kind {
	return kind{
		gvk: appsv1beta1.GroupVersion.WithKind("CloneSet"), empty: func() client.Object { return &appsv1beta1.CloneSet{} },
		read: func(o client.Object) workload {
			set, _ := o.(*appsv1beta1.CloneSet)
			r := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.CloneSetRollingUpdateStrategy{})
			w := workload{
				selector: set.Spec.Selector, update: set.Status.UpdateRevision, current: set.Status.CurrentRevision,
				done: set.Status.UpdateRevision == set.Status.CurrentRevision, replicas: int(ptr.Deref(set.Spec.Replicas, 1)),
				ready: int(set.Status.UpdatedReadyReplicas), inPlace: true, ask: readAsk(set, r.InPlaceUpdateStrategy),
			}
			onDelete := set.Spec.UpdateStrategy.Type == appsv1beta1.CloneSetOnDelete
			w.useless = uselessInPlace(r.PodUpdatePolicy, onDelete, r.Partition,
				ptr.Deref(r.MaxUnavailable, intstr.FromString(workloadspec.CloneSetMaxUnavailable)), w.replicas)
			return w.withObject(set, set.Generation == set.Status.ObservedGeneration)
		},
	}
}

func statefulSets() kind {
	return kind{
		gvk: appsv1beta1.GroupVersion.WithKind("StatefulSet"), empty: func() client.Object { return &appsv1beta1.StatefulSet{} },
		read: func(o client.Object) workload {
			set, _ := o.(*appsv1beta1.StatefulSet)
			r := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.StatefulSetRollingUpdateStrategy{})
			w := workload{
				selector: set.Spec.Selector, update: set.Status.UpdateRevision, current: set.Status.CurrentRevision,
				done: set.Status.UpdateRevision == set.Status.CurrentRevision, replicas: int(ptr.Deref(set.Spec.Replicas, 1)),
				ready: int(set.Status.UpdatedReadyReplicas), inPlace: true, ask: readAsk(set, r.InPlaceUpdateStrategy),
			}
			var partition *intstr.IntOrString
			if r.Partition != nil {
				partition = new(intstr.FromInt32(*r.Partition))
			}
			onDelete := set.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType
			w.useless = uselessInPlace(r.PodUpdatePolicy, onDelete, partition, ptr.Deref(r.MaxUnavailable, intstr.FromInt32(1)), w.replicas)
			return w.withObject(set, set.Generation == set.Status.ObservedGeneration)
		},
	}
}

// daemonSets returns the kind DaemonSet. Its re-created pods stay on their nodes, so it does not matter how they are updated.
func daemonSets() kind {
	return kind{
		gvk: appsv1beta1.GroupVersion.WithKind("DaemonSet"), empty: func() client.Object { return &appsv1beta1.DaemonSet{} },
		read: func(o client.Object) workload {
			set, _ := o.(*appsv1beta1.DaemonSet)
			r := ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate, appsv1beta1.DaemonSetRollingUpdateStrategy{})
			s := &set.Status
			w := workload{
				selector: set.Spec.Selector, update: s.UpdateRevision, done: s.UpdatedNumberScheduled >= s.DesiredNumberScheduled,
				replicas: int(s.DesiredNumberScheduled), ready: int(s.UpdatedNumberScheduled), ask: readAsk(set, nil),
			}
			w.useless = uselessAtOnce(r.Partition, ptr.Deref(r.MaxUnavailable, intstr.FromInt32(1)), w.replicas)
			return w.withObject(set, set.Generation == s.ObservedGeneration)
		},
	}
}

// withObject returns w for an object. observed says whether the object's status reflects its current spec.
func (w workload) withObject(o client.Object, observed bool) workload {
	w.object = o
	if !observed {
		w.update = ""
	}
	return w
}

// uselessInPlace returns why pulling ahead has no benefit for an in-place update.
func uselessInPlace(policy appsv1beta1.PodUpdatePolicy, onDelete bool, partition *intstr.IntOrString, budget intstr.IntOrString, replicas int) string {
	switch {
	case onDelete:
		return "pods are updated when they are deleted, and may be scheduled to other nodes"
	case policy != appsv1beta1.PodInPlaceIfPossible && policy != appsv1beta1.PodInPlaceOnly:
		return "pods are re-created, and may be scheduled to other nodes"
	case replicas <= fewReplicas:
		return fmt.Sprintf("%d replica(s) would be updated before the pulls finish", replicas)
	}
	return uselessAtOnce(partition, budget, replicas)
}

// uselessAtOnce returns why pulling ahead has no benefit if all pods are updated at once. A value that can't be resolved is reported by the
// workload's controller.
func uselessAtOnce(partition *intstr.IntOrString, budget intstr.IntOrString, replicas int) string {
	kept, err := rollout.ResolvePartition(partition, replicas)
	if err != nil {
		return err.Error()
	}
	at, err := rollout.Resolve(&budget, replicas, rollout.Up)
	if err != nil {
		return err.Error()
	}
	if kept == 0 && at >= replicas {
		return "all pods are updated at once"
	}
	return ""
}

// readAsk reads annotations, and fields if there is no annotation. An annotation that can't be parsed has no effect; admission warns about it.
func readAsk(o client.Object, s *pods.InPlaceUpdateStrategy) ask {
	var a ask
	if s != nil {
		a.parallelism, a.timeout = s.ImagePreDownloadParallelism, ptr.Deref(s.ImagePreDownloadTimeoutSeconds, 0)
		if n := s.ImagePreDownloadMinUpdatedReadyPods; n != nil {
			a.minReady = new(intstr.FromInt32(*n))
		}
	}
	by := o.GetAnnotations()
	if v := workloadspec.PullAnnotation(by, keys.ImagePreDownloadParallelism); v != nil {
		a.parallelism = v
	}
	if v := workloadspec.PullAnnotation(by, keys.ImagePreDownloadTimeoutSeconds); v != nil {
		a.timeout = v.IntVal
	}
	if v := workloadspec.PullAnnotation(by, keys.ImagePreDownloadMinUpdatedReadyPods); v != nil {
		a.minReady = v
	}
	return a
}

// changedContainers returns the containers of to whose image differs from the image of the same-named container in one of from. It returns
// one container for each image, in the order of to.
func changedContainers(from []*corev1.PodTemplateSpec, to *corev1.PodTemplateSpec) []corev1.Container {
	had := make([]map[string]string, len(from))
	for i, t := range from {
		had[i] = map[string]string{}
		for _, c := range slices.Concat(t.Spec.InitContainers, t.Spec.Containers) {
			had[i][c.Name] = c.Image
		}
	}
	var out []corev1.Container
	for _, c := range slices.Concat(to.Spec.InitContainers, to.Spec.Containers) {
		changed := slices.ContainsFunc(had, func(had map[string]string) bool { return had[c.Name] != c.Image })
		if changed && !slices.ContainsFunc(out, func(o corev1.Container) bool { return o.Image == c.Image }) {
			out = append(out, c)
		}
	}
	return out
}
