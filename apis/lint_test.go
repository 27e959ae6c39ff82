package apis_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"iter"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestFieldsAreWrittenByTheRules reads the sources. The comment of a field begins with its JSON name and ends with a full stop, the field
// says whether it is optional or required, and its type can be represented in JSON and in other languages.
func TestFieldsAreWrittenByTheRules(t *testing.T) {
	t.Parallel()
	checked := 0
	for _, file := range sources(t) {
		ast.Inspect(file, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok || !spec.Name.IsExported() {
				return true
			}
			if s, ok := spec.Type.(*ast.StructType); ok {
				for _, field := range s.Fields.List {
					checked++
					for _, problem := range fieldProblems(spec.Name.Name, field) {
						t.Error(problem)
					}
				}
			}
			return true
		})
	}
	require.Greater(t, checked, 200, "the sources were not found")
}

// TestKeysSayWhoUsesThem: a key without documentation can't be changed safely.
func TestKeysSayWhoUsesThem(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	files, err := filepath.Glob("keys/*.go")
	require.NoError(t, err)
	for _, path := range files {
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
		require.NoError(t, err)
		var before string
		ast.Inspect(file, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok {
				before = d.Doc.Text() // The doc of a constant that is declared on its own.
			}
			spec, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			name := spec.Names[0].Name
			if spec.Doc.Text() != "" {
				before = spec.Doc.Text()
			}
			if !strings.Contains(before, name) {
				t.Errorf("keys.%s has no comment that names it", name)
			}
			value, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			if other, ok := seen[value]; ok {
				t.Errorf("keys.%s and keys.%s are the same key %q", name, other, value)
			}
			seen[value] = name
			return true
		})
	}
	require.Greater(t, len(seen), 20, "the sources were not found")
}

