package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

const (
	// nodeSets is the number of DaemonSets, and everywhere is how many of them run on all nodes. Each of the others selects its own label, which
	// no node has at first.
	nodeSets, everywhere = 50, 10
	// ground is the label of nodes that a measurement created.
	ground = "bench.example/ground"
	// asked is the label that DaemonSets select.
	asked = "bench.example/set"
)

// daemons makes the planned measurements of DaemonSets: many while a node changes, one on many nodes compared with the native one, and a
// BroadcastJob.
func (b *bench) daemons(ctx context.Context, p plan) error {
	c := b.fleet.West
	if err := b.clearNodes(ctx, c); err != nil { // Remove what an interrupted run left.
		return err
	}
	if p.has(nodeEvents) {
		if err := b.nodeEvents(ctx, c); err != nil {
			return err
		}
	}
	if !p.has(daemonSet) && !p.has(broadcastJob) {
		return nil
	}
	nodes, err := b.addNodes(ctx, c, p.nodes)
	if err != nil {
		return err
	}
	if p.has(daemonSet) {
		if err := b.trial(ctx, b.daemonSetTrial(nodes)); err != nil {
			return err
		}
	}
	if p.has(broadcastJob) {
		if err := b.trial(ctx, b.broadcastJobTrial(nodes)); err != nil {
			return err
		}
	}
	return b.clearNodes(ctx, c)
}

// addNodes creates nodes until a cluster has want nodes, waits until all are ready, and returns how many it has.
func (b *bench) addNodes(ctx context.Context, c *fleet.Cluster, want int) (count int32, err error) {
	done := b.stage(fmt.Sprintf("%d nodes", want))
	defer func() { done(err) }()
	list := &corev1.NodeList{}
	if err := c.Client.List(ctx, list); err != nil {
		return 0, fmt.Errorf("list nodes: %w", err)
	}
	for i := len(list.Items); i < want; i++ {
		if err := c.Client.Create(ctx, simulated(fmt.Sprintf("bench-%d", i))); err != nil {
			return 0, fmt.Errorf("create node: %w", err)
		}
	}
	err = fleet.Await(ctx, patience, func(ctx context.Context) (bool, string) {
		if err := c.Client.List(ctx, list); err != nil {
			return false, err.Error()
		}
		n := 0
		for i := range list.Items {
			if node := &list.Items[i]; len(node.Spec.Taints) == 0 && len(node.Status.Conditions) > 0 {
				n++
			}
		}
		if n < len(list.Items) {
			pause(ctx, time.Second) // Listing hundreds of nodes is expensive.
		}
		return n == max(len(list.Items), want), fmt.Sprintf("%d of %d nodes are ready", n, want)
	})
	if err != nil {
		return 0, err
	}
	return int32(len(list.Items)), b.awaitQuiet(ctx) //nolint:gosec // There are hundreds of nodes.
}

// clearNodes removes the nodes that measurements created.
func (b *bench) clearNodes(ctx context.Context, c *fleet.Cluster) error {
	if err := c.Client.DeleteAllOf(ctx, &corev1.Node{}, client.HasLabels{ground}); err != nil {
		return fmt.Errorf("remove nodes: %w", err)
	}
	return b.awaitQuiet(ctx)
}

// simulated returns a node that the lab simulates, like those that it has from the start.
func simulated(name string) *corev1.Node {
	room := corev1.ResourceList{
		corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("8Gi"),
		corev1.ResourcePods: *resource.NewQuantity(podsPerNode, resource.DecimalSI),
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{
			ground: "yes", "lab.flotilla.io/simulated": "true", corev1.LabelHostname: name,
			corev1.LabelOSStable: runtime.GOOS, corev1.LabelArchStable: runtime.GOARCH,
		}},
		Status: corev1.NodeStatus{Capacity: room, Allocatable: room},
	}
}

// event is a change of the node, and the number of DaemonSets that it concerns.
type event struct {
	what     string
	concerns int
	do       func(context.Context) error
}

