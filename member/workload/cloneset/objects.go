package cloneset

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
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
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Kind returns the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind("CloneSet") }

// wantedRevision returns the revision of the set's template.
func wantedRevision(set *appsv1beta1.CloneSet) (*appsv1.ControllerRevision, error) {
	pvcs, err := pvcTemplateHash(set.Spec.VolumeClaimTemplates)
	if err != nil {
		return nil, err
	}
	annotations := map[string]string{keys.VolumeClaimTemplateHash: pvcs}
	if err := podset.StoreClaims(annotations, set.Spec.VolumeClaimTemplates); err != nil {
		return nil, err
	}
	return revision.New(revision.Spec{
		Owner: set, Kind: Kind(), Template: &set.Spec.Template, Labels: set.Spec.Template.Labels,
		Annotations: annotations, Collisions: set.Status.CollisionCount,
	})
}

// pvcTemplateHash returns the hash of the volumeClaimTemplates with which the revision is annotated; empty if there are none. As in OpenKruise
// 1.8, it is FNV-1a of the printed JSON of their names and specs, sorted by name.
func pvcTemplateHash(pvcs []corev1.PersistentVolumeClaim) (string, error) {
	if len(pvcs) == 0 {
		return "", nil
	}
	list := make([]corev1.PersistentVolumeClaim, 0, len(pvcs))
	for i := range pvcs {
		list = append(list, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: pvcs[i].Name}, Spec: pvcs[i].Spec,
		})
	}
	slices.SortStableFunc(list, func(a, b corev1.PersistentVolumeClaim) int { return cmp.Compare(a.Name, b.Name) })
	raw, err := json.Marshal(list)
	if err != nil {
		return "", fmt.Errorf("marshal volumeClaimTemplates: %w", err)
	}
	h := fnv.New32a()
	_, _ = h.Write([]byte(dump.ForHash(raw))) // writing to a hash never fails
	return strconv.FormatUint(uint64(h.Sum32()), 10), nil
}

// podBuilder builds the pods of a set.
func podBuilder(set *appsv1beta1.CloneSet, g gates) podset.PodBuilder {
	return podset.PodBuilder{
		Owner: set, Kind: Kind(), Hooks: lifecycle.HooksOf(set.Spec.Lifecycle), Gate: true, Labels: revisionLabels(g),
	}
}

// revisionLabels returns the labels that name a pod's revision.
func revisionLabels(g gates) podset.RevisionLabels {
	return podset.RevisionLabels{Short: g.ShortHash, TemplateHash: true}
}

// setAtRevision returns the set as it was for pods at a revision, with the volume claim templates of that revision.
func setAtRevision(set *appsv1beta1.CloneSet, p *podset.Plan, rev string) *appsv1beta1.CloneSet {
	out := *set
	out.Spec.VolumeClaimTemplates = p.Claims(rev, set.Spec.VolumeClaimTemplates)
	return &out
}

// newPod returns the pod for an instance ID at a revision.
func newPod(
	set *appsv1beta1.CloneSet, g gates, rev string, template *corev1.PodTemplateSpec, id string, now time.Time,
) *corev1.Pod {
	pod := podBuilder(set, g).Pod(set.Name+"-"+id, rev, template, now)
	pod.Labels[keys.CloneSetInstanceID] = id
	podset.Mount(pod, set.Spec.VolumeClaimTemplates, pvcNames(set, id))
	return pod
}

// newPVCs returns the PVCs for an instance ID.
func newPVCs(set *appsv1beta1.CloneSet, id string) []*corev1.PersistentVolumeClaim {
	out := podset.NewPVCs(set.Namespace, set.Spec.VolumeClaimTemplates, set.Spec.Selector, pvcNames(set, id))
	for _, c := range out {
		c.Labels[keys.CloneSetInstanceID] = id
		c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, Kind())}
	}
	return out
}

// pvcNames returns the names of an instance's PVCs, by template.
func pvcNames(set *appsv1beta1.CloneSet, id string) func(template string) string {
	return func(template string) string { return template + "-" + set.Name + "-" + id }
}

// instanceID returns the instance ID of a pod or PVC; empty if it has none.
func instanceID(o metav1.Object) string { return o.GetLabels()[keys.CloneSetInstanceID] }
