package lifecycle

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
)

func TestOf(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		labels map[string]string
		want   pods.LifecycleState
	}{
		{"a pod without labels is Normal", nil, pods.LifecycleNormal},
		{"an empty label is Normal", map[string]string{keys.LifecycleState: ""}, pods.LifecycleNormal},
		{"the label has the state", map[string]string{keys.LifecycleState: "Updating"}, pods.LifecycleUpdating},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, Of(&metav1.ObjectMeta{Labels: tc.labels}))
		})
	}
}

func TestSetState(t *testing.T) {
	t.Parallel()
	shared := map[string]string{"app": "web"}
	obj := &metav1.ObjectMeta{Labels: shared}
	now := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("east", 3600))
	SetState(obj, pods.LifecyclePreparingNormal, now)
	require.Empty(t, cmp.Diff(&metav1.ObjectMeta{
		Labels:      map[string]string{"app": "web", "lifecycle.apps.kruise.io/state": "PreparingNormal"},
		Annotations: map[string]string{"lifecycle.apps.kruise.io/timestamp": "2026-01-02T02:04:05Z"},
	}, obj))
	require.Equal(t, map[string]string{"app": "web"}, shared, "the template's labels are not modified")
}
