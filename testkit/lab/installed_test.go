package lab

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/util/version"
)

// fakeMachine is fakeTools with nothing else in the PATH but the folder path. FOLDER/PROGRAM files are the programs of the machine: scripts
// that print the text.
func fakeMachine(t *testing.T, files map[string]string) (dir string, built func() []string) {
	t.Helper()
	needed := t.TempDir()
	for _, name := range []string{"dirname", "basename", "chmod"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(needed, name)))
	}
	dir, built = fakeTools(t)
	t.Setenv("PATH", strings.Join([]string{dir, needed, filepath.Join(dir, "path")}, string(os.PathListSeparator)))
	t.Setenv(assetsEnv, "")
	for name, text := range files {
		file := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(file), 0o700))
		require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+text+"\n"), 0o700))
	}
	return dir, built
}

// says returns a program that prints its version for the arguments that it accepts.
func says(args, text string) string {
	return fmt.Sprintf(`[ "$*" = "%s" ] && echo "%s"`, args, text)
}

// programsIn returns the programs of a machine, with the output of the real programs.
func programsIn(folder string) map[string]string {
	return map[string]string{
		folder + "/etcd":                    says("--version", "etcd Version: 3.6.6\nGit SHA: d2809cf\nGo Version: go1.24.10"),
		folder + "/kube-apiserver":          says("--version", "Kubernetes v1.36.0"),
		folder + "/kube-controller-manager": says("--version", "Kubernetes v1.36.9"),
		folder + "/kube-scheduler":          says("--version", "Kubernetes v1.36.3-gke.100"),
		folder + "/kubectl":                 says("version --client", "Client Version: v1.36.1\nKustomize Version: v5.7.1"),
		folder + "/kwok":                    says("--version", "kwok version v0.8.1 go1.26.0 (linux/amd64)"),
		folder + "/helm":                    says("version --short", "v4.2.1+g1d5c1a8"),
	}
}

func TestFittingProgramsOfTheMachineAreUsed(t *testing.T) {
	planes := "using etcd 3.6.6, kube-apiserver 1.36.0, kube-controller-manager 1.36.9, kube-scheduler 1.36.3-gke.100"
	rest := ", kubectl 1.36.1, kwok 0.8.1, helm 4.2.1 of DIR/path"
	none := "building Kubernetes 1.36, as not all of it is on this machine: "
	for _, c := range []struct {
		name   string
		assets string
		change map[string]string // On a machine that has all programs in the PATH. Empty removes one.
		note   string
		built  []string
	}{
		{
			name: "all of them are used, and nothing is built",
			note: planes + rest,
		},
		{
			name:   "kubectl, kwok and helm are built where they are missing or have the wrong version",
			change: map[string]string{"path/kubectl": "", "path/kwok": "", "path/helm": says("version --short", "v3.19.0+g3d8990f")},
			note: planes + " of DIR/path; building kubectl, kwok, helm: DIR/path/helm is 3.19.0, not 4.2; " +
				"no kubectl, kwok in $KUBEBUILDER_ASSETS or the PATH",
			built: []string{"kubectl", "kwok", "helm"},
		},
		{
			name:   "the assets take precedence over the PATH",
			assets: "assets",
			change: map[string]string{"assets/kube-apiserver": says("--version", "Kubernetes v1.36.2")},
			note:   strings.Replace(planes, "3.6.6, kube-apiserver 1.36.0", "3.6.6 of DIR/path, kube-apiserver 1.36.2 of DIR/assets", 1) + rest,
		},
		{
			name:   "the PATH replaces assets of the wrong version",
			assets: "assets",
			change: map[string]string{"assets/kube-apiserver": says("--version", "Kubernetes v1.35.4")},
			note:   planes + rest,
		},
		{
			name: "envtest's assets alone are not enough, so none of them is used", assets: "assets",
			change: map[string]string{
				"path/etcd": "", "path/kube-apiserver": "", "path/kube-controller-manager": "", "path/kube-scheduler": "",
				"assets/etcd":           says("--version", "etcd Version: 3.6.6"),
				"assets/kube-apiserver": says("--version", "Kubernetes v1.36.0"),
			},
			note:  none + "no kube-controller-manager, kube-scheduler in $KUBEBUILDER_ASSETS or the PATH",
			built: []string{"kube", "helm"},
		},
		{
			name:   "another minor version",
			change: map[string]string{"path/kube-apiserver": says("--version", "Kubernetes v1.37.0")},
			note:   none + "DIR/path/kube-apiserver is 1.37.0, not 1.36",
			built:  []string{"kube", "helm"},
		},
		{
			name:   "a release candidate",
			change: map[string]string{"path/kube-scheduler": says("--version", "Kubernetes v1.36.0-rc.1")},
			note:   none + "DIR/path/kube-scheduler is 1.36.0-rc.1, not 1.36",
			built:  []string{"kube", "helm"},
		},
		{
			name: "programs that fail or print no version",
			change: map[string]string{
				"path/etcd": "exit 3", "path/kube-apiserver": says("--version", "Kubernetes"),
			},
			note: none + "DIR/path/etcd does not say its version: exit status 3; " +
				"DIR/path/kube-apiserver does not say its version: it prints \"Kubernetes\"",
			built: []string{"kube", "helm"},
		},
		{
			name: "assets in a missing folder", assets: "gone",
			change: map[string]string{"path/etcd": ""},
			note:   none + "KUBEBUILDER_ASSETS=DIR/gone is not a folder; no etcd in $KUBEBUILDER_ASSETS or the PATH",
			built:  []string{"kube", "helm"},
		},
		{
			name: "assets in an empty folder", assets: "assets",
			change: map[string]string{"path/etcd": "", "assets/README": "text"},
			note:   none + "KUBEBUILDER_ASSETS=DIR/assets has no program of Kubernetes; no etcd in $KUBEBUILDER_ASSETS or the PATH",
			built:  []string{"kube", "helm"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			files := programsIn("path")
			for name, text := range c.change {
				if files[name] = text; text == "" {
					delete(files, name)
				}
			}
			dir, built := fakeMachine(t, files)
			if c.assets != "" {
				t.Setenv(assetsEnv, filepath.Join(dir, c.assets))
			}
			var notes []string
			bin, err := InstalledBinaries(t.Context(), nil, func(line string) { notes = append(notes, line) })
			require.NoError(t, err)
			require.Equal(t, []string{strings.ReplaceAll(c.note, "DIR", dir)}, notes)
			if c.built == nil {
				require.NoFileExists(t, filepath.Join(dir, "built"))
			} else {
				require.Equal(t, c.built, built())
			}
			for _, p := range installables() {
				require.FileExists(t, bin.Path(p.name), "from any directory")
			}

			again, err := InstalledBinaries(t.Context(), nil, func(string) {})
			require.NoError(t, err)
			require.Equal(t, bin, again)
		})
	}
}

