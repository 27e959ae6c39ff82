package cloneset

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestAnOverlapIsReportedOnceAndItsPodsAreLeftAlone(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(2))
	o.with(names[0], "a", "b")
	o.overlap = ownership.Overlap{Count: 3, First: "shop-1 of ReplicaSet shop"}
	p := plan(o, now)
	require.Empty(t, p.Steps, "no pod of another owner is touched")
	require.Equal(t, ownership.OverlapScanInterval, p.Recheck)
	got, events := status(o, p, applied{}, now)
	require.Empty(t, cmp.Diff([]appsv1beta1.CloneSetCondition{{
		Type: "SelectorOverlap", Status: "True", Reason: "PodsOfOthers",
		Message:        "the selector matches pods with another controller or none, which are left alone: create a new CloneSet with a narrower selector: 3 pod(s), such as shop-1 of ReplicaSet shop",
		LastUpdateTime: metav1.NewTime(now), LastTransitionTime: metav1.NewTime(now),
	}}, failures(got.Conditions)))
	require.Equal(t, []string{"SelectorOverlap"}, testkit.Reasons(events))

	o.set.Status, o.overlap.Count = got, 4
	again, events := status(o, plan(o, now), applied{}, now.Add(time.Minute))
	require.Empty(t, cmp.Diff(got, again))
	require.Empty(t, events)

	o.overlap = ownership.Overlap{}
	again, _ = status(o, plan(o, now), applied{}, now.Add(time.Minute))
	require.Empty(t, failures(again.Conditions))
}
