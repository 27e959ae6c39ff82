package cloneset

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/pkg/workload/podcontrol"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
)

// hookTest is a CloneSet with hooks, its pods, a kubelet for them and a hook handler. Plans and patches are real.
type hookTest struct {
	t     *testing.T
	o     observed
	now   time.Time
	pods  map[string]*corev1.Pod
	since map[string]time.Time // when the handler, or the kubelet, was last due to act
	lazy  time.Duration        // how long they take
	made  int
	story strings.Builder
}

const handlerLabel = "example.com/held"

func newHookTest(t *testing.T, set *testkit.CloneSetBuilder, lazy time.Duration) *hookTest {
	t.Helper()
	m := &hookTest{t: t, now: now, pods: map[string]*corev1.Pod{}, since: map[string]time.Time{}, lazy: lazy}
	m.o, _ = observedOf(t, set)
	return m
}

// template changes the template, and so the wanted revision.
func (m *hookTest) template(change func(*corev1.PodTemplateSpec)) {
	change(&m.o.set.Spec.Template)
	m.o.wanted = revisionOf(m.t, m.o.set, 0)
}

// reconcile plans, writes and computes the status.
func (m *hookTest) reconcile() planned {
	m.o.pods = nil
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		m.o.pods = append(m.o.pods, m.pods[name])
	}
	p := plan(m.o, m.now)
	require.Empty(m.t, p.InvalidSpec)
	fmt.Fprintf(&m.story, "%s %s\n%s", m.now.Format(time.TimeOnly), m.describe(), text(p))
	if r := p.Revision; r.Change != revision.Keep {
		m.o.history = slices.DeleteFunc(m.o.history, func(h *appsv1.ControllerRevision) bool { return h.Name == r.Revision.Name })
		m.o.history = append(m.o.history, r.Revision)
	}
	for _, s := range p.Steps {
		switch s.Kind { //nolint:exhaustive // The others patch the pod.
		case rollout.StepDelete:
			require.False(m.t, lifecycle.Hooked(m.o.set.Spec.Lifecycle.PreDelete, s.Pod.Object), "%s is deleted while a hook holds it", s.Pod.Key)
			m.pods[s.Pod.Key] = s.Pod.Object.DeepCopy()
			m.pods[s.Pod.Key].DeletionTimestamp = &metav1.Time{Time: m.now}
		case rollout.StepCreate:
			m.create(p, s)
		default:
			m.write(p, s)
		}
	}
	s, _ := status(m.o, p, applied{}, m.now)
	m.o.set.Status = s
	return p
}

func (m *hookTest) write(p planned, s podset.Step) {
	m.t.Helper()
	name := s.Pod.Key
	before := m.pods[name]
	patches, err := (&Reconciler{Controller: &podcontrol.Controller{Controller: &control.Controller{}}}).applier(m.o.set).Patches(&p.Plan, s, m.now)
	require.NoError(m.t, err)
	for _, p := range patches {
		m.patch(name, p)
	}
	m.check(s.Kind, before, m.pods[name])
	m.since[name] = m.now
}

func (m *hookTest) patch(name string, p podpatch.Patch) {
	m.t.Helper()
	raw, err := json.Marshal(m.pods[name])
	require.NoError(m.t, err)
	raw, err = strategicpatch.StrategicMergePatch(raw, p.Data, corev1.Pod{})
	require.NoError(m.t, err)
	pod := &corev1.Pod{}
	require.NoError(m.t, json.Unmarshal(raw, pod))
	m.pods[name] = pod
}

// check fails if a write skips a hook.
func (m *hookTest) check(step rollout.StepKind, before, after *corev1.Pod) {
	m.t.Helper()
	l := m.o.set.Spec.Lifecycle
	from, to := lifecycle.Of(before), lifecycle.Of(after)
	if to == pods.LifecycleUpdating && from != to && step != rollout.StepCancelDelete {
		require.False(m.t, lifecycle.Hooked(l.InPlaceUpdate, before), "%s of %s while a hook holds it", step, before.Name)
	}
	if to != pods.LifecycleNormal || from == to {
		return
	}
	switch from {
	case pods.LifecyclePreparingNormal:
		require.True(m.t, lifecycle.Answered(l.PreNormal, before), "%s becomes Normal before its hook", before.Name)
	case pods.LifecycleUpdating, pods.LifecycleUpdated, pods.LifecyclePreparingUpdate:
		require.True(m.t, lifecycle.Answered(l.InPlaceUpdate, before), "%s becomes Normal before its handlers are back", before.Name)
	case pods.LifecycleNormal, pods.LifecyclePreparingDelete:
		require.Fail(m.t, "a pod skips a state", "%s: %s", before.Name, from)
	}
}

