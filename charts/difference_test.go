package charts_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/pmezard/go-difflib/difflib"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// documents splits a rendered chart into the texts of its objects.
func documents(t *testing.T, text string) [][]byte {
	t.Helper()
	var out [][]byte
	for docs := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		doc, err := docs.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		require.NoError(t, err)
		out = append(out, bytes.TrimPrefix(doc, []byte("---\n")))
	}
}

// objectLines returns the names of the objects in a rendered chart, in order, and the lines of each.
func objectLines(t *testing.T, text string) ([]string, map[string][]string) {
	t.Helper()
	var names []string
	lines := map[string][]string{}
	for _, doc := range documents(t, text) {
		var o metav1.PartialObjectMetadata
		require.NoError(t, yaml.Unmarshal(doc, &o), "%s", doc)
		name := o.Kind + " " + path.Join(o.Namespace, o.Name)
		require.NotContains(t, lines, name, "each object is rendered once")
		names = append(names, name)
		lines[name] = strings.Split(strings.TrimSpace(string(doc)), "\n")
	}
	return names, lines
}

// renamedObjects returns the old names of objects, by their new names: where one object of a kind is missing and one is added.
func renamedObjects(oldNames, newNames []string) map[string]string {
	only := func(names, others []string) map[string][]string {
		byKind := map[string][]string{}
		for _, name := range names {
			if kind, _, _ := strings.Cut(name, " "); !slices.Contains(others, name) {
				byKind[kind] = append(byKind[kind], name)
			}
		}
		return byKind
	}
	out := map[string]string{}
	missing := only(oldNames, newNames)
	for kind, added := range only(newNames, oldNames) {
		if len(added) == 1 && len(missing[kind]) == 1 {
			out[added[0]] = missing[kind][0]
		}
	}
	return out
}

// difference returns how the chart rendered as to differs from the one rendered as from: objects that are missing (---), that are added (+++)
// and that are changed (===), with the changed lines. Objects that are changed in the same way share one list of lines.
//
// It contains no line numbers, and only one unchanged line around each change, so that it stays the same if both change in the same way.
func difference(t *testing.T, from, to string) string {
	t.Helper()
	oldNames, oldLines := objectLines(t, from)
	newNames, newLines := objectLines(t, to)
	previousNames := renamedObjects(oldNames, newNames)
	var changes []string
	names := map[string][]string{} // By what changes.
	add := func(change, name string) {
		if names[change] == nil {
			changes = append(changes, change)
		}
		names[change] = append(names[change], name+"\n")
	}
	for name, previous := range previousNames {
		oldLines[name], newLines[previous] = oldLines[previous], newLines[name]
	}
	for _, name := range oldNames {
		if newLines[name] == nil {
			add("", "--- "+name)
		}
	}
	for _, name := range newNames {
		heading := name
		if previous, ok := previousNames[name]; ok {
			heading = previous + ", now " + name
		}
		switch {
		case oldLines[name] == nil:
			add("+ "+strings.Join(newLines[name], "\n+ ")+"\n", "+++ "+heading)
		case !slices.Equal(oldLines[name], newLines[name]):
			add(changedLines(oldLines[name], newLines[name]), "=== "+heading)
		}
	}
	var out strings.Builder
	for _, change := range changes {
		out.WriteString("\n" + strings.Join(names[change], "") + change)
	}
	return out.String()
}

// changedLines is a unified diff whose headings are the keys around the first change instead of line numbers.
func changedLines(from, to []string) string {
	var out strings.Builder
	for _, group := range difflib.NewMatcherWithJunk(from, to, false, nil).GetGroupedOpCodes(1) {
		first := group[slices.IndexFunc(group, func(c difflib.OpCode) bool { return c.Tag != 'e' })]
		if first.Tag == 'd' {
			fmt.Fprintf(&out, "@@ %s\n", keysAround(from, first.I1))
		} else {
			fmt.Fprintf(&out, "@@ %s\n", keysAround(to, first.J1))
		}
		for _, c := range group {
			if c.Tag == 'e' {
				out.WriteString("  " + strings.Join(from[c.I1:c.I2], "\n  ") + "\n")
				continue
			}
			for _, line := range from[c.I1:c.I2] {
				out.WriteString("- " + line + "\n")
			}
			for _, line := range to[c.J1:c.J2] {
				out.WriteString("+ " + line + "\n")
			}
		}
	}
	return out.String()
}

