package v1alpha1

import (
	"context"
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// One property for all kinds and both directions: converting an object back and forth returns the same object, and leaves no preserved data
// behind. TestRoundTrips draws objects; the fuzz tests search for draws that violate the property.

func TestRoundTrips(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		law  func(*rapid.T)
	}{
		{"An AdvancedCronJob of v1beta1 comes back from v1alpha1 as it was.", advancedCronJobFromHubAndBack},
		{"An AdvancedCronJob of v1alpha1 comes back from v1beta1 as it was.", advancedCronJobToHubAndBack},
		{"A BroadcastJob of v1beta1 comes back from v1alpha1 as it was.", broadcastJobFromHubAndBack},
		{"A BroadcastJob of v1alpha1 comes back from v1beta1 as it was.", broadcastJobToHubAndBack},
		{"A CloneSet of v1beta1 comes back from v1alpha1 as it was.", cloneSetFromHubAndBack},
		{"A CloneSet of v1alpha1 comes back from v1beta1 as it was.", cloneSetToHubAndBack},
		{"A ContainerRecreateRequest of v1beta1 comes back from v1alpha1 as it was.", containerRecreateRequestFromHubAndBack},
		{"A ContainerRecreateRequest of v1alpha1 comes back from v1beta1 as it was.", containerRecreateRequestToHubAndBack},
		{"A DaemonSet of v1beta1 comes back from v1alpha1 as it was.", daemonSetFromHubAndBack},
		{"A DaemonSet of v1alpha1 comes back from v1beta1 as it was.", daemonSetToHubAndBack},
		{"An ImageListPullJob of v1beta1 comes back from v1alpha1 as it was.", imageListPullJobFromHubAndBack},
		{"An ImageListPullJob of v1alpha1 comes back from v1beta1 as it was.", imageListPullJobToHubAndBack},
		{"An ImagePullJob of v1beta1 comes back from v1alpha1 as it was.", imagePullJobFromHubAndBack},
		{"An ImagePullJob of v1alpha1 comes back from v1beta1 as it was.", imagePullJobToHubAndBack},
		{"A NodeImage of v1beta1 comes back from v1alpha1 as it was.", nodeImageFromHubAndBack},
		{"A NodeImage of v1alpha1 comes back from v1beta1 as it was.", nodeImageToHubAndBack},
		{"A PersistentPodState of v1beta1 comes back from v1alpha1 as it was.", persistentPodStateFromHubAndBack},
		{"A PersistentPodState of v1alpha1 comes back from v1beta1 as it was.", persistentPodStateToHubAndBack},
		{"A ResourceDistribution of v1beta1 comes back from v1alpha1 as it was.", resourceDistributionFromHubAndBack},
		{"A ResourceDistribution of v1alpha1 comes back from v1beta1 as it was.", resourceDistributionToHubAndBack},
		{"A SidecarSet of v1beta1 comes back from v1alpha1 as it was.", sidecarSetFromHubAndBack},
		{"A SidecarSet of v1alpha1 comes back from v1beta1 as it was.", sidecarSetToHubAndBack},
		{"A StatefulSet of v1beta1 comes back from v1alpha1 as it was.", statefulSetFromHubAndBack},
		{"A StatefulSet of v1alpha1 comes back from v1beta1 as it was.", statefulSetToHubAndBack},
		{"A UnitedDeployment of v1beta1 comes back from v1alpha1 as it was.", unitedDeploymentFromHubAndBack},
		{"A UnitedDeployment of v1alpha1 comes back from v1beta1 as it was.", unitedDeploymentToHubAndBack},
		{"A WorkloadSpread of v1beta1 comes back from v1alpha1 as it was.", workloadSpreadFromHubAndBack},
		{"A WorkloadSpread of v1alpha1 comes back from v1beta1 as it was.", workloadSpreadToHubAndBack},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			rapid.Check(t, tt.law)
		})
	}
}

func FuzzAdvancedCronJobFromHubAndBack(f *testing.F)    { fuzz(f, advancedCronJobFromHubAndBack) }
func FuzzAdvancedCronJobToHubAndBack(f *testing.F)      { fuzz(f, advancedCronJobToHubAndBack) }
func FuzzBroadcastJobFromHubAndBack(f *testing.F)       { fuzz(f, broadcastJobFromHubAndBack) }
func FuzzBroadcastJobToHubAndBack(f *testing.F)         { fuzz(f, broadcastJobToHubAndBack) }
func FuzzCloneSetFromHubAndBack(f *testing.F)           { fuzz(f, cloneSetFromHubAndBack) }
func FuzzCloneSetToHubAndBack(f *testing.F)             { fuzz(f, cloneSetToHubAndBack) }
func FuzzDaemonSetFromHubAndBack(f *testing.F)          { fuzz(f, daemonSetFromHubAndBack) }
func FuzzDaemonSetToHubAndBack(f *testing.F)            { fuzz(f, daemonSetToHubAndBack) }
func FuzzImageListPullJobFromHubAndBack(f *testing.F)   { fuzz(f, imageListPullJobFromHubAndBack) }
func FuzzImageListPullJobToHubAndBack(f *testing.F)     { fuzz(f, imageListPullJobToHubAndBack) }
func FuzzImagePullJobFromHubAndBack(f *testing.F)       { fuzz(f, imagePullJobFromHubAndBack) }
func FuzzImagePullJobToHubAndBack(f *testing.F)         { fuzz(f, imagePullJobToHubAndBack) }
func FuzzNodeImageFromHubAndBack(f *testing.F)          { fuzz(f, nodeImageFromHubAndBack) }
func FuzzNodeImageToHubAndBack(f *testing.F)            { fuzz(f, nodeImageToHubAndBack) }
func FuzzPersistentPodStateFromHubAndBack(f *testing.F) { fuzz(f, persistentPodStateFromHubAndBack) }
func FuzzPersistentPodStateToHubAndBack(f *testing.F)   { fuzz(f, persistentPodStateToHubAndBack) }
func FuzzContainerRecreateRequestFromHubAndBack(f *testing.F) {
	fuzz(f, containerRecreateRequestFromHubAndBack)
}

func FuzzContainerRecreateRequestToHubAndBack(f *testing.F) {
	fuzz(f, containerRecreateRequestToHubAndBack)
}

func FuzzResourceDistributionFromHubAndBack(f *testing.F) {
	fuzz(f, resourceDistributionFromHubAndBack)
}

