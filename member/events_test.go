package member

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestThePageOfEventsHasEveryReason(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "docs", "operate", "events.md"))
	require.NoError(t, err)
	files, err := filepath.Glob(filepath.Join("*", "*", "events.go"))
	require.NoError(t, err)
	files = slices.DeleteFunc(files, func(f string) bool { return strings.HasPrefix(f, "node") })
	require.Len(t, files, 17)
	for _, file := range append(files, filepath.Join("..", "pkg", "workload", "podcontrol", "events.go")) {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(f, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(strings.ToLower(spec.Names[0].Name), "reason") {
				return true
			}
			if word, ok := spec.Values[0].(*ast.BasicLit); ok {
				reason, err := strconv.Unquote(word.Value)
				require.NoError(t, err)
				require.True(t, bytes.Contains(text, []byte("`"+reason+"`")), "the page lacks reason %s of %s", reason, file)
			}
			return false
		})
	}
}
