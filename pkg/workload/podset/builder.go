package podset

import (
	"maps"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// PodBuilder builds the pods of a workload.
type PodBuilder struct {
	// Owner is the workload and Kind its kind.
	Owner metav1.Object
	Kind  schema.GroupVersionKind
	// Hooks are the lifecycle hooks of the workload.
	Hooks lifecycle.Hooks
	// Gate adds the readiness gate for in-place updates to pods; otherwise only pods whose template has it get it.
	Gate bool
	// Labels are the labels that record a pod's revision.
	Labels RevisionLabels
}

// RevisionLabels are the labels in which the pods of a workload record their revision. The zero value means controller-revision-hash with the
// full name of the revision, and no other label.
type RevisionLabels struct {
	// Short stores only the hash in controller-revision-hash.
	Short bool
	// TemplateHash adds pod-template-hash, which holds only the hash.
	TemplateHash bool
}

// At returns the labels of a pod at the revision with that name.
func (l RevisionLabels) At(name string) map[string]string {
	out := map[string]string{keys.ControllerRevisionHash: Label(name, l.Short)}
	if l.TemplateHash {
		out[keys.PodTemplateHash] = revision.Short(name)
	}
	return out
}

// Change returns how the labels of a pod change when it moves to the revision with that name. Earlier versions added pod-template-hash to all
// pods they updated in place: if the label isn't wanted and holds the pod's revision, it is removed.
func (l RevisionLabels) Change(pod *corev1.Pod, name string) map[string]*string {
	out := map[string]*string{}
	for k, v := range l.At(name) {
		out[k] = &v
	}
	if hash := pod.Labels[keys.PodTemplateHash]; !l.TemplateHash && hash != "" && revision.Same(hash, pod.Labels[keys.ControllerRevisionHash]) {
		out[keys.PodTemplateHash] = nil
	}
	return out
}

// Label returns the label value for a revision: its name, or only the hash if short is set or the name is too long for a label. revision.Same
// treats both as equal, so switching between them updates no pod.
func Label(name string, short bool) string {
	if short || len(name) > validation.LabelValueMaxLength {
		return revision.Short(name)
	}
	return name
}

// Pod returns a pod at the revision with this name and template. Without a lifecycle hook and a readiness gate, its lifecycle state is Normal
// from the start.
func (b PodBuilder) Pod(name, rev string, template *corev1.PodTemplateSpec, now time.Time) *corev1.Pod {
	template = template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            name,
			GenerateName:    b.Owner.GetName() + "-",
			Namespace:       b.Owner.GetNamespace(),
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(b.Owner, b.Kind)},
		},
		Spec: template.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	maps.Copy(pod.Labels, b.Labels.At(rev))
	if b.Gate && !inplace.Gated(pod) {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: keys.InPlaceUpdateReady})
	}
	if b.Hooks.MarksNotReady() && !podpatch.Gated(pod, keys.KruisePodReady) {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: keys.KruisePodReady})
	}
	state := pods.LifecycleNormal
	if b.Hooks.HoldsService() || inplace.Gated(pod) || podpatch.Gated(pod, keys.KruisePodReady) {
		state = pods.LifecyclePreparingNormal
	}
	lifecycle.SetState(pod, state, now)
	return pod
}

// Mount adds a volume for each volumeClaimTemplate to a pod, replacing volumes of the same name. name maps a template to the name of its PVC.
func Mount(pod *corev1.Pod, templates []corev1.PersistentVolumeClaim, name func(template string) string) {
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(templates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == v.Name })
	})
	for i := range templates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: templates[i].Name,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name(templates[i].Name)},
			},
		})
	}
}

// NewPVCs returns the PVCs of one pod, with the labels of their templates and of the selector, and without owner references.
func NewPVCs(
	namespace string, templates []corev1.PersistentVolumeClaim, selector *metav1.LabelSelector, name func(template string) string,
) []*corev1.PersistentVolumeClaim {
	out := make([]*corev1.PersistentVolumeClaim, 0, len(templates))
	for i := range templates {
		t := templates[i].DeepCopy()
		labels := maps.Clone(t.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		if selector != nil {
			maps.Copy(labels, selector.MatchLabels)
		}
		out = append(out, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name(t.Name), Namespace: namespace, Labels: labels, Annotations: t.Annotations},
			Spec:       t.Spec,
		})
	}
	return out
}

// PVCLost reports whether a pod can never start because of its PVCs and has to be replaced: one of them is being deleted, or one is gone and the
// pod has no node yet. Only PVCs of the workload count. name returns the name of the pod's PVC for a volume; terminating maps the names of the
// workload's PVCs to whether they are being deleted.
//
// A running pod keeps running. Kubernetes keeps a PVC that is being deleted until no pod mounts it, so that its data can be saved; deleting the
// pod would delete the data.
func PVCLost(pod *corev1.Pod, name func(template string) string, terminating map[string]bool) bool {
	if isRunning(pod) {
		return false
	}
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		if v.PersistentVolumeClaim == nil || v.PersistentVolumeClaim.ClaimName != name(v.Name) {
			return false
		}
		isTerminating, exists := terminating[v.PersistentVolumeClaim.ClaimName]
		return isTerminating || !exists && pod.Spec.NodeName == ""
	})
}

// TerminatingPVC returns the first PVC that is being deleted while a pod runs on it; empty if there is none. It takes the same arguments as
// PVCLost.
func TerminatingPVC(pod *corev1.Pod, name func(template string) string, terminating map[string]bool) string {
	if !isRunning(pod) || pod.DeletionTimestamp != nil {
		return ""
	}
	for _, v := range pod.Spec.Volumes {
		if c := v.PersistentVolumeClaim; c != nil && terminating[c.ClaimName] && c.ClaimName == name(v.Name) {
			return c.ClaimName
		}
	}
	return ""
}

// isRunning reports whether a pod runs, as far as is known.
func isRunning(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodRunning || pod.Status.Phase == corev1.PodUnknown
}
