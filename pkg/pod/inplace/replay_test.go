package inplace

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// replay is a pod, the templates that it is updated to, and what was done to it.
type replay struct {
	*testing.T
	r         *rand.Rand
	templates []*corev1.PodTemplateSpec
	target    int
	pod       *corev1.Pod
	now       time.Time
	log       []string
}

// randomTemplate returns a template with a container of launch priority 2, one without a priority, and a native sidecar. app reads metadata by
// env, and gets a new image whenever that metadata changes.
func randomTemplate(r *rand.Rand) *corev1.PodTemplateSpec {
	n := func() string { return strconv.Itoa(r.IntN(3)) }
	cpu := func() corev1.ResourceRequirements {
		return corev1.ResourceRequirements{Requests: list("cpu=1 memory=" + n() + "1Mi"), Limits: list("cpu=2")}
	}
	t := &corev1.PodTemplateSpec{}
	config := n()
	t.Labels = map[string]string{"app": "web", "tier": n()}
	t.Annotations = map[string]string{"config": config}
	if r.IntN(2) == 0 {
		t.Annotations["note"] = n()
	}
	policy := []corev1.ContainerResizePolicy{{ResourceName: corev1.ResourceMemory, RestartPolicy: corev1.RestartContainer}}
	t.Spec.Containers = []corev1.Container{
		{Name: "app", Image: "app:" + config + n(), Resources: cpu(), ResizePolicy: policy, Env: []corev1.EnvVar{
			reads("CONFIG", "metadata.annotations['config']"),
		}},
		{Name: "side", Image: "side:" + n(), Resources: cpu(), Env: []corev1.EnvVar{{Name: keys.EnvContainerPriority, Value: "2"}}},
	}
	t.Spec.InitContainers = []corev1.Container{
		{Name: "proxy", Image: "proxy:" + n(), Resources: cpu(), RestartPolicy: new(corev1.ContainerRestartPolicyAlways)},
	}
	return t
}

func (w *replay) revision(i int) string { return fmt.Sprintf("web-%d", i) }

// create creates the pod from the first template.
func (w *replay) create(gated bool) {
	w.pod = running(func(p *corev1.Pod) {
		from := w.templates[0]
		p.Labels, p.Annotations = maps.Clone(from.Labels), maps.Clone(from.Annotations)
		p.Labels[keys.ControllerRevisionHash], p.Labels[keys.LifecycleState] = w.revision(0), string(pods.LifecycleNormal)
		from.Spec.DeepCopyInto(&p.Spec)
		p.Spec.NodeName = "node-1"
		p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: "injected", Image: "x:1"})
		if gated {
			p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}}
		} else {
			p.Status.Conditions = p.Status.Conditions[:1]
		}
		p.Status.ContainerStatuses, p.Status.InitContainerStatuses = nil, nil
		for c := range containersOf(&p.Spec) {
			st := corev1.ContainerStatus{
				Name: c.Name, Image: c.Image, ImageID: "id-" + c.Image, ContainerID: "run://" + c.Name, Ready: true,
				Resources: c.Resources.DeepCopy(),
				State:     corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(start.Truncate(time.Second))}},
			}
			if isNativeSidecar(c) {
				p.Status.InitContainerStatuses = append(p.Status.InitContainerStatuses, st)
			} else {
				p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, st)
			}
		}
	})
}

// kubelet brings one container closer to the spec, and reports whether there was anything to do.
func (w *replay) kubelet() bool {
	for c := range containersOf(&w.pod.Spec) {
		st := status(w.pod, c.Name)
		switch {
		case st.Image != c.Image:
			st.Image, st.ImageID, st.ContainerID, st.Ready = c.Image, "id-"+c.Image, st.ContainerID+"+", false
			st.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(w.now.Truncate(time.Second))}
		case !hasResources(*st.Resources, c.Resources):
			st.Resources = c.Resources.DeepCopy()
		case !st.Ready:
			st.Ready = true
		default:
			continue
		}
		w.log = append(w.log, "kubelet: "+c.Name)
		return true
	}
	return false
}

