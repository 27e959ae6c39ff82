package cloneset

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

func TestStatusCounts(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(6).Image("app:2").Rolling("50%", "1", "0"), web(6))
	o.set.Generation = 7
	o.with(names[0], "old")
	o.with(names[1], "new")
	o.pods = append(o.pods,
		pod("unready").Rev(names[1]).Gate(true, start).Running().NotReady().Obj(),
		pod("updating").Rev(names[1]).Gate(true, start).Ready(start).State(pods.LifecycleUpdating).Obj(),
		pod("failed").Rev(names[1]).Phase(corev1.PodFailed).Obj(),
		pod("leaving").Rev(names[1]).Serving(start).Terminating(now).Obj(),
	)
	got, events := status(o, plan(o, now), applied{}, now)
	got.Conditions = failures(got.Conditions)
	require.Empty(t, cmp.Diff(appsv1beta1.CloneSetStatus{
		ObservedGeneration: 7, Replicas: 4, ReadyReplicas: 3, AvailableReplicas: 2,
		UpdatedReplicas: 3, UpdatedReadyReplicas: 2, UpdatedAvailableReplicas: 1, ExpectedUpdatedReplicas: 3,
		UpdateRevision: names[1], CurrentRevision: names[0], LabelSelector: "app=web",
	}, got))
	require.Empty(t, events)
}

func TestStatusCurrentRevision(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name     string
		old, new []string
		current  bool // the update revision becomes the current revision
	}{
		{"the current revision stays while there is an old pod", []string{"a"}, []string{"b"}, false},
		{"the current revision stays while an updated pod is missing", nil, []string{"b"}, false},
		{"the current revision moves on when all pods are updated", nil, []string{"a", "b"}, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, web(2).Image("app:2"), web(2))
			o.with(names[0], tt.old...)
			o.with(names[1], tt.new...)
			got, _ := status(o, plan(o, now), applied{}, now)
			require.Equal(t, names[1], got.UpdateRevision)
			require.Equal(t, tt.current, got.CurrentRevision == names[1])
		})
	}
}

func TestStatusOfANewSetNamesTheRevisionThatWasCreated(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(2))
	o.history, o.set.Status.CurrentRevision = nil, ""
	p := plan(o, now)
	got, _ := status(o, p, applied{}, now)
	require.Equal(t, names[0], got.UpdateRevision)
	require.Equal(t, names[0], got.CurrentRevision)

	got, events := status(o, p, applied{Results: podcontrol.Results{Revision: errors.New("create revision x: no")}}, now)
	require.Empty(t, got.UpdateRevision, "a revision that could not be created is not in the status")
	require.Equal(t, []string{"FailedCreate"}, testkit.Reasons(events))
}

func TestStatusCountsACollisionAndNothingElse(t *testing.T) {
	t.Parallel()
	o, _ := observedOf(t, web(2).Status(appsv1beta1.CloneSetStatus{Replicas: 5, CollisionCount: ptr.To[int32](1)}))
	got, events := status(o, plan(o, now), applied{Results: podcontrol.Results{Collided: true}}, now)
	require.Equal(t, int32(2), *got.CollisionCount)
	require.Equal(t, int32(5), got.Replicas)
	require.Empty(t, events)
}

// failures returns the conditions of a status that report failures.
func failures(all []appsv1beta1.CloneSetCondition) []appsv1beta1.CloneSetCondition {
	return report.ButReadiness(all, conditionForm().Form)
}

