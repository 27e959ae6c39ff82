// Package fake is a container runtime that serves CRI on a socket: containers have the environment and the annotations that they
// were started with, a stop ends them, a command in a stopped one is refused.
//
// A test acts as the kubelet with Run and reads Calls; the code under test uses the socket like that of containerd.
//
// It runs no processes and takes no time: a stop is done at once.
package fake

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Container is what a container was started with.
type Container struct {
	Name string
	// Pod is the UID of its pod.
	Pod types.UID
	// Env are NAME=value.
	Env []string
	// Hash is the kubelet's hash of its spec.
	Hash uint64
	// HideEnv omits the environment from the runtime's answers.
	HideEnv bool
	// EnvInConfig reports the environment in the request that created the container, instead of in its OCI spec.
	EnvInConfig bool
}

// Runtime is the runtime behind a socket.
type Runtime struct {
	criv1.UnimplementedRuntimeServiceServer

	name   string
	server *grpc.Server

	mu         sync.Mutex
	version    string
	containers map[string]*held
	calls      []string
	failures   map[string]error
	hooks      map[string]func(id string)
}

type held struct {
	Container

	ended bool
}

// Start serves a runtime of a name on a socket until the test ends.
func Start(tb testing.TB, socket, name string) *Runtime {
	tb.Helper()
	var c net.ListenConfig
	l, err := c.Listen(tb.Context(), "unix", socket)
	require.NoError(tb, err)
	r := &Runtime{
		name: name, version: "v9", server: grpc.NewServer(),
		containers: map[string]*held{}, failures: map[string]error{}, hooks: map[string]func(string){},
	}
	criv1.RegisterRuntimeServiceServer(r.server, r)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = r.server.Serve(l)
	}()
	tb.Cleanup(func() {
		r.Stop()
		<-done
	})
	return r
}

// Stop stops the runtime and removes its socket.
func (r *Runtime) Stop() { r.server.Stop() }

// Upgrade changes the version of the runtime, behind the same socket.
func (r *Runtime) Upgrade(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = version
}

// End ends a container by itself.
func (r *Runtime) End(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id].ended = true
}

// Run starts a container and returns its ID, with the runtime's name before it as kubelets report it.
func (r *Runtime) Run(c Container) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := fmt.Sprintf("%s-%d", c.Name, len(r.containers)+1)
	r.containers[id] = &held{Container: c}
	return r.name + "://" + id
}

// Fail makes calls of a method fail with err from now on, nil to succeed again.
func (r *Runtime) Fail(verb string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures[verb] = err
}

// On calls do after each successful call of a method about a container.
func (r *Runtime) On(verb string, do func(id string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[verb] = do
}

// Calls are the calls that change or run something, in order: "StopContainer app-1 30".
func (r *Runtime) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Version returns the runtime's name.
func (r *Runtime) Version(context.Context, *criv1.VersionRequest) (*criv1.VersionResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failures["Version"]; err != nil {
		return nil, err
	}
	return &criv1.VersionResponse{Version: "0.1.0", RuntimeName: r.name, RuntimeVersion: r.version, RuntimeApiVersion: "v1"}, nil
}

// ContainerStatus returns a container's status, as containerd does.
func (r *Runtime) ContainerStatus(_ context.Context, q *criv1.ContainerStatusRequest) (*criv1.ContainerStatusResponse, error) {
	c, err := r.find("ContainerStatus", q.GetContainerId())
	if err != nil {
		return nil, err
	}
	out := &criv1.ContainerStatusResponse{Status: &criv1.ContainerStatus{
		Id: q.GetContainerId(), Metadata: &criv1.ContainerMetadata{Name: c.Name},
		State:       criv1.ContainerState_CONTAINER_RUNNING,
		Labels:      map[string]string{"io.kubernetes.container.name": c.Name, "io.kubernetes.pod.uid": string(c.Pod)},
		Annotations: map[string]string{"io.kubernetes.container.hash": strconv.FormatUint(c.Hash, 16)},
	}}
	if c.ended {
		out.Status.State = criv1.ContainerState_CONTAINER_EXITED
	}
	if q.GetVerbose() && !c.HideEnv {
		raw, err := json.Marshal(c.record())
		if err != nil {
			return nil, err
		}
		out.Info = map[string]string{"info": string(raw)}
	}
	return out, nil
}

// record is the verbose record of a container.
func (c *held) record() map[string]any {
	if !c.EnvInConfig {
		return map[string]any{"pid": 1, "runtimeSpec": map[string]any{"process": map[string]any{"env": c.Env}}}
	}
	var envs []map[string]string
	for _, e := range c.Env {
		k, v, _ := strings.Cut(e, "=")
		envs = append(envs, map[string]string{"key": k, "value": v})
	}
	return map[string]any{"config": map[string]any{"envs": envs}}
}

// StopContainer stops a container at once.
func (r *Runtime) StopContainer(_ context.Context, q *criv1.StopContainerRequest) (*criv1.StopContainerResponse, error) {
	if _, err := r.find("StopContainer", q.GetContainerId()); err != nil {
		return nil, err
	}
	r.done("StopContainer", q.GetContainerId(), strconv.FormatInt(q.GetTimeout(), 10), true)
	return &criv1.StopContainerResponse{}, nil
}

// ExecSync runs nothing: "exit 3" ends with that code, "write 5" ends with 0 after writing 5 bytes, anything else with 0.
func (r *Runtime) ExecSync(_ context.Context, q *criv1.ExecSyncRequest) (*criv1.ExecSyncResponse, error) {
	c, err := r.find("ExecSync", q.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.ended {
		return nil, status.Error(codes.FailedPrecondition, "container is not running")
	}
	out := &criv1.ExecSyncResponse{}
	if cmd := q.GetCmd(); len(cmd) == 2 && (cmd[0] == "exit" || cmd[0] == "write") {
		n, err := strconv.ParseInt(cmd[1], 10, 32)
		if err != nil {
			return nil, status.Error(codes.InvalidArgument, err.Error())
		}
		if cmd[0] == "exit" {
			out.ExitCode = int32(n)
		} else {
			out.Stdout = make([]byte, n)
		}
	}
	r.done("ExecSync", q.GetContainerId(), strings.Join(q.GetCmd(), " "), false)
	return out, nil
}

// find returns a copy of a container.
func (r *Runtime) find(verb, id string) (*held, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failures[verb]; err != nil {
		return nil, err
	}
	c := r.containers[id]
	if c == nil {
		return nil, status.Errorf(codes.NotFound, "no container %s", id)
	}
	return new(*c), nil
}

func (r *Runtime) done(verb, id, what string, ended bool) {
	r.mu.Lock()
	c := r.containers[id]
	c.ended = c.ended || ended
	r.calls = append(r.calls, verb+" "+id+" "+what)
	hook := r.hooks[verb]
	r.mu.Unlock()
	if hook != nil {
		hook(id)
	}
}
