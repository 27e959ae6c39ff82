package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// errReal is the prefix of errors from RealNodes.
var errReal = errors.New("real nodes cannot run here")

// nodeNamespaces are the namespaces that a node has to itself. Its cgroup namespace is created later, once the node is in its groups.
const nodeNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// RealNodes returns an error that says in one line why nodes with kubelets can't run on this machine, or nil if they can. The working
// directory must be in the repository, as for Binaries.
func RealNodes(ctx context.Context) error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: they need root", errReal)
	}
	for _, program := range []string{"ip", "iptables", "nsenter"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: there is no %s (Debian: apt install iproute2 iptables util-linux)", errReal, program)
		}
	}
	if err := namespaces(ctx); err != nil {
		return fmt.Errorf("%w: no namespaces: %w (in a container, it has to be a privileged one)", errReal, err)
	}
	for _, check := range []func(context.Context) error{kernel, controlGroups, disk, canBuildNodes} {
		if err := check(ctx); err != nil {
			return fmt.Errorf("%w: %w", errReal, err)
		}
	}
	return nil
}

// RequireReal skips a test if nodes with kubelets can't run, and says why. In CI ($CI is "true") it fails the test instead.
func RequireReal(tb testing.TB) {
	tb.Helper()
	err := RealNodes(tb.Context())
	if err == nil {
		return
	}
	if os.Getenv("CI") == "true" {
		tb.Fatalf("CI needs them, but %v", err)
	}
	tb.Skip(err)
}

// namespaces checks whether a process can have its own namespaces.
func namespaces(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: nodeNamespaces | syscall.CLONE_NEWCGROUP}
	return cmd.Run()
}

// disk checks the default folder of clusters.
func disk(context.Context) error {
	root, err := stateRoot()
	if err != nil {
		return err
	}
	return checkNodeFolder(root)
}

// checkNodeFolder returns an error that says in one line why a folder, which need not exist yet, can't hold the disks of nodes.
func checkNodeFolder(dir string) error {
	for !exists(dir) && dir != filepath.Dir(dir) {
		dir = filepath.Dir(dir)
	}
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return fmt.Errorf("find the file system of %s: %w", dir, err)
	}
	if st.Type == unix.OVERLAYFS_SUPER_MAGIC {
		return fmt.Errorf("%s is on an overlay, as a container's own files are, which cannot hold another: "+
			"set %s (for tests, TMPDIR) to a folder that is not", dir, stateEnv)
	}
	return nil
}

// kernel checks, and loads if possible, what nodes need from the kernel.
func kernel(ctx context.Context) error {
	if !exists("/proc/sys/net/bridge/bridge-nf-call-iptables") {
		// Without it, a Service that leads back to the same node is not translated.
		if err := modprobe(ctx, "br_netfilter"); err != nil {
			return err
		}
	}
	systems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	if !strings.Contains(string(systems), "\toverlay\n") {
		return modprobe(ctx, "overlay")
	}
	return nil
}

func modprobe(ctx context.Context, module string) error {
	out, err := exec.CommandContext(ctx, "modprobe", module).CombinedOutput()
	if err != nil {
		return fmt.Errorf("the kernel has no %s, and modprobe cannot load it: %w %s", module, err, bytes.TrimSpace(out))
	}
	return nil
}

func controlGroups(context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	return missingControllers(all)
}
