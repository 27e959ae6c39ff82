package lab

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSourceKeyFollowsWhatTheProgramsAreMadeOf(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	put := func(name, text string) {
		file := filepath.Join(root, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	}
	key := func() string {
		k, err := sourceKey(root, "kube/go.mod", "kube/cmd")
		require.NoError(t, err)
		require.Len(t, k, 16)
		return k
	}
	put("kube/go.mod", "module a")
	put("kube/cmd/main.go", "package main")
	first := key()
	require.Equal(t, first, key())
	put("kube/cmd/README.md", "text")
	require.Equal(t, first, key(), "documents don't count")
	put("kube/cmd/main_test.go", "package main")
	require.Equal(t, first, key(), "nor do tests")
	put("kube/other/main.go", "package main")
	require.Equal(t, first, key(), "nor does another folder of programs")

	seen := map[string]string{first: "first"}
	for _, change := range []struct{ name, file, text string }{
		{name: "another version", file: "kube/go.mod", text: "module b"},
		{name: "code", file: "kube/cmd/main.go", text: "package main // changed"},
		{name: "a new file", file: "kube/cmd/node.go", text: "package main"},
	} {
		put(change.file, change.text)
		k := key()
		require.NotContains(t, seen, k, change.name)
		seen[k] = change.name
	}
	_, err := sourceKey(root, "kube/gone")
	require.ErrorContains(t, err, "hash kube/gone", "a missing source differs from an empty one")
}

func TestTheRepositoryIsFoundFromWithinIt(t *testing.T) {
	t.Parallel()
	root, err := Repository()
	require.NoError(t, err)
	version, err := moduleVersion(root, kubernetesModule)
	require.NoError(t, err)
	require.Regexp(t, `^v1\.\d+\.\d+$`, version)
	for _, b := range []bundle{clusterBundle(version), nodeBundle()} {
		for _, source := range b.sources {
			require.True(t, exists(filepath.Join(root, source)), "%s of the %s", source, b.what)
		}
	}
}

func TestTheLinkerIsToldTheVersion(t *testing.T) {
	t.Parallel()
	kube := clusterBundle("v1.36.3").programs[0]
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
	root, dst := t.TempDir(), filepath.Join(t.TempDir(), "key")
	mod := "module broken\n\ngo 1.26\n\nrequire k8s.io/kubernetes v1.36.3\n"
	require.NoError(t, os.MkdirAll(filepath.Join(root, kubeModule), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(root, kubeModule, "go.mod"), []byte(mod), 0o600))
	var stages []string
	err := clusterBundle("v1.36.3").build(t.Context(), root, dst, func(stage string) func(error) {
		return func(err error) { stages = append(stages, stage+": "+strings.SplitN(err.Error(), "\n", 2)[0]) }
	})
	require.ErrorContains(t, err, "cmd/kube", "the error contains the compiler's message")
	require.Equal(t, []string{"build Kubernetes, etcd, kwok and helm: build Kubernetes, etcd, kwok and helm: exit status 1"}, stages)
	require.NoDirExists(t, dst)
}

// fakeTools puts a fake go into the PATH that "builds" by creating the files, records what it built and how, and fails while the file broken
// exists. It also adds what a build of real nodes looks for.
func fakeTools(t *testing.T) (dir string, built func() []string) {
	t.Helper()
	dir = t.TempDir()
	script := `#!/bin/sh
dir=$(dirname "$0")
while [ "$1" != -o ]; do shift; done
out=$2
shift 2
for pkg; do
	file=$out$(basename "$pkg")
	echo half > "$file"
	[ ! -e "$dir/broken" ] || exit 1
	printf '#!/bin/sh\necho "$@" > %s/said-$(basename $0)\n' "$dir" > "$file"
	chmod +x "$file"
	echo "$(basename "$pkg")" >> "$dir/built"
	[ "$CGO_ENABLED" = 0 ] || echo "with cgo" >> "$dir/built"
done
`
	for name, text := range map[string]string{"go": script, "gcc": "#!/bin/sh\n", "pkg-config": "#!/bin/sh\n[ ! -e $(dirname $0)/bare ]\n"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700))
	}
	t.Setenv("CC", "")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv(cacheEnv, filepath.Join(dir, "cache"))
	return dir, func() []string {
		data, err := os.ReadFile(filepath.Join(dir, "built"))
		require.NoError(t, err)
		return strings.Split(strings.TrimSpace(string(data)), "\n")
	}
}

