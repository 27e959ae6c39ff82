package inplace

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
)

func TestRestartRequests(t *testing.T) {
	t.Parallel()
	two := "two"
	// reading makes containers read the label tier.
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
			name: "containers that read changed metadata are requested together", pod: running(reading(0, 1)), update: envOf("app", "side"),
			want: [][]string{{"app run://app-0", "side run://side-0"}},
		},
		{name: "others are left alone", pod: running(reading(1)), update: envOf("side"), want: [][]string{{"side run://side-0"}}},
		{
			name: "containers of one batch are ordered by launch priority, which defaults to 0",
			pod:  running(reading(0, 1, 2), launch(0, "-1"), launch(1, "2")), update: envOf("app", "side", "injected"),
			want: [][]string{{"side run://side-0"}, {"injected run://injected-0"}, {"app run://app-0"}},
		},
		{
			name: "a container with a new image in the same update is included, because it reads the same metadata", pod: running(reading(0, 1)),
			update: Update{Images: map[string]string{"app": "app:2"}}.after(envOf("side")),
			want:   [][]string{{"app run://app-0, image", "side run://side-0"}},
		},
		{name: "a new image alone requests no restart", pod: running(reading(0)), update: Update{Images: map[string]string{"app": "app:2"}}},
		{
			name: "an update that is marked but not written requests no restart yet", pod: running(reading(0)), update: envOf("app"),
			after: func(p *corev1.Pod) { delete(p.Annotations, keys.InPlaceUpdateState) },
		},
		{
			name: "a completed update requests no restart", pod: running(reading(0)), update: envOf("app"),
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

// TestWhatSomebodyWroteBeforehand updates pods to which somebody has already written what the next template contains: the containers still have
// the env that they were started with.
func TestWhatSomebodyWroteBeforehand(t *testing.T) {
	t.Parallel()
	config := reads("CONFIG", "metadata.annotations['config']")
	// reading is the template: app reads the annotation config, and so does the container at index more, if that is 1 or higher.
	reading := func(value, image string, more int) *corev1.PodTemplateSpec {
		out := &corev1.PodTemplateSpec{Spec: *running().Spec.DeepCopy()}
		out.Annotations = map[string]string{"config": value}
		out.Spec.Containers[0].Image = image
		out.Spec.Containers[0].Env = []corev1.EnvVar{config}
		if more > 0 {
			out.Spec.Containers[more].Env = []corev1.EnvVar{config}
		}
		return out
	}
	// pod is a pod from the old template that was changed by hand.
	pod := func(from *corev1.PodTemplateSpec, hand func(*corev1.Pod)) *corev1.Pod {
		return running(func(p *corev1.Pod) {
			p.Annotations["config"] = from.Annotations["config"]
			p.Spec.Containers = from.DeepCopy().Spec.Containers
			hand(p)
		})
	}
	// reported is the report that all containers were started with this value.
	reported := func(p *corev1.Pod, value string) {
		var all []StartedContainer
		for _, c := range Containers(p) {
			env := MetadataEnv(c, p)
			for i := range env {
				env[i].Value = value
			}
			all = append(all, StartedContainer{
				Name: c.Name, ContainerID: Status(p, c.Name).ContainerID,
				Hashes: StartedHashes{PlainHash: hashOf(map[string]string{"name": c.Name, "image": c.Image}), ExtractedEnvFromMetadataHash: EnvHash(env)},
			})
		}
		raw, err := MarshalStarted(all)
		require.NoError(t, err)
		p.Annotations[keys.RuntimeContainersMeta] = raw
	}
	annotated := func(p *corev1.Pod) { p.Annotations["config"] = "two" }
	imaged := func(p *corev1.Pod) {
		p.Spec.Containers[0].Image = "app:2"
		restart(p, start)
	}
	for _, tc := range []struct {
		name     string
		from, to *corev1.PodTemplateSpec
		hand     func(*corev1.Pod)
		// want are the containers to restart for their env.
		want []string
	}{
		{
			name: "an annotation", from: reading("one", "app:1", 0), to: reading("two", "app:1", 0), hand: annotated, want: []string{"app"},
		},
		{
			name: "an annotation that two containers read", from: reading("one", "app:1", 1), to: reading("two", "app:1", 1),
			hand: annotated, want: []string{"app", "side"},
		},
		{
			name: "an image, so that its container was restarted with the old annotation", from: reading("one", "app:1", 0),
			to: reading("two", "app:2", 0), hand: imaged, want: []string{"app"},
		},
		{
			name: "both", from: reading("one", "app:1", 0), to: reading("two", "app:2", 0),
			hand: func(p *corev1.Pod) { imaged(p); annotated(p) }, want: []string{"app"},
		},
		{
			name: "a new image in the same update restarts its container anyway", from: reading("one", "app:1", 0),
			to: reading("two", "app:2", 0), hand: annotated,
		},
		{name: "an image alone", from: reading("one", "app:1", 0), to: reading("one", "app:2", 0), hand: imaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			update, why, ok := Diff(tc.from, tc.to, Options{Env: true})
			require.True(t, ok, why)
			p := pod(tc.from, tc.hand)
			reported(p, "one")
			p.Spec.NodeName = "node-1"
			_, ok = update.CanApply(p, false)
			require.Equal(t, len(tc.want) == 0, ok, "without a node daemon the pod is re-created")
			_, ok = update.CanApply(p, true)
			require.True(t, ok)

			mark, err := MarkUnready(p, start)
			p = apply(t, p, mark, err)
			ps, err := update.Write(p, toRevision("web-2"), start)
			p = send(t, p, ps, err)
			restart(p, start)
			var names []string
			for _, batch := range RestartRequests(p) {
				for _, ask := range batch {
					names = append(names, ask.Container.Name)
				}
			}
			require.Equal(t, tc.want, names)
			if len(tc.want) > 0 {
				o := Progress(p, start.Add(time.Hour))
				require.True(t, o.Daemon, "%+v", o)
				require.Contains(t, o.Why, "reads changed metadata by env and still has the old values")
			}

			for _, name := range names {
				Status(p, name).ContainerID += "-restarted"
			}
			reported(p, "two")
			require.Equal(t, Outcome{Done: true}, Progress(p, start.Add(time.Hour)))
		})
	}
}

