package cluster

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestAttack05MemberThatChangesItsMindIsNotBelieved(t *testing.T) {
	t.Parallel()
	m, now, east, west := newMemory(), noon, settled(), settled()
	west.mc.Name = "west"
	owned := true
	change := func() time.Duration {
		now, owned = now.Add(10*time.Second), !owned
		status := metav1.ConditionTrue
		if !owned {
			status = metav1.ConditionFalse
		}
		return m.observe(east.withCondition(fleetv1alpha1.ConditionOwnedByThisHub, status).mc, now).unsteadyFor
	}
	require.Zero(t, m.observe(east.mc, now).unsteadyFor, "the first report of a member is not a change")
	for range unsteadyChanges {
		require.Zero(t, change(), "a few changes are normal")
	}
	require.Equal(t, unsteadyWindow, change())
	now = now.Add(9 * time.Minute)
	require.Equal(t, time.Minute, m.observe(east.mc, now).unsteadyFor)
	require.Zero(t, m.observe(west.mc, now).unsteadyFor, "other members are not affected")
	for range 100 { // It is ignored for as long as this continues.
		require.Equal(t, unsteadyWindow, change())
	}
	require.Len(t, m.by["east"].changes, unsteadyChanges, "the number of remembered changes is limited")
	now = now.Add(unsteadyWindow)
	require.Zero(t, m.observe(east.mc, now).unsteadyFor)
	require.Zero(t, change(), "counting starts over")
	m.forget("east")
	require.Len(t, m.by, 1)
}

func TestReportsWell(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change func(*world)
		want   bool
	}{
		"bound":                       {func(*world) {}, true},
		"bound to another hub":        {func(w *world) { w.withCondition(fleetv1alpha1.ConditionOwnedByThisHub, metav1.ConditionFalse) }, false},
		"with an unhealthy apiserver": {func(w *world) { w.withCondition(fleetv1alpha1.ConditionAPIHealthy, metav1.ConditionFalse) }, false},
		"with another cluster UID":    {func(w *world) { w.mc.Status.ClusterUID = "another" }, false},
		"with its own cluster UID":    {func(w *world) { w.mc.Status.ClusterUID = "uid" }, true},
	} {
		w := settled()
		tt.change(w)
		require.Equal(t, tt.want, reportsWell(w.mc), name)
	}
}

func TestAttack13TwoCertificatesInUseAreNoticed(t *testing.T) {
	t.Parallel()
	m, w := newMemory(), settled()
	reports := func(serial string) bool {
		w.mc.Status.Credential = &fleetv1alpha1.CredentialStatus{Serial: serial}
		return m.observe(w.mc, noon).twice
	}
	require.False(t, reports("a"))
	require.False(t, reports("a"))
	require.False(t, reports("b"), "a renewal")
	require.False(t, reports(""), "an agent without a serial")
	require.True(t, reports("a"), "the old certificate is in use again")
	require.False(t, reports("a"), "each change is reported once")
	require.True(t, reports("b"), "the next change is reported too")
	for i := range 100 {
		require.False(t, reports(strconv.Itoa(i)))
	}
	require.Len(t, m.by["east"].serials, serialsKept)
	w.mc.UID = "joined again"
	require.False(t, reports("99"), "nothing is remembered for another MemberCluster of that name")
}

func TestAttack19LeaveIsTimedByTheHub(t *testing.T) {
	t.Parallel()
	m, w := newMemory(), settled()
	require.Zero(t, m.observe(w.mc, noon).leavingFor)
	w.mc.DeletionTimestamp = &metav1.Time{Time: noon.Add(-24 * time.Hour)} // the clock of the timestamp is a day behind
	require.Zero(t, m.observe(w.mc, noon).leavingFor)
	require.Equal(t, time.Minute, m.observe(w.mc, noon.Add(time.Minute)).leavingFor)
}

func TestAttack14NamespaceOfOthersIsNotUsed(t *testing.T) {
	t.Parallel()
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", UID: "new"}}
	namespace := func(cluster, uid string) *corev1.Namespace {
		return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: "fleet-east", Labels: map[string]string{keys.FleetCluster: cluster}, Annotations: map[string]string{keys.FleetClusterUID: uid},
		}}
	}
	require.True(t, isNamespaceOf(namespace("east", "new"), mc))
	require.False(t, isNamespaceOf(namespace("east", "old"), mc), "a namespace of an earlier cluster of that name")
	require.False(t, isNamespaceOf(namespace("east", ""), mc), "a namespace that was created and labelled by a user")
	require.False(t, isNamespaceOf(namespace("west", "new"), mc))
}
