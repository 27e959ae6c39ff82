package fleet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// replicas is the number of replicas of a manager in pods, as in the charts.
	replicas = 2
	// metricsPort is the port in the charts.
	metricsPort = "8080"
	// containerdPrefix is the prefix of a container ID in a pod's status.
	containerdPrefix = "containerd://"
)

// deployment is a manager that runs in pods of its cluster, as installed by its chart.
type deployment struct {
	name    string
	cluster *Cluster
}

// log returns a pattern for the files of the replicas on the nodes' disks.
func (d *deployment) log() string {
	return filepath.Join(d.cluster.Lab.Dir, "node", "*", "pod-logs", Namespace+"_"+d.name+"-*", "*", "*.log")
}

func (d *deployment) key() client.ObjectKey {
	return client.ObjectKey{Namespace: Namespace, Name: d.name}
}

func (d *deployment) scale(ctx context.Context, n int) error {
	o := &appsv1.Deployment{}
	o.Namespace, o.Name = Namespace, d.name
	err := d.cluster.Client.Patch(ctx, o, client.RawPatch(types.MergePatchType, fmt.Appendf(nil, `{"spec":{"replicas":%d}}`, n)))
	if err != nil {
		return fmt.Errorf("%s: scale %s to %d: %w", d.cluster.Name, d.name, n, err)
	}
	return nil
}

func (d *deployment) start(ctx context.Context) error { return d.scale(ctx, replicas) }

func (d *deployment) stop(ctx context.Context) error {
	if err := d.scale(ctx, 0); err != nil {
		return err
	}
	return Await(ctx, patience, func(ctx context.Context) (bool, string) {
		pods, err := d.pods(ctx)
		return err == nil && len(pods) == 0, fmt.Sprintf("%s: %d pods of %s are left (%v)", d.cluster.Name, len(pods), d.name, err)
	})
}

func (d *deployment) kill(ctx context.Context) error {
	pods, err := d.pods(ctx)
	if err != nil {
		return err
	}
	errs := make([]error, 0, len(pods))
	for i := range pods {
		errs = append(errs, d.cluster.KillContainers(ctx, &pods[i]))
	}
	return errors.Join(errs...)
}

func (d *deployment) ready(ctx context.Context) (string, error) {
	o := &appsv1.Deployment{}
	if err := d.cluster.Client.Get(ctx, d.key(), o); err != nil {
		return err.Error(), nil //nolint:nilerr // The apiserver may be away for a moment.
	}
	s := o.Status
	if s.ObservedGeneration >= o.Generation && s.Replicas == *o.Spec.Replicas && s.UpdatedReplicas == s.Replicas && s.AvailableReplicas == s.Replicas {
		return "", nil
	}
	return fmt.Sprintf("%s has %d replicas, %d updated, %d available, not %d", d.name, s.Replicas, s.UpdatedReplicas, s.AvailableReplicas,
		*o.Spec.Replicas), nil
}

func (d *deployment) pods(ctx context.Context) ([]corev1.Pod, error) {
	list := &corev1.PodList{}
	if err := d.cluster.Client.List(ctx, list, client.InNamespace(Namespace), client.MatchingLabels{"app.kubernetes.io/name": d.name}); err != nil {
		return nil, fmt.Errorf("%s: list pods of %s: %w", d.cluster.Name, d.name, err)
	}
	return list.Items, nil
}

func (d *deployment) metrics(ctx context.Context) (string, error) {
	pod, err := d.leader(ctx)
	if err != nil {
		return "", err
	}
	return "http://" + net.JoinHostPort(pod.Status.PodIP, metricsPort) + "/metrics", nil
}

// leader returns the pod that holds the Lease.
func (d *deployment) leader(ctx context.Context) (*corev1.Pod, error) {
	lease := &coordinationv1.Lease{}
	if err := d.cluster.Client.Get(ctx, d.key(), lease); err != nil {
		return nil, fmt.Errorf("%s: get Lease %s: %w", d.cluster.Name, d.name, err)
	}
	holder := ""
	if lease.Spec.HolderIdentity != nil {
		holder, _, _ = strings.Cut(*lease.Spec.HolderIdentity, "_")
	}
	pods, err := d.pods(ctx)
	if err != nil {
		return nil, err
	}
	for i := range pods {
		if pods[i].Name == holder {
			return &pods[i], nil
		}
	}
	return nil, fmt.Errorf("%s: no pod of %s leads: the Lease is of %q", d.cluster.Name, d.name, holder)
}

// Pods returns the replicas of a manager that runs in pods.
func (m *Manager) Pods(ctx context.Context) ([]corev1.Pod, error) {
	d, ok := m.runner.(*deployment)
	if !ok {
		return nil, errors.New("the manager is a process")
	}
	return d.pods(ctx)
}

// Leader returns the replica that reconciles, for a manager that runs in pods.
func (m *Manager) Leader(ctx context.Context) (*corev1.Pod, error) {
	d, ok := m.runner.(*deployment)
	if !ok {
		return nil, errors.New("the manager is a process")
	}
	return d.leader(ctx)
}

// Ready returns what is missing for the manager to be ready, or "".
func (m *Manager) Ready(ctx context.Context) (string, error) { return m.runner.ready(ctx) }

// KillContainers kills the running containers of a pod on a real node, as the kernel does when it runs out of memory.
func (c *Cluster) KillContainers(ctx context.Context, pod *corev1.Pod) error {
	var errs []error
	for i := range pod.Status.ContainerStatuses {
		s := &pod.Status.ContainerStatuses[i]
		if s.State.Running == nil {
			continue
		}
		_, err := c.Lab.NodeExec(ctx, pod.Spec.NodeName, nil, "ctr", "-n", "k8s.io", "task", "kill", "--signal", "SIGKILL",
			strings.TrimPrefix(s.ContainerID, containerdPrefix))
		if err != nil && !strings.Contains(err.Error(), "not found") { // The container exited by itself.
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}
