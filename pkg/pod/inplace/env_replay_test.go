package inplace

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
)

// envReplay is a pod whose containers read metadata by env, with a kubelet that sees the pod late and reports late.
type envReplay struct {
	*testing.T
	r *rand.Rand
	// daemon: a node daemon is alive. generations: the kubelet reports which generation it has seen. A kubelet that doesn't may see the pod late,
	// but acts and reports at once.
	daemon, generations bool
	templates           []*corev1.PodTemplateSpec
	target              int
	pod                 *corev1.Pod
	// seen is the pod as the kubelet knows it, and runs is what is running.
	seen *corev1.Pod
	runs map[string]*started
	ids  int
	now  time.Time
	log  []string
}

// started is a container and what it was started from.
type started struct {
	id, image, value string
	at               time.Time
}

func (w *envReplay) logf(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf(format, args...))
}

// template has two containers; side is launched first. app reads the annotation config, and so does side if both is set.
func (w *envReplay) template(both bool) *corev1.PodTemplateSpec {
	n := func(limit int) string { return strconv.Itoa(w.r.IntN(limit)) }
	config := reads("CONFIG", "metadata.annotations['config']")
	out := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "app", Image: "app:" + n(3), Env: []corev1.EnvVar{config}},
		{Name: "side", Image: "side:" + n(2), Env: []corev1.EnvVar{{Name: keys.EnvContainerPriority, Value: "2"}}},
	}}}
	if both {
		out.Spec.Containers[1].Env = append(out.Spec.Containers[1].Env, config)
	}
	out.Annotations = map[string]string{"config": n(3)}
	return out
}

func (w *envReplay) create() {
	to := w.templates[w.target]
	w.pod = running(func(p *corev1.Pod) {
		p.UID += "+"
		p.Annotations = map[string]string{"config": to.Annotations["config"]}
		p.Labels[keys.ControllerRevisionHash] = fmt.Sprintf("web-%d", w.target)
		p.Spec.NodeName, p.Spec.Containers = "node-1", to.DeepCopy().Spec.Containers
		p.Status.ContainerStatuses = p.Status.ContainerStatuses[:2]
	})
	w.seen, w.runs = w.pod.DeepCopy(), map[string]*started{}
	w.sync()
	w.sync()
}

// start starts a container from what the kubelet has seen.
func (w *envReplay) start(c *corev1.Container) {
	w.ids++
	w.runs[c.Name] = &started{"run://" + strconv.Itoa(w.ids), c.Image, w.seen.Annotations["config"], w.now}
	w.logf("kubelet: starts %+v", *w.runs[c.Name])
}

// sync reports, and then restarts containers that weren't started from the spec that the kubelet has seen.
func (w *envReplay) sync() {
	w.report()
	if w.generations {
		w.pod.Status.ObservedGeneration = w.seen.Generation
	}
	for c := range containersOf(&w.seen.Spec) {
		if run := w.runs[c.Name]; run == nil || run.image != c.Image {
			w.start(c)
		}
	}
	if !w.generations {
		w.report()
	}
}

func (w *envReplay) report() {
	for name, run := range w.runs {
		st := status(w.pod, name)
		st.ContainerID, st.Image, st.ImageID = run.id, run.image, "id-"+run.image
		st.State.Running.StartedAt = metav1.NewTime(run.at.Truncate(time.Second))
	}
}

// restart does what the node daemon does. The kubelet reports at once that a container has stopped.
func (w *envReplay) restart() {
	var all []StartedContainer
	for c := range containersOf(&w.pod.Spec) {
		st, run := status(w.pod, c.Name), w.runs[c.Name]
		if len(references(c)) == 0 || st.ContainerID != run.id {
			continue
		}
		all = append(all, StartedContainer{Name: c.Name, ContainerID: run.id, Hashes: StartedHashes{
			PlainHash:                    hashOf(map[string]string{"name": c.Name, "image": run.image}),
			ExtractedEnvFromMetadataHash: EnvHash([]corev1.EnvVar{{Name: "CONFIG", Value: run.value}}),
		}})
	}
	raw, err := MarshalStarted(all)
	require.NoError(w, err)
	w.pod.Annotations[keys.RuntimeContainersMeta] = raw
	for _, batch := range RestartRequests(w.pod) {
		for _, ask := range batch {
			run := w.runs[ask.Container.Name]
			if status(w.pod, ask.Container.Name).ContainerID == run.id && run.value != w.pod.Annotations["config"] &&
				(!ask.Image || run.image == ask.Container.Image) {
				w.logf("daemon: stops %+v", *run)
				w.start(Container(&w.seen.Spec, ask.Container.Name))
				w.report()
				return
			}
		}
	}
}

