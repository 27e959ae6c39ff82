package podprobe

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
)

var then = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func TestReport(t *testing.T) {
	t.Parallel()
	type (
		state = appsv1alpha1.ContainerProbeState
		pod   = map[Key]Result
	)
	idle, up := Key{"u", "m#idle"}, Key{"u", "m#up"}
	st := func(name string, result appsv1alpha1.ProbeState, probed, turned metav1.Time, message string) state {
		return state{Name: name, State: result, LastProbeTime: probed, LastTransitionTime: turned, Message: message}
	}
	at := func(after time.Duration) metav1.Time { return metav1.NewTime(then.Add(after)) }
	for _, tc := range []struct {
		name    string
		status  []state
		results pod
		want    []state
		changed bool
	}{
		{"no write without results", nil, nil, nil, false},
		{
			"the first result starts now", nil,
			pod{idle: {appsv1alpha1.ProbeFailed, "no", then}},
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(0), at(0), "no")},
			true,
		},
		{
			"an unchanged result is not written again",
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(0), at(0), "no")},
			pod{idle: {appsv1alpha1.ProbeFailed, "no", then.Add(ReportInterval - 1)}},
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(0), at(0), "no")},
			false,
		},
		{
			"unless the last report is too old",
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(0), at(0), "no")},
			pod{idle: {appsv1alpha1.ProbeFailed, "no", then.Add(ReportInterval)}},
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(ReportInterval), at(0), "no")},
			true,
		},
		{
			"a changed message is written, and the state keeps its time",
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(0), at(0), "no")},
			pod{idle: {appsv1alpha1.ProbeFailed, "still", then.Add(time.Minute)}},
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(time.Minute), at(0), "still")},
			true,
		},
		{
			"a changed state starts now",
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(0), at(0), "no")},
			pod{idle: {appsv1alpha1.ProbeSucceeded, "no", then.Add(time.Minute)}},
			[]state{st("m#idle", appsv1alpha1.ProbeSucceeded, at(time.Minute), at(time.Minute), "no")},
			true,
		},
		{
			"two probes of one container have separate results, in the order of the spec",
			[]state{st("m#up", appsv1alpha1.ProbeSucceeded, at(0), at(0), "")},
			pod{idle: {appsv1alpha1.ProbeFailed, "no", then.Add(time.Minute)}},
			[]state{st("m#idle", appsv1alpha1.ProbeFailed, at(time.Minute), at(time.Minute), "no"), st("m#up", appsv1alpha1.ProbeSucceeded, at(0), at(0), "")},
			true,
		},
		{
			"a probe that the spec no longer has is dropped",
			[]state{st("m#gone", appsv1alpha1.ProbeSucceeded, at(0), at(0), ""), st("m#up", appsv1alpha1.ProbeSucceeded, at(0), at(0), "")},
			pod{{"u", "m#gone"}: {appsv1alpha1.ProbeFailed, "", then}},
			[]state{st("m#up", appsv1alpha1.ProbeSucceeded, at(0), at(0), "")},
			true,
		},
		{
			"and so is a probe of another pod of that name",
			nil,
			pod{{"v", "m#up"}: {appsv1alpha1.ProbeFailed, "", then}, up: {appsv1alpha1.ProbeUnknown, "", then}},
			[]state{st("m#up", appsv1alpha1.ProbeUnknown, at(0), at(0), "")},
			true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			n := &appsv1alpha1.NodePodProbe{Spec: appsv1alpha1.NodePodProbeSpec{PodProbes: []appsv1alpha1.PodProbe{{
				Name: "web", Namespace: "ns", UID: "u", Probes: []appsv1alpha1.ContainerProbe{{Name: idle.Name}, {Name: up.Name}},
			}}}}
			if tc.status != nil {
				n.Status.PodProbeStatuses = []appsv1alpha1.PodProbeStatus{{Name: "web", Namespace: "ns", UID: "u", ProbeStates: tc.status}}
			}
			got, changed := Report(n, tc.results)
			require.Equal(t, tc.changed, changed)
			var states []state
			if pod := Results(&appsv1alpha1.NodePodProbe{Status: got}, "u"); pod != nil {
				states = pod.ProbeStates
			}
			require.Equal(t, tc.want, states)
		})
	}
}

func TestAPodThatIsNotProbedAnyMoreHasNoResults(t *testing.T) {
	t.Parallel()
	n := &appsv1alpha1.NodePodProbe{Status: appsv1alpha1.NodePodProbeStatus{PodProbeStatuses: []appsv1alpha1.PodProbeStatus{{
		UID: "u", ProbeStates: []appsv1alpha1.ContainerProbeState{{Name: "m#p", State: appsv1alpha1.ProbeSucceeded}},
	}}}}
	got, changed := Report(n, nil)
	require.True(t, changed)
	require.Empty(t, got.PodProbeStatuses)
	require.Nil(t, Find(n, "u"))
	require.Nil(t, State(nil, "m#p"))
}

func TestNames(t *testing.T) {
	t.Parallel()
	require.Equal(t, "idle", Marker(Name("idle", "p")))
	require.Empty(t, Marker("idle"))
}

// FuzzMessage checks that any container output can be stored.
func FuzzMessage(f *testing.F) {
	for _, m := range []string{"", "ok", "\xff", strings.Repeat("a", MaxMessage+1), "a" + strings.Repeat("é", MaxMessage), strings.Repeat("\xff", MaxMessage)} {
		f.Add(m)
	}
	f.Fuzz(func(t *testing.T, m string) {
		got := Message(m)
		require.True(t, utf8.ValidString(got))
		require.LessOrEqual(t, len(got), MaxMessage)
		if utf8.ValidString(m) {
			require.True(t, strings.HasPrefix(m, got))
			require.Equal(t, len(m) <= MaxMessage, m == got)
			require.GreaterOrEqual(t, len(got), min(len(m), MaxMessage-utf8.UTFMax+1))
		}
	})
}