func FuzzResourceDistributionToHubAndBack(f *testing.F) { fuzz(f, resourceDistributionToHubAndBack) }
func FuzzSidecarSetFromHubAndBack(f *testing.F)         { fuzz(f, sidecarSetFromHubAndBack) }
func FuzzSidecarSetToHubAndBack(f *testing.F)           { fuzz(f, sidecarSetToHubAndBack) }
func FuzzStatefulSetFromHubAndBack(f *testing.F)        { fuzz(f, statefulSetFromHubAndBack) }
func FuzzStatefulSetToHubAndBack(f *testing.F)          { fuzz(f, statefulSetToHubAndBack) }
func FuzzUnitedDeploymentFromHubAndBack(f *testing.F)   { fuzz(f, unitedDeploymentFromHubAndBack) }
func FuzzUnitedDeploymentToHubAndBack(f *testing.F)     { fuzz(f, unitedDeploymentToHubAndBack) }
func FuzzWorkloadSpreadFromHubAndBack(f *testing.F)     { fuzz(f, workloadSpreadFromHubAndBack) }
func FuzzWorkloadSpreadToHubAndBack(f *testing.F)       { fuzz(f, workloadSpreadToHubAndBack) }

// fuzz starts with inputs that are long enough for whole objects, because a draw that runs out of input tests nothing.
func fuzz(f *testing.F, law func(*rapid.T)) {
	f.Helper()
	for seed := range byte(16) {
		input := make([]byte, 4<<10)
		_, _ = rand.NewChaCha8([32]byte{seed}).Read(input) // Read never fails.
		f.Add(input)
	}
	f.Fuzz(rapid.MakeFuzz(law))
}

// conversion converts one version of a kind to the other.
type conversion[A, B any] func(context.Context, *A, *B) error

// fromHubAndBack is the property for an object of v1beta1.
func fromHubAndBack[Hub, Spoke any](t *rapid.T, in *Hub, from conversion[Hub, Spoke], to conversion[Spoke, Hub]) {
	var there Spoke
	var back Hub
	require.NoError(t, from(t.Context(), wire(t, in), &there))
	require.NoError(t, to(t.Context(), wire(t, &there), &back))
	require.Empty(t, cmp.Diff(wire(t, in), wire(t, &back)))
}

// toHubAndBack is the property for an object of v1alpha1. In addition, a write without an edit must not change the stored object.
func toHubAndBack[Hub, Spoke any](t *rapid.T, in *Spoke, from conversion[Hub, Spoke], to conversion[Spoke, Hub]) {
	var there, again Hub
	var back Spoke
	require.NoError(t, to(t.Context(), wire(t, in), &there))
	require.NoError(t, from(t.Context(), wire(t, &there), &back))
	require.Empty(t, cmp.Diff(wire(t, in), wire(t, &back)))
	require.NoError(t, to(t.Context(), wire(t, &back), &again))
	require.Empty(t, cmp.Diff(wire(t, &there), wire(t, &again)))
}

func cloneSetFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.CloneSet{ObjectMeta: drawMeta(t), Spec: drawCloneSetV1beta1(t)}
	fromHubAndBack(t, in, CloneSetFromHub, CloneSetToHub)
}

func cloneSetToHubAndBack(t *rapid.T) {
	in := &CloneSet{ObjectMeta: drawMeta(t), Spec: narrow(drawCloneSetV1alpha1(t))}
	toHubAndBack(t, in, CloneSetFromHub, CloneSetToHub)
}

func daemonSetFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.DaemonSet{ObjectMeta: drawMeta(t), Spec: appsv1beta1.DaemonSetSpec{
		Selector:       selector(),
		UpdateStrategy: drawDaemonUpdate(t),
		ScaleStrategy: drawPtr(t, rapid.SampledFrom([]appsv1beta1.DaemonSetScaleStrategy{
			{}, {PartitionedScaling: true},
		}), "scale"),
		MinReadySeconds:      rapid.Int32().Draw(t, "min ready seconds"),
		BurstReplicas:        drawPtr(t, intOrString(), "burst"),
		RevisionHistoryLimit: drawPtr(t, rapid.Int32(), "history"),
		Lifecycle:            drawPtr(t, rapid.Custom(drawLifecycle), "lifecycle"),
	}}
	in.Status = appsv1beta1.DaemonSetStatus{
		NumberReady: rapid.Int32().Draw(t, "ready"), UpdateRevision: word().Draw(t, "revision"),
		Conditions: []appsv1beta1.WorkloadCondition{{Type: appsv1beta1.WorkloadFailedCreatePod}},
	}
	fromHubAndBack(t, in, DaemonSetFromHub, DaemonSetToHub)
}

func daemonSetToHubAndBack(t *rapid.T) {
	in := &DaemonSet{ObjectMeta: drawMeta(t), Spec: DaemonSetSpec{
		Selector:             selector(),
		UpdateStrategy:       drawDaemonUpdate(t),
		MinReadySeconds:      rapid.Int32().Draw(t, "min ready seconds"),
		BurstReplicas:        drawPtr(t, intOrString(), "burst"),
		RevisionHistoryLimit: drawPtr(t, rapid.Int32(), "history"),
		Lifecycle:            drawPtr(t, rapid.Custom(drawLifecycle), "lifecycle"),
	}}
	toHubAndBack(t, in, DaemonSetFromHub, DaemonSetToHub)
}

func persistentPodStateFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.PersistentPodState{ObjectMeta: drawMeta(t), Status: drawPodStates(t), Spec: appsv1beta1.PersistentPodStateSpec{
		TargetRef:                         drawTarget(t),
		PersistentPodAnnotations:          drawRecorded(t),
		PersistentPodStateRetentionPolicy: appsv1beta1.PersistentPodStateRetentionPolicy(word().Draw(t, "retention")),
		RequiredPersistentTopology: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.NodeTopologyTerm {
			return appsv1beta1.NodeTopologyTerm{Keys: drawWords(t)}
		}), "required"),
		PreferredPersistentTopology: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.PreferredTopologyTerm {
			return appsv1beta1.PreferredTopologyTerm{
				Weight: rapid.Int32().Draw(t, "weight"), Preference: appsv1beta1.NodeTopologyTerm{Keys: drawWords(t)},
			}
		}), 0, 2).Draw(t, "preferred"),
	}}
	fromHubAndBack(t, in, PersistentPodStateFromHub, PersistentPodStateToHub)
}

func persistentPodStateToHubAndBack(t *rapid.T) {
	in := &PersistentPodState{ObjectMeta: drawMeta(t), Status: drawPodStates(t), Spec: PersistentPodStateSpec{
		TargetRef:                         drawTarget(t),
		PersistentPodAnnotations:          drawRecorded(t),
		PersistentPodStateRetentionPolicy: appsv1beta1.PersistentPodStateRetentionPolicy(word().Draw(t, "retention")),
		RequiredPersistentTopology: drawPtr(t, rapid.Custom(func(t *rapid.T) NodeTopologyTerm {
			return NodeTopologyTerm{NodeTopologyKeys: drawWords(t)}
		}), "required"),
		PreferredPersistentTopology: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) PreferredTopologyTerm {
			return PreferredTopologyTerm{
				Weight: rapid.Int32().Draw(t, "weight"), Preference: NodeTopologyTerm{NodeTopologyKeys: drawWords(t)},
			}
		}), 0, 2).Draw(t, "preferred"),
	}}
	toHubAndBack(t, in, PersistentPodStateFromHub, PersistentPodStateToHub)
}

func resourceDistributionFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.ResourceDistribution{ObjectMeta: drawMeta(t), Spec: appsv1beta1.ResourceDistributionSpec{
		Resource: drawResource(t), Source: drawSource(t),
		Targets: appsv1beta1.ResourceDistributionTargets{
			AllNamespaces: rapid.Bool().Draw(t, "all"), ExcludedNamespaces: drawNamespaces(t), IncludedNamespaces: drawNamespaces(t),
			NamespaceSelector: drawNamespaceSelector(t),
		},
	}}
	in.Status = appsv1beta1.ResourceDistributionStatus{
		Desired: rapid.Int32().Draw(t, "desired"), Succeeded: rapid.Int32().Draw(t, "succeeded"), Failed: rapid.Int32().Draw(t, "failed"),
		ObservedGeneration: rapid.Int64().Draw(t, "generation"),
		Conditions: []appsv1beta1.ResourceDistributionCondition{{
			Type: appsv1beta1.ResourceDistributionConflictOccurred, Reason: word().Draw(t, "reason"), FailedNamespaces: drawWords(t),
		}},
	}
	fromHubAndBack(t, in, ResourceDistributionFromHub, ResourceDistributionToHub)
}

func resourceDistributionToHubAndBack(t *rapid.T) {
	in := &ResourceDistribution{ObjectMeta: drawMeta(t), Spec: ResourceDistributionSpec{
		Resource: drawResource(t), Source: drawSource(t),
		Targets: ResourceDistributionTargets{
			AllNamespaces: rapid.Bool().Draw(t, "all"), ExcludedNamespaces: drawNamespaces(t), IncludedNamespaces: drawNamespaces(t),
			NamespaceLabelSelector: drawNamespaceSelector(t),
		},
	}}
	in.Status.Conditions = []ResourceDistributionCondition{{Message: word().Draw(t, "message"), FailedNamespaces: drawWords(t)}}
	toHubAndBack(t, in, ResourceDistributionFromHub, ResourceDistributionToHub)
}

func drawSource(t *rapid.T) *appsv1beta1.ResourceDistributionSource {
	if rapid.Bool().Draw(t, "inline") {
		return nil
	}
	return &appsv1beta1.ResourceDistributionSource{
		Kind: word().Draw(t, "kind"), Namespace: word().Draw(t, "namespace"), Name: word().Draw(t, "name"),
	}
}

func drawResource(t *rapid.T) runtime.RawExtension {
	if rapid.Bool().Draw(t, "by reference") {
		return runtime.RawExtension{}
	}
	raw, err := json.Marshal(map[string]string{"kind": word().Draw(t, "kind")})
	require.NoError(t, err)
	return runtime.RawExtension{Raw: raw}
}

func drawNamespaces(t *rapid.T) appsv1beta1.ResourceDistributionNamespaces {
	return appsv1beta1.ResourceDistributionNamespaces{List: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.ResourceDistributionNamespace {
		return appsv1beta1.ResourceDistributionNamespace{Name: word().Draw(t, "namespace")}
	}), 0, 2).Draw(t, "namespaces")}
}

func drawNamespaceSelector(t *rapid.T) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: rapid.MapOfN(word(), word(), 0, 2).Draw(t, "labels")}
}

func workloadSpreadFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.WorkloadSpread{ObjectMeta: drawMeta(t), Spec: appsv1beta1.WorkloadSpreadSpec{
		TargetRef:      appsv1beta1.WorkloadSpreadTarget(drawTarget(t)),
		OverflowPolicy: appsv1beta1.WorkloadSpreadOverflowPolicy(word().Draw(t, "overflow")),
		ScheduleStrategy: appsv1beta1.WorkloadSpreadScheduleStrategy{
			Type:     appsv1beta1.WorkloadSpreadScheduleStrategyType(word().Draw(t, "type")),
			Adaptive: &appsv1beta1.AdaptiveWorkloadSpreadStrategy{RescheduleCriticalSeconds: drawPtr(t, rapid.Int32(), "seconds")},
		},
		TargetFilter: &appsv1beta1.WorkloadSpreadTargetFilter{ReplicasPathList: drawWords(t), Selector: selector()},
		Subsets: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.WorkloadSpreadSubset {
			return appsv1beta1.WorkloadSpreadSubset{
				Name: word().Draw(t, "name"), MaxReplicas: drawPtr(t, intOrString(), "max"), RequiredNodeSelector: drawPtr(t, drawTerm(), "required"),
				PreferredNodeSelector: drawPreferred(t), Tolerations: []corev1.Toleration{{Key: word().Draw(t, "toleration")}},
				Patch: &runtime.RawExtension{Raw: []byte(`{"metadata":{}}`)},
			}
		}), 0, 2).Draw(t, "subsets"),
	}}
	st := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.WorkloadSpreadSubsetStatus {
		return appsv1beta1.WorkloadSpreadSubsetStatus{
			Name: word().Draw(t, "name"), Replicas: rapid.Int32().Draw(t, "replicas"), MissingReplicas: rapid.Int32().Draw(t, "missing"),
			CreatingPods: map[string]metav1.Time{word().Draw(t, "pod"): {}},
			Conditions:   []metav1.Condition{{Type: "Schedulable", Status: metav1.ConditionFalse, Reason: "R" + word().Draw(t, "reason")}},
		}
	}), 0, 2)
	in.Status = appsv1beta1.WorkloadSpreadStatus{
		ObservedGeneration: rapid.Int64().Draw(t, "generation"), SubsetStatuses: st.Draw(t, "all"),
		VersionedSubsetStatuses: map[string]appsv1beta1.WorkloadSpreadSubsetStatuses{word().Draw(t, "version"): st.Draw(t, "versioned")},
	}
	fromHubAndBack(t, in, WorkloadSpreadFromHub, WorkloadSpreadToHub)
}