// TestWhatSomebodyWroteBeforeTheNextBatch writes to a pod by hand, in the middle of an update, what its next batch would write.
func TestWhatSomebodyWroteBeforeTheNextBatch(t *testing.T) {
	t.Parallel()
	two := "two"
	pod := running(launch(0, "9"), launch(1, "1", reads("TIER", "metadata.labels['tier']")))
	pod.Labels["tier"] = "one"
	update := Update{
		Images: map[string]string{"app": "app:2"}, Labels: map[string]*string{"tier": &two}, Env: map[string]string{"side": "label tier by env TIER"},
	}
	ps, err := update.Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	require.Equal(t, "one", pod.Labels["tier"])
	restart(pod, start)
	pod.Labels["tier"] = "two"
	require.True(t, Progress(pod, start).Next)

	ps, err = Continue(pod, start)
	pod = send(t, pod, ps, err)
	restarts := RestartRequests(pod)
	require.Len(t, restarts, 1)
	require.Equal(t, "side", restarts[0][0].Container.Name)
	o := Progress(pod, start)
	require.True(t, o.Daemon, "%+v", o)
}

// TestARollbackBeforeTheNextBatch takes the image of the next batch back before it is written: nobody else has written it.
func TestARollbackBeforeTheNextBatch(t *testing.T) {
	t.Parallel()
	config := reads("CONFIG", "metadata.annotations['config']")
	template := func(version string, annotation ...string) *corev1.PodTemplateSpec {
		out := &corev1.PodTemplateSpec{Spec: *running(launch(0, "1", config), launch(1, "9")).Spec.DeepCopy()}
		out.Annotations = map[string]string{"config": version}
		for _, a := range annotation {
			out.Annotations["config"] = a
		}
		out.Spec.Containers[0].Image, out.Spec.Containers[1].Image = "app:"+version, "side:"+version
		return out
	}
	pod := running(func(p *corev1.Pod) {
		p.Annotations["config"], p.Spec, p.Spec.NodeName = "1", template("1").Spec, "node-1"
	})
	there, why, ok := Diff(template("1"), template("2"), Options{Env: true})
	require.True(t, ok, why)
	ps, err := there.Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	require.Equal(t, []string{"app:1", "side:2"}, []string{pod.Spec.Containers[0].Image, pod.Spec.Containers[1].Image})
	restart(pod, start)

	for _, other := range []string{"2", "3"} {
		mixed, why, ok := Diff(template("2"), template("1", other), Options{Env: true})
		require.True(t, ok, why)
		why, ok = mixed.CanApply(pod, false)
		require.False(t, ok, "the container was started with 1")
		require.Contains(t, why, "container app reads annotation config by env CONFIG")
		ps, err := mixed.Write(pod, toRevision("web-3"), start)
		p := send(t, pod, ps, err)
		restart(p, start)
		ps, err = Continue(p, start)
		restarts := RestartRequests(send(t, p, ps, err))
		require.Len(t, restarts, 1)
		require.Equal(t, "app", restarts[0][0].Container.Name)
	}

	back, why, ok := Diff(template("2"), template("1"), Options{Env: true})
	require.True(t, ok, why)
	why, ok = back.CanApply(pod, false)
	require.True(t, ok, why)
	ps, err = back.Write(pod, toRevision("web-1"), start)
	pod = send(t, pod, ps, err)
	require.Empty(t, RestartRequests(pod))
	restart(pod, start)
	require.Equal(t, Outcome{Done: true}, Progress(pod, start))
}

