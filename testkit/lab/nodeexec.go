package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"sync"
)

// NodeExec runs a program in a node, as root and with the node's own processes, files and addresses, and returns what it writes to stdout.
// stdin may be nil. The lab's programs, most notably ctr, are in the PATH.
func (c *Cluster) NodeExec(ctx context.Context, node string, stdin io.Reader, args ...string) ([]byte, error) {
	if _, err := c.realNode(node); err != nil {
		return nil, err
	}
	p, err := FindProcess(c.Dir, node)
	if err != nil || !p.Alive() {
		return nil, fmt.Errorf("cluster %s: %s does not run", c.Name, node)
	}
	cmd := exec.CommandContext(ctx, "nsenter", append([]string{
		"--target=" + strconv.Itoa(p.PID), "--mount", "--uts", "--ipc", "--net", "--pid", "--cgroup", "--",
	}, args...)...)
	cmd.Env = append(os.Environ(), "PATH="+c.nodeBin.Dir+":"+c.Bin.Dir+":"+nodeBootPath)
	cmd.Stdin = stdin
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		return out.Bytes(), fmt.Errorf("cluster %s: run %q in %s: %w: %s", c.Name, args, node, err, bytes.TrimSpace(errOut.Bytes()))
	}
	return out.Bytes(), nil
}

// LoadImages imports images into all real nodes, from archives as written by "docker save" or OCI layouts in a tar file. The error says which
// nodes don't run.
func (c *Cluster) LoadImages(ctx context.Context, archives ...string) error {
	nodes := c.RealNodes()
	if len(nodes) == 0 {
		return fmt.Errorf("cluster %s has no real nodes to load images to", c.Name)
	}
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, node := range nodes {
		wg.Go(func() {
			for _, a := range archives {
				errs[i] = errors.Join(errs[i], c.loadImage(ctx, node, a))
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

func (c *Cluster) loadImage(ctx context.Context, node, archive string) error {
	f, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("load image: %w", err)
	}
	defer func() { _ = f.Close() }()
	_, err = c.NodeExec(ctx, node, f, "ctr", "-n", "k8s.io", "images", "import", "-")
	return err
}