func workloadSpreadToHubAndBack(t *rapid.T) {
	in := &WorkloadSpread{ObjectMeta: drawMeta(t), Spec: WorkloadSpreadSpec{
		TargetRef: appsv1beta1.WorkloadSpreadTarget(drawTarget(t)),
		Subsets: rapid.SliceOfN(rapid.Custom(func(t *rapid.T) WorkloadSpreadSubset {
			return WorkloadSpreadSubset{
				Name: word().Draw(t, "name"), MaxReplicas: drawPtr(t, intOrString(), "max"), RequiredNodeSelectorTerm: drawPtr(t, drawTerm(), "required"),
				PreferredNodeSelectorTerms: drawPreferred(t),
			}
		}), 0, 2).Draw(t, "subsets"),
	}}
	in.Status = WorkloadSpreadStatus{SubsetStatuses: []WorkloadSpreadSubsetStatus{{
		Name: word().Draw(t, "name"), Replicas: rapid.Int32().Draw(t, "replicas"),
		Conditions: []WorkloadSpreadSubsetCondition{{Type: "Schedulable", Status: corev1.ConditionTrue, Reason: rapid.SampledFrom([]string{"", "Sufficient"}).Draw(t, "reason")}},
	}}}
	toHubAndBack(t, in, WorkloadSpreadFromHub, WorkloadSpreadToHub)
}

func drawTerm() *rapid.Generator[corev1.NodeSelectorTerm] {
	return rapid.Custom(func(t *rapid.T) corev1.NodeSelectorTerm {
		return corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: word().Draw(t, "label"), Operator: corev1.NodeSelectorOpExists}}}
	})
}

func drawPreferred(t *rapid.T) []corev1.PreferredSchedulingTerm {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) corev1.PreferredSchedulingTerm {
		return corev1.PreferredSchedulingTerm{Weight: rapid.Int32().Draw(t, "weight"), Preference: drawTerm().Draw(t, "preference")}
	}), 0, 2).Draw(t, "preferred")
}

func drawWords(t *rapid.T) []string { return rapid.SliceOfN(word(), 0, 2).Draw(t, "keys") }

func drawTarget(t *rapid.T) appsv1beta1.PersistentPodStateTarget {
	return appsv1beta1.PersistentPodStateTarget{
		APIVersion: word().Draw(t, "version"), Kind: word().Draw(t, "kind"), Name: word().Draw(t, "name"),
	}
}

func drawRecorded(t *rapid.T) []appsv1beta1.PersistentPodAnnotation {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.PersistentPodAnnotation {
		return appsv1beta1.PersistentPodAnnotation{Key: word().Draw(t, "annotation"), Reapply: rapid.Bool().Draw(t, "reapply")}
	}), 0, 2).Draw(t, "annotations")
}

func drawPodStates(t *rapid.T) appsv1beta1.PersistentPodStateStatus {
	state := rapid.Custom(func(t *rapid.T) appsv1beta1.PodState {
		return appsv1beta1.PodState{
			NodeName:           word().Draw(t, "node"),
			NodeTopologyLabels: rapid.MapOfN(word(), word(), 0, 2).Draw(t, "labels"),
			Annotations:        rapid.MapOfN(word(), word(), 0, 2).Draw(t, "values"),
		}
	})
	return appsv1beta1.PersistentPodStateStatus{
		ObservedGeneration: rapid.Int64().Draw(t, "generation"),
		PodStates:          rapid.MapOfN(word(), state, 0, 2).Draw(t, "states"),
		Conditions:         []metav1.Condition{{Type: appsv1beta1.PersistentPodStateActive, Reason: word().Draw(t, "reason")}},
	}
}

func sidecarSetFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.SidecarSet{ObjectMeta: drawSidecarMeta(t), Status: drawSidecarStatus(t), Spec: appsv1beta1.SidecarSetSpec{
		Selector: drawPtr(t, rapid.Custom(drawNamespaceSelector), "selector"), NamespaceSelector: drawSidecarNamespaces(t),
		InitContainers: drawSidecars(t), Containers: drawSidecars(t), Volumes: []corev1.Volume{{Name: word().Draw(t, "volume")}},
		UpdateStrategy: drawSidecarUpdate(t), InjectionStrategy: drawInjection(t),
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: word().Draw(t, "secret")}}, RevisionHistoryLimit: drawPtr(t, rapid.Int32(), "history"),
		PatchPodMetadata: drawPatches(t), CustomVersion: word().Draw(t, "version"),
	}}
	fromHubAndBack(t, in, SidecarSetFromHub, SidecarSetToHub)
}

func sidecarSetToHubAndBack(t *rapid.T) {
	in := &SidecarSet{ObjectMeta: drawSidecarMeta(t), Status: drawSidecarStatus(t), Spec: SidecarSetSpec{
		Selector: drawPtr(t, rapid.Custom(drawNamespaceSelector), "selector"), NamespaceSelector: drawSidecarNamespaces(t),
		Namespace: word().Draw(t, "namespace"), InitContainers: drawSidecars(t), Containers: drawSidecars(t),
		Volumes: []corev1.Volume{{Name: word().Draw(t, "volume")}}, UpdateStrategy: drawSidecarUpdate(t), InjectionStrategy: drawInjection(t),
		ImagePullSecrets: []corev1.LocalObjectReference{{Name: word().Draw(t, "secret")}}, RevisionHistoryLimit: drawPtr(t, rapid.Int32(), "history"),
		PatchPodMetadata: drawPatches(t),
	}}
	toHubAndBack(t, in, SidecarSetFromHub, SidecarSetToHub)
}

// drawSidecarMeta draws metadata with the label that is a field in v1beta1.
func drawSidecarMeta(t *rapid.T) metav1.ObjectMeta {
	meta := drawMeta(t)
	if rapid.Bool().Draw(t, "has a custom version") {
		meta.Labels = with(meta.Labels, keys.SidecarSetCustomVersion, word().Draw(t, "custom version"))
	}
	return meta
}

// drawSidecarNamespaces draws selectors. Some of them are equivalent to a namespace.
func drawSidecarNamespaces(t *rapid.T) *metav1.LabelSelector {
	return drawPtr(t, rapid.Custom(func(t *rapid.T) metav1.LabelSelector {
		key := rapid.SampledFrom([]string{corev1.LabelMetadataName, "team"}).Draw(t, "label")
		return metav1.LabelSelector{MatchLabels: map[string]string{key: word().Draw(t, "value")}}
	}), "namespaces")
}

