package agent

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

const (
	testVersion    = "v0.3.0"
	testClusterUID = "7c9e6679-7425-40de-944b-e07fc1f90ae7"
)

func testCluster() *fleetv1alpha1.MemberCluster {
	return &fleetv1alpha1.MemberCluster{
		ObjectMeta: metav1.ObjectMeta{Name: "east", UID: testClusterUID, Generation: 2},
		Spec:       fleetv1alpha1.MemberClusterSpec{Accepted: true},
		Status:     fleetv1alpha1.MemberClusterStatus{Hub: &fleetv1alpha1.HubIdentity{UID: testHub, Epoch: 4}},
	}
}

func testMembership() *fleetv1alpha1.Membership {
	return &fleetv1alpha1.Membership{
		ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName, UID: "m"},
		Spec: fleetv1alpha1.MembershipSpec{Hub: fleetv1alpha1.MembershipHub{
			UID: testHub, Cluster: "east", MemberClusterUID: testClusterUID,
		}},
		Status: fleetv1alpha1.MembershipStatus{Epoch: 4, BoundAt: &metav1.Time{Time: testNow()}},
	}
}

func TestBindingState(t *testing.T) {
	t.Parallel()
	type expect struct {
		ours, bind, raise, release, act bool
		reason                          string
	}
	leave := func(mc *fleetv1alpha1.MemberCluster) { mc.DeletionTimestamp = &metav1.Time{Time: testNow()} }
	tests := []struct {
		name string
		in   func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership
		want expect
	}{
		{
			name: "the hub that the cluster is bound to may apply",
			in:   func(_ *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership { return m },
			want: expect{ours: true, act: true, reason: ReasonBound},
		},
		{
			name: "the first hub binds the cluster before it applies anything",
			in:   func(*fleetv1alpha1.MemberCluster, *fleetv1alpha1.Membership) *fleetv1alpha1.Membership { return nil },
			want: expect{bind: true, reason: reasonHubUnknown},
		},
		{
			name: "a hub without an identity binds nothing",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Status.Hub = nil
				return m
			},
			want: expect{reason: reasonHubUnknown},
		},
		{
			name: "a cluster that is not accepted is not bound",
			in: func(mc *fleetv1alpha1.MemberCluster, _ *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Spec.Accepted = false
				return nil
			},
			want: expect{reason: reasonNotAccepted},
		},
		{
			name: "a cluster that is no longer accepted is frozen and stays bound",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Spec.Accepted = false
				return m
			},
			want: expect{ours: true, reason: ReasonBound},
		},
		{
			name: "a second hub is refused (I21)",
			in: func(_ *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				m.Spec.Hub.UID = "hub-2"
				return m
			},
			want: expect{reason: ReasonBoundToOtherHub},
		},
		{
			name: "a Membership without a hub is not bound",
			in: func(_ *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				m.Spec = fleetv1alpha1.MembershipSpec{}
				return m
			},
			want: expect{bind: true, reason: reasonHubUnknown},
		},
		{
			name: "a hub that is one minor version away may apply",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Status.Hub.Version = "v0.4.7"
				return m
			},
			want: expect{ours: true, act: true, reason: ReasonBound},
		},
		{
			name: "a hub that is too new keeps its binding and applies nothing",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Status.Hub.Version = "v0.5.0"
				return m
			},
			want: expect{ours: true, reason: ReasonBound},
		},
		{
			name: "a hub that is too old keeps its binding and applies nothing",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Status.Hub.Version = "v0.1.9"
				return m
			},
			want: expect{ours: true, reason: ReasonBound},
		},
		{
			name: "a hub that is too new binds nothing",
			in: func(mc *fleetv1alpha1.MemberCluster, _ *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Status.Hub.Version = "v0.5.0"
				return nil
			},
			want: expect{reason: ReasonVersionSkew},
		},
		{
			name: "a cluster may leave a hub of any version",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				leave(mc)
				mc.Status.Hub.Version = "v2.0.0"
				return m
			},
			want: expect{ours: true, release: true, act: true, reason: ReasonBound},
		},
		{
			name: "a second name for the same cluster is refused",
			in: func(_ *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				m.Spec.Hub.Cluster = "west"
				return m
			},
			want: expect{reason: ReasonBoundToOtherHub},
		},
		{
			name: "a higher epoch of a row is stored before it takes effect",
			in: func(_ *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				m.Status.Epoch = 3
				return m
			},
			want: expect{ours: true, raise: true, reason: ReasonBound},
		},
		{
			name: "a lower epoch of a row is not stored",
			in: func(_ *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				m.Status.Epoch = 5
				return m
			},
			want: expect{ours: true, act: true, reason: ReasonBound},
		},
		{
			name: "an epoch that only the status has is not stored, because members may write it (attack 05)",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.Status.Hub.Epoch = math.MaxInt64
				return m
			},
			want: expect{ours: true, act: true, reason: ReasonBound},
		},
		{
			name: "a cluster that has joined again binds itself to the new MemberCluster",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				mc.UID = "another"
				return m
			},
			want: expect{bind: true, reason: reasonHubUnknown},
		},
		{
			name: "a MemberCluster that leaves before that has nothing to release",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				leave(mc)
				mc.UID = "another"
				return m
			},
			want: expect{release: true, reason: reasonReleased},
		},
		{
			name: "a leaving cluster withdraws its rows, accepted or not",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				leave(mc)
				mc.Spec.Accepted = false
				return m
			},
			want: expect{ours: true, release: true, act: true, reason: ReasonBound},
		},
		{
			name: "a leaving cluster is not bound again",
			in: func(mc *fleetv1alpha1.MemberCluster, _ *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				leave(mc)
				return nil
			},
			want: expect{release: true, act: true, reason: reasonReleased},
		},
		{
			name: "a cluster of another hub does nothing when it leaves this one",
			in: func(mc *fleetv1alpha1.MemberCluster, m *fleetv1alpha1.Membership) *fleetv1alpha1.Membership {
				leave(mc)
				m.Spec.Hub.UID = "hub-2"
				return m
			},
			want: expect{release: true, reason: ReasonBoundToOtherHub},
		},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mc := testCluster()
			j := bindingStateOf(mc, tc.in(mc, testMembership()), 4, testVersion)
			require.Equal(t, tc.want, expect{ours: j.ours, bind: j.bind, raise: j.raise, release: j.release, act: j.permission.mayAct, reason: j.reason})
			require.NotEmpty(t, j.message)
			require.Equal(t, j.release && j.permission.mayAct, j.permission.leaving, "a leaving cluster applies nothing")
		})
	}
}

