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
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// The modules that the programs are built from, as paths in the repository.
const (
	kubeModule  = "e2e/kube"
	imageModule = "e2e/image"

	helmPackage = "helm.sh/helm/v4/cmd/helm"
)

// Bin is a folder with the lab's programs.
type Bin struct{ Dir string }

// Path returns the file of a program. Binaries has etcd, kube-apiserver, kube-controller-manager, kube-scheduler, kubelet, kube-proxy,
// kubectl, kwok and helm. InstalledBinaries may lack kubelet and kube-proxy. NodeBinaries has everything else that a real node runs.
func (b Bin) Path(program string) string { return filepath.Join(b.Dir, program) }

// program is the result of one call of the Go compiler.
type program struct {
	name    string   // Its name in progress messages.
	module  string   // A path in the repository.
	pkgs    []string // The last path element is the file name.
	tags    string
	ldflags string
	cgo     bool
	links   []string // Additional names for the first file.
}

// bundle is a folder of programs. Its name is derived from their sources.
type bundle struct {
	what     string
	suffix   string   // Of the folder's name.
	sources  []string // The suffix of the folder's name.
	programs []program
	// installed holds programs of the machine that the folder links to.
	installed []installed
	// ready returns an error that says in one line what the machine lacks to build the bundle, or nil.
	ready func(ctx context.Context) error
	// finish adds the other files that belong in the folder.
	finish func(ctx context.Context, root, dir string) error
}

// versionFlags returns linker flags that set the version: Kubernetes doesn't know its own version if it is built from modules.
func versionFlags(version string) string {
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
	return strings.Join(ldflags, " ")
}

// clusterBundle returns the bundle with a cluster's own programs.
func clusterBundle(version string) bundle {
	return bundle{
		what:    "programs of the lab",
		sources: []string{kubeModule + "/go.mod", kubeModule + "/go.sum", kubeModule + "/cmd/kube"},
		// One build compiles both files, so that helm is compiled while kube is being linked.
		programs: []program{{
			name: "Kubernetes, etcd, kwok and helm", module: kubeModule, pkgs: []string{"./cmd/kube", helmPackage},
			ldflags: versionFlags(version),
			links:   []string{Etcd, APIServer, ControllerManager, Scheduler, Simulator, "kubectl", "kubelet", "kube-proxy"},
		}},
	}
}

// nodeBundle returns the bundle with what a real node runs besides kubelet and kube-proxy. Building it doesn't need root. runc needs
// libseccomp, and a C compiler because it enters namespaces before Go's threads start.
func nodeBundle() bundle {
	return bundle{
		what:   "programs of real nodes",
		suffix: "-node",
		sources: []string{
			kubeModule + "/go.mod", kubeModule + "/go.sum", kubeModule + "/cmd/labnode", kubeModule + "/cmd/labdns",
			imageModule, "e2e/testapp", "e2e/pause",
		},
		programs: []program{
			{
				// Leave out the snapshotters that need a special file system.
				name: "containerd", module: kubeModule, tags: "no_btrfs no_devmapper no_zfs urfave_cli_no_docs", ldflags: "-s -w",
				pkgs: []string{
					"github.com/containerd/containerd/v2/cmd/containerd",
					"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2",
					"github.com/containerd/containerd/v2/cmd/ctr",
				},
			},
			{
				name: "CNI plugins", module: kubeModule, ldflags: "-s -w",
				pkgs: []string{
					"github.com/containernetworking/plugins/plugins/main/bridge",
					"github.com/containernetworking/plugins/plugins/ipam/host-local",
					"github.com/containernetworking/plugins/plugins/meta/portmap",
				},
			},
			{
				name: "runc", module: kubeModule, tags: "seccomp urfave_cli_no_docs", ldflags: "-s -w", cgo: true,
				pkgs: []string{"github.com/opencontainers/runc"},
			},
			{name: "labnode, labdns", module: kubeModule, ldflags: "-s -w", pkgs: []string{"./cmd/labnode", "./cmd/labdns"}},
			{name: "labimage", module: imageModule, ldflags: "-s -w", pkgs: []string{"./cmd/labimage"}},
		},
		ready:  canBuildRunc,
		finish: nodeImages,
	}
}

