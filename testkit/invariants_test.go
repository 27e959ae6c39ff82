package testkit_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvariantsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	lines := tableOf(t, 4, `\.TestI(\d\d)`)
	for n := 1; n <= 48; n++ {
		require.Contains(t, lines, n)
		require.NotEmpty(t, strings.TrimSpace(lines[n].text), "invariant %d", n)
		if len(lines[n].tests) == 0 {
			require.Contains(t, lines[n].open, "open: ", "invariant %d has no test and does not say why", n)
		}
	}
	require.Len(t, lines, 48)
}

func TestAttacksNameTestsThatExist(t *testing.T) {
	t.Parallel()
	lines := tableOf(t, 3, `\.Test(?:Integration)?Attack(\d\d)`)
	for n := 1; n <= 36; n++ {
		require.Contains(t, lines, n)
	}
	for n, l := range lines {
		require.NotEmpty(t, l.tests, "attack %d", n)
	}
	require.GreaterOrEqual(t, len(lines), 36)
}

// tableLine is a line of a table in invariants.md. open is its last cell, which holds the tests in a table with three columns.
type tableLine struct {
	text, open string
	tests      []string
}

// testName matches the name of a test in the tables: its folder and function.
var testName = regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz)\\w+)`")

// tableOf returns the lines of invariants.md's table with that many columns, by the number in the first column. It checks that the tests in
// them exist, and that each test with a number in its name, matched by the pattern's group, is in the line with that number.
func tableOf(t *testing.T, columns int, pattern string) map[int]tableLine {
	t.Helper()
	text, err := os.ReadFile("../docs/internals/invariants.md")
	require.NoError(t, err)
	tests, err := allTests()
	require.NoError(t, err)
	lines := map[int]tableLine{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != columns+2 {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue // The head of the table.
		}
		l := tableLine{text: cells[2], open: cells[columns]}
		for _, m := range testName.FindAllStringSubmatch(cells[3], -1) {
			require.True(t, tests[m[1]], "line %d: there is no test %s", n, m[1])
			l.tests = append(l.tests, m[1])
		}
		lines[n] = l
	}
	number := regexp.MustCompile(pattern)
	for test := range tests {
		if m := number.FindStringSubmatch(test); m != nil {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Contains(t, lines[n].tests, test, "line %d", n)
		}
	}
	return lines
}

// allTests returns all tests in this module as folder.Name.
var allTests = sync.OnceValues(func() (map[string]bool, error) {
	out := map[string]bool{}
	for _, root := range []string{"apis", "charts", "cmd", "e2e", "hub", "member", "pkg", "testkit"} {
		err := filepath.WalkDir(filepath.Join("..", root), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			folder := filepath.ToSlash(strings.TrimPrefix(filepath.Dir(path), "../"))
			for _, d := range functions(file) {
				if name := d.Name.Name; strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz") {
					out[folder+"."+name] = true
				}
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
})