func TestManyWhoNeedTheProgramsBuildThemOnce(t *testing.T) {
	_, built := fakeTools(t)
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
	for _, name := range []string{"helm", "kubectl", "kubelet", "kube-proxy", Etcd, APIServer, ControllerManager, Scheduler, Simulator} {
		require.FileExists(t, bins[0].Path(name))
	}
}

func TestARealNodesProgramsHaveAFolderOfTheirOwn(t *testing.T) {
	dir, built := fakeTools(t)
	bin, err := NodeBinaries(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{
		"containerd", "containerd-shim-runc-v2", "ctr", "bridge", "host-local", "portmap",
		"runc", "with cgo", "labnode", "labdns", "labimage",
	}, built(), "only runc needs a C compiler")
	said, err := os.ReadFile(filepath.Join(dir, "said-labimage"))
	require.NoError(t, err)
	require.Equal(t, "build --set test --arch "+runtime.GOARCH+" --archives "+bin.Dir+".new\n", string(said))

	require.NoError(t, os.Remove(filepath.Join(dir, "gcc")))
	again, err := NodeBinaries(t.Context(), nil)
	require.NoError(t, err, "programs that were built need no compiler")
	require.Equal(t, bin, again)
	require.NoError(t, canBuildNodes(t.Context()))
}

func TestAMachineThatCannotBuildNodesSaysWhatItLacks(t *testing.T) {
	dir, _ := fakeTools(t)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "bare"), nil, 0o600))
	_, err := NodeBinaries(t.Context(), nil)
	require.EqualError(t, err, "real nodes need runc, whose build needs libseccomp: install libseccomp-dev")
	require.Equal(t, err, canBuildNodes(t.Context()))

	t.Setenv("CC", "no-such-compiler")
	_, err = NodeBinaries(t.Context(), nil)
	require.EqualError(t, err, "real nodes need runc, whose build needs no-such-compiler: install gcc, pkg-config and libseccomp-dev")

	_, err = Binaries(t.Context(), nil)
	require.NoError(t, err, "clusters with simulated nodes need neither")
}

func TestABuildThatBrokeIsDoneAnew(t *testing.T) {
	dir, built := fakeTools(t)
	broken := filepath.Join(dir, "broken")
	require.NoError(t, os.WriteFile(broken, nil, 0o600))
	_, err := Binaries(t.Context(), nil)
	require.ErrorContains(t, err, "build Kubernetes")

	require.NoError(t, os.Remove(broken))
	bin, err := Binaries(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"kube", "helm"}, built())
	require.NoDirExists(t, bin.Dir+".new")
}

func TestABuildOfAnotherProcessIsWaitedForInAStageOfItsOwn(t *testing.T) {
	dir, built := fakeTools(t)
	unlock, err := lock(t.Context(), filepath.Join(dir, "cache", "build.lock"))
	require.NoError(t, err)
	var stages []string
	_, err = Binaries(t.Context(), func(stage string) func(error) {
		if stages = append(stages, stage); len(stages) == 1 {
			unlock()
		}
		return func(error) {}
	})
	require.NoError(t, err)
	require.Equal(t, []string{"wait for another build of the programs of the lab", "build Kubernetes, etcd, kwok and helm"}, stages)
	require.Equal(t, []string{"kube", "helm"}, built())

	stages = nil
	_, err = Binaries(t.Context(), func(stage string) func(error) {
		stages = append(stages, stage)
		return func(error) {}
	})
	require.NoError(t, err)
	require.Empty(t, stages, "nothing left to do")
}