// canBuildRunc returns an error that says what this machine lacks to build runc.
func canBuildRunc(ctx context.Context) error {
	if runtime.GOOS != "linux" {
		return errors.New("real nodes need Linux")
	}
	for _, name := range []string{cmp.Or(os.Getenv("CC"), "gcc"), "pkg-config"} {
		if _, err := exec.LookPath(name); err != nil {
			return fmt.Errorf("real nodes need runc, whose build needs %s: install gcc, pkg-config and libseccomp-dev", name)
		}
	}
	if err := exec.CommandContext(ctx, "pkg-config", "--exists", "libseccomp").Run(); err != nil {
		return errors.New("real nodes need runc, whose build needs libseccomp: install libseccomp-dev")
	}
	return nil
}

// nodeImages builds the images that every node has: pause.tar, the sandbox of pods, and testapp.tar.
func nodeImages(ctx context.Context, root, dir string) error {
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "labimage"), "build", "--set", "test",
		"--arch", runtime.GOARCH, "--archives", dir)
	cmd.Dir = root
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("make the test images: %w\n%s", cmp.Or(ctx.Err(), err), out)
	}
	return nil
}

// Binaries returns the lab's programs. It builds them if the cache has none for the current state of e2e/kube and this Go version. That takes
// minutes the first time, and concurrent callers, in this program or another, wait for it. The working directory must be in the repository,
// and go in the PATH.
//
// The folder's name is a hash of everything that goes into the programs. The folder gets that name only when it is complete. Old folders stay
// until they are removed manually.
func Binaries(ctx context.Context, progress Progress) (Bin, error) {
	root, err := Repository()
	if err != nil {
		return Bin{}, err
	}
	version, err := moduleVersion(root, kubernetesModule)
	if err != nil {
		return Bin{}, err
	}
	return clusterBundle(version).get(ctx, root, progress)
}

// NodeBinaries is like Binaries, for what a real node runs besides kubelet and kube-proxy: containerd, containerd-shim-runc-v2, ctr, runc,
// the CNI plugins bridge, host-local and portmap, labnode, labdns and labimage. pause.tar and testapp.tar are images for ctr to import. The
// error says in one line what the machine lacks to build them. Clusters with simulated nodes need none of this.
func NodeBinaries(ctx context.Context, progress Progress) (Bin, error) {
	root, err := Repository()
	if err != nil {
		return Bin{}, err
	}
	return nodeBundle().get(ctx, root, progress)
}

// canBuildNodes returns an error that says in one line why NodeBinaries can't build what the cache lacks.
func canBuildNodes(ctx context.Context) error {
	root, err := Repository()
	if err != nil {
		return err
	}
	bin, err := nodeBundle().bin(root)
	if err != nil || exists(bin.Dir) {
		return err
	}
	return canBuildRunc(ctx)
}

// bin returns where the bundle's folder is, or will be.
func (b bundle) bin(root string) (Bin, error) {
	cache, err := cacheRoot()
	if err != nil {
		return Bin{}, err
	}
	key, err := sourceKey(root, b.sources...)
	if err != nil {
		return Bin{}, err
	}
	return Bin{Dir: filepath.Join(cache, key+b.suffix)}, nil
}

// get returns the bundle's folder, and builds it if necessary.
func (b bundle) get(ctx context.Context, root string, progress Progress) (Bin, error) {
	bin, err := b.bin(root)
	if err != nil || exists(bin.Dir) {
		return bin, err
	}
	if b.ready != nil {
		if err := b.ready(ctx); err != nil {
			return Bin{}, err
		}
	}
	unlock, err := b.lock(ctx, filepath.Join(filepath.Dir(bin.Dir), "build.lock"), progress)
	if err != nil {
		return Bin{}, err
	}
	defer unlock()
	if exists(bin.Dir) {
		return bin, nil // Another process has built it.
	}
	return bin, b.build(ctx, root, bin.Dir, progress)
}

