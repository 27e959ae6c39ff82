package keys

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestOwn(t *testing.T) {
	t.Parallel()
	for _, key := range []string{
		"controller.kubernetes.io/pod-deletion-cost", "cluster-autoscaler.kubernetes.io/safe-to-evict", "idle", "example.com/idle",
		"kruise.io.example.com/idle", "notkruise.io/idle", "game.kruise.io/state",
	} {
		require.False(t, Own(key), key)
	}
	files, err := filepath.Glob("*.go")
	require.NoError(t, err)
	n := 0
	for _, name := range files {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		require.NoError(t, err)
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		ast.Inspect(file, func(node ast.Node) bool {
			spec, ok := node.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for _, value := range spec.Values {
				if text, ok := value.(*ast.BasicLit); ok && text.Kind == token.STRING {
					key, err := strconv.Unquote(text.Value)
					require.NoError(t, err)
					if strings.Contains(key, "kruise.io/") {
						n++
						require.True(t, Own(key), key)
					}
				}
			}
			return true
		})
	}
	require.Greater(t, n, 50)
	for _, key := range []string{InPlaceUpdateStateOld, InPlaceUpdateGraceOld, ControllerRevisionHash, PodTemplateHash} {
		require.True(t, Own(key), key)
	}
}
