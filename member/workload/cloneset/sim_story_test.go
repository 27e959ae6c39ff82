package cloneset

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// counts returns the lines of a story about a set.
func counts(o client.Object) []string {
	s, ok := o.(*appsv1beta1.CloneSet)
	if !ok {
		return nil
	}
	out := []string{fmt.Sprintf("%d pods, %d available, %d updated", s.Status.Replicas, s.Status.AvailableReplicas, s.Status.UpdatedReplicas)}
	for _, c := range s.Status.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s", c.Type, c.Status, c.Reason))
	}
	return out
}

func TestStoriesGolden(t *testing.T) {
	t.Parallel()
	for _, s := range stories() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), simulated(t), s.simulated(), sim.Schedule{})
			require.NoError(t, r.Err)
			golden.Equal(t, strings.ReplaceAll(s.name, " ", "-"), sim.StoryText(r.Story, key.Name)+"# the end\n"+r.Summary+"\n")
		})
	}
}
