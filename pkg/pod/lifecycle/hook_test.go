package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"

	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// handler returns a hook with one label and one finalizer.
func handler(name string) *pods.LifecycleHook {
	return &pods.LifecycleHook{
		LabelsHandler: map[string]string{name: "on"}, FinalizersHandler: []string{"example.com/" + name},
	}
}

func markNotReady(h *pods.LifecycleHook) *pods.LifecycleHook {
	h.MarkPodNotReady = true
	return h
}

// pod returns a ready pod in a state, changed by each of fs.
func pod(state pods.LifecycleState, fs ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web-a", UID: "uid-a", ResourceVersion: "7",
			Labels: map[string]string{}, Annotations: map[string]string{},
		},
		Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(start)},
		}},
	}
	if state != "" {
		p.Labels[keys.LifecycleState] = string(state)
	}
	for _, f := range fs {
		f(p)
	}
	return p
}

func label(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Labels[name] = "on" } }

func finalizer(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Finalizers = append(p.Finalizers, "example.com/"+name) }
}

// handled adds all handlers of a hook.
func handled(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		label(name)(p)
		finalizer(name)(p)
	}
}

func gated(p *corev1.Pod) {
	p.Spec.ReadinessGates = append(p.Spec.ReadinessGates, corev1.PodReadinessGate{ConditionType: keys.KruisePodReady})
}

func blockedBy(message string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		gated(p)
		p.Status.Conditions = append(p.Status.Conditions, corev1.PodCondition{
			Type: keys.KruisePodReady, Status: corev1.ConditionFalse, Message: message,
		})
	}
}

// apply does what the API server does with a patch.
func apply(t *testing.T, p *corev1.Pod, patch podpatch.Patch, err error) *corev1.Pod {
	t.Helper()
	require.NoError(t, err)
	require.Equal(t, podpatch.Status, patch.Subresource)
	before, err := json.Marshal(p)
	require.NoError(t, err)
	after, err := strategicpatch.StrategicMergePatch(before, patch.Data, corev1.Pod{})
	require.NoError(t, err)
	var out corev1.Pod
	require.NoError(t, json.Unmarshal(after, &out))
	return &out
}

func TestHookedAndAnswered(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		hook             *pods.LifecycleHook
		pod              *corev1.Pod
		hooked, answered bool
	}{
		{"without a hook nothing is held", nil, pod(""), false, true},
		{"nor by a hook without handlers", &pods.LifecycleHook{}, pod(""), false, true},
		{"the pod has none of the handlers", handler("a"), pod(""), false, false},
		{"one of two labels holds, but doesn't answer", handler("a"), pod("", label("a")), true, false},
		{"so does one of two finalizers", handler("a"), pod("", finalizer("a")), true, false},
		{"all handlers hold and answer", handler("a"), pod("", handled("a")), true, true},
		{
			"a label with another value is not a handler",
			&pods.LifecycleHook{LabelsHandler: map[string]string{"a": "off"}}, pod("", label("a")), false, false,
		},
		{
			"a missing label is not the same as an empty one",
			&pods.LifecycleHook{LabelsHandler: map[string]string{"a": ""}}, pod(""), false, false,
		},
		{"a pod without labels is released", handler("a"), &corev1.Pod{}, false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.hooked, Hooked(tc.hook, tc.pod), "hooked")
			require.Equal(t, tc.answered, Answered(tc.hook, tc.pod), "answered")
		})
	}
}

