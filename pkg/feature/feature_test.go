package feature

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/component-base/featuregate"
)

func TestGates(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		set  string
		on   bool
		want string
	}{
		{name: "a gate is at its default when it is not set"},
		{name: "a gate is set by name", set: "TemplateNoDefaults=true", on: true},
		{name: "spaces around a name are ignored", set: " TemplateNoDefaults = true ", on: true},
		{name: "a whole stage is set at once", set: "AllAlpha=true", on: true},
		{name: "a gate's own value takes precedence over its stage's", set: "AllAlpha=true,TemplateNoDefaults=false"},
		{name: "a gate of OpenKruise beside a served one is set", set: "KruiseDaemon=false,TemplateNoDefaults=true", on: true},
		{name: "an unknown gate is rejected with the list of known ones", set: "NoSuchGate=true", want: "unrecognized feature gate: NoSuchGate; known gates: AllAlpha"},
		{name: "a gate that this program doesn't read is rejected", set: "CloneSetShortHash=true", want: "unrecognized feature gate: CloneSetShortHash"},
		{name: "names are case-sensitive", set: "templatenodefaults=true", want: "unrecognized feature gate"},
		{name: "a value is required", set: "TemplateNoDefaults", want: "missing bool value"},
		{name: "a value must be a bool", set: "TemplateNoDefaults=maybe", want: "invalid value"},
		{name: "a gate of OpenKruise that is not served is accepted", set: "EnableExternalCerts=true,TemplateNoDefaults=true", on: true},
		{name: "a gate of OpenKruise needs a bool, too", set: "KruiseDaemon=off!", want: `feature gate KruiseDaemon: value "off!" is not a bool`},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			g, err := New(TemplateNoDefaults)
			require.NoError(t, err)
			err = g.Set(tc.set)
			if tc.want != "" {
				require.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			require.Equal(t, tc.on, g.Enabled(TemplateNoDefaults))
		})
	}
}

func TestEveryFormerGateIsAcceptedWithANote(t *testing.T) {
	t.Parallel()
	for name := range unservedGates() {
		for _, value := range []string{"true", "false"} {
			g, err := New(TemplateNoDefaults)
			require.NoError(t, err)
			require.NoError(t, g.Set(name+"="+value))
			require.Len(t, g.Notes(), 1)
			require.Contains(t, g.Notes()[0], "feature gate "+name+"="+value+" has no effect: ")
		}
	}
}

func TestNotesSayWhyAGateHasNoEffect(t *testing.T) {
	t.Parallel()
	g, err := New(CloneSetShortHash)
	require.NoError(t, err)
	require.NoError(t, g.Set("KruisePodReadinessGate=false,EnableExternalCerts=true,CloneSetShortHash=true,ForceDeleteTimeoutExpectationGate=true,CloneSetEventHandlerOptimization=false"))
	require.True(t, g.Enabled(CloneSetShortHash))
	require.Equal(t, []string{
		"feature gate KruisePodReadinessGate=false has no effect: a readiness gate in all pods is not served yet",
		"feature gate EnableExternalCerts=true has no effect: --webhook-external-cert and the chart's externalCerts.secretName select an external certificate",
		"feature gate ForceDeleteTimeoutExpectationGate=true has no effect: after --expectation-timeout, pods are always read from the apiserver, so nothing stays stuck",
		"feature gate CloneSetEventHandlerOptimization=false has no effect: all pod events are handled, and a reconcile without work writes nothing",
	}, g.Notes())
}

func TestNoGateIsBothServedAndFormer(t *testing.T) {
	t.Parallel()
	for f := range specs() {
		require.NotContains(t, unservedGates(), string(f))
	}
	for name, gate := range unservedGates() {
		require.NotEqual(t, gate.settled == "", gate.missing == "", name)
	}
}

func TestAGateWithoutAStageIsAnError(t *testing.T) {
	t.Parallel()
	_, err := New("NoSuchGate")
	require.ErrorContains(t, err, "feature gate NoSuchGate has no stage")
}

func TestDefaultsAreThoseOfOpenKruise(t *testing.T) {
	t.Parallel()
	for f, on := range map[string]bool{
		"TemplateNoDefaults": false, "CloneSetShortHash": false, "CloneSetPartitionRollback": false,
		"PreparingUpdateAsUpdate": false, "InPlaceWorkloadVerticalScaling": false, "InPlaceUpdateEnvFromMetadata": true,
		"RecreatePodWhenChangeVCTInCloneSetGate": false,
		"StatefulSetStartOrdinal":                false, "StatefulSetAutoDeletePVC": true, "StatefulSetAutoResizePVCGate": false,
		"PodWebhook": true, "PodUnavailableBudgetDeleteGate": true, "PodUnavailableBudgetUpdateGate": false,
		"ResourceDistributionGate": false, "ResourcesDeletionProtection": false, "DeletionProtectionForCRDCascadingGate": false,
		"WorkloadSpread": true, "SidecarTerminator": false, "SidecarSetPatchPodMetadataDefaultsAllowed": false, "EnableSortSidecarContainerByName": false,
		"ImagePullJobGate": false, "PreDownloadImageForInPlaceUpdate": false, "PreDownloadImageForDaemonSetUpdate": false,
		"PodProbeMarkerGate": true, "EnablePodProbeMarkerOnServerless": false, "EnhancedLivenessProbe": false,
	} {
		spec, ok := specs()[featuregate.Feature(f)]
		require.True(t, ok, f)
		require.Equal(t, on, spec.Default, f)
	}
	require.Len(t, specs(), 26)
}

func TestStringIsWhatDiffersFromTheDefaults(t *testing.T) {
	t.Parallel()
	require.Empty(t, (&Gates{}).String())
	g, err := New(TemplateNoDefaults, InPlaceUpdateEnvFromMetadata)
	require.NoError(t, err)
	require.Empty(t, g.String())
	require.NoError(t, g.Set("TemplateNoDefaults=true,InPlaceUpdateEnvFromMetadata=false"))
	require.Equal(t, "InPlaceUpdateEnvFromMetadata=false,TemplateNoDefaults=true", g.String())
}

func TestEitherGateOfThePreDownloadHasImagesPulled(t *testing.T) {
	t.Parallel()
	for _, gate := range []featuregate.Feature{ImagePullJob, PreDownloadForInPlaceUpdate, PreDownloadForDaemonSetUpdate} {
		g, err := New(ImagePullJob, PreDownloadForInPlaceUpdate, PreDownloadForDaemonSetUpdate)
		require.NoError(t, err)
		require.False(t, PullsImages(g))
		require.Equal(t, gate, Off(g, gate))
		require.NoError(t, g.Set(string(gate)+"=true"))
		require.True(t, PullsImages(g), gate)
		require.Empty(t, Off(g, gate))
	}
}
