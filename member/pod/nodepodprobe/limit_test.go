package nodepodprobe

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/testkit"
)

// with gives a PodProbeMarker that many probes, each with a command of that many bytes.
func with(age, probes, bytes int) func(*appsv1alpha1.PodProbeMarker) {
	return func(m *appsv1alpha1.PodProbeMarker) {
		m.UID, m.CreationTimestamp = types.UID(m.Name), metav1.NewTime(time.Unix(0, 0).Add(-time.Duration(age)*time.Hour))
		one := m.Spec.Probes[0]
		m.Spec.Probes = nil
		for i := range probes {
			p := *one.DeepCopy()
			p.Name, p.Probe.Exec.Command = fmt.Sprintf("%04d", i), []string{strings.Repeat("x", bytes)}
			m.Spec.Probes = append(m.Spec.Probes, p)
		}
	}
}

// probesIn counts the probes in a plan by PodProbeMarker. Liveness probes count as "".
func probesIn(p planned) map[string]int {
	out := map[string]int{}
	for i := range p.podProbes {
		for j := range p.podProbes[i].Probes {
			out[podprobe.Marker(p.podProbes[i].Probes[j].Name)]++
		}
	}
	return out
}

func TestAttack24ProbesOfOneTenantLeaveRoomForThoseOfOthers(t *testing.T) {
	t.Parallel()
	old, young := idleMarker("old", with(2, 20, 0)), idleMarker("young", with(1, 20, 4000))
	t.Run("a command that is too long is left out", func(t *testing.T) {
		t.Parallel()
		huge := idleMarker("huge", with(3, 1, 700<<10))
		p := plan(observedWith(node(nil), nil, []*appsv1alpha1.PodProbeMarker{huge, old}, runningPod("a")))
		require.Equal(t, map[string]int{"old": 20}, probesIn(p))
		require.Equal(t, []string{"huge 1"}, names(p.excess))
	})
	t.Run("the youngest probes of a pod are left out", func(t *testing.T) {
		t.Parallel()
		p := plan(observedWith(node(nil), nil, []*appsv1alpha1.PodProbeMarker{young, old}, runningPod("a")))
		got := probesIn(p)
		require.Equal(t, 20, got["old"])
		require.Positive(t, got["young"])
		require.Less(t, got["young"], 20)
		require.Equal(t, []string{fmt.Sprintf("young %d", 20-got["young"])}, names(p.excess))
		text, err := json.Marshal(p.podProbes)
		require.NoError(t, err)
		require.Less(t, len(text), maxPod)
	})
	t.Run("a namespace leaves others their share of the node", func(t *testing.T) {
		t.Parallel()
		var pods []*corev1.Pod
		for i := range 100 {
			pods = append(pods, runningPod(fmt.Sprint("greedy-", i)))
		}
		for i := range 10 {
			pods = append(pods, runningPod(fmt.Sprint("other-", i), func(p *corev1.Pod) { p.Namespace = "other" }))
		}
		o := observedWith(node(nil), nil, []*appsv1alpha1.PodProbeMarker{young, old}, pods...)
		theirs := idleMarker("theirs", with(0, 5, 100), func(m *appsv1alpha1.PodProbeMarker) { m.Namespace = "other" })
		o.markers["other"] = podprobe.MarkersOf([]appsv1alpha1.PodProbeMarker{*theirs})
		p := plan(o)
		got := probesIn(p)
		require.Equal(t, 50, got["theirs"])
		require.Zero(t, got["young"], "the older marker uses up the namespace's share")
		require.Positive(t, got["old"])
		text, err := json.Marshal(p.podProbes)
		require.NoError(t, err)
		require.Less(t, len(text)+(got["old"]+got["theirs"])*podprobe.MaxMessage, maxNode)
		for _, e := range p.excess {
			require.Equal(t, testkit.Namespace, e.object.GetNamespace())
		}
		require.Equal(t, p.podProbes, plan(o).podProbes, "the same probes are left out each time")
	})
	t.Run("a pod with liveness probes leaves others their share", func(t *testing.T) {
		t.Parallel()
		probe := podprobe.LivenessProbe{Name: "app", LivenessProbe: corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{strings.Repeat("x", 200<<10)}}}}}
		text, err := json.Marshal([]podprobe.LivenessProbe{probe})
		require.NoError(t, err)
		pod := runningPod("a", func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps.kruise.io/v1beta1", Kind: "CloneSet", Name: "web", UID: "1", Controller: new(true)}}
			p.Annotations[keys.ContainerProbeContext] = string(text)
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{
				Name: "app", ContainerID: "containerd://1", Started: new(true), State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
			}}
		})
		o := observedWith(node(nil), nil, []*appsv1alpha1.PodProbeMarker{old}, pod)
		o.liveness = true
		p := plan(o)
		require.Equal(t, map[string]int{"old": 20}, probesIn(p))
		require.Equal(t, []string{"a 1"}, names(p.excess))
	})
	t.Run("an event reports it once", func(t *testing.T) {
		t.Parallel()
		var events testkit.Events
		r := &Reconciler{Events: &events}
		p := plan(observedWith(node(nil), nil, []*appsv1alpha1.PodProbeMarker{young, old}, runningPod("a")))
		for range 3 {
			r.recordExcess("node-1", p.excess)
		}
		require.Len(t, events.Reasons(), 1)
		require.Contains(t, fmt.Sprint(&events), "of its probes are not run on node node-1, because they are too large")
		r.recordExcess("node-1", nil)
		r.recordExcess("node-1", p.excess)
		require.Len(t, events.Reasons(), 2, "it is reported again after it had ended")
	})
}

func names(all []excess) []string {
	var out []string
	for _, e := range all {
		out = append(out, fmt.Sprint(e.object.GetName(), " ", e.probes))
	}
	return out
}

func TestShare(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		wanted []int
		want   int
	}{
		{nil, maxNode},
		{[]int{maxNode}, maxNode},
		{[]int{2 * maxNode}, maxNode},
		{[]int{maxNode, maxNode}, maxNode / 2},
		{[]int{maxNode, maxNode / 4}, maxNode * 3 / 4},
		{[]int{maxNode, maxNode, maxNode / 10}, maxNode * 9 / 20},
	} {
		require.Equal(t, tc.want, fairShare(tc.wanted), "%v", tc.wanted)
	}
}
