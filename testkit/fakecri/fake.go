// Package fakecri is a container runtime that serves CRI on a socket. Containers have the environment and annotations that they were started with,
// a stop ends them, and a command in a stopped container is refused. An image exists once it has been pulled.
//
// A test acts as the kubelet with Run and reads Calls; the code under test uses the socket as if it were containerd's.
//
// It runs no processes and takes no time: a stop completes immediately, and so does a pull, unless Hang is set.
package fakecri

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
	"time"

	"github.com/stretchr/testify/require"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Container describes what a container was started with.
type Container struct {
	Name string
	// Pod is the UID of the container's pod, PodName its namespace/name.
	Pod     types.UID
	PodName string
	// Image is the image that the container was started from, Attempt how often it was restarted before, and Created the Unix time of its creation.
	Image   string
	Attempt uint32
	Created int64
	// Env has entries of the form NAME=value.
	Env []string
	// Hash is the kubelet's hash of the container's spec.
	Hash uint64
	// HideEnv omits the environment from the runtime's responses.
	HideEnv bool
	// EnvInConfig reports the environment in the request that created the container, instead of in its OCI spec.
	EnvInConfig bool
}

// Runtime is the runtime behind a socket.
type Runtime struct {
	criv1.UnimplementedRuntimeServiceServer
	criv1.UnimplementedImageServiceServer

	name   string
	server *grpc.Server

	mu         sync.Mutex
	version    string
	containers map[string]*fakeContainer
	images     map[string]string
	hang       bool
	login      string
	calls      []string
	failures   map[string]error
	hooks      map[string]func(id string)
	run        func(id string, command []string) (*criv1.ExecSyncResponse, error)
}

type fakeContainer struct {
	Container

	ended bool
}

// Start serves a runtime with a name on a socket until the test ends.
func Start(tb testing.TB, socket, name string) *Runtime {
	tb.Helper()
	var c net.ListenConfig
	l, err := c.Listen(tb.Context(), "unix", socket)
	require.NoError(tb, err)
	r := &Runtime{
		name: name, version: "v9", server: grpc.NewServer(grpc.WaitForHandlers(true)),
		containers: map[string]*fakeContainer{}, images: map[string]string{}, failures: map[string]error{}, hooks: map[string]func(string){},
	}
	criv1.RegisterRuntimeServiceServer(r.server, r)
	criv1.RegisterImageServiceServer(r.server, r)
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

// Stop ends all calls, waits until they have returned, and removes the runtime's socket.
func (r *Runtime) Stop() { r.server.Stop() }

// Upgrade changes the version of the runtime, behind the same socket.
func (r *Runtime) Upgrade(version string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.version = version
}

// End lets a container end on its own.
func (r *Runtime) End(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.containers[id].ended = true
}

// Run starts a container and returns its ID, prefixed with the runtime's name as kubelets report it.
func (r *Runtime) Run(c Container) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	id := fmt.Sprintf("%s-%d", c.Name, len(r.containers)+1)
	r.containers[id] = &fakeContainer{Container: c}
	return r.name + "://" + id
}

// Fail makes calls of a method fail with err from now on; nil makes them succeed again.
func (r *Runtime) Fail(verb string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failures[verb] = err
}

// On makes the runtime call do after each successful call of a method about a container, and when a pull begins.
func (r *Runtime) On(verb string, do func(id string)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hooks[verb] = do
}

// Calls returns the calls that change or run something, in order: "StopContainer app-1 30".
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

// ListContainers returns all containers, in the order of a map.
func (r *Runtime) ListContainers(context.Context, *criv1.ListContainersRequest) (*criv1.ListContainersResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failures["ListContainers"]; err != nil {
		return nil, err
	}
	out := &criv1.ListContainersResponse{}
	for id, c := range r.containers {
		namespace, pod, _ := strings.Cut(c.PodName, "/")
		container := &criv1.Container{
			Id: id, Metadata: &criv1.ContainerMetadata{Name: c.Name, Attempt: c.Attempt}, State: criv1.ContainerState_CONTAINER_RUNNING,
			Image: &criv1.ImageSpec{Image: "sha256:0", UserSpecifiedImage: c.Image}, CreatedAt: time.Unix(c.Created, 0).UnixNano(),
			Labels: map[string]string{
				"io.kubernetes.container.name": c.Name, "io.kubernetes.pod.uid": string(c.Pod), "io.kubernetes.pod.name": pod,
				"io.kubernetes.pod.namespace": namespace,
			},
		}
		if c.ended {
			container.State = criv1.ContainerState_CONTAINER_EXITED
		}
		out.Containers = append(out.Containers, container)
	}
	return out, nil
}

