package lab

import (
	"os"
	"path/filepath"
	"strings"
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
