package podset

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
)

var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func TestLabel(t *testing.T) {
	t.Parallel()
	require.Equal(t, "web-abc", Label("web-abc", false))
	require.Equal(t, "abc", Label("web-abc", true))
	require.Equal(t, "abc", Label(strings.Repeat("x", 60)+"-abc", false), "a name that is too long for a label")
}

func TestMold(t *testing.T) {
	t.Parallel()
	owner := testkit.CloneSet("web").Obj()
	answer := &pods.LifecycleHook{LabelsHandler: map[string]string{"ready": "yes"}}
	for _, tc := range []struct {
		name   string
		hooks  *pods.Lifecycle
		gate   bool // asked for
		has    bool // in the template
		state  pods.LifecycleState
		gates  []corev1.PodConditionType
		labels map[string]string
	}{
		{
			name:  "without a gate and a hook a pod is in service from its beginning, and costs one write",
			state: pods.LifecycleNormal,
		},
		{
			name: "with a gate it has to be put into service", gate: true,
			state: pods.LifecyclePreparingNormal, gates: []corev1.PodConditionType{keys.InPlaceUpdateReady},
		},
		{
			name: "also with that of the template, which it gets once", gate: true, has: true,
			state: pods.LifecyclePreparingNormal, gates: []corev1.PodConditionType{keys.InPlaceUpdateReady},
		},
		{
			name: "with a hook before service it waits", hooks: &pods.Lifecycle{PreNormal: answer},
			state: pods.LifecyclePreparingNormal,
		},
		{
			name:  "a hook that marks pods not ready gives them a gate",
			hooks: &pods.Lifecycle{PreDelete: &pods.LifecycleHook{MarkPodNotReady: true}},
			state: pods.LifecyclePreparingNormal, gates: []corev1.PodConditionType{keys.KruisePodReady},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			template := owner.Spec.Template.DeepCopy()
			if tc.has {
				template.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
			}
			m := PodBuilder{Owner: owner, Kind: appsv1beta1.GroupVersion.WithKind("CloneSet"), Hooks: lifecycle.HooksOf(tc.hooks), Gate: tc.gate}
			pod := m.Pod("web-0", "web-abc", template, now)
			require.Equal(t, "web-0", pod.Name)
			require.Equal(t, owner.UID, metav1.GetControllerOf(pod).UID)
			require.Equal(t, "web-abc", pod.Labels[keys.ControllerRevisionHash])
			require.Equal(t, tc.state, lifecycle.Of(pod))
			var gates []corev1.PodConditionType
			for _, g := range pod.Spec.ReadinessGates {
				gates = append(gates, g.ConditionType)
			}
			require.Equal(t, tc.gates, gates)
			require.Equal(t, tc.gate || tc.has, inplace.Gated(pod))
			require.Equal(t, tc.hooks != nil && tc.hooks.PreDelete != nil, podpatch.Gated(pod, keys.KruisePodReady))
			require.NotContains(t, template.Labels, keys.ControllerRevisionHash, "the template stays as it is")
		})
	}
}

func TestClaimsAndTheirVolumes(t *testing.T) {
	t.Parallel()
	set := testkit.CloneSet("web").PVCs("data").Obj()
	set.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"tier": "fast"}
	name := func(template string) string { return template + "-web-0" }
	claims := NewPVCs("ns", set.Spec.VolumeClaimTemplates, set.Spec.Selector, name)
	require.Len(t, claims, 1)
	require.Equal(t, "data-web-0", claims[0].Name)
	require.Equal(t, map[string]string{"tier": "fast", "app": "web"}, claims[0].Labels)
	require.Empty(t, claims[0].OwnerReferences)

	pod := testkit.Pod("web-0").Obj()
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "tmp"}}
	Mount(pod, set.Spec.VolumeClaimTemplates, name)
	require.Len(t, pod.Spec.Volumes, 2, "a claim takes the place of a volume of its name")
	require.Equal(t, "data-web-0", pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName)

	pod.Spec.NodeName = ""
	require.True(t, PVCLost(pod, name, nil), "a pod without a node gets none without its claim")
	require.False(t, PVCLost(pod, name, map[string]bool{"data-web-0": false}))
	pod.Spec.NodeName = "node-1"
	require.False(t, PVCLost(pod, name, nil), "a pod that runs keeps what it mounts")
	require.True(t, PVCLost(pod, name, map[string]bool{"data-web-0": true}), "a claim that is being deleted holds until its pod goes")
	require.False(t, PVCLost(pod, func(string) string { return "other" }, map[string]bool{"data-web-0": true}), "claims of others are none")
}
