package nodepodprobe

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
)

// large is a large cluster that counts writes. Its cache is always up to date.
type large struct {
	client.Client

	pods      map[string][]corev1.Pod // By node.
	markers   []appsv1alpha1.PodProbeMarker
	probes    map[string]*appsv1alpha1.NodePodProbe
	writes    int
	conflicts int
}

func (c *large) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	switch into := o.(type) {
	case *corev1.Node:
		into.Name = key.Name
		return nil
	case *appsv1alpha1.NodePodProbe:
		if n := c.probes[key.Name]; n != nil {
			n.DeepCopyInto(into)
			return nil
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (c *large) List(_ context.Context, list client.ObjectList, all ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(all)
	switch into := list.(type) {
	case *corev1.PodList:
		node, _ := o.FieldSelector.RequiresExactMatch(ownership.NodeIndex)
		into.Items = c.pods[node]
	case *appsv1alpha1.PodProbeMarkerList:
		into.Items = c.markers
	}
	return nil
}

func (c *large) Create(_ context.Context, o client.Object, _ ...client.CreateOption) error {
	n := o.(*appsv1alpha1.NodePodProbe)
	c.probes[n.Name] = n.DeepCopy()
	c.writes++
	return nil
}

// Patch applies a merge patch to a spec. It rejects one with a resourceVersion: the daemons write all the time.
func (c *large) Patch(_ context.Context, o client.Object, p client.Patch, _ ...client.PatchOption) error {
	var patch appsv1alpha1.NodePodProbe
	data, err := p.Data(o)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(data, &patch); err != nil {
		return err
	}
	c.writes++
	if patch.ResourceVersion != "" {
		c.conflicts++
		return apierrors.NewConflict(schema.GroupResource{}, o.GetName(), nil)
	}
	c.probes[o.GetName()].Spec = patch.Spec
	return nil
}

// TestAThousandPodsTakeAWriteForEachOfAHundredNodes gives the figures in docs/operate/sizing.md.
func TestAThousandPodsTakeAWriteForEachOfAHundredNodes(t *testing.T) {
	t.Parallel()
	const nodes, pods = 100, 1000
	c := &large{
		pods: map[string][]corev1.Pod{}, probes: map[string]*appsv1alpha1.NodePodProbe{},
		markers: []appsv1alpha1.PodProbeMarker{*idleMarker("idle")},
	}
	for i := range pods {
		node := fmt.Sprintf("node-%d", i%nodes)
		c.pods[node] = append(c.pods[node], *runningPod(fmt.Sprintf("web-%d", i), func(p *corev1.Pod) { p.Spec.NodeName = node }))
	}
	r := &Reconciler{Client: c, Live: c, Clock: clocktesting.NewFakePassiveClock(time.Time{}), Markers: true}
	every := func() int {
		before := c.writes
		for node := range c.pods {
			for range 2 { // The second pass finds nothing to do.
				_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: node}})
				require.NoError(t, err)
			}
		}
		return c.writes - before
	}
	require.Equal(t, nodes, every(), "all pods are probed")
	probed := 0
	for _, n := range c.probes {
		probed += len(n.Spec.PodProbes)
	}
	require.Equal(t, pods, probed)
	c.markers[0].Spec.Probes[0].Probe.PeriodSeconds = 5
	require.Equal(t, nodes, every(), "the marker has changed")
	c.pods["node-7"] = c.pods["node-7"][1:]
	gone := idleMarker("other")
	gone.Spec.Selector.MatchLabels["game"] = "no"
	c.markers = append(c.markers, *gone)
	require.Equal(t, 1, every(), "a pod is gone, and a marker selects no pod")
	c.markers = nil
	require.Equal(t, nodes, every(), "nothing is probed any longer")
	require.Zero(t, c.conflicts)
}
