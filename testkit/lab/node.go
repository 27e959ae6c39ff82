package lab

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// simulatedLabel marks the nodes that kwok simulates.
	simulatedLabel = "lab.flotilla.io/simulated"
	nodePrefix     = "kwok-"
)

// AddNodes adds n simulated nodes and waits until they are Ready. They are named kwok-1, kwok-2 ... and are spread over the cluster's zones
// round robin. They have 32 CPUs, 256 GiB and room for 110 pods each, and no taints.
func (c *Cluster) AddNodes(ctx context.Context, n int) error {
	if c.config.ControlPlaneOnly {
		return fmt.Errorf("cluster %s: a control plane only has no nodes", c.Name)
	}
	unlock, err := lockState(ctx, c.Dir)
	if err != nil {
		return err
	}
	defer unlock()
	have, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	last := 0
	for i := range have {
		// A test may have created its own nodes. Their names don't count.
		number, _ := strings.CutPrefix(have[i].Name, nodePrefix)
		if k, err := strconv.Atoi(number); err == nil {
			last = max(last, k)
		}
	}
	return c.ensureNodes(ctx, last+n)
}

// ensureNodes creates the missing ones of kwok-1 to kwok-n, and waits until all nodes of the cluster are Ready.
func (c *Cluster) ensureNodes(ctx context.Context, n int) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	have, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for i := range have {
		names[have[i].Name] = true
	}
	for i := 1; i <= n; i++ {
		node := c.node(i)
		if names[node.Name] {
			continue
		}
		_, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("cluster %s: create node %s: %w", c.Name, node.Name, err)
		}
	}
	return c.await(ctx, c.components(), "the nodes to be Ready", func(ctx context.Context) (bool, error) {
		nodes, err := c.nodes(ctx)
		if err != nil {
			return false, nil //nolint:nilerr // not yet
		}
		ready := 0
		for i := range nodes {
			if nodeReady(&nodes[i]) {
				ready++
			}
		}
		return ready == len(nodes) && ready >= n, nil
	})
}

func (c *Cluster) nodes(ctx context.Context) ([]corev1.Node, error) {
	client, err := c.client()
	if err != nil {
		return nil, err
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{LabelSelector: simulatedLabel + "=true"})
	if err != nil {
		return nil, fmt.Errorf("cluster %s: list nodes: %w", c.Name, err)
	}
	return list.Items, nil
}

// node returns the i-th simulated node, counted from 1.
func (c *Cluster) node(i int) *corev1.Node {
	name := nodePrefix + strconv.Itoa(i)
	room := corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("32"),
		corev1.ResourceMemory: resource.MustParse("256Gi"),
		corev1.ResourcePods:   resource.MustParse("110"),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			simulatedLabel:           "true",
			corev1.LabelHostname:     name,
			corev1.LabelOSStable:     runtime.GOOS,
			corev1.LabelArchStable:   runtime.GOARCH,
			corev1.LabelTopologyZone: fmt.Sprintf("zone-%c", 'a'+(i-1)%c.config.Zones),
		}},
		Status: corev1.NodeStatus{
			Capacity:    room,
			Allocatable: room,
			Addresses: []corev1.NodeAddress{
				{Type: corev1.NodeInternalIP, Address: fmt.Sprintf("10.0.%d.%d", i/256, i%256)},
				{Type: corev1.NodeHostName, Address: name},
			},
		},
	}
}

// nodeReady reports whether pods can be scheduled to a node: the taint that a new node gets is removed shortly after it becomes Ready.
func nodeReady(n *corev1.Node) bool {
	for _, t := range n.Spec.Taints {
		if t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable {
			return false
		}
	}
	for _, cond := range n.Status.Conditions {
		if cond.Type == corev1.NodeReady {
			return cond.Status == corev1.ConditionTrue
		}
	}
	return false
}

// dropLeases removes the Leases of the simulated nodes, unless kwok runs: a new kwok takes over a node only when the Lease of the previous
// one has expired, up to 2 minutes later.
func (c *Cluster) dropLeases(ctx context.Context) error {
	if p, err := FindProcess(c.Dir, Simulator); err == nil && p.Alive() {
		return nil
	}
	nodes, err := c.nodes(ctx)
	if err != nil {
		return err
	}
	client, err := c.client()
	if err != nil {
		return err
	}
	var errs []error
	for i := range nodes {
		err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Delete(ctx, nodes[i].Name, metav1.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("cluster %s: delete lease of %s: %w", c.Name, nodes[i].Name, err))
		}
	}
	return errors.Join(errs...)
}
