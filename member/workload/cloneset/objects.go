package cloneset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/dump"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/pkg/revision"
)

// Kind is the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind("CloneSet") }

// ownedBy tells whether o's controller is this very CloneSet, in whatever version its reference was written.
func ownedBy(o metav1.Object, set *appsv1beta1.CloneSet) bool {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.UID != set.UID || ref.Kind != Kind().Kind {
		return false
	}
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	return err == nil && gv.Group == Kind().Group
}

// wantedRevision is the revision of the set's template.
func wantedRevision(set *appsv1beta1.CloneSet) (*appsv1.ControllerRevision, error) {
	claims, err := claimsHash(set.Spec.VolumeClaimTemplates)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(set.Annotations)
	if annotations == nil {
		annotations = map[string]string{}
	}
	// Both hold a whole object, and speak of the CloneSet as it is now.
	delete(annotations, corev1.LastAppliedConfigAnnotation)
	delete(annotations, keys.ConversionData)
	annotations[keys.VolumeClaimTemplateHash] = claims
	return revision.New(revision.Spec{
		Owner: set, Kind: Kind(), Template: &set.Spec.Template, Labels: set.Spec.Template.Labels,
		Annotations: annotations, Collisions: set.Status.CollisionCount,
	})
}

// claimsHash is what the revision remembers of the claim templates; empty where there are none. Source: OpenKruise 1.8,
// FNV-1a over the printed JSON of their names and specs, in the order of names.
func claimsHash(claims []corev1.PersistentVolumeClaim) (string, error) {
	if len(claims) == 0 {
		return "", nil
	}
	list := make([]corev1.PersistentVolumeClaim, 0, len(claims))
	for i := range claims {
		list = append(list, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: claims[i].Name}, Spec: claims[i].Spec,
		})
	}
	slices.SortStableFunc(list, func(a, b corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) })
	raw, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("marshal claim templates: %w", err)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(dump.ForHash(raw))) // a hash takes all bytes
	return strconv.FormatUint(uint64(h.Sum32()), 10), nil
}

// newPod is the pod of an instance id at a revision, given by label (see Gates.label) and template.
func newPod(set *appsv1beta1.CloneSet, label string, template *corev1.PodTemplateSpec, id string, now time.Time) *corev1.Pod {
	template = template.DeepCopy()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name:            set.Name + "-" + id,
			GenerateName:    set.Name + "-",
			Namespace:       set.Namespace,
			Labels:          template.Labels,
			Annotations:     template.Annotations,
			Finalizers:      template.Finalizers,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, Kind())},
		},
		Spec: template.Spec,
	}
	if pod.Labels == nil {
		pod.Labels = map[string]string{}
	}
	pod.Labels[keys.CloneSetInstanceID] = id
	pod.Labels[keys.ControllerRevisionHash] = label
	pod.Labels[keys.PodTemplateHash] = revision.Short(label)
	lifecycle.Stamp(pod, pods.LifecyclePreparingNormal, now)
	if !inplace.Gated(pod) {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: keys.InPlaceUpdateReady})
	}
	if lifecycle.HooksOf(set.Spec.Lifecycle).MarksNotReady() && !podpatch.Gated(pod, keys.KruisePodReady) {
		pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: keys.KruisePodReady})
	}
	templates := set.Spec.VolumeClaimTemplates
	pod.Spec.Volumes = slices.DeleteFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(templates, func(c corev1.PersistentVolumeClaim) bool { return c.Name == v.Name })
	})
	for i := range templates {
		pod.Spec.Volumes = append(pod.Spec.Volumes, corev1.Volume{
			Name: templates[i].Name,
			VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claimName(set, templates[i].Name, id)},
			},
		})
	}
	return pod
}

// newClaims are the claims of an instance id.
func newClaims(set *appsv1beta1.CloneSet, id string) []*corev1.PersistentVolumeClaim {
	out := make([]*corev1.PersistentVolumeClaim, 0, len(set.Spec.VolumeClaimTemplates))
	for i := range set.Spec.VolumeClaimTemplates {
		t := set.Spec.VolumeClaimTemplates[i].DeepCopy()
		labels := maps.Clone(t.Labels)
		if labels == nil {
			labels = map[string]string{}
		}
		maps.Copy(labels, set.Spec.Selector.MatchLabels)
		labels[keys.CloneSetInstanceID] = id
		out = append(out, &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{
				Name: claimName(set, t.Name, id), Namespace: set.Namespace, Labels: labels, Annotations: t.Annotations,
				OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(set, Kind())},
			},
			Spec: t.Spec,
		})
	}
	return out
}

func claimName(set *appsv1beta1.CloneSet, template, id string) string {
	return template + "-" + set.Name + "-" + id
}

// instanceID is the id of a pod or claim; empty if it has none.
func instanceID(o metav1.Object) string { return o.GetLabels()[keys.CloneSetInstanceID] }
