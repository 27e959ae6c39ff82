package cri

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/types"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

var (
	// ErrNotFound means that the runtime doesn't have the container.
	ErrNotFound = errors.New("container not found")
	// ErrTimeout means that a command did not end in time, and the runtime has killed it.
	ErrTimeout = errors.New("the command did not end in time")
	// ErrOutput means that a command wrote more than is read.
	ErrOutput = errors.New("the command wrote more than 1 MiB")
)

const (
	// answerTime is the timeout of calls that don't have to wait for anything.
	answerTime = 10 * time.Second
	// stopTime is the timeout of a stop in addition to its grace period, as in kubelets.
	stopTime = 2 * time.Minute
	// maxMessage is the largest accepted response, in bytes. The record of a container contains its whole environment.
	maxMessage = 16 << 20
	// maxOutput is the largest accepted response for a command, in bytes; it includes the command's output.
	maxOutput = 1 << 20
)

// Annotations and labels that kubelets set on a container, as in Kubernetes 1.36: the hash of the spec that it was started from, its name in the
// pod, and the pod's UID.
const (
	hashKey = "io.kubernetes.container.hash"
	nameKey = "io.kubernetes.container.name"
	podKey  = "io.kubernetes.pod.uid"
)

// Runtime is one container runtime. It may be used concurrently.
type Runtime struct {
	// Name is what the kubelet puts before "://" in container IDs, such as containerd; Version is the runtime's version.
	Name, Version string

	conn   *grpc.ClientConn
	api    criv1.RuntimeServiceClient
	images criv1.ImageServiceClient
}

// Container is a runtime's information about a container.
type Container struct {
	// Name is the container's name in its pod, and PodUID the UID of that pod; empty if no kubelet created it.
	Name   string
	PodUID types.UID
	// Running: it was running at the time of the call.
	Running bool
	// Hash is the kubelet's hash of the spec that the container was started from; 0 if unknown.
	Hash uint64
	// Env are the requested variables that the container was started with; nil if the runtime doesn't report them.
	Env map[string]string
}

// dial connects to the runtime behind a socket and reads its name. The caller has to close it.
func dial(ctx context.Context, socket string) (*Runtime, error) {
	conn, err := grpc.NewClient("unix://"+socket,
		grpc.WithTransportCredentials(insecure.NewCredentials()), // protected by file permissions
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(maxMessage)),
		grpc.WithUnaryInterceptor(measured))
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", socket, err)
	}
	r := &Runtime{conn: conn, api: criv1.NewRuntimeServiceClient(conn), images: criv1.NewImageServiceClient(conn)}
	if r.Name, r.Version, err = r.queryVersion(ctx); err != nil {
		_ = r.conn.Close()
		return nil, err
	}
	return r, nil
}

// queryVersion reads name and version, and thereby checks that the runtime answers.
func (r *Runtime) queryVersion(ctx context.Context) (name, version string, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	v, err := r.api.Version(ctx, &criv1.VersionRequest{})
	if err != nil {
		return "", "", fmt.Errorf("ask the runtime's version: %w", reason(err))
	}
	return v.GetRuntimeName(), v.GetRuntimeVersion(), nil
}

// Container returns information about a container, by its ID without prefix, including the named variables from its environment. The error is
// ErrNotFound if there is none.
func (r *Runtime) Container(ctx context.Context, id string, names []string) (Container, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	a, err := r.api.ContainerStatus(ctx, &criv1.ContainerStatusRequest{ContainerId: id, Verbose: len(names) > 0})
	if err != nil {
		return Container{}, fmt.Errorf("read container %s: %w", id, reason(err))
	}
	out := Container{
		Name: a.GetStatus().GetLabels()[nameKey], PodUID: types.UID(a.GetStatus().GetLabels()[podKey]),
		Running: a.GetStatus().GetState() == criv1.ContainerState_CONTAINER_RUNNING,
	}
	if h, err := strconv.ParseUint(a.GetStatus().GetAnnotations()[hashKey], 16, 64); err == nil {
		out.Hash = h
	}
	if len(names) > 0 {
		out.Env = env(a.GetInfo()["info"], names)
	}
	return out, nil
}

