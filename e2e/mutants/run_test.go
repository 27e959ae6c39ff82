package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
)

// sample has one rule that its test enforces, and one that it doesn't.
var sample = map[string]string{
	"go.mod": "module example.com/sample\n\ngo 1.24\n",
	"limit/limit.go": `package limit

func Cut(n int) int { return min(n, 10) }

func Loop(n int) (sum int) {
	for ; n > 0; n-- {
		sum += n
	}
	return sum
}
`,
	"limit/limit_test.go": `package limit

import "testing"

func TestCut(t *testing.T) {
	if Cut(11) != 10 {
		t.Error("not cut")
	}
}

func TestNothing(t *testing.T) { _ = Cut(11) }

func TestBroken(t *testing.T) { t.Error("always") }
`,
}

func TestMutantsAreKilledSurviveOrAreErrors(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	for name, text := range sample {
		path := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	cut := mutant{rule: "I01", file: "limit/limit.go", from: "min(n, 10)", to: "n", tests: []string{"limit.TestCut"}}
	for _, tt := range []struct {
		name   string
		change func(m *mutant)
		says   string
		fails  string
	}{
		{"a test that fails kills it", func(*mutant) {}, "1 killed, 0 survived, 0 errors", ""},
		{"it survives tests that pass", func(m *mutant) { m.tests = []string{"limit.TestNothing"} }, "SURVIVED I01", "mend the tests"},
		{"one that doesn't compile is an error", func(m *mutant) { m.to = "none" }, "ERROR    I01", "mend the tests"},
		{"so is a line that isn't there", func(m *mutant) { m.from = "max(n, 10)" }, "", "occurs 0 times in limit/limit.go"},
		{"and a line that occurs twice", func(m *mutant) { m.from = "return" }, "", "occurs 2 times"},
		{"and a test that fails anyway", func(m *mutant) { m.tests = []string{"limit.TestBroken"} }, "", "fail without a mutant"},
		{"and a rule that has none", func(m *mutant) { m.rule = "I02" }, "", "no mutant of a rule matches"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m, out := cut, &bytes.Buffer{}
			tt.change(&m)
			err := run(t.Context(), out, root, []mutant{m}, regexp.MustCompile("I01"))
			if tt.fails == "" {
				require.NoError(t, err)
			} else {
				require.ErrorContains(t, err, tt.fails)
			}
			require.Contains(t, out.String(), tt.says)
			text, err := os.ReadFile(filepath.Join(root, m.file))
			require.NoError(t, err)
			require.Equal(t, sample[m.file], string(text), "the file must not be changed")
		})
	}
}

func TestATimeoutKillsNothing(t *testing.T) {
	t.Parallel()
	require.Equal(t, failed, judge("--- FAIL: TestX\npanic: test timed out after 2m0s"))
	require.Equal(t, failed, judge("FAIL example.com/x [build failed]"))
	require.Equal(t, killed, judge("--- FAIL: TestX (0.00s)\nFAIL"))
}
