package inplace

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC)

// running returns a gated pod at revision web-1 in service, with an injected container.
func running(fs ...func(*corev1.Pod)) *corev1.Pod {
	at := metav1.NewTime(start.Add(-time.Hour).Truncate(time.Second))
	status := func(name, image string) corev1.ContainerStatus {
		return corev1.ContainerStatus{
			Name: name, Image: image, ImageID: image + "@sha256:aa", ContainerID: "run://" + name + "-0", Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: at}},
		}
	}
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-a", Namespace: "shop", UID: "u1", ResourceVersion: "7", Generation: 1,
			Labels: map[string]string{
				"app": "web", keys.ControllerRevisionHash: "web-1", keys.PodTemplateHash: "1", keys.LifecycleState: "Normal",
			},
			Annotations: map[string]string{"note": "one", keys.InPlaceUpdateStateOld: "{}", keys.LifecycleTimestamp: "2026-01-01T00:00:00Z"},
		},
		Spec: corev1.PodSpec{
			ReadinessGates: []corev1.PodReadinessGate{{ConditionType: keys.InPlaceUpdateReady}},
			Containers:     []corev1.Container{{Name: "app", Image: "app:1"}, {Name: "side", Image: "side:1"}, {Name: "injected", Image: "x:1"}},
		},
		Status: corev1.PodStatus{
			Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionTrue, LastTransitionTime: at},
				{Type: keys.InPlaceUpdateReady, Status: corev1.ConditionTrue, LastTransitionTime: at},
				{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: at},
			},
			ContainerStatuses: []corev1.ContainerStatus{status("app", "app:1"), status("side", "side:1"), status("injected", "x:1")},
		},
	}
	for _, f := range fs {
		f(p)
	}
	return p
}

// toRevision returns the label changes of a CloneSet pod that moves to a revision.
func toRevision(name string) map[string]*string {
	return map[string]*string{keys.ControllerRevisionHash: &name, keys.PodTemplateHash: new(name[strings.LastIndexByte(name, '-')+1:])}
}

// apply does what an API server does with a patch: the status subresource changes status and metadata, the main resource everything except the
// status.
func apply(t *testing.T, pod *corev1.Pod, p podpatch.Patch, err error) *corev1.Pod {
	t.Helper()
	require.NoError(t, err)
	require.Equal(t, types.StrategicMergePatchType, p.Type)
	before, err := json.Marshal(pod)
	require.NoError(t, err)
	after, err := strategicpatch.StrategicMergePatch(before, p.Data, corev1.Pod{})
	require.NoError(t, err)
	var out corev1.Pod
	require.NoError(t, json.Unmarshal(after, &out))
	require.Equal(t, pod.UID, out.UID, "the patch names the pod's UID")
	switch p.Subresource {
	case "status":
		require.True(t, equality.Semantic.DeepEqual(pod.Spec, out.Spec), "a write to the status changes no spec")
	case "resize":
		require.True(t, equality.Semantic.DeepEqual(pod.ObjectMeta, out.ObjectMeta), "a resize changes no metadata")
		require.True(t, equality.Semantic.DeepEqual(pod.Status, out.Status), "a resize changes no status")
		require.True(t, equality.Semantic.DeepEqual(sizeless(pod.Spec), sizeless(out.Spec)), "a resize changes resources only")
		out.Generation++
	default:
		require.Empty(t, p.Subresource)
		require.True(t, equality.Semantic.DeepEqual(pod.Status, out.Status), "a write to the pod changes no status")
		require.True(t, equality.Semantic.DeepEqual(sizes(pod), sizes(&out)), "a write to the pod changes no resources")
		out.Generation++
	}
	return &out
}

// sizes returns the resources of all containers.
func sizes(pod *corev1.Pod) []corev1.ResourceRequirements {
	var out []corev1.ResourceRequirements
	for c := range containersOf(&pod.Spec) {
		out = append(out, c.Resources)
	}
	return out
}

func sizeless(s corev1.PodSpec) *corev1.PodSpec {
	out := s.DeepCopy()
	for c := range containersOf(out) {
		c.Resources = corev1.ResourceRequirements{}
	}
	return out
}

// send applies patches in order.
func send(t *testing.T, pod *corev1.Pod, patches []podpatch.Patch, err error) *corev1.Pod {
	t.Helper()
	for _, p := range patches {
		pod = apply(t, pod, p, err)
	}
	require.NoError(t, err)
	return pod
}

// since returns the outcome with what it waits for written at that time.
func (o Outcome) since(at time.Time) Outcome {
	o.Since = at.UTC().Truncate(time.Second)
	return o
}

// restart does what the kubelet does: containers with another image are restarted, all others are resized.
func restart(p *corev1.Pod, at time.Time) {
	for c := range containersOf(&p.Spec) {
		st := status(p, c.Name)
		if c.Image != st.Image {
			st.Image, st.ImageID, st.ContainerID = c.Image, c.Image+"@sha256:aa", st.ContainerID+"-1"
			st.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(at.Truncate(time.Second))}}
		}
		if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
			st.Resources = c.Resources.DeepCopy()
		}
	}
}

