//go:build integration

package agent_test

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/member/agent"
	"github.com/flotilla-io/flotilla/member/agent/connect"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// agentUser is the agent's user in a member. It has only the permissions of the chart.
const agentUser = "flotilla-agent"

// grantAgentRole gives agentUser the permissions of the chart.
func (e *controlPlane) grantAgentRole(t *testing.T) {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "charts", "member", "files", "agent-role.yaml"))
	require.NoError(t, err)
	for text := range strings.SplitSeq(string(raw), "\n---\n") {
		role := &rbacv1.ClusterRole{}
		require.NoError(t, yaml.Unmarshal([]byte(text), role))
		if role.Kind != "ClusterRole" {
			continue
		}
		require.NoError(t, e.Create(t.Context(), role))
		require.NoError(t, e.Create(t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: role.Name},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: agentUser}},
		}))
		return
	}
	require.Fail(t, "the chart has no role of the agent")
}

// membership returns the member's Membership, or nil.
func (e *controlPlane) membership(t *testing.T) *fleetv1alpha1.Membership {
	t.Helper()
	m := &fleetv1alpha1.Membership{}
	err := e.Get(t.Context(), client.ObjectKey{Name: fleetv1alpha1.MembershipName}, m)
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(t, err)
	return m
}

// waitForCondition waits until the Membership has a condition with that reason for its generation.
func (e *controlPlane) waitForCondition(t *testing.T, kind, reason string) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	if !eventually(t, func() bool {
		m := e.membership(t)
		if m == nil {
			return false
		}
		c = report.GetCondition(m.Status.Conditions, kind)
		return c != nil && c.Reason == reason && c.ObservedGeneration == m.Generation
	}) {
		require.Failf(t, "the Membership has no such condition", "%s for the reason %s, but %+v", kind, reason, e.membership(t))
	}
	return c
}

// waitForBound waits until the condition OwnedByThisHub of the MemberCluster has that reason.
func (f *fleet) waitForBound(t *testing.T, reason string) *metav1.Condition {
	t.Helper()
	var c *metav1.Condition
	mc := &fleetv1alpha1.MemberCluster{}
	if !eventually(t, func() bool {
		require.NoError(t, f.hub.Get(t.Context(), client.ObjectKey{Name: f.name}, mc))
		c = report.GetCondition(mc.Status.Conditions, fleetv1alpha1.ConditionOwnedByThisHub)
		return c != nil && c.Reason == reason
	}) {
		require.Failf(t, "the hub has no such condition", "%s of %s, but %+v", reason, f.name, mc.Status)
	}
	return c
}

// setHubVersion sets the version that the hub publishes to its member.
func (f *fleet) setHubVersion(t *testing.T, version string) {
	t.Helper()
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: f.name}}
	testkit.ChangeStatus(t, f.hub.Client, mc, func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Hub.Version = version })
}

// lostContact reports whether, according to the Membership, the hub was lost or reached again since then.
func (e *controlPlane) lostContact(t *testing.T, since time.Time) bool {
	t.Helper()
	c := report.GetCondition(e.membership(t).Status.Conditions, fleetv1alpha1.ConditionConnected)
	return c != nil && !c.LastTransitionTime.Time.Before(since.Truncate(time.Second))
}

// agentWrites returns what an agent wrote since then. If the hub was lost or reached again meanwhile, as happens on a busy machine, it leaves
// out the writes that report that.
func (e *controlPlane) agentWrites(t *testing.T, since time.Time) []lab.Write {
	t.Helper()
	writes := e.writes(t, since)
	if !e.lostContact(t, since) {
		return writes
	}
	return slices.DeleteFunc(writes, func(w lab.Write) bool { return w.Resource == "memberships.fleet.kruise.io/status" })
}

// awaitRenewal waits for one more renewal of the member's Lease.
func (f *fleet) awaitRenewal(t *testing.T) {
	t.Helper()
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.Namespace(f.name), Name: fleetv1alpha1.MemberLease}
	require.NoError(t, f.hub.Get(t.Context(), key, lease))
	before := lease.ResourceVersion
	require.True(t, eventually(t, func() bool {
		require.NoError(t, f.hub.Get(t.Context(), key, lease))
		return lease.ResourceVersion != before
	}))
}

