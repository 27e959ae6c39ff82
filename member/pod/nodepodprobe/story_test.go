package nodepodprobe

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/testkit/golden"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// TestStories records what the controllers do in the undisturbed simulator.
func TestStories(t *testing.T) {
	t.Parallel()
	k := simulated(t)
	k.Summary = func(w *sim.World) string { return summary(w, true) }
	for _, s := range stories() {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			r := sim.Run(t.Context(), k, s, sim.Schedule{})
			require.NoError(t, r.Err)
			require.NotContains(t, r.Summary, "WRONG")
			golden.Equal(t, strings.ReplaceAll(s.Name, " ", "-"), sim.StoryText(r.Story, "web")+"# the end\n"+r.Summary+"\n")
		})
	}
}
