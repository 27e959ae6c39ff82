package daemonset

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// describe returns what a write has changed in a pod or a set, and the node of a new pod.
func describe(c sim.Change) string {
	what := sim.Describe(func(o client.Object) []string {
		if set, ok := o.(*appsv1beta1.DaemonSet); ok {
			return counts(set)
		}
		return nil
	})(c)
	if pod, ok := c.After.(*corev1.Pod); ok && c.Verb == sim.Create {
		what = "for " + nodeOf(pod) + ", " + what
	}
	return what
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulated(t), s, sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "web")+"# the end\n"+r.Summary+"\n")
		})
	}
}