func TestInstalledProgramsRunUnderTheirOwnNames(t *testing.T) {
	files := programsIn("path")
	delete(files, "path/kube-scheduler")
	files["path/all"] = `echo "$(basename "$0") v1.36.3"`
	dir, _ := fakeMachine(t, files)
	require.NoError(t, os.Symlink("all", filepath.Join(dir, "path", Scheduler)))
	bin, err := InstalledBinaries(t.Context(), nil, func(string) {})
	require.NoError(t, err)
	out, err := exec.CommandContext(t.Context(), bin.Path(Scheduler)).Output()
	require.NoError(t, err)
	require.Equal(t, "kube-scheduler v1.36.3\n", string(out), "one file may be several programs")
}

func TestAnInstalledProgramThatIsReplacedMakesAnotherFolder(t *testing.T) {
	dir, _ := fakeMachine(t, programsIn("path"))
	first, err := InstalledBinaries(t.Context(), nil, func(string) {})
	require.NoError(t, err)
	file := filepath.Join(dir, "path", Scheduler)
	require.NoError(t, os.WriteFile(file, []byte("#!/bin/sh\n"+says("--version", "Kubernetes v1.36.4")+"\n"), 0o700))
	second, err := InstalledBinaries(t.Context(), nil, func(string) {})
	require.NoError(t, err)
	require.NotEqual(t, first, second)

	t.Setenv("PATH", first.Dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	third, err := InstalledBinaries(t.Context(), nil, func(string) {})
	require.NoError(t, err)
	require.Equal(t, second, third, "the lab's own folders in the PATH don't count")
}

func TestTestsRunWhatTheLabBuildsWhateverTheMachineHas(t *testing.T) {
	dir, built := fakeMachine(t, programsIn("assets"))
	t.Setenv(assetsEnv, filepath.Join(dir, "assets"))
	t.Setenv("PATH", os.Getenv("PATH")+string(os.PathListSeparator)+filepath.Join(dir, "assets"))
	bin, err := Binaries(t.Context(), nil)
	require.NoError(t, err)
	require.Equal(t, []string{"kube", "helm"}, built())

	demo, err := InstalledBinaries(t.Context(), nil, func(line string) { t.Errorf("nothing was to be chosen: %s", line) })
	require.NoError(t, err)
	require.Equal(t, bin, demo, "a demonstration too, once they are built")
}

func TestKubernetesVersionsFitByMinorVersion(t *testing.T) {
	t.Parallel()
	want := version.MustParseSemantic("v1.36.3")
	for text, ok := range map[string]bool{
		"1.36.3": true, "1.36.0": true, "1.36.12": true, "1.36.1+k3s1": true, "1.36.1-gke.1": true,
		"1.36.0-rc.0": false, "1.36.0-alpha.1": false, "1.35.9": false, "1.37.0": false, "2.36.3": false,
	} {
		require.Equal(t, ok, fits(version.MustParseSemantic(text), want), text)
	}
}
