package resourcedistribution

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

// A watch that ends before it has synced sends no event, so its ResourceDistribution would wait forever.
func TestAWatchThatStartsWhileUnusedOnesAreStoppedIsNotStopped(t *testing.T) {
	t.Parallel()
	api := fake.NewClientBuilder().WithScheme(scheme(t)).
		WithIndex(&corev1.ConfigMap{}, metav1.ObjectNameField, func(o client.Object) []string { return []string{o.GetName()} }).Build()
	w := newWatches(t.Context(), api)
	unused, added := id{kind: kindConfigMap, name: "unused"}, id{kind: kindConfigMap, name: "added"}
	_, _, err := w.all(t.Context(), unused)
	require.NoError(t, err)
	done := make(chan error, 1)
	require.NoError(t, w.keep(func() (map[id]bool, error) { // The ResourceDistribution of the added one is created after this list.
		begun := make(chan struct{})
		go func() {
			close(begun)
			_, _, err := w.all(t.Context(), added)
			done <- err
		}()
		<-begun
		return map[id]bool{}, nil
	}))
	require.NoError(t, <-done)
	require.NotContains(t, w.running, unused)
	require.Contains(t, w.running, added)
}
