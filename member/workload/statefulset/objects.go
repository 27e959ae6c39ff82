package statefulset

import (
	"maps"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/ordinal"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// Kind returns the kind that owner references name.
func Kind() schema.GroupVersionKind { return appsv1beta1.GroupVersion.WithKind("StatefulSet") }

// wantedRevision returns the revision of the set's template.
func wantedRevision(set *appsv1beta1.StatefulSet) (*appsv1.ControllerRevision, error) {
	annotations := map[string]string{}
	if err := podset.StoreClaims(annotations, set.Spec.VolumeClaimTemplates); err != nil {
		return nil, err
	}
	return revision.New(revision.Spec{
		Owner: set, Kind: Kind(), Template: &set.Spec.Template, Labels: set.Spec.Template.Labels,
		Annotations: annotations, Collisions: set.Status.CollisionCount,
	})
}

// setAtRevision returns the set as it was for pods at a revision, with the volume claim templates of that revision.
func setAtRevision(set *appsv1beta1.StatefulSet, p *podset.Plan, rev string) *appsv1beta1.StatefulSet {
	out := *set
	out.Spec.VolumeClaimTemplates = p.Claims(rev, set.Spec.VolumeClaimTemplates)
	return &out
}

// newPod returns the pod for an ordinal at a revision.
func newPod(set *appsv1beta1.StatefulSet, rev string, template *corev1.PodTemplateSpec, ordinal string, now time.Time) *corev1.Pod {
	m := podset.PodBuilder{Owner: set, Kind: Kind(), Hooks: lifecycle.HooksOf(set.Spec.Lifecycle)}
	pod := m.Pod(podName(set, ordinal), rev, template, now)
	maps.Copy(pod.Labels, identity(pod.Name, ordinal))
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, set.Spec.ServiceName
	podset.Mount(pod, set.Spec.VolumeClaimTemplates, pvcNames(pod.Name))
	return pod
}

// identity returns the labels that distinguish a pod from the others of its set.
func identity(pod, ordinal string) map[string]string {
	return map[string]string{keys.StatefulSetPodName: pod, keys.PodIndex: ordinal}
}

// newPVCs returns the PVCs for an ordinal, owned by the set if they are to be deleted with it.
func newPVCs(set *appsv1beta1.StatefulSet, g Gates, ordinal string) []*corev1.PersistentVolumeClaim {
	out := podset.NewPVCs(set.Namespace, set.Spec.VolumeClaimTemplates, set.Spec.Selector, pvcNames(podName(set, ordinal)))
	if deleted, _ := retention(set, g); deleted {
		for _, c := range out {
			c.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(set, Kind())}
		}
	}
	return out
}

func podName(set *appsv1beta1.StatefulSet, ordinal string) string { return set.Name + "-" + ordinal }

// pvcNames returns the names of a pod's PVCs, by template.
func pvcNames(pod string) func(template string) string {
	return func(template string) string { return template + "-" + pod }
}

// ordinalIn returns the ordinal in a pod name of the set; empty if the name doesn't belong to the set.
func ordinalIn(set metav1.Object, pod string) string { return ordinal.In(set.GetName(), pod) }

// podOfPVC returns the name of the set's pod that a PVC of that name belongs to, for any template; empty if the name is not that of such a
// PVC.
func podOfPVC(set metav1.Object, pvc string) string {
	at := strings.LastIndex(pvc, "-"+set.GetName()+"-")
	if at <= 0 || ordinalIn(set, pvc[at+1:]) == "" {
		return ""
	}
	return pvc[at+1:]
}
