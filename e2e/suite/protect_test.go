//go:build e2e

package suite

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
)

// setProtection sets the label that protects an object in east from deletion. Nil removes it.
func (s *scene) setProtection(o client.Object, value *string) {
	s.Helper()
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]any{keys.DeleteProtection: value}}})
	require.NoError(s, err)
	require.NoError(s, env.East.Client.Patch(s.ctx, o, client.RawPatch(types.MergePatchType, text)))
}

// awaitGone waits until an object in east is gone.
func (s *scene) awaitGone(o client.Object) {
	s.Helper()
	s.until(func(ctx context.Context) string {
		if err := env.East.Client.Get(ctx, client.ObjectKeyFromObject(o), o); !apierrors.IsNotFound(err) {
			return fmt.Sprintf("%T %s is still there (%v)", o, o.GetName(), err)
		}
		return ""
	})
}

func TestCloneSetAndItsNamespaceAreProtectedFromDeletionByLabel(t *testing.T) {
	s := parallel(t)
	refused := func(o client.Object, why string) {
		t.Helper()
		err := env.East.Client.Delete(t.Context(), o)
		require.True(t, apierrors.IsForbidden(err), "%v", err)
		require.ErrorContains(t, err, why)
	}
	s.apply(env.East, "cloneset-protected.yaml")
	set := s.cloneSet("protected", 2)
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	s.setProtection(ns, new("Cascading"))
	refused(set, "forbidden by ResourcesProtectionDeletion: label policy.kruise.io/delete-protection=Cascading protects CloneSet "+s.namespace+"/protected: spec.replicas is 2")
	refused(ns, "it contains a pod, "+s.namespace+"/protected-")

	s.setProtection(set, nil)
	require.NoError(t, env.East.Client.Delete(t.Context(), set))
	s.awaitGone(set)
	s.until(func(context.Context) string {
		if n := len(s.pods(env.East, "protected")); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
	s.setProtection(ns, new("Always"))
	refused(ns, "to delete it, remove the label first")
	s.setProtection(ns, nil)
	require.NoError(t, env.East.Client.Delete(t.Context(), ns))
	s.awaitGone(ns)
}

// TestResourceDistributionReachesANamespaceThatComesLater distributes a Secret that the chart allows, with the permissions that the chart
// grants.
func TestResourceDistributionReachesANamespaceThatComesLater(t *testing.T) {
	s := parallel(t)
	team := map[string]string{"team": s.namespace}
	first := s.createNamespace("first", team)
	rd := &appsv1beta1.ResourceDistribution{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: appsv1beta1.ResourceDistributionSpec{
			Resource: runtime.RawExtension{Raw: []byte(`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"registry"},"stringData":{"user":"puller"}}`)},
			Targets:  appsv1beta1.ResourceDistributionTargets{NamespaceSelector: metav1.LabelSelector{MatchLabels: team}},
		},
	}
	require.NoError(t, env.East.Client.Create(t.Context(), rd))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.East.Client.Delete(context.WithoutCancel(t.Context()), rd)))
	})
	copied := func(namespaces ...string) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			for _, namespace := range namespaces {
				current := &corev1.Secret{}
				if err := env.East.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "registry"}, current); err != nil {
					return err.Error()
				}
				if string(current.Data["user"]) != "puller" {
					return namespace + " has another value"
				}
			}
			if err := env.East.Client.Get(ctx, client.ObjectKeyFromObject(rd), rd); err != nil {
				return err.Error()
			}
			if int(rd.Status.Succeeded) != len(namespaces) || rd.Status.Failed != 0 {
				return fmt.Sprintf("%+v", rd.Status)
			}
			return ""
		})
	}
	copied(first)
	later := s.createNamespace("later", team)
	copied(first, later)
	edited := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: later, Name: "registry"}}
	require.NoError(t, env.East.Client.Patch(t.Context(), edited, client.RawPatch(types.MergePatchType, []byte(`{"stringData":{"user":"nobody"}}`))))
	copied(first, later)
	require.NoError(t, env.East.Client.Delete(t.Context(), rd))
	for _, namespace := range []string{first, later} {
		s.awaitGone(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "registry"}})
	}
}