func TestClusterStatusIsEqualWhileNothingChanges(t *testing.T) {
	t.Parallel()
	mc := testCluster()
	j := bindingStateOf(mc, testMembership(), 4, testVersion)
	ends := metav1.NewTime(testNow())
	f := memberFacts{heartbeatSeen: true, healthKnown: true, healthy: true, version: "v1.36.3", credential: &fleetv1alpha1.CredentialStatus{Serial: "1", NotAfter: &ends}}
	first := clusterStatus(fleetv1alpha1.MemberClusterStatus{}, f, mc, j, false, testNow())
	require.True(t, report.IsConditionTrue(first.Conditions, fleetv1alpha1.ConditionOwnedByThisHub))
	require.True(t, report.IsConditionTrue(first.Conditions, fleetv1alpha1.ConditionAPIHealthy))
	require.Nil(t, report.GetCondition(first.Conditions, fleetv1alpha1.ConditionReleased))
	require.Equal(t, first, clusterStatus(*agentPart(first), f, mc, j, false, testNow().Add(time.Hour)))

	require.Equal(t, first, clusterStatus(*agentPart(first), memberFacts{}, mc, j, false, testNow().Add(time.Hour)),
		"an agent that has just started has no facts yet, and reverts none (I9)")

	f.healthy, f.message = false, "no answer"
	sick := clusterStatus(first, f, mc, j, false, testNow().Add(time.Hour))
	require.Equal(t, "no answer", report.GetCondition(sick.Conditions, fleetv1alpha1.ConditionAPIHealthy).Message)
}