func TestStatusConditions(t *testing.T) {
	t.Parallel()
	before := metav1.NewTime(start)
	at := metav1.NewTime(now)
	condition := func(t appsv1beta1.CloneSetConditionType, reason, message string, since metav1.Time) appsv1beta1.CloneSetCondition {
		return appsv1beta1.CloneSetCondition{
			Type: t, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastUpdateTime: since, LastTransitionTime: since,
		}
	}
	other := appsv1beta1.CloneSetCondition{Type: "Other", Status: corev1.ConditionTrue}
	tests := []struct {
		name string
		set  *testkit.CloneSetBuilder
		old  []appsv1beta1.CloneSetCondition
		done applied
		want []appsv1beta1.CloneSetCondition
	}{
		{
			"no condition without a failure", web(1), nil, applied{}, nil,
		},
		{
			"a failed creation is FailedScale", web(1), nil,
			applied{Results: stepped(rollout.StepCreate, podcontrol.Result{Err: errors.New("create pod web-x: quota")})},
			[]appsv1beta1.CloneSetCondition{condition("FailedScale", "WriteFailed", "create pod web-x: quota", at)},
		},
		{
			"a failed update is FailedUpdate", web(1), nil,
			applied{Results: stepped(rollout.StepUpdateInPlace, podcontrol.Result{Err: errors.New("patch web-x: no")})},
			[]appsv1beta1.CloneSetCondition{condition("FailedUpdate", "WriteFailed", "patch web-x: no", at)},
		},
		{
			"a failure that persists keeps its time",
			web(1),
			[]appsv1beta1.CloneSetCondition{condition("FailedScale", "WriteFailed", "create pod web-w: quota", before)},
			applied{Results: stepped(rollout.StepCreate, podcontrol.Result{Err: errors.New("create pod web-x: quota")})},
			[]appsv1beta1.CloneSetCondition{condition("FailedScale", "WriteFailed", "create pod web-x: quota", before)},
		},
		{
			"a failure that is over is removed, and other conditions stay",
			web(1),
			[]appsv1beta1.CloneSetCondition{condition("FailedUpdate", "WriteFailed", "x", before), other},
			applied{},
			[]appsv1beta1.CloneSetCondition{other},
		},
		{
			"numbers that can't be resolved are FailedUpdate", web(1).Rolling("0", "x", "0"), nil,
			applied{},
			[]appsv1beta1.CloneSetCondition{condition("FailedUpdate", "InvalidSpec", `maxUnavailable: resolve "x" of 1 pod(s): `+
				"invalid value for IntOrString: invalid type: string is not a percentage", at)},
		},
		{
			"InPlaceOnly that can't update in place is FailedUpdate and no error",
			web(1).Policy(appsv1beta1.PodInPlaceOnly).Spec(func(s *appsv1beta1.CloneSetSpec) {
				s.Template.Spec.Containers[0].Command = []string{"serve"}
			}), nil,
			applied{},
			[]appsv1beta1.CloneSetCondition{condition("FailedUpdate", "NotInPlace",
				"1 old pod(s) can't be updated in place: container app: command changed", at)},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o, names := observedOf(t, tt.set, web(1))
			o.with(names[0], "a")
			o.set.Status.Conditions = tt.old
			old := fmt.Sprint(tt.old)
			got, _ := status(o, plan(o, now), tt.done, now)
			require.Empty(t, cmp.Diff(tt.want, failures(got.Conditions)))
			require.Equal(t, old, fmt.Sprint(tt.old), "the observed conditions are not modified")
		})
	}
}

