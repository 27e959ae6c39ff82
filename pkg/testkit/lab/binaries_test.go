package lab

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSourceKeyFollowsWhatTheProgramsAreMadeOf(t *testing.T) {
	t.Parallel()
	src := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(src, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	key := func() string {
		k, err := sourceKey(src)
		require.NoError(t, err)
		require.Len(t, k, 16)
		return k
	}
	put("go.mod", "module a")
	put("cmd/kube/main.go", "package main")
	first := key()
	require.Equal(t, first, key())
	put("README.md", "text")
	require.Equal(t, first, key(), "prose does not count")

	seen := map[string]string{first: "first"}
	for _, change := range []struct{ name, file, text string }{
		{name: "another version", file: "go.mod", text: "module b"},
		{name: "sums", file: "go.sum", text: "x"},
		{name: "code", file: "cmd/kube/main.go", text: "package main // changed"},
		{name: "a new file", file: "cmd/kube/node.go", text: "package main"},
	} {
		put(change.file, change.text)
		k := key()
		require.NotContains(t, seen, k, change.name)
		seen[k] = change.name
	}
}

func TestTheModuleIsFoundFromWithinIt(t *testing.T) {
	t.Parallel()
	src, err := findModule()
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(src, "cmd", "kube", "main.go"))
	version, err := kubeVersion(src)
	require.NoError(t, err)
	require.Regexp(t, `^v1\.\d+\.\d+$`, version)
}

func TestTheLinkerIsToldTheVersion(t *testing.T) {
	t.Parallel()
	kube := programs("v1.36.3")[0]
	for _, want := range []string{
		"-X k8s.io/component-base/version.gitVersion=v1.36.3",
		"-X k8s.io/component-base/version.gitMajor=1",
		"-X k8s.io/client-go/pkg/version.gitMinor=36",
	} {
		require.Contains(t, kube.ldflags, want)
	}
	require.Contains(t, kube.links, "kubectl")
}

func TestABrokenBuildSaysWhyAndLeavesNoFolder(t *testing.T) {
	t.Parallel()
	src, dst := t.TempDir(), filepath.Join(t.TempDir(), "key")
	mod := "module broken\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.36.3\n"
	require.NoError(t, os.WriteFile(filepath.Join(src, "go.mod"), []byte(mod), 0o600))
	var stages []string
	err := buildAll(t.Context(), src, dst, func(stage string) func(error) {
		return func(err error) { stages = append(stages, stage+": "+strings.SplitN(err.Error(), "\n", 2)[0]) }
	})
	require.ErrorContains(t, err, "cmd/kube", "the compiler's words are in the error")
	require.Equal(t, []string{"build kube: build kube: exit status 1"}, stages)
	require.NoDirExists(t, dst)
}

// fakeGo puts a go in the PATH that "builds" by making the file, notes what it
// built, and fails as long as the file broken exists.
func fakeGo(t *testing.T) (dir string, built func() []string) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
dir=$(dirname "$0")
while [ "$1" != -o ]; do shift; done
mkdir -p "$(dirname "$2")" && echo half > "$2"
[ ! -e "$dir/broken" ] || exit 1
echo "$(basename "$2")" >> "$dir/built"
`
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), []byte(script), 0o700))
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(cacheEnv, filepath.Join(dir, "cache"))
	return dir, func() []string {
		data, err := os.ReadFile(filepath.Join(dir, "built"))
		require.NoError(t, err)
		return strings.Fields(string(data))
	}
}

func TestManyWhoNeedTheProgramsBuildThemOnce(t *testing.T) {
	_, built := fakeGo(t)
	bins, errs := make([]Bin, 8), make([]error, 8)
	var wg sync.WaitGroup
	for i := range bins {
		wg.Go(func() { bins[i], errs[i] = Binaries(t.Context(), nil) })
	}
	wg.Wait()
	for i := range bins {
		require.NoError(t, errs[i])
		require.Equal(t, bins[0], bins[i])
	}
	require.Equal(t, []string{"kube", "helm"}, built())
	for _, name := range []string{"helm", "kubectl", Etcd, APIServer, ControllerManager, Scheduler, Simulator} {
		require.FileExists(t, bins[0].Path(name))
	}
}

func TestABuildThatBrokeIsDoneAnew(t *testing.T) {
	dir, built := fakeGo(t)
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	_, err := Binaries(t.Context(), nil)
	require.ErrorContains(t, err, "build kube")

	require.NoError(t, os.Remove(broken))
	bin, err := Binaries(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"kube", "helm"}, built())
	require.NoDirExists(t, bin.Dir+".new")
}