// TestConnectionIsReportedInTheMember starts with joins that fail, goes on to one that succeeds, and then loses the hub. In the member, the
// agent has the permissions of the chart.
func TestConnectionIsReportedInTheMember(t *testing.T) {
	t.Parallel()
	// This test stops the hub.
	hub := startControlPlane(t, lab.Config{Name: "hub", ControlPlaneOnly: true}, "../../charts/hub/files/crds/fleet*.yaml")
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/*.yaml")
	hub.namespace(t, fleetv1alpha1.SystemNamespace)
	member.namespace(t, "flotilla-system")
	member.grantAgentRole(t)
	f := &fleet{hub: hub, member: member, name: "east", as: agentUser}
	f.join(t, "hub-1")
	f.setHubVersion(t, "v0.1.3")

	closed, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	require.NoError(t, closed.Close())
	const token = "not.a.token"
	for _, c := range []struct {
		name, reason string
		change       func(*agent.Options)
	}{
		{"a wrong token", "Unauthorized", func(*agent.Options) {}},
		{"a wrong CA", "UnknownAuthority", func(o *agent.Options) { o.CA = member.lab.CA }},
		{"an address without a server", "ConnectionRefused", func(o *agent.Options) { o.URL = "https://" + closed.Addr().String() }},
		{"the address of a cluster that is not a hub", "Unauthorized", func(o *agent.Options) { o.URL, o.CA = member.lab.ServerURL, member.lab.CA }},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := agent.Options{Options: connect.Options{
				Cluster: "east", URL: hub.lab.ServerURL, CA: hub.lab.CA, Token: func() (string, error) { return token, nil },
				Namespace: "flotilla-system", Clock: clock.RealClock{},
			}}
			c.change(&o)
			err := agent.ConnectOnce(testContext(t), o, member.Client)
			require.Error(t, err)
			require.NotContains(t, err.Error(), token)
			condition := member.waitForCondition(t, fleetv1alpha1.ConditionConnected, c.reason)
			require.Equal(t, metav1.ConditionFalse, condition.Status)
			require.NotContains(t, condition.Message, token)
			require.Zero(t, member.membership(t).Spec.Hub, "not bound")
			before := member.membership(t).ResourceVersion
			require.Error(t, agent.ConnectOnce(testContext(t), o, member.Client))
			require.Equal(t, before, member.membership(t).ResourceVersion, "an unchanged report is not written again")
		})
	}

	stop, ended := f.run(t)
	f.waitForBound(t, agent.ReasonBound)
	require.Equal(t, "hub-1", member.membership(t).Spec.Hub.UID, "the Membership without a hub is bound")
	member.waitForCondition(t, fleetv1alpha1.ConditionConnected, agent.ReasonConnected)
	require.Equal(t, metav1.ConditionTrue, member.waitForCondition(t, fleetv1alpha1.ConditionSkewSupported, link.SkewSupported).Status)

	rest := member.membership(t).ResourceVersion
	for range 3 {
		f.awaitRenewal(t)
	}
	require.Equal(t, rest, member.membership(t).ResourceVersion, "nothing is written while nothing changes")

	require.NoError(t, hub.lab.StopComponent(t.Context(), "kube-apiserver"))
	require.Equal(t, metav1.ConditionFalse, member.waitForCondition(t, fleetv1alpha1.ConditionConnected, "ConnectionRefused").Status)
	require.NoError(t, hub.lab.StartComponent(t.Context(), "kube-apiserver"))
	require.Equal(t, metav1.ConditionTrue, member.waitForCondition(t, fleetv1alpha1.ConditionConnected, agent.ReasonConnected).Status)

	t.Log("a hub that does not answer, as behind a network that drops packets")
	apiserver, err := lab.FindProcess(hub.lab.Dir, lab.APIServer)
	require.NoError(t, err)
	require.NoError(t, syscall.Kill(apiserver.PID, syscall.SIGSTOP))
	member.waitForCondition(t, fleetv1alpha1.ConditionConnected, "TimedOut")
	require.NoError(t, syscall.Kill(apiserver.PID, syscall.SIGCONT))
	member.waitForCondition(t, fleetv1alpha1.ConditionConnected, agent.ReasonConnected)

	t.Log("another hub at the same address, which knows the cluster by the same name")
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	testkit.ChangeStatus(t, hub.Client, mc, func(mc *fleetv1alpha1.MemberCluster) { mc.Status.Hub.UID, mc.Status.Hub.Version = "hub-2", "v0.2.0" })
	f.waitForBound(t, agent.ReasonBoundToOtherHub)
	rest = member.membership(t).ResourceVersion
	for range 3 {
		f.awaitRenewal(t)
	}
	require.Equal(t, rest, member.membership(t).ResourceVersion, "the refused hub's agent writes nothing (I21)")
	require.NoError(t, stop())
	require.NoError(t, <-ended)
}

// TestHubOfAnUnsupportedVersion: an agent applies nothing for a hub whose version skew is not supported, and changes nothing
// until it is supported again or the cluster leaves.
func TestHubOfAnUnsupportedVersion(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/*.yaml")
	member.namespace(t, "shop")
	member.grantAgentRole(t)
	f := &fleet{hub: hub, member: member, name: unique("east"), as: agentUser}
	f.join(t, "hub-1")
	f.setHubVersion(t, "v0.3.0")
	row := f.row(t, "shop", "web", 5, fleetv1alpha1.LeaveDelete)
	whole := t

	stop, ended := f.run(whole)
	t.Run("it does not join", func(t *testing.T) {
		c := f.waitForBound(t, agent.ReasonVersionSkew)
		for _, part := range []string{"v0.3.0", "v0.1.0", "upgrade the member to v0.2 or v0.3"} {
			require.Contains(t, c.Message, part)
		}
		require.Equal(t, metav1.ConditionFalse, member.waitForCondition(t, fleetv1alpha1.ConditionSkewSupported, link.AgentTooOld).Status)
		require.Zero(t, member.membership(t).Spec.Hub)
		f.awaitRenewal(t)
		lines := &fleetv1alpha1.AppliedWorkList{}
		require.NoError(t, member.List(t.Context(), lines))
		require.Empty(t, lines.Items)
	})
	t.Run("it joins after the hub was downgraded", func(t *testing.T) {
		f.setHubVersion(t, "v0.2.4")
		f.waitForBound(t, agent.ReasonBound)
		f.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
		f.completeUnited(t)
		f.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
		member.waitForCondition(t, fleetv1alpha1.ConditionSkewSupported, link.SkewSupported)
	})
	t.Run("an upgrade that goes too far changes nothing in the member", func(t *testing.T) {
		f.setHubVersion(t, "v0.3.0")
		member.waitForCondition(t, fleetv1alpha1.ConditionSkewSupported, link.AgentTooOld)
		since := clock.RealClock{}.Now()
		before := f.united(t, "web")
		testkit.Change(t, hub.Client, row.DeepCopy(), func(now *fleetv1alpha1.MemberWork) { now.Spec.Patch.Raw = grantPatch(1) })
		require.NoError(t, hub.Delete(t.Context(), row.DeepCopy()), "not even a withdrawn row is handled")
		f.awaitRenewal(t)
		f.awaitRenewal(t)
		require.Empty(t, member.agentWrites(t, since))
		require.Equal(t, before.ResourceVersion, f.united(t, "web").ResourceVersion)
		c := f.waitForBound(t, agent.ReasonBound)
		require.Equal(t, metav1.ConditionTrue, c.Status, "the binding stays")
	})
	t.Run("a restart of the agent changes nothing either", func(t *testing.T) {
		require.NoError(t, stop())
		require.NoError(t, <-ended)
		since := clock.RealClock{}.Now()
		stop, ended = f.run(whole)
		f.awaitRenewal(t)
		f.awaitRenewal(t)
		require.Empty(t, member.agentWrites(t, since))
		f.united(t, "web")
	})
	t.Run("an upgraded agent continues", func(t *testing.T) {
		require.NoError(t, stop())
		require.NoError(t, <-ended)
		f.version = "v0.4.1"
		stop, ended = f.run(whole)
		f.finishWithdrawal(t, row)
		require.True(t, apierrors.IsNotFound(member.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web"}, &appsv1beta1.UnitedDeployment{})))
		member.waitForCondition(t, fleetv1alpha1.ConditionSkewSupported, link.SkewSupported)
	})
	t.Run("a cluster may leave a hub that is too old", func(t *testing.T) {
		left := f.row(t, "shop", "left", 2, fleetv1alpha1.LeaveOrphan)
		f.awaitPhase(t, left, fleetv1alpha1.WorkProgressing)
		f.setHubVersion(t, "v0.1.0")
		member.waitForCondition(t, fleetv1alpha1.ConditionSkewSupported, link.HubTooOld)
		mc := &fleetv1alpha1.MemberCluster{}
		require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: f.name}, mc))
		require.NoError(t, hub.Delete(t.Context(), mc))
		require.NoError(t, hub.Delete(t.Context(), left))
		f.finishWithdrawal(t, left)
		require.True(t, eventually(t, func() bool { return member.membership(t) == nil }))
		require.EqualValues(t, 2, *f.united(t, "left").Spec.Replicas)
	})
	require.NoError(t, stop())
}

// TestMemberOfAnotherHub: a cluster that is bound to a hub stays unchanged when another hub requests it (I21), and is bound to that hub after
// it has left the first one.
func TestMemberOfAnotherHub(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "east", ControlPlaneOnly: true, Audit: true}, "../../charts/member/files/crds/*.yaml")
	member.namespace(t, "shop")
	member.grantAgentRole(t)
	first := &fleet{hub: hub, member: member, name: unique("east"), as: agentUser}
	first.join(t, "hub-1")
	stopFirst, endedFirst := first.run(t)
	row := first.row(t, "shop", "web", 3, fleetv1alpha1.LeaveOrphan)
	first.awaitPhase(t, row, fleetv1alpha1.WorkProgressing)
	first.completeUnited(t)
	first.awaitPhase(t, row, fleetv1alpha1.WorkHealthy)
	member.waitForCondition(t, fleetv1alpha1.ConditionConnected, agent.ReasonConnected)

	other := &fleet{hub: hub, member: member, name: unique("our-east"), as: agentUser, program: "flotilla-agent-of-another-hub"}
	other.join(t, "hub-2")
	since, before := clock.RealClock{}.Now(), first.united(t, "web")
	stopOther, endedOther := other.run(t)
	theirs := other.row(t, "shop", "theirs", 1, fleetv1alpha1.LeaveDelete)
	c := other.waitForBound(t, agent.ReasonBoundToOtherHub)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	for _, part := range []string{"hub-1", `"` + first.name + `"`, "remove it from that hub", "delete Membership default"} {
		require.Contains(t, c.Message, part)
	}
	for range 6 {
		other.awaitRenewal(t)
	}
	require.Empty(t, member.writesOf(t, other.program, since))
	require.Equal(t, before.ResourceVersion, first.united(t, "web").ResourceVersion)
	require.True(t, eventually(t, func() bool {
		events := &corev1.EventList{}
		require.NoError(t, member.List(t.Context(), events))
		return slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
			return e.Reason == agent.EventHubRefused && e.InvolvedObject.Kind == "Membership" && strings.Contains(e.Message, "hub-1")
		})
	}), "an event is recorded in the member too")
	require.NoError(t, hub.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs))
	require.Empty(t, theirs.Status.Phase)

	mc := &fleetv1alpha1.MemberCluster{}
	require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: first.name}, mc))
	require.NoError(t, hub.Delete(t.Context(), mc))
	require.NoError(t, hub.Delete(t.Context(), row))
	first.finishWithdrawal(t, row)
	other.waitForBound(t, agent.ReasonBound)
	other.awaitPhase(t, theirs, fleetv1alpha1.WorkProgressing)
	require.EqualValues(t, 3, *first.united(t, "web").Spec.Replicas, "what the first hub applied is kept")
	require.Equal(t, "hub-2", member.membership(t).Spec.Hub.UID)
	require.NoError(t, stopFirst())
	if err := <-endedFirst; err != nil { // Whether it noticed that it has left is tested elsewhere.
		require.ErrorIs(t, err, link.ErrLeft)
	}
	require.NoError(t, stopOther())
	require.NoError(t, <-endedOther)
}

// A Membership that reports why a cluster can't join does not keep a hub that connects by push from binding it.
func TestPushHubBindsAMembershipWithoutAHub(t *testing.T) {
	t.Parallel()
	hub := sharedHub(t)
	member := startControlPlane(t, lab.Config{Name: "west", ControlPlaneOnly: true}, "../../charts/member/files/crds/*.yaml")
	member.grantAgentRole(t)
	m := &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
	require.NoError(t, member.Create(t.Context(), m))
	testkit.ChangeStatus(t, member.Client, m, func(m *fleetv1alpha1.Membership) {
		m.Status.Conditions = report.SetCondition(nil, metav1.Condition{
			Type: fleetv1alpha1.ConditionConnected, Status: metav1.ConditionFalse, Reason: "TimedOut", Message: "no answer",
		}, time.Unix(0, 0))
	})
	f := &fleet{hub: hub, member: member, name: unique("west"), as: agentUser, dialled: true}
	f.join(t, "hub-1")
	stop, ended := f.run(t)
	f.waitForBound(t, agent.ReasonBound)
	require.Equal(t, fleetv1alpha1.MembershipHub{UID: "hub-1", Cluster: f.name, MemberClusterUID: string(f.uid)}, member.membership(t).Spec.Hub)
	require.NoError(t, stop())
	require.NoError(t, <-ended)
}
