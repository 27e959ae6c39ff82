package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

// rowIn returns the row of a UnitedDeployment in a cluster, which has acknowledged it. All of its pods are available.
func rowIn(cluster, subset, revision string, replicas, updated int32, change ...func(*fleetv1alpha1.MemberWork)) *fleetv1alpha1.MemberWork {
	row := &fleetv1alpha1.MemberWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: fleetv1alpha1.Namespace(cluster), Name: "uniteddeployment-1", Generation: 4,
			Labels: map[string]string{keys.FleetSourceUID: "demo-uid", keys.FleetCluster: cluster},
		},
		Spec: fleetv1alpha1.MemberWorkSpec{Grant: fleetv1alpha1.WorkGrant{Revision: revision, Replicas: replicas, Subsets: []fleetv1alpha1.SubsetGrant{{
			Name: subset, Replicas: replicas, Lower: replicas, Upper: replicas,
		}}}},
		Status: fleetv1alpha1.MemberWorkStatus{ObservedGeneration: 4, Phase: fleetv1alpha1.WorkHealthy, Revision: revision, Subsets: []fleetv1alpha1.SubsetCounts{{
			Name: subset, WorkCounts: fleetv1alpha1.WorkCounts{
				Desired: replicas, Replicas: replicas, Ready: replicas, Available: replicas, Updated: updated, UpdatedReady: updated, UpdatedAvailable: updated,
			},
		}}},
	}
	for _, c := range change {
		c(row)
	}
	return row
}

// mayUpdate sets the granted maxUnavailable, and the bounds.
func mayUpdate(maxUnavailable, unavailableUpper, updatedUpper int32) func(*fleetv1alpha1.MemberWork) {
	return func(row *fleetv1alpha1.MemberWork) {
		g := &row.Spec.Grant.Subsets[0]
		g.MaxUnavailable, g.UnavailableUpper, g.UpdatedUpper = &maxUnavailable, unavailableUpper, updatedUpper
	}
}

func unacknowledged(row *fleetv1alpha1.MemberWork) { row.Generation++ }

func lacks(n int32) func(*fleetv1alpha1.MemberWork) {
	return func(row *fleetv1alpha1.MemberWork) {
		c := &row.Status.Subsets[0]
		c.Available, c.UpdatedAvailable = c.Available-n, max(c.UpdatedAvailable-n, 0)
	}
}

// darkRollout returns a UnitedDeployment and its rows. eu-1 is complete, eu-2 has not acknowledged its grant, and us-1 doesn't answer.
func darkRollout(change ...changeUD) []client.Object {
	ud := inWaves(pods.WaveDone, pods.WaveUpdating, "some clusters don't answer, so that all of their pods (1) count as unavailable: us-1", [3]int32{2, 0, 0},
		append([]changeUD{func(ud *appsv1beta1.UnitedDeployment) {
			s := &ud.Status
			s.SubsetStatuses[2].Stale, s.SubsetStatuses[2].Reason, s.StaleClusters = true, "ClusterUnreachable", 1
			s.Rollout.Budget = pods.RolloutBudget{Max: 2, Spent: 2, Bound: 2}
		}}, change...)...)
	return []client.Object{
		ud, rowIn("us-1", "us", "demo-2", 1, 1), rowIn("eu-2", "eu-eu-2", "demo-3", 2, 0, mayUpdate(1, 1, 2), unacknowledged, lacks(1)),
		rowIn("eu-1", "eu-eu-1", "demo-3", 2, 2, mayUpdate(2, 2, 2)),
		rowIn("eu-1", "other", "demo-3", 9, 9, func(row *fleetv1alpha1.MemberWork) {
			row.Name, row.Labels[keys.FleetSourceUID] = "uniteddeployment-2", "another"
		}),
	}
}

func TestWhyListsWhatUsesUpTheBudget(t *testing.T) {
	t.Parallel()
	out, err := run(t, newCluster(t, darkRollout()...), "rollout", "status", "ud/demo", "--why")
	require.NoError(t, err)
	golden(t, "status-why", out)
}

func TestWhySkipsClustersThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	out, err := run(t, newCluster(t, darkRollout(rolloutOf(func(r *pods.RolloutPlan) { r.StaleClusters = pods.StaleClustersSkip }), func(ud *appsv1beta1.UnitedDeployment) {
		ud.Status.Rollout.Budget = pods.RolloutBudget{Max: 2, Spent: 1, Bound: 1}
	})...), "rollout", "status", "ud/demo", "--why")
	require.NoError(t, err)
	golden(t, "status-why-skip", out)
}

func TestWhyNamesRowsThatAreNotAsTheyShouldBe(t *testing.T) {
	t.Parallel()
	stalled := func(ud *appsv1beta1.UnitedDeployment) {
		ud.Status.Conditions = []appsv1beta1.UnitedDeploymentCondition{{Type: "Stalled", Status: "True", Reason: "Invalid", Message: "no such field"}}
	}
	objects := []client.Object{
		inWaves(pods.WaveUpdating, pods.WavePending, "", [3]int32{0, 0, 0}, stalled),
		rowIn("eu-1", "eu-eu-1", "demo-3", 2, 1, mayUpdate(0, 2, 2), func(row *fleetv1alpha1.MemberWork) {
			row.Status.Phase, row.Status.Reason = fleetv1alpha1.WorkBlocked, fleetv1alpha1.ReasonInvalid
		}),
		rowIn("eu-2", "eu-eu-2", "", 2, 2, func(row *fleetv1alpha1.MemberWork) {
			row.Finalizers, row.DeletionTimestamp = []string{keys.FleetRow}, &metav1.Time{Time: created}
			row.Status.Subsets = nil
		}),
	}
	out, err := run(t, newCluster(t, objects...), "rollout", "status", "ud/demo", "--why")
	require.EqualError(t, err, "ud/demo: 0 of 5 new pods have been updated: Invalid: no such field", "the table is printed nevertheless")
	golden(t, "status-why-blocked", out)

	objects = []client.Object{overHub(func(ud *appsv1beta1.UnitedDeployment) { ud.Spec.Replicas = new(int32(0)) })}
	out, err = run(t, newCluster(t, objects...), "rollout", "status", "ud/demo", "--why")
	require.NoError(t, err)
	require.Contains(t, out, "The status has no budget: the hub has not planned a rollout yet.\n")
}

func TestWhyIsRefused(t *testing.T) {
	t.Parallel()
	rows := schema.GroupResource{Group: "fleet.kruise.io", Resource: "memberworks"}
	for _, c := range []struct {
		name    string
		object  client.Object
		args    []string
		listing error
		fail    string
	}{
		{
			"a CloneSet has no budget over clusters", demo(),
			[]string{"clone/demo"},
			nil,
			"--why shows the budget of a rollout over clusters, which only UnitedDeployments on a hub have: omit --why for cloneset/demo",
		},
		{
			"type Manual has no budget", unitedDeployment(),
			[]string{"ud/demo"},
			nil,
			"--why shows the budget of a rollout with updateStrategy.type Waves, and ud/demo has Manual: omit --why",
		},
		{"it doesn't follow", overHub(), []string{"ud/demo", "--watch"}, nil, "--why looks once: omit --watch"},
		{
			"a user who may not read rows is told which right is missing", overHub(halfway),
			[]string{"ud/demo"},
			apierrors.NewForbidden(rows, "", errors.New("no")),
			"--why reads what the hub asks of each cluster for ud/demo: you need the right to list memberworks.fleet.kruise.io in all namespaces, given by a " +
				"ClusterRoleBinding: memberworks.fleet.kruise.io is forbidden: no",
		},
		{
			"a member has no rows", overHub(halfway),
			[]string{"ud/demo"},
			&meta.NoKindMatchError{GroupKind: schema.GroupKind{Group: "fleet.kruise.io", Kind: "MemberWork"}},
			"choose the hub's context with --context",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := clusterBuilder(t, c.object).WithInterceptorFuncs(interceptor.Funcs{
				List: func(ctx context.Context, s client.WithWatch, l client.ObjectList, opts ...client.ListOption) error {
					if _, ok := l.(*fleetv1alpha1.MemberWorkList); ok && c.listing != nil {
						return c.listing
					}
					return s.List(ctx, l, opts...)
				},
			}).Build()
			out, err := run(t, s, append([]string{"rollout", "status", "--why"}, c.args...)...)
			require.ErrorContains(t, err, c.fail)
			if c.listing != nil {
				require.Contains(t, out, "3 of 5 new pods have been updated", "what the object says is printed")
			}
		})
	}
}

