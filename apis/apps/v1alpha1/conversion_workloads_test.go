package v1alpha1

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func stsToHub(tb testing.TB, in *StatefulSet) *appsv1beta1.StatefulSet {
	tb.Helper()
	out := &appsv1beta1.StatefulSet{}
	require.NoError(tb, StatefulSetToHub(tb.Context(), in, out))
	return out
}

func stsFromHub(tb testing.TB, in *appsv1beta1.StatefulSet) *StatefulSet {
	tb.Helper()
	out := &StatefulSet{}
	require.NoError(tb, StatefulSetFromHub(tb.Context(), in, out))
	return out
}

func dsToHub(tb testing.TB, in *DaemonSet) *appsv1beta1.DaemonSet {
	tb.Helper()
	out := &appsv1beta1.DaemonSet{}
	require.NoError(tb, DaemonSetToHub(tb.Context(), in, out))
	return out
}

func dsFromHub(tb testing.TB, in *appsv1beta1.DaemonSet) *DaemonSet {
	tb.Helper()
	out := &DaemonSet{}
	require.NoError(tb, DaemonSetFromHub(tb.Context(), in, out))
	return out
}

// #2102, B 6: a write by a tool that knows only v1alpha1 must keep fields that exist only in v1beta1.
func TestAStatefulSetEditedInV1alpha1KeepsWhatOnlyV1beta1Says(t *testing.T) {
	t.Parallel()
	stored := parse[appsv1beta1.StatefulSet](t, `{"metadata":{"name":"db","annotations":{"mine":"x"}},"spec":{
		"replicas":3,"serviceName":"db","podManagementPolicy":"Parallel",
		"updateStrategy":{"type":"RollingUpdate","rollingUpdate":{"partition":1,"maxUnavailable":"50%"}},
		"reserveOrdinals":[1,"4-6"],"ordinals":{"start":2},"scaleStrategy":{"maxUnavailable":2},
		"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"},"volumeClaimUpdateStrategy":{"type":"OnPodRollingUpdate"},
		"lifecycle":{"preDelete":{"finalizersHandler":["example.com/drain"]}}},
		"status":{"replicas":3,"updatedAvailableReplicas":2,"volumeClaims":[{"volumeClaimName":"data"}]}}`)
	before := stored.DeepCopy()
	seen := stsFromHub(t, stored)
	require.Equal(t, []string{partLater}, keptParts(t, seen.Annotations))
	require.Equal(t, stored.Status, seen.Status, "the status is the same in both versions")

	seen.Spec.Replicas = new(int32(9))
	seen.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(0))
	want := stored.DeepCopy()
	want.Spec.Replicas = new(int32(9))
	want.Spec.UpdateStrategy.RollingUpdate.Partition = new(int32(0))
	require.Empty(t, cmp.Diff(want, stsToHub(t, seen)))
	require.Empty(t, cmp.Diff(before, stored), "the source was changed")
}

func TestAStatefulSetWithTheDefaultsNeedsNothingKept(t *testing.T) {
	t.Parallel()
	written := parse[StatefulSet](t, `{"metadata":{"name":"db"},"spec":{"serviceName":"db"}}`)
	stored := stsToHub(t, written)
	require.Equal(t, &appsv1beta1.StatefulSetClaimRetentionPolicy{
		WhenDeleted: appsv1.RetainPersistentVolumeClaimRetentionPolicyType, WhenScaled: appsv1.RetainPersistentVolumeClaimRetentionPolicyType,
	}, stored.Spec.PersistentVolumeClaimRetentionPolicy)
	require.Equal(t, appsv1beta1.StatefulSetClaimOnDelete, stored.Spec.VolumeClaimUpdateStrategy.Type)
	require.Empty(t, stored.Annotations)
	require.Empty(t, cmp.Diff(written, stsFromHub(t, stored)))
}

func TestAnAnnotationThatIsNotTrustedGivesTheDefaults(t *testing.T) {
	t.Parallel()
	plain := parse[StatefulSet](t, `{"metadata":{"name":"db"}}`)
	forged := plain.DeepCopy()
	forged.Annotations = map[string]string{keys.ConversionData: `{"words":"v1beta1","parts":{"laterFields":{"was":[7],"as":{}}}}`}
	require.Empty(t, cmp.Diff(stsToHub(t, plain), stsToHub(t, forged)))
}

