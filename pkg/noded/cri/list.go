package cri

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	criv1 "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Labels and annotations that kubelets set on a container in addition to those in runtime.go, as in Kubernetes 1.36.
const (
	podNameKey   = "io.kubernetes.pod.name"
	namespaceKey = "io.kubernetes.pod.namespace"
)

// Listed is a container in a runtime's list.
type Listed struct {
	// Namespace and Pod name the container's pod, Name is the container's name; empty if no kubelet created it.
	Namespace, Pod, Name string
	// ID is the container's ID in the runtime, and Image the reference that it was created with.
	ID, Image string
	// State is created, running, exited or unknown.
	State string
	// Attempt is how many containers with this name its pod had before.
	Attempt uint32
	Created time.Time
}

// List returns all containers of a runtime, including those that have ended, sorted by namespace, pod, name and attempt.
func (r *Runtime) List(ctx context.Context) ([]Listed, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTime)
	defer cancel()
	a, err := r.api.ListContainers(ctx, &criv1.ListContainersRequest{})
	if err != nil {
		return nil, fmt.Errorf("list containers: %w", reason(err))
	}
	out := make([]Listed, 0, len(a.GetContainers()))
	for _, c := range a.GetContainers() {
		labels := c.GetLabels()
		image := c.GetImage()
		out = append(out, Listed{
			Namespace: labels[namespaceKey], Pod: labels[podNameKey], Name: labels[nameKey], ID: c.GetId(),
			Image:   cmp.Or(image.GetUserSpecifiedImage(), image.GetImage()),
			State:   strings.ToLower(strings.TrimPrefix(c.GetState().String(), "CONTAINER_")),
			Attempt: c.GetMetadata().GetAttempt(), Created: time.Unix(0, c.GetCreatedAt()).UTC(),
		})
	}
	slices.SortFunc(out, func(a, b Listed) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Attempt, b.Attempt))
	})
	return out, nil
}

// All returns the runtimes that answered last, in the order of their sockets.
func (n *Runtimes) All() []*Runtime {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all()
}

// all is All for callers that hold mu.
func (n *Runtimes) all() []*Runtime {
	var out []*Runtime
	for _, file := range n.files {
		if r := n.open[filepath.Join(n.dir, file)]; r != nil {
			out = append(out, r)
		}
	}
	return out
}
