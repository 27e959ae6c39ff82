//go:build integration

package cloneset

import (
	"testing"

	"github.com/stretchr/testify/require"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
)

// Without metrics, the HorizontalPodAutoscaler of Kubernetes scales to its minimum, which proves that it reads and writes the scale of a
// CloneSet.
func TestAnAutoscalerHoldsItsMinimum(t *testing.T) {
	t.Parallel()
	s := begin(t)
	manage(t, s, Options{})
	g := newFixture(t, s)
	g.make(t, testkit.CloneSet("web").Replicas(2))

	scale := &autoscalingv1.Scale{}
	require.NoError(t, g.SubResource("scale").Get(t.Context(), g.Object(t), scale))
	require.Equal(t, int32(2), scale.Spec.Replicas)
	require.Equal(t, int32(2), scale.Status.Replicas)
	selector, err := labels.Parse(scale.Status.Selector)
	require.NoError(t, err)
	for name, p := range g.Pods(t) {
		require.True(t, selector.Matches(labels.Set(p.Labels)), "the autoscaler selects pods by %s, and %s is one", selector, name)
	}

	require.NoError(t, g.Create(t.Context(), &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: g.Namespace, Name: "web"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: appsv1beta1.GroupVersion.String(), Kind: "CloneSet", Name: "web"},
			MinReplicas:    new(int32(4)), MaxReplicas: 6,
		},
	}))
	g.Await(t, func(set *appsv1beta1.CloneSet) bool { return *set.Spec.Replicas == 4 && rolledOut(set) })
	require.Len(t, g.Pods(t), 4)
}