// TestThreeWrites follows a pod through an update; the golden file holds the writes and the pod after each.
func TestThreeWrites(t *testing.T) {
	t.Parallel()
	two := "two"
	update := Update{
		Images:      map[string]string{"app": "app:2", "side": "side:2"},
		Labels:      map[string]*string{"tier": &two},
		Annotations: map[string]*string{"note": nil, "more": &two},
	}
	pod, now := running(), start
	var out []byte
	write := func(title string, p podpatch.Patch, err error) {
		pod = apply(t, pod, p, err)
		out = append(out, "# "+title+": patch of "+cmp.Or(p.Subresource, "pod")+"\n"...)
		y, err := yaml.JSONToYAML(p.Data)
		require.NoError(t, err)
		out = append(out, y...)
		y, err = yaml.Marshal(map[string]any{"metadata": pod.ObjectMeta, "conditions": pod.Status.Conditions, "containers": pod.Spec.Containers})
		require.NoError(t, err)
		out = append(out, "# "+title+": pod\n"...)
		out = append(out, y...)
		now = now.Add(time.Second)
	}

	require.False(t, Closed(pod))
	p, err := MarkUnready(pod, now)
	write("MarkUnready", p, err)
	require.True(t, Closed(pod))
	require.False(t, Recorded(pod))

	written := now
	ps, err := update.Write(pod, toRevision("web-2"), now)
	require.Len(t, ps, 1)
	write("Write", ps[0], err)
	require.True(t, Closed(pod))
	require.True(t, Recorded(pod))
	require.Equal(t, Outcome{Why: "container app still has app:1"}.since(written), Progress(pod, now))

	restart(pod, now)
	require.Equal(t, Outcome{Done: true}, Progress(pod, now))
	p, err = MarkReady(pod, lifecycle.Enter(pod, pods.LifecycleNormal, now), now)
	write("MarkReady", p, err)
	require.False(t, Closed(pod))
	require.True(t, Recorded(pod))

	golden.Equal(t, "three-writes", string(out))
}

func TestMarkUnreadyOfAPodThatIsNotReady(t *testing.T) {
	t.Parallel()
	pod := running(func(p *corev1.Pod) { p.Status.Conditions[2].Status = corev1.ConditionFalse })
	p, err := MarkUnready(pod, start)
	got := apply(t, pod, p, err)
	require.True(t, equality.Semantic.DeepEqual(pod.Status.Conditions[2], got.Status.Conditions[2]))
}

func TestWriteOfMetadataOnly(t *testing.T) {
	t.Parallel()
	two := "two"
	pod := running()
	ps, err := Update{Labels: map[string]*string{"tier": &two}}.Write(pod, toRevision("web-2"), start)
	got := send(t, pod, ps, err)
	require.False(t, Closed(got), "the pod stays in service")
	require.Equal(t, "two", got.Labels["tier"])
	require.Equal(t, "web-2", got.Labels[keys.ControllerRevisionHash])
	require.Equal(t, Outcome{Done: true}, Progress(got, start))
}

func TestMarkReadyOfANewPodOpensItsGate(t *testing.T) {
	t.Parallel()
	pod := running(func(p *corev1.Pod) {
		p.Status.Conditions = p.Status.Conditions[:1]
		p.Labels[keys.LifecycleState] = "PreparingNormal"
	})
	p, err := MarkReady(pod, lifecycle.Enter(pod, pods.LifecycleNormal, start), start)
	require.NotContains(t, string(p.Data), "resourceVersion", "no gate was closed, so any version will do")
	got := apply(t, pod, p, err)
	require.Equal(t, corev1.ConditionTrue, podpatch.Find(got, keys.InPlaceUpdateReady).Status)
	require.Equal(t, "Normal", got.Labels[keys.LifecycleState])
}

func TestMarkReadyOfAClosedPodAppliesToTheObservedVersionOnly(t *testing.T) {
	t.Parallel()
	pod := running()
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	p, err = MarkReady(pod, lifecycle.Enter(pod, pods.LifecycleNormal, start), start)
	require.NoError(t, err)
	require.Contains(t, string(p.Data), `"resourceVersion":"7"`)
}

func TestAPodWithoutTheGateIsUpdatedByItsLifecycle(t *testing.T) {
	t.Parallel()
	pod := running(func(p *corev1.Pod) { p.Spec.ReadinessGates, p.Status.Conditions = nil, p.Status.Conditions[:1] })
	ps, err := Update{Images: map[string]string{"app": "app:2"}}.Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	require.True(t, Closed(pod))
	p, err := MarkReady(pod, lifecycle.Enter(pod, pods.LifecycleNormal, start), start)
	pod = apply(t, pod, p, err)
	require.False(t, Closed(pod))
	require.Len(t, pod.Status.Conditions, 1, "no condition is added without the gate")
}