func drawSidecars(t *rapid.T) []appsv1beta1.SidecarContainer {
	share := rapid.Custom(func(t *rapid.T) appsv1beta1.ShareVolumePolicy {
		return appsv1beta1.ShareVolumePolicy{Type: appsv1beta1.ShareVolumePolicyType(word().Draw(t, "share"))}
	})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) appsv1beta1.SidecarContainer {
		return appsv1beta1.SidecarContainer{
			Container:               corev1.Container{Name: word().Draw(t, "name"), Image: word().Draw(t, "image")},
			PodInjectPolicy:         appsv1beta1.PodInjectPolicy(word().Draw(t, "policy")),
			UpgradeStrategy:         appsv1beta1.SidecarContainerUpgradeStrategy{HotUpgradeEmptyImage: word().Draw(t, "empty")},
			ShareVolumePolicy:       share.Draw(t, "volumes"),
			ShareVolumeDevicePolicy: drawPtr(t, share, "devices"),
			TransferEnv: []appsv1beta1.TransferEnvVar{{
				SourceContainerNameFrom: &appsv1beta1.SourceContainerNameSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: word().Draw(t, "path")}},
				EnvNames:                drawWords(t),
			}},
			ResourcesPolicy: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.SidecarResourcesPolicy {
				return appsv1beta1.SidecarResourcesPolicy{
					TargetContainersMode: appsv1beta1.SidecarTargetMax,
					ResourcesExpr:        appsv1beta1.SidecarResourcesExpr{Limits: &appsv1beta1.SidecarResourceExpr{CPU: word().Draw(t, "cpu")}},
				}
			}), "resources"),
		}
	}), 0, 2).Draw(t, "sidecars")
}

func drawSidecarUpdate(t *rapid.T) appsv1beta1.SidecarSetUpdateStrategy {
	return appsv1beta1.SidecarSetUpdateStrategy{
		Type: appsv1beta1.SidecarSetUpdateStrategyType(word().Draw(t, "type")), Paused: rapid.Bool().Draw(t, "paused"),
		Selector: drawPtr(t, rapid.Custom(drawNamespaceSelector), "canary"), Partition: drawPtr(t, intOrString(), "partition"),
		MaxUnavailable: drawPtr(t, intOrString(), "unavailable"), PriorityStrategy: drawPtr(t, priority(), "priority"),
		ScatterStrategy: []pods.UpdateScatterTerm{drawScatter(t)},
	}
}

func drawInjection(t *rapid.T) appsv1beta1.SidecarSetInjectionStrategy {
	return appsv1beta1.SidecarSetInjectionStrategy{
		Paused: rapid.Bool().Draw(t, "injection paused"),
		Revision: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.SidecarSetInjectRevision {
			return appsv1beta1.SidecarSetInjectRevision{
				CustomVersion: drawPtr(t, word(), "inject version"), RevisionName: drawPtr(t, word(), "inject revision"),
				Policy: appsv1beta1.InjectRevisionPartial,
			}
		}), "revision"),
	}
}

func drawPatches(t *rapid.T) []appsv1beta1.SidecarSetPatchPodMetadata {
	return []appsv1beta1.SidecarSetPatchPodMetadata{{
		Annotations: map[string]string{word().Draw(t, "key"): word().Draw(t, "value")},
		PatchPolicy: appsv1beta1.SidecarSetPatchPolicy(word().Draw(t, "patch policy")),
	}}
}

func drawSidecarStatus(t *rapid.T) appsv1beta1.SidecarSetStatus {
	return appsv1beta1.SidecarSetStatus{
		ObservedGeneration: rapid.Int64().Draw(t, "generation"), MatchedPods: rapid.Int32().Draw(t, "matched"),
		UpdatedPods: rapid.Int32().Draw(t, "updated"), LatestRevision: word().Draw(t, "latest"), CollisionCount: drawPtr(t, rapid.Int32(), "collisions"),
		Conditions: []metav1.Condition{{Type: appsv1beta1.SidecarSetInjected, Reason: word().Draw(t, "reason")}},
	}
}

func statefulSetFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.StatefulSet{ObjectMeta: drawMeta(t), Spec: drawStatefulSetV1beta1(t)}
	in.Status = appsv1beta1.StatefulSetStatus{
		Replicas: rapid.Int32().Draw(t, "replicas"), UpdatedAvailableReplicas: rapid.Int32().Draw(t, "updated available"),
		VolumeClaims: []appsv1beta1.StatefulSetVolumeClaimStatus{{VolumeClaimName: word().Draw(t, "claim")}},
	}
	fromHubAndBack(t, in, StatefulSetFromHub, StatefulSetToHub)
}

func statefulSetToHubAndBack(t *rapid.T) {
	in := &StatefulSet{ObjectMeta: drawMeta(t), Spec: StatefulSetSpec{
		Replicas:             drawPtr(t, rapid.Int32(), "replicas"),
		Selector:             selector(),
		ServiceName:          word().Draw(t, "service"),
		PodManagementPolicy:  appsv1.OrderedReadyPodManagement,
		UpdateStrategy:       drawOrderedUpdate(t),
		RevisionHistoryLimit: drawPtr(t, rapid.Int32(), "history"),
	}}
	toHubAndBack(t, in, StatefulSetFromHub, StatefulSetToHub)
}

func unitedDeploymentFromHubAndBack(t *rapid.T) {
	in := &appsv1beta1.UnitedDeployment{ObjectMeta: drawMeta(t), Spec: appsv1beta1.UnitedDeploymentSpec{
		Replicas:       drawPtr(t, rapid.Int32(), "replicas"),
		Selector:       selector(),
		Topology:       drawTopology(t),
		UpdateStrategy: drawUnitedUpdate(t),
	}}
	in.Status = drawStatus(t)
	switch rapid.SampledFrom([]string{"CloneSet", "Deployment", "StatefulSet", "advanced StatefulSet"}).Draw(t, "template") {
	case "CloneSet":
		in.Spec.Template.CloneSetTemplate = &appsv1beta1.CloneSetTemplateSpec{
			ObjectMeta: drawMeta(t), Spec: drawCloneSetV1beta1(t),
		}
	case "Deployment":
		in.Spec.Template.DeploymentTemplate = &appsv1beta1.DeploymentTemplateSpec{ObjectMeta: drawMeta(t)}
	case "StatefulSet":
		in.Spec.Template.StatefulSetTemplate = &appsv1beta1.StatefulSetTemplateSpec{ObjectMeta: drawMeta(t)}
	default:
		in.Spec.Template.AdvancedStatefulSetTemplate = &appsv1beta1.AdvancedStatefulSetTemplateSpec{
			ObjectMeta: drawMeta(t), Spec: drawStatefulSetV1beta1(t),
		}
	}
	fromHubAndBack(t, in, UnitedDeploymentFromHub, UnitedDeploymentToHub)
}

