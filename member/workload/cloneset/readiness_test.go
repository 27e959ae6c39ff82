package cloneset

import (
	"errors"
	"testing"

	kstatus "github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/rollout"
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