// TestAnImageThatIsTakenBack updates a pod several times before its kubelet has done anything. If the container may have been started from the
// last image before, with other values, the kubelet need not restart it, so the node daemon has to.
func TestAnImageThatIsTakenBack(t *testing.T) {
	t.Parallel()
	// template is the template for a step "B 2": image app:B, annotation config=2. A step "hand 2" writes the annotation by hand, and in "seen" the
	// kubelet reports that it has seen the spec.
	template := func(step string) *corev1.PodTemplateSpec {
		image, value, _ := strings.Cut(step, " ")
		out := &corev1.PodTemplateSpec{Spec: *running().Spec.DeepCopy()}
		out.Annotations = map[string]string{"config": value}
		out.Spec.Containers[0].Image = "app:" + image
		out.Spec.Containers[0].Env = []corev1.EnvVar{reads("CONFIG", "metadata.annotations['config']")}
		return out
	}
	for _, tc := range []struct {
		name  string
		steps []string
		// reported: the node daemon reports that the container was started with 1.
		reported bool
		// restart: the node daemon has to restart the container. kept: no restart is needed.
		restart, kept bool
	}{
		{name: "with another value", steps: []string{"A 1", "B 2", "A 3"}, restart: true},
		{name: "with the value of the previous update", steps: []string{"A 1", "B 2", "A 2"}, restart: true},
		{name: "with the old value", steps: []string{"A 1", "B 2", "A 1"}, kept: true},
		{name: "with a value that never changed", steps: []string{"A 1", "B 1", "A 1"}, kept: true},
		{name: "for yet another image", steps: []string{"A 1", "B 2", "C 3"}},
		{name: "for an image that the kubelet may have started meanwhile", steps: []string{"A 1", "B 2", "C 3", "B 4"}, restart: true},
		{name: "after the kubelet has seen the value in between", steps: []string{"A 1", "B 2", "seen", "A 3"}},
		{name: "twice", steps: []string{"A 1", "B 2", "A 3", "B 4", "A 5"}, restart: true},
		{name: "after the value was changed twice", steps: []string{"A 1", "A 2", "B 2", "A 2"}, restart: true},
		{name: "and somebody wrote the value meanwhile", steps: []string{"A 1", "B 1", "hand 2", "A 2"}, restart: true},
		{name: "and somebody wrote the value before", steps: []string{"A 1", "hand 2", "B 2", "A 2"}, restart: true},
		{
			name: "and somebody wrote the value that the template gets later", steps: []string{"A 1", "hand 3", "B 2", "A 3"},
			reported: true, restart: true,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			last := template(tc.steps[0])
			p := running(func(p *corev1.Pod) {
				p.Annotations["config"], p.Spec, p.Spec.NodeName = last.Annotations["config"], last.Spec, "node-1"
				p.Status.ContainerStatuses[0].Image, p.Status.ContainerStatuses[0].ImageID = "app:A", "app:A@sha256:aa"
			})
			p.Spec.ReadinessGates = running().Spec.ReadinessGates
			report := func(image, value string) {
				hashes := StartedHashes{
					PlainHash:                    hashOf(map[string]string{"name": "app", "image": image}),
					ExtractedEnvFromMetadataHash: EnvHash([]corev1.EnvVar{{Name: "CONFIG", Value: value}}),
				}
				raw, err := MarshalStarted([]StartedContainer{{Name: "app", ContainerID: Status(p, "app").ContainerID, Hashes: hashes}})
				require.NoError(t, err)
				p.Annotations[keys.RuntimeContainersMeta] = raw
			}
			if tc.reported {
				report("app:A", "1")
			}
			mark, err := MarkUnready(p, start)
			p = apply(t, p, mark, err)
			for i, step := range tc.steps[1:] {
				if step == "seen" {
					p.Status.ObservedGeneration = p.Generation
					continue
				}
				if value, ok := strings.CutPrefix(step, "hand "); ok {
					p.Annotations["config"] = value
					continue
				}
				to := template(step)
				update, why, ok := Diff(last, to, Options{Env: true})
				require.True(t, ok, why)
				if i == len(tc.steps)-2 {
					_, ok = update.CanApply(p, false)
					require.Equal(t, !tc.restart, ok, "without a node daemon the pod is re-created if it has to restart the container")
					_, ok = update.CanApply(p, true)
					require.True(t, ok)
				}
				ps, err := update.Write(p, toRevision("web-"+step[:1]), start)
				p, last = send(t, p, ps, err), to
			}
			require.Equal(t, last.Annotations["config"], p.Annotations["config"])
			later := start.Add(time.Hour)
			if !tc.restart {
				require.Empty(t, RestartRequests(p))
				require.Equal(t, tc.kept, Progress(p, start).Done)
				restart(p, start)
				if slices.Contains(tc.steps, "seen") {
					Status(p, "app").ContainerID += "-2"
				}
				require.Equal(t, Outcome{Done: true}, Progress(p, later))
				return
			}
			restarts := RestartRequests(p)
			require.Len(t, restarts, 1)
			require.Equal(t, "app", restarts[0][0].Container.Name)
			restart(p, start) // The kubelet restarts nothing if it never saw another image.
			if p.Spec.Containers[0].Image == "app:A" {
				o := Progress(p, later)
				require.True(t, o.Daemon, "without a report: %+v", o)
				report("app:A", "1")
				o = Progress(p, later)
				require.True(t, o.Daemon, "with the report: %+v", o)
				require.Contains(t, o.Why, "still has the old values")
			}
			Status(p, "app").ContainerID += "-restarted"
			require.Equal(t, Outcome{Done: true}, Progress(p, later), "a restart is enough where the runtime reports no env")
			report(p.Spec.Containers[0].Image, p.Annotations["config"])
			require.Equal(t, Outcome{Done: true}, Progress(p, later))
		})
	}
}

