package sidecarset

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// setRunning sets the status of each container of a pod to say that it runs its image.
func setRunning(pod *corev1.Pod) *corev1.Pod {
	pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses = nil, nil
	for i, c := range inplace.Containers(pod) {
		to := &pod.Status.ContainerStatuses
		if i >= len(pod.Spec.Containers) {
			to = &pod.Status.InitContainerStatuses
		}
		*to = append(*to, corev1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: "sha256:" + c.Image, Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}},
		})
	}
	return pod
}

// patched returns a pod after a write, as an apiserver would.
func patched(t *testing.T, w write) *corev1.Pod {
	t.Helper()
	out := w.pod.DeepCopy()
	for key, value := range w.body.Metadata.Annotations {
		annotate(out, key, *value)
	}
	for at, containers := range map[string][]corev1.Container{"containers": out.Spec.Containers, "initContainers": out.Spec.InitContainers} {
		list, _ := w.body.Spec[at].([]map[string]any)
		for _, fields := range list {
			i := slices.IndexFunc(containers, func(c corev1.Container) bool { return c.Name == fields["name"] })
			require.GreaterOrEqual(t, i, 0, "the apiserver finds %v in %s", fields["name"], at)
			containers[i].Image = fields["image"].(string)
		}
	}
	require.Equal(t, w.pod.ResourceVersion, w.body.Metadata.ResourceVersion, "the write is conditional: a workload may write too")
	require.Equal(t, w.pod.UID, w.body.Metadata.UID)
	return out
}

const hotSidecar = `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "empty:1"}}]}}`

// withImage returns a SidecarSet with another image.
func withImage(tb testing.TB, s *appsv1beta1.SidecarSet, image, version string) *appsv1beta1.SidecarSet {
	tb.Helper()
	out := s.DeepCopy()
	setImage(out, image)
	out.ResourceVersion = version
	rehash(tb, out)
	return out
}

func TestAnUpdateOfOneContainer(t *testing.T) {
	t.Parallel()
	old := admitted(t, `{spec: {patchPodMetadata: [{annotations: {kept: new}}, {annotations: {written: new}, patchPolicy: Overwrite}]}}`)
	pod := setRunning(runningPod(t, "web-0", old))
	annotate(pod, "kept", "old")
	annotate(pod, "written", "old")
	annotate(pod, keys.SidecarSetInPlaceState, `{"other":{"revision":"x","updateTimestamp":null}}`)
	pod.ResourceVersion = "17"
	o := observedFor(t, withImage(t, old, "log:2", "30"), pod)
	p := plan(o, noon)
	require.Len(t, p.updates.images, 1)
	next := patched(t, p.updates.images[0])
	require.Equal(t, "log:2", containerOf(next, "log").Image)
	require.Equal(t, "app:1", containerOf(next, "app").Image)
	require.Equal(t, "old", next.Annotations["kept"])
	require.Equal(t, "new", next.Annotations["written"])
	recorded := podRecordsIn(next, keys.SidecarSetHash)["log"]
	require.Equal(t, o.hash(), recorded.Hash)
	require.Equal(t, p.revision.Revision.Name, recorded.ControllerRevision)
	require.Equal(t, []string{"log"}, recorded.SidecarList)
	states := inplace.SidecarStates(next)
	require.Contains(t, states, "other", "the states of other SidecarSets stay")
	require.Equal(t, map[string]pods.InPlaceContainerStatus{"log": {ImageID: "sha256:log:1"}}, states["log"].LastContainerStatuses)

	done, serves := ranUpdate("log", next)
	require.False(t, done)
	require.True(t, serves, "the previous container still runs")
	o.pods = []*corev1.Pod{next}
	p = plan(o, noon)
	require.Empty(t, p.updates.images)
	require.Equal(t, [2]int32{1, 0}, [2]int32{p.updated, p.ready})
	require.Empty(t, p.updates.markUpgradable)

	done, _ = ranUpdate("log", setRunning(next))
	require.True(t, done)
	p = plan(o, noon)
	require.Equal(t, [2]int32{1, 1}, [2]int32{p.updated, p.ready})
	require.Len(t, p.updates.markUpgradable, 1, "tools wait for the condition")
	c := p.updates.markUpgradable[0].body.Status.Conditions[0]
	require.Equal(t, [2]any{corev1.ConditionTrue, reasonAllUpgradable}, [2]any{c.Status, *c.Reason})
	require.JSONEq(t, `{"log":true}`, *c.Message)
	next.Status.Conditions = append(next.Status.Conditions, corev1.PodCondition{Type: keys.SidecarSetUpgradable, Status: corev1.ConditionTrue, Message: *c.Message})
	require.Empty(t, plan(o, noon).updates.markUpgradable)
	next.Status.ContainerStatuses[1].Image, next.Status.ContainerStatuses[1].ImageID = "docker.io/library/log:2", "sha256:log:1"
	done, _ = ranUpdate("log", next)
	require.True(t, done, "the same image under another name")
	next.Status.ContainerStatuses = nil
	done, serves = ranUpdate("log", next)
	require.False(t, done || serves)
}