func unitedDeploymentToHubAndBack(t *rapid.T) {
	hub := drawTopology(t)
	topology := Topology{Subsets: hub.Subsets, Placement: hub.Placement, ScheduleStrategy: ScheduleStrategy{Type: hub.ScheduleStrategy.Type}}
	if a := hub.ScheduleStrategy.Adaptive; a != nil {
		topology.ScheduleStrategy.Adaptive = &AdaptiveScheduleStrategy{
			RescheduleCriticalSeconds: a.RescheduleCriticalSeconds, UnschedulableDuration: a.UnschedulableDuration,
			UnschedulableLastSeconds: drawPtr(t, rapid.Int32(), "last"), ReserveUnschedulablePods: a.ReserveUnschedulablePods,
		}
	}
	in := &UnitedDeployment{ObjectMeta: drawMeta(t), Spec: UnitedDeploymentSpec{
		Selector:       selector(),
		Topology:       topology,
		UpdateStrategy: drawUnitedUpdate(t),
		Template: SubsetTemplate{CloneSetTemplate: &CloneSetTemplateSpec{
			ObjectMeta: drawMeta(t), Spec: drawCloneSetV1alpha1(t),
		}},
	}}
	toHubAndBack(t, in, UnitedDeploymentFromHub, UnitedDeploymentToHub)
}

// wire encodes and decodes an object, so that values that JSON doesn't distinguish become equal.
func wire[T any](t *rapid.T, in *T) *T {
	raw, err := json.Marshal(in)
	require.NoError(t, err)
	var out T
	require.NoError(t, json.Unmarshal(raw, &out))
	return &out
}

// drawMeta draws metadata with all keys that the conversion reads, except its own.
func drawMeta(t *rapid.T) metav1.ObjectMeta {
	value := rapid.SampledFrom([]string{"", "true", "false", "5", "-1", "+5", "007", "10%", "soon", "99999999999", "<&>"})
	meta := metav1.ObjectMeta{Name: "web"}
	for _, key := range []string{
		keys.ImagePreDownloadParallelism, keys.ImagePreDownloadTimeoutSeconds, keys.ImagePreDownloadMinUpdatedReadyPods,
		keys.DaemonSetProgressiveCreate, "mine",
	} {
		if rapid.Bool().Draw(t, "has "+key) {
			meta.Annotations = with(meta.Annotations, key, value.Draw(t, key))
		}
	}
	for _, key := range []string{keys.CloneSetExcludePreparingDelete, "app"} {
		if rapid.Bool().Draw(t, "has "+key) {
			meta.Labels = with(meta.Labels, key, value.Draw(t, key))
		}
	}
	return meta
}

func drawPtr[T any](t *rapid.T, g *rapid.Generator[T], label string) *T {
	return rapid.Ptr(g, true).Draw(t, label)
}

func intOrString() *rapid.Generator[intstr.IntOrString] {
	return rapid.OneOf(
		rapid.Map(rapid.Int32(), intstr.FromInt32),
		rapid.Map(rapid.SampledFrom([]string{"", "0%", "30%", "5", "half"}), intstr.FromString),
	)
}

// word draws strings, some of which JSON has to escape.
func word() *rapid.Generator[string] {
	return rapid.SampledFrom([]string{"", "a", "b-1", "<&>", "\"\\", "\u2028é", "\x00"})
}

func priority() *rapid.Generator[pods.UpdatePriorityStrategy] {
	return rapid.SampledFrom([]pods.UpdatePriorityStrategy{
		{},
		{OrderPriority: []pods.UpdatePriorityOrderTerm{{OrderedKey: "n"}, {}}},
		{WeightPriority: []pods.UpdatePriorityWeightTerm{{Weight: 7, MatchSelector: *selector()}, {}}},
	})
}

func drawScatter(t *rapid.T) pods.UpdateScatterTerm {
	return pods.UpdateScatterTerm{Key: word().Draw(t, "key"), Value: word().Draw(t, "value")}
}

func drawLifecycle(t *rapid.T) pods.Lifecycle {
	return pods.Lifecycle{PreDelete: &pods.LifecycleHook{
		LabelsHandler:     map[string]string{word().Draw(t, "key"): word().Draw(t, "value")},
		FinalizersHandler: rapid.SliceOfN(word(), 0, 2).Draw(t, "finalizers"),
		MarkPodNotReady:   rapid.Bool().Draw(t, "not ready"),
	}}
}

func drawInPlace(t *rapid.T) *pods.InPlaceUpdateStrategy {
	if !rapid.Bool().Draw(t, "in place") {
		return nil
	}
	return &pods.InPlaceUpdateStrategy{
		GracePeriodSeconds:                  rapid.Int32().Draw(t, "grace"),
		ImagePreDownloadParallelism:         drawPtr(t, intOrString(), "parallelism"),
		ImagePreDownloadTimeoutSeconds:      drawPtr(t, rapid.Int32(), "timeout"),
		ImagePreDownloadMinUpdatedReadyPods: drawPtr(t, rapid.Int32(), "min ready"),
	}
}

func drawRolling(t *rapid.T) *appsv1beta1.CloneSetRollingUpdateStrategy {
	if !rapid.Bool().Draw(t, "rolling update") {
		return nil
	}
	return &appsv1beta1.CloneSetRollingUpdateStrategy{
		Partition:      drawPtr(t, intOrString(), "partition"),
		MaxUnavailable: drawPtr(t, intOrString(), "max unavailable"),
		MaxSurge:       drawPtr(t, intOrString(), "max surge"),
		Paused:         rapid.Bool().Draw(t, "paused"),
		PodUpdatePolicy: rapid.SampledFrom([]appsv1beta1.PodUpdatePolicy{
			"", appsv1beta1.PodReCreate, appsv1beta1.PodInPlaceIfPossible, appsv1beta1.PodInPlaceOnly, "OnDelete", "?",
		}).Draw(t, "policy"),
		PriorityStrategy:      drawPtr(t, priority(), "priority"),
		ScatterStrategy:       rapid.SliceOfN(rapid.Custom(drawScatter), 0, 2).Draw(t, "scatter"),
		InPlaceUpdateStrategy: drawInPlace(t),
	}
}

func drawDaemonUpdate(t *rapid.T) appsv1beta1.DaemonSetUpdateStrategy {
	out := appsv1beta1.DaemonSetUpdateStrategy{
		Type: rapid.SampledFrom([]appsv1beta1.DaemonSetUpdateStrategyType{"", "RollingUpdate", "OnDelete", "?"}).Draw(t, "type"),
	}
	if rapid.Bool().Draw(t, "rolling update") {
		out.RollingUpdate = &appsv1beta1.DaemonSetRollingUpdateStrategy{
			Type: rapid.SampledFrom([]appsv1beta1.DaemonSetRollingUpdateType{
				"", appsv1beta1.DaemonSetStandard, appsv1beta1.DaemonSetInPlaceIfPossible, appsv1beta1.DaemonSetSurging, "?",
			}).Draw(t, "rolling update type"),
			MaxUnavailable: drawPtr(t, intOrString(), "max unavailable"),
			MaxSurge:       drawPtr(t, intOrString(), "max surge"),
			Selector:       drawPtr(t, rapid.Just(*selector()), "selector"),
			Partition:      drawPtr(t, intOrString(), "partition"),
			Paused:         rapid.Bool().Draw(t, "paused"),
		}
	}
	return out
}