// keyLine is a line of YAML with a key: its indentation, the dash of an item of a list, the key, the value.
var keyLine = regexp.MustCompile(`^( *)(- )?([\w./-]+):(?: (.*))?$`)

// keysAround returns the keys that a line is below, the outermost first. An item of a list is named if its first key is a name.
func keysAround(lines []string, i int) string {
	indent := func(line string) int { return len(line) - len(strings.TrimLeft(line, " ")) }
	var keys []string
	for limit := indent(lines[i]); i > 0 && limit > 0; {
		i--
		m := keyLine.FindStringSubmatch(lines[i])
		switch {
		case m == nil || len(m[1]) >= limit:
			continue
		case len(m[1]+m[2]) < limit:
			keys = append(keys, m[3])
		case m[3] == "name":
			keys = append(keys, "["+m[4]+"]")
		}
		limit = len(m[1])
	}
	slices.Reverse(keys)
	return strings.ReplaceAll(strings.Join(keys, "."), ".[", "[")
}

func TestDifferenceOfRenderedCharts(t *testing.T) {
	t.Parallel()
	const (
		account = "---\nkind: ServiceAccount\nmetadata:\n  name: web\n  namespace: shop\n  labels:\n    app: web\n"
		role    = "---\nkind: ClusterRole\nmetadata:\n  name: web\n  labels:\n    app: web\nrules:\n  - verbs:\n      - get\n      - list\n"
		hooks   = "---\nkind: WebhookConfiguration\nmetadata:\n  name: web\nwebhooks:\n  - name: pods\n    failurePolicy: Fail\n"
		service = "---\n# Source: web.yaml\nkind: Service\nmetadata:\n  name: web\n"
	)
	elsewhere := strings.ReplaceAll(account, "shop", "bar")
	labelled := func(object string) string {
		return strings.ReplaceAll(object, "app: web\n", "app: web\n    team: fleet\n")
	}
	for _, tc := range []struct{ name, from, to, want string }{
		{"equal", account + role, account + role, ""},
		{"blank lines around an object are ignored", account + role, account + "\n" + role, ""},
		{"a missing object", account + role, role, "\n--- ServiceAccount shop/web\n"},
		{
			"an added object", role, role + service,
			"\n+++ Service web\n+ # Source: web.yaml\n+ kind: Service\n+ metadata:\n+   name: web\n",
		},
		{
			"a renamed object", role, strings.ReplaceAll(role, "name: web", "name: db"),
			"\n=== ClusterRole web, now ClusterRole db\n@@ metadata\n  metadata:\n-   name: web\n+   name: db\n    labels:\n",
		},
		{
			"a changed line", role, strings.ReplaceAll(role, "list", "watch"),
			"\n=== ClusterRole web\n@@ rules.verbs\n        - get\n-       - list\n+       - watch\n",
		},
		{
			"a removed line", role, strings.ReplaceAll(role, "      - get\n", ""),
			"\n=== ClusterRole web\n@@ rules.verbs\n    - verbs:\n-       - get\n        - list\n",
		},
		{
			"the same change of two objects, and another one of one of them",
			account + role, labelled(account) + strings.ReplaceAll(labelled(role), "get", "watch"),
			"\n=== ServiceAccount shop/web\n@@ metadata.labels\n      app: web\n+     team: fleet\n" +
				"\n=== ClusterRole web\n@@ metadata.labels\n      app: web\n+     team: fleet\n" +
				"  rules:\n    - verbs:\n-       - get\n+       - watch\n        - list\n",
		},
		{
			"a change in an item of a list that has a name", hooks, strings.ReplaceAll(hooks, "Fail", "Ignore"),
			"\n=== WebhookConfiguration web\n@@ webhooks[pods]\n    - name: pods\n-     failurePolicy: Fail\n+     failurePolicy: Ignore\n",
		},
		{
			"the same change of two objects", account + elsewhere, strings.ReplaceAll(account+elsewhere, "app: web", "app: db"),
			"\n=== ServiceAccount shop/web\n=== ServiceAccount bar/web\n@@ metadata.labels\n    labels:\n-     app: web\n+     app: db\n",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, difference(t, tc.from, tc.to))
		})
	}
}