func TestANativeSidecarIsUpdated(t *testing.T) {
	t.Parallel()
	old := admitted(t, `{spec: {containers: null, initContainers: [{name: log, image: "log:1", restartPolicy: Always}, {name: setup, image: "setup:1"}]}}`)
	pod := setRunning(runningPod(t, "web-0", old))
	next := old.DeepCopy()
	next.Spec.InitContainers[0].Image, next.Spec.InitContainers[1].Image = "log:2", "setup:2"
	rehash(t, next)
	o := observedFor(t, next, pod)
	p := plan(o, noon)
	require.Len(t, p.updates.images, 1)
	require.Empty(t, p.updates.needRecreate)
	updatedPod := patched(t, p.updates.images[0])
	require.Equal(t, "log:2", containerOf(updatedPod, "log").Image)
	require.Equal(t, "setup:1", containerOf(updatedPod, "setup").Image, "an ended init container would not run again")
	require.Equal(t, map[string]pods.InPlaceContainerStatus{"log": {ImageID: "sha256:log:1"}}, inplace.SidecarStates(updatedPod)["log"].LastContainerStatuses)
	done, serves := ranUpdate("log", updatedPod)
	require.False(t, done)
	require.True(t, serves)
	o.pods = []*corev1.Pod{setRunning(updatedPod)}
	p = plan(o, noon)
	require.Empty(t, p.updates.images)
	require.EqualValues(t, 1, p.updatedReady)
}

func TestAHotUpgrade(t *testing.T) {
	t.Parallel()
	old := admitted(t, hotSidecar)
	pod := setRunning(runningPod(t, "web-0", old))
	o := observedFor(t, withImage(t, old, "log:2", "30"), pod)
	p := plan(o, noon)
	require.Len(t, p.updates.images, 1)
	require.Empty(t, p.updates.resets)
	next := patched(t, p.updates.images[0])
	require.Equal(t, "log:1", containerOf(next, "log-1").Image, "the working container keeps its image")
	require.Equal(t, "log:2", containerOf(next, "log-2").Image)
	require.Equal(t, map[string]string{"log": "log-2"}, workingIn(next))
	versions := func(pod *corev1.Pod) [4]string {
		a := pod.Annotations
		return [4]string{
			a[keys.SidecarSetVersionPrefix+"log-1"], a[keys.SidecarSetVersionAltPrefix+"log-1"],
			a[keys.SidecarSetVersionPrefix+"log-2"], a[keys.SidecarSetVersionAltPrefix+"log-2"],
		}
	}
	require.Equal(t, [4]string{"1", "30", "30", "1"}, versions(next))

	o.pods = []*corev1.Pod{next}
	p = plan(o, noon)
	require.Empty(t, p.updates.resets, "the new container is not ready yet")
	require.Zero(t, p.ready)

	o.pods = []*corev1.Pod{setRunning(next)}
	p = plan(o, noon)
	require.Len(t, p.updates.resets, 1)
	next = setRunning(patched(t, p.updates.resets[0]))
	require.Equal(t, "empty:1", containerOf(next, "log-1").Image)
	require.Equal(t, "0", versions(next)[0])

	o = observedFor(t, withImage(t, o.set, "log:3", "40"), next)
	p = plan(o, noon)
	require.Len(t, p.updates.images, 1)
	next = patched(t, p.updates.images[0])
	require.Equal(t, "log:3", containerOf(next, "log-1").Image, "the first container takes over again")
	require.Equal(t, [4]string{"40", "30", "30", "40"}, versions(next))
}

