package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// errReal begins what RealNodes returns.
var errReal = errors.New("real nodes cannot run here")

// nodeNamespaces are those that a node has for itself. Its control groups get
// theirs later, when it is in them.
const nodeNamespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC

// RealNodes says in one line why nodes with kubelets cannot run on this
// machine; nil means that they can. The working directory must be in the
// repository, as for Binaries.
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
		return fmt.Errorf("%w: no namespaces: %w", errReal, err)
	}
	for _, check := range []func(context.Context) error{kernel, controlGroups, canBuildNodes} {
		if err := check(ctx); err != nil {
			return fmt.Errorf("%w: %w", errReal, err)
		}
	}
	return nil
}

// RequireReal skips a test where nodes with kubelets cannot run, and says why.
// In CI ($CI is "true") it fails the test instead.
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

// namespaces tries whether a process may have its own.
func namespaces(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "true")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: nodeNamespaces | syscall.CLONE_NEWCGROUP}
	return cmd.Run()
}

// kernel checks, and loads if it can, what nodes take from the kernel.
func kernel(ctx context.Context) error {
	if !exists("/proc/sys/net/bridge/bridge-nf-call-iptables") {
		// Without it, a Service that leads back to the same node is not translated.
		if out, err := exec.CommandContext(ctx, "modprobe", "br_netfilter").CombinedOutput(); err != nil {
			return fmt.Errorf("the kernel has no br_netfilter: %s", strings.TrimSpace(string(out)))
		}
	}
	systems, err := os.ReadFile("/proc/filesystems")
	if err != nil {
		return err
	}
	if !strings.Contains(string(systems), "\toverlay\n") {
		if out, err := exec.CommandContext(ctx, "modprobe", "overlay").CombinedOutput(); err != nil {
			return fmt.Errorf("the kernel has no overlay file system: %s", strings.TrimSpace(string(out)))
		}
	}
	return nil
}

func controlGroups(context.Context) error {
	all, err := hierarchies()
	if err != nil {
		return err
	}
	var have []string
	for _, h := range all {
		have = append(have, strings.Split(h.options, ",")...)
	}
	if unified(all) {
		data, err := os.ReadFile(cgroupRoot + "/cgroup.controllers")
		if err != nil {
			return err
		}
		have = strings.Fields(string(data))
	}
	for _, need := range []string{"cpu", "cpuset", "memory", "pids"} {
		if !slices.Contains(have, need) {
			return fmt.Errorf("control groups have no %s", need)
		}
	}
	return nil
}
