package apis_test

import (
	"go/ast"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// apiField is a field of an API type.
type apiField struct{ owner, name, json string }

func (f apiField) String() string { return f.owner + "." + f.json }

// fieldsOf returns the fields that users may set in the types of a file. Fields of statuses are left out.
func fieldsOf(file *ast.File) []apiField {
	var out []apiField
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		s, ok := spec.Type.(*ast.StructType)
		if !ok || strings.HasSuffix(spec.Name.Name, "Status") || strings.HasSuffix(spec.Name.Name, "Condition") {
			return false
		}
		for _, field := range s.Fields.List {
			name, inline := jsonName(field)
			if inline || name == "metadata" || name == "items" {
				continue
			}
			out = append(out, apiField{spec.Name.Name, field.Names[0].Name, name})
		}
		return false
	})
	return out
}

// unread are fields that no code reads, and why.
func unread() map[string]string {
	return map[string]string{
		"AdaptiveWorkloadSpreadStrategy.disableSimulationSchedule": "it has no effect, as in OpenKruise",
		"AppliedWorkSpec.fieldManager":                             "the agent records it for people",
		"PodProbe.IP":                                              "it is for the agents of virtual nodes",
	}
}

// TestEveryFieldIsRead finds fields that a type has and no code reads: a field that is accepted and does nothing is worse than none. It
// compares names only, so it doesn't find one that has the name of another field.
func TestEveryFieldIsRead(t *testing.T) {
	t.Parallel()
	selector := regexp.MustCompile(`\.([A-Z]\w*)`)
	read := map[string]bool{}
	for _, root := range []string{".", "../cmd", "../hub", "../member", "../pkg"} {
		require.NoError(t, filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") ||
				strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "_types.go") || strings.Contains(path, "zz_generated") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, m := range selector.FindAllStringSubmatch(string(text), -1) {
				read[m[1]] = true
			}
			return err
		}))
	}
	unread := unread()
	checked := 0
	for _, file := range sources(t) {
		for _, f := range fieldsOf(file) {
			checked++
			_, known := unread[f.String()]
			require.Equal(t, known, !read[f.name], "%s: either nothing reads it, or the table of unread fields is wrong", f)
		}
	}
	require.Greater(t, checked, 200, "the sources were not found")
}

// undocumented are fields that the page of their kind doesn't have to name, and why.
func undocumented() map[string]string {
	const run, recorded = "part of the status", "the webhook fills it in"
	return map[string]string{
		"AdvancedCronJobPending.scheduleTime":                  run,
		"AdvancedCronJobRun.scheduleTime":                      run,
		"AdvancedCronJobRun.startTime":                         run,
		"AdvancedCronJobRun.completionTime":                    run,
		"ContainerRecreateRequestContainerContext.containerID": recorded,
		"ContainerStatusSnapshot.containerID":                  recorded,
		"ProbeHandler.exec":                                    recorded,
		"ProbeHandler.httpGet":                                 recorded,
		"RecreatePort.hostPort":                                recorded,
		"RecreatePort.containerPort":                           recorded,
		"RecreatePort.protocol":                                recorded,
		"RecreatePort.hostIP":                                  recorded,
	}
}

// link is a link from one page in docs/kinds to another one of the docs.
var link = regexp.MustCompile(`\]\(([\w./-]+\.md)`)

// TestEveryFieldIsDocumented: the page of a kind, or a page that it links to, names each field that users may set.
func TestEveryFieldIsDocumented(t *testing.T) {
	t.Parallel()
	const pages = "../docs/kinds"
	undocumented := undocumented()
	checked := 0
	for path, file := range sources(t) {
		kind := strings.TrimSuffix(filepath.Base(path), "_types.go")
		text, err := os.ReadFile(filepath.Join(pages, kind+".md"))
		if os.IsNotExist(err) {
			continue // Several kinds share the types, or users don't write the kind.
		}
		require.NoError(t, err)
		page := string(text)
		for _, m := range link.FindAllStringSubmatch(page, -1) {
			linked, err := os.ReadFile(filepath.Join(pages, m[1]))
			require.NoError(t, err, "%s links to %s", kind, m[1])
			page += string(linked)
		}
		for _, f := range fieldsOf(file) {
			checked++
			if _, known := undocumented[f.String()]; !known {
				require.Regexp(t, `\b`+f.json+`\b`, page, "docs/kinds/%s.md, or a page that it links to, must name %s", kind, f)
			}
		}
	}
	require.Greater(t, checked, 200, "the sources were not found")
}