func TestInService(t *testing.T) {
	t.Parallel()
	all := &pods.Lifecycle{PreDelete: handler("del"), InPlaceUpdate: handler("upd"), PreNormal: handler("new")}
	for _, tc := range []struct {
		name  string
		hooks *pods.Lifecycle
		pod   *corev1.Pod
		want  pods.LifecycleState
	}{
		{"a new pod goes into service if there is no hook", nil, pod(pods.LifecyclePreparingNormal), pods.LifecycleNormal},
		{"a new pod waits for preNormal", all, pod(pods.LifecyclePreparingNormal, label("new")), pods.LifecyclePreparingNormal},
		{"a new pod goes into service when preNormal is answered", all, pod(pods.LifecyclePreparingNormal, handled("new")), pods.LifecycleNormal},
		{"a pod in service stays", all, pod(pods.LifecycleNormal), pods.LifecycleNormal},
		{"a pod without a state is in service", all, pod(""), pods.LifecycleNormal},
		{"a pod in an unknown state goes into service", all, pod("Happy"), pods.LifecycleNormal},
		{"#1156: a pod returns to service if its hook holds it when the update is reverted", all, pod(pods.LifecyclePreparingUpdate, handled("upd")), pods.LifecycleNormal},
		{"#1156: a pod that was released for an update that is canceled waits for the hook again", all, pod(pods.LifecyclePreparingUpdate), pods.LifecycleUpdated},
		{"#1156: also if only some handlers were removed", all, pod(pods.LifecyclePreparingUpdate, label("upd")), pods.LifecycleUpdated},
		{"an updated pod has to wait for its hook", all, pod(pods.LifecycleUpdating), pods.LifecycleUpdated},
		{"an updated pod that was never released goes into service", all, pod(pods.LifecycleUpdating, handled("upd")), pods.LifecycleNormal},
		{"an updated pod goes into service at once if there is no hook", &pods.Lifecycle{PreDelete: handler("del")}, pod(pods.LifecycleUpdating), pods.LifecycleNormal},
		{"an updated pod waits until its hook answers", all, pod(pods.LifecycleUpdated, finalizer("upd")), pods.LifecycleUpdated},
		{"an updated pod goes into service when its hook answers", all, pod(pods.LifecycleUpdated, handled("upd")), pods.LifecycleNormal},
		{"#1156: an updated pod whose hook was removed from the workload goes into service", nil, pod(pods.LifecycleUpdated), pods.LifecycleNormal},
		{"a pod whose deletion is canceled starts again", all, pod(pods.LifecyclePreparingDelete, handled("del")), pods.LifecyclePreparingNormal},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := HooksOf(tc.hooks)
			require.Equal(t, tc.want, h.InService(tc.pod))
			p, err := h.Serve(tc.pod, start).Patch(tc.pod, podpatch.Status)
			require.Equal(t, tc.want, Of(apply(t, tc.pod, p, err)))
		})
	}
}

func TestHolds(t *testing.T) {
	t.Parallel()
	all := &pods.Lifecycle{PreDelete: handler("del"), InPlaceUpdate: handler("upd"), PreNormal: handler("new")}
	for _, tc := range []struct {
		name           string
		hooks          *pods.Lifecycle
		pod            *corev1.Pod
		update, remove bool
	}{
		{"nothing without hooks", nil, pod(pods.LifecycleNormal, handled("upd"), handled("del")), false, false},
		{"a handler of inPlaceUpdate holds an update", all, pod(pods.LifecycleNormal, label("upd")), true, false},
		{"a handler of preDelete holds a deletion", all, pod(pods.LifecycleNormal, finalizer("del")), false, true},
		{"preNormal holds neither of them", all, pod(pods.LifecycleNormal, handled("new")), false, false},
		{"a released pod is not held", all, pod(pods.LifecyclePreparingUpdate), false, false},
		{"#1156: an updated pod is held by its hook even before the hook answers", all, pod(pods.LifecycleUpdated), true, false},
		{"an updated pod without that hook is not held", &pods.Lifecycle{PreDelete: handler("del")}, pod(pods.LifecycleUpdated), false, false},
		{"nor is one whose hook has no handlers", &pods.Lifecycle{InPlaceUpdate: &pods.LifecycleHook{}}, pod(pods.LifecycleUpdated), false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h := HooksOf(tc.hooks)
			require.Equal(t, tc.update, h.HoldsUpdate(tc.pod), "update")
			require.Equal(t, tc.remove, h.HoldsDelete(tc.pod), "deletion")
		})
	}
}

