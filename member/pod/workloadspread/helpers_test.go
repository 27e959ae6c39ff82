package workloadspread

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/control/scaletarget"
	"github.com/flotilla-io/flotilla/testkit"
)

var (
	key  = types.NamespacedName{Namespace: testkit.Namespace, Name: "web"}
	noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)
)

const zone = corev1.LabelTopologyZone

func scheme(tb testing.TB) *runtime.Scheme {
	tb.Helper()
	s := runtime.NewScheme()
	require.NoError(tb, clientgoscheme.AddToScheme(s))
	require.NoError(tb, appsv1beta1.AddToScheme(s))
	return s
}

// store returns a client with these objects that behaves like a cache with the indexes.
func store(tb testing.TB, objects ...client.Object) client.WithWatch {
	tb.Helper()
	sets, _ := metadataOf(replicaSets())
	owner := func(o client.Object) []string {
		if ref := metav1.GetControllerOf(o); ref != nil {
			return []string{string(ref.UID)}
		}
		return nil
	}
	b := fake.NewClientBuilder().WithScheme(scheme(tb)).WithObjects(testkit.Copies(objects)...).WithStatusSubresource(&appsv1beta1.WorkloadSpread{}).
		WithIndex(&corev1.Pod{}, ownership.OwnerIndex, owner).WithIndex(sets, ownership.OwnerIndex, owner)
	require.NoError(tb, scaletarget.IndexSpreads(tb.Context(), testkit.Indexes{Builder: b}))
	return b.Build()
}

// openTo is a podwebhook.Opening that sends the pods of all namespaces except these, which map to the reason.
type openTo map[string]string

func (o openTo) Sent(_ context.Context, namespace string) (bool, string) {
	return o[namespace] == "", o[namespace]
}
func (o openTo) Changes() <-chan event.GenericEvent { return nil }

// subset starts a subset for that many pods in a zone. unlimited means any number.
func subset(name string, most any, change ...func(*appsv1beta1.WorkloadSpreadSubset)) appsv1beta1.WorkloadSpreadSubset {
	s := appsv1beta1.WorkloadSpreadSubset{Name: name, RequiredNodeSelector: inZone(name)}
	switch n := most.(type) {
	case string:
		s.MaxReplicas = new(intstr.FromString(n))
	case int:
		if n != unlimited {
			s.MaxReplicas = new(intstr.FromInt(n))
		}
	}
	for _, c := range change {
		c(&s)
	}
	return s
}

func inZone(name string) *corev1.NodeSelectorTerm {
	return &corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: zone, Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}
}

func patching(text string) func(*appsv1beta1.WorkloadSpreadSubset) {
	return func(s *appsv1beta1.WorkloadSpreadSubset) { s.Patch = &runtime.RawExtension{Raw: []byte(text)} }
}

// spreading returns a WorkloadSpread for the workload web.
func spreading(group, kind string, subsets ...appsv1beta1.WorkloadSpreadSubset) *appsv1beta1.WorkloadSpread {
	return &appsv1beta1.WorkloadSpread{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "ws", Generation: 1},
		Spec: appsv1beta1.WorkloadSpreadSpec{
			TargetRef: appsv1beta1.WorkloadSpreadTarget{APIVersion: group, Kind: kind, Name: key.Name}, Subsets: subsets,
		},
	}
}

const ours = "apps.kruise.io/v1beta1"

func adaptive(seconds int32) func(*appsv1beta1.WorkloadSpread) {
	return func(ws *appsv1beta1.WorkloadSpread) {
		ws.Spec.ScheduleStrategy = appsv1beta1.WorkloadSpreadScheduleStrategy{
			Type: appsv1beta1.AdaptiveWorkloadSpread, Adaptive: &appsv1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: &seconds},
		}
	}
}

func with(ws *appsv1beta1.WorkloadSpread, change ...func(*appsv1beta1.WorkloadSpread)) *appsv1beta1.WorkloadSpread {
	for _, c := range change {
		c(ws)
	}
	return ws
}

func cloneSetOf(n int32) *appsv1beta1.CloneSet {
	return &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "set"}, Spec: appsv1beta1.CloneSetSpec{Replicas: &n},
	}
}

func jobOf(n int32) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name, UID: "job"}, Spec: batchv1.JobSpec{Parallelism: &n}}
}

// newPodOf returns a pod as its controller creates it.
func newPodOf(group, kind, name string, uid types.UID) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, GenerateName: name + "-",
			OwnerReferences: []metav1.OwnerReference{{APIVersion: group, Kind: kind, Name: name, UID: uid, Controller: new(true)}},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:1"}}},
	}
}

// stored returns an existing pod of the CloneSet web. It is in the given subset, unless that is empty.
func stored(name, subset string, change ...func(*corev1.Pod)) *corev1.Pod {
	pod := newPodOf(ours, "CloneSet", "web", "set")
	pod.Name, pod.UID = name, types.UID(name)
	if subset != "" {
		pod.Annotations = map[string]string{keys.MatchedWorkloadSpread: matched{Name: "web", Subset: subset, UID: "id-" + name}.String()}
	}
	for _, c := range change {
		c(pod)
	}
	return pod
}

func onNode(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Spec.NodeName = name } }

func version(hash string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataLabel(&p.ObjectMeta, keys.PodTemplateHash, hash) }
}

func cost(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { metav1.SetMetaDataAnnotation(&p.ObjectMeta, keys.PodDeletionCost, value) }
}

func stuckSince(at time.Time) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Status.Phase = corev1.PodPending
		p.Status.Conditions = []corev1.PodCondition{{
			Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, LastTransitionTime: metav1.NewTime(at),
		}}
	}
}

// ledger sets the status of one version.
func ledger(ws *appsv1beta1.WorkloadSpread, version string, all ...appsv1beta1.WorkloadSpreadSubsetStatus) *appsv1beta1.WorkloadSpread {
	if ws.Status.VersionedSubsetStatuses == nil {
		ws.Status.VersionedSubsetStatuses = map[string]appsv1beta1.WorkloadSpreadSubsetStatuses{}
	}
	ws.Status.VersionedSubsetStatuses[version] = all
	return ws
}

// line returns the status of a subset. creating are places of unseen pods, taken at noon.
func line(name string, replicas, missing int32, creating ...string) appsv1beta1.WorkloadSpreadSubsetStatus {
	out := appsv1beta1.WorkloadSpreadSubsetStatus{Name: name, Replicas: replicas, MissingReplicas: missing}
	for _, id := range creating {
		if out.CreatingPods == nil {
			out.CreatingPods = map[string]metav1.Time{}
		}
		out.CreatingPods[id] = metav1.NewTime(noon)
	}
	return out
}

// closed marks subset a as unschedulable since a time.
func closed(ws *appsv1beta1.WorkloadSpread, since time.Time) *appsv1beta1.WorkloadSpread {
	ws.Status.SubsetStatuses = append(ws.Status.SubsetStatuses, appsv1beta1.WorkloadSpreadSubsetStatus{Name: "a", Conditions: []metav1.Condition{{
		Type: appsv1beta1.WorkloadSpreadSubsetSchedulable, Status: metav1.ConditionFalse, Reason: reasonUnschedulable, LastTransitionTime: metav1.NewTime(since),
	}}})
	return ws
}

func ready(p *corev1.Pod) {
	p.Status.Phase, p.Status.Conditions = corev1.PodRunning, []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
}