func TestDaemonSetToHubFollowsTheRules(t *testing.T) {
	t.Parallel()
	standard := func(surge, unavailable *intstr.IntOrString) *appsv1beta1.DaemonSetRollingUpdateStrategy {
		return &appsv1beta1.DaemonSetRollingUpdateStrategy{Type: appsv1beta1.DaemonSetStandard, MaxSurge: surge, MaxUnavailable: unavailable}
	}
	tests := []struct {
		name        string
		in          string
		scale       *appsv1beta1.DaemonSetScaleStrategy
		rolling     *appsv1beta1.DaemonSetRollingUpdateStrategy
		annotations map[string]string
		kept        []string
	}{
		{name: "An empty DaemonSet stays empty.", in: `{}`},
		{
			name:  "The annotation with true becomes partitionedScaling, and is removed.",
			in:    `{"metadata":{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true","mine":"x"}}}`,
			scale: &appsv1beta1.DaemonSetScaleStrategy{PartitionedScaling: true}, annotations: map[string]string{"mine": "x"},
		},
		{
			name:        "The annotation with another value has no effect, and stays.",
			in:          `{"metadata":{"annotations":{"daemonset.kruise.io/progressive-create-pod":"1"}}}`,
			annotations: map[string]string{keys.DaemonSetProgressiveCreate: "1"},
		},
		{
			name:    "Surging is Standard with a surge of 1, and the type is preserved.",
			in:      `{"spec":{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging"}}}}`,
			rolling: standard(new(intstr.FromInt32(1)), nil), kept: []string{partSurge},
		},
		{
			name:    "Surging with a surge keeps that.",
			in:      `{"spec":{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging","maxSurge":"10%","maxUnavailable":0}}}}`,
			rolling: standard(new(intstr.FromString("10%")), new(intstr.FromInt32(0))), kept: []string{partSurge},
		},
		{
			name:    "Standard stays as it is.",
			in:      `{"spec":{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Standard","maxUnavailable":"20%"}}}}`,
			rolling: standard(nil, new(intstr.FromString("20%"))),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := parse[DaemonSet](t, tt.in)
			before := in.DeepCopy()
			out := dsToHub(t, in)
			require.Equal(t, tt.scale, out.Spec.ScaleStrategy)
			require.Empty(t, cmp.Diff(tt.rolling, out.Spec.UpdateStrategy.RollingUpdate))
			require.Empty(t, cmp.Diff(tt.annotations, without(out.Annotations, keys.ConversionData)))
			require.ElementsMatch(t, tt.kept, keptParts(t, out.Annotations))
			require.Empty(t, cmp.Diff(before, in), "the source was changed")
			require.Empty(t, cmp.Diff(in, dsFromHub(t, out)), "converting back gives a different object")
		})
	}
}

// An object that is applied repeatedly in v1alpha1 and compared with the response must not differ in the type for a surge.
func TestADaemonSetKeepsItsWordForASurgeWhenDefaultsAreFilledIn(t *testing.T) {
	t.Parallel()
	in := parse[DaemonSet](t, `{"spec":{"updateStrategy":{"rollingUpdate":{"rollingUpdateType":"Surging"}}}}`)
	stored := dsToHub(t, in)
	stored.Spec.UpdateStrategy.Type = appsv1beta1.DaemonSetRollingUpdate
	stored.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(0))
	want := in.DeepCopy()
	want.Spec.UpdateStrategy.Type = appsv1beta1.DaemonSetRollingUpdate
	want.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(0))
	seen := dsFromHub(t, stored)
	require.Empty(t, cmp.Diff(want.Spec, seen.Spec))

	stored.Spec.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(2))
	want.Spec.UpdateStrategy.RollingUpdate.Type = appsv1beta1.DaemonSetStandard
	want.Spec.UpdateStrategy.RollingUpdate.MaxSurge = new(intstr.FromInt32(2))
	require.Empty(t, cmp.Diff(want.Spec, dsFromHub(t, stored).Spec), "another surge is not the meaning of the type")
}

func TestDaemonSetFromHubFollowsTheRules(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name        string
		in          string
		annotations map[string]string
		kept        []string
	}{
		{
			name:        "partitionedScaling becomes the annotation.",
			in:          `{"spec":{"scaleStrategy":{"partitionedScaling":true}}}`,
			annotations: map[string]string{keys.DaemonSetProgressiveCreate: "true"},
		},
		{
			name: "partitionedScaling that is false becomes no annotation, and is preserved.",
			in:   `{"spec":{"scaleStrategy":{}}}`, kept: []string{partScale},
		},
		{
			name: "An annotation without effect in v1beta1 does not get one.",
			in:   `{"metadata":{"annotations":{"daemonset.kruise.io/progressive-create-pod":"true"}}}`, kept: []string{partScale},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := parse[appsv1beta1.DaemonSet](t, tt.in)
			out := dsFromHub(t, in)
			require.Empty(t, cmp.Diff(tt.annotations, without(out.Annotations, keys.ConversionData)))
			require.ElementsMatch(t, tt.kept, keptParts(t, out.Annotations))
			require.Empty(t, cmp.Diff(in, dsToHub(t, out)), "converting back gives a different object")
		})
	}
}

func TestTheHashOfADaemonSetHasTwoNames(t *testing.T) {
	t.Parallel()
	stored := parse[appsv1beta1.DaemonSet](t, `{"status":{"numberReady":2,"updateRevision":"8bfc85979"}}`)
	seen := dsFromHub(t, stored)
	require.Equal(t, "8bfc85979", seen.Status.DaemonSetHash)
	require.Equal(t, int32(2), seen.Status.NumberReady)
	require.Empty(t, cmp.Diff(stored, dsToHub(t, seen)))
	require.Equal(t, "966448fd5", dsToHub(t, parse[DaemonSet](t, `{"status":{"daemonSetHash":"966448fd5"}}`)).Status.UpdateRevision)
}
