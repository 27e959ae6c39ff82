package probedpod

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit"
)

const (
	ok     = appsv1alpha1.ProbeSucceeded
	failed = appsv1alpha1.ProbeFailed
	none   = appsv1alpha1.ProbeUnknown
	idle   = "example.com/idle"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	began = metav1.NewTime(noon.Add(-time.Hour))
	found = metav1.NewTime(noon.Add(-time.Minute))
)

func policy(state appsv1alpha1.ProbeState, labels map[string]string) appsv1alpha1.ProbeMarkerPolicy {
	return appsv1alpha1.ProbeMarkerPolicy{State: state, Labels: labels}
}

// marker returns a PodProbeMarker with one probe, which has the same name.
func marker(name, condition string, policies ...appsv1alpha1.ProbeMarkerPolicy) *appsv1alpha1.PodProbeMarker {
	return &appsv1alpha1.PodProbeMarker{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: testkit.Namespace},
		Spec: appsv1alpha1.PodProbeMarkerSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"game": "yes"}},
			Probes:   []appsv1alpha1.PodContainerProbe{{Name: name, ContainerName: "app", PodConditionType: condition, MarkerPolicy: policies}},
		},
	}
}

func state(name string, s appsv1alpha1.ProbeState, message string) appsv1alpha1.ContainerProbeState {
	return appsv1alpha1.ContainerProbeState{
		Name: podprobe.Name(name, name), State: s, Message: message, LastProbeTime: found, LastTransitionTime: began,
	}
}

func podWith(labels map[string]string, conditions ...corev1.PodCondition) *corev1.Pod {
	pod := testkit.Pod("web").Obj()
	pod.Labels, pod.Annotations, pod.Status.Conditions = labels, nil, conditions
	return pod
}

func TestPlan(t *testing.T) {
	t.Parallel()
	yes, no := map[string]string{"idle": "yes"}, map[string]string{"idle": "no"}
	both := marker("a", idle, policy(ok, yes), policy(failed, no))
	earlier := metav1.NewTime(noon.Add(-24 * time.Hour))
	current := func(s corev1.ConditionStatus, message string) corev1.PodCondition {
		return corev1.PodCondition{Type: idle, Status: s, Message: message, LastTransitionTime: earlier}
	}
	condition := func(s corev1.ConditionStatus, at metav1.Time, message *string) []podpatch.Condition {
		return []podpatch.Condition{{Type: idle, Status: s, LastTransitionTime: at, LastProbeTime: &found, Message: message}}
	}
	for _, tc := range []struct {
		name       string
		pod        *corev1.Pod
		markers    []*appsv1alpha1.PodProbeMarker
		results    []appsv1alpha1.ContainerProbeState
		conditions []podpatch.Condition
		labels     map[string]*string
	}{
		{name: "nothing is written without a result", pod: podWith(nil), markers: []*appsv1alpha1.PodProbeMarker{both}},
		{
			name: "a result without a state is ignored", pod: podWith(yes), markers: []*appsv1alpha1.PodProbeMarker{both},
			results: []appsv1alpha1.ContainerProbeState{state("a", "", "")},
		},
		{
			name: "a success is True and sets the labels", pod: podWith(nil), markers: []*appsv1alpha1.PodProbeMarker{both},
			results:    []appsv1alpha1.ContainerProbeState{state("a", ok, "fine")},
			conditions: condition(corev1.ConditionTrue, began, new("fine")), labels: map[string]*string{"idle": new("yes")},
		},
		{
			name: "a failure is False and changes the labels", pod: podWith(yes, current(corev1.ConditionTrue, "fine")), markers: []*appsv1alpha1.PodProbeMarker{both},
			results:    []appsv1alpha1.ContainerProbeState{state("a", failed, "")},
			conditions: condition(corev1.ConditionFalse, began, nil), labels: map[string]*string{"idle": new("no")},
		},
		{
			name: "an unknown result is False and has no policy", pod: podWith(yes), markers: []*appsv1alpha1.PodProbeMarker{both},
			results:    []appsv1alpha1.ContainerProbeState{state("a", none, "")},
			conditions: condition(corev1.ConditionFalse, began, nil), labels: map[string]*string{"idle": nil},
		},
		{
			name: "an up-to-date pod is not written", pod: podWith(yes, current(corev1.ConditionTrue, "fine")), markers: []*appsv1alpha1.PodProbeMarker{both},
			results: []appsv1alpha1.ContainerProbeState{state("a", ok, "fine")},
		},
		{
			name: "another message keeps the transition time", pod: podWith(no, current(corev1.ConditionFalse, "fine")), markers: []*appsv1alpha1.PodProbeMarker{both},
			results:    []appsv1alpha1.ContainerProbeState{state("a", failed, "bad")},
			conditions: condition(corev1.ConditionFalse, earlier, new("bad")),
		},
		{
			name: "a label of the other state is removed, whatever its value", pod: podWith(map[string]string{"idle": "perhaps", "app": "web"}),
			markers: []*appsv1alpha1.PodProbeMarker{marker("a", "", policy(ok, yes))}, results: []appsv1alpha1.ContainerProbeState{state("a", failed, "")},
			labels: map[string]*string{"idle": nil},
		},
		{
			name: "the first of two markers sets condition and label", pod: podWith(nil),
			markers:    []*appsv1alpha1.PodProbeMarker{marker("a", idle, policy(ok, yes)), marker("b", idle, policy(ok, no))},
			results:    []appsv1alpha1.ContainerProbeState{state("b", ok, "b"), state("a", ok, "a")},
			conditions: condition(corev1.ConditionTrue, began, new("a")), labels: map[string]*string{"idle": new("yes")},
		},
		{
			name: "a marker does not remove what another one sets", pod: podWith(nil),
			markers: []*appsv1alpha1.PodProbeMarker{marker("a", "", policy(ok, no)), marker("b", "", policy(failed, yes))},
			results: []appsv1alpha1.ContainerProbeState{state("a", failed, ""), state("b", failed, "")},
			labels:  map[string]*string{"idle": new("yes")},
		},
		{
			name: "the second marker counts while the first has no result", pod: podWith(nil),
			markers: []*appsv1alpha1.PodProbeMarker{marker("a", idle), marker("b", idle)},
			results: []appsv1alpha1.ContainerProbeState{state("b", ok, "b")}, conditions: condition(corev1.ConditionTrue, began, new("b")),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := tc.pod.DeepCopy()
			p := plan(observed{pod: tc.pod, markers: tc.markers, results: &appsv1alpha1.PodProbeStatus{ProbeStates: tc.results}}, noon)
			require.Equal(t, tc.conditions, p.conditions)
			if tc.labels == nil {
				tc.labels = map[string]*string{}
			}
			require.Equal(t, tc.labels, p.labels)
			require.Empty(t, p.annotations)
			require.Equal(t, before, tc.pod)
		})
	}
}

