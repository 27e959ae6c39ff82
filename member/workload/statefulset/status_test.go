package statefulset

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// failures returns the conditions of a status that report failures.
func failures(s appsv1beta1.StatefulSetStatus) []appsv1beta1.WorkloadCondition {
	return report.ButReadiness(s.Conditions, podcontrol.WorkloadConditions().Form)
}

func TestStatusCountsAsKubernetesDoes(t *testing.T) {
	t.Parallel()
	s := observedOf(t, web(4).Image("app:2"), web(4)).
		pod(0, "0").pod(0, "1", terminating).pod(1, "2", unready).pod(1, "3").pod(1, "9", ended, unready)
	got, _ := status(s.observed, plan(s.observed, now), applied{}, now)
	require.Equal(t, int32(5), got.Replicas, "all existing pods")
	require.Equal(t, int32(3), got.ReadyReplicas, "terminating pods count")
	require.Equal(t, int32(3), got.AvailableReplicas)
	require.Equal(t, int32(1), got.CurrentReplicas, "a terminating pod counts for no revision")
	require.Equal(t, int32(2), got.UpdatedReplicas)
	require.Equal(t, int32(1), got.UpdatedReadyReplicas)
	require.Equal(t, s.revs[0], got.CurrentRevision)
	require.Equal(t, s.revs[1], got.UpdateRevision)
	require.Equal(t, "app=web", got.LabelSelector)
}

func TestARollingUpdateIsCompleteWhenAllPodsAreUpdatedAndReady(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		change  func(*appsv1beta1.StatefulSetSpec)
		last    func(*corev1.Pod)
		current int
	}{
		{"all pods are updated and ready", nil, nil, 1},
		{"a pod is not ready", nil, unready, 0},
		{"OnDelete never completes", func(s *appsv1beta1.StatefulSetSpec) {
			s.UpdateStrategy = appsv1beta1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}
		}, nil, 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			b := web(2).Image("app:2")
			if tc.change != nil {
				b.Spec(tc.change)
			}
			s := observedOf(t, b, web(2)).pod(1, "0")
			if tc.last == nil {
				tc.last = func(*corev1.Pod) {}
			}
			s.pod(1, "1", tc.last)
			got, _ := status(s.observed, plan(s.observed, now), applied{}, now)
			require.Equal(t, s.revs[tc.current], got.CurrentRevision)
			require.Equal(t, int32(2*tc.current), got.CurrentReplicas)
		})
	}
}

func TestReadinessNamesTheBudgetThatRefuses(t *testing.T) {
	t.Parallel()
	s := observedOf(t, web(1).Image("app:2"), web(1)).pod(0, "0")
	a := applied{}
	a.Waits = podcontrol.WaitsFor([]string{podwebhook.BudgetMessage("web", "no")})
	got, _ := status(s.observed, plan(s.observed, now), a, now)
	ready := report.OnlyReadiness(got.Conditions, podcontrol.WorkloadConditions().Form)
	require.Len(t, ready, 2)
	for _, c := range ready {
		require.Equal(t, "Refused", c.Reason)
		require.Equal(t, "pods wait for PodUnavailableBudget web, which allows no more of them to become unavailable now", c.Message)
	}
}

func TestStatusOfPVCs(t *testing.T) {
	t.Parallel()
	s := observedOf(t, web(4).Parallel("1").PVCs("data", "logs")).pod(0, "0").pod(0, "1").pod(0, "2").pod(0, "3")
	s.pvc("data-web-1", sized("2Gi", "1Gi")).pvc("data-web-2", sized("512Mi", "512Mi"))
	s.pvc("data-web-3", func(c *corev1.PersistentVolumeClaim) { c.Spec.StorageClassName = new("slow") })
	got, _ := status(s.observed, plan(s.observed, now), applied{}, now)
	require.Equal(t, []appsv1beta1.StatefulSetVolumeClaimStatus{
		{VolumeClaimName: "data", CompatibleReplicas: 2, CompatibleReadyReplicas: 1},
		{VolumeClaimName: "logs", CompatibleReplicas: 4, CompatibleReadyReplicas: 4},
	}, got.VolumeClaims)
}