// env reads variables from the verbose record of a container: from its OCI spec, which its process was started with, or from the request that
// created it. containerd 1.7 and 2 and CRI-O 1.3x have the OCI spec.
func env(record string, names []string) map[string]string {
	var info struct {
		RuntimeSpec struct {
			Process struct {
				Env []string `json:"env"`
			} `json:"process"`
		} `json:"runtimeSpec"`
		Config struct {
			Envs []struct {
				Key   string `json:"key"`
				Value string `json:"value"`
			} `json:"envs"`
		} `json:"config"`
	}
	if json.Unmarshal([]byte(record), &info) != nil {
		return nil
	}
	started := info.RuntimeSpec.Process.Env
	if started == nil {
		for _, e := range info.Config.Envs {
			started = append(started, e.Key+"="+e.Value)
		}
	}
	if started == nil {
		return nil
	}
	wanted := make(map[string]bool, len(names))
	for _, n := range names {
		wanted[n] = true
	}
	out := map[string]string{}
	for _, e := range started {
		if name, value, _ := strings.Cut(e, "="); wanted[name] {
			out[name] = value // The last one wins.
		}
	}
	return out
}

// Stop stops a container: it is killed after grace, in whole seconds. It is not an error if the container has already stopped or is gone.
func (r *Runtime) Stop(ctx context.Context, id string, grace time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, grace+stopTime)
	defer cancel()
	_, err := r.api.StopContainer(ctx, &criv1.StopContainerRequest{ContainerId: id, Timeout: int64(grace / time.Second)})
	if err = reason(err); err != nil && !errors.Is(err, ErrNotFound) {
		return fmt.Errorf("stop container %s: %w", id, err)
	}
	return nil
}

// Output is how a command in a container ended.
type Output struct {
	Code int32
	// Text is what the command wrote to standard output, followed by what it wrote to standard error.
	Text []byte
}

// Exec runs a command in a container for at most limit. If the command exits with a code other than 0, the error contains the code, but not the
// command's output. If the output exceeds 1 MiB, the code is unknown.
func (r *Runtime) Exec(ctx context.Context, id string, command []string, limit time.Duration) error {
	switch out, err := r.Run(ctx, id, command, limit); {
	case err != nil:
		return err
	case out.Code != 0:
		return fmt.Errorf("run a command in container %s: it ended with code %d", id, out.Code)
	}
	return nil
}

// Run runs a command in a container for at most limit, in whole seconds, and returns how it ended, whatever its exit code. The error is
// ErrTimeout if the command had to be killed, and ErrOutput if it wrote too much. Any other error means that it wasn't run, or that the runtime
// doesn't answer. The runtime also kills the command when ctx ends.
func (r *Runtime) Run(ctx context.Context, id string, command []string, limit time.Duration) (Output, error) {
	ctx, cancel := context.WithTimeout(ctx, limit+answerTime)
	defer cancel()
	// 0 would mean no limit.
	a, err := r.api.ExecSync(ctx, &criv1.ExecSyncRequest{
		ContainerId: id, Cmd: command, Timeout: max(1, int64(limit/time.Second)),
	}, grpc.MaxCallRecvMsgSize(maxOutput))
	if err == nil {
		return Output{Code: a.GetExitCode(), Text: append(a.GetStdout(), a.GetStderr()...)}, nil
	}
	why := reason(err)
	switch code := status.Code(err); {
	case ctx.Err() != nil: // The runtime enforces the limit; this is for when it doesn't.
	case code == codes.DeadlineExceeded:
		why = ErrTimeout
	case code == codes.ResourceExhausted:
		why = fmt.Errorf("%w: %w", ErrOutput, why)
	}
	return Output{}, fmt.Errorf("run a command in container %s: %w", id, why)
}

// reason returns err without the prefix that gRPC adds.
func reason(err error) error {
	switch s, ok := status.FromError(err); {
	case err == nil:
		return nil
	case ok && s.Code() == codes.NotFound:
		return ErrNotFound
	case ok:
		return fmt.Errorf("%s: %s", s.Code(), s.Message())
	default:
		return err
	}
}
