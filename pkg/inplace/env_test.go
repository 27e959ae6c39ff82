package inplace

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestRestartRequests(t *testing.T) {
	t.Parallel()
	two := "two"
	// reading lets containers read the label tier.
	reading := func(at ...int) func(*corev1.Pod) {
		return func(p *corev1.Pod) {
			p.Labels["tier"] = "one"
			for _, i := range at {
				p.Spec.Containers[i].Env = append(p.Spec.Containers[i].Env, reads("TIER", "metadata.labels['tier']"))
			}
		}
	}
	envOf := func(names ...string) Update {
		e := Update{Labels: map[string]*string{"tier": &two}, Env: map[string]string{}}
		for _, n := range names {
			e.Env[n] = "label tier by env TIER"
		}
		return e
	}
	for _, tc := range []struct {
		name   string
		pod    *corev1.Pod
		update Update
		after  func(*corev1.Pod)
		want   [][]string
	}{
		{
			name: "containers that read changed metadata are requested, together", pod: running(reading(0, 1)), update: envOf("app", "side"),
			want: [][]string{{"app run://app-0", "side run://side-0"}},
		},
		{name: "others are left alone", pod: running(reading(1)), update: envOf("side"), want: [][]string{{"side run://side-0"}}},
		{
			name: "those of one batch are ordered by launch priority, which is 0 for those without one",
			pod:  running(reading(0, 1, 2), launch(0, "-1"), launch(1, "2")), update: envOf("app", "side", "injected"),
			want: [][]string{{"side run://side-0"}, {"injected run://injected-0"}, {"app run://app-0"}},
		},
		{
			name: "a container with a new image in the same update is among them, because it reads the same metadata", pod: running(reading(0, 1)),
			update: Update{Images: map[string]string{"app": "app:2"}}.after(envOf("side")),
			want:   [][]string{{"app run://app-0, image", "side run://side-0"}},
		},
		{name: "a new image alone requests nothing", pod: running(reading(0)), update: Update{Images: map[string]string{"app": "app:2"}}},
		{
			name: "an update that is marked and not written requests nothing yet", pod: running(reading(0)), update: envOf("app"),
			after: func(p *corev1.Pod) { delete(p.Annotations, keys.InPlaceUpdateState) },
		},
		{
			name: "a completed update requests nothing any more", pod: running(reading(0)), update: envOf("app"),
			after: func(p *corev1.Pod) { delete(p.Labels, keys.LifecycleState) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			ps, err := tc.update.Write(tc.pod, toRevision("web-2"), start)
			pod := send(t, tc.pod, ps, err)
			if tc.after != nil {
				tc.after(pod)
			}
			var got [][]string
			for _, list := range RestartRequests(pod) {
				var names []string
				for _, a := range list {
					name := a.Container.Name + " " + a.Before
					if a.Image {
						name += ", image"
					}
					names = append(names, name)
				}
				got = append(got, names)
			}
			require.Equal(t, tc.want, got)
		})
	}
}
