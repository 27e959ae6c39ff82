package agent

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/report"
)

// report sets the status of the scene's object.
func (s *scene) report(t *testing.T, u appsv1beta1.UnitedDeploymentStatus) {
	t.Helper()
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&u)
	require.NoError(t, err)
	s.live.Object["status"] = content
}

func allFive() appsv1beta1.UnitedDeploymentStatus {
	return appsv1beta1.UnitedDeploymentStatus{
		ObservedGeneration: 7, Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5,
		UpdatedRevision: "web-1", CurrentRevision: "web-1",
		SubsetStatuses: []appsv1beta1.SubsetStatus{{
			Name: "a", Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5,
		}},
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	five := fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 5, UpdatedReady: 5}
	last := fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 2, Phase: fleetv1alpha1.WorkHealthy}
	tests := []struct {
		name string
		in   func(t *testing.T, s *scene)
		want fleetv1alpha1.MemberWorkStatus
	}{
		{
			name: "all replicas there and available is Healthy and acknowledges the row",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.report(t, allFive()) },
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Revision: "web-1", Counts: five,
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
		{
			name: "numbers of an older generation of the object do not acknowledge the row (I23)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				u := allFive()
				u.ObservedGeneration = 6
				s.report(t, u)
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 2, Phase: fleetv1alpha1.WorkProgressing, Revision: "web-1", Counts: five,
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
		{
			name: "a controller that has not reconciled yet acknowledges nothing",
			in:   func(*testing.T, *scene) {},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 2, Phase: fleetv1alpha1.WorkProgressing, Counts: fleetv1alpha1.WorkCounts{Desired: 5},
			},
		},
		{
			name: "a suspended row says so, and reports what is there",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.report(t, allFive())
				s.row.Spec.Suspend = true
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Reason: fleetv1alpha1.ReasonSuspended, Revision: "web-1", Counts: five,
				Message: "the row is suspended: nothing is changed here until it is not",
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
		{
			name: "fields that are left to others are reported (I44)",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.report(t, allFive())
				s.line.Spec.Left = []string{"metadata.labels.app"}
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Reason: fleetv1alpha1.ReasonFieldsLeft, Revision: "web-1", Counts: five,
				Message: "others own these fields, which are left to them: metadata.labels.app",
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
		{
			name: "pods that the partition keeps old do not hold back Healthy",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				u := allFive()
				u.UpdatedReplicas, u.UpdatedReadyReplicas = 2, 2
				u.SubsetStatuses[0].UpdatedReplicas, u.SubsetStatuses[0].UpdatedReadyReplicas, u.SubsetStatuses[0].Partition = 2, 2, 3
				s.report(t, u)
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Revision: "web-1",
				Counts: fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 2, UpdatedReady: 2},
				Subsets: []fleetv1alpha1.SubsetCounts{{
					Name: "a", Partition: 3, WorkCounts: fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 2, UpdatedReady: 2},
				}},
			},
		},
		{
			name: "a failing subset is Degraded with its message",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				u := allFive()
				u.Conditions = []appsv1beta1.UnitedDeploymentCondition{{Type: appsv1beta1.SubsetFailure, Status: corev1.ConditionTrue, Message: "quota"}}
				s.report(t, u)
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkDegraded, Reason: "SubsetFailure", Message: "quota", Revision: "web-1", Counts: five,
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
		{
			name: "a foreign object's numbers are not reported",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.report(t, allFive())
				s.live.SetUID("object-2")
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 2, Phase: fleetv1alpha1.WorkBlocked, Reason: fleetv1alpha1.ReasonForeignObject,
				Message: "UnitedDeployment shop/web exists here and was not made by this hub: delete or rename one of the two",
			},
		},
		{
			name: "an object without a status is Applied",
			in: func(_ *testing.T, s *scene) {
				s.live.SetKind("Widget")
				s.want.object.SetKind("Widget")
				s.line.Spec.Object.Kind = "Widget"
			},
			want: fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 3, Phase: fleetv1alpha1.WorkApplied, Counts: fleetv1alpha1.WorkCounts{Desired: 5}},
		},
		{
			name: "an object that a finalizer holds is Deleting",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.report(t, allFive())
				s.withdraw(fleetv1alpha1.LeaveDelete)
				s.live.SetDeletionTimestamp(&metav1.Time{Time: testNow()})
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 2, Phase: fleetv1alpha1.WorkDeleting, Revision: "web-1", Counts: five,
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			tc.in(t, s)
			p := plan(s.observed, testNow())
			require.Equal(t, actNothing, p.act)
			got := status(s.observed, p, applied{line: s.line, live: s.live}, last)
			require.Empty(t, cmp.Diff(tc.want, got))
		})
	}
}

func TestARowIsWithdrawnOnlyWhenNothingIsLeft(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	s.withdraw(fleetv1alpha1.LeaveDelete)
	s.row.Generation = 4
	p := plan(s.observed, testNow())
	held := status(s.observed, p, applied{line: s.line, live: s.live}, s.row.Status)
	require.Equal(t, fleetv1alpha1.WorkDeleting, held.Phase)
	gone := status(s.observed, p, applied{gone: true}, s.row.Status)
	require.Equal(t, fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 4, Phase: fleetv1alpha1.WorkWithdrawn}, gone)
}

