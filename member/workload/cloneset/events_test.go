package cloneset

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
)

// stepped returns results of steps of one kind.
func stepped(kind rollout.StepKind, r podcontrol.Result) podcontrol.Results {
	return podcontrol.Results{Steps: map[podcontrol.Class]podcontrol.Result{{Kind: kind}: r}}
}

func TestScaleUpLimitedIsSentWhenItHoldsPods(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		bound   int32
		seen    bool // the spec was observed before
		created []string
		want    []string
	}{
		{"a new spec is reported", 1, false, nil, []string{"ScaleUpLimited"}},
		{"reported with each created pod", 1, true, []string{"web-a"}, []string{"SuccessfulCreate", "ScaleUpLimited"}},
		{"not reported while nothing changes", 1, true, nil, nil},
		{"not reported if all pods may be created", 9, false, []string{"web-a"}, []string{"SuccessfulCreate"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, _ := observedOf(t, web(4).Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.ScaleStrategy.MaxUnavailable = new(intstr.FromInt32(tt.bound))
			}))
			o.set.Generation = 2
			if tt.seen {
				o.set.Status.ObservedGeneration = 2
			}
			_, events := status(o, plan(o, now), applied{Results: stepped(rollout.StepCreate, podcontrol.Result{Done: tt.created})}, now)
			require.Equal(t, tt.want, testkit.Reasons(events))
		})
	}
}

func TestAFailedPreparationIsAFailureOfScaleOrUpdate(t *testing.T) {
	t.Parallel()
	o, _ := observedOf(t, web(1))
	p := plan(o, now)
	refused := podcontrol.Result{Err: errors.New("patch web-a: refused")}
	for _, tt := range []struct {
		name string
		done applied
		want appsv1beta1.CloneSetConditionType
	}{
		{"preparing a deletion", applied{Results: stepped(rollout.StepPrepareDelete, refused)}, appsv1beta1.CloneSetFailedScale},
		{"cancelling a deletion", applied{Results: stepped(rollout.StepCancelDelete, refused)}, appsv1beta1.CloneSetFailedScale},
		{"preparing an update", applied{Results: stepped(rollout.StepPrepareUpdate, refused)}, appsv1beta1.CloneSetFailedUpdate},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, events := status(o, p, tt.done, now)
			failed := failures(s.Conditions)
			require.Len(t, failed, 1)
			require.Equal(t, tt.want, failed[0].Type)
			require.Equal(t, "patch web-a: refused", failed[0].Message)
			require.Len(t, events, 1)
			require.ErrorIs(t, tt.done.err(), refused.Err)
		})
	}
}
