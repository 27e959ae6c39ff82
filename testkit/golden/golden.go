package golden

import (
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
)

var update = flag.Bool("update", false, "write golden files") //nolint:gochecknoglobals // Flags of tests are parsed before a test runs.

// Equal compares got with testdata/name.golden.
func Equal(tb testing.TB, name, got string) {
	tb.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		require.NoError(tb, os.MkdirAll("testdata", 0o750))
		require.NoError(tb, os.WriteFile(file, []byte(got), 0o600))
	}
	want, err := os.ReadFile(file) //nolint:gosec // The test names the file.
	require.NoError(tb, err)
	require.Empty(tb, cmp.Diff(string(want), got), "run the test with -update if this is intended")
}