func TestWhichContainerTakesOver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		a, b   string // Versions.
		unable string // The one that is not ready.
		want   bool
	}{
		{name: "the idle container", a: "0", b: "1", want: true},
		{name: "not the working container", a: "1", b: "0"},
		{name: "the container that is not ready", a: "9", b: "7", unable: "a", want: true},
		{name: "not the container that is ready", a: "7", b: "9", unable: "b"},
		{name: "the older container", a: "7", b: "10", want: true},
		{name: "not the newer container", a: "10", b: "7"},
		{name: "a container without a version", a: "", b: "7", want: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{
				{Name: "a", Ready: tc.unable != "a"}, {Name: "b", Ready: tc.unable != "b"},
			}}}
			annotate(pod, keys.SidecarSetVersionPrefix+"a", tc.a)
			annotate(pod, keys.SidecarSetVersionPrefix+"b", tc.b)
			require.Equal(t, tc.want, takesOver(pod, "a", "b"))
		})
	}
}

func TestWhichPodsAreUpdated(t *testing.T) {
	t.Parallel()
	strategy := func(fields string) string { return `{spec: {updateStrategy: {` + fields + `}}}` }
	label := func(pod int, key, value string) func([]*corev1.Pod) {
		return func(list []*corev1.Pod) { list[pod].Labels[key] = value }
	}
	failing := func(list []*corev1.Pod) { // An update to an image that can't be pulled.
		list[2].Annotations[keys.SidecarSetInPlaceState] = `{"log":{"revision":"x","updateTimestamp":null,"lastContainerStatuses":{"log":{"imageID":"sha256:log:0"}}}}`
		s := &list[2].Status.ContainerStatuses[0]
		s.Image, s.ImageID, s.Ready = "log:0", "sha256:log:0", false
		list[2].Status.Conditions[0].Status = corev1.ConditionFalse
	}
	down := func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }
	// changeAppImage changes the image of a pod's own container. The kubelet still reports the previous one.
	changeAppImage := func(pod *corev1.Pod, observedGeneration int64) {
		containerOf(pod, "app").Image = "app:next"
		pod.Generation, pod.Status.ObservedGeneration = 2, observedGeneration
	}
	for _, tc := range []struct {
		name   string
		set    string
		change func([]*corev1.Pod)
		// want lists the pods whose images are written, out of three. hold is why others wait.
		want string
		hold rollout.Reason
	}{
		{name: "one at a time", set: `{}`, want: "web-0", hold: rollout.ReasonInFlight},
		{name: "as many as maxUnavailable allows", set: strategy(`maxUnavailable: 50%`), want: "web-0 web-1", hold: rollout.ReasonInFlight},
		{name: "no more than the partition allows", set: strategy(`maxUnavailable: 3, partition: 2`), want: "web-0"},
		{name: "at least one with a percentage", set: strategy(`maxUnavailable: 3, partition: 90%`), want: "web-0"},
		{name: "none while paused", set: strategy(`paused: true`), hold: rollout.ReasonPaused},
		{name: "none with NotUpdate", set: strategy(`type: NotUpdate`)},
		{name: "only selected pods", set: strategy(`maxUnavailable: 3, selector: {matchLabels: {canary: "true"}}`), change: label(2, "canary", "true"), want: "web-2", hold: rollout.ReasonNotInPlace},
		{name: "pods with priority first", set: strategy(`priorityStrategy: {weightPriority: [{weight: 10, matchSelector: {matchLabels: {first: "true"}}}]}`), change: label(2, "first", "true"), want: "web-2", hold: rollout.ReasonInFlight},
		{
			name: "a pod whose sidecar does not run costs no availability", set: `{}`, want: "web-2", hold: rollout.ReasonInFlight, change: failing,
		},
		{
			name: "all pods that are not ready, beyond maxUnavailable", set: `{}`, want: "web-0 web-1 web-2",
			change: func(list []*corev1.Pod) { down(list[0]); down(list[1]); down(list[2]) },
		},
		{
			name: "one beside an outdated pod that is not ready and can't be updated", set: `{}`, want: "web-1", hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHashWithoutImage, `{"log":{"hash":"x"}}`)
				down(list[0])
			},
		},
		{
			name: "a canary beside a pod that is not ready and not selected", set: strategy(`selector: {matchLabels: {canary: "true"}}`),
			change: func(list []*corev1.Pod) { list[2].Labels["canary"] = "true"; down(list[0]) }, want: "web-2", hold: rollout.ReasonNotInPlace,
		},
		{
			name: "none while a pod is about to restart for the previous update", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetInPlaceState, `{"log":{"revision":"x","updateTimestamp":null,"lastContainerStatuses":{"log":{"imageID":"sha256:log:0"}}}}`)
				i := slices.IndexFunc(list[0].Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "log" })
				list[0].Status.ContainerStatuses[i].Image, list[0].Status.ContainerStatuses[i].ImageID = "log:0", "sha256:log:0"
			},
		},
		{
			name: "one beside a pod whose sidecar does not run and that the partition keeps", set: strategy(
				`partition: 2, priorityStrategy: {weightPriority: [{weight: 10, matchSelector: {matchLabels: {first: "true"}}}]}`), want: "web-0",
			change: func(list []*corev1.Pod) { list[0].Labels["first"] = "true"; failing(list) },
		},
		{
			name: "none while an updated pod is not available", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				list[0].Status.Conditions[0].Status = corev1.ConditionFalse
			},
		},
		{
			name: "a pod whose image another writer changed comes first", set: `{}`, want: "web-1", hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) { changeAppImage(list[1], 1) },
		},
		{
			name: "none while an updated pod restarts for another writer's image", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				changeAppImage(list[0], 1)
			},
		},
		{
			name: "none while a workload updates an updated pod in place", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				changeAppImage(list[0], 2)
				i := slices.IndexFunc(list[0].Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "app" })
				annotate(list[0], keys.InPlaceUpdateState, `{"revision":"x","updateTimestamp":null,"lastContainerStatuses":{"app":{"imageID":"`+
					list[0].Status.ContainerStatuses[i].ImageID+`"}}}`)
			},
		},
		{
			name: "one beside an updated pod whose image has another name in the runtime", set: `{}`, want: "web-1", hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				changeAppImage(list[0], 2)
			},
		},
		{
			name: "not a pod that needs more than an image", set: strategy(`maxUnavailable: 3`), want: "web-2 web-1", hold: rollout.ReasonNotInPlace,
			change: func(list []*corev1.Pod) { annotate(list[0], keys.SidecarSetHashWithoutImage, `{"log":{"hash":"x"}}`) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old := admitted(t, tc.set)
			var list []*corev1.Pod
			for _, name := range []string{"web-0", "web-1", "web-2"} {
				pod := setRunning(runningPod(t, name, old))
				pod.Spec.NodeName = "node"
				list = append(list, pod)
			}
			if tc.change != nil {
				tc.change(list)
			}
			p := plan(observedFor(t, withImage(t, old, "log:2", "30"), list...), noon)
			var got []string
			for _, w := range p.updates.images {
				got = append(got, w.pod.Name)
			}
			wanted := strings.Fields(tc.want)
			require.ElementsMatch(t, wanted, got)
			if tc.hold == "" {
				require.Empty(t, p.updates.holds)
				return
			}
			require.Len(t, p.updates.holds, 1)
			require.Equal(t, tc.hold, p.updates.holds[0].Reason, p.updates.holds[0].Why)
		})
	}
}

