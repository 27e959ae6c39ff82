package metric

import (
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

func TestPlanningIsNamedByItsPackage(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	p := NewPlanning("cloneset", "CloneSet")
	require.NoError(t, p.Register(r))
	require.NoError(t, p.Register(r), "two managers may share a process")
	p.Count("Create", "Missing", 3)
	p.Wait(ReasonCache)
	families, err := r.Gather()
	require.NoError(t, err)
	var names []string
	for _, f := range families {
		names = append(names, f.GetName())
	}
	require.Equal(t, []string{"flotilla_cloneset_plan_seconds", "flotilla_cloneset_steps_total", "flotilla_cloneset_waits_total"}, names)
}
