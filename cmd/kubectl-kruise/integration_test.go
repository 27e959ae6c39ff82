//go:build integration

package main

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// The output of the verb token is pasted into a shell. Here the chart is rendered instead of installed.
func TestIntegrationThePrintedCommandRenders(t *testing.T) {
	t.Parallel()
	bin, err := lab.Binaries(t.Context(), nil)
	require.NoError(t, err)
	for name, args := range map[string][]string{
		"with the CA in the command": nil,
		"with the CA in a file":      {"--ca-file", filepath.Join(t.TempDir(), "ca.crt")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hub(t, cluster("east", nil), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "fleet-east"}})
			out, err := run(t, h, append([]string{"cluster", "token", "east"}, args...)...)
			require.NoError(t, err)
			_, command, found := strings.Cut(out, "In the member cluster run:\n\n")
			require.True(t, found)
			command, _, found = strings.Cut(command, "\n\nWhere the hub")
			require.True(t, found)
			script, found := strings.CutPrefix(command, "helm upgrade --install --reset-then-reuse-values ")
			require.True(t, found)
			cmd := exec.CommandContext(t.Context(), "sh", "-c", bin.Path("helm")+" template "+script)
			cmd.Dir = "../.."
			home := t.TempDir()
			cmd.Env = append(cmd.Environ(), "HELM_CACHE_HOME="+home, "HELM_CONFIG_HOME="+home, "HELM_DATA_HOME="+home)
			rendered, err := cmd.CombinedOutput()
			require.NoError(t, err, "%s", rendered)
			for _, want := range []string{
				"token: \"fake-token\"", "    -----BEGIN CERTIFICATE-----\n", "--hub-ca-file=/etc/flotilla/hub/ca.crt",
				"--hub-url=https://hub.example:6443", "--cluster-name=east",
			} {
				require.Contains(t, string(rendered), want)
			}
		})
	}
}