func TestPrepareUpdateRestoresHandlers(t *testing.T) {
	t.Parallel()
	h := HooksOf(&pods.Lifecycle{InPlaceUpdate: handler("upd")})
	before := pod(pods.LifecycleUpdated, func(p *corev1.Pod) { p.Finalizers = []string{"example.com/other"} })
	p, err := h.PrepareUpdate(before, start)
	require.Contains(t, string(p.Data), `"resourceVersion":"7"`, "a late write must not hold a pod that was released meanwhile")
	after := apply(t, before, p, err)
	require.Equal(t, pods.LifecyclePreparingUpdate, Of(after))
	require.Equal(t, "2026-01-02T03:04:05Z", after.Annotations[keys.LifecycleTimestamp])
	require.True(t, Answered(h.update, after))
	require.Contains(t, after.Finalizers, "example.com/other")

	held := pod(pods.LifecycleNormal, label("upd"))
	p, err = h.PrepareUpdate(held, start)
	require.Equal(t, held.Finalizers, apply(t, held, p, err).Finalizers, "users decide what holds a pod in service")
}

func TestWritesApplyToTheObservedVersion(t *testing.T) {
	t.Parallel()
	h := HooksOf(&pods.Lifecycle{InPlaceUpdate: handler("upd"), PreDelete: handler("del"), PreNormal: handler("new")})
	serve := func(h Hooks, p *corev1.Pod) (podpatch.Patch, error) {
		return h.Serve(p, start).Patch(p, podpatch.Status)
	}
	for _, tc := range []struct {
		name  string
		write func() (podpatch.Patch, error)
		want  bool
	}{
		{"preparation of an update", func() (podpatch.Patch, error) { return h.PrepareUpdate(pod(pods.LifecycleNormal), start) }, true},
		{"preparation of a deletion", func() (podpatch.Patch, error) { return h.PrepareDelete(pod(pods.LifecycleNormal), start) }, true},
		{"a return", func() (podpatch.Patch, error) {
			return h.CancelDelete(pod(pods.LifecyclePreparingDelete), false, start)
		}, true},
		{"end of an update", func() (podpatch.Patch, error) { return serve(h, pod(pods.LifecycleUpdating)) }, true},
		{"a new pod that waits for a hook", func() (podpatch.Patch, error) { return serve(h, pod(pods.LifecyclePreparingNormal)) }, true},
		{"not a new pod without hooks", func() (podpatch.Patch, error) { return serve(Hooks{}, pod(pods.LifecyclePreparingNormal)) }, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := tc.write()
			require.NoError(t, err)
			require.Equal(t, tc.want, strings.Contains(string(p.Data), `"resourceVersion":"7"`))
		})
	}
}

func TestCancelDelete(t *testing.T) {
	t.Parallel()
	h := HooksOf(&pods.Lifecycle{PreDelete: handler("del")})
	leaving := pod(pods.LifecyclePreparingDelete, handled("del"))
	p, err := h.CancelDelete(leaving, false, start)
	require.Equal(t, pods.LifecyclePreparingNormal, Of(apply(t, leaving, p, err)))
	p, err = h.CancelDelete(leaving, true, start)
	require.Equal(t, pods.LifecycleUpdating, Of(apply(t, leaving, p, err)), "an update that has begun continues")
}

func TestPreparingDeleteIsFinalIfPodsAreMarkedNotReady(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name             string
		hooks            *pods.Lifecycle
		state            pods.LifecycleState
		preparing, final bool
	}{
		{"a pod in service is not preparing delete", &pods.Lifecycle{PreDelete: markNotReady(handler("del"))}, pods.LifecycleNormal, false, false},
		{"a pod that is prepared can return to service", &pods.Lifecycle{PreDelete: handler("del")}, pods.LifecyclePreparingDelete, true, false},
		{"unless it was marked not ready", &pods.Lifecycle{PreDelete: markNotReady(handler("del"))}, pods.LifecyclePreparingDelete, true, true},
		{"or its update would be", &pods.Lifecycle{InPlaceUpdate: markNotReady(handler("upd"))}, pods.LifecyclePreparingDelete, true, true},
		{"preNormal doesn't mark pods", &pods.Lifecycle{PreNormal: markNotReady(handler("new"))}, pods.LifecyclePreparingDelete, true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			preparing, final := HooksOf(tc.hooks).PreparingDelete(pod(tc.state))
			require.Equal(t, tc.preparing, preparing)
			require.Equal(t, tc.final, final)
		})
	}
}

