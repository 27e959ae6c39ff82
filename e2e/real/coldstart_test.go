//go:build e2e

package real

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
	"github.com/flotilla-io/flotilla/testkit/lab"
)

// TestAttack26And27AClusterWhoseNodesWereAllKilledComesBackByItself kills all nodes at once, and the manager with them. The nodes then need
// pods that a SidecarSet for all namespaces selects. The only room for the manager is taken by pods that a budget protects. While no replica
// answers, neither the creation nor the preemption of these pods may wait for one.
func TestAttack26And27AClusterWhoseNodesWereAllKilledComesBackByItself(t *testing.T) {
	lab.Full(t) // What each webhook gets is also tested with just an apiserver.
	s, c := newScene(t), env.East
	s.restore()
	network := s.namespace[:40] + "-net"
	require.NoError(t, env.Namespace(t.Context(), network, nil))
	t.Cleanup(func() {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: network}}
		for _, c := range env.Clusters() {
			require.NoError(t, client.IgnoreNotFound(c.Client.Delete(context.WithoutCancel(t.Context()), ns.DeepCopy())))
		}
	})
	s.sidecar(c, app("proxy", port+1), func(set *appsv1beta1.SidecarSet) {
		set.Spec.NamespaceSelector = nil
		set.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{
			{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: []string{"web", "network"}},
		}}
	})
	budget := &policyv1beta1.PodUnavailableBudget{
		ObjectMeta: metav1.ObjectMeta{Name: "filler"},
		Spec: policyv1beta1.PodUnavailableBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "filler"}}, MaxUnavailable: new(intstr.FromInt32(0)),
		},
	}
	s.create(c, budget)
	s.create(c, webs(2))
	s.awaitRollout(c, "web", 2, 2)
	plugin := networkPlugin(network)
	require.NoError(t, c.Client.Create(t.Context(), plugin))
	s.until(func(ctx context.Context) string { return pluginRuns(ctx, c, plugin) })

	fillers := s.fill(c)
	require.NoError(t, c.Manager.Stop(t.Context()))
	t.Cleanup(func() { require.NoError(t, c.Mend(context.WithoutCancel(t.Context()))) })
	s.until(func(context.Context) string {
		for name, p := range s.pods(c, "filler") {
			if !ready(&p) {
				return name + ": " + brief(&p)
			}
		}
		return ""
	})

	var wg sync.WaitGroup
	errs := make([]error, len(c.Lab.RealNodes()))
	for i, node := range c.Lab.RealNodes() {
		wg.Go(func() { errs[i] = c.Lab.KillNode(t.Context(), node) })
	}
	wg.Wait()
	require.NoError(t, errors.Join(errs...))
	former := s.pluginPods(c, plugin)
	for i := range former {
		require.NoError(t, c.Client.Delete(t.Context(), &former[i], client.GracePeriodSeconds(0)))
	}
	s.until(func(context.Context) string { // Before any replica answers.
		pods := s.pluginPods(c, plugin)
		if len(pods) != len(former) {
			return fmt.Sprintf("%d pods of the network plugin", len(pods))
		}
		return ""
	})
	missing, err := c.Manager.Ready(t.Context())
	require.NoError(t, err)
	require.Empty(t, missing, "the manager has no replica")

	require.NoError(t, c.Mend(t.Context())) // The nodes start, and the Deployment has its replicas. Nothing else helps.
	s.restore()
	s.until(func(ctx context.Context) string { return pluginRuns(ctx, c, plugin) })
	s.awaitRollout(c, "web", 2, 2)
	for name, p := range s.pods(c, "web") {
		require.True(t, ready(&p), name)
		require.Len(t, p.Spec.Containers, 2, name)
	}
	require.Less(t, len(s.pods(c, "filler")), fillers, "the manager has preempted a protected pod")
}

// networkPlugin returns a DaemonSet like that of a network plugin: its pods use the network of their node and tolerate every taint.
func networkPlugin(namespace string) *appsv1.DaemonSet {
	pod := template("network", corev1.Container{Name: "plugin", Image: imageEmpty, ImagePullPolicy: corev1.PullIfNotPresent})
	pod.Spec.HostNetwork = true
	pod.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "network"},
		Spec:       appsv1.DaemonSetSpec{Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}, Template: pod},
	}
}

func pluginRuns(ctx context.Context, c *fleet.Cluster, d *appsv1.DaemonSet) string {
	current := &appsv1.DaemonSet{}
	if err := c.Client.Get(ctx, client.ObjectKeyFromObject(d), current); err != nil {
		return err.Error()
	}
	if st := current.Status; st.ObservedGeneration != current.Generation || int(st.NumberReady) != len(c.Lab.RealNodes()) {
		return fmt.Sprintf("the network plugin has status %+v", st)
	}
	return ""
}

func (s *scene) pluginPods(c *fleet.Cluster, d *appsv1.DaemonSet) []corev1.Pod {
	s.Helper()
	list := &corev1.PodList{}
	require.NoError(s, c.Client.List(s.ctx, list, client.InNamespace(d.Namespace), client.MatchingLabels(d.Spec.Selector.MatchLabels)))
	return list.Items
}

// fill creates, for each node, a pod that takes all the CPU that is left when the manager has stopped. It returns the number of pods.
func (s *scene) fill(c *fleet.Cluster) int {
	s.Helper()
	all := &corev1.PodList{}
	require.NoError(s, c.Client.List(s.ctx, all))
	manager, err := c.Manager.Pods(s.ctx)
	require.NoError(s, err)
	all.Items = slices.DeleteFunc(all.Items, func(p corev1.Pod) bool {
		return slices.ContainsFunc(manager, func(m corev1.Pod) bool { return m.UID == p.UID })
	})
	nodes := c.Lab.RealNodes()
	for _, name := range nodes {
		node := &corev1.Node{}
		require.NoError(s, c.Client.Get(s.ctx, client.ObjectKey{Name: name}, node))
		left := node.Status.Allocatable.Cpu().MilliValue()
		for i := range all.Items {
			p := &all.Items[i]
			if p.Spec.NodeName != name || p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed {
				continue
			}
			for j := range p.Spec.Containers {
				left -= p.Spec.Containers[j].Resources.Requests.Cpu().MilliValue()
			}
		}
		pod := template("filler", app("filler", port))
		pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: *resource.NewMilliQuantity(left, resource.DecimalSI)}
		pod.Spec.NodeSelector = map[string]string{corev1.LabelHostname: name}
		s.create(c, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "filler-" + name, Labels: pod.Labels}, Spec: pod.Spec})
	}
	return len(nodes)
}
