package lab

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Go compiles a package once for all modules in the repository, unless one of them has another version of a module that the package imports.
// So modules that several of them compile must have one version. e2e/tools is excluded: a release of golangci-lint must not determine the
// product's dependencies.
func TestModulesThatAreCompiledTwiceHaveOneVersion(t *testing.T) {
	t.Parallel()
	root, err := Repository()
	require.NoError(t, err)
	type use struct{ by, version string }
	first := map[string]use{}
	for _, by := range []string{".", kubeModule, imageModule} {
		dir := filepath.Join(root, filepath.FromSlash(by))
		// Reading the file makes go test rerun this test when the file changes.
		_, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		require.NoError(t, err)
		for module, version := range compiled(t, dir) {
			other, found := first[module]
			if !found {
				first[module] = use{by, version}
				continue
			}
			assert.Equalf(t, other.version, version, "%s in %s/go.mod and in %s/go.mod", module, other.by, by)
		}
	}
}

// compiled returns the modules whose packages go into a module's programs, tools and tests, with their versions.
func compiled(t *testing.T, dir string) map[string]string {
	t.Helper()
	const format = `{{with .Module}}{{if not .Main}}{{.Path}} {{with .Replace}}{{.Version}}{{else}}{{.Version}}{{end}}{{end}}{{end}}`
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-test", "-tags", "integration,e2e", "-f", format, "./...", "tool")
	cmd.Dir = dir
	out, err := cmd.Output()
	require.NoError(t, err)
	modules := map[string]string{}
	for line := range strings.Lines(string(out)) {
		if module, version, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			modules[module] = version
		}
	}
	require.NotEmpty(t, modules)
	return modules
}

// To Go's cache, packages that are built with other flags are different packages.
func TestLabIsBuiltWithTheFlagsOfTheProduct(t *testing.T) {
	t.Parallel()
	root, err := Repository()
	require.NoError(t, err)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	require.Contains(t, string(makefile), "\nexport CGO_ENABLED ?= 0\nexport GOFLAGS := "+strings.Join(buildFlags(), " ")+"\n")
}
