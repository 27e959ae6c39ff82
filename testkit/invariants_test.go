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
	"testing"

	"github.com/stretchr/testify/require"
)

func TestInvariantsNameTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/internals/invariants.md")
	require.NoError(t, err)
	tests := testsOf(t)
	name := regexp.MustCompile("`([a-z0-9/]+\\.(?:Test|Fuzz)\\w+)`")
	lines := map[int]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 6 {
			continue
		}
		n, err := strconv.Atoi(strings.TrimSpace(cells[1]))
		if err != nil {
			continue // The head of the table.
		}
		lines[n] = line
		named := name.FindAllStringSubmatch(cells[3], -1)
		for _, m := range named {
			require.True(t, tests[m[1]], "invariant %d: there is no test %s", n, m[1])
		}
		require.NotEmpty(t, strings.TrimSpace(cells[2]), "invariant %d", n)
		if len(named) == 0 {
			require.Contains(t, cells[4], "open: ", "invariant %d has no test and does not say why", n)
		}
	}
	for n := 1; n <= 44; n++ {
		require.Contains(t, lines, n)
	}
	require.Len(t, lines, 44)
	standIn(t, `\.TestI(\d\d)`, tests, lines)
}

func TestAttacksNameTestsThatExist(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/internals/invariants.md")
	require.NoError(t, err)
	tests := testsOf(t)
	name := regexp.MustCompile("`([a-z0-9/]+\\.Test\\w+)`")
	lines := map[int]string{}
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			continue
		}
		if n, err := strconv.Atoi(strings.TrimSpace(cells[1])); err == nil {
			lines[n] = line
			named := name.FindAllStringSubmatch(cells[3], -1)
			require.NotEmpty(t, named, "attack %d", n)
			for _, m := range named {
				require.True(t, tests[m[1]], "attack %d: there is no test %s", n, m[1])
			}
		}
	}
	require.Len(t, lines, 21)
	standIn(t, `\.Test(?:Integration)?Attack(\d\d)`, tests, lines)
}

// standIn checks that each test with a number in its name, which is the pattern's group, stands in the line of that number.
func standIn(t *testing.T, pattern string, tests map[string]bool, lines map[int]string) {
	t.Helper()
	number := regexp.MustCompile(pattern)
	for test := range tests {
		if m := number.FindStringSubmatch(test); m != nil {
			n, err := strconv.Atoi(m[1])
			require.NoError(t, err)
			require.Contains(t, lines[n], "`"+test+"`", "line %d", n)
		}
	}
}

// testsOf returns all tests of this module as folder.Name.
func testsOf(t *testing.T) map[string]bool {
	t.Helper()
	out := map[string]bool{}
	for _, root := range []string{"apis", "charts", "cmd", "e2e", "hub", "member", "pkg", "testkit"} {
		require.NoError(t, filepath.WalkDir(filepath.Join("..", root), func(path string, _ fs.DirEntry, err error) error {
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
		}))
	}
	return out
}
