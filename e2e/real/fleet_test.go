//go:build e2e

package real

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

func TestUnitedDeploymentOverBothMembersIsCreatedScaledUpdatedCanariedAndDeleted(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	ud := united("web", shares{"east": 3, "west": 2})
	s.create(env.Hub, ud)
	s.awaitSettled("web", shares{"east": 3, "west": 2}, nil)
	before := s.census("web", true)

	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) {
		udImage(ud, imageNew)
		partitioned(ud, map[string]int32{"east": 2, "west": 2})
	})
	s.awaitSettled("web", shares{"east": 3, "west": 2}, shares{"east": 1, "west": 0})
	require.Equal(t, map[string]int{"1.0": 4, "2.0": 1}, s.versions("web"), "only the canary serves the new version")

	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { partitioned(ud, nil) })
	s.awaitSettled("web", shares{"east": 3, "west": 2}, nil)
	require.Equal(t, map[string]int{"2.0": 5}, s.versions("web"))
	after := s.census("web", true)
	for pod, what := range before {
		require.Equal(t, restarted(what, "1"), after[pod])
	}

	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { *ud.Spec.Replicas = 7 })
	s.awaitSettled("web", shares{"east": 3, "west": 4}, nil)
	grown := s.census("web", true)
	for pod, what := range after {
		require.Equal(t, what, grown[pod])
	}

	s.remove(ud)
	s.until(func(context.Context) string {
		for _, m := range env.Members() {
			if n := len(s.pods(m, "web")); n > 0 {
				return fmt.Sprintf("%d pods are left in %s", n, m.Name)
			}
		}
		return ""
	})
}

// versions counts the versions that an app's pods serve, in some members or in all.
func (s *scene) versions(name string, in ...*fleet.Cluster) map[string]int { //nolint:unparam // As with settled.
	s.Helper()
	if len(in) == 0 {
		in = env.Members()
	}
	out := map[string]int{}
	for _, m := range in {
		for _, p := range s.pods(m, name) {
			v := ""
			s.retry(func(ctx context.Context) (err error) {
				v, err = fetch(ctx, fmt.Sprintf("http://%s:%d/version", p.Status.PodIP, port))
				return err
			})
			out[v]++
		}
	}
	return out
}
