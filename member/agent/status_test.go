package agent

import (
	"context"
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
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
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
		ObservedGeneration: 7, Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5, UpdatedAvailableReplicas: 5,
		UpdatedRevision: "web-1", CurrentRevision: "web-1",
		SubsetStatuses: []appsv1beta1.SubsetStatus{{
			Name: "a", Replicas: 5, ReadyReplicas: 5, AvailableReplicas: 5, UpdatedReplicas: 5, UpdatedReadyReplicas: 5, UpdatedAvailableReplicas: 5,
		}},
	}
}

func TestStatus(t *testing.T) {
	t.Parallel()
	five := fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 5, UpdatedReady: 5, UpdatedAvailable: 5}
	last := fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 2, Phase: fleetv1alpha1.WorkHealthy}
	tests := []struct {
		name string
		in   func(t *testing.T, s *scene)
		want fleetv1alpha1.MemberWorkStatus
	}{
		{
			name: "a row with all replicas available is Healthy and acknowledged",
			in:   func(t *testing.T, s *scene) { t.Helper(); s.report(t, allFive()) },
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Revision: "web-1", Counts: five,
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
		{
			name: "counts of an older generation of the object do not acknowledge the row (I23)",
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
			name: "a suspended row reports Suspended and the existing object",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.report(t, allFive())
				s.row.Spec.Suspend = true
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Reason: fleetv1alpha1.ReasonSuspended, Revision: "web-1", Counts: five,
				Message: "the row is suspended: nothing is changed here until it is resumed",
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
				Message: "these fields are left to the managers that own them: metadata.labels.app",
				Subsets: []fleetv1alpha1.SubsetCounts{{Name: "a", WorkCounts: five}},
			},
		},
		{
			name: "pods that the partition keeps at the old revision do not prevent Healthy",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				u := allFive()
				u.UpdatedReplicas, u.UpdatedReadyReplicas, u.UpdatedAvailableReplicas = 2, 2, 1
				u.SubsetStatuses[0].UpdatedReplicas, u.SubsetStatuses[0].UpdatedReadyReplicas, u.SubsetStatuses[0].Partition = 2, 2, 3
				u.SubsetStatuses[0].UpdatedAvailableReplicas = 1
				s.report(t, u)
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 3, Phase: fleetv1alpha1.WorkHealthy, Revision: "web-1",
				Counts: fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 2, UpdatedReady: 2, UpdatedAvailable: 1},
				Subsets: []fleetv1alpha1.SubsetCounts{{
					Name: "a", Partition: 3,
					WorkCounts: fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 2, UpdatedReady: 2, UpdatedAvailable: 1},
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
			name: "a foreign object's counts are not reported",
			in: func(t *testing.T, s *scene) {
				t.Helper()
				s.report(t, allFive())
				s.live.SetUID("object-2")
			},
			want: fleetv1alpha1.MemberWorkStatus{
				ObservedGeneration: 2, Phase: fleetv1alpha1.WorkBlocked, Reason: fleetv1alpha1.ReasonForeignObject,
				Message: "UnitedDeployment shop/web exists here and was not created by this hub: delete or rename one of the two",
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
			require.Equal(t, actNothing, p.action)
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
				UpdatedReplicas: math.MinInt32, UpdatedReadyReplicas: math.MinInt32, UpdatedAvailableReplicas: math.MinInt32, Partition: math.MinInt32,
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
		got := status(s.observed, planned{action: actNothing}, applied{line: s.line, live: s.live, drift: drift}, s.row.Status)
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
		c := fleetv1alpha1.WorkCounts{Desired: 9999, Replicas: 9999, Ready: 9999, Available: 9999, Updated: 9999, UpdatedReady: 9999, UpdatedAvailable: 9999}
		s.Subsets = append(s.Subsets, fleetv1alpha1.SubsetCounts{Name: strings.Repeat("n", 40), Partition: 9999, WorkCounts: c})
	}
	require.Len(t, fitToLimit(s).Subsets, fleetv1alpha1.SubsetsPerRow, "no subset is dropped while counts have at most four digits")
}

// TestI39AHubOfTheVersionBeforeGetsNoUpdatedAvailable uses a hub whose rows have no updatedAvailable: its apiserver drops the field.
func TestI39AHubOfTheVersionBeforeGetsNoUpdatedAvailable(t *testing.T) {
	t.Parallel()
	require.NoError(t, registerMetrics())
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	s := newScene(t)
	old, writes := true, 0
	hub := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(s.row).WithStatusSubresource(s.row).Build(), interceptor.Funcs{
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, patch client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			writes++
			if err := c.SubResource(sub).Patch(ctx, o, patch, opts...); err != nil || !old {
				return err
			}
			row := o.(*fleetv1alpha1.MemberWork)
			row.Status = withoutUpdatedAvailable(row.Status)
			return c.SubResource(sub).Update(ctx, row)
		},
	})
	start := func() *rowReconciler {
		return &rowReconciler{
			link:   link.Link{Cluster: "east", Hub: connection{cached: hub, live: hub}, Events: &testkit.Events{}},
			memory: newMemory(), throttle: report.Throttle{Interval: reportEvery},
		}
	}
	r, now := start(), testNow()
	// report returns how many writes some reconciles make while the object has that status.
	report := func(change func(*appsv1beta1.UnitedDeploymentStatus)) int {
		u := allFive()
		change(&u)
		s.report(t, u)
		before := writes
		for range 3 {
			now = now.Add(reportEvery)
			require.NoError(t, hub.Get(t.Context(), client.ObjectKeyFromObject(s.row), s.row))
			_, err := r.report(t.Context(), s.observed, planned{action: actNothing}, applied{line: s.line, live: s.live}, now)
			require.NoError(t, err)
		}
		require.NoError(t, hub.Get(t.Context(), client.ObjectKeyFromObject(s.row), s.row))
		return writes - before
	}
	at := func(ready, available int32) func(*appsv1beta1.UnitedDeploymentStatus) {
		return func(u *appsv1beta1.UnitedDeploymentStatus) {
			u.UpdatedReadyReplicas, u.UpdatedAvailableReplicas = ready, available
		}
	}
	counts := func() []int32 {
		return []int32{s.row.Status.Counts.UpdatedReady, s.row.Status.Counts.UpdatedAvailable, s.row.Status.Subsets[0].UpdatedAvailable}
	}
	require.Equal(t, 1, report(at(4, 4)))
	require.Equal(t, []int32{4, 0, 0}, counts(), "the report arrives")
	require.Zero(t, report(at(4, 3)), "what the hub drops is no reason to write")
	require.Equal(t, 1, report(at(5, 3)))
	require.Equal(t, []int32{5, 0, 0}, counts())
	r = start()
	require.Equal(t, 1, report(at(5, 3)), "a new process learns it from its first report")

	old = false
	require.Equal(t, 1, report(at(4, 3)))
	require.Equal(t, []int32{4, 3, 5}, counts(), "the hub has been upgraded")
	require.Equal(t, 1, report(at(4, 4)))
}

