//go:build e2e

package suite

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// leave makes a member leave and waits until the hub has released it.
func (s *scene) leave(c *fleet.Cluster, policy fleetv1alpha1.LeavePolicy, timeout int32) {
	s.Helper()
	s.changeCluster(c.Name, func(mc *fleetv1alpha1.MemberCluster) {
		mc.Spec.Leave = fleetv1alpha1.Leave{Policy: policy, TimeoutSeconds: timeout}
	})
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: c.Name}}
	require.NoError(s, env.Hub.Client.Delete(s.ctx, mc))
	s.until(func(ctx context.Context) string {
		err := env.Hub.Client.Get(ctx, client.ObjectKey{Name: c.Name}, mc)
		if apierrors.IsNotFound(err) {
			return ""
		}
		return fmt.Sprintf("%s is %s: rows %+v, %+v (%v)", c.Name, mc.Status.Phase, mc.Status.Rows, mc.Status.Conditions, err)
	})
}

// requireForgotten checks that the hub keeps nothing about a member that left, except the permission to read its tombstone.
func (s *scene) requireForgotten(cluster string) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		err := env.Hub.Client.Get(ctx, client.ObjectKey{Name: fleetv1alpha1.Namespace(cluster)}, &corev1.Namespace{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("its namespace still exists (%v)", err)
		}
		return ""
	})
	for _, list := range []client.ObjectList{&rbacv1.ClusterRoleList{}, &rbacv1.ClusterRoleBindingList{}, &rbacv1.RoleBindingList{}} {
		require.NoError(s, env.Hub.Client.List(s.ctx, list, client.MatchingLabels{"fleet.kruise.io/cluster": cluster}))
		require.Zero(s, count(list), "%T", list)
	}
}

func count(list client.ObjectList) int {
	switch l := list.(type) {
	case *rbacv1.ClusterRoleList:
		return len(l.Items)
	case *rbacv1.ClusterRoleBindingList:
		return len(l.Items)
	case *rbacv1.RoleBindingList:
		return len(slices.DeleteFunc(l.Items, func(b rbacv1.RoleBinding) bool {
			return b.Namespace == fleetv1alpha1.SystemNamespace && strings.HasPrefix(b.Name, fleetv1alpha1.TombstoneName(""))
		}))
	default:
		return -1
	}
}

// requireUnbound checks that a member is bound to no hub.
func (s *scene) requireUnbound(c *fleet.Cluster) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		err := c.Client.Get(ctx, client.ObjectKey{Name: "default"}, &fleetv1alpha1.Membership{})
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("%s is still bound to the hub (%v)", c.Name, err)
		}
		lines := &fleetv1alpha1.AppliedWorkList{}
		if err := c.Client.List(ctx, lines); err != nil || len(lines.Items) > 0 {
			return fmt.Sprintf("%d lines of the ledger are still in %s (%v)", len(lines.Items), c.Name, err)
		}
		return ""
	})
}

// The gate runs this for the push member only. The pull member is tested with policy Delete below.
func TestI12LeaveWithOrphanLeavesNoMetadata(t *testing.T) {
	for _, c := range env.Members() {
		t.Run(c.Name, func(t *testing.T) {
			if c == env.East {
				lab.Full(t)
			}
			s := alone(t)
			s.create(united("web", 4, in("east", "2"), in("west", "2")))
			s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
			before, mark := s.census("web"), fleet.Mark()
			s.leave(c, fleetv1alpha1.LeaveOrphan, 60)
			s.requireUnbound(c)
			left := s.slice(c, "web")
			require.NotNil(t, left)
			s.requireNoMetadata(left)
			s.awaitQuiet()
			require.Equal(t, before, s.census("web"), "no pod changes")
			s.requireNoDeletes(mark)
			s.requireForgotten(c.Name)

			// The hub's object names a cluster that is gone, and reports this. What was orphaned belongs to the user now.
			require.NotEqual(t, corev1.ConditionFalse, condition(s.get("web"), appsv1beta1.SubsetFailure).Status)
			s.remove("web")
			left = s.slice(c, "web")
			require.NotNil(t, left)
			require.Nil(t, left.DeletionTimestamp)
			require.NoError(t, c.Client.Delete(t.Context(), left))
		})
	}
}

func TestI12LeaveWithDeleteLeavesNothing(t *testing.T) {
	for _, c := range env.Members() {
		t.Run(c.Name, func(t *testing.T) {
			if c == env.West {
				lab.Full(t)
			}
			s := alone(t)
			s.create(united("web", 4, in("east", "2"), in("west", "2")))
			s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
			before := s.census("web")
			s.leave(c, fleetv1alpha1.LeaveDelete, 60)
			s.requireUnbound(c)
			require.Nil(t, s.slice(c, "web"))
			s.awaitNoPods(s.namespace, c)
			for _, other := range env.Members() {
				for _, p := range s.pods(other, "web") {
					require.Contains(t, before, other.Name+"/"+p.Name, "the other cluster's pods stay")
				}
			}
			s.requireForgotten(c.Name)
		})
	}
}

// requireTombstone checks that the hub left a tombstone for a member, and returns its key.
func (s *scene) requireTombstone(uid types.UID, policy fleetv1alpha1.LeavePolicy) client.ObjectKey {
	s.Helper()
	stone := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: fleetv1alpha1.SystemNamespace, Name: fleetv1alpha1.TombstoneName(string(uid))}
	require.NoError(s, env.Hub.Client.Get(s.ctx, key, stone))
	require.Equal(s, string(policy), stone.Data["policy"])
	return key
}