// reconcile does what a controller would.
func (w *envReplay) reconcile() {
	at, to := w.pod.Labels[keys.ControllerRevisionHash], fmt.Sprintf("web-%d", w.target)
	now := w.now
	switch {
	case at != to:
		var from int
		_, err := fmt.Sscanf(at, "web-%d", &from)
		require.NoError(w, err)
		update, why, ok := Diff(w.templates[from], w.templates[w.target], Options{Env: true})
		require.True(w, ok, why)
		if why, ok := update.CanApply(w.pod, w.daemon); !ok {
			require.False(w, w.daemon, why)
			w.logf("re-created: %s", why)
			w.create()
			return
		}
		if update.Restarts(w.pod) && !Closed(w.pod) {
			p, err := MarkUnready(w.pod, now)
			w.pod = apply(w.T, w.pod, p, err)
			return
		}
		ps, err := update.Write(w.pod, toRevision(to), now)
		w.pod = send(w.T, w.pod, ps, err)
		w.logf("written: %s, %s, config=%s, generation %d, observed %d, status %s, record %s", to, w.pod.Spec.Containers[0].Image,
			w.pod.Annotations["config"], w.pod.Generation, w.pod.Status.ObservedGeneration, w.pod.Status.ContainerStatuses[0].ContainerID,
			w.pod.Annotations[keys.InPlaceUpdateState])
	case Closed(w.pod):
		switch o := Progress(w.pod, now); {
		case o.Next:
			ps, err := Continue(w.pod, now)
			w.pod = send(w.T, w.pod, ps, err)
			w.logf("continued: %s, config=%s", w.pod.Spec.Containers[0].Image, w.pod.Annotations["config"])
		case o.Done || !Recorded(w.pod):
			p, err := MarkReady(w.pod, lifecycle.Enter(w.pod, pods.LifecycleNormal, now), now)
			w.pod = apply(w.T, w.pod, p, err)
			w.logf("done, status %s", w.pod.Status.ContainerStatuses[0].ContainerID)
		}
	}
}

// TestReplayOfEnv asserts that every container ends with the env of its template, regardless of which updates the kubelet missed and what
// somebody wrote beforehand.
func TestReplayOfEnv(t *testing.T) {
	t.Parallel()
	for seed := range uint64(200) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w := &envReplay{T: t, r: rand.New(rand.NewPCG(seed, 0)), daemon: seed%2 == 0, generations: seed%4 < 2, now: start}
			both := w.r.IntN(4) == 0
			for range 5 {
				w.templates = append(w.templates, w.template(both))
			}
			w.create()
			for range 80 {
				w.step()
			}
			w.finish()
		})
	}
}

// step performs a random next event.
func (w *envReplay) step() {
	switch w.r.IntN(12) {
	case 0, 1:
		w.target = w.r.IntN(len(w.templates))
		w.logf("wanted: web-%d", w.target)
	case 2:
		if to := w.r.IntN(len(w.templates)); w.pod.Labels[keys.ControllerRevisionHash] != fmt.Sprintf("web-%d", to) {
			w.target, w.pod.Annotations["config"] = to, w.templates[to].Annotations["config"]
			w.logf("wanted: web-%d, and written by hand: config=%s", to, w.pod.Annotations["config"])
			w.reconcile()
			w.reconcile()
		}
	case 3:
		w.seen = w.pod.DeepCopy()
		w.logf("kubelet: sees")
		if !w.generations {
			w.sync()
		}
	case 4:
		w.sync()
	case 5:
		w.report()
	case 6:
		if w.daemon {
			w.restart()
		}
	default:
		w.reconcile()
	}
}

func (w *envReplay) finish() {
	for i, t := range w.templates {
		w.logf("web-%d = %s %s %s", i, t.Spec.Containers[0].Image, t.Spec.Containers[1].Image, t.Annotations["config"])
	}
	for range 40 {
		w.reconcile()
		w.seen = w.pod.DeepCopy()
		w.sync()
		w.sync()
		if w.daemon {
			w.restart()
		}
		w.now = w.now.Add(time.Second)
	}
	w.now = w.now.Add(time.Minute)
	w.reconcile()
	w.reconcile()
	log := fmt.Sprintf("daemon %t, generations %t\n%s", w.daemon, w.generations, strings.Join(w.log, "\n"))
	require.Equal(w, fmt.Sprintf("web-%d", w.target), w.pod.Labels[keys.ControllerRevisionHash], log)
	require.False(w, Closed(w.pod), "%+v\n%s", Progress(w.pod, w.now), log)
	to := w.templates[w.target]
	for c := range containersOf(&to.Spec) {
		run := w.runs[c.Name]
		require.Equal(w, c.Image, run.image, log)
		if len(references(c)) > 0 {
			require.Equal(w, to.Annotations["config"], run.value, "%s\n%s", c.Name, log)
		}
	}
}