func TestWhatTheHubWaitsForIsReportedAtOnce(t *testing.T) {
	t.Parallel()
	type status = fleetv1alpha1.MemberWorkStatus
	const progressing, healthy = fleetv1alpha1.WorkProgressing, fleetv1alpha1.WorkHealthy
	five := fleetv1alpha1.WorkCounts{Desired: 5, Replicas: 5, Ready: 5, Available: 5, Updated: 5, UpdatedReady: 5, UpdatedAvailable: 5}
	// The row has generation 4.
	previous := status{ObservedGeneration: 3, Phase: healthy, Counts: five}
	rest := status{ObservedGeneration: 4, Phase: healthy, Counts: five}
	moving := status{ObservedGeneration: 4, Phase: progressing, Counts: fleetv1alpha1.WorkCounts{Desired: 5, Available: 2, Ready: 2, UpdatedReady: 1}}
	begin := func(s *status) {
		s.Phase, s.ObservedGeneration, s.Counts.Updated, s.Counts.UpdatedReady = progressing, 4, 0, 0
	}
	tests := []struct {
		name string
		// move means that the hub counts on numbers other than the granted ones until they are acknowledged.
		move bool
		// granted is the row's grant, with move as above.
		granted fleetv1alpha1.SubsetGrant
		last    status
		next    func(s *status)
		want    urgency
	}{
		{name: "an equal status is not reported", last: moving, next: func(*status) {}, want: reportNothing},
		{name: "counts wait", last: moving, next: func(s *status) { s.Counts.Ready = 3 }, want: reportSoon},
		{name: "the revision waits", last: moving, next: func(s *status) { s.Revision = "web-2" }, want: reportSoon},
		{name: "the end of a change does not wait", last: moving, next: func(s *status) { s.Phase = healthy }, want: reportAtOnce},
		{name: "a failure does not wait", last: moving, next: func(s *status) { s.Phase = fleetv1alpha1.WorkDegraded }, want: reportAtOnce},
		{name: "another reason does not wait", last: moving, next: func(s *status) { s.Reason = "Quota" }, want: reportAtOnce},
		{name: "the end of a failure does not wait", last: status{Phase: progressing, Reason: "Quota"}, next: func(s *status) { s.Reason = "" }, want: reportAtOnce},
		{
			name: "the end of a failed phase does not wait", last: status{Phase: fleetv1alpha1.WorkDegraded},
			next: func(s *status) { s.Phase = progressing }, want: reportAtOnce,
		},
		{name: "drift does not wait", last: rest, next: func(s *status) { s.Drift = []string{"spec.paused"} }, want: reportAtOnce},
		{name: "the end of drift is not reported", last: status{Drift: []string{"spec.paused"}}, next: func(s *status) { s.Drift = nil }, want: reportNothing},
		{name: "an applied change waits for its result", last: previous, next: func(s *status) { s.Phase = progressing }, want: reportBegun},
		{name: "the acknowledgement of a change waits for its result", last: previous, next: begin, want: reportBegun},
		{name: "surplus pods of a change wait for its result", last: previous, next: func(s *status) { begin(s); s.Counts.Replicas, s.Counts.Updated = 6, 1 }, want: reportBegun},
		{name: "an acknowledgement during a move does not wait", move: true, last: previous, next: begin, want: reportAtOnce},
		{
			name: "the acknowledgement of a lower maxUnavailable does not wait", last: previous, next: begin, want: reportAtOnce,
			granted: fleetv1alpha1.SubsetGrant{MaxUnavailable: new(int32(1)), UnavailableUpper: 3, UpdatedUpper: 5},
		},
		{
			name: "the acknowledgement of a higher partition does not wait", last: previous, next: begin, want: reportAtOnce,
			granted: fleetv1alpha1.SubsetGrant{MaxUnavailable: new(int32(1)), UnavailableUpper: 1, Partition: 2, UpdatedUpper: 5},
		},
		{
			name: "the acknowledgement of a higher maxUnavailable waits for its result", last: previous, next: begin, want: reportBegun,
			granted: fleetv1alpha1.SubsetGrant{MaxUnavailable: new(int32(3)), UnavailableUpper: 3, UpdatedUpper: 5},
		},
		{name: "a change that a move applied waits for its result", move: true, last: previous, next: func(s *status) { s.Phase = progressing }, want: reportBegun},
		{name: "the first updated pod waits no longer than other counts", last: previous, next: func(s *status) { begin(s); s.Counts.UpdatedReady = 1 }, want: reportSoon},
		{name: "the pods of a new object wait no longer than other counts", last: status{}, next: func(s *status) { s.Phase, s.Counts.Desired = progressing, 5 }, want: reportSoon},
		{name: "a change that is complete at once does not wait", last: previous, next: func(s *status) { s.ObservedGeneration = 4 }, want: reportAtOnce},
		{name: "pods lost at rest do not wait", last: rest, next: func(s *status) { s.Phase, s.Counts.Available = progressing, 4 }, want: reportAtOnce},
		{name: "the first pods that a change makes unavailable do not wait", last: previous, next: func(s *status) { begin(s); s.Counts.Available = 4 }, want: reportAtOnce},
		{
			name: "pods that a reported change makes unavailable wait", last: status{ObservedGeneration: 4, Phase: progressing, Counts: five},
			next: func(s *status) { s.Counts.Available = 4 }, want: reportSoon,
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			row := &fleetv1alpha1.MemberWork{ObjectMeta: metav1.ObjectMeta{Generation: 4}}
			grant := tc.granted
			grant.Name, grant.Replicas, grant.Lower, grant.Upper = "a", 5, 5, 5
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
	r := &rowReconciler{throttle: report.Throttle{Interval: reportEvery}}
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
	require.Zero(t, wait(rest, one, 2*time.Second), "progress does not wait for begunDelay")
	r.throttle.Wrote(key, start.Add(2*time.Second))
	two := *one.DeepCopy()
	two.Counts.UpdatedReady = 2
	require.Equal(t, reportEvery-500*time.Millisecond, wait(one, two, 2500*time.Millisecond))
	write, after := r.due(row, one, one, start.Add(3*time.Second))
	require.False(t, write)
	require.Zero(t, after)
	require.Zero(t, wait(one, two, 2*time.Second+reportEvery))
	r.throttle.Wrote(key, start.Add(2*time.Second+reportEvery))
	require.Equal(t, begunDelay, wait(rest, applied, time.Hour), "an applied change waits, however long the row was at rest")
}

func TestAttack31AClusterThatIsGoneHasNoSeries(t *testing.T) {
	t.Parallel()
	const cluster = "series"
	countPhase(cluster, "", fleetv1alpha1.WorkHealthy)
	for _, vec := range []*prometheus.CounterVec{applies, drifts} {
		vec.WithLabelValues(cluster, "Deployment").Inc()
	}
	reports.WithLabelValues(cluster).Inc()
	for _, vec := range []*prometheus.GaugeVec{heartbeatAt, unclaimedObjects} {
		vec.WithLabelValues(cluster).Set(1)
	}
	all := []prometheus.Collector{rowsByPhase, applies, drifts, reports, heartbeatAt, unclaimedObjects}
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