// requirePolicyApplied checks that a member that was unreachable has handled its two pods of web according to the policy.
func (s *scene) requirePolicyApplied(c *fleet.Cluster, policy fleetv1alpha1.LeavePolicy) {
	s.Helper()
	left := s.slice(c, "web")
	if policy == fleetv1alpha1.LeaveDelete {
		require.Nil(s, left)
		return
	}
	require.NotNil(s, left)
	s.requireNoMetadata(left)
	require.Len(s, s.pods(c, "web"), 2)
	require.NoError(s, c.Client.Delete(s.ctx, left))
}

func TestI12MemberThatWasAwayFollowsItsTombstone(t *testing.T) {
	for _, policy := range []fleetv1alpha1.LeavePolicy{fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete} {
		t.Run(string(policy), func(t *testing.T) {
			if policy == fleetv1alpha1.LeaveOrphan {
				lab.Full(t)
			}
			s := alone(t)
			s.create(united("web", 4, in("east", "2"), in("west", "2")))
			s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
			agent, uid := env.East.Manager, s.uidOf(env.East)
			require.NoError(t, agent.Stop(t.Context()))
			s.leave(env.East, policy, 1)
			s.requireForgotten("east")
			s.requireTombstone(uid, policy)
			require.NotNil(t, s.slice(env.East, "web"), "nothing happens while the member is unreachable")

			require.NoError(t, agent.Start(t.Context()))
			s.requireUnbound(env.East)
			s.requirePolicyApplied(env.East, policy)
		})
	}
}

func TestI12PushMemberThatWasAwayFollowsItsTombstone(t *testing.T) {
	lab.Full(t) // An integration test covers the hub's part, and a pull member is tested the same way here.
	for _, policy := range []fleetv1alpha1.LeavePolicy{fleetv1alpha1.LeaveOrphan, fleetv1alpha1.LeaveDelete} {
		t.Run(string(policy), func(t *testing.T) {
			s := alone(t)
			s.create(united("web", 4, in("east", "2"), in("west", "2")))
			s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
			uid := s.uidOf(env.West)
			require.NoError(t, env.West.StopControlPlane(t.Context()))
			s.leave(env.West, policy, 1)
			s.requireForgotten("west")
			key := s.requireTombstone(uid, policy)

			require.NoError(t, env.Hub.Manager.Stop(t.Context()))
			require.NoError(t, env.Hub.Manager.Start(t.Context()))
			require.NoError(t, env.West.StartControlPlane(t.Context()))
			require.NoError(t, env.West.Manager.Start(t.Context())) // It may have lost its leadership meanwhile.
			s.requireUnbound(env.West)
			s.until(func(ctx context.Context) string {
				if err := env.Hub.Client.Get(ctx, key, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
					return fmt.Sprintf("the tombstone still exists (%v)", err)
				}
				return ""
			})
			s.requirePolicyApplied(env.West, policy)
		})
	}
}

func TestI14NamespaceDeletedOnTheHubDoesNotCascade(t *testing.T) {
	s := parallel(t)
	s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	before := s.census("web")
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	require.NoError(t, env.Hub.Client.Delete(t.Context(), ns))
	s.awaitDeleted("web")
	s.until(func(ctx context.Context) string {
		if !apierrors.IsNotFound(env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(ns), ns)) {
			return "the namespace is still on the hub"
		}
		return ""
	})
	s.awaitQuiet()
	require.Equal(t, before, s.census("web"))
	for _, m := range env.Members() {
		left := s.slice(m, "web")
		require.NotNil(t, left)
		s.requireNoMetadata(left)
		require.NoError(t, m.Client.Delete(t.Context(), left))
	}
}

func TestDeletingTheObjectRemovesItEverywhere(t *testing.T) {
	s := parallel(t)
	ud := s.create(united("web", 4, in("east", "2"), in("west", "2")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	s.remove("web")
	for _, m := range env.Members() {
		_, err := s.findRow(ud, m.Name)
		require.True(t, apierrors.IsNotFound(err), "%v", err)
		require.Nil(t, s.slice(m, "web"))
		s.until(func(context.Context) string {
			if n := len(s.pods(m, "web")); n > 0 {
				return fmt.Sprintf("%d pods are left in %s", n, m.Name)
			}
			return ""
		})
	}
}

func TestClusterThatIsNoLongerAcceptedIsFrozen(t *testing.T) {
	s := alone(t)
	s.create(united("web", 4, in("east", "2"), in("west", "")))
	s.awaitSettled("web", shares{"east": 2, "west": 2}, nil)
	before := s.census("web")
	s.changeCluster("east", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = false })
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterPending))
	s.change("web", func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 6 })
	s.until(func(context.Context) string {
		if n := len(s.pods(env.West, "web")); n != 4 {
			return "west does not continue"
		}
		return ""
	})
	names := slices.Collect(func(yield func(string) bool) {
		for _, p := range s.pods(env.East, "web") {
			if !yield("east/" + p.Name) {
				return
			}
		}
	})
	require.Len(t, names, 2)
	for _, name := range names {
		require.Contains(t, before, name)
	}
	s.changeCluster("east", func(mc *fleetv1alpha1.MemberCluster) { mc.Spec.Accepted = true })
	require.NoError(t, env.AwaitPhase(t.Context(), "east", fleetv1alpha1.ClusterReady))
	s.awaitSettled("web", shares{"east": 2, "west": 4}, nil)
}
