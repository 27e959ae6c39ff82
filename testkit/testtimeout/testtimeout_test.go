package testtimeout

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestFactorIsMeasuredWithinBoundsOrGiven(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, given string
		took        time.Duration
		want        float64
		err         string
	}{
		{name: "an idle machine", took: idle, want: 1},
		{name: "a fast one", took: idle / 3, want: 1},
		{name: "a busy one", took: 2 * idle, want: 2},
		{name: "one that hardly moves", took: time.Minute, want: most},
		{name: "given", given: "7.5", took: idle, want: 7.5},
		{name: "too little", given: "0.5", err: `FLOTILLA_TEST_TIMEOUTS is "0.5", must be a number from 1 to 1000`},
		{name: "no number", given: "NaN", err: `FLOTILLA_TEST_TIMEOUTS is "NaN", must be a number from 1 to 1000`},
		{name: "a duration", given: "2m", err: `FLOTILLA_TEST_TIMEOUTS is "2m", must be a number from 1 to 1000`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := choose(tt.given, func() time.Duration { return tt.took })
			if tt.err != "" {
				require.EqualError(t, err, tt.err)
				return
			}
			require.NoError(t, err)
			require.InDelta(t, tt.want, got, 0.001)
		})
	}
	require.GreaterOrEqual(t, Scale(time.Second), time.Second)
	t.Logf("this machine: %s, factor %.2f", measure(), factor())
}

// Every wait in a test has a timeout from Scale: in place, or through a name that is declared with it in the same package.
func TestEveryWaitIsScaled(t *testing.T) {
	t.Parallel()
	const root = "../.."
	packages := map[string][]string{}
	for _, dir := range []string{"apis", "charts", "cmd", "e2e", "hub", "member", "pkg", "testkit"} {
		require.NoError(t, filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(path, "_test.go") && !strings.Contains(path, "testdata") {
				packages[filepath.Dir(path)] = append(packages[filepath.Dir(path)], path)
			}
			return err
		}))
	}
	for _, dir := range slices.Sorted(maps.Keys(packages)) {
		files := token.NewFileSet()
		var parsed []*ast.File
		fixed := map[string]bool{} // Names in this package that are declared as a duration without Scale.
		for _, path := range packages[dir] {
			f, err := parser.ParseFile(files, path, nil, parser.SkipObjectResolution)
			require.NoError(t, err)
			parsed = append(parsed, f)
			ast.Inspect(f, func(n ast.Node) bool {
				if v, ok := n.(*ast.ValueSpec); ok {
					for i, value := range v.Values {
						fixed[v.Names[i].Name] = fixed[v.Names[i].Name] || constant(value, nil)
					}
				}
				return true
			})
		}
		for _, f := range parsed {
			ast.Inspect(f, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				if s, ok := call.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(s.Sel.Name, "Eventually") && len(call.Args) > 2 {
					assert.False(t, constant(call.Args[2], fixed), "%s: the timeout has to be testtimeout.Scale(...)", files.Position(call.Pos()))
				}
				return true
			})
		}
	}
}

// constant reports whether an expression contains a number of seconds, or one of the names, outside of a call of Scale.
func constant(e ast.Expr, names map[string]bool) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			s, ok := n.Fun.(*ast.SelectorExpr)
			return !ok || s.Sel.Name != "Scale"
		case *ast.FuncLit:
			return false
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Name == "time" {
				found = found || n.Sel.Name == "Second" || n.Sel.Name == "Minute"
			}
			return false
		case *ast.Ident:
			found = found || names[n.Name]
		}
		return true
	})
	return found
}
