package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestEachRuleHasAMutant checks the table: that its lines are current, that the tests are in the line of their rule and are run by a plain go
// test, and that a rule without a mutant says why.
func TestEachRuleHasAMutant(t *testing.T) {
	t.Parallel()
	rules, reasons := rulesOf(t), withoutMutant()
	has := map[string]bool{}
	for _, m := range table() {
		has[m.rule] = true
		require.Contains(t, rules, m.rule, "the table has a rule that invariants.md doesn't have")
		text, err := os.ReadFile(filepath.Join("..", "..", m.file))
		require.NoError(t, err)
		_, err = m.mutate(string(text))
		require.NoError(t, err)
		require.NotEmpty(t, m.tests, m.rule)
		for _, test := range m.tests {
			require.Contains(t, rules[m.rule].tests, test, "%s: invariants.md must name the test in the line of the rule", m.rule)
			require.True(t, plain(t, test), "%s: no file of that package has %s without a build tag", m.rule, test)
		}
	}
	for rule, r := range rules {
		_, reason := reasons[rule]
		require.NotEqual(t, has[rule] || r.open, reason, "%s needs a mutant, or a reason in withoutMutant why no line can be broken", rule)
	}
	for rule, why := range reasons {
		require.Contains(t, rules, rule)
		require.NotEmpty(t, why)
	}
}

// rule is a line in invariants.md. open means that the line says that nothing enforces the rule yet.
type rule struct {
	tests []string
	open  bool
}

func rulesOf(t *testing.T) map[string]rule {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "internals", "invariants.md"))
	require.NoError(t, err)
	number, name := regexp.MustCompile(`^\s*\d+\s*$`), regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz)\\w+)`")
	out := map[string]rule{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) < 5 || !number.MatchString(cells[1]) {
			continue
		}
		letter := "A"
		if len(cells) == 6 {
			letter = "I"
		}
		r := rule{}
		for _, m := range name.FindAllStringSubmatch(cells[3], -1) {
			r.tests = append(r.tests, m[1])
		}
		r.open = len(r.tests) == 0 && strings.Contains(cells[4], "open: ")
		n := strings.TrimSpace(cells[1])
		out[letter+strings.Repeat("0", 2-len(n))+n] = r
	}
	require.Greater(t, len(out), 60)
	return out
}

// plain reports whether a test is in a file that is built without tags.
func plain(t *testing.T, test string) bool {
	t.Helper()
	folder, name, _ := strings.Cut(test, ".")
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*_test.go"))
	require.NoError(t, err)
	for _, f := range files {
		text, err := os.ReadFile(f)
		require.NoError(t, err)
		if strings.Contains(string(text), "\nfunc "+name+"(") && (!strings.Contains(string(text), "//go:build ") || strings.HasPrefix(string(text), "//go:build !")) {
			return true
		}
	}
	return false
}