func TestPodsThatTheUpdateDoesNotSelectDoNotKeepASidecarSetFromBeingReady(t *testing.T) {
	t.Parallel()
	old := admitted(t, `{spec: {updateStrategy: {selector: {matchLabels: {canary: "true"}}}}}`)
	s := withImage(t, old, "log:2", "30")
	canary, other := setRunning(runningPod(t, "web-0", old)), setRunning(runningPod(t, "web-1", old))
	canary.Labels["canary"] = "true"
	readyWith := func(pods ...*corev1.Pod) metav1.ConditionStatus {
		o := observedFor(t, s, pods...)
		st, _ := status(o, plan(o, noon), applied{revised: true}, noon)
		return report.GetCondition(st.Conditions, keys.ConditionReady).Status
	}
	require.Equal(t, metav1.ConditionFalse, readyWith(canary, other))
	canary = setRunning(runningPod(t, "web-0", s))
	canary.Labels["canary"] = "true"
	require.Equal(t, metav1.ConditionTrue, readyWith(canary, other))
}

// newHash returns the hash of the SidecarSet with the next image.
func newHash(t *testing.T) string {
	t.Helper()
	return withImage(t, admitted(t), "log:2", "30").Annotations[keys.SidecarSetHash]
}

func TestTheConditionOfPodsThatNeedMoreThanAnImage(t *testing.T) {
	t.Parallel()
	old := admitted(t)
	pod := setRunning(runningPod(t, "web-0", old))
	s := old.DeepCopy()
	s.Spec.Containers[0].Command = []string{"run"}
	rehash(t, s)
	o := observedFor(t, s, pod)
	p := plan(o, noon)
	require.Len(t, p.updates.markNotUpgradable, 1)
	c := p.updates.markNotUpgradable[0].body.Status.Conditions[0]
	require.Equal(t, corev1.ConditionFalse, c.Status)
	require.Equal(t, reasonImmutable, *c.Reason)
	require.JSONEq(t, `{"log":false}`, *c.Message)
	reported, events := status(o, p, applied{revised: true, notUpgradable: []string{"web-0"}}, noon)
	require.Len(t, events, 1)
	upgradableCondition := func(s appsv1beta1.SidecarSetStatus) *metav1.Condition {
		return report.GetCondition(s.Conditions, appsv1beta1.SidecarSetUpgradable)
	}
	require.Equal(t, metav1.ConditionFalse, upgradableCondition(reported).Status)
	require.Equal(t, "1 pod(s) need more than new images: shop/web-0; to recreate them, restart their workloads with kubectl kruise "+
		"rollout restart", upgradableCondition(reported).Message)
	require.Equal(t, "1 pod(s) can't be updated in place, because more than images changed: web-0; to recreate them, restart their workloads "+
		"with kubectl kruise rollout restart", events[0].Note)

	setCondition := func(message string, status corev1.ConditionStatus) {
		pod.Status.Conditions = append(pod.Status.Conditions[:1], corev1.PodCondition{Type: keys.SidecarSetUpgradable, Status: status, Message: message})
	}
	setCondition(`{"log":false,"other":true}`, corev1.ConditionFalse)
	require.Empty(t, plan(o, noon).updates.markNotUpgradable, "the condition is written only once")

	o = observedFor(t, old, pod)
	p = plan(o, noon)
	none, _ := status(o, p, applied{revised: true}, noon)
	require.Nil(t, upgradableCondition(none), "no condition for a SidecarSet that never had immutable pods")
	o.set = o.set.DeepCopy()
	o.set.Status = reported
	again, _ := status(o, p, applied{revised: true}, noon)
	require.Equal(t, metav1.ConditionTrue, upgradableCondition(again).Status)
	require.Equal(t, reasonAllUpgradable, upgradableCondition(again).Reason)
	o.set.Spec.UpdateStrategy.Type = appsv1beta1.SidecarSetNotUpdate
	notUpdated, _ := status(o, plan(o, noon), applied{revised: true}, noon)
	require.Nil(t, upgradableCondition(notUpdated), "no condition with NotUpdate")
	o = observedFor(t, old, pod)
	require.Len(t, p.updates.markUpgradable, 1)
	c = p.updates.markUpgradable[0].body.Status.Conditions[0]
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, reasonAllUpgradable, *c.Reason)
	setCondition(`{"log":false,"other":false}`, corev1.ConditionFalse)
	c = plan(o, noon).updates.markUpgradable[0].body.Status.Conditions[0]
	require.Equal(t, corev1.ConditionFalse, c.Status, "another SidecarSet still prevents in-place updates")
	setCondition(`{`, corev1.ConditionFalse)
	require.Empty(t, plan(o, noon).updates.markUpgradable)
}

