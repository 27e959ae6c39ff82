//go:build e2e

package suite

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// The snapshot is a copy of etcd's data while etcd is stopped, like a copy of its volume: etcdutl, or a client for etcd's API, would be a new
// dependency. Like such a copy, it has etcd's old revision, which etcdutl can raise: the agent in east, which keeps running, has watches at a
// later revision.
func TestI20HubRestoredFromASnapshotNeitherDeletesNorScalesIn(t *testing.T) {
	lab.Full(t) // Hub and agent are tested one by one.
	s := alone(t)
	s.create(united("web", 4, in("east", "2"), in("west", "2")))
	idle := s.create(united("idle", 2, in("east", "1"), in("west", "1")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	s.awaitSettled("idle", shares{"east": 1, "west": 1}, nil)
	before := s.epochs()
	snapshot := filepath.Join(t.TempDir(), "etcd")
	require.NoError(t, env.Hub.SnapshotEtcd(t.Context(), snapshot))

	s.change("web", func(ud *appsv1beta1.UnitedDeployment) {
		*ud.Spec.Replicas = 8
		ud.Spec.Topology.Subsets = []appsv1beta1.Subset{in("east", "4"), in("west", "4")}
	})
	s.create(united("late", 2, in("east", "1"), in("west", "1")))
	s.awaitSettled("web", shares{"east": 4, "west": 4}, nil)
	s.awaitSettled("late", shares{"east": 1, "west": 1}, nil)
	s.write(many)
	s.awaitQuiet()
	apps := []string{"web", "idle", "late"}
	pods, specs, mark := s.memberCensus(apps...), s.generations(), fleet.Mark()
	require.Len(t, pods, 12)
	require.Len(t, specs, 12, "each member has a slice and a CloneSet for each object")

	raised := false
	t.Cleanup(func() { // Otherwise nothing could be cleaned up, here and in later tests.
		if !raised {
			s.ctx = context.WithoutCancel(t.Context())
			require.NoError(t, env.Hub.Mend(s.ctx))
			s.raiseEpoch()
			for _, m := range env.Members() {
				s.setPolicy(m, fleetv1alpha1.LeaveDelete)
			}
		}
	})
	require.NoError(t, env.Hub.Manager.Stop(t.Context()))
	require.NoError(t, env.Hub.RestoreEtcd(t.Context(), snapshot))
	require.NoError(t, env.Hub.StartControlPlane(t.Context()))
	require.NoError(t, env.Hub.Manager.Start(t.Context()))
	web := s.get("web")
	require.EqualValues(t, 4, *web.Spec.Replicas, "the hub is restored")
	require.True(t, apierrors.IsNotFound(env.Hub.Client.Get(t.Context(), s.key("late"), &appsv1beta1.UnitedDeployment{})))
	for _, m := range env.Members() {
		require.NoError(t, env.AwaitPhase(t.Context(), m.Name, fleetv1alpha1.ClusterReady))
	}

	// The hub asks for less than what runs, and the members wait for another epoch.
	for _, m := range env.Members() {
		s.awaitEpochHold(web, m.Name, "lower spec.replicas")
	}
	log, err := env.East.Manager.LogText()
	require.NoError(t, err)
	require.Contains(t, log, "its revision is lower than at the last heartbeat")
	after := s.epochs()
	for _, m := range env.Members() {
		require.Greater(t, after[m.Name], before[m.Name])
		s.awaitWarning(m, "HubRestored")
	}
	// They don't delete objects that haven't changed since the snapshot either. Objects that the hub doesn't know keep running and are counted.
	require.NoError(t, env.Hub.Client.Delete(t.Context(), idle))
	for _, m := range env.Members() {
		s.awaitEpochHold(idle, m.Name, "delete")
	}
	s.until(func(context.Context) string {
		for _, name := range []string{"web", "idle"} {
			if c := condition(s.get(name), appsv1beta1.SubsetFailure); c.Reason != fleetv1alpha1.ReasonEpochRegression {
				return fmt.Sprintf("%s reports %+v", name, c)
			}
		}
		for _, m := range env.Members() {
			if n := s.cluster(m.Name).Status.UnclaimedObjects; n != 1 {
				return fmt.Sprintf("%d objects without a row in %s", n, m.Name)
			}
		}
		return ""
	})
	s.awaitQuiet()
	s.requireQuiet(2 * time.Duration(heartbeat.FailAfterSeconds) * time.Second)
	require.Equal(t, pods, s.memberCensus(apps...))
	require.Equal(t, specs, s.generations())
	require.Empty(t, s.writes(mark, s.isDestructive))
	// Changes that add pods are applied meanwhile.
	s.create(united("new", 2, in("east", "1"), in("west", "1")))
	s.awaitSettled("new", shares{"east": 1, "west": 1}, nil)

	// The administrator raises the epoch.
	mark = fleet.Mark()
	s.raiseEpoch()
	raised = true
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	s.awaitDeleted("idle")
	require.NotEmpty(t, s.writes(mark, s.isDestructive), "the scale-in was not applied")
	require.Equal(t, corev1.ConditionFalse, condition(s.get("web"), appsv1beta1.SubsetFailure).Status)
	for _, m := range env.Members() {
		require.Nil(t, s.slice(m, "idle"))
		require.Len(t, s.pods(m, "late"), 1)
		s.setPolicy(m, fleetv1alpha1.LeaveDelete)
	}
	s.until(func(context.Context) string {
		for _, m := range env.Members() {
			if n := s.cluster(m.Name).Status.UnclaimedObjects; n != 0 || s.slice(m, "late") != nil {
				return fmt.Sprintf("%d objects without a row in %s", n, m.Name)
			}
		}
		return ""
	})
	s.awaitQuiet()
}

// many is more than the hub writes between its start and the first heartbeat of a member.
const many = 300

// write makes that many writes on the hub.
func (s *scene) write(times int) {
	s.Helper()
	counter := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "counter"}}
	require.NoError(s, env.Hub.Client.Create(s.ctx, counter))
	for i := range times {
		counter.Data = map[string]string{"n": strconv.Itoa(i)}
		require.NoError(s, env.Hub.Client.Update(s.ctx, counter))
	}
}