func TestWhyOfADeploymentCountsItAsAWhole(t *testing.T) {
	t.Parallel()
	whole := overHub(func(ud *appsv1beta1.UnitedDeployment) {
		ud.Spec.Template = appsv1beta1.SubsetTemplate{DeploymentTemplate: &appsv1beta1.DeploymentTemplateSpec{Spec: appsv1.DeploymentSpec{Template: pod("nginx:1")}}}
	})
	row := rowIn("eu-1", "eu-eu-1", "demo-3", 5, 3, mayUpdate(2, 2, 5))
	lines := newSum(whole, []fleetv1alpha1.MemberWork{*row}).lines
	require.Len(t, lines, 1)
	require.Equal(t, 0, lines[0].spent)
	require.Equal(t, 2, lines[0].bound, "two pods are to be updated yet")
	require.Equal(t, 3, lines[0].updated)
}

func TestWhyCountsAsTheHubDoes(t *testing.T) {
	t.Parallel()
	total := func(ud *appsv1beta1.UnitedDeployment, rows ...*fleetv1alpha1.MemberWork) (spent, bound int) {
		var all []fleetv1alpha1.MemberWork
		for _, row := range rows {
			all = append(all, *row)
		}
		for _, l := range newSum(ud, all).lines {
			spent, bound = spent+l.spent, bound+l.bound
		}
		return spent, bound
	}
	bounds := func(lower, upper int32) func(*fleetv1alpha1.MemberWork) {
		return func(row *fleetv1alpha1.MemberWork) {
			row.Spec.Grant.Subsets[0].Lower, row.Spec.Grant.Subsets[0].Upper = lower, upper
		}
	}
	dark := overHub(func(ud *appsv1beta1.UnitedDeployment) {
		for i := range ud.Status.SubsetStatuses {
			ud.Status.SubsetStatuses[i].Stale = true
		}
	})
	limited := overHub(func(ud *appsv1beta1.UnitedDeployment) {
		ud.Status.UnallocatedReplicas = 1
		for i := range ud.Spec.Topology.Subsets {
			ud.Spec.Topology.Subsets[i].MaxReplicas = new(intstr.FromInt32(3))
		}
	})
	unplaced := overHub(func(ud *appsv1beta1.UnitedDeployment) { ud.Status.UnallocatedReplicas = 1 })
	for _, c := range []struct {
		name         string
		ud           *appsv1beta1.UnitedDeployment
		row          *fleetv1alpha1.MemberWork
		spent, bound int
	}{
		{"bounds of a grant that was acknowledged don't count", dark, rowIn("eu-1", "eu-eu-1", "demo-3", 5, 5, bounds(3, 9)), 5, 5},
		{"bounds of a grant that was not acknowledged count", dark, rowIn("eu-1", "eu-eu-1", "demo-3", 5, 5, bounds(3, 9), unacknowledged), 9, 9},
		{"pods that may be deleted yet don't count as available", overHub(), rowIn("eu-1", "eu-eu-1", "demo-3", 5, 5, bounds(3, 5), unacknowledged), 2, 2},
		{"what was granted to updates counts", overHub(), rowIn("eu-1", "eu-eu-1", "demo-3", 5, 1, mayUpdate(2, 2, 5)), 0, 2},
		{"more than is left to update doesn't count", overHub(), rowIn("eu-1", "eu-eu-1", "demo-3", 5, 4, mayUpdate(2, 2, 5)), 0, 1},
		{"pods that maximums exclude don't count", limited, rowIn("eu-1", "eu-eu-1", "demo-3", 4, 4), 0, 0},
		{"pods for which no cluster answers count", unplaced, rowIn("eu-1", "eu-eu-1", "demo-3", 4, 4), 1, 1},
		{"impossible reports are limited", overHub(), rowIn("eu-1", "eu-eu-1", "demo-3", 5, 5, lacks(9)), 5, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			spent, bound := total(c.ud, c.row)
			require.Equal(t, c.spent, spent)
			require.Equal(t, c.bound, bound)
		})
	}
}