// withController gives a pod a controller.
func withController(pod *corev1.Pod, apiVersion, kind string) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "w", Controller: new(true)}}
	return pod
}

func TestPodsThatNeedMoreThanAnImageAreRecreatedByTheirWorkloads(t *testing.T) {
	t.Parallel()
	const kruise = "apps.kruise.io/v1beta1"
	markForDeletion := func(pod *corev1.Pod) { pod.Labels[keys.SpecifiedDelete] = "true" }
	for _, tc := range []struct {
		name string
		// set holds fields of the spec, in addition to a command that the pods don't have.
		set string
		// owner is the API version and kind of the workload. change is applied to the first of three pods.
		owner  [2]string
		change func(*corev1.Pod)
		see    func(*observed)
		// recreated lists the pods that are recreated now, and waiting those that are not recreated. recheck is when time alone changes that.
		recreated, waiting []string
		recheck            time.Duration
	}{
		{name: "of a CloneSet", recreated: []string{"web-0"}},
		{name: "of a StatefulSet", owner: [2]string{"apps.kruise.io/v1alpha1", "StatefulSet"}, recreated: []string{"web-0"}},
		{name: "of a DaemonSet", owner: [2]string{kruise, "DaemonSet"}, recreated: []string{"web-0"}},
		{name: "of a native StatefulSet", owner: [2]string{"apps/v1", "StatefulSet"}, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "of a BroadcastJob", owner: [2]string{kruise, "BroadcastJob"}, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "within the budget", set: `updateStrategy: {maxUnavailable: 2}`, recreated: []string{"web-0", "web-1"}},
		{name: "no more than the partition allows", set: `updateStrategy: {maxUnavailable: 3, partition: 2}`, recreated: []string{"web-0"}},
		{name: "a pod that is already being recreated counts", change: markForDeletion},
		{name: "a pod that is already being recreated counts towards the partition", set: `updateStrategy: {maxUnavailable: 3, partition: 1}`, change: markForDeletion, recreated: []string{"web-1"}},
		{name: "a pod that is not ready comes first", change: func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }, recreated: []string{"web-0"}},
		{name: "only selected pods", set: `updateStrategy: {selector: {matchLabels: {canary: "true"}}}`, change: func(pod *corev1.Pod) { pod.Labels["canary"] = "true" }, recreated: []string{"web-0"}},
		{name: "none while the update is paused", set: `updateStrategy: {paused: true}`},
		{name: "none with InPlaceOnly", set: `updateStrategy: {podUpdatePolicy: InPlaceOnly}`, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "none with NotUpdate", set: `updateStrategy: {type: NotUpdate}`},
		{name: "none if new pods get nothing", set: `injectionStrategy: {paused: true}`, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "none if new pods get an older revision", set: `injectionStrategy: {revision: {customVersion: v1}}`, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "none if a canary replaces the SidecarSet", see: func(o *observed) { o.canaries = []*appsv1beta1.SidecarSet{{}} }, waiting: []string{"web-0", "web-1", "web-2"}},
		{
			name: "none if the webhook is not called", see: func(o *observed) { o.notSent = map[string]string{"shop": "exempt"} },
			waiting: []string{"web-0", "web-1", "web-2"},
		},
		{name: "a new pod with an older revision is left alone for a while", see: func(o *observed) {
			o.history = []*appsv1.ControllerRevision{o.wanted}
			o.wanted.CreationTimestamp = metav1.NewTime(noon.Add(-40 * time.Second))
			for _, pod := range o.pods {
				pod.CreationTimestamp = metav1.NewTime(noon.Add(-20 * time.Second))
			}
		}, recheck: 40 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			old := admitted(t)
			if tc.owner[0] == "" {
				tc.owner = [2]string{kruise, "CloneSet"}
			}
			var list []*corev1.Pod
			for _, name := range []string{"web-0", "web-1", "web-2"} {
				list = append(list, setRunning(withController(runningPod(t, name, old), tc.owner[0], tc.owner[1])))
			}
			if tc.change != nil {
				tc.change(list[0])
			}
			s := admitted(t, `{spec: {updateStrategy: {podUpdatePolicy: InPlaceIfPossible}}}`, `{spec: {`+tc.set+`}}`)
			s.Spec.Containers[0].Command = []string{"run"}
			rehash(t, s)
			o := observedFor(t, s, list...)
			if tc.see != nil {
				tc.see(&o)
			}
			u := plan(o, noon).updates
			var recreated, waiting []string
			for _, w := range u.recreates {
				recreated = append(recreated, w.pod.Name)
				require.Equal(t, "true", *w.body.Metadata.Labels[keys.SpecifiedDelete])
				require.Equal(t, w.pod.ResourceVersion, w.body.Metadata.ResourceVersion)
			}
			for _, name := range u.needRecreate {
				waiting = append(waiting, strings.TrimPrefix(name, "shop/"))
			}
			require.Equal(t, tc.recreated, recreated)
			require.Equal(t, tc.waiting, waiting)
			require.Len(t, u.markNotUpgradable, len(tc.waiting), "only waiting pods get the condition")
			require.Equal(t, tc.recheck, u.recheck)
			require.Empty(t, u.images)
			a := applied{revised: true, recreated: recreated}
			reported, events := status(o, plan(o, noon), a, noon)
			c := report.GetCondition(reported.Conditions, appsv1beta1.SidecarSetUpgradable)
			require.Equal(t, len(tc.waiting) > 0, c != nil && c.Status == metav1.ConditionFalse)
			if len(recreated) > 0 {
				require.Equal(t, reasonRecreating, events[len(events)-1].Reason)
			}
		})
	}
}

func TestScatterOfAnyValue(t *testing.T) {
	t.Parallel()
	list := []*corev1.Pod{runningPod(t, "a"), runningPod(t, "b"), runningPod(t, "c")}
	list[0].Labels["zone"], list[1].Labels["zone"] = "z2", "z1"
	got := expandScatter([]pods.UpdateScatterTerm{{Key: "app", Value: "web"}, {Key: "zone", Value: "*"}}, list)
	raw, err := json.Marshal(got)
	require.NoError(t, err)
	require.JSONEq(t, `[{"key":"app","value":"web"},{"key":"zone","value":"z1"},{"key":"zone","value":"z2"}]`, string(raw))
}

// After a takeover no pod is written.
func TestNoPodOfOpenKruiseIsTouched(t *testing.T) {
	t.Parallel()
	known := openKruise(t)
	for set, name := range map[string]string{"take-sidecar": "take-sidecar-xx4cp", "side-a1": "spread-8q8tn"} {
		wanted, err := newRevision(known.sets[set], system)
		require.NoError(t, err)
		p := plan(observed{set: known.sets[set], wanted: wanted, pods: []*corev1.Pod{known.pods[name]}}, noon)
		require.Equal(t, updates{}, p.updates, set)
	}
}
