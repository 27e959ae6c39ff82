package podprobe

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
)

func TestTheOldestMarkerComesFirst(t *testing.T) {
	t.Parallel()
	marker := func(name string, age time.Duration, change ...func(*appsv1alpha1.PodProbeMarker)) appsv1alpha1.PodProbeMarker {
		m := appsv1alpha1.PodProbeMarker{
			ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.NewTime(then.Add(-age))},
			Spec:       appsv1alpha1.PodProbeMarkerSpec{Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}},
		}
		for _, c := range change {
			c(&m)
		}
		return m
	}
	all := MarkersOf([]appsv1alpha1.PodProbeMarker{
		marker("young", time.Hour), marker("old-b", 2*time.Hour), marker("old-a", 2*time.Hour),
		marker("gone", 3*time.Hour, func(m *appsv1alpha1.PodProbeMarker) { m.DeletionTimestamp = &metav1.Time{Time: then} }),
		marker("everything", 3*time.Hour, func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Selector = &metav1.LabelSelector{} }),
		marker("nothing", 3*time.Hour, func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Selector = nil }),
		marker("invalid", 3*time.Hour, func(m *appsv1alpha1.PodProbeMarker) {
			m.Spec.Selector = &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Near"}}}
		}),
		marker("other", 3*time.Hour, func(m *appsv1alpha1.PodProbeMarker) { m.Spec.Selector.MatchLabels["app"] = "db" }),
	})
	var names []string
	for _, m := range all.Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}}}) {
		names = append(names, m.Name)
	}
	require.Equal(t, []string{"old-a", "old-b", "young"}, names)
	require.Empty(t, all.Of(&corev1.Pod{}))
}