func TestAPVCThatIsDeletedUnderARunningPodIsReportedOnce(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(2).PVCs("data"))
	for _, id := range []string{"b", "a"} {
		c := pvc(o.set, id)
		c.DeletionTimestamp = new(metav1.NewTime(start))
		o.pvcs = append(o.pvcs, c)
		o.pods = append(o.pods, pod(id).Serving(start).Rev(names[0]).Obj())
		podset.Mount(o.pods[len(o.pods)-1], o.set.Spec.VolumeClaimTemplates, pvcNames(o.set, id))
	}
	first, events := status(o, plan(o, now), applied{}, now)
	require.Equal(t, []string{"PVCTerminating"}, testkit.Reasons(events))
	require.Equal(t, "2 pod(s) using PVCs that are being deleted, such as pod web-a with PVC data-web-a: save the data, "+
		"which will be lost when the pod is deleted or re-created", events[0].Note)
	at := metav1.NewTime(now)
	require.Equal(t, []appsv1beta1.CloneSetCondition{{
		Type: "PVCTerminating", Status: "True", Reason: "PodsRun", Message: events[0].Note, LastUpdateTime: at, LastTransitionTime: at,
	}}, failures(first.Conditions))

	o.set.Status = first
	again, events := status(o, plan(o, now), applied{}, now.Add(time.Hour))
	require.Empty(t, events)
	require.Equal(t, first, again)

	for _, p := range o.pods {
		p.DeletionTimestamp = new(metav1.NewTime(now))
	}
	last, events := status(o, plan(o, now), applied{}, now)
	require.Empty(t, events)
	require.Empty(t, failures(last.Conditions), "the PVCs end with their pods")
}

func TestStatusCutsLongMessages(t *testing.T) {
	t.Parallel()
	long := report.Failure{Reason: "R", Message: strings.Repeat("x", 2*report.MessageLimit)}
	got, _ := podcontrol.Conditions(nil, conditionForm(), long, report.Failure{}, report.Failure{}, report.Failure{}, now)
	require.Len(t, got[0].Message, report.MessageLimit)
}

func TestEventsAreOneForEachClass(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(9).Image("app:2"), web(9))
	d := applied{
		Results: podcontrol.Results{Steps: map[podcontrol.Class]podcontrol.Result{
			{Kind: rollout.StepCreate}:                                 {Done: []string{"a", "b", "c", "d"}, Err: errors.New("create pod e: quota")},
			{Kind: rollout.StepDelete}:                                 {Done: []string{"f"}},
			{Kind: rollout.StepDelete, Reason: rollout.ReasonEnded}:    {Done: []string{"g"}},
			{Kind: rollout.StepDelete, Reason: rollout.ReasonRecreate}: {Done: []string{"h"}, Err: errors.New("delete i: no")},
			{Kind: rollout.StepUpdateInPlace}:                          {Done: []string{"j", "k"}},
			{Kind: rollout.StepMarkUnready}:                            {Done: []string{"l"}},
			{Kind: rollout.StepMarkReady}:                              {Done: []string{"m"}},
		}, Rest: errors.New("patch p: no")},
		deletedPVCs: errors.New("delete PVC n: no"),
		transferred: errors.New("patch PVC o: no"),
	}
	_, events := status(o, plan(o, now), d, now)
	notes := make([]string, 0, len(events))
	for _, e := range events {
		notes = append(notes, fmt.Sprintf("%s %s: %s", e.Type, e.Reason, e.Note))
	}
	require.Equal(t, []string{
		"Normal SuccessfulCreate: created 4 pod(s): a, b, c and 1 more",
		"Warning FailedCreate: create pod e: quota",
		"Normal SuccessfulDelete: deleted 2 pod(s): f, g",
		"Normal SuccessfulUpdatePodReCreate: deleted 1 pod(s) to re-create them at " + names[1] + ": h",
		"Warning FailedUpdatePodReCreate: delete i: no",
		"Normal SuccessfulUpdatePodInPlace: updated 2 pod(s) in place to " + names[1] + ": j, k",
		"Warning FailedDelete: delete PVC n: no",
		"Warning FailedUpdate: patch PVC o: no",
		"Warning FailedUpdate: patch p: no",
	}, notes)
}

func TestAnInvalidSpecIsReportedOnce(t *testing.T) {
	t.Parallel()
	o, names := observedOf(t, web(1).Rolling("0", "x", "0"))
	o.with(names[0], "a")
	first, events := status(o, plan(o, now), applied{}, now)
	require.Equal(t, []string{"FailedUpdate"}, testkit.Reasons(events))
	o.set.Status = first
	_, events = status(o, plan(o, now), applied{}, now.Add(time.Hour))
	require.Empty(t, events)
}
