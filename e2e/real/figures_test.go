//go:build e2e

package real

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// TestPodIsReadyWithItsNewImageInSeconds updates twenty pods in place and looks how long each takes, from the patch of its
// image until it is ready again with a container of the new one.
func TestPodIsReadyWithItsNewImageInSeconds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	const n = 20
	many := set("many", n, app("app", port))
	many.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2))
	s.create(env.West, many)
	s.rolledOut(env.West, "many", n, n)

	w, err := env.West.Client.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(s.namespace))
	require.NoError(t, err)
	defer w.Stop()
	change(s, env.West, many, func(c *appsv1beta1.CloneSet) { image(&c.Spec.Template, imageNew) })
	patched, took := map[string]time.Time{}, map[string]time.Duration{}
	limit := time.NewTimer(2 * patience)
	defer limit.Stop()
	for len(took) < n {
		select {
		case e := <-w.ResultChan():
			p, ok := e.Object.(*corev1.Pod)
			require.True(t, ok, "%v", e)
			if p.Spec.Containers[0].Image != imageNew {
				continue
			}
			now := time.Now() //nolint:forbidigo // It is what is measured.
			if _, known := patched[p.Name]; !known {
				patched[p.Name] = now
			}
			if _, done := took[p.Name]; !done && container(p, "app").RestartCount == 1 && ready(p) {
				took[p.Name] = now.Sub(patched[p.Name])
			}
		case <-limit.C:
			require.Len(t, took, n, "pods that are ready with their new image")
		}
	}
	var all []time.Duration
	for _, d := range took {
		all = append(all, d)
	}
	slices.Sort(all)
	t.Logf("from patch to ready: median %s, least %s, most %s", all[n/2], all[0], all[n-1])
	require.Less(t, all[n/2], 30*time.Second)
}