func TestFailuresAreInTheStatus(t *testing.T) {
	t.Parallel()
	no := errors.New("no")
	for _, tc := range []struct {
		name   string
		done   applied
		kind   appsv1beta1.WorkloadConditionType
		reason string
		events []string
	}{
		{"a PVC could not be re-created", applied{createdPVCs: podcontrol.Result{Err: no}}, "FailedCreatePod", "WriteFailed", []string{"FailedUpdate"}},
		{"a pod could not be adopted", applied{adopted: podcontrol.Result{Err: no}}, "FailedCreatePod", "WriteFailed", []string{"FailedUpdate"}},
		{"a PVC could not be resized", applied{resized: podcontrol.Result{Err: no}}, "FailedUpdatePod", "WriteFailed", []string{"FailedResize"}},
		{"the revision could not be written", applied{Results: podcontrol.Results{Revision: no}}, "FailedUpdatePod", "WriteFailed", []string{"FailedCreate"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := observedOf(t, web(1)).pod(0, "0")
			s.set.Status.UpdateRevision = "as it was"
			got, events := status(s.observed, plan(s.observed, now), tc.done, now)
			require.Equal(t, tc.events, testkit.Reasons(events))
			failed := failures(got)
			require.Len(t, failed, 1)
			require.Equal(t, tc.kind, failed[0].Type)
			require.Equal(t, tc.reason, failed[0].Reason)
			require.Equal(t, tc.done.Revision != nil, got.UpdateRevision == "as it was", "a revision that was not created is not in the status")
		})
	}
	t.Run("a PVC that can't be resized is reported once", func(t *testing.T) {
		t.Parallel()
		s := observedOf(t, web(1).PVCs("data").Resize()).pod(0, "0").pvc("data-web-0", sized("512Mi", "512Mi"))
		got, events := status(s.observed, plan(s.observed, now), applied{}, now)
		require.Equal(t, []string{"FailedUpdatePVC"}, testkit.Reasons(events))
		require.Equal(t, "FailedUpdatePVC", failures(got)[0].Reason)
		s.set.Status = got
		_, events = status(s.observed, plan(s.observed, now), applied{}, now)
		require.Empty(t, events)
	})
	t.Run("events say what was done", func(t *testing.T) {
		t.Parallel()
		s := observedOf(t, web(1)).pod(0, "0")
		_, events := status(s.observed, plan(s.observed, now), applied{
			adopted: podcontrol.Result{Done: []string{"web-0"}}, resized: podcontrol.Result{Done: []string{"data-web-0"}},
		}, now)
		require.Equal(t, []string{"SuccessfulAdopt", "SuccessfulResize"}, testkit.Reasons(events))
	})
}

func TestAPVCThatIsDeletedUnderARunningPodIsReportedOnce(t *testing.T) {
	t.Parallel()
	s := observedOf(t, web(2).PVCs("data")).pod(0, "0").pod(0, "1").pvc("data-web-1", deleted)
	got, events := status(s.observed, plan(s.observed, now), applied{}, now)
	require.Equal(t, []string{"PVCTerminating"}, testkit.Reasons(events))
	require.Equal(t, []appsv1beta1.WorkloadCondition{{
		Type: "PVCTerminating", Status: "True", Reason: "PodsRun", LastTransitionTime: metav1.NewTime(now),
		Message: "1 pod(s) using PVCs that are being deleted, such as pod web-1 with PVC data-web-1: " +
			"save the data, which will be lost when the pod is deleted or re-created",
	}}, failures(got))
	s.set.Status = got
	again, events := status(s.observed, plan(s.observed, now), applied{}, now.Add(time.Hour))
	require.Empty(t, events)
	require.Equal(t, got, again)
}