// nodeEvents counts the reconciles that events of one node cause among many DaemonSets.
func (b *bench) nodeEvents(ctx context.Context, c *fleet.Cluster) (err error) {
	done := b.stage(fmt.Sprintf("%d DaemonSets: events of a node", nodeSets))
	defer func() { done(err) }()
	sets := make([]client.Object, nodeSets)
	for i := range sets {
		sets[i] = numbered(i)
	}
	if err := b.clear(ctx, c, "", sets...); err != nil {
		return err
	}
	for _, set := range sets {
		if err := c.Client.Create(ctx, set); err != nil {
			return fmt.Errorf("create DaemonSet: %w", err)
		}
	}
	if err := b.awaitQuiet(ctx); err != nil {
		return err
	}
	b.printf("\n%d DaemonSets, %d of them on all nodes, each of the others on nodes with a label that no node has: what events of "+
		"one node cause. Reconciles of pods that are created or deleted because of them are counted too.\n\n", nodeSets, everywhere)
	b.printf("| | sets affected | reconciles | API writes |\n|---|---:|---:|---:|\n")
	for _, e := range events(c, simulated("bench-event")) {
		before, err := reconciles(ctx, c.Manager)
		if err != nil {
			return err
		}
		mark := fleet.Mark()
		if err := e.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", e.what, err)
		}
		if err := b.awaitQuiet(ctx); err != nil {
			return err
		}
		after, err := reconciles(ctx, c.Manager)
		if err != nil {
			return err
		}
		writes, err := b.fleet.Writes(mark)
		if err != nil {
			return err
		}
		n, ours := 0, b.memberManager()
		for _, w := range writes {
			if ours.wrote(w) && !w.Renewal() {
				n++
			}
		}
		b.printf("| %s | %d | %d | %d |\n", e.what, e.concerns, after-before, n)
	}
	return b.clear(ctx, c, "", sets...)
}

// numbered returns one of many DaemonSets.
func numbered(i int) *appsv1beta1.DaemonSet {
	name := "many-" + strconv.Itoa(i)
	labels := map[string]string{"app": name}
	set := &appsv1beta1.DaemonSet{ObjectMeta: meta(name), Spec: appsv1beta1.DaemonSetSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels}, Template: podTemplate(),
	}}
	set.Spec.Template.Labels = labels
	if i >= everywhere {
		set.Spec.Template.Spec.NodeSelector = map[string]string{asked: strconv.Itoa(i)}
	}
	return set
}

// events returns the changes of a node from its creation to its deletion.
func events(c *fleet.Cluster, node *corev1.Node) []event {
	// Use a new object each time: reading into an existing object keeps fields that others have removed.
	read := func(ctx context.Context) (*corev1.Node, error) {
		out := &corev1.Node{}
		return out, c.Client.Get(ctx, client.ObjectKeyFromObject(node), out)
	}
	edit := func(change func(*corev1.Node)) func(context.Context) error {
		return func(ctx context.Context) error {
			return retry.RetryOnConflict(retry.DefaultRetry, func() error {
				n, err := read(ctx)
				if err != nil {
					return err
				}
				change(n)
				return c.Client.Update(ctx, n)
			})
		}
	}
	beat := func(ctx context.Context) error {
		n, err := read(ctx)
		if err != nil {
			return err
		}
		patch := client.MergeFrom(n.DeepCopy())
		for i := range n.Status.Conditions {
			n.Status.Conditions[i].LastHeartbeatTime = metav1.NewTime(fleet.Mark().Add(time.Second))
		}
		return c.Client.Status().Patch(ctx, n, patch)
	}
	return []event{
		{"nothing happens", 0, func(context.Context) error { return nil }},
		{"the node is added", everywhere, func(ctx context.Context) error { return c.Client.Create(ctx, node) }},
		{"its kubelet reports that it is alive", 0, beat},
		{"a label that no set selects is added", 0, edit(func(n *corev1.Node) { n.Labels["bench.example/colour"] = "red" })},
		{"a label that one set selects is added", 1, edit(func(n *corev1.Node) { n.Labels[asked] = strconv.Itoa(nodeSets - 1) })},
		{"that label is removed", 1, edit(func(n *corev1.Node) { delete(n.Labels, asked) })},
		{"it is cordoned", 0, edit(func(n *corev1.Node) { n.Spec.Unschedulable = true })},
		{"it is uncordoned", 0, edit(func(n *corev1.Node) { n.Spec.Unschedulable = false })},
		{"a taint NoExecute that no set tolerates is added", everywhere, edit(func(n *corev1.Node) {
			n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: "bench.example/keep-off", Effect: corev1.TaintEffectNoExecute})
		})},
		{"the taint is removed", everywhere, edit(func(n *corev1.Node) { n.Spec.Taints = nil })},
		{"the node is deleted", everywhere, func(ctx context.Context) error { return c.Client.Delete(ctx, node) }},
	}
}

// reconciles returns how often the DaemonSet controller has reconciled.
func reconciles(ctx context.Context, m *fleet.Manager) (int, error) {
	text, err := m.Metrics(ctx)
	if err != nil {
		return 0, fmt.Errorf("read metrics: %w", err)
	}
	sum, found := 0, false
	for line := range strings.Lines(text) {
		name, value, ok := strings.Cut(strings.TrimSpace(line), "} ")
		if !ok || !strings.HasPrefix(name, `controller_runtime_reconcile_total{controller="daemonset-controller"`) {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return 0, fmt.Errorf("read metrics: %w", err)
		}
		sum, found = sum+int(n), true
	}
	if !found {
		return 0, errors.New("read metrics: controller_runtime_reconcile_total is missing")
	}
	return sum, nil
}