func TestAResultWithoutTimesIsOfNow(t *testing.T) {
	t.Parallel()
	s := appsv1alpha1.ContainerProbeState{Name: podprobe.Name("a", "a"), State: ok}
	p := plan(observed{
		pod: podWith(nil), markers: []*appsv1alpha1.PodProbeMarker{marker("a", idle)},
		results: &appsv1alpha1.PodProbeStatus{ProbeStates: []appsv1alpha1.ContainerProbeState{s}},
	}, noon)
	require.Equal(t, []podpatch.Condition{{Type: idle, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(noon)}}, p.conditions)
}

// On a virtual node the agent writes the condition, and labels follow it.
func TestLabelsFollowTheConditionOfAnAgent(t *testing.T) {
	t.Parallel()
	m := marker("a", idle, policy(ok, map[string]string{"idle": "yes"}), policy(failed, map[string]string{"busy": "yes"}))
	for _, tc := range []struct {
		name       string
		conditions []corev1.PodCondition
		want       map[string]*string
	}{
		{"without a condition nothing changes", nil, map[string]*string{}},
		{"True is a success", []corev1.PodCondition{{Type: idle, Status: corev1.ConditionTrue}}, map[string]*string{"idle": new("yes"), "busy": nil}},
		{"False is a failure", []corev1.PodCondition{{Type: idle, Status: corev1.ConditionFalse}}, map[string]*string{}},
		{"Unknown is neither", []corev1.PodCondition{{Type: idle, Status: corev1.ConditionUnknown}}, map[string]*string{"busy": nil}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := podWith(map[string]string{"busy": "yes"}, tc.conditions...)
			p := plan(observed{pod: pod, markers: []*appsv1alpha1.PodProbeMarker{m}, serverless: true}, noon)
			require.Empty(t, p.conditions)
			require.Equal(t, tc.want, p.labels)
		})
	}
}

func TestOnlyPodsWithOtherResultsAreLookedAt(t *testing.T) {
	t.Parallel()
	with := func(states ...appsv1alpha1.ProbeState) *appsv1alpha1.NodePodProbe {
		n := &appsv1alpha1.NodePodProbe{}
		for i, s := range states {
			name := []string{"a", "b"}[i]
			n.Status.PodProbeStatuses = append(n.Status.PodProbeStatuses, appsv1alpha1.PodProbeStatus{
				Namespace: "ns", Name: name, UID: types.UID(name), ProbeStates: []appsv1alpha1.ContainerProbeState{state("a", s, "")},
			})
		}
		return n
	}
	a, b := types.NamespacedName{Namespace: "ns", Name: "a"}, types.NamespacedName{Namespace: "ns", Name: "b"}
	require.Equal(t, []types.NamespacedName{a, b}, podprobe.Changed(nil, with(ok, ok)))
	require.Equal(t, []types.NamespacedName{b}, podprobe.Changed(with(ok, ok), with(ok, failed)))
	require.Equal(t, []types.NamespacedName{b}, podprobe.Changed(with(ok), with(ok, ok)))
	require.Empty(t, podprobe.Changed(with(ok, ok), with(ok)))
}

func TestPodsOfAMarker(t *testing.T) {
	t.Parallel()
	game := map[string]string{"game": "yes"}
	on := func(pod *corev1.Pod) *corev1.Pod { pod.Spec.NodeName = "node-1"; return pod }
	other := on(podWith(game))
	other.Namespace = "other"
	ended := on(podWith(game))
	ended.Status.Phase = corev1.PodFailed
	current := on(podWith(game))
	require.Len(t, PodsOf(marker("a", idle), []*corev1.Pod{podWith(game), other, ended, on(podWith(nil)), current}), 1)
	same := current.DeepCopy()
	same.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: 1}}
	require.False(t, podChanged(current, same))
	same.Status.Conditions = []corev1.PodCondition{{Type: idle}}
	require.True(t, podChanged(current, same))
}
