package testkit_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A scan that found something must never look like one that could not read the database, or the other way round. The scanned program is
// small, and the databases are folders.
func TestVulncheckTellsAFindingFromAMissingDatabase(t *testing.T) {
	// go test reruns this test when one of them changes.
	for _, file := range []string{"../Makefile", "../e2e/tools/go.mod", "../e2e/pause/main.go"} {
		_, err := os.ReadFile(file)
		require.NoError(t, err)
	}
	const missing, found = "NOTHING CHECKED", "Vulnerability #1: GO-2026-0001"
	for _, c := range []struct {
		name   string
		vars   []string
		passes bool
		says   string
	}{
		{"nothing is known", []string{"GOVULNDB=" + database(t, "net/http", "Get")}, true, "No vulnerabilities found."},
		{"a function that is called", []string{"GOVULNDB=" + database(t, "os/signal", "Notify")}, false, found},
		{"a function that is not called", []string{"GOVULNDB=" + database(t, "os/signal", "Stop")}, true, "No vulnerabilities found."},
		{"a missing database", []string{"GOVULNDB=file://" + t.TempDir() + "/none"}, false, "no such file"},
		{"the public database can't be reached", []string{"GOVULNDB="}, true, missing},
		{"it is unreachable, but was requested", []string{"GOVULNDB=https://vuln.go.dev"}, false, "fetching vulnerabilities"},
		{"no such package", []string{"GOVULNDB=", "VULNCHECK=./e2e/paws"}, false, "loading packages"},
	} {
		t.Run(c.name, func(t *testing.T) { // In this order: the first ones may download the tool.
			cmd := exec.CommandContext(t.Context(), "make", append([]string{"-C", "..", "vulncheck", "VULNCHECK=./e2e/pause"}, c.vars...)...)
			cmd.Env = append(os.Environ(), "MAKEFLAGS=", "CGO_ENABLED=0")
			if !strings.HasPrefix(c.vars[0], "GOVULNDB=file:") {
				// Nothing listens there.
				cmd.Env = append(cmd.Env, "HTTPS_PROXY=http://127.0.0.1:1", "NO_PROXY=", "https_proxy=", "no_proxy=")
			}
			out, err := cmd.CombinedOutput()
			require.Equal(t, c.passes, err == nil, "%v\n%s", err, out)
			require.Contains(t, string(out), c.says)
			require.Equal(t, c.says == missing, strings.Contains(string(out), missing), "%s", out)
		})
	}
}

// database returns the URL of a database with a single vulnerability, in a function of Go's standard library.
func database(t *testing.T, pkg, function string) string {
	t.Helper()
	dir := t.TempDir()
	const at = `"modified": "2026-01-01T00:00:00Z"`
	for file, text := range map[string]string{
		"index/db.json":      `{` + at + `}`,
		"index/modules.json": `[{"path": "stdlib", "vulns": [{"id": "GO-2026-0001", ` + at + `}]}]`,
		"ID/GO-2026-0001.json": `{"schema_version": "1.3.1", "id": "GO-2026-0001", ` + at + `, "summary": "It can be called.",
			"affected": [{"package": {"name": "stdlib", "ecosystem": "Go"}, "ranges": [{"type": "SEMVER", "events": [{"introduced": "0"}]}],
			"ecosystem_specific": {"imports": [{"path": "` + pkg + `", "symbols": ["` + function + `"]}]}}],
			"database_specific": {"url": "https://example.test"}}`,
	} {
		path := filepath.Join(dir, filepath.FromSlash(file))
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return "file://" + dir
}