// I26: a row's status is at most 4 KiB, whatever the object's status contains.
func TestStatusStaysWithinItsLimit(t *testing.T) {
	t.Parallel()
	for _, subsets := range []int{0, 1, 20, 500} {
		s := newScene(t)
		u := appsv1beta1.UnitedDeploymentStatus{ObservedGeneration: math.MaxInt64, UpdatedRevision: strings.Repeat("r", 400)}
		for i := range subsets {
			u.SubsetStatuses = append(u.SubsetStatuses, appsv1beta1.SubsetStatus{
				Name: strings.Repeat(string(rune('a'+i%26)), 63), Replicas: math.MinInt32, ReadyReplicas: math.MinInt32, AvailableReplicas: math.MinInt32,
				UpdatedReplicas: math.MinInt32, UpdatedReadyReplicas: math.MinInt32, Partition: math.MinInt32,
			})
		}
		u.Conditions = []appsv1beta1.UnitedDeploymentCondition{{
			Type: appsv1beta1.SubsetFailure, Status: corev1.ConditionTrue, Message: strings.Repeat("ß", 4000),
		}}
		s.report(t, u)
		var drift []string
		for i := range 9 {
			drift = append(drift, strings.Repeat(string(rune('a'+i)), 200))
		}
		got := status(s.observed, planned{act: actNothing}, applied{line: s.line, live: s.live, drift: drift}, s.row.Status)
		raw, err := json.Marshal(got)
		require.NoError(t, err)
		require.LessOrEqual(t, len(raw), 4096, "I26")
		require.LessOrEqual(t, len(got.Message), 512)
		require.LessOrEqual(t, len(got.Subsets), fleetv1alpha1.SubsetsPerRow)
		require.Equal(t, "SubsetFailure", got.Reason)
	}
}

func TestUsualSubsetsFitIntoAStatus(t *testing.T) {
	t.Parallel()
	s := fleetv1alpha1.MemberWorkStatus{Phase: fleetv1alpha1.WorkProgressing, Revision: strings.Repeat("r", 63)}
	for range fleetv1alpha1.SubsetsPerRow {
		c := fleetv1alpha1.WorkCounts{Desired: 9999, Replicas: 9999, Ready: 9999, Available: 9999, Updated: 9999, UpdatedReady: 9999}
		s.Subsets = append(s.Subsets, fleetv1alpha1.SubsetCounts{Name: strings.Repeat("n", 40), Partition: 9999, WorkCounts: c})
	}
	require.Len(t, fit(s).Subsets, fleetv1alpha1.SubsetsPerRow, "no subset is lost where numbers have four digits")
}

func TestWhatTheHubWaitsForIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	type status = fleetv1alpha1.MemberWorkStatus
	const progressing, healthy = fleetv1alpha1.WorkProgressing, fleetv1alpha1.WorkHealthy
	five := fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 5, UpdatedReady: 5}
	// The row has generation 4.
	former := status{ObservedGeneration: 3, Phase: healthy, Counts: five}
	rest := status{ObservedGeneration: 4, Phase: healthy, Counts: five}
	moving := status{ObservedGeneration: 4, Phase: progressing, Counts: fleetv1alpha1.WorkCounts{Desired: 5, Available: 2, Ready: 2, UpdatedReady: 1}}
	begins := func(s *status) {
		s.Phase, s.ObservedGeneration, s.Counts.Updated, s.Counts.UpdatedReady = progressing, 4, 0, 0
	}
	tests := []struct {
		name string
		// move means that the hub counts on numbers other than the granted ones until they are acknowledged.
		move bool
		last status
		next func(s *status)
		want urgency
	}{
		{name: "what is equal is not reported", last: moving, next: func(*status) {}, want: unchanged},
		{name: "counts wait", last: moving, next: func(s *status) { s.Counts.Ready = 3 }, want: soon},
		{name: "the revision waits", last: moving, next: func(s *status) { s.Revision = "web-2" }, want: soon},
		{name: "the end of a change does not wait", last: moving, next: func(s *status) { s.Phase = healthy }, want: atOnce},
		{name: "nor does a failure", last: moving, next: func(s *status) { s.Phase = fleetv1alpha1.WorkDegraded }, want: atOnce},
		{name: "nor another reason", last: moving, next: func(s *status) { s.Reason = "Quota" }, want: atOnce},
		{name: "nor a failure that ends", last: status{Phase: progressing, Reason: "Quota"}, next: func(s *status) { s.Reason = "" }, want: atOnce},
		{
			name: "nor one whose phase ends", last: status{Phase: fleetv1alpha1.WorkDegraded},
			next: func(s *status) { s.Phase = progressing }, want: atOnce,
		},
		{name: "nor drift", last: rest, next: func(s *status) { s.Drift = []string{"spec.paused"} }, want: atOnce},
		{name: "that drift is over is not reported", last: status{Drift: []string{"spec.paused"}}, next: func(s *status) { s.Drift = nil }, want: unchanged},
		{name: "that a change is applied waits for what becomes of it", last: former, next: func(s *status) { s.Phase = progressing }, want: begun},
		{name: "so does its acknowledgement", last: former, next: begins, want: begun},
		{name: "and pods beyond those that are wanted", last: former, next: func(s *status) { begins(s); s.Counts.Replicas, s.Counts.Updated = 6, 1 }, want: begun},
		{name: "an acknowledgement in a move does not", move: true, last: former, next: begins, want: atOnce},
		{name: "what a move has applied does", move: true, last: former, next: func(s *status) { s.Phase = progressing }, want: begun},
		{name: "the first pod that is updated waits no longer than others", last: former, next: func(s *status) { begins(s); s.Counts.UpdatedReady = 1 }, want: soon},
		{name: "nor do the pods of a new object", last: status{}, next: func(s *status) { s.Phase, s.Counts.Desired = progressing, 5 }, want: soon},
		{name: "a change that is complete at once does not wait", last: former, next: func(s *status) { s.ObservedGeneration = 4 }, want: atOnce},
		{name: "nor pods that are lost at rest", last: rest, next: func(s *status) { s.Phase, s.Counts.Available = progressing, 4 }, want: atOnce},
		{name: "nor those that a change takes first", last: former, next: func(s *status) { begins(s); s.Counts.Available = 4 }, want: atOnce},
		{
			name: "those of a change that was reported as begun wait", last: status{ObservedGeneration: 4, Phase: progressing, Counts: five},
			next: func(s *status) { s.Counts.Available = 4 }, want: soon,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			row := &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
			grant := fleetv1alpha1.SubsetGrant{Name: "a", Replicas: 5, Lower: 5, Upper: 5}
			if tc.move {
				grant.Lower = 3
			}
			row.Spec.Grant.Subsets = []fleetv1alpha1.SubsetGrant{grant}
			next := *tc.last.DeepCopy()
			tc.next(&next)
			require.Equal(t, tc.want, urgencyOf(row, tc.last, next))
		})
	}
}

