package capi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1" //nolint:staticcheck // Older versions of Cluster API serve only this one.
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPhase(t *testing.T) {
	t.Parallel()
	deleted := &metav1.Time{Time: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	for _, c := range []struct {
		name string
		// change is applied to a Cluster whose control plane is initialized.
		change func(*clusterv1.Cluster)
		old    func(*clusterv1beta1.Cluster)
		want   Phase
	}{
		{"a Cluster with an initialized control plane is provisioned", func(*clusterv1.Cluster) {}, func(*clusterv1beta1.Cluster) {}, Provisioned},
		{
			"a Cluster without conditions waits",
			func(c *clusterv1.Cluster) { c.Status.Conditions = nil },
			func(c *clusterv1beta1.Cluster) { c.Status.Conditions = nil },
			Waiting,
		},
		{
			"a Cluster whose control plane is not initialized waits",
			func(c *clusterv1.Cluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse },
			func(c *clusterv1beta1.Cluster) { c.Status.Conditions[0].Status = "False" },
			Waiting,
		},
		{
			"a Cluster with a deletionTimestamp is being deleted, even if it was never provisioned",
			func(c *clusterv1.Cluster) { c.DeletionTimestamp, c.Status.Conditions = deleted, nil },
			func(c *clusterv1beta1.Cluster) { c.DeletionTimestamp, c.Status.Conditions = deleted, nil },
			Deleting,
		},
		{
			"a paused Cluster is not being deleted",
			func(c *clusterv1.Cluster) { c.DeletionTimestamp, c.Spec.Paused = deleted, new(true) },
			func(c *clusterv1beta1.Cluster) { c.DeletionTimestamp, c.Spec.Paused = deleted, true },
			Provisioned,
		},
		{
			"a Cluster paused by annotation is not being deleted",
			func(c *clusterv1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{clusterv1.PausedAnnotation: ""}
			},
			func(c *clusterv1beta1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{clusterv1beta1.PausedAnnotation: ""}
			},
			Provisioned,
		},
		{
			"a Cluster that was moved to another management cluster is not being deleted",
			func(c *clusterv1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{annotationMoved: ""}
			},
			func(c *clusterv1beta1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{annotationMoved: ""}
			},
			Provisioned,
		},
		{
			"a Cluster that is no longer paused is being deleted",
			func(c *clusterv1.Cluster) { c.DeletionTimestamp, c.Spec.Paused = deleted, new(false) },
			func(c *clusterv1beta1.Cluster) { c.DeletionTimestamp = deleted },
			Deleting,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			present := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{Conditions: []metav1.Condition{{
				Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue,
			}}}}
			c.change(present)
			previous := &clusterv1beta1.Cluster{Status: clusterv1beta1.ClusterStatus{Conditions: clusterv1beta1.Conditions{{
				Type: clusterv1beta1.ControlPlaneInitializedCondition, Status: "True",
			}}}}
			c.old(previous)
			for version, o := range map[string]client.Object{"v1beta2": present, "v1beta1": previous} {
				require.IsType(t, newCluster(version), o)
				require.Equal(t, c.want, phaseOf(o), version)
				stripped, err := stripCluster(o.DeepCopyObject())
				require.NoError(t, err)
				require.Equal(t, o, stripped, "%s: the fields that phaseOf reads are kept", version)
			}
		})
	}
}

func TestCachedClustersAreStripped(t *testing.T) {
	t.Parallel()
	metadata := metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl"}}}
	for version, o := range map[string]client.Object{
		"v1beta2": &clusterv1.Cluster{
			ObjectMeta: metadata, Spec: clusterv1.ClusterSpec{Topology: clusterv1.Topology{Version: "v1.36.3"}},
			Status: clusterv1.ClusterStatus{Phase: "Provisioning"},
		},
		"v1beta1": &clusterv1beta1.Cluster{
			ObjectMeta: metadata, Spec: clusterv1beta1.ClusterSpec{Topology: &clusterv1beta1.Topology{Version: "v1.36.3"}},
			Status: clusterv1beta1.ClusterStatus{Phase: "Provisioning"},
		},
	} {
		stripped, err := stripCluster(o)
		require.NoError(t, err)
		require.Equal(t, newCluster(version), stripped)
	}
}
