package lab

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/version"
)

const (
	// assetsEnv is the env variable that names the folder of setup-envtest's programs.
	assetsEnv = "KUBEBUILDER_ASSETS"

	kubernetesModule = "k8s.io/kubernetes"

	// versionWait is how long a program may take to print its version.
	versionWait = 10 * time.Second
)

// installable is a lab program that the machine may already have.
type installable struct {
	name   string
	module string   // The lab uses the version of this module.
	args   []string // Prints the version.
	// pkg is the package to compile to build this program alone. A program without pkg is used only together with the others that have none:
	// kube-controller-manager and kube-scheduler alone import four fifths of what all of Kubernetes does, so building only some of them saves
	// next to nothing.
	pkg string
}

func installables() []installable {
	flag := []string{"--version"}
	return []installable{
		{name: Etcd, module: "go.etcd.io/etcd/server/v3", args: flag},
		{name: APIServer, module: kubernetesModule, args: flag},
		{name: ControllerManager, module: kubernetesModule, args: flag},
		{name: Scheduler, module: kubernetesModule, args: flag},
		{name: "kubectl", module: kubernetesModule, args: []string{"version", "--client"}, pkg: "k8s.io/kubernetes/cmd/kubectl"},
		{name: Simulator, module: "sigs.k8s.io/kwok", args: flag, pkg: "sigs.k8s.io/kwok/cmd/kwok"},
		{name: "helm", module: "helm.sh/helm/v4", args: []string{"version", "--short"}, pkg: helmPackage},
	}
}

// installed is a program of the machine. If its file is replaced, it counts as another program.
type installed struct {
	name, path, version string
	size                int64
	modified            time.Time
}

// InstalledBinaries is Binaries for a demonstration with simulated nodes. If the machine has etcd, kube-apiserver, kube-controller-manager
// and kube-scheduler in $KUBEBUILDER_ASSETS or the PATH, each with the minor version that the lab builds, it uses these. It also uses
// kubectl, kwok and helm, or builds those that don't fit. Programs that Binaries has already built take precedence. note is called with a
// line on what is used, what is built, and why.
//
// Tests only use Binaries, so that their results are comparable.
func InstalledBinaries(ctx context.Context, progress Progress, note func(string)) (Bin, error) {
	root, err := Repository()
	if err != nil {
		return Bin{}, err
	}
	kubernetes, err := moduleVersion(root, kubernetesModule)
	if err != nil {
		return Bin{}, err
	}
	own := clusterBundle(kubernetes)
	bin, err := own.bin(root)
	if err != nil || exists(bin.Dir) {
		return bin, err
	}
	s, err := searchInstalled(ctx, root)
	if err != nil {
		return Bin{}, err
	}
	note(s.String())
	if !s.complete() {
		return own.get(ctx, root, progress)
	}
	return s.bundle().get(ctx, root, progress)
}

// search is the result of looking for the lab's programs on the machine.
type search struct {
	kubernetes *version.Version // The lab's version.
	assets     string           // What is wrong with $KUBEBUILDER_ASSETS.
	found      []installed
	missing    []missing
}

type missing struct {
	installable
	why string // Why a file of that name is not used, or empty if there is none.
}

// searchInstalled looks for the programs in $KUBEBUILDER_ASSETS, then in the PATH. It ignores the lab's own cache: a demonstration tells its
// user to add that to the PATH.
func searchInstalled(ctx context.Context, root string) (search, error) {
	cache, err := cacheRoot()
	if err != nil {
		return search{}, err
	}
	var s search
	dirs := filepath.SplitList(os.Getenv("PATH"))
	assets := os.Getenv(assetsEnv)
	if assets != "" {
		if assets, err = filepath.Abs(assets); err != nil {
			return search{}, fmt.Errorf("find $%s: %w", assetsEnv, err)
		}
		dirs = slices.Insert(dirs, 0, assets)
		s.assets = checkAssets(assets)
	}
	dirs = slices.DeleteFunc(dirs, func(dir string) bool {
		return !filepath.IsAbs(dir) || strings.HasPrefix(dir, cache+string(filepath.Separator))
	})
	for _, p := range installables() {
		text, err := moduleVersion(root, p.module)
		if err != nil {
			return search{}, err
		}
		want, err := version.ParseSemantic(text)
		if err != nil {
			return search{}, fmt.Errorf("read the version of %s: %w", p.module, err)
		}
		if p.module == kubernetesModule {
			s.kubernetes = want
		}
		i, why, err := p.find(ctx, dirs, want)
		switch {
		case err != nil:
			return search{}, err
		case i.path != "":
			s.found = append(s.found, i)
		default:
			s.missing = append(s.missing, missing{p, why})
		}
	}
	return s, nil
}

