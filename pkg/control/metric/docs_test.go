package metric

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
)

// source parses metrics from Go files, because hub and member only register theirs with a manager.
type source struct {
	*testing.T

	// words are string constants by package and name; other packages use those of this package as metric.Name.
	words map[string]string
	// found are the labels of each metric, in the form used on the page.
	found map[string]string
}

func TestThePageHasEveryMetric(t *testing.T) {
	t.Parallel()
	s := source{T: t, words: map[string]string{}, found: map[string]string{}}
	files := s.parse("apis", "hub", "member", "pkg", "cmd")
	for _, f := range files {
		ast.Inspect(f, s.constants(f.Name.Name))
	}
	for _, f := range files {
		ast.Inspect(f, s.metrics(f.Name.Name))
	}
	require.Contains(t, s.found, "flotilla_cloneset_steps_total")
	require.Empty(t, cmp.Diff(s.found, s.page()), "- is in the code, + in docs/operate/metrics.md")
}

func (s source) parse(roots ...string) []*ast.File {
	s.Helper()
	var out []*ast.File
	for _, root := range roots {
		require.NoError(s, filepath.WalkDir(filepath.Join("..", "..", "..", root), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			out = append(out, f)
			return err
		}))
	}
	return out
}

func (s source) constants(pkg string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		if spec, ok := n.(*ast.ValueSpec); ok && len(spec.Names) == 1 && len(spec.Values) == 1 {
			if word, ok := spec.Values[0].(*ast.BasicLit); ok && word.Kind == token.STRING {
				s.words[pkg+"."+spec.Names[0].Name] = s.word(pkg, word)
			}
		}
		return true
	}
}

// word returns the value of a literal or of a constant.
func (s source) word(pkg string, e ast.Expr) string {
	s.Helper()
	name := ""
	switch e := e.(type) {
	case *ast.BasicLit:
		word, err := strconv.Unquote(e.Value)
		require.NoError(s, err)
		return word
	case *ast.Ident:
		name = pkg + "." + e.Name
	case *ast.SelectorExpr:
		name = e.X.(*ast.Ident).Name + "." + e.Sel.Name
	}
	require.Contains(s, s.words, name, "a part of a metric's name must be a constant")
	return s.words[name]
}

// metrics records the calls prometheus.NewX(XOpts{...}, labels), NewBounded(XOpts{...}, most, labels), NewPlanning(subsystem, kind) and
// NewRowMetrics(subsystem, kind). Only the last two get their metric names from parameters.
func (s source) metrics(pkg string) func(ast.Node) bool {
	return func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && (f.Name.Name == "NewPlanning" || f.Name.Name == "NewRowMetrics") {
			return false
		}
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		f, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if f.Sel.Name == "NewPlanning" || f.Sel.Name == "NewRowMetrics" {
			prefix := Namespace + "_" + s.word(pkg, call.Args[0])
			s.found[prefix+"_plan_seconds"] = ""
			s.found[prefix+"_waits_total"] = "`reason`"
			if f.Sel.Name == "NewPlanning" {
				s.found[prefix+"_steps_total"] = "`step`, `reason`"
			} else {
				s.found[prefix+"_row_writes_total"] = "`cluster`"
			}
			return true
		}
		if f.Sel.Name == "NewBounded" {
			s.found[s.name(pkg, call.Args[0].(*ast.CompositeLit))] = s.labels(pkg, []ast.Expr{&ast.CompositeLit{Elts: call.Args[2:]}})
			return true
		}
		if pkgName, ok := f.X.(*ast.Ident); !ok || pkgName.Name != "prometheus" || len(call.Args) == 0 {
			return true
		}
		if opts, ok := call.Args[0].(*ast.CompositeLit); ok {
			s.found[s.name(pkg, opts)] = s.labels(pkg, call.Args[1:])
		}
		return true
	}
}

func (s source) name(pkg string, opts *ast.CompositeLit) string {
	s.Helper()
	part := map[string]string{}
	for _, e := range opts.Elts {
		field := e.(*ast.KeyValueExpr)
		if key := field.Key.(*ast.Ident).Name; key == "Namespace" || key == "Subsystem" || key == "Name" {
			part[key] = s.word(pkg, field.Value)
		}
	}
	return prometheus.BuildFQName(part["Namespace"], part["Subsystem"], part["Name"])
}

func (s source) labels(pkg string, args []ast.Expr) string {
	s.Helper()
	if len(args) == 0 {
		return ""
	}
	var out []string
	for _, e := range args[0].(*ast.CompositeLit).Elts {
		out = append(out, "`"+s.word(pkg, e)+"`")
	}
	return strings.Join(out, ", ")
}

// page parses the tables of metrics.
func (s source) page() map[string]string {
	s.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "operate", "metrics.md"))
	require.NoError(s, err)
	out := map[string]string{}
	for _, row := range regexp.MustCompile("(?m)^\\| `((?:flotilla|kruise|cloneset|namespace|crd|workload|pod)_[a-z_]+)` \\| ?(.*?) ?\\| .* \\|$").FindAllStringSubmatch(string(text), -1) {
		out[row[1]] = row[2]
	}
	return out
}
