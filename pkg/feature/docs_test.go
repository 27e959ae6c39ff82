package feature

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	"k8s.io/component-base/featuregate"
)

func TestThePageHasEveryGate(t *testing.T) {
	t.Parallel()
	want := map[string]string{}
	for f, spec := range specs() {
		stage := map[string]string{string(featuregate.Alpha): "Alpha", string(featuregate.Beta): "Beta"}[string(spec.PreRelease)]
		want[string(f)] = map[bool]string{true: "on", false: "off"}[spec.Default] + " | " + stage
	}
	for name, gate := range unservedGates() {
		want[name] = "no choice"
		if gate.missing != "" {
			want[name] = "not served yet"
		}
	}
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "operate", "feature-gates.md"))
	require.NoError(t, err)
	got := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| (`.*?`) \\| ((?:on|off) \\| \\w+|no choice|not served yet) \\|").FindAllStringSubmatch(string(text), -1) {
		for name := range strings.SplitSeq(row[1], ", ") {
			got[strings.Trim(name, "`")] = row[2]
		}
	}
	require.Empty(t, cmp.Diff(want, got), "- is in the code, + in docs/operate/feature-gates.md")
}
