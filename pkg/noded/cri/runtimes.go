package cri

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
)

// ErrNoRuntime means that no runtime on the node answers.
var ErrNoRuntime = errors.New("no container runtime")

// sockets returns the paths of the runtimes' sockets below /run, in the order in which they are tried.
func sockets() []string {
	return []string{
		"containerd.sock", "containerd/containerd.sock",
		"crio.sock", "crio/crio.sock",
		"cri-dockerd.sock", "cri-dockerd/cri-dockerd.sock",
	}
}

// Runtimes are the container runtimes of a node. They may be used concurrently. Use New to create them.
type Runtimes struct {
	dir   string
	files []string

	// refreshing lets only one Refresh at a time call the runtimes; mu guards the result.
	refreshing sync.Mutex
	mu         sync.Mutex
	open       map[string]*Runtime
	why        error
}

// New returns the runtimes that have a socket in dir. file is the socket's path below dir; empty tries all known paths. No runtime is known
// before Refresh.
func New(dir, file string) *Runtimes {
	files := sockets()
	if file != "" {
		files = []string{file}
	}
	return &Runtimes{
		dir: dir, files: files, open: map[string]*Runtime{},
		why: fmt.Errorf("%w: not checked yet", ErrNoRuntime),
	}
}

// Refresh connects to new runtimes, and drops those that no longer answer. It returns Err.
func (n *Runtimes) Refresh(ctx context.Context) error {
	n.refreshing.Lock()
	defer n.refreshing.Unlock()
	var faults []string
	for _, file := range n.files {
		socket := filepath.Join(n.dir, file)
		switch info, err := os.Stat(socket); {
		case errors.Is(err, fs.ErrNotExist):
			n.set(socket, nil)
			continue
		case err != nil:
			n.set(socket, nil)
			faults = append(faults, err.Error())
			continue
		case info.Mode()&fs.ModeSocket == 0:
			n.set(socket, nil)
			faults = append(faults, socket+" is not a socket")
			continue
		}
		known, err := current(ctx, socket, n.get(socket))
		if err != nil {
			faults = append(faults, socket+": "+err.Error())
		}
		n.set(socket, known)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.why = nil
	switch {
	case len(n.open) > 0:
	case len(faults) > 0:
		n.why = fmt.Errorf("%w: %s", ErrNoRuntime, strings.Join(faults, "; "))
	default:
		n.why = fmt.Errorf("%w: %s has none of %s", ErrNoRuntime, n.dir, strings.Join(n.files, ", "))
	}
	return n.why
}

// current returns the runtime that answers behind a socket: the known one, unless there is none, or another program or version has replaced it.
// It returns nil and an error if none answers.
func current(ctx context.Context, socket string, known *Runtime) (*Runtime, error) {
	if known != nil {
		name, version, err := known.queryVersion(ctx)
		if err != nil {
			return nil, err
		}
		if name == known.Name && version == known.Version {
			return known, nil
		}
	}
	return dial(ctx, socket)
}

// Err returns why no runtime is known: ErrNoRuntime with the sockets that were tried; nil if one is known.
func (n *Runtimes) Err() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.why
}

// Names returns the runtimes that answered last, with their versions, in the order of their sockets.
func (n *Runtimes) Names() []string {
	var out []string //nolint:prealloc // There is one, or none, which is nil.
	for _, r := range n.All() {
		out = append(out, r.Name+" "+r.Version)
	}
	return out
}

// Of returns the runtime that runs a container, and the container's ID in it, given the ID that the kubelet reports. The error is ErrNoRuntime
// if no runtime with that name answers.
func (n *Runtimes) Of(containerID string) (*Runtime, string, error) {
	name, id, ok := strings.Cut(containerID, "://")
	if !ok {
		return nil, "", fmt.Errorf("container ID %q names no runtime", containerID)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.why != nil {
		return nil, "", n.why
	}
	for _, file := range n.files {
		if r := n.open[filepath.Join(n.dir, file)]; r != nil && r.Name == name {
			return r, id, nil
		}
	}
	return nil, "", fmt.Errorf("%w: no runtime is named %s", ErrNoRuntime, name)
}

// Close closes all connections.
func (n *Runtimes) Close() {
	n.refreshing.Lock()
	defer n.refreshing.Unlock()
	for _, file := range n.files {
		n.set(filepath.Join(n.dir, file), nil)
	}
}

func (n *Runtimes) get(socket string) *Runtime {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.open[socket]
}

// set stores the runtime of a socket, and closes the previous one if it is a different one.
func (n *Runtimes) set(socket string, r *Runtime) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if old := n.open[socket]; old != nil && old != r {
		_ = old.conn.Close()
	}
	if r == nil {
		delete(n.open, socket)
		return
	}
	n.open[socket] = r
}