// checkAssets says what is wrong with the folder in $KUBEBUILDER_ASSETS.
func checkAssets(dir string) string {
	info, err := os.Stat(dir)
	if err != nil || !info.IsDir() {
		return fmt.Sprintf("%s=%s is not a folder", assetsEnv, dir)
	}
	if !slices.ContainsFunc(installables(), func(p installable) bool { return exists(filepath.Join(dir, p.name)) }) {
		return fmt.Sprintf("%s=%s has no program of Kubernetes", assetsEnv, dir)
	}
	return ""
}

// find returns the first file in dirs with the right name and minor version, or why the first one with that name doesn't fit. The error is
// ctx's.
func (p installable) find(ctx context.Context, dirs []string, want *version.Version) (i installed, why string, err error) {
	for _, dir := range dirs {
		path, err := exec.LookPath(filepath.Join(dir, p.name))
		if err != nil {
			continue
		}
		info, err := os.Stat(path)
		if err != nil {
			continue
		}
		got, err := p.version(ctx, path)
		if ctx.Err() != nil {
			return installed{}, "", fmt.Errorf("look for %s: %w", p.name, ctx.Err())
		}
		switch {
		case err != nil:
			why = cmp.Or(why, fmt.Sprintf("%s does not say its version: %v", path, err))
		case !fits(got, want):
			why = cmp.Or(why, fmt.Sprintf("%s is %s, not %s", path, got, minor(want)))
		default:
			return installed{name: p.name, path: path, version: got.String(), size: info.Size(), modified: info.ModTime()}, "", nil
		}
	}
	return installed{}, why, nil
}

// fits reports whether a version has the wanted minor version, and is not a pre-release of its first release.
func fits(got, want *version.Version) bool {
	return minor(got) == minor(want) && got.AtLeast(version.MustParseSemantic(minor(want)+".0"))
}

func minor(v *version.Version) string { return fmt.Sprintf("%d.%d", v.Major(), v.Minor()) }

// version asks the program for its version.
func (p installable) version(ctx context.Context, path string) (*version.Version, error) {
	ctx, cancel := context.WithTimeout(ctx, versionWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, p.args...) //nolint:gosec // It is what a shell would run under that name.
	cmd.WaitDelay = time.Second                      // A child process may keep its output open.
	out, err := cmd.Output()
	if err != nil {
		return nil, cmp.Or(ctx.Err(), err)
	}
	if text := regexp.MustCompile(`\bv?\d+\.\d+\.\d+[0-9A-Za-z.-]*`).Find(out); text != nil {
		return version.ParseSemantic(string(text))
	}
	line, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
	return nil, fmt.Errorf("it prints %q", line)
}

// complete reports whether a cluster can run with what was found plus the programs that are built alone.
func (s search) complete() bool {
	return !slices.ContainsFunc(s.missing, func(m missing) bool { return m.pkg == "" })
}

// String says in one line what is used, what is built, and why.
func (s search) String() string {
	var why, absent []string
	build := make([]string, 0, len(s.missing))
	if s.assets != "" {
		why = append(why, s.assets)
	}
	for _, m := range s.missing {
		switch {
		case !s.complete() && m.pkg != "":
			continue // It is built together with the others, wherever else it exists.
		case m.why != "":
			why = append(why, m.why)
		default:
			absent = append(absent, m.name)
		}
		build = append(build, m.name)
	}
	if len(absent) > 0 {
		why = append(why, fmt.Sprintf("no %s in $%s or the PATH", strings.Join(absent, ", "), assetsEnv))
	}
	if !s.complete() {
		return fmt.Sprintf("building Kubernetes %s, as not all of it is on this machine: %s", minor(s.kubernetes), strings.Join(why, "; "))
	}
	var used []string
	for i, f := range s.found {
		text := f.name + " " + f.version
		if i+1 == len(s.found) || filepath.Dir(s.found[i+1].path) != filepath.Dir(f.path) {
			text += " of " + filepath.Dir(f.path)
		}
		used = append(used, text)
	}
	line := "using " + strings.Join(used, ", ")
	if len(build) > 0 {
		line += "; building " + strings.Join(build, ", ")
	}
	if len(why) > 0 {
		line += ": " + strings.Join(why, "; ")
	}
	return line
}

// bundle returns the folder that links to what was found. The rest is built.
func (s search) bundle() bundle {
	sum := sha256.New() // Writing to it never fails.
	for _, i := range s.found {
		_, _ = fmt.Fprintln(sum, i.name, i.path, i.version, i.size, i.modified.UnixNano())
	}
	b := bundle{
		what:      "programs of the lab",
		suffix:    "-installed-" + hex.EncodeToString(sum.Sum(nil))[:8],
		sources:   []string{kubeModule + "/go.mod", kubeModule + "/go.sum"},
		installed: s.found,
	}
	names, pkgs := make([]string, len(s.missing)), make([]string, len(s.missing))
	for i, m := range s.missing {
		names[i], pkgs[i] = m.name, m.pkg
	}
	if len(pkgs) > 0 {
		b.programs = []program{{name: strings.Join(names, ", "), module: kubeModule, pkgs: pkgs, ldflags: versionFlags("v" + s.kubernetes.String())}}
	}
	return b
}