func drawOrderedUpdate(t *rapid.T) appsv1beta1.StatefulSetUpdateStrategy {
	out := appsv1beta1.StatefulSetUpdateStrategy{
		Type: rapid.SampledFrom([]appsv1.StatefulSetUpdateStrategyType{"", "RollingUpdate", "OnDelete"}).Draw(t, "type"),
	}
	if rapid.Bool().Draw(t, "rolling update") {
		out.RollingUpdate = &appsv1beta1.StatefulSetRollingUpdateStrategy{
			Partition:             drawPtr(t, rapid.Int32(), "partition"),
			MaxUnavailable:        drawPtr(t, intOrString(), "max unavailable"),
			PodUpdatePolicy:       appsv1beta1.PodInPlaceOnly,
			Paused:                rapid.Bool().Draw(t, "paused"),
			UnorderedUpdate:       &appsv1beta1.StatefulSetUnorderedUpdate{PriorityStrategy: drawPtr(t, priority(), "priority")},
			InPlaceUpdateStrategy: drawInPlace(t),
			MinReadySeconds:       drawPtr(t, rapid.Int32(), "min ready seconds"),
		}
	}
	return out
}

func drawStatefulSetV1beta1(t *rapid.T) appsv1beta1.StatefulSetSpec {
	return appsv1beta1.StatefulSetSpec{
		Replicas:            drawPtr(t, rapid.Int32(), "replicas"),
		Selector:            selector(),
		ServiceName:         word().Draw(t, "service"),
		PodManagementPolicy: appsv1.ParallelPodManagement,
		UpdateStrategy:      drawOrderedUpdate(t),
		ReserveOrdinals:     rapid.SliceOfN(intOrString(), 0, 3).Draw(t, "reserved"),
		Ordinals:            drawPtr(t, rapid.SampledFrom([]appsv1.StatefulSetOrdinals{{}, {Start: 3}}), "ordinals"),
		ScaleStrategy: drawPtr(t, rapid.Just(appsv1beta1.StatefulSetScaleStrategy{
			MaxUnavailable: drawPtr(t, intOrString(), "scale max unavailable"),
		}), "scale"),
		PersistentVolumeClaimRetentionPolicy: drawPtr(t, rapid.SampledFrom([]appsv1beta1.StatefulSetClaimRetentionPolicy{
			{}, {WhenDeleted: "Retain", WhenScaled: "Retain"}, {WhenScaled: "Delete"},
		}), "retention"),
		VolumeClaimUpdateStrategy: appsv1beta1.StatefulSetVolumeClaimUpdateStrategy{
			Type: rapid.SampledFrom([]appsv1beta1.StatefulSetClaimUpdateType{
				"", appsv1beta1.StatefulSetClaimOnDelete, appsv1beta1.StatefulSetClaimOnPodRollingUpdate,
			}).Draw(t, "claim update"),
		},
		VolumeClaimTemplates: rapid.SampledFrom([][]corev1.PersistentVolumeClaim{
			nil, {{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		}).Draw(t, "claims"),
		RevisionHistoryLimit: drawPtr(t, rapid.Int32(), "history"),
		Lifecycle:            drawPtr(t, rapid.Custom(drawLifecycle), "lifecycle"),
	}
}

func drawCloneSetV1beta1(t *rapid.T) appsv1beta1.CloneSetSpec {
	return appsv1beta1.CloneSetSpec{
		Replicas: drawPtr(t, rapid.Int32(), "replicas"),
		Selector: selector(),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: word().Draw(t, "template")}},
		VolumeClaimTemplates: rapid.SampledFrom([][]corev1.PersistentVolumeClaim{
			nil, {{ObjectMeta: metav1.ObjectMeta{Name: "data"}}},
		}).Draw(t, "claims"),
		ScaleStrategy: appsv1beta1.CloneSetScaleStrategy{
			PodsToDelete:           rapid.SliceOfN(word(), 0, 2).Draw(t, "pods to delete"),
			MaxUnavailable:         drawPtr(t, intOrString(), "scale max unavailable"),
			EnablePVCReuse:         rapid.Bool().Draw(t, "reuse"),
			ExcludePreparingDelete: rapid.Bool().Draw(t, "exclude"),
		},
		UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{
			Type: rapid.SampledFrom([]appsv1beta1.CloneSetUpdateStrategyType{
				"", appsv1beta1.CloneSetRollingUpdate, appsv1beta1.CloneSetOnDelete, "InPlaceOnly",
			}).Draw(t, "type"),
			RollingUpdate: drawRolling(t),
		},
		RevisionHistoryLimit:    drawPtr(t, rapid.Int32(), "history"),
		MinReadySeconds:         rapid.Int32().Draw(t, "min ready seconds"),
		ProgressDeadlineSeconds: drawPtr(t, rapid.Int32(), "deadline"),
		Lifecycle:               drawPtr(t, rapid.Custom(drawLifecycle), "lifecycle"),
	}
}

func drawCloneSetV1alpha1(t *rapid.T) SubsetCloneSetSpec {
	return SubsetCloneSetSpec{
		Replicas: drawPtr(t, rapid.Int32(), "replicas"),
		Selector: selector(),
		Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{NodeName: word().Draw(t, "template")}},
		ScaleStrategy: SubsetCloneSetScaleStrategy{
			CloneSetScaleStrategy: CloneSetScaleStrategy{
				PodsToDelete:    rapid.SliceOfN(word(), 0, 2).Draw(t, "pods to delete"),
				MaxUnavailable:  drawPtr(t, intOrString(), "scale max unavailable"),
				DisablePVCReuse: rapid.Bool().Draw(t, "disable reuse"),
			},
			EnablePVCReuse:         drawPtr(t, rapid.Bool(), "enable reuse"),
			ExcludePreparingDelete: drawPtr(t, rapid.Bool(), "exclude"),
		},
		UpdateStrategy: SubsetCloneSetUpdateStrategy{
			CloneSetUpdateStrategy: CloneSetUpdateStrategy{
				Type: rapid.SampledFrom([]CloneSetUpdateStrategyType{
					"", CloneSetReCreate, CloneSetInPlaceIfPossible, CloneSetInPlaceOnly, CloneSetOnDelete, "RollingUpdate", "?",
				}).Draw(t, "type"),
				Partition:             drawPtr(t, intOrString(), "partition"),
				MaxUnavailable:        drawPtr(t, intOrString(), "max unavailable"),
				MaxSurge:              drawPtr(t, intOrString(), "max surge"),
				Paused:                rapid.Bool().Draw(t, "paused"),
				PriorityStrategy:      drawPtr(t, priority(), "priority"),
				ScatterStrategy:       rapid.SliceOfN(rapid.Custom(drawScatter), 0, 2).Draw(t, "scatter"),
				InPlaceUpdateStrategy: drawInPlace(t),
			},
			RollingUpdate: drawRolling(t),
		},
		MinReadySeconds: rapid.Int32().Draw(t, "min ready seconds"),
		Lifecycle:       drawPtr(t, rapid.Custom(drawLifecycle), "lifecycle"),
	}
}

