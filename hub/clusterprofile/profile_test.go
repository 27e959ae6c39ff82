package clusterprofile

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
)

var (
	created  = metav1.NewTime(time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC))
	reported = metav1.NewTime(time.Date(2026, 1, 2, 11, 0, 0, 0, time.UTC))
	lost     = metav1.NewTime(time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC))
)

func condition(kind string, status metav1.ConditionStatus, reason string, since metav1.Time) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: "because " + reason, LastTransitionTime: since}
}

func TestStatusOf(t *testing.T) {
	t.Parallel()
	fresh := condition(fleetv1alpha1.ConditionHeartbeatFresh, metav1.ConditionTrue, "Renewed", reported)
	for _, tc := range []struct {
		name       string
		conditions []metav1.Condition
		change     func(*fleetv1alpha1.MemberCluster)
		want       map[string]any
		properties []any
		version    any
	}{
		{
			name: "a cluster that has not joined is Unknown since its creation",
			want: map[string]any{
				"status": "Unknown", "reason": "NotJoined", "message": "the cluster has not joined yet", "lastTransitionTime": "2026-01-02T10:00:00Z",
			},
			properties: []any{},
		},
		{
			name:       "a cluster that renews its Lease has the health that its agent reports",
			conditions: []metav1.Condition{fresh, condition(fleetv1alpha1.ConditionAPIHealthy, metav1.ConditionFalse, "Slow", lost)},
			change: func(mc *fleetv1alpha1.MemberCluster) {
				mc.Spec.Region, mc.Spec.Zone, mc.Spec.Provider = "eu", "eu-1", "metal"
				mc.Spec.Identity = &fleetv1alpha1.ClusterIdentity{ClusterUID: "u1"}
				mc.Status.ClusterUID, mc.Status.KubernetesVersion = "forged", "v1.36.2"
			},
			want: map[string]any{"status": "False", "reason": "Slow", "message": "because Slow", "lastTransitionTime": "2026-01-02T12:00:00Z"},
			properties: []any{
				map[string]any{"name": "fleet.kruise.io/cluster-uid", "value": "u1"},
				map[string]any{"name": "fleet.kruise.io/provider", "value": "metal"},
				map[string]any{"name": "topology.kubernetes.io/region", "value": "eu"},
				map[string]any{"name": "topology.kubernetes.io/zone", "value": "eu-1"},
			},
			version: map[string]any{"kubernetes": "v1.36.2"},
		},
		{
			name: "a cluster that does not renew its Lease is Unknown, whatever its agent reported before",
			conditions: []metav1.Condition{
				condition(fleetv1alpha1.ConditionHeartbeatFresh, metav1.ConditionFalse, "Silent", lost),
				condition(fleetv1alpha1.ConditionAPIHealthy, metav1.ConditionTrue, "Healthy", reported),
			},
			want:       map[string]any{"status": "Unknown", "reason": "Silent", "message": "because Silent", "lastTransitionTime": "2026-01-02T12:00:00Z"},
			properties: []any{},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east", CreationTimestamp: created}}
			mc.Status.Conditions = tc.conditions
			if tc.change != nil {
				tc.change(mc)
			}
			tc.want["type"] = "ControlPlaneHealthy"
			want := map[string]any{"conditions": []any{tc.want}, "properties": tc.properties}
			if tc.version != nil {
				want["version"] = tc.version
			}
			require.Equal(t, want, statusOf(mc))
		})
	}
}

// A MemberCluster that is missing from a cache is not gone, and a ClusterProfile of another manager must not be deleted.
func TestOnlyTheApiserverProvesThatAClusterIsGone(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	require.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	mc := &fleetv1alpha1.MemberCluster{ObjectMeta: metav1.ObjectMeta{Name: "east"}}
	for _, tc := range []struct {
		name    string
		live    []client.Object
		manager string
		deletes int
	}{
		{"the apiserver has it", []client.Object{mc}, Manager, 0},
		{"the apiserver does not have it", nil, Manager, 1},
		{"the ClusterProfile belongs to another manager", nil, "another", 0},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			profile := specOf(mc, "clusters", "v1alpha1")
			profile.SetUID("p1")
			require.NoError(t, unstructured.SetNestedField(profile.Object, tc.manager, "spec", "clusterManager", "name"))
			deletes := 0
			api := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).Build(), interceptor.Funcs{
				Delete: func(_ context.Context, _ client.WithWatch, o client.Object, options ...client.DeleteOption) error {
					deletes++
					require.Equal(t, profile, o)
					require.Equal(t, []client.DeleteOption{client.Preconditions{UID: new(profile.GetUID())}}, options)
					return nil
				},
			})
			r := &reconciler{
				client: api, live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(tc.live...).Build(),
				version: "v1alpha1", synced: true, profiles: map[string]*unstructured.Unstructured{"east": profile},
			}
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Name: "east"}})
			require.NoError(t, err)
			require.Equal(t, tc.deletes, deletes)
		})
	}
}
