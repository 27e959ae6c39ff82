//go:build e2e

package real

import (
	"context"
	"maps"
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

// BenchmarkImage updates twenty pods in place and measures how long each takes, from the patch of its image until it is ready again with a
// container of the new image.
func BenchmarkImage(b *testing.B) {
	for b.Loop() {
		newScene(b).measurePace(b, func(p *corev1.PodTemplateSpec) { image(p, imageNew) },
			func(p *corev1.Pod) bool { return p.Spec.Containers[0].Image == imageNew })
	}
}

// BenchmarkEnv does the same with an annotation that containers read through env.
func BenchmarkEnv(b *testing.B) {
	for b.Loop() {
		newScene(b).measurePace(b, func(p *corev1.PodTemplateSpec) { colored(p, "blue") },
			func(p *corev1.Pod) bool { return p.Annotations["example.com/color"] == "blue" })
	}
}

// measurePace updates twenty pods in place, two at a time, and reports the time that each takes from its patch until it is ready with its container
// restarted. Run one round: go test -bench . -benchtime 1x.
func (s *scene) measurePace(b *testing.B, edit func(*corev1.PodTemplateSpec), patched func(*corev1.Pod) bool) {
	b.Helper()
	const n = 20
	many := set("many", n, app("app", port))
	colored(&many.Spec.Template, "red")
	many.Spec.UpdateStrategy.RollingUpdate.MaxUnavailable = new(intstr.FromInt32(2))
	s.create(env.West, many)
	s.awaitRollout(env.West, "many", n, n)

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
	all := slices.Sorted(maps.Values(took))
	b.ReportMetric(all[n/2].Seconds(), "median-s/pod")
	b.ReportMetric(all[0].Seconds(), "least-s/pod")
	b.ReportMetric(all[n-1].Seconds(), "most-s/pod")
	b.ReportMetric(time.Since(began).Seconds(), "s/20-pods") //nolint:forbidigo // As above.
	b.ReportMetric(0, "ns/op")                               // It would include the pods' creation.
}
