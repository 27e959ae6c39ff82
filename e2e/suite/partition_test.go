//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// short is an outage shorter than failAfter.
const short = 2 * time.Second

func TestI15ShortOutageOfAMemberChangesNothing(t *testing.T) {
	lab.Full(t) // It waits. hub/cluster tests the same with its own clock.
	s := alone(t)
	s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	s.awaitQuiet()
	phases, mark := s.phases("east"), fleet.Mark()
	agent, err := env.East.Manager.Process()
	require.NoError(t, err)
	require.True(t, agent.Signal(unix.SIGSTOP))
	waited := pause(t.Context(), short)
	require.True(t, agent.Signal(unix.SIGCONT))
	require.True(t, waited)
	s.requireQuiet(2 * time.Duration(heartbeat.FailAfterSeconds) * time.Second)
	require.Equal(t, []fleetv1alpha1.ClusterPhase{fleetv1alpha1.ClusterReady}, phases())
	require.Empty(t, s.writes(mark, s.isUnexpected))
}

func TestI16MemberThatRecoversDoesNotFlap(t *testing.T) {
	lab.Full(t) // As above.
	s := alone(t)
	s.create(united("web", 8, in("east", "4"), in("west", "")))
	s.awaitSettled("web", shares{"east": 4, "west": 4}, nil)
	before, phases, mark := s.census("web"), s.phases("east"), fleet.Mark()

	require.NoError(t, env.East.StopControlPlane(t.Context()))
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterUnreachable))
	s.until(func(context.Context) string {
		ud := s.get("web")
		if ud.Status.StaleClusters != 1 {
			return "the object does not count the stale cluster"
		}
		return ""
	})
	// The others continue, and the frozen numbers stay (invariants 6 and 28).
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 10 })
	s.until(func(context.Context) string {
		ud := s.get("web")
		if ud.Status.ObservedGeneration != ud.Generation {
			return "a new generation must be observed even while a cluster is unreachable"
		}
		for _, line := range ud.Status.SubsetStatuses {
			want := map[string]int32{"east": 4, "west": 6}[line.Cluster]
			if line.Replicas != want {
				return fmt.Sprintf("%s has %d replicas, not %d", line.Cluster, line.Replicas, want)
			}
			if line.Cluster == "east" && !line.Stale {
				return "east is not marked as stale"
			}
			if line.Cluster == "west" && line.AvailableReplicas != want {
				return "west lacks pods"
			}
		}
		return ""
	})

	require.NoError(t, env.East.StartControlPlane(t.Context()))
	require.NoError(t, env.East.Manager.Start(t.Context())) // It may have lost its leadership meanwhile.
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterReady))
	s.until(func(context.Context) string {
		if s.get("web").Status.StaleClusters > 0 {
			return "the object still counts a stale cluster"
		}
		return ""
	})
	s.awaitSettled("web", shares{"east": 4, "west": 6}, nil)
	s.awaitQuiet()
	require.Equal(t, []fleetv1alpha1.ClusterPhase{
		fleetv1alpha1.ClusterReady, fleetv1alpha1.ClusterUnreachable, fleetv1alpha1.ClusterReady,
	}, phases(), "two changes of phase")
	after := s.census("web")
	for pod, what := range before {
		require.Equal(t, what, after[pod])
	}
	s.requireNoDeletes(mark)
}