func TestAPVCThatIsTerminatingForTooLongIsReported(t *testing.T) {
	t.Parallel()
	since := func(at time.Time) func(*corev1.PersistentVolumeClaim) {
		return func(c *corev1.PersistentVolumeClaim) {
			c.DeletionTimestamp, c.Finalizers = new(metav1.NewTime(at)), []string{finalizer}
		}
	}
	notCreated := func(s *stage) *stage {
		s.pods = s.pods[:1]
		return s
	}
	const message = "pod web-1 is waiting for the deletion of PVC data-web-1, " +
		"which has been terminating since 2026-11-21T09:00:00Z: held by " + finalizer
	for _, tc := range []struct {
		name, want string
		recheck    time.Duration
		stage      *stage
	}{
		{
			"a pod to create waits for the PVC", message, 0,
			notCreated(observedOf(t, web(2).PVCs("data")).pod(0, "0").pod(0, "1").pvc("data-web-1", since(start))),
		},
		{
			"other pods wait for that pod", message, 0,
			notCreated(observedOf(t, web(4).PVCs("data")).pod(0, "0").pod(0, "1").pvc("data-web-1", since(start))),
		},
		{
			"an update waits for that pod", message, 0,
			notCreated(observedOf(t, web(2).PVCs("data").Image("app:2"), web(2).PVCs("data")).pod(0, "0").pod(0, "1").pvc("data-web-1", since(start))),
		},
		{
			"a short wait is not reported", "", podset.DefaultProgressDeadline - time.Minute,
			notCreated(observedOf(t, web(2).PVCs("data").Image("app:2"), web(2).PVCs("data")).pod(0, "0").pod(0, "1").
				pvc("data-web-1", since(now.Add(-time.Minute)))),
		},
		{
			"a pending pod can't be scheduled without the PVC", message, 0,
			observedOf(t, web(2).PVCs("data")).pod(0, "0").pod(0, "1", pending).pvc("data-web-1", since(start)),
		},
		{
			"an unwanted pod is not reported", "", 0,
			observedOf(t, web(1).Parallel("1").PVCs("data")).pod(0, "0").pod(0, "1", pending).pvc("data-web-1", since(start)),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p := plan(tc.stage.observed, now)
			got, events := status(tc.stage.observed, p, applied{}, now)
			require.Equal(t, tc.recheck, p.Recheck)
			if tc.want == "" {
				require.Empty(t, failures(got))
				return
			}
			failed := failures(got)
			require.Len(t, failed, 1)
			require.Equal(t, appsv1beta1.WorkloadFailedCreatePod, failed[0].Type)
			require.Equal(t, "PVC", failed[0].Reason)
			require.Equal(t, tc.want, failed[0].Message)
			require.Equal(t, []string{"FailedScale"}, testkit.Reasons(events))
		})
	}
}

func TestACollisionCounts(t *testing.T) {
	t.Parallel()
	s := observedOf(t, web(1))
	want := *s.set.Status.DeepCopy()
	got, events := status(s.observed, plan(s.observed, now), applied{Results: podcontrol.Results{Collided: true}}, now)
	require.Empty(t, events)
	want.CollisionCount = new(int32(1))
	require.Equal(t, want, got)
}

func TestWhatChangesCountsOnly(t *testing.T) {
	t.Parallel()
	set := web(3).Status(appsv1beta1.StatefulSetStatus{Replicas: 1, UpdatedAvailableReplicas: 1}).Obj()
	for _, tc := range []struct {
		name   string
		change func(*appsv1beta1.StatefulSetStatus)
		want   bool
	}{
		{"one more pod", func(s *appsv1beta1.StatefulSetStatus) { s.Replicas, s.ReadyReplicas, s.CurrentReplicas = 2, 2, 2 }, true},
		{"one more PVC", func(s *appsv1beta1.StatefulSetStatus) {
			s.VolumeClaims = []appsv1beta1.StatefulSetVolumeClaimStatus{{VolumeClaimName: "data"}}
		}, true},
		{"a completed rollout", func(s *appsv1beta1.StatefulSetStatus) { s.UpdatedAvailableReplicas = 3 }, false},
		{"another revision", func(s *appsv1beta1.StatefulSetStatus) { s.UpdateRevision = "web-2" }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := *set.Status.DeepCopy()
			tc.change(&s)
			require.Equal(t, tc.want, countsOnly(set, s))
		})
	}
}
