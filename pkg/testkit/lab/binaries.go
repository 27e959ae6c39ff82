package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// kubeModule is the module that the programs are built from, as a path in the
// repository.
const kubeModule = "e2e/kube"

// Bin is a folder with the lab's programs.
type Bin struct{ Dir string }

// Path is the file of a program: etcd, kube-apiserver,
// kube-controller-manager, kube-scheduler, kubectl, kwok or helm.
func (b Bin) Path(program string) string { return filepath.Join(b.Dir, program) }

// program is one file to build, and the names that it also goes by.
type program struct {
	name    string
	pkg     string
	ldflags string
	links   []string
}

// programs lists what to build. A Kubernetes that is built from modules does
// not know its own version, so the linker is told.
func programs(version string) []program {
	major, rest, _ := strings.Cut(strings.TrimPrefix(version, "v"), ".")
	minor, _, _ := strings.Cut(rest, ".")
	ldflags := []string{"-s", "-w"} //nolint:prealloc // The number of flags would have to be kept in step with the list.
	for _, pkg := range []string{"k8s.io/client-go/pkg/version", "k8s.io/component-base/version"} {
		for _, set := range []string{
			"gitVersion=" + version, "gitMajor=" + major, "gitMinor=" + minor,
			"gitTreeState=clean", "gitCommit=modules", "buildDate=1970-01-01T00:00:00Z",
		} {
			ldflags = append(ldflags, "-X", pkg+"."+set)
		}
	}
	return []program{
		{
			name: "kube", pkg: "./cmd/kube", ldflags: strings.Join(ldflags, " "),
			links: []string{Etcd, APIServer, ControllerManager, Scheduler, Simulator, "kubectl"},
		},
		{name: "helm", pkg: "helm.sh/helm/v4/cmd/helm", ldflags: "-s -w"},
	}
}

// Binaries returns the lab's programs, and builds them if the cache has none
// for this state of e2e/kube and this Go version. That takes minutes the first
// time; whoever comes meanwhile, from this program or another, waits for it.
// The working directory must be in the repository, and go in the PATH.
//
// The folder's name is a hash of all that goes into the programs; it gets that
// name only when it is complete. Older folders stay until removed by hand.
func Binaries(ctx context.Context, progress Progress) (Bin, error) {
	root, err := cacheRoot()
	if err != nil {
		return Bin{}, err
	}
	src, err := findModule()
	if err != nil {
		return Bin{}, err
	}
	key, err := sourceKey(src)
	if err != nil {
		return Bin{}, err
	}
	bin := Bin{Dir: filepath.Join(root, key)}
	if exists(bin.Dir) {
		return bin, nil
	}
	return bin, progress.run("programs of the lab", func() error {
		unlock, err := lock(ctx, filepath.Join(root, "build.lock"))
		if err != nil {
			return err
		}
		defer unlock()
		if exists(bin.Dir) {
			return nil // Another one has built it.
		}
		return buildAll(ctx, src, bin.Dir, progress)
	})
}

func buildAll(ctx context.Context, src, dst string, progress Progress) error {
	version, err := kubeVersion(src)
	if err != nil {
		return err
	}
	tmp := dst + ".new" // The lock makes it ours; a broken build may have left it.
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("clear %s: %w", tmp, err)
	}
	for _, p := range programs(version) {
		err := progress.run("build "+p.name, func() error { return build(ctx, src, tmp, p) })
		if err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, dst); err != nil {
		return fmt.Errorf("keep the programs: %w", err)
	}
	return nil
}

// build compiles with the flags that the product is compiled with, so that Go
// compiles what both import only once.
func build(ctx context.Context, src, dst string, p program) error {
	cmd := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-trimpath",
		"-ldflags", p.ldflags, "-o", filepath.Join(dst, p.name), p.pkg)
	cmd.Dir = src
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", p.name, cmp.Or(ctx.Err(), err), out)
	}
	for _, link := range p.links {
		if err := os.Symlink(p.name, filepath.Join(dst, link)); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	return nil
}

// findModule looks for e2e/kube in the working directory and above it.
func findModule() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if src := filepath.Join(dir, filepath.FromSlash(kubeModule)); exists(filepath.Join(src, "go.mod")) {
			return src, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no %s above %s", kubeModule, start)
		}
	}
}

// sourceKey hashes the module's files, Go's version and the platform.
func sourceKey(src string) (string, error) {
	sum := sha256.New() // To write to it never fails.
	_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	err := filepath.WalkDir(src, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(src, path)
		if err != nil {
			return err
		}
		switch filepath.Ext(name) {
		case ".go", ".mod", ".sum":
		default:
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		_, _ = fmt.Fprintf(sum, "%s %d\n", filepath.ToSlash(name), len(data))
		_, err = sum.Write(data)
		return err
	})
	if err != nil {
		return "", fmt.Errorf("hash %s: %w", src, err)
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// kubeVersion reads which Kubernetes the module requires.
func kubeVersion(src string) (string, error) {
	data, err := os.ReadFile(filepath.Join(src, "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read the version of Kubernetes: %w", err)
	}
	m := regexp.MustCompile(`(?m)^(?:require)?\s*k8s\.io/kubernetes (v\S+)`).FindSubmatch(data)
	if m == nil {
		return "", errors.New("read the version of Kubernetes: go.mod does not require k8s.io/kubernetes")
	}
	return string(m[1]), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