// reconcile does what a controller would do, and reports whether there was anything to do. The controller may crash between the requests of one
// write.
func (w *replay) reconcile(crashes bool) bool {
	at := w.pod.Labels[keys.ControllerRevisionHash]
	var patches []podpatch.Patch
	var err error
	what := ""
	one := func(p podpatch.Patch, e error) { patches, err = []podpatch.Patch{p}, e }
	if at != w.revision(w.target) {
		var from int
		_, err := fmt.Sscanf(at, "web-%d", &from)
		require.NoError(w, err)
		update, why, ok := Diff(w.templates[from], w.templates[w.target], Options{Resources: true, Env: true})
		require.True(w, ok, why)
		why, ok = update.CanApply(w.pod, false)
		require.True(w, ok, "%s: nobody wrote to the pod by hand, so no container has to be restarted for its env\n%s", why, strings.Join(w.log, "\n"))
		if Gated(w.pod) && update.Restarts(w.pod) && !w.closed() {
			what = "mark unready"
			one(MarkUnready(w.pod, w.now))
		} else {
			what = "write " + w.revision(w.target)
			patches, err = update.Write(w.pod, toRevision(w.revision(w.target)), w.now)
			require.NoError(w, err)
		}
	} else if Closed(w.pod) {
		o := Progress(w.pod, w.now)
		switch {
		case o.Next:
			what = "continue"
			patches, err = Continue(w.pod, w.now)
		case o.Done || !Recorded(w.pod):
			what = "mark ready"
			for c := range containersOf(&w.pod.Spec) {
				st := status(w.pod, c.Name)
				require.True(w, st.Image == c.Image && hasResources(*st.Resources, c.Resources),
					"marked ready before %s runs what was written\n%s", c.Name, strings.Join(w.log, "\n"))
			}
			one(MarkReady(w.pod, lifecycle.Enter(w.pod, pods.LifecycleNormal, w.now), w.now))
		default:
			require.NotEmpty(w, o.Why)
			return false
		}
	} else {
		return false
	}
	require.NoError(w, err)
	require.Contains(w, string(patches[0].Data), `"resourceVersion":"7"`, "%s: applies to the observed version only", what)
	if crashes {
		patches = patches[:1]
	}
	w.log = append(w.log, fmt.Sprintf("%s: %d requests", what, len(patches)))
	for _, p := range patches {
		before := w.pod
		w.pod = apply(w.T, before, p, nil)
		w.check(before)
	}
	return true
}

func (w *replay) closed() bool {
	c := podpatch.Find(w.pod, keys.InPlaceUpdateReady)
	return c != nil && c.Status == corev1.ConditionFalse
}

// check asserts what no write may ever do.
func (w *replay) check(before *corev1.Pod) {
	log := strings.Join(w.log, "\n")
	restarts := Update{}
	for c := range containersOf(&before.Spec) {
		after := Container(&w.pod.Spec, c.Name)
		if after.Image != c.Image {
			set(&restarts.Images, c.Name, after.Image)
		}
	}
	if Gated(before) && len(restarts.Images) > 0 {
		require.True(w, w.closed(), "a container restarts in a pod in service\n%s", log)
	}
	if restarts.Images["app"] != "" && restarts.Images["side"] != "" {
		require.Fail(w, "two containers of different launch priority change at once", log)
	}
	require.Empty(w, RestartRequests(w.pod), log)
	require.Equal(w, "x:1", Container(&w.pod.Spec, "injected").Image)
}

func TestReplay(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			w := &replay{T: t, r: rand.New(rand.NewPCG(seed, 0)), now: start}
			for range 4 {
				w.templates = append(w.templates, randomTemplate(w.r))
			}
			w.create(w.r.IntN(4) > 0)
			for range 60 {
				w.now = w.now.Add(time.Second)
				switch w.r.IntN(8) {
				case 0:
					w.target = w.r.IntN(len(w.templates))
					w.log = append(w.log, "wanted: "+w.revision(w.target))
				case 1, 2, 3:
					w.kubelet()
				default:
					w.reconcile(w.r.IntN(3) == 0)
				}
			}
			w.finish()
		})
	}
}