// TestWithoutTheGateNothingRestartsForEnv: with the gate off a container keeps its env until it restarts, even if somebody wrote its new image
// beforehand.
func TestWithoutTheGateNothingRestartsForEnv(t *testing.T) {
	t.Parallel()
	template := func(image, value string) *corev1.PodTemplateSpec {
		out := &corev1.PodTemplateSpec{Spec: *running().Spec.DeepCopy()}
		out.Annotations = map[string]string{"config": value}
		out.Spec.Containers[0].Image = image
		out.Spec.Containers[0].Env = []corev1.EnvVar{reads("CONFIG", "metadata.annotations['config']")}
		return out
	}
	update, why, ok := Diff(template("app:1", "one"), template("app:2", "two"), Options{})
	require.True(t, ok, why)
	p := running(func(p *corev1.Pod) {
		p.Annotations["config"], p.Spec, p.Spec.NodeName = "one", template("app:2", "one").Spec, "node-1" // The image, by hand.
		restart(p, start)
	})
	why, ok = update.CanApply(p, false)
	require.True(t, ok, why)
	mark, err := MarkUnready(p, start)
	p = apply(t, p, mark, err)
	ps, err := update.Write(p, toRevision("web-2"), start)
	p = send(t, p, ps, err)
	require.Equal(t, "two", p.Annotations["config"])
	require.Empty(t, RestartRequests(p))
	require.Equal(t, Outcome{Done: true}, Progress(p, start))
}
