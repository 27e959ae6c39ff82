//go:build e2e

package real

import (
	"context"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/pkg/testkit/lab"
)

// blow is something that is killed, and how it comes back.
type blow struct {
	what string
	kill func(context.Context) error
	mend func(context.Context) error
}

// blows are all that chaos may strike in a fleet: processes of the control planes, nodes and managers.
func blows() []blow {
	var out []blow
	for _, c := range env.Clusters() {
		for _, name := range []string{lab.Etcd, lab.APIServer, lab.ControllerManager, lab.Scheduler} {
			out = append(out, blow{
				what: c.Name + ": " + name,
				kill: func(ctx context.Context) error {
					p, err := lab.FindProcess(c.Lab.Dir, name)
					if err != nil {
						return err
					}
					return p.Kill(ctx)
				},
				mend: func(ctx context.Context) error { return c.Lab.StartComponent(ctx, name) },
			})
		}
		for _, node := range c.Lab.RealNodes() {
			out = append(out, blow{
				what: c.Name + ": " + node,
				kill: func(ctx context.Context) error { return c.Lab.KillNode(ctx, node) },
				mend: func(ctx context.Context) error { return c.Lab.StartNode(ctx, node) },
			})
		}
		out = append(out, blow{
			what: c.Name + ": " + c.Manager.Name,
			kill: func(ctx context.Context) error { return c.Manager.Kill(ctx) },
			mend: func(ctx context.Context) error { return c.Manager.Start(ctx) },
		})
	}
	return out
}

// strikes is how often chaos strikes.
const strikes = 4

// TestChaosLosesNothing kills one thing after the other, whatever the dice say, while an object is rolled out and scaled. Each
// thing comes back after a moment, as a supervisor or a repair brings it back. In the end all pods are those from before, and
// all that was asked for is there.
func TestChaosLosesNothing(t *testing.T) {
	s := newScene(t)
	s.whole()
	seed := uint64(fleet.Mark().UnixNano())
	if text := os.Getenv("FLOTILLA_E2E_SEED"); text != "" {
		var err error
		seed, err = strconv.ParseUint(text, 10, 64)
		require.NoError(t, err)
	}
	t.Logf("seed %d", seed)
	dice := rand.New(rand.NewPCG(seed, 0))
	ud := united("web", shares{"east": 3, "west": 3})
	s.create(env.Hub, ud)
	s.settled("web", shares{"east": 3, "west": 3}, nil)
	before := s.census("web", false)

	change(s, env.Hub, ud, func(ud *appsv1beta1.UnitedDeployment) { udImage(ud, imageNew) })
	all := blows()
	for i := range strikes {
		b := all[dice.IntN(len(all))]
		t.Logf("%s: kill %s", time.Now().Format(time.TimeOnly), b.what) //nolint:forbidigo // For whoever reads logs beside it.
		require.NoError(t, b.kill(t.Context()))
		require.True(t, pause(t.Context(), time.Duration(1000+dice.IntN(3000))*time.Millisecond))
		require.NoError(t, b.mend(t.Context()), b.what)
		if i == strikes/2 {
			s.until(func(ctx context.Context) string { // The webhook may be away for a moment.
				if err := env.Hub.Client.Get(ctx, s.key("web"), ud); err != nil {
					return err.Error()
				}
				*ud.Spec.Replicas = 8
				if err := env.Hub.Client.Update(ctx, ud); err != nil {
					return err.Error()
				}
				return ""
			})
		}
	}
	s.settled("web", shares{"east": 3, "west": 5}, nil)
	after := s.census("web", false)
	for pod, uid := range before {
		require.Equal(t, uid, after[pod], "a pod was made anew")
	}
	require.Len(t, after, 8)
	require.Equal(t, map[string]int{"2.0": 8}, s.versions("web"))
	s.whole()
}