func (m *hookTest) create(p planned, s podset.Step) {
	m.made++
	id := fmt.Sprintf("p%03d", m.made)
	template, name := &m.o.set.Spec.Template, p.Revision.Revision.Name
	if s.Old {
		var err error
		template, err = revision.PodTemplate(p.Current)
		require.NoError(m.t, err)
		name = p.Current.Name
	}
	pod := newPod(m.o.set, m.o.gates, name, template, id, m.now)
	pod.UID, pod.CreationTimestamp = types.UID("uid-"+id), metav1.NewTime(m.now)
	pod.Spec.NodeName = "n1"
	pod.Status.Phase = corev1.PodRunning
	m.pods[pod.Name], m.since[pod.Name] = pod, m.now
}

// live lets the kubelet and, if handle is set, the hook handler act.
func (m *hookTest) live(userCares bool) (acted bool) {
	m.now = m.now.Add(time.Second)
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		before, err := json.Marshal(m.pods[name])
		require.NoError(m.t, err)
		pod := m.pods[name].DeepCopy()
		if pod.DeletionTimestamp != nil {
			delete(m.pods, name)
			acted = true
			continue
		}
		due := m.now.Sub(m.since[name]) >= m.lazy
		if due {
			m.run(pod)
			if userCares {
				m.serve(pod)
			}
		}
		m.ready(pod)
		after, err := json.Marshal(pod)
		require.NoError(m.t, err)
		if string(before) != string(after) {
			acted, m.pods[name] = true, pod
		}
		acted = acted || !due
	}
	return acted
}

// run starts the container with its image.
func (m *hookTest) run(pod *corev1.Pod) {
	image := pod.Spec.Containers[0].Image
	if st := pod.Status.ContainerStatuses; len(st) == 1 && st[0].Image == image {
		return
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{
		Name: pod.Spec.Containers[0].Name, Image: image, ImageID: "id-of-" + image, Ready: true,
		ContainerID: fmt.Sprintf("run://%s/%s/%d", pod.Name, image, m.now.Unix()),
		State:       corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(m.now)}},
	}}
}

// serve removes the label from a pod that is being prepared, and adds it to one that is updated.
func (m *hookTest) serve(pod *corev1.Pod) {
	switch lifecycle.Of(pod) {
	case pods.LifecyclePreparingUpdate, pods.LifecyclePreparingDelete:
		delete(pod.Labels, handlerLabel)
		pod.Finalizers = nil
	case pods.LifecycleUpdated, pods.LifecyclePreparingNormal:
		pod.Labels[handlerLabel] = "yes"
		pod.Finalizers = []string{handlerLabel}
	case pods.LifecycleNormal, pods.LifecycleUpdating:
	}
}

// ready sets the condition Ready: the container runs the spec's image and all gates are open.
func (m *hookTest) ready(pod *corev1.Pod) {
	open := corev1.ConditionTrue
	if st := pod.Status.ContainerStatuses; len(st) == 0 || st[0].Image != pod.Spec.Containers[0].Image {
		open = corev1.ConditionFalse
	}
	for _, g := range pod.Spec.ReadinessGates {
		if c := podpatch.Find(pod, g.ConditionType); c == nil || c.Status != corev1.ConditionTrue {
			open = corev1.ConditionFalse
		}
	}
	c := podpatch.Find(pod, corev1.PodReady)
	if c == nil {
		pod.Status.Conditions = append(pod.Status.Conditions, corev1.PodCondition{Type: corev1.PodReady})
		c = podpatch.Find(pod, corev1.PodReady)
	}
	if c.Status != open {
		c.Status, c.LastTransitionTime = open, metav1.NewTime(m.now)
	}
}

func (m *hookTest) describe() string {
	out := make([]string, 0, len(m.pods))
	for _, name := range slices.Sorted(maps.Keys(m.pods)) {
		p := m.pods[name]
		held := ""
		if p.Labels[handlerLabel] != "" {
			held = " held"
		}
		if p.DeletionTimestamp != nil {
			held += " going"
		}
		out = append(out, fmt.Sprintf("[%s %s %s%s]", name, lifecycle.Of(p), p.Spec.Containers[0].Image, held))
	}
	return strings.Join(out, " ")
}

