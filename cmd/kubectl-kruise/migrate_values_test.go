package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestMigrateValues(t *testing.T) {
	t.Parallel()
	cmd := command(t, hub(t))
	var out, notes strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SetIn(strings.NewReader(`
installation: {namespace: kruise-system}
manager:
  log: {level: "2"}
  loggingFormat: text
  nodeAffinity: {preferredDuringSchedulingIgnoredDuringExecution: []}
  image: {tag: v1.9.0}
  hostNetwork: true
helmHooks: {}
`))
	cmd.SetArgs([]string{"migrate", "values"})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	require.Equal(t, `manager:
  affinity:
    nodeAffinity:
      preferredDuringSchedulingIgnoredDuringExecution: []
  hostNetwork: true
  log:
    format: console
    level: "2"
`, out.String())
	require.Equal(t, "Note: manager.image is left out: it is an OpenKruise image\n"+
		"Note: helmHooks is left out; instead: nothing; the chart runs no hooks but those of helm test\n"+
		"Note: installation.namespace is left out; instead: helm's --namespace\n", notes.String())
}

// TestMigrateAllValues leaves nothing that the chart rejects. The chart's own test of the same file says what it does.
func TestMigrateAllValues(t *testing.T) {
	t.Parallel()
	golden(t, "openkruise-values", valuesOf(t, "../../charts/testdata/openkruise-values.yaml"))
	_, err := run(t, hub(t), "migrate", "values", "-f", "nowhere")
	require.ErrorContains(t, err, "read the values")
}

func valuesOf(t *testing.T, file string) string {
	t.Helper()
	cmd := command(t, hub(t))
	var out, notes strings.Builder
	cmd.SetOut(&out)
	cmd.SetErr(&notes)
	cmd.SetArgs([]string{"migrate", "values", "-f", file})
	require.NoError(t, cmd.ExecuteContext(t.Context()))
	return out.String()
}
