package podcontrol_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

// holdReasons reads the reasons of holds from their declarations, so that a new one can't be forgotten here.
func holdReasons(t *testing.T) []rollout.Reason {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "../../plan/rollout/types.go", nil, parser.ParseComments)
	require.NoError(t, err)
	var out []rollout.Reason
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if !ok || len(v.Values) != 1 || !strings.Contains(v.Doc.Text(), "(Hold)") {
			return true
		}
		value, err := strconv.Unquote(v.Values[0].(*ast.BasicLit).Value)
		require.NoError(t, err)
		out = append(out, rollout.Reason(value))
		return true
	})
	require.Greater(t, len(out), 10)
	return out
}

// TestEveryHoldIsSeen uses pods that have waited for hours. Whatever they wait for, the status says more than that all is well, and a wait that
// doesn't end by itself is a failure with an explanation.
func TestEveryHoldIsSeen(t *testing.T) {
	t.Parallel()
	const why = "2 pods wait for a reason"
	const (
		stalled     = iota // a failure with the reason, once it has lasted longer than the deadline
		failed             // a failure with the reason at once
		reconciling        // condition Reconciling: it ends by itself, or the user asked for it
		elsewhere          // covered by another test
	)
	seen := map[rollout.Reason]int{
		rollout.ReasonPaused:     reconciling,
		rollout.ReasonBudget:     stalled,
		rollout.ReasonInFlight:   stalled,
		rollout.ReasonHook:       stalled,
		rollout.ReasonDraining:   reconciling, // Until the grace period is over.
		rollout.ReasonInOrder:    stalled,
		rollout.ReasonScaleLimit: stalled,
		rollout.ReasonBurst:      reconciling, // Until the pods before are created, whatever happens to them.
		rollout.ReasonNotInPlace: failed,
		rollout.ReasonPVC:        stalled,
		rollout.ReasonPodWebhook: reconciling, // For ten seconds at most.
		// The refusing object is in the responses to the writes, not in the plan: see TestKstatusTellsHowFarAWorkloadIs.
		rollout.ReasonRefused: elsewhere,
		// The duration is recorded in the PVC; statefulset.TestPlan covers a PVC that has been resizing for too long.
		rollout.ReasonPVCResize: elsewhere,
	}
	now := time.Unix(100_000, 0)
	long := metav1.NewTime(now.Add(-2 * time.Hour))
	for _, reason := range holdReasons(t) {
		t.Run(string(reason), func(t *testing.T) {
			t.Parallel()
			how, ok := seen[reason]
			require.True(t, ok, "describe how a user sees this hold")
			if how == elsewhere {
				return
			}
			waits := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-0", CreationTimestamp: long}}
			pod := podset.Pod{Pod: rollout.Pod{Key: "web-0", Old: true}, Object: waits}
			if reason == rollout.ReasonHook {
				waits.Annotations = map[string]string{keys.LifecycleTimestamp: long.UTC().Format(time.RFC3339)}
				pod.PreparingDelete, pod.DeleteHooked = true, true
			}
			p := podset.Plan{Pods: []podset.Pod{pod}, Holds: []rollout.Hold{{Reason: reason, Pods: 2, Why: why}}}
			p.DetectStall(podset.DefaultProgressDeadline, now)
			var r podcontrol.Results
			scale, update := r.Failures(&p)
			readiness := podcontrol.Readiness(&p, scale, update, report.Failure{})
			require.NotEqual(t, report.ReasonReady, readiness.Reason)
			if how == reconciling {
				require.Empty(t, scale)
				require.Empty(t, update)
				return
			}
			failure := update
			if scale.Reason != "" {
				failure = scale
			}
			require.Equal(t, string(reason), failure.Reason)
			require.Contains(t, failure.Message, why)
			if how == stalled {
				p = podset.Plan{Pods: p.Pods, Holds: p.Holds}
				p.DetectStall(3*time.Hour, now)
				scale, update = r.Failures(&p)
				require.Empty(t, scale.Reason+update.Reason, "not yet")
				require.Positive(t, p.Recheck, "the time after which it counts as stalled")
			}
		})
	}
}
