//go:build e2e

package suite

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// TestCloneSetIsPlacedByAWorkloadSpread fills two zones of east, and west with the rest; scaling in empties west first, and the
// workload outlives its WorkloadSpread.
func TestCloneSetIsPlacedByAWorkloadSpread(t *testing.T) {
	s := parallel(t)
	for _, example := range []string{"spread-over-clusters.yaml", "placed-cloneset.yaml"} {
		_, err := env.Hub.ApplyFile(s.ctx, env.Example(example), func(o *unstructured.Unstructured) { o.SetNamespace(s.namespace) })
		require.NoError(s, err)
	}
	set := &appsv1beta1.CloneSet{}
	runs := func(east, west int) {
		s.Helper()
		s.until(func(ctx context.Context) string {
			if err := env.Hub.Client.Get(ctx, s.key("web"), set); err != nil {
				return err.Error()
			}
			e, w := len(s.pods(env.East, "web")), len(s.pods(env.West, "web"))
			if e == east && w == west && int(set.Status.AvailableReplicas) == east+west {
				return ""
			}
			return fmt.Sprintf("east has %d pods, west %d, and the hub reports %d", e, w, set.Status.AvailableReplicas)
		})
	}
	runs(6, 2)
	for _, pod := range s.pods(env.East, "web") {
		require.Contains(t, pod.Annotations["apps.kruise.io/matched-workloadspread"], `"zone-`, "no pod misses its WorkloadSpread")
	}
	require.Empty(t, s.pods(env.Hub, "web"), "nothing runs the template on the hub")

	scale := func(n int32) {
		s.Helper()
		before := set.DeepCopy()
		set.Spec.Replicas = &n
		require.NoError(t, env.Hub.Client.Patch(s.ctx, set, client.MergeFrom(before)))
	}
	scale(7)
	runs(6, 1)
	scale(4)
	runs(4, 0)

	ws := &appsv1beta1.WorkloadSpread{}
	ws.SetNamespace(s.namespace)
	ws.SetName("web")
	require.NoError(t, env.Hub.Client.Delete(s.ctx, ws))
	s.until(func(ctx context.Context) string {
		if err := env.Hub.Client.Get(ctx, s.key("web"), ws); client.IgnoreNotFound(err) != nil || err == nil {
			return "the WorkloadSpread is still there"
		}
		return ""
	})
	runs(4, 0)
	require.NoError(t, env.Hub.Client.Delete(s.ctx, set))
	s.until(func(context.Context) string {
		if n := len(s.pods(env.East, "web")); n > 0 {
			return fmt.Sprintf("%d pods are left", n)
		}
		return ""
	})
}