// record is the verbose record of a container.
func (c *fakeContainer) record() map[string]any {
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
	r.recordCall("StopContainer", q.GetContainerId(), strconv.FormatInt(q.GetTimeout(), 10), true)
	return &criv1.StopContainerResponse{}, nil
}

// Commands makes do answer for commands in containers, instead of the built-in behavior of ExecSync.
func (r *Runtime) Commands(do func(id string, command []string) (*criv1.ExecSyncResponse, error)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.run = do
}

// ExecSync runs nothing: "exit 3" ends with that code, "write 5" ends with 0 after writing 5 bytes, "hang" reports a timeout immediately, and
// anything else ends with 0. With Hang, "hang" lasts until the caller ends it; Calls then shows it as "ended".
func (r *Runtime) ExecSync(ctx context.Context, q *criv1.ExecSyncRequest) (*criv1.ExecSyncResponse, error) {
	c, err := r.find("ExecSync", q.GetContainerId())
	if err != nil {
		return nil, err
	}
	if c.ended {
		return nil, status.Error(codes.FailedPrecondition, "container is not running")
	}
	id, cmd := q.GetContainerId(), q.GetCmd()
	r.mu.Lock()
	run, hang := r.run, r.hang
	r.mu.Unlock()
	r.recordCall("ExecSync", id, strings.Join(cmd, " "), false)
	switch {
	case run != nil:
		return run(id, cmd)
	case len(cmd) == 1 && cmd[0] == "hang" && hang:
		<-ctx.Done()
		r.recordCall("ExecSync", id, "hang ended", false)
		return nil, status.FromContextError(ctx.Err()).Err()
	case len(cmd) == 1 && cmd[0] == "hang":
		return nil, status.Errorf(codes.DeadlineExceeded, "timeout %ds exceeded: context deadline exceeded", q.GetTimeout())
	}
	out := &criv1.ExecSyncResponse{}
	if len(cmd) == 2 && (cmd[0] == "exit" || cmd[0] == "write") {
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
	return out, nil
}

// find returns a copy of a container.
func (r *Runtime) find(verb, id string) (*fakeContainer, error) {
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

func (r *Runtime) recordCall(verb, id, what string, ended bool) {
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

// Hang makes pulls, and commands that hang, last until the caller ends them; false makes them complete immediately again.
func (r *Runtime) Hang(hang bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang = hang
}

// ImageStatus returns the image that was pulled by a reference; without one, it returns neither an image nor an error.
func (r *Runtime) ImageStatus(_ context.Context, q *criv1.ImageStatusRequest) (*criv1.ImageStatusResponse, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failures["ImageStatus"]; err != nil {
		return nil, err
	}
	id := r.images[q.GetImage().GetImage()]
	if id == "" {
		return &criv1.ImageStatusResponse{}, nil
	}
	return &criv1.ImageStatusResponse{Image: &criv1.Image{Id: id, RepoTags: []string{q.GetImage().GetImage()}}}, nil
}

// Require makes pulls fail without this user:password.
func (r *Runtime) Require(login string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.login = login
}

// PullImage pulls an image. Calls contains the reference followed by the labels and annotations of the sandbox. If the caller ends the pull,
// Calls shows it as "PullImage app:1 ended".
func (r *Runtime) PullImage(ctx context.Context, q *criv1.PullImageRequest) (*criv1.PullImageResponse, error) {
	ref := q.GetImage().GetImage()
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.failures["PullImage"]; err != nil {
		return nil, err
	}
	s := q.GetSandboxConfig()
	r.calls = append(r.calls, fmt.Sprintf("PullImage %s %v %v", ref, s.GetLabels(), s.GetAnnotations()))
	if hook := r.hooks["PullImage"]; hook != nil {
		r.mu.Unlock()
		hook(ref)
		r.mu.Lock()
	}
	if r.login != "" && q.GetAuth().GetUsername()+":"+q.GetAuth().GetPassword() != r.login {
		return nil, status.Error(codes.Unknown, "authorization failed")
	}
	if r.hang {
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		r.calls = append(r.calls, "PullImage "+ref+" ended")
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	r.images[ref] = fmt.Sprintf("sha256:%064x", len(r.images)+1)
	return &criv1.PullImageResponse{ImageRef: r.images[ref]}, nil
}
