//go:build e2e

package suite

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// TestASecretIsDistributedToClusters distributes one Secret to 20 namespaces in east, which pulls, and in west, to which the hub pushes, with
// the permissions and within the limits of their charts. A third cluster is named before it exists.
func TestASecretIsDistributedToClusters(t *testing.T) {
	s := parallel(t)
	const namespaces = 20
	team := map[string]string{"team": s.namespace}
	var names []string
	for i := range namespaces {
		name := fmt.Sprintf("%s-n%d", s.namespace[:min(len(s.namespace), 50)], i)
		for _, m := range env.Members() {
			ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: team}}
			require.NoError(t, m.Client.Create(s.ctx, ns))
			t.Cleanup(func() {
				require.NoError(t, client.IgnoreNotFound(m.Client.Delete(context.WithoutCancel(s.ctx), ns)))
			})
		}
		names = append(names, name)
	}
	secret := func(password string) runtime.RawExtension {
		return runtime.RawExtension{Raw: fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"registry"},"data":{"password":%q}}`,
			base64.StdEncoding.EncodeToString([]byte(password)))}
	}
	rd := &appsv1beta1.ResourceDistribution{
		ObjectMeta: metav1.ObjectMeta{Name: s.namespace},
		Spec: appsv1beta1.ResourceDistributionSpec{
			Resource: secret("first-password"),
			Targets: appsv1beta1.ResourceDistributionTargets{
				NamespaceSelector: metav1.LabelSelector{MatchLabels: team},
				Clusters:          &appsv1beta1.ResourceDistributionClusters{Names: []string{fleet.EastName, fleet.WestName, "not-yet"}},
			},
		},
	}
	require.NoError(t, env.Hub.Client.Create(s.ctx, rd))
	t.Cleanup(func() {
		require.NoError(t, client.IgnoreNotFound(env.Hub.Client.Delete(context.WithoutCancel(s.ctx), rd)))
	})
	// distributed waits until the namespaces in these clusters have the Secret, and the status on the hub reports this.
	distributed := func(password string, clusters ...*fleet.Cluster) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			for _, c := range clusters {
				for _, namespace := range names {
					current := &corev1.Secret{}
					if err := c.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "registry"}, current); err != nil {
						return c.Name + ": " + err.Error()
					}
					if string(current.Data["password"]) != password {
						return fmt.Sprintf("%s: namespace %s has another password", c.Name, namespace)
					}
				}
			}
			if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(rd), rd); err != nil {
				return err.Error()
			}
			n := int32(namespaces * len(clusters))
			stale := rd.Status.StaleClusters // One cluster may be slow for a moment.
			if rd.Status.Desired != n || rd.Status.Succeeded != n || stale > 0 || rd.Status.ObservedGeneration != rd.Generation {
				return fmt.Sprintf("%+v", rd.Status)
			}
			return ""
		})
	}
	change := func(edit func(*appsv1beta1.ResourceDistributionSpec)) {
		t.Helper()
		next := rd.DeepCopy()
		edit(&next.Spec)
		require.NoError(t, env.Hub.Client.Patch(s.ctx, next, client.MergeFrom(rd)))
	}
	distributed("first-password", env.East, env.West)
	require.EqualValues(t, 3, rd.Status.SelectedClusters)
	require.Equal(t, "not-yet", rd.Status.Clusters[0].Cluster, "the cluster with the worst problem comes first")
	require.Equal(t, "UnknownCluster", rd.Status.Clusters[0].Reason)

	change(func(spec *appsv1beta1.ResourceDistributionSpec) { spec.Resource = secret("second-password") })
	distributed("second-password", env.East, env.West)

	contents, events := &fleetv1alpha1.WorkContentList{}, &eventsv1.EventList{}
	require.NoError(t, env.Hub.Client.List(s.ctx, contents))
	for _, c := range contents.Items {
		require.NotContains(t, c.Manifest, `"Secret"`)
	}
	require.NoError(t, env.Hub.Client.List(s.ctx, events))
	for _, said := range []string{fmt.Sprint(rd.Status), fmt.Sprint(events.Items)} {
		for _, password := range []string{"first-password", "second-password"} {
			require.False(t, strings.Contains(said, password) || strings.Contains(said, base64.StdEncoding.EncodeToString([]byte(password))))
		}
	}

	change(func(spec *appsv1beta1.ResourceDistributionSpec) {
		spec.Targets.Clusters.Names = []string{fleet.EastName}
	})
	gone := func(c *fleet.Cluster) {
		t.Helper()
		s.until(func(ctx context.Context) string {
			left := &corev1.SecretList{}
			if err := c.Client.List(ctx, left, client.MatchingFields{"metadata.name": "registry"}); err != nil {
				return err.Error()
			}
			for _, current := range left.Items {
				if slices.Contains(names, current.Namespace) {
					return c.Name + " still has the Secret in " + current.Namespace
				}
			}
			return ""
		})
	}
	gone(env.West)
	distributed("second-password", env.East)

	require.NoError(t, env.Hub.Client.Delete(s.ctx, rd))
	gone(env.East)
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, client.ObjectKeyFromObject(rd), rd); client.IgnoreNotFound(err) != nil || err == nil {
			return "the ResourceDistribution is still there"
		}
		return ""
	})
}