// There is no failover yet. This is what failover must not do when most members are gone, because then the fault is likely elsewhere.
func TestI17MostMembersUnreachableAtOnceMoveNothing(t *testing.T) {
	lab.Full(t)
	s := alone(t)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
		defer cancel()
		require.NoError(t, env.LeaveAnother(ctx, "north"))
	})
	north, err := env.JoinAnother(t.Context(), "north", "kwok:1")
	require.NoError(t, err)
	require.NoError(t, north.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}))
	// Nothing but its weight keeps a replica in its cluster.
	web := s.create(united("web", 6, bySelector("all", nil)))
	s.awaitSettled("web", shares{"all-east": 2, "all-north": 2, "all-west": 2}, nil)
	s.awaitQuiet()
	clusters := []string{"east", "north", "west"}
	rows := func() (out []int64) {
		for _, name := range clusters {
			out = append(out, s.row(web, name).Generation)
		}
		return out
	}
	before, kept, asked, mark := s.census("web"), s.pods(north, "web"), rows(), fleet.Mark()
	require.Len(t, before, 4)
	require.Len(t, kept, 2)

	// Two of three stop answering.
	for _, m := range env.Members() {
		apiserver, err := lab.FindProcess(m.Lab.Dir, lab.APIServer)
		require.NoError(t, err)
		require.True(t, apiserver.Signal(unix.SIGSTOP))
		t.Cleanup(func() { apiserver.Signal(unix.SIGCONT) })
	}
	for _, m := range env.Members() {
		require.NoError(t, env.AwaitPhase(t.Context(), m.Name, fleetv1alpha1.ClusterUnreachable))
	}
	s.until(func(context.Context) string {
		if n := s.get("web").Status.StaleClusters; n != 2 {
			return fmt.Sprintf("the object counts %d stale clusters", n)
		}
		return ""
	})
	require.True(t, pause(t.Context(), 2*time.Duration(heartbeat.FailAfterSeconds)*time.Second))
	require.Equal(t, fleetv1alpha1.ClusterReady, s.cluster("north").Status.Phase)
	require.Equal(t, asked, rows())
	require.Empty(t, s.writes(mark, func(w fleet.Write) bool { return w.Resource == "memberworks.fleet.kruise.io" }))
	require.Equal(t, kept, s.pods(north, "web"))
	there, err := north.Lab.Writes(mark)
	require.NoError(t, err)
	require.NotEmpty(t, there, "north has not even renewed Leases")
	for _, w := range there {
		require.NotEqual(t, s.namespace, w.Namespace, "%+v", w)
	}

	for _, m := range env.Members() {
		apiserver, err := lab.FindProcess(m.Lab.Dir, lab.APIServer)
		require.NoError(t, err)
		require.True(t, apiserver.Signal(unix.SIGCONT))
		require.NoError(t, m.Manager.Stop(t.Context())) // It has lost its leadership, and may be about to end.
		require.NoError(t, m.Manager.Start(t.Context()))
	}
	for _, m := range env.Members() {
		require.NoError(t, env.AwaitPhase(t.Context(), m.Name, fleetv1alpha1.ClusterReady))
	}
	s.awaitSettled("web", shares{"all-east": 2, "all-north": 2, "all-west": 2}, nil)
	require.Equal(t, before, s.census("web"))
	require.Equal(t, asked, rows())
	s.requireNoDeletes(mark)
}

func TestI10OutagesOfTheHubDeleteNothingAndMembersGoOn(t *testing.T) {
	s := alone(t)
	s.create(united("web", 6, in("east", "3"), in("west", "3")))
	s.awaitSettled("web", shares{"east": 3, "west": 3}, nil)
	before, mark := s.census("web"), fleet.Mark()

	require.NoError(t, env.Hub.StopControlPlane(t.Context()))
	restored := false
	t.Cleanup(func() {
		if !restored {
			require.NoError(t, env.Hub.StartControlPlane(context.WithoutCancel(t.Context())))
		}
	})
	// A pod that is lost meanwhile is replaced by its member.
	lost := s.pods(env.East, "web")[0]
	require.NoError(t, env.East.Client.Delete(t.Context(), &lost))
	s.until(func(context.Context) string {
		n := 0
		for _, p := range s.pods(env.East, "web") {
			if p.UID != lost.UID && ready(&p) {
				n++
			}
		}
		if n != 3 {
			return fmt.Sprintf("%d of 3 pods are ready in east", n)
		}
		return ""
	})
	require.True(t, pause(t.Context(), 2*time.Duration(heartbeat.FailAfterSeconds)*time.Second), "the test ended before twice failAfter had passed")

	require.NoError(t, env.Hub.StartControlPlane(t.Context()))
	restored = true
	require.NoError(t, env.Hub.Manager.Start(t.Context()))
	for _, m := range env.Members() {
		require.NoError(t, env.AwaitPhase(t.Context(), m.Name, fleetv1alpha1.ClusterReady))
	}
	s.awaitSettled("web", shares{"east": 3, "west": 3}, nil)
	s.awaitQuiet()
	after := s.census("web")
	for pod, what := range before {
		if pod != "east/"+lost.Name {
			require.Equal(t, what, after[pod])
		}
	}
	require.Empty(t, s.writes(mark, func(w fleet.Write) bool {
		return w.Ours() && w.Namespace == s.namespace && (w.Verb == "delete" || w.Verb == "deletecollection")
	}))
}