// TestCRDsAreWrittenByTheRules walks the generated schemas.
func TestCRDsAreWrittenByTheRules(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../charts/*/files/crds/*.yaml")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(files), 10)
	unserved, err := filepath.Glob("testdata/crds/*.yaml")
	require.NoError(t, err)
	files = append(files, unserved...)
	for _, file := range files {
		crd := readFile(t, file)
		compact, err := json.Marshal(crd)
		require.NoError(t, err)
		require.Less(t, len(compact), 200<<10, "%s: client-side apply keeps a copy in an annotation of at most 256 KiB", file)
		for name, version := range versions(crd["spec"].(map[string]any)) {
			for _, problem := range schemaProblems(name, schemaOf(version)) {
				t.Errorf("%s: %s", filepath.Base(file), problem)
			}
		}
	}
}

// TestLintFindsWhatIsWrong checks that the linters above find problems.
func TestLintFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	fields := []struct{ name, field, want string }{
		{"A comment that does not begin with the JSON name is found.", "// Size is.\n// +optional\nSize int32 `json:\"size\"`", "begin with size"},
		{"A comment without a full stop is found.", "// size is\n// +optional\nSize int32 `json:\"size\"`", "full stop"},
		{"A field that is neither optional nor required is found.", "// size is.\nSize int32 `json:\"size\"`", "+optional or +required"},
		{"A field that is both is found.", "// size is.\n// +optional\n// +required\nSize int32 `json:\"size\"`", "+optional or +required"},
		{"An int is found.", "// size is.\n// +optional\nSize int `json:\"size\"`", "int32"},
		{"A float is found.", "// size is.\n// +optional\nSize []float64 `json:\"size\"`", "int32"},
		{"A duration is found.", "// size is.\n// +optional\nSize *metav1.Duration `json:\"size\"`", "seconds"},
		{"A field without a JSON name is found.", "// size is.\n// +optional\nSize int32", "no JSON name"},
	}
	for _, tt := range fields {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file, err := parser.ParseFile(token.NewFileSet(), "", "package p\ntype T struct {\n"+tt.field+"\n}", parser.ParseComments)
			require.NoError(t, err)
			s := file.Decls[0].(*ast.GenDecl).Specs[0].(*ast.TypeSpec).Type.(*ast.StructType)
			problems := fieldProblems("T", s.Fields.List[0])
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], tt.want)
		})
	}
	schemas := []struct{ name, schema, want string }{
		{"A list without a type is found.", `{properties: {a: {type: array}}}`, "v.a: the list"},
		{"A rule without a message is found.", `{x-kubernetes-validations: [{rule: "true"}]}`, "v: the rule true"},
		{"A float is found.", `{items: {type: number}, type: array, x-kubernetes-list-type: set}`, "v[]: number"},
	}
	for _, tt := range schemas {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			problems := schemaProblems("v", parse(t, tt.schema))
			require.Len(t, problems, 1)
			require.Contains(t, problems[0], tt.want)
		})
	}
}

// sources yields the files that contain API types, parsed.
func sources(tb testing.TB) iter.Seq2[string, *ast.File] {
	tb.Helper()
	var files []string
	for _, pattern := range []string{"*/v1*/*_types.go", "apps/*/*_types.go", "fleet/*/*_types.go", "pods/*.go"} {
		found, err := filepath.Glob(pattern)
		require.NoError(tb, err)
		files = append(files, found...)
	}
	return func(yield func(string, *ast.File) bool) {
		for _, path := range slices.Compact(slices.Sorted(slices.Values(files))) {
			if strings.Contains(path, "zz_generated") {
				continue
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ParseComments)
			require.NoError(tb, err)
			if !yield(path, file) {
				return
			}
		}
	}
}

// fieldProblems returns the problems of one field. Embedded fields, the metadata of objects and the items of lists follow Kubernetes.
func fieldProblems(owner string, field *ast.Field) []string {
	name, inline := jsonName(field)
	if inline || name == "metadata" || name == "items" {
		return nil
	}
	where := owner + "." + name
	if name == "" {
		return []string{owner + "." + field.Names[0].Name + ": no JSON name"}
	}
	var problems []string
	var prose []string
	optional, required := false, false
	if field.Doc != nil {
		for _, line := range field.Doc.List {
			text := strings.TrimSpace(strings.TrimPrefix(line.Text, "//"))
			switch {
			case text == "+optional":
				optional = true
			case text == "+required":
				required = true
			case !strings.HasPrefix(text, "+"):
				prose = append(prose, text)
			}
		}
	}
	comment := strings.TrimSpace(strings.Join(prose, "\n"))
	if !strings.HasPrefix(comment, name+" ") {
		problems = append(problems, where+": the comment must begin with "+name)
	}
	if !strings.HasSuffix(comment, ".") {
		problems = append(problems, where+": the comment must end with a full stop")
	}
	if optional == required {
		problems = append(problems, where+": mark it +optional or +required")
	}
	ast.Inspect(field.Type, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.Ident:
			if slices.Contains([]string{"int", "uint", "int8", "int16", "uint8", "uint16", "uint32", "uint64", "float32", "float64"}, n.Name) {
				problems = append(problems, where+": "+n.Name+", use int32 (int64 for generations)")
			}
		case *ast.SelectorExpr:
			if n.Sel.Name == "Duration" {
				problems = append(problems, where+": a duration, use seconds with the unit in the name")
			}
			return false
		}
		return true
	})
	return problems
}

func jsonName(field *ast.Field) (name string, inline bool) {
	if field.Tag == nil {
		return "", len(field.Names) == 0
	}
	tag, err := strconv.Unquote(field.Tag.Value)
	if err != nil {
		return "", false
	}
	name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
	return name, strings.Contains(options, "inline")
}

// schemaProblems returns the problems of a schema and its nested schemas.
func schemaProblems(path string, schema map[string]any) []string {
	var problems []string
	switch schema["type"] {
	case "array":
		if schema["x-kubernetes-list-type"] == nil {
			problems = append(problems, path+": the list has no listType")
		}
	case "number":
		problems = append(problems, path+": number, use an integer")
	}
	if rules, ok := schema["x-kubernetes-validations"].([]any); ok {
		for _, r := range rules {
			rule := r.(map[string]any)
			if message, _ := rule["message"].(string); message == "" {
				problems = append(problems, path+": the rule "+rule["rule"].(string)+" has no message")
			}
		}
	}
	if properties, ok := schema["properties"].(map[string]any); ok {
		for name, property := range properties {
			problems = append(problems, schemaProblems(path+"."+name, property.(map[string]any))...)
		}
	}
	for _, keyword := range []string{"items", "additionalProperties"} {
		if inner, ok := schema[keyword].(map[string]any); ok {
			problems = append(problems, schemaProblems(path+"[]", inner)...)
		}
	}
	return problems
}
