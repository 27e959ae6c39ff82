package cri

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"google.golang.org/grpc/status"
	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ErrNoImage means that the runtime doesn't have the image.
var ErrNoImage = errors.New("image not found")

// Sandbox describes the pod that an image is pulled for to the runtime. Both fields are optional.
type Sandbox struct {
	Labels, Annotations map[string]string
}

// First returns the first runtime that answers, in the order of the sockets; it is the one that pulls images. The error is ErrNoRuntime if none
// answers.
func (n *Runtimes) First() (*Runtime, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if all := n.all(); len(all) > 0 {
		return all[0], nil
	}
	return nil, cmp.Or(n.why, ErrNoRuntime) // If there is no reason, Close was called.
}

// Image returns the ID of an image in the runtime, by its reference. The error is ErrNoImage if there is none.
func (r *Runtime) Image(ctx context.Context, ref string) (id string, err error) {
	brief, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	a, err := r.images.ImageStatus(brief, &criv1.ImageStatusRequest{Image: &criv1.ImageSpec{Image: ref}})
	if err != nil {
		return "", fmt.Errorf("read image %s: %w", ref, imageReason(brief, err))
	}
	if a.GetImage().GetId() == "" {
		return "", fmt.Errorf("read image %s: %w", ref, ErrNoImage)
	}
	return a.GetImage().GetId(), nil
}

// Auth is a login at the registry of an image.
type Auth struct {
	Username, Password, IdentityToken, RegistryToken string
}

// Pull pulls an image and returns its ID. With a nil auth it uses the credentials configured in the runtime. It has no timeout apart from ctx;
// the runtime stops pulling when ctx ends, and the error is then context.Cause. It also ends, with an error, when Refresh finds that the runtime
// no longer answers.
func (r *Runtime) Pull(ctx context.Context, ref string, s Sandbox, auth *Auth) (id string, err error) {
	var login *criv1.AuthConfig
	if auth != nil {
		login = &criv1.AuthConfig{
			Username: auth.Username, Password: auth.Password, IdentityToken: auth.IdentityToken, RegistryToken: auth.RegistryToken,
		}
	}
	a, err := r.images.PullImage(ctx, &criv1.PullImageRequest{
		Image: &criv1.ImageSpec{Image: ref}, Auth: login,
		SandboxConfig: &criv1.PodSandboxConfig{
			Metadata: &criv1.PodSandboxMetadata{}, Labels: s.Labels, Annotations: s.Annotations,
		},
	})
	switch {
	case err != nil:
		return "", fmt.Errorf("pull image %s: %w", ref, imageReason(ctx, err))
	case a.GetImageRef() == "":
		return "", fmt.Errorf("pull image %s: the runtime did not return its ID", ref)
	}
	return a.GetImageRef(), nil
}

// imageReason returns err without the prefix that gRPC adds, or the cause if ctx has ended. In the response to a pull, NotFound refers to the
// registry.
func imageReason(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if s, ok := status.FromError(err); ok {
		return fmt.Errorf("%s: %s", s.Code(), s.Message())
	}
	return err
}
