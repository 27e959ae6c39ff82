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
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
)

var now = time.Date(2026, 11, 21, 10, 0, 0, 0, time.UTC)

func TestLabel(t *testing.T) {
	t.Parallel()
	require.Equal(t, "web-abc", Label("web-abc", false))
	require.Equal(t, "abc", Label("web-abc", true))
	require.Equal(t, "abc", Label(strings.Repeat("x", 60)+"-abc", false), "a name that is too long for a label")
}

func TestRevisionLabels(t *testing.T) {
	t.Parallel()
	const label, hash = keys.ControllerRevisionHash, keys.PodTemplateHash
	for _, tc := range []struct {
		name   string
		labels RevisionLabels
		before map[string]string // on the pod
		at     map[string]string // on a new pod
		change map[string]any    // nil means that the label is removed
	}{
		{
			name: "the name of the revision", before: map[string]string{label: "web-abc"},
			at: map[string]string{label: "web-def"}, change: map[string]any{label: "web-def"},
		},
		{
			name: "the hash alone", labels: RevisionLabels{Short: true}, before: map[string]string{label: "abc"},
			at: map[string]string{label: "def"}, change: map[string]any{label: "def"},
		},
		{
			name: "and a second label, as on pods of CloneSets", labels: RevisionLabels{TemplateHash: true},
			before: map[string]string{label: "web-abc", hash: "abc"},
			at:     map[string]string{label: "web-def", hash: "def"}, change: map[string]any{label: "web-def", hash: "def"},
		},
		{
			name: "a previous version set it on pods of all kinds", before: map[string]string{label: "web-abc", hash: "abc"},
			at: map[string]string{label: "web-def"}, change: map[string]any{label: "web-def", hash: nil},
		},
		{
			name: "but not the label that a user set in the template", before: map[string]string{label: "web-abc", hash: "mine"},
			at: map[string]string{label: "web-def"}, change: map[string]any{label: "web-def"},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := testkit.Pod("web-0").Obj()
			pod.Labels = tc.before
			require.Equal(t, tc.at, tc.labels.At("web-def"))
			got := map[string]any{}
			for k, v := range tc.labels.Change(pod, "web-def") {
				if got[k] = nil; v != nil {
					got[k] = *v
				}
			}
			require.Equal(t, tc.change, got)
		})
	}
}

func TestPodBuilder(t *testing.T) {
	t.Parallel()
	owner := testkit.CloneSet("web").Obj()
	answer := &pods.LifecycleHook{LabelsHandler: map[string]string{"ready": "yes"}}
	for _, tc := range []struct {
		name   string
		hooks  *pods.Lifecycle
		gate   bool // of the builder
		has    bool // in the template
		state  pods.LifecycleState
		gates  []corev1.PodConditionType
		labels map[string]string
	}{
		{
			name:  "a pod without a gate and a hook is in service from the start, after one write",
			state: pods.LifecycleNormal,
		},
		{
			name: "a pod with a gate has to be put into service", gate: true,
			state: pods.LifecyclePreparingNormal, gates: []corev1.PodConditionType{keys.InPlaceUpdateReady},
		},
		{
			name: "also if the template has the gate, which is added only once", gate: true, has: true,
			state: pods.LifecyclePreparingNormal, gates: []corev1.PodConditionType{keys.InPlaceUpdateReady},
		},
		{
			name: "a pod with a preNormal hook waits", hooks: &pods.Lifecycle{PreNormal: answer},
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
			require.NotContains(t, template.Labels, keys.ControllerRevisionHash, "the template is not modified")
		})
	}
}

func TestPVCsAndTheirVolumes(t *testing.T) {
	t.Parallel()
	set := testkit.CloneSet("web").PVCs("data").Obj()
	set.Spec.VolumeClaimTemplates[0].Labels = map[string]string{"tier": "fast"}
	name := func(template string) string { return template + "-web-0" }
	pvcs := NewPVCs("ns", set.Spec.VolumeClaimTemplates, set.Spec.Selector, name)
	require.Len(t, pvcs, 1)
	require.Equal(t, "data-web-0", pvcs[0].Name)
	require.Equal(t, map[string]string{"tier": "fast", "app": "web"}, pvcs[0].Labels)
	require.Empty(t, pvcs[0].OwnerReferences)

	pod := testkit.Pod("web-0").Obj()
	pod.Spec.Volumes = []corev1.Volume{{Name: "data"}, {Name: "tmp"}}
	Mount(pod, set.Spec.VolumeClaimTemplates, name)
	require.Len(t, pod.Spec.Volumes, 2, "a PVC replaces a volume of the same name")
	require.Equal(t, "data-web-0", pod.Spec.Volumes[1].PersistentVolumeClaim.ClaimName)
}

func TestPVCLost(t *testing.T) {
	t.Parallel()
	const gone, there, terminating = "gone", "there", "terminating"
	for _, tc := range []struct {
		name  string
		phase corev1.PodPhase
		node  string
		pvc   string
		other bool // the PVC isn't the workload's
		want  bool
		// runsOn: the pod runs on a PVC that is being deleted.
		runsOn bool
	}{
		{name: "a pod can't be scheduled without its PVC", phase: corev1.PodPending, pvc: gone, want: true},
		{name: "nor with a terminating PVC", phase: corev1.PodPending, pvc: terminating, want: true},
		{name: "it can be scheduled with its PVC", phase: corev1.PodPending, pvc: there},
		{name: "a pod whose PVC disappeared after scheduling may have mounted it", phase: corev1.PodPending, node: "node-1", pvc: gone},
		{name: "a pod whose PVC is terminating doesn't start, and keeps the PVC", phase: corev1.PodPending, node: "node-1", pvc: terminating, want: true},
		{name: "a running pod continues, so that its data can be saved", phase: corev1.PodRunning, node: "node-1", pvc: terminating, runsOn: true},
		{name: "even if its PVC is gone", phase: corev1.PodRunning, node: "node-1", pvc: gone},
		{name: "and if its node is unreachable", phase: corev1.PodUnknown, node: "node-1", pvc: terminating, runsOn: true},
		{name: "a pod that has ended doesn't continue", phase: corev1.PodFailed, node: "node-1", pvc: terminating, want: true},
		{name: "PVCs of other pods don't count for a running pod", phase: corev1.PodRunning, node: "node-1", pvc: terminating, other: true},
		{name: "PVCs of other pods don't count", phase: corev1.PodPending, node: "node-1", pvc: terminating, other: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			name := func(template string) string { return template + "-web-0" }
			pod := testkit.Pod("web-0").Node(tc.node).Phase(tc.phase).Obj()
			Mount(pod, testkit.CloneSet("web").PVCs("data").Obj().Spec.VolumeClaimTemplates, name)
			if tc.other {
				pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName = "shared"
			}
			pvcs := map[string]bool{}
			if tc.pvc != gone {
				pvcs[pod.Spec.Volumes[0].PersistentVolumeClaim.ClaimName] = tc.pvc == terminating
			}
			require.Equal(t, tc.want, PVCLost(pod, name, pvcs))
			runsOn := ""
			if tc.runsOn {
				runsOn = "data-web-0"
			}
			require.Equal(t, runsOn, TerminatingPVC(pod, name, pvcs))
			pod.DeletionTimestamp = new(metav1.Now())
			require.Empty(t, TerminatingPVC(pod, name, pvcs), "it ends soon")
		})
	}
}
