// Package capi tests how the hub reads Cluster API, using Cluster API's own types and constants. It is a separate module, so that neither the
// product nor its other tests depend on Cluster API. Its go.mod also determines which version's CRDs the hub's tests install.
package capi

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1beta1 "sigs.k8s.io/cluster-api/api/core/v1beta1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/cluster-api/util/secret"

	"github.com/flotilla-io/flotilla/hub/capi"
)

func TestContractIsClusterAPIs(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ name, ours, theirs string }{
		{"the group", capi.Group, clusterv1.GroupVersion.Group},
		{"the kind", capi.Kind, clusterv1.ClusterKind},
		{"the condition", capi.ConditionInitialized, clusterv1.ClusterControlPlaneInitializedCondition},
		{"the condition in v1beta1", capi.ConditionInitialized, string(clusterv1beta1.ControlPlaneInitializedCondition)},
		{"the annotation that pauses", capi.AnnotationPaused, clusterv1.PausedAnnotation},
		{"the annotation of what was moved", capi.AnnotationMoved, clusterctlv1.DeleteForMoveAnnotation},
		{"the Secret of the kubeconfig", capi.KubeconfigSecret("east"), secret.Name("east", secret.Kubeconfig)},
		{"its key", capi.KubeconfigKey, secret.KubeconfigDataName},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, c.theirs, c.ours)
		})
	}
	require.Equal(t, []string{clusterv1.GroupVersion.Version, clusterv1beta1.GroupVersion.Version}, capi.Versions())
}

func TestPhaseOfClusterAPIsTypes(t *testing.T) {
	t.Parallel()
	deleted := &metav1.Time{Time: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)}
	for _, c := range []struct {
		name string
		// change is applied to a Cluster whose control plane is initialized.
		change func(*clusterv1.Cluster)
		old    func(*clusterv1beta1.Cluster)
		want   capi.Phase
	}{
		{"one with an initialized control plane is provisioned", func(*clusterv1.Cluster) {}, func(*clusterv1beta1.Cluster) {}, capi.Provisioned},
		{
			"one without conditions waits",
			func(c *clusterv1.Cluster) { c.Status.Conditions = nil },
			func(c *clusterv1beta1.Cluster) { c.Status.Conditions = nil },
			capi.Waiting,
		},
		{
			"one whose control plane is not initialized waits",
			func(c *clusterv1.Cluster) { c.Status.Conditions[0].Status = metav1.ConditionFalse },
			func(c *clusterv1beta1.Cluster) { c.Status.Conditions[0].Status = "False" },
			capi.Waiting,
		},
		{
			"one that is deleted is being deleted, also if it was never provisioned",
			func(c *clusterv1.Cluster) { c.DeletionTimestamp, c.Status.Conditions = deleted, nil },
			func(c *clusterv1beta1.Cluster) { c.DeletionTimestamp, c.Status.Conditions = deleted, nil },
			capi.Deleting,
		},
		{
			"one that is paused is not being deleted",
			func(c *clusterv1.Cluster) { c.DeletionTimestamp, c.Spec.Paused = deleted, new(true) },
			func(c *clusterv1beta1.Cluster) { c.DeletionTimestamp, c.Spec.Paused = deleted, true },
			capi.Provisioned,
		},
		{
			"nor one that is paused by annotation",
			func(c *clusterv1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{clusterv1.PausedAnnotation: ""}
			},
			func(c *clusterv1beta1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{clusterv1beta1.PausedAnnotation: ""}
			},
			capi.Provisioned,
		},
		{
			"nor one that was moved to another management cluster",
			func(c *clusterv1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			},
			func(c *clusterv1beta1.Cluster) {
				c.DeletionTimestamp, c.Annotations = deleted, map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			},
			capi.Provisioned,
		},
		{
			"one that is not paused any more is being deleted",
			func(c *clusterv1.Cluster) { c.DeletionTimestamp, c.Spec.Paused = deleted, new(false) },
			func(c *clusterv1beta1.Cluster) { c.DeletionTimestamp = deleted },
			capi.Deleting,
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			present := &clusterv1.Cluster{Status: clusterv1.ClusterStatus{Conditions: []metav1.Condition{{
				Type: clusterv1.ClusterControlPlaneInitializedCondition, Status: metav1.ConditionTrue, Reason: clusterv1.ClusterControlPlaneInitializedReason,
			}}}}
			c.change(present)
			require.Equal(t, c.want, capi.PhaseOf(raw(t, present)), "v1beta2")
			former := &clusterv1beta1.Cluster{Status: clusterv1beta1.ClusterStatus{Conditions: clusterv1beta1.Conditions{{
				Type: clusterv1beta1.ControlPlaneInitializedCondition, Status: "True",
			}}}}
			c.old(former)
			require.Equal(t, c.want, capi.PhaseOf(raw(t, former)), "v1beta1")
		})
	}
}

func raw(t *testing.T, o runtime.Object) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
	require.NoError(t, err)
	return &unstructured.Unstructured{Object: fields}
}
