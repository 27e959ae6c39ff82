package fleet

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/flotilla-io/flotilla/testkit/lab"
)

// Names of images. The registry doesn't exist: the images are loaded into nodes.
const (
	imagePrefix = "lab.example/"
	// builtTag is the tag with which our images are built. On nodes they have Fleet.Tag.
	builtTag = "dev"
)

// makeImages builds our images for this machine and returns their files, plus the file of the test images.
func (f *Fleet) makeImages(ctx context.Context) ([]string, error) {
	bin, err := lab.NodeBinaries(ctx, f.options.Progress)
	if err != nil {
		return nil, err
	}
	files, digests, err := buildImages(ctx, bin, f.Root, filepath.Join(f.Root, "bin", "images"), builtTag)
	sum := sha256.Sum256(digests)
	f.Tag = builtTag + "-" + hex.EncodeToString(sum[:6])
	return append(files, bin.Path("testapp.tar")), err
}

// loadImages loads our images into a cluster's nodes, with a tag that changes whenever one of them does, so that helm rolls it out.
func (f *Fleet) loadImages(ctx context.Context, c *lab.Cluster) error {
	if err := c.LoadImages(ctx, f.archives...); err != nil {
		return err
	}
	for _, node := range c.RealNodes() {
		for _, program := range []string{"flotilla-hub", "flotilla-member", "flotilla-noded"} {
			_, err := c.NodeExec(ctx, node, nil, "ctr", "-n", "k8s.io", "images", "tag", "--force", Image(program, builtTag), Image(program, f.Tag))
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// buildImages builds the images of the programs in a folder, with a tag. It returns their files, and a text with their digests.
func buildImages(ctx context.Context, bin lab.Bin, root, into, tag string) (files []string, digests []byte, err error) {
	if err := os.MkdirAll(into, 0o750); err != nil {
		return nil, nil, fmt.Errorf("make images: %w", err)
	}
	args := []string{"build", "--set", "release", "--arch", runtime.GOARCH, "--version", tag, "--archives", into}
	for _, folder := range []string{"hub", "member", "noded"} {
		if _, err := os.Stat(filepath.Join(root, "cmd", folder)); err == nil {
			program := "flotilla-" + folder
			args, files = append(args, program), append(files, filepath.Join(into, program+".tar"))
		}
	}
	cmd := exec.CommandContext(ctx, bin.Path("labimage"), args...)
	cmd.Dir = root
	digests, err = cmd.CombinedOutput()
	if err != nil {
		return nil, nil, fmt.Errorf("make images: %w:\n%s", err, digests)
	}
	return files, digests, nil
}

// Former loads the images of the previous commit into all nodes, with a tag, and writes that commit with its charts to a folder. In a clone
// that has only one commit, it uses that commit.
func (f *Fleet) Former(ctx context.Context, dir, tag string) error {
	commit := "HEAD^"
	if err := exec.CommandContext(ctx, "git", "-C", f.Root, "rev-parse", "--verify", "--quiet", commit).Run(); err != nil {
		commit = "HEAD"
	}
	archive := exec.CommandContext(ctx, "sh", "-ec", `git -C "$0" archive "$1" | tar -x -C "$2"`, f.Root, commit, dir)
	if out, err := archive.CombinedOutput(); err != nil {
		return fmt.Errorf("write the previous commit: %w: %s", err, out)
	}
	bin, err := lab.NodeBinaries(ctx, f.options.Progress)
	if err != nil {
		return err
	}
	var files []string
	err = f.stage("former images", func() error {
		files, _, err = buildImages(ctx, bin, dir, filepath.Join(dir, "bin", "images"), tag)
		return err
	})
	if err != nil {
		return err
	}
	var work []func() error
	for _, c := range f.Clusters() {
		work = append(work, func() error {
			return f.stage(c.Name+": previous images", func() error { return c.Lab.LoadImages(ctx, files...) })
		})
	}
	return parallel(work...)
}

// Image returns the name of one of our images in the lab.
func Image(program, tag string) string { return imagePrefix + program + ":" + tag }

// release installs or upgrades a chart with helm, and waits until the manager is ready. Earlier values are kept.
func (f *Fleet) release(ctx context.Context, c *Cluster, program, chart string, flags ...string) error {
	c.Manager = &Manager{Name: program, cluster: c, runner: &deployment{name: program, cluster: c}}
	args := []string{"upgrade", "--install", "--reset-then-reuse-values", program, "charts/" + chart}
	_, err := c.Helm(ctx, slices.Concat(args, HelmFlags(), f.Values(program), f.options.chartFlags(chart), flags)...)
	return err
}

// HelmFlags returns the flags that every installation here has.
func HelmFlags() []string {
	return []string{"--namespace", Namespace, "--create-namespace", "--wait", "--timeout", installation.String()}
}

// Values returns flags for helm for our images, and for shorter times than the defaults.
func (f *Fleet) Values(program string) []string {
	out := []string{
		"--set", "manager.image.repository=" + imagePrefix + program,
		"--set", "manager.image.tag=" + f.Tag,
		"--set", "manager.replicas=" + strconv.Itoa(replicas),
		"--set", "manager.log.level=1",
		"--set", "manager.extraArgs={" + strings.Join(QuickLeader(), ",") + "}",
		"--set", "manager.resources.requests.cpu=10m",
	}
	if program == "flotilla-member" {
		out = append(out, "--set", "daemon.image.repository="+imagePrefix+"flotilla-noded", "--set", "daemon.image.tag="+f.Tag)
	}
	return out
}

// joinByHelm joins a cluster with the member chart, using the command that the plugin prints. It leaves a joined cluster unchanged.
func (f *Fleet) joinByHelm(ctx context.Context, c *Cluster) error {
	joined, err := f.holdsCertificate(ctx)
	if err != nil || joined {
		return err
	}
	ticket, err := f.Ticket(ctx, c.Name)
	if err != nil {
		return err
	}
	if _, err := c.Shell(ctx, ticket.Command); err != nil {
		return err
	}
	return c.Manager.awaitReady(ctx)
}

// helmEnv puts helm's files into the cluster's folder, and points helm and kubectl at the cluster.
func (c *Cluster) helmEnv() []string {
	home := filepath.Join(c.Lab.Dir, "helm")
	return []string{
		"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home,
		"KUBECONFIG=" + c.Lab.Kubeconfig,
	}
}

// Helm runs helm against the cluster, in the repository's folder, and returns its output.
func (c *Cluster) Helm(ctx context.Context, args ...string) (string, error) {
	return c.command(ctx, c.Lab.Bin.Path("helm"), args...)
}

// Shell runs a command as the cluster's administrator would, with helm, kubectl and our plugin in the PATH.
func (c *Cluster) Shell(ctx context.Context, script string) (string, error) {
	return c.command(ctx, "sh", "-ec", script)
}

func (c *Cluster) command(ctx context.Context, program string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = c.root
	cmd.Env = append(cmd.Environ(), c.helmEnv()...)
	cmd.Env = append(cmd.Env, "PATH="+strings.Join([]string{filepath.Join(c.root, "bin"), c.Lab.Bin.Dir, getenv(cmd.Env, "PATH")}, ":"))
	var out, problem bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problem
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %s: %w: %s", c.Name, filepath.Base(program)+" "+abbreviate(args), err, problem.String())
	}
	return out.String(), nil
}

// abbreviate returns a command as shown in errors: the first line, without anything that may be a token.
func abbreviate(args []string) string {
	line, _, _ := strings.Cut(strings.Join(args, " "), "\n")
	before, _, _ := strings.Cut(line, "hub.token")
	return before
}

func getenv(env []string, name string) string {
	for _, v := range slices.Backward(env) {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return value
		}
	}
	return ""
}
