//go:build e2e

package real

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/e2e/fleet"
)

// TestPodIsReadyWithItsNewImageInSeconds updates twenty pods in place and looks how long each takes, from the patch of its
// image until it is ready again with a container of the new one.
func TestPodIsReadyWithItsNewImageInSeconds(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	median := s.pace("image", func(p *corev1.PodTemplateSpec) { image(p, imageNew) },
		func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == imageNew })
	require.Less(t, median, 30*time.Second)
}

// TestFiguresOfEnv does the same with an annotation that becomes env.
func TestFiguresOfEnv(t *testing.T) {
	figures(t)
	newScene(t).pace("annotation", func(p *corev1.PodTemplateSpec) { colored(p, "blue") },
		func(p *corev1.Pod) bool { return p.Annotations["example.com/color"] == "blue" })
}

// figures leaves a test out that measures and holds nothing, unless FLOTILLA_E2E_FIGURES is set. It means something only on a
// machine that does nothing else.
func figures(t *testing.T) {
	t.Helper()
	if os.Getenv("FLOTILLA_E2E_FIGURES") == "" {
		t.Skip("FLOTILLA_E2E_FIGURES is not set")
	}
}

// pace updates twenty pods in place, two at a time, and returns the median of the time that each takes from the patch until it
// is ready with its container restarted.
func (s *scene) pace(of string, edit func(*corev1.PodTemplateSpec), patched func(*corev1.Pod) bool) time.Duration {
	s.Helper()
	const n = 20
	many := set("many", n, app("app", port))
	colored(&many.Spec.Template, "red")
	many.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2))
	s.create(env.West, many)
	s.rolledOut(env.West, "many", n, n)

	since, took, done := map[string]time.Time{}, map[string]time.Duration{}, make(chan struct{})
	end, err := fleet.Follow(s.ctx, env.West, &corev1.PodList{}, func(_ watch.EventType, p *corev1.Pod) {
		if !patched(p) {
			return
		}
		now := time.Now() //nolint:forbidigo // It is what is measured.
		if _, known := since[p.Name]; !known {
			since[p.Name] = now
		}
		if _, known := took[p.Name]; !known && container(p, "app").RestartCount == 1 && ready(p) {
			if took[p.Name] = now.Sub(since[p.Name]); len(took) == n {
				close(done)
			}
		}
	}, client.InNamespace(s.namespace))
	require.NoError(s, err)
	began := time.Now() //nolint:forbidigo // As above.
	change(s, env.West, many, func(c *appsv1beta1.CloneSet) { edit(&c.Spec.Template) })
	s.untilFor(2*patience, func(context.Context) string {
		select {
		case <-done:
			return ""
		default:
			return "not all pods are ready after the patch"
		}
	})
	end()
	var all []time.Duration
	for _, d := range took {
		all = append(all, d.Round(time.Millisecond))
	}
	slices.Sort(all)
	s.Logf("%s: from a pod's patch to ready: median %s, least %s, most %s; %d pods, two at a time, in %s", of, all[n/2], all[0], all[n-1],
		n, time.Since(began).Round(time.Millisecond)) //nolint:forbidigo // As above.
	return all[n/2]
}