func TestReleasedIsReportedOnceRowsAreGone(t *testing.T) {
	t.Parallel()
	mc := testCluster()
	mc.DeletionTimestamp = &metav1.Time{Time: testNow()}
	j := bindingStateOf(mc, testMembership(), 4, testVersion)
	waiting := clusterStatus(fleetv1alpha1.MemberClusterStatus{}, memberFacts{}, mc, j, false, testNow())
	require.Equal(t, reasonRowsLeft, report.GetCondition(waiting.Conditions, fleetv1alpha1.ConditionReleased).Reason)
	j.remaining.protected = []string{"label x protects CloneSet shop/web"}
	kept := report.GetCondition(clusterStatus(waiting, memberFacts{}, mc, j, false, testNow()).Conditions, fleetv1alpha1.ConditionReleased)
	require.Equal(t, fleetv1alpha1.ReasonDeleteProtected, kept.Reason)
	require.Equal(t, "1 object(s) of the hub can't be deleted: label x protects CloneSet shop/web", kept.Message)
	released := clusterStatus(waiting, memberFacts{}, mc, j, true, testNow())
	require.True(t, report.IsConditionTrue(released.Conditions, fleetv1alpha1.ConditionReleased))
	require.False(t, report.IsConditionTrue(released.Conditions, fleetv1alpha1.ConditionOwnedByThisHub))
	again := clusterStatus(released, memberFacts{}, mc, bindingStateOf(mc, nil, 4, testVersion), true, testNow().Add(time.Minute))
	require.Equal(t, released, again, "a removed binding is not reported again")
}

func TestReadTombstone(t *testing.T) {
	t.Parallel()
	good := func() map[string]string {
		return map[string]string{
			link.TombstoneCluster: "east", link.TombstoneHubUID: testHub, link.TombstoneUID: testClusterUID, link.TombstonePolicy: "Orphan",
		}
	}
	other := testMembership()
	other.Spec.Hub.UID = "hub-2"
	renamed := testMembership()
	renamed.Spec.Hub.Cluster = "north"
	tests := []struct {
		name       string
		change     func(map[string]string)
		membership *fleetv1alpha1.Membership
		err        string
	}{
		{name: "of this hub and cluster is followed", change: func(map[string]string) {}, membership: testMembership()},
		{name: "is followed after a crash right after the binding was removed", change: func(map[string]string) {}},
		{name: "of another cluster is not followed", change: func(m map[string]string) { m[link.TombstoneCluster] = "west" }, err: "for cluster"},
		{name: "of another hub than the bound one is not followed", change: func(map[string]string) {}, membership: other, err: "belongs to hub"},
		{name: "of a cluster that joined again under another name is not followed", change: func(map[string]string) {}, membership: renamed, err: "is bound as"},
		{name: "with an unknown policy is not followed", change: func(m map[string]string) { m[link.TombstonePolicy] = "Burn" }, err: "policy"},
		{name: "without a policy is not followed", change: func(m map[string]string) { delete(m, link.TombstonePolicy) }, err: "policy"},
	}
	for _, tc := range tests {
		t.Run("a tombstone "+tc.name, func(t *testing.T) {
			t.Parallel()
			data := good()
			tc.change(data)
			policy, err := readTombstone(data, "east", tc.membership)
			if tc.err != "" {
				require.ErrorContains(t, err, tc.err)
				require.Empty(t, policy)
				return
			}
			require.NoError(t, err)
			require.Equal(t, fleetv1alpha1.LeaveOrphan, policy)
		})
	}
}

func TestAttack01TombstoneOfAnEarlierMembershipIsIgnored(t *testing.T) {
	t.Parallel()
	for _, uid := range []string{"earlier", ""} {
		_, err := readTombstone(map[string]string{
			link.TombstoneCluster: "east", link.TombstoneHubUID: testHub, link.TombstoneUID: uid, link.TombstonePolicy: "Delete",
		}, "east", testMembership())
		require.ErrorContains(t, err, "UID", "a restored hub has the tombstone again")
	}
}