// lock waits for builds in other processes. It reports a stage only if there is one to wait for.
func (b bundle) lock(ctx context.Context, file string, progress Progress) (unlock func(), err error) {
	if unlock, err = tryLock(file); !errors.Is(err, errLocked) {
		return unlock, err
	}
	err = progress.run("wait for another build of the "+b.what, func() error {
		unlock, err = lock(ctx, file)
		return err
	})
	return unlock, err
}

func (b bundle) build(ctx context.Context, root, dst string, progress Progress) error {
	tmp := dst + ".new" // The lock gives us exclusive access. The folder may be left over from a failed build.
	if err := os.RemoveAll(tmp); err != nil {
		return fmt.Errorf("clear %s: %w", tmp, err)
	}
	if err := os.MkdirAll(tmp, 0o755); err != nil {
		return fmt.Errorf("make %s: %w", tmp, err)
	}
	for _, p := range b.programs {
		if err := progress.run("build "+p.name, func() error { return p.build(ctx, root, tmp) }); err != nil {
			return err
		}
	}
	for _, i := range b.installed {
		if err := os.Symlink(i.path, filepath.Join(tmp, i.name)); err != nil {
			return fmt.Errorf("link to %s: %w", i.path, err)
		}
	}
	if b.finish != nil {
		if err := progress.run("finish the "+b.what, func() error { return b.finish(ctx, root, tmp) }); err != nil {
			return err
		}
	}
	if err := os.Rename(tmp, dst); err != nil {
		return fmt.Errorf("keep the programs: %w", err)
	}
	return nil
}

// buildFlags returns the flags that the Makefile builds the product with, so that Go compiles shared packages only once.
func buildFlags() []string { return []string{"-buildvcs=false", "-trimpath"} }

// build compiles the program into dst.
func (p program) build(ctx context.Context, root, dst string) error {
	args := append([]string{"build"}, buildFlags()...)
	args = append(args, "-tags", p.tags, "-ldflags", p.ldflags, "-o", dst+string(filepath.Separator))
	args = append(args, p.pkgs...)
	cgo := "CGO_ENABLED=0"
	if p.cgo {
		cgo = "CGO_ENABLED=1"
	}
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = filepath.Join(root, filepath.FromSlash(p.module))
	cmd.Env = append(os.Environ(), cgo, "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", p.name, cmp.Or(ctx.Err(), err), out)
	}
	for _, link := range p.links {
		if err := os.Symlink(path.Base(p.pkgs[0]), filepath.Join(dst, link)); err != nil {
			return fmt.Errorf("build %s: %w", p.name, err)
		}
	}
	return nil
}

// Repository returns the root of the checkout, searching upward from the working directory.
func Repository() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("find the repository: %w", err)
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if exists(filepath.Join(dir, filepath.FromSlash(kubeModule), "go.mod")) {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("find the repository: no %s above %s", kubeModule, start)
		}
	}
}

// sourceKey hashes the Go version, the platform, and the Go files below the given files and folders of the repository.
func sourceKey(root string, sources ...string) (string, error) {
	sum := sha256.New() // Writing to it never fails.
	_, _ = fmt.Fprintln(sum, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	for _, source := range sources {
		err := filepath.WalkDir(filepath.Join(root, filepath.FromSlash(source)), func(file string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				return err
			}
			switch filepath.Ext(name) {
			case ".go", ".mod", ".sum":
			default:
				return nil
			}
			if strings.HasSuffix(name, "_test.go") {
				return nil
			}
			data, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			_, _ = fmt.Fprintf(sum, "%s %d\n", filepath.ToSlash(name), len(data))
			_, err = sum.Write(data)
			return err
		})
		if err != nil {
			return "", fmt.Errorf("hash %s: %w", source, err)
		}
	}
	return hex.EncodeToString(sum.Sum(nil))[:16], nil
}

// moduleVersion returns the version of a module that the lab's programs are built from.
func moduleVersion(root, module string) (string, error) {
	data, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(kubeModule), "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read the version of %s: %w", module, err)
	}
	m := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(module) + ` (v\S+)`).FindSubmatch(data)
	if m == nil {
		return "", fmt.Errorf("read the version of %s: %s/go.mod does not require it", module, kubeModule)
	}
	return string(m[1]), nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}
