package fleet

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

func TestLogsOfFailedTestsAreKept(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.MkdirAll(filepath.Join(dir, "log"), 0o750))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "log", "etcd.log"), []byte("slow"), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "audit.log"), []byte("write"), 0o600))
	east := &Cluster{Name: "east", Lab: &lab.Cluster{Dir: dir, AuditLog: filepath.Join(dir, "audit.log")}}

	t.Setenv(logsEnv, "")
	kept, err := keepLogs(east)
	require.NoError(t, err)
	require.Empty(t, kept, "logs are kept only if FLOTILLA_E2E_LOGS is set")

	t.Setenv(logsEnv, filepath.Join(t.TempDir(), "logs"))
	var folders []string
	for range 2 { // A second failure doesn't replace what the first one left.
		kept, err = keepLogs(east)
		require.NoError(t, err)
		folders = append(folders, kept)
	}
	require.NoError(t, os.RemoveAll(dir))
	require.NotEqual(t, folders[0], folders[1])
	for _, kept := range folders {
		for file, want := range map[string]string{"log_etcd.log": "slow", "audit.log": "write"} {
			text, err := os.ReadFile(filepath.Join(kept, "east", file))
			require.NoError(t, err)
			require.Equal(t, want, string(text))
		}
	}
}