// finish continues until there is nothing left to do, and then checks the pod.
func (w *replay) finish() {
	for range 100 {
		w.now = w.now.Add(time.Minute)
		if did, follows := w.reconcile(false), w.kubelet(); did || follows {
			continue
		}
		to := w.templates[w.target]
		log := strings.Join(w.log, "\n")
		require.Equal(w, w.revision(w.target), w.pod.Labels[keys.ControllerRevisionHash], log)
		require.False(w, Closed(w.pod), "%+v\n%s", Progress(w.pod, w.now), log)
		for c := range containersOf(&to.Spec) {
			current := Container(&w.pod.Spec, c.Name)
			require.Equal(w, c.Image, current.Image, log)
			require.True(w, hasResources(current.Resources, c.Resources), log)
		}
		for k, v := range to.Labels {
			require.Equal(w, v, w.pod.Labels[k], log)
		}
		require.Equal(w, to.Annotations["config"], w.pod.Annotations["config"], log)
		require.Empty(w, cmp.Diff(to.Annotations["note"], w.pod.Annotations["note"]), log)
		require.NotContains(w, w.pod.Annotations[keys.InPlaceUpdateState], `"next`, log)
		return
	}
	require.Fail(w, "the replay doesn't end", strings.Join(w.log, "\n"))
}

// FuzzRecords passes arbitrary pod annotations to all functions that read them: nothing may panic, and everything written must be valid for an
// API server.
func FuzzRecords(f *testing.F) {
	f.Add(`{"revision":"web-2","nextContainerResources":{"app":{"limits":{"cpu":"2"}}},"updateResources":true,
		"containerBatchesRecord":[{"timestamp":null,"containers":["app","gone"]}]}`, inGrace,
		`{"containers":[{"name":"app","containerID":"run://app-0"}]}`, "web-2")
	f.Add(`{"nextContainerRefMetadata":{"app":{"labels":{"tier":"two"}}},"lastContainerStatuses":{"gone":{}}}`, `{"metaDataPatch":"e30="}`, `{`, "")
	f.Add(`{"startedWith":{"app":null,"gone":{"x:1":1}},"lastContainerStatuses":{"app":{}},"nextContainerImages":{"app":"app:3"}}`, "", "", "web-2")
	f.Fuzz(func(t *testing.T, state, grace, reported, revision string) {
		for _, text := range []*string{&state, &grace, &reported, &revision} {
			*text = strings.ToValidUTF8(*text, "?") // An API server returns nothing else.
		}
		pod := running(func(p *corev1.Pod) {
			p.Status.Conditions[1].Status = corev1.ConditionFalse
			p.Spec.Containers[0].Env = []corev1.EnvVar{reads("TIER", "metadata.labels['tier']"), {Name: keys.EnvContainerBarrier}}
			p.Labels[keys.ControllerRevisionHash] = revision
			p.Annotations[keys.InPlaceUpdateState], p.Annotations[keys.InPlaceUpdateGrace] = state, grace
			p.Annotations[keys.RuntimeContainersMeta] = reported
		})
		o := Progress(pod, start)
		require.False(t, o.Done && o.Next)
		for _, write := range []func() ([]podpatch.Patch, error){
			func() ([]podpatch.Patch, error) { return Continue(pod, start) },
			func() ([]podpatch.Patch, error) { return bothImages().Write(pod, toRevision("web-3"), start) },
			func() ([]podpatch.Patch, error) {
				u := bothImages()
				u.Env = map[string]string{"app": "label tier by env TIER"}
				return u.Write(pod, toRevision("web-3"), start)
			},
		} {
			patches, err := write()
			require.NoError(t, err)
			got := pod
			for _, p := range patches {
				got = apply(t, got, p, nil)
			}
			Progress(got, start)
		}
	})
}
