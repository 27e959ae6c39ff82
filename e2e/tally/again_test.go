package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// The packages below testdata/again are run with the command that the Makefile uses for tests on clusters.
func TestAFailedTestIsRunAgainAlone(t *testing.T) {
	// go test reruns this test when one of them changes.
	packages, err := filepath.Glob("testdata/again/*/*_test.go")
	require.NoError(t, err)
	require.NotEmpty(t, packages)
	for _, file := range append(packages, "../../Makefile", "../tools/go.mod") {
		_, err := os.ReadFile(file)
		require.NoError(t, err)
	}
	for _, tt := range []struct {
		name     string
		packages []string
		full     bool
		run      string
		passes   bool
		// runs is how often each test ran.
		runs map[string]int
		says string
	}{
		{
			name: "a test that failed passes alone", packages: []string{"once"}, run: "^(TestOnce|TestPasses)$", passes: true,
			runs: map[string]int{"TestOnce": 2, "TestPasses": 1}, says: "FLAKY tried e2e/tally/testdata/again/once.TestOnce",
		},
		{name: "make test-all doesn't repeat tests", packages: []string{"once"}, run: ".", full: true, runs: map[string]int{"TestOnce": 1, "TestPasses": 1}, says: "raced"},
		{
			name: "a flaky test beside a broken one", packages: []string{"always", "once"}, run: "TestAlways|TestOnce",
			runs: map[string]int{"TestAlways": 3, "TestOnce": 2}, says: "broken",
		},
		{
			name: "six different failures", packages: []string{"six"}, run: ".",
			runs: map[string]int{"TestOne": 1, "TestTwo": 1, "TestThree": 1, "TestFour": 1, "TestFive": 1, "TestSix": 1}, says: "exceeds maximum (5)",
		},
		{name: "a TestMain that fails after the tests", packages: []string{"leak"}, run: ".", runs: map[string]int{"TestPasses": 1}, says: "none of its tests did. Its TestMain printed:\nPASS\nleaked\n"},
		{name: "a test that ends the program", packages: []string{"exit"}, run: ".", runs: map[string]int{"TestEnds": 2}, says: "TestEnds did not end"},
		{name: "a panic", packages: []string{"panics"}, run: ".", runs: map[string]int{"TestPanics": 1}, says: "suspected panic"},
		{name: "a missing package", packages: []string{"none"}, run: ".", says: "directory not found"},
	} {
		t.Run(tt.name, func(t *testing.T) { // One after the other: two cores are soon busy.
			dir := t.TempDir()
			dirs := make([]string, 0, len(tt.packages))
			for _, p := range tt.packages {
				dirs = append(dirs, "./e2e/tally/testdata/again/"+p)
			}
			tier := "gate"
			if tt.full {
				tier = "all"
			}
			out, err := try(t, tier, dir, strings.Join(dirs, " "), tt.run)
			require.Equal(t, tt.passes, err == nil, "%v\n%s", err, out)
			require.Contains(t, out, tt.says)
			file := filepath.Join(dir, "tried.json")
			r, err := readResults(file)
			require.NoError(t, err)
			runs := map[string]int{}
			for _, p := range r.packages {
				for name, all := range p.tests {
					runs[name] += len(all)
				}
			}
			if tt.runs == nil {
				tt.runs = map[string]int{}
			}
			require.Equal(t, tt.runs, runs, out)
			if !tt.passes || tt.packages[0] != "once" {
				return
			}
			for i, says := range []string{"raced", "came to it"} {
				log := filepath.Join(dir, flakyFolder, "tried", "e2e_tally_testdata_again_once.TestOnce."+string(rune('1'+i))+".log")
				require.Contains(t, out, log)
				text, err := os.ReadFile(log)
				require.NoError(t, err)
				require.Contains(t, string(text), says)
			}
		})
	}
}

// try runs a target with the one line from the Makefile, clustertest.
func try(t *testing.T, tier, results, packages, run string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "make", "-s", "-C", "../..", "RESULTS="+results, "FLOTILLA_TEST="+tier,
		"--eval", `tried: ; $(call clustertest,tried,`+packages+`,-count 1 -run "`+strings.ReplaceAll(run, "$", "$$")+`")`, "tried")
	cmd.Env = append(os.Environ(), "MAKEFLAGS=", "MAKELEVEL=", "TALLY_SEEN="+results)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func TestFlakyTestsArePrintedLast(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	events, err := os.ReadFile("testdata/flaky.json")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "e2e.json"), events, 0o600))
	tl := newTally(nil)
	require.NoError(t, tl.file(filepath.Join(dir, "e2e.json")))
	var out bytes.Buffer
	require.NoError(t, tl.print(&out))
	require.NoError(t, tl.printFlakes(dir, &out))
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	log := filepath.Join(dir, flakyFolder, "e2e", "e2e_suite.TestJoin.")
	last := "FLAKY e2e e2e/suite.TestJoin failed: " + log + "1.log passed: " + log + "2.log"
	require.Equal(t, last, lines[len(lines)-1])
	kept, err := os.ReadFile(filepath.Join(dir, flakyFile))
	require.NoError(t, err)
	require.Equal(t, last+"\n", string(kept))
}