func TestMarkPodNotReady(t *testing.T) {
	t.Parallel()
	const (
		other  = `{"userAgent":"ContainerRecreateRequest","key":"shop/again"}`
		update = `{"userAgent":"Lifecycle","key":"preUpdateHook"}`
		remove = `{"userAgent":"Lifecycle","key":"preDeleteHook"}`
	)
	h := HooksOf(&pods.Lifecycle{InPlaceUpdate: markNotReady(handler("upd")), PreDelete: markNotReady(handler("del"))})
	prepareUpdate := func(p *corev1.Pod) (podpatch.Patch, error) { return h.PrepareUpdate(p, start) }
	prepareDelete := func(p *corev1.Pod) (podpatch.Patch, error) { return h.PrepareDelete(p, start) }
	serve := func(p *corev1.Pod) (podpatch.Patch, error) { return h.Serve(p, start).Patch(p, podpatch.Status) }
	for _, tc := range []struct {
		name    string
		pod     *corev1.Pod
		write   func(*corev1.Pod) (podpatch.Patch, error)
		status  corev1.ConditionStatus // of KruisePodReady; empty: there is none
		message string
		ready   corev1.ConditionStatus
	}{
		{"a pod without the gate stays ready", pod(""), prepareUpdate, "", "", corev1.ConditionTrue},
		{"an update that is prepared marks the pod", pod("", gated), prepareUpdate, corev1.ConditionFalse, "[" + update + "]", corev1.ConditionFalse},
		{"so does a deletion", pod("", gated), prepareDelete, corev1.ConditionFalse, "[" + remove + "]", corev1.ConditionFalse},
		{"the list keeps entries of other writers, in order", pod("", blockedBy("["+update+","+other+"]")), prepareDelete, corev1.ConditionFalse, "[" + other + "," + remove + "," + update + "]", corev1.ConditionFalse},
		{"an invalid message has no entries", pod("", blockedBy("soon")), prepareDelete, corev1.ConditionFalse, "[" + remove + "]", corev1.ConditionFalse},
		{"return to service removes our entries", pod(pods.LifecyclePreparingUpdate, blockedBy("["+remove+","+update+"]")), serve, corev1.ConditionTrue, "", corev1.ConditionTrue},
		{"return to service keeps entries of other writers", pod(pods.LifecyclePreparingUpdate, blockedBy("["+other+","+update+"]")), serve, corev1.ConditionFalse, "[" + other + "]", corev1.ConditionTrue},
		{"return to service makes a new pod ready", pod(pods.LifecyclePreparingNormal, gated), serve, corev1.ConditionTrue, "", corev1.ConditionTrue},
		{"a new pod without the gate needs no condition", pod(pods.LifecyclePreparingNormal), serve, "", "", corev1.ConditionTrue},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			p, err := tc.write(tc.pod)
			after := apply(t, tc.pod, p, err)
			require.Equal(t, tc.ready, podpatch.Find(after, corev1.PodReady).Status)
			c := podpatch.Find(after, keys.KruisePodReady)
			if tc.status == "" {
				require.Nil(t, c)
				return
			}
			require.Equal(t, tc.status, c.Status)
			require.Equal(t, tc.message, c.Message)
			if podpatch.Find(tc.pod, keys.KruisePodReady) != nil {
				require.Contains(t, string(p.Data), `"resourceVersion":"7"`, "others write to the list, too")
			}
		})
	}
}

func TestEnterKeepsTheTimeOfAnUnchangedState(t *testing.T) {
	t.Parallel()
	p := pod(pods.LifecycleNormal)
	require.Empty(t, cmp.Diff(podpatch.New(p), Enter(p, pods.LifecycleNormal, start)))
}
