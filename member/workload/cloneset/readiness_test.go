package cloneset

import (
	"context"
	"errors"
	"testing"
	"time"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestKstatusTellsHowFarASetIs(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		set      *testkit.CloneSetBuilder
		old, new []string
		done     applied
		unready  string
		deleted  bool
		want     kstatus.Status
	}{
		{name: "all pods are available", set: web(2).Image("app:2"), new: []string{"a", "b"}, want: kstatus.CurrentStatus},
		{name: "a pod is missing", set: web(2).Image("app:2"), new: []string{"a"}, want: kstatus.InProgressStatus},
		{name: "a pod is not ready", set: web(2).Image("app:2"), new: []string{"a"}, unready: "b", want: kstatus.InProgressStatus},
		{name: "a pod is old", set: web(2).Image("app:2"), old: []string{"a"}, new: []string{"b"}, want: kstatus.InProgressStatus},
		{name: "the partition keeps a pod", set: web(2).Image("app:2").Rolling("1", "1", "0"), old: []string{"a"}, new: []string{"b"}, want: kstatus.CurrentStatus},
		{name: "the update is paused", set: web(2).Image("app:2").Paused(), old: []string{"a"}, new: []string{"b"}, want: kstatus.InProgressStatus},
		{
			name: "a pod can't be updated in place", set: web(1).Policy(appsv1beta1.PodInPlaceOnly).Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.Template.Spec.Containers[0].Command = []string{"serve"}
			}), old: []string{"a"}, want: kstatus.FailedStatus,
		},
		{name: "a number can't be resolved", set: web(1).Rolling("0", "x", "0"), new: []string{"a"}, want: kstatus.FailedStatus},
		{
			name: "a pod is refused, and tried again", set: web(1), want: kstatus.InProgressStatus,
			done: applied{Results: stepped(rollout.StepCreate, podcontrol.Result{Err: errors.New("create pod web-x: quota")})},
		},
		{name: "the set is being deleted", set: web(1).Image("app:2"), new: []string{"a"}, deleted: true, want: kstatus.TerminatingStatus},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, tt.set, web(2))
			o.set.Generation = 3
			o.with(names[0], tt.old...)
			o.with(names[1], tt.new...)
			if tt.unready != "" {
				o.pods = append(o.pods, pod(tt.unready).Rev(names[1]).Running().NotReady().Obj())
			}
			o.set.Status, _ = status(o, plan(o, now), tt.done, now)
			if tt.deleted {
				o.set.DeletionTimestamp = &metav1.Time{Time: now}
			}
			require.Equal(t, tt.want, testkit.Kstatus(t, o.set))
		})
	}
}

// A budget that refuses the next step is named, even after the deadline of the rollout.
func TestReadinessNamesTheBudgetThatRefuses(t *testing.T) {
	t.Parallel()
	reasonsOf := func(set *testkit.CloneSetBuilder, progressing *appsv1beta1.CloneSetCondition, reasons map[string]string) map[string]string {
		o, names := observedOf(t, set, web(2))
		o.with(names[0], "a", "b")
		if progressing != nil {
			o.set.Status.Conditions = []appsv1beta1.CloneSetCondition{*progressing}
			o.set.Status.UpdateRevision, o.set.Status.Replicas, o.set.Status.AvailableReplicas, o.set.Status.ExpectedUpdatedReplicas = names[1], 2, 2, 2
		}
		a := applied{}
		a.Waits = podcontrol.WaitsFor([]string{podwebhook.BudgetMessage("web", "no")})
		s, _ := status(o, plan(o, now), a, now)
		for _, c := range report.OnlyReadiness(s.Conditions, conditionForm().Form) {
			reasons[string(c.Type)] = c.Reason + ": " + c.Message
		}
		return reasons
	}
	waits := "pods wait for PodUnavailableBudget web, which allows no more of them to become unavailable now"
	require.Equal(t, map[string]string{"Ready": "Refused: " + waits, "Reconciling": "Refused: " + waits}, reasonsOf(web(2).Image("app:2"), nil, map[string]string{}))
	late := web(2).Image("app:2").Spec(func(s *appsv1beta1.CloneSetSpec) { s.ProgressDeadlineSeconds = new(int32(60)) })
	got := reasonsOf(late, &appsv1beta1.CloneSetCondition{
		Type: appsv1beta1.CloneSetProgressing, Status: "True", Reason: appsv1beta1.CloneSetReasonUpdated, LastUpdateTime: metav1.NewTime(now.Add(-time.Hour)),
	}, map[string]string{})
	require.Contains(t, got["Stalled"], "ProgressDeadlineExceeded: CloneSet revision ")
	require.Contains(t, got["Stalled"], "has timed out progressing; "+waits)
}

// refusingJudge refuses everything.
type refusingJudge struct{}

func (refusingJudge) refusal() *podwebhook.Refusal {
	return &podwebhook.Refusal{Message: podwebhook.BudgetMessage("web", "none")}
}

func (n refusingJudge) Check(context.Context, podwebhook.Request) (*podwebhook.Refusal, error) {
	return n.refusal(), nil
}

func (n refusingJudge) Forecast(_ context.Context, requests []podwebhook.Request) ([]*podwebhook.Refusal, error) {
	out := make([]*podwebhook.Refusal, len(requests))
	for i := range out {
		out[i] = n.refusal()
	}
	return out, nil
}

func TestAnUpdateThatABudgetRefusesIsToldOnce(t *testing.T) {
	t.Parallel()
	writes := 0
	s := newStage(t, interceptor.Funcs{
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption) error {
			if _, ok := o.(*appsv1beta1.CloneSet); ok {
				writes++
			}
			return c.SubResource(sub).Patch(ctx, o, p, opts...)
		},
	}, web(2).Obj())
	next := func(after time.Duration) string {
		s.clock.SetTime(now.Add(after))
		_, err := s.reconcile(t)
		require.NoError(t, err)
		return find(s.get(t).Status.Conditions, appsv1beta1.CloneSetConditionType(keys.ConditionReady)).Reason
	}
	next(0)
	for _, pod := range s.pods(t) {
		ready := testkit.Pod(pod.Name).Running().Obj()
		pod.Status = ready.Status
		require.NoError(t, s.api.Status().Update(t.Context(), &pod))
	}
	s.Guards = podwebhook.Guards{{Guard: podwebhook.Guard{Gates: podwebhook.Gates{podwebhook.Delete: ""}}, Judge: refusingJudge{}}}
	set := s.get(t)
	set.Spec.Replicas = new(int32(1))
	require.NoError(t, s.api.Update(t.Context(), set))
	next(2 * time.Second)
	next(5 * time.Second)
	require.Equal(t, "Refused", next(13*time.Second))
	before := writes
	require.Equal(t, "Refused", next(23*time.Second))
	require.Equal(t, "Refused", next(33*time.Second))
	require.Equal(t, before, writes, "a refused attempt writes no status")
	s.Guards = nil
	next(43 * time.Second)
	require.NotEqual(t, "Refused", next(45*time.Second))
}