func TestReportsThatMayWait(t *testing.T) {
	t.Parallel()
	r := &rows{throttle: report.Throttle{Interval: reportEvery}}
	row := &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Name: "row", Generation: 4}}
	key, start := client.ObjectKeyFromObject(row), testNow()
	counts := fleetv1alpha1.WorkCounts{Desired: 5, Available: 5, UpdatedReady: 5}
	rest := fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Counts: counts}
	applied := *rest.DeepCopy()
	applied.Phase = fleetv1alpha1.WorkProgressing
	one := *applied.DeepCopy()
	one.ObservedGeneration, one.Counts.UpdatedReady = 4, 1
	// wait returns how long a report waits.
	wait := func(last, next fleetv1alpha1.MemberWorkStatus, at time.Duration) time.Duration {
		write, after := r.due(row, last, next, start.Add(at))
		require.Equal(t, after == 0, write)
		return after
	}
	require.Equal(t, begunDelay, wait(rest, applied, 0))
	require.Equal(t, begunDelay-time.Second, wait(rest, applied, time.Second))
	require.Zero(t, wait(rest, one, 2*time.Second), "progress does not wait for that")
	r.throttle.Wrote(key, start.Add(2*time.Second))
	two := *one.DeepCopy()
	two.Counts.UpdatedReady = 2
	require.Equal(t, reportEvery-500*time.Millisecond, wait(one, two, 2500*time.Millisecond))
	write, after := r.due(row, one, one, start.Add(3*time.Second))
	require.False(t, write)
	require.Zero(t, after)
	require.Zero(t, wait(one, two, 2*time.Second+reportEvery))
	r.throttle.Wrote(key, start.Add(2*time.Second+reportEvery))
	require.Equal(t, begunDelay, wait(rest, applied, time.Hour), "it waits, however long the row was at rest")
}

func TestAttack31AClusterThatIsGoneHasNoSeries(t *testing.T) {
	t.Parallel()
	const cluster = "series"
	countPhase(cluster, "", fleetv1alpha1.WorkHealthy)
	for _, vec := range []*prometheus.CounterVec{applies, drifts} {
		vec.WithLabelValues(cluster, "Deployment").Inc()
	}
	connectFailures.WithLabelValues(cluster, "Refused").Inc()
	reports.WithLabelValues(cluster).Inc()
	for _, vec := range []*prometheus.GaugeVec{heartbeatAt, certificateEnds, unclaimedObjects} {
		vec.WithLabelValues(cluster).Set(1)
	}
	all := []prometheus.Collector{rowsByPhase, applies, drifts, reports, heartbeatAt, certificateEnds, unclaimedObjects, connectFailures}
	r := prometheus.NewRegistry()
	r.MustRegister(all...)
	count := func() (n int) {
		families, err := r.Gather()
		require.NoError(t, err)
		for _, f := range families {
			for _, m := range f.GetMetric() {
				for _, l := range m.GetLabel() {
					if l.GetValue() == cluster {
						n++
					}
				}
			}
		}
		return n
	}
	require.Equal(t, len(all), count())
	forgetMetrics(cluster)
	require.Zero(t, count())
}