func TestI18HubThatWasDownMarksNoMemberUnreachable(t *testing.T) {
	s := alone(t)
	phases := []func() []fleetv1alpha1.ClusterPhase{s.phases("east"), s.phases("west")}
	hub, err := env.Hub.Manager.Process()
	require.NoError(t, err)
	require.True(t, hub.Signal(unix.SIGSTOP))
	waited := pause(t.Context(), time.Duration(heartbeat.FailAfterSeconds+3)*time.Second)
	require.True(t, hub.Signal(unix.SIGCONT))
	require.True(t, waited)
	require.True(t, pause(t.Context(), time.Duration(heartbeat.FailAfterSeconds+1)*time.Second), "the test ended before the hub could wrongly declare the cluster dead")
	require.NoError(t, env.Hub.Manager.Start(t.Context())) // It may have lost its Lease.
	for _, end := range phases {
		require.Equal(t, []fleetv1alpha1.ClusterPhase{fleetv1alpha1.ClusterReady}, end())
	}
}

func TestI28GenerationIsObservedOnlyWhenEveryClusterAppliedIt(t *testing.T) {
	lab.Full(t) // The status of an object on the hub is a pure function of its rows.
	s := alone(t)
	s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	// The hub still reaches west, but no controller there reconciles what the hub applies.
	require.NoError(t, env.West.Manager.Stop(t.Context()))
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 4; image(ud, imageNew) })
	s.until(func(context.Context) string {
		if n := s.countUpdated(env.East); n != 2 {
			return "east does not continue"
		}
		return ""
	})
	s.until(func(context.Context) string {
		ud := s.get("web")
		for _, line := range ud.Status.SubsetStatuses {
			if line.Cluster == "east" && line.ObservedGeneration == ud.Generation && line.UpdatedReadyReplicas == 2 {
				return ""
			}
		}
		return "east does not report"
	})
	ud := s.get("web")
	require.Less(t, ud.Status.ObservedGeneration, ud.Generation)
	require.Zero(t, ud.Status.StaleClusters, "the cluster is slow, not unreachable")
	require.NoError(t, env.West.Manager.Start(t.Context()))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
}

func TestI13RemovingALabelOfAClusterDoesNotEmptyItAtOnce(t *testing.T) {
	lab.Full(t) // hub/row and hub/uniteddeployment test the pause of withdrawals with a fake client.
	s := alone(t)
	const objects = 14
	s.changeCluster("east", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels["mass"] = "yes" })
	s.changeCluster("west", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels["mass"] = "yes" })
	// Restart the hub's count: after a test had to allow deletions, the hub doesn't count for a while.
	require.NoError(t, env.Hub.Manager.Stop(t.Context()))
	require.NoError(t, env.Hub.Manager.Start(t.Context()))
	t.Cleanup(func() {
		s.changeCluster("east", func(mc *fleetv1alpha1.MemberCluster) { mc.Labels["mass"] = "yes"; delete(mc.Annotations, paused) })
	})
	for i := range objects {
		require.NoError(t, env.Hub.Client.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
			Namespace: s.namespace, Name: fmt.Sprintf("setting-%d", i), Labels: map[string]string{"app": "mass"},
		}}))
	}
	// Objects that are not divided: replicas would move to the other cluster first, and the withdrawal of an empty row loses nothing.
	require.NoError(t, env.Hub.Client.Create(t.Context(), &fleetv1alpha1.Propagation{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "settings"},
		Spec: fleetv1alpha1.PropagationSpec{
			Selectors: []fleetv1alpha1.PropagationSelector{{
				APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "mass"}},
			}},
			Clusters: fleetv1alpha1.PropagationClusters{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"mass": "yes"}}},
		},
	}))
	s.awaitPropagated("settings", 2*objects, 2*objects)
	s.changeCluster("east", func(mc *fleetv1alpha1.MemberCluster) { delete(mc.Labels, "mass") })
	s.until(func(context.Context) string {
		if s.cluster("east").Annotations[paused] == "" {
			return "withdrawals from east are not paused"
		}
		return ""
	})
	s.awaitQuiet()
	left := &corev1.ConfigMapList{}
	require.NoError(t, env.East.Client.List(t.Context(), left, client.InNamespace(s.namespace), client.MatchingLabels{"app": "mass"}))
	require.GreaterOrEqual(t, len(left.Items), objects-10, "at most ten withdrawals within a minute")
	// The remedies are to restore the label or to remove the annotation. The end of the test does both.
}
