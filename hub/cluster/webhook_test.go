package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestDeletingAClusterWithItsPodsWarns(t *testing.T) {
	t.Parallel()
	row := func(namespace, name string, replicas int32, deleting bool) client.Object {
		w := &fleetv1alpha1.MemberWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Finalizers: []string{keys.FleetRow}},
			Spec: fleetv1alpha1.MemberWorkSpec{
				Source: fleetv1alpha1.WorkSource{Kind: "UnitedDeployment"},
				Grant:  fleetv1alpha1.WorkGrant{Replicas: replicas, Subsets: []fleetv1alpha1.SubsetGrant{{Name: "a", Replicas: replicas}}},
			},
		}
		if deleting {
			w.DeletionTimestamp = &metav1.Time{Time: noon}
		}
		return w
	}
	object := func(name, kind string, counts fleetv1alpha1.WorkCounts) client.Object {
		w := row("fleet-east", name, 0, false).(*fleetv1alpha1.MemberWork)
		w.Spec.Grant, w.Status.Counts = fleetv1alpha1.WorkGrant{}, counts
		w.Spec.Source, w.Spec.Object = fleetv1alpha1.WorkSource{Kind: "Propagation"}, &fleetv1alpha1.WorkObject{Kind: kind, Name: name}
		return w
	}
	copies := row("fleet-east", "copies", 0, false).(*fleetv1alpha1.MemberWork)
	copies.Spec.Grant, copies.Spec.Source.Kind = fleetv1alpha1.WorkGrant{}, "ResourceDistribution"
	copies.Status.Counts = fleetv1alpha1.WorkCounts{Desired: 21, Available: 20}
	for _, c := range []struct {
		name   string
		policy fleetv1alpha1.LeavePolicy
		rows   []client.Object
		want   string
	}{
		{
			"with Delete, the warning has the granted replicas", fleetv1alpha1.LeaveDelete,
			[]client.Object{
				row("fleet-east", "a", 3, false), row("fleet-east", "b", 4, false), row("fleet-east", "empty", 0, false),
				row("fleet-east", "going", 5, true), row("fleet-west", "c", 6, false),
			},
			"deletes objects (2) in member cluster east at once: 2 of kind UnitedDeployment (replicas: 7)",
		},
		{
			"objects that are not divided, objects without replicas and copies count too", fleetv1alpha1.LeaveDelete,
			[]client.Object{
				row("fleet-east", "a", 3, false), copies, object("b", "Deployment", fleetv1alpha1.WorkCounts{Desired: 10, Replicas: 12}),
				object("c", "Service", fleetv1alpha1.WorkCounts{}), object("d", "Service", fleetv1alpha1.WorkCounts{}),
				object("e", "Deployment", fleetv1alpha1.WorkCounts{Desired: 4}),
			},
			"deletes objects (6) in member cluster east at once: 2 of kind Deployment (replicas: 14), 1 of kind ResourceDistribution (copies: 20), " +
				"2 of kind Service, 1 of kind UnitedDeployment (replicas: 3)",
		},
		{
			"the warning says how to avoid the loss", fleetv1alpha1.LeaveDelete,
			[]client.Object{row("fleet-east", "a", 3, false)},
			"first run kubectl kruise cluster taint east leave:Evict, wait until kubectl get memberworks -n fleet-east lists nothing, and then delete it",
		},
		{"with Delete, there is no warning for a drained cluster", fleetv1alpha1.LeaveDelete, []client.Object{row("fleet-east", "a", 0, false)}, ""},
		{"with Orphan, nothing is deleted", fleetv1alpha1.LeaveOrphan, []client.Object{row("fleet-east", "a", 3, false)}, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := runtime.NewScheme()
			require.NoError(t, fleetv1alpha1.AddToScheme(s))
			mc := settled().mc
			mc.Spec.Leave.Policy = c.policy
			v := &validator{reader: fake.NewClientBuilder().WithScheme(s).WithObjects(c.rows...).Build()}
			warnings, err := v.ValidateDelete(t.Context(), mc)
			require.NoError(t, err, "a delete is never refused")
			if c.want == "" {
				require.Empty(t, warnings)
				return
			}
			require.Len(t, warnings, 1)
			require.Contains(t, warnings[0], c.want)
		})
	}
}