// epochs returns the epoch that each member has stored.
func (s *scene) epochs() map[string]int64 {
	s.Helper()
	out := map[string]int64{}
	for _, c := range env.Members() {
		m := &fleetv1alpha1.Membership{}
		require.NoError(s, c.Client.Get(s.ctx, client.ObjectKey{Name: fleetv1alpha1.MembershipName}, m))
		out[c.Name] = m.Status.Epoch
	}
	return out
}

// raiseEpoch does what docs/operate/failure-modes.md tells an administrator to do: it sets the epoch above the highest one that a member
// waits for.
func (s *scene) raiseEpoch() {
	s.Helper()
	epoch := slices.Max(slices.Collect(maps.Values(s.epochs()))) + 1
	own := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.EpochConfigMap}}
	patch := fmt.Appendf(nil, `{"data":{"epoch":"%d"}}`, epoch)
	require.NoError(s, env.Hub.Client.Patch(s.ctx, own, client.RawPatch(types.MergePatchType, patch)))
}

// setPolicy tells a member what to do with objects without a row.
func (s *scene) setPolicy(c *fleet.Cluster, policy fleetv1alpha1.LeavePolicy) {
	s.Helper()
	m := &fleetv1alpha1.Membership{ObjectMeta: metav1.ObjectMeta{Name: fleetv1alpha1.MembershipName}}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"fleet.kruise.io/unclaimed":%q}}}`, policy)
	require.NoError(s, c.Client.Patch(s.ctx, m, client.RawPatch(types.MergePatchType, patch)))
}

// awaitEpochHold waits until a member reports that it doesn't do what the row asks for until the hub's epoch is raised.
func (s *scene) awaitEpochHold(ud *appsv1beta1.UnitedDeployment, cluster, doing string) {
	s.Helper()
	s.awaitRow(ud, cluster, func(row *fleetv1alpha1.MemberWork) string {
		st := row.Status
		if st.Phase != fleetv1alpha1.WorkBlocked || st.Reason != fleetv1alpha1.ReasonEpochRegression || !strings.Contains(st.Message, doing) {
			return fmt.Sprintf("the row of %s in %s is %s/%s: %s", ud.Name, cluster, st.Phase, st.Reason, st.Message)
		}
		return ""
	})
}

// awaitWarning waits until a member has a warning about its membership.
func (s *scene) awaitWarning(c *fleet.Cluster, reason string) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		events := &corev1.EventList{}
		if err := c.Client.List(ctx, events); err != nil {
			return err.Error()
		}
		for _, e := range events.Items {
			if e.Reason == reason && e.Type == corev1.EventTypeWarning && e.InvolvedObject.Name == fleetv1alpha1.MembershipName {
				return ""
			}
		}
		return fmt.Sprintf("no event %s in %s", reason, c.Name)
	})
}

// memberCensus counts the pods of some apps in all members.
func (s *scene) memberCensus(apps ...string) census {
	s.Helper()
	out := census{}
	for _, app := range apps {
		maps.Copy(out, s.census(app))
	}
	return out
}

// generations returns the generations of the objects that run the scene's pods in members. They show whether a spec has changed.
func (s *scene) generations() map[string]int64 {
	s.Helper()
	out := map[string]int64{}
	for _, c := range env.Members() {
		for _, kind := range []string{"UnitedDeployment", "CloneSet"} {
			list := &metav1.PartialObjectMetadataList{}
			list.SetGroupVersionKind(appsv1beta1.GroupVersion.WithKind(kind + "List"))
			require.NoError(s, c.Client.List(s.ctx, list, client.InNamespace(s.namespace)))
			for _, o := range list.Items {
				out[c.Name+"/"+kind+"/"+o.Name] = o.Generation
			}
		}
	}
	return out
}

// isDestructive reports whether a write deletes what runs in a member, or could reduce it by changing a spec.
func (s *scene) isDestructive(w fleet.Write) bool {
	if w.Cluster == env.Hub.Name || w.Namespace != s.namespace {
		return false
	}
	specs := []string{"uniteddeployments.apps.kruise.io", "clonesets.apps.kruise.io"}
	return strings.HasPrefix(w.Verb, "delete") || w.Verb != "create" && slices.Contains(specs, w.Resource)
}