// TestAnUpdateDuringAnotherOne writes the second update before the containers run the first.
func TestAnUpdateDuringAnotherOne(t *testing.T) {
	t.Parallel()
	pod := running()
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	ps, err := Update{Images: map[string]string{"app": "app:2", "side": "side:2"}}.Write(pod, toRevision("web-2"), start)
	pod = send(t, pod, ps, err)
	ps, err = Update{Images: map[string]string{"app": "app:3"}}.Write(pod, toRevision("web-3"), start.Add(time.Minute))
	pod = send(t, pod, ps, err)

	app := status(pod, "app")
	app.Image, app.ImageID, app.ContainerID = "app:2", "app:2@sha256:aa", "run://app-1"
	app.State.Running.StartedAt = metav1.NewTime(start.Add(time.Minute))
	o := Progress(pod, start.Add(time.Minute))
	require.False(t, o.Done, "the image ID belongs to the previous update")
	require.Equal(t, "container app was restarted with app:2, which may be the old image", o.Why)

	app.Image, app.ImageID = "app:3", "app:3@sha256:aa"
	require.Equal(t, "container side still has side:1", Progress(pod, start.Add(time.Minute)).Why,
		"changes of the previous update count as well")
	restart(pod, start)
	require.True(t, Progress(pod, start.Add(time.Minute)).Done)
}

// The metadata patch is base64 in the annotation: {"metadata":{"labels":{"tier":"two"}}}.
const inGrace = `{"revision":"web-2","containerImages":{"app":"app:2"},"graceSeconds":30,` +
	`"metaDataPatch":"eyJtZXRhZGF0YSI6eyJsYWJlbHMiOnsidGllciI6InR3byJ9fX0="}`

func TestAnUpdateLeftInItsGracePeriodIsWritten(t *testing.T) {
	t.Parallel()
	for _, key := range []string{keys.InPlaceUpdateGrace, keys.InPlaceUpdateGraceOld} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			pod := running(func(p *corev1.Pod) {
				p.Annotations[key] = inGrace
				p.Annotations[keys.InPlaceUpdateState] = `{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z"}`
				p.Labels[keys.ControllerRevisionHash] = "web-2"
				p.Status.Conditions[1].Status = corev1.ConditionFalse
			})
			at := start.Truncate(time.Second)
			require.Equal(t, Outcome{
				Why: "the grace period before the update is not over", Since: at, ChangesAt: at.Add(30 * time.Second),
			}, Progress(pod, at.Add(29*time.Second)))
			now := at.Add(30 * time.Second)
			require.True(t, Progress(pod, now).Next)

			ps, err := Continue(pod, now)
			got := send(t, pod, ps, err)
			require.Equal(t, "app:2", got.Spec.Containers[0].Image)
			require.Equal(t, "two", got.Labels["tier"])
			require.Equal(t, "web-2", got.Labels[keys.ControllerRevisionHash])
			require.NotContains(t, got.Annotations, key)
			require.Equal(t, Outcome{Why: "container app still has app:1"}.since(now), Progress(got, now))
			restart(got, now)
			require.True(t, Progress(got, now).Done)

			ps, err = Update{Images: map[string]string{"side": "side:3"}}.Write(pod, toRevision("web-3"), now)
			got = send(t, pod, ps, err)
			require.Equal(t, "app:2", got.Spec.Containers[0].Image, "another update writes what the first one left")
			require.NotContains(t, got.Annotations, key)
		})
	}
}

func TestAVeryLongGracePeriodIsNotOverAtOnce(t *testing.T) {
	t.Parallel()
	pod := running(func(p *corev1.Pod) {
		p.Annotations[keys.InPlaceUpdateGrace] = `{"revision":"web-2","containerImages":{"app":"app:2"},"graceSeconds":10000000000}`
		p.Annotations[keys.InPlaceUpdateState] = `{"revision":"web-2","updateTimestamp":"2026-01-02T03:04:05Z"}`
	})
	require.Equal(t, "the grace period before the update is not over", Progress(pod, start.Add(time.Hour)).Why)
}

func TestDrained(t *testing.T) {
	t.Parallel()
	pod := running()
	require.Zero(t, Drained(pod, time.Minute), "an open gate has no drain period")
	p, err := MarkUnready(pod, start)
	pod = apply(t, pod, p, err)
	require.Zero(t, Drained(pod, 0))
	require.Equal(t, start.Truncate(time.Second).Add(31*time.Second), Drained(pod, 30*time.Second).UTC())
	ps, err := Update{Images: map[string]string{"app": "app:2"}}.Write(pod, toRevision("web-2"), start)
	require.Zero(t, Drained(send(t, pod, ps, err), time.Minute), "changes that are written don't wait any longer")
}