// available returns how many pods count as available.
func (m *hookTest) available() int {
	n := 0
	for _, p := range m.pods {
		if podset.View(p, rulesOf(&m.o.set.Spec), m.now).Available && p.DeletionTimestamp == nil {
			n++
		}
	}
	return n
}

// FuzzHooks makes random changes to a CloneSet with hooks while it is updated, and then lets it complete.
func FuzzHooks(f *testing.F) {
	for i := range uint64(50) {
		f.Add(i, uint8(i*37))
	}
	f.Fuzz(runHooks)
}

func runHooks(t *testing.T, seed uint64, flags uint8) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	hook := func(bit uint8) *pods.LifecycleHook {
		if flags&bit == 0 {
			return nil
		}
		return &pods.LifecycleHook{
			LabelsHandler: map[string]string{handlerLabel: "yes"}, FinalizersHandler: []string{handlerLabel},
			MarkPodNotReady: flags&8 != 0,
		}
	}
	const unavailable = 2
	m := newHookTest(t, web(4).Policy(appsv1beta1.PodInPlaceIfPossible).Rolling("0", "2", "0").Spec(func(s *appsv1beta1.CloneSetSpec) {
		s.Lifecycle = &pods.Lifecycle{InPlaceUpdate: hook(1), PreDelete: hook(2), PreNormal: hook(4)}
		s.Template.Labels[handlerLabel], s.Template.Finalizers = "yes", []string{handlerLabel}
		s.ScaleStrategy.ExcludePreparingDelete = flags&16 != 0
		s.UpdateStrategy.RollingUpdate.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{GracePeriodSeconds: int32(flags >> 7)}
	}), time.Duration(r.IntN(3))*time.Second)
	m.o.gates.PartitionRollback = flags&32 != 0
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(m.story.String())
		}
	})
	rolling := m.o.set.Spec.UpdateStrategy.RollingUpdate
	disturb := []func(){
		func() {
			m.template(func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].Image = []string{"app:1", "app:2", "app:3"}[r.IntN(3)]
			})
		},
		func() {
			m.template(func(p *corev1.PodTemplateSpec) {
				p.Spec.Containers[0].Command = []string{[]string{"serve", "dance"}[r.IntN(2)]}
			})
		},
		func() { m.o.set.Spec.Replicas = new(2 + r.Int32N(4)) },
		func() { rolling.Partition = new(intstr.FromInt32(r.Int32N(4))) },
		func() { rolling.Paused = !rolling.Paused },
		func() { rolling.MaxSurge = new(intstr.FromInt32(r.Int32N(3))) },
		func() {
			if names := slices.Sorted(maps.Keys(m.pods)); len(names) > 0 {
				m.pods[names[r.IntN(len(names))]].Labels[keys.SpecifiedDelete] = "true"
			}
		},
	}
	for range 60 {
		if r.IntN(5) == 0 {
			disturb[r.IntN(len(disturb))]()
		}
		before := m.available()
		m.reconcile()
		floor := replicas(&m.o.set.Spec) - unavailable
		// Pods above replicas may be deleted regardless of availability; readiness counts in that case.
		if len(m.pods) <= replicas(&m.o.set.Spec) {
			require.GreaterOrEqual(t, m.available(), min(before, floor), "the budget was exceeded")
		}
		m.live(r.IntN(3) > 0)
	}
	rolling.Paused = false
	for range 300 {
		p := m.reconcile()
		if acted := m.live(true); !acted && len(p.Steps) == 0 && p.Recheck == 0 {
			m.checkRest()
			return
		}
	}
	require.Fail(t, "it never completes")
}

func (m *hookTest) checkRest() {
	m.t.Helper()
	want := replicas(&m.o.set.Spec)
	require.Len(m.t, m.pods, want)
	require.Equal(m.t, want, m.available(), "a pod is stuck: %s", m.describe())
	s := m.o.set.Status
	require.GreaterOrEqual(m.t, s.UpdatedReplicas, s.ExpectedUpdatedReplicas)
	for _, p := range m.pods {
		require.Equal(m.t, pods.LifecycleNormal, lifecycle.Of(p))
		if c := podpatch.Find(p, keys.KruisePodReady); c != nil {
			require.Equal(m.t, corev1.ConditionTrue, c.Status)
			require.Empty(m.t, c.Message)
		}
	}
}