func drawTopology(t *rapid.T) appsv1beta1.Topology {
	subset := rapid.Custom(func(t *rapid.T) appsv1beta1.Subset {
		return appsv1beta1.Subset{
			Name:            word().Draw(t, "name"),
			Replicas:        drawPtr(t, intOrString(), "replicas"),
			MinReplicas:     drawPtr(t, intOrString(), "min"),
			MaxReplicas:     drawPtr(t, intOrString(), "max"),
			Cluster:         word().Draw(t, "cluster"),
			Ordinals:        drawPtr(t, rapid.SampledFrom([]appsv1beta1.SubsetOrdinals{{Start: 7}, {End: new(int32(9))}}), "ordinals"),
			ClusterSelector: drawPtr(t, rapid.SampledFrom([]metav1.LabelSelector{{}, *selector()}), "selector"),
			Patch: rapid.SampledFrom([]*runtime.RawExtension{
				nil, {Raw: []byte(`{"spec":{"new":[1,"<",null]}}`)},
			}).Draw(t, "patch"),
		}
	})
	return appsv1beta1.Topology{
		ScheduleStrategy: appsv1beta1.UnitedDeploymentScheduleStrategy{
			Type: appsv1beta1.UnitedDeploymentScheduleStrategyType(word().Draw(t, "strategy")),
			Adaptive: drawPtr(t, rapid.Custom(func(t *rapid.T) appsv1beta1.AdaptiveScheduleStrategy {
				return appsv1beta1.AdaptiveScheduleStrategy{
					RescheduleCriticalSeconds: drawPtr(t, rapid.Int32(), "critical"), UnschedulableDuration: drawPtr(t, rapid.Int32(), "duration"),
					ReserveUnschedulablePods: rapid.Bool().Draw(t, "reserve"),
				}
			}), "adaptive"),
		},
		Subsets: rapid.SliceOfN(subset, 0, 3).Draw(t, "subsets"),
		Placement: drawPtr(t, rapid.Just(pods.Placement{
			Tolerations: []fleetv1alpha1.ClusterToleration{
				{Key: word().Draw(t, "tolerated"), Effect: fleetv1alpha1.Evict, TolerationSeconds: drawPtr(t, rapid.Int64(), "for seconds")},
			},
			Reallocation: &pods.Reallocation{MaxSurge: drawPtr(t, intOrString(), "surge")},
		}), "placement"),
	}
}

func drawUnitedUpdate(t *rapid.T) appsv1beta1.UnitedDeploymentUpdateStrategy {
	numbers := func(label string) map[string]int32 {
		return rapid.MapOfN(word(), rapid.Int32(), 0, 2).Draw(t, label)
	}
	out := appsv1beta1.UnitedDeploymentUpdateStrategy{
		Type: rapid.SampledFrom([]appsv1beta1.UnitedDeploymentUpdateStrategyType{"", "Manual", "Waves"}).Draw(t, "type of update"),
	}
	if rapid.Bool().Draw(t, "manual") {
		out.ManualUpdate = &appsv1beta1.ManualUpdate{Partitions: numbers("partitions"), MaxUnavailable: numbers("unavailable")}
	}
	if rapid.Bool().Draw(t, "rollout") {
		out.Rollout = &pods.RolloutPlan{
			Paused: rapid.Bool().Draw(t, "paused"), StaleClusters: rapid.SampledFrom([]pods.StaleClustersPolicy{"", "Skip"}).Draw(t, "stale clusters"),
		}
		if rapid.Bool().Draw(t, "waves") {
			out.Rollout.Waves = []pods.RolloutWave{{
				Name: word().Draw(t, "wave"), Clusters: []string{word().Draw(t, "cluster")}, Pods: new(rapid.Int32().Draw(t, "pods")),
				Gates: []pods.RolloutGate{{Type: pods.SoakGate, Seconds: new(rapid.Int32().Draw(t, "seconds"))}},
			}}
		}
	}
	return out
}

func drawStatus(t *rapid.T) appsv1beta1.UnitedDeploymentStatus {
	subset := rapid.Custom(func(t *rapid.T) appsv1beta1.SubsetStatus {
		return appsv1beta1.SubsetStatus{
			Name:               word().Draw(t, "name"),
			Cluster:            word().Draw(t, "cluster"),
			Stale:              rapid.Bool().Draw(t, "stale"),
			ObservedGeneration: rapid.Int64().Draw(t, "generation"),
			Replicas:           rapid.Int32().Draw(t, "replicas"),
			UpdatedReplicas:    rapid.Int32().Draw(t, "updated"),
			AvailableReplicas:  rapid.Int32().Draw(t, "available"),
			Partition:          rapid.Int32().Draw(t, "partition"),
			Reason:             word().Draw(t, "reason"),

			UpdatedAvailableReplicas: rapid.Int32().Draw(t, "updated available"),
		}
	})
	var rollout *pods.RolloutStatus
	if rapid.Bool().Draw(t, "rollout") {
		rollout = &pods.RolloutStatus{Budget: pods.RolloutBudget{Max: rapid.Int32().Draw(t, "max")}, Message: word().Draw(t, "message")}
		if rapid.Bool().Draw(t, "waves") {
			rollout.Wave = word().Draw(t, "wave")
			rollout.Waves = []pods.RolloutWaveStatus{{Name: word().Draw(t, "name"), Updated: rapid.Int32().Draw(t, "updated")}}
		}
	}
	return appsv1beta1.UnitedDeploymentStatus{
		ObservedGeneration:  rapid.Int64().Draw(t, "generation"),
		Replicas:            rapid.Int32().Draw(t, "replicas"),
		AvailableReplicas:   rapid.Int32().Draw(t, "available"),
		UnallocatedReplicas: rapid.Int32().Draw(t, "unallocated"),
		StaleClusters:       rapid.Int32().Draw(t, "stale"),
		CurrentRevision:     word().Draw(t, "current"),
		UpdatedRevision:     word().Draw(t, "updated revision"),
		CollisionCount:      drawPtr(t, rapid.Int32(), "collisions"),
		SubsetStatuses:      rapid.SliceOfN(subset, 0, 3).Draw(t, "subsets"),
		LabelSelector:       word().Draw(t, "selector"),
		Rollout:             rollout,

		UpdatedAvailableReplicas: rapid.Int32().Draw(t, "updated available"),
	}
}
