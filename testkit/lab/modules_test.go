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

// Go compiles a package once for all modules of the repository, unless a module that it imports has another version in one
// of them. So what several of them compile has one version. e2e/tools is not among them: a release of golangci-lint must
// not decide what the product is made of.
func TestModulesThatAreCompiledTwiceHaveOneVersion(t *testing.T) {
	t.Parallel()
	root, err := Repository()
	require.NoError(t, err)
	type use struct{ by, version string }
	first := map[string]use{}
	for _, by := range []string{".", kubeModule, imageModule} {
		dir := filepath.Join(root, filepath.FromSlash(by))
		// To read the file makes go test run this again when it changes.
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

// compiled returns the modules whose packages go into the programs, tools and tests of a module, with their versions.
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

// Packages that are built with other flags are other packages to Go's cache.
func TestLabIsBuiltWithTheFlagsOfTheProduct(t *testing.T) {
	t.Parallel()
	root, err := Repository()
	require.NoError(t, err)
	makefile, err := os.ReadFile(filepath.Join(root, "Makefile"))
	require.NoError(t, err)
	require.Contains(t, string(makefile), "\nexport CGO_ENABLED ?= 0\nexport GOFLAGS := "+strings.Join(buildFlags(), " ")+"\n")
}
