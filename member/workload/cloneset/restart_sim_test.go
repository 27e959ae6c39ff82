package cloneset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// daemonsEverywhere means that there is a node daemon on each node.
type daemonsEverywhere struct{}

func (daemonsEverywhere) Live(string) bool { return true }

// TestContainersAreRestartedOnceWhateverIsLost restarts the containers of three pods by an annotation, twice, one pod at a time.
func TestContainersAreRestartedOnceWhateverIsLost(t *testing.T) {
	t.Parallel()
	kind := simulated(t)
	started := kind.New
	kind.New = func(p sim.Process) (reconcile.Reconciler, error) {
		r, err := started(p)
		r.(*Reconciler).InPlace, r.(*Reconciler).Daemons = inplace.Options{Env: true}, daemonsEverywhere{}
		return r, err
	}
	kind.Actors = append(kind.Actors, sim.NodeDaemon{})
	kind.Summary = func(w *sim.World) string {
		deleted := map[types.UID]bool{}
		for _, c := range w.Changes() {
			if pod, ok := c.Before.(*corev1.Pod); ok && c.Verb == sim.Delete && c.Err == nil {
				deleted[pod.UID] = true
			}
		}
		lines := []string{fmt.Sprintf("%d pods were deleted", len(deleted))}
		for _, pod := range sceneOf(w).own() {
			lines = append(lines, fmt.Sprintf("a pod with %q, restarted %d times, ready %t", pod.Annotations[keys.RestartContainers],
				pod.Status.ContainerStatuses[0].RestartCount, pod.Status.ContainerStatuses[0].Ready))
		}
		return strings.Join(lines, "\n")
	}
	restart := func(value string) func(*appsv1beta1.CloneSetSpec) {
		return func(s *appsv1beta1.CloneSetSpec) {
			s.Template.Annotations = map[string]string{keys.RestartContainers: value}
		}
	}
	restarts := func(n int32) func(scene) bool {
		return func(s scene) bool {
			for _, p := range s.own() {
				if len(p.Status.ContainerStatuses) == 0 || p.Status.ContainerStatuses[0].RestartCount != n {
					return false
				}
			}
			return allAvailable(3, "app:1")(s)
		}
	}
	story := func() sim.Scenario {
		return scenario("restarts", web(3).Policy(appsv1beta1.PodInPlaceOnly).Rolling("0", "1", "0"),
			edit("restart", allAvailable(3, "app:1"), restart("1")).simulated(),
			edit("restart again", restarts(1), restart("2")).simulated())
	}
	calm := sim.Run(t.Context(), kind, story(), sim.Schedule{})
	require.NoError(t, calm.Err)
	require.Equal(t, "0 pods were deleted"+strings.Repeat("\na pod with \"2\", restarted 2 times, ready true", 3), calm.Summary)
	for at := 1; at <= calm.Writes; at++ {
		for _, fault := range []sim.FaultKind{sim.CrashBefore, sim.CrashAfter} {
			r := sim.Run(t.Context(), kind, story(), sim.Schedule{Faults: []sim.Fault{{Kind: fault, At: at}}})
			require.NoError(t, r.Err, "a crash at write %d", at)
			require.Equal(t, calm.Summary, r.Summary, "a crash at write %d", at)
		}
	}
}
