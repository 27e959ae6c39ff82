package member_test

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// together lists the kinds whose tests also run other kinds, in one simulated world.
var together = map[string][]string{"pod/sidecarset": {"workload/cloneset"}, "pod/nodepodprobe": {"pod/podprobemarker", "pod/probedpod"}}

// homes are the folders of member/ in which each subfolder holds one kind.
var homes = []string{"workload", "pod", "image", "resource"}

// TestNoKindImportsASibling checks the one layer rule that depguard can't express: two kinds share code in pkg or interact through the API,
// but never import each other.
func TestNoKindImportsASibling(t *testing.T) {
	t.Parallel()
	const root = "github.com/flotilla-io/flotilla/member/"
	cmd := exec.CommandContext(t.Context(), "go", "list", "-json=ImportPath,Imports,TestImports", "./...")
	out, err := cmd.Output()
	require.NoError(t, err)

	seen := 0
	for dec := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath           string
			Imports, TestImports []string
		}
		if err := dec.Decode(&p); err == io.EOF {
			break
		} else {
			require.NoError(t, err)
		}
		kind, ok := kindOf(strings.TrimPrefix(p.ImportPath, root))
		if !ok {
			continue
		}
		seen++
		for i, imported := range append(p.Imports, p.TestImports...) {
			other, isKind := kindOf(strings.TrimPrefix(imported, root))
			if i >= len(p.Imports) && isKind && slices.Contains(together[kind], other) {
				continue
			}
			require.Falsef(t, isKind && other != kind, "%s imports its sibling %s: move what they share to pkg", kind, other)
		}
	}
	require.NotZero(t, seen, "no kind was checked")
}

// kindOf returns the kind that a folder below member/ belongs to.
func kindOf(path string) (string, bool) {
	parts := strings.Split(path, "/")
	if len(parts) < 2 {
		return "", false
	}
	return parts[0] + "/" + parts[1], slices.Contains(homes, parts[0])
}
