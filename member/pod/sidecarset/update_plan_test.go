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
	"github.com/flotilla-io/flotilla/pkg/inplace"
	"github.com/flotilla-io/flotilla/pkg/report"
	"github.com/flotilla-io/flotilla/pkg/rollout"
)

// runs sets the status of each container of a pod to say that it runs its image.
func runs(pod *corev1.Pod) *corev1.Pod {
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
	for at, of := range map[string][]corev1.Container{"containers": out.Spec.Containers, "initContainers": out.Spec.InitContainers} {
		list, _ := w.body.Spec[at].([]map[string]any)
		for _, fields := range list {
			i := slices.IndexFunc(of, func(c corev1.Container) bool { return c.Name == fields["name"] })
			require.GreaterOrEqual(t, i, 0, "the apiserver finds %v in %s", fields["name"], at)
			of[i].Image = fields["image"].(string)
		}
	}
	require.Equal(t, w.pod.ResourceVersion, w.body.Metadata.ResourceVersion, "a workload may write too")
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
	was := admitted(t, `{spec: {patchPodMetadata: [{annotations: {kept: new}}, {annotations: {written: new}, patchPolicy: Overwrite}]}}`)
	pod := runs(runningPod(t, "web-0", was))
	annotate(pod, "kept", "old")
	annotate(pod, "written", "old")
	annotate(pod, keys.SidecarSetInPlaceState, `{"other":{"revision":"x","updateTimestamp":null}}`)
	pod.ResourceVersion = "17"
	o := seen(t, withImage(t, was, "log:2", "30"), pod)
	p := plan(o, noon)
	require.Len(t, p.updates.images, 1)
	is := patched(t, p.updates.images[0])
	require.Equal(t, "log:2", containerOf(is, "log").Image)
	require.Equal(t, "app:1", containerOf(is, "app").Image)
	require.Equal(t, "old", is.Annotations["kept"])
	require.Equal(t, "new", is.Annotations["written"])
	at := upgradesIn(is, keys.SidecarSetHash)["log"]
	require.Equal(t, o.hash(), at.Hash)
	require.Equal(t, p.revision.Revision.Name, at.ControllerRevision)
	require.Equal(t, []string{"log"}, at.SidecarList)
	states := inplace.SidecarStates(is)
	require.Contains(t, states, "other", "what others have written stays")
	require.Equal(t, map[string]pods.InPlaceContainerStatus{"log": {ImageID: "sha256:log:1"}}, states["log"].LastContainerStatuses)

	done, serves := updated("log", is)
	require.False(t, done)
	require.True(t, serves, "the former container still runs")
	o.pods = []*corev1.Pod{is}
	p = plan(o, noon)
	require.Empty(t, p.updates.images)
	require.Equal(t, [2]int32{1, 0}, [2]int32{p.updated, p.ready})
	require.Empty(t, p.updates.restored)

	done, _ = updated("log", runs(is))
	require.True(t, done)
	p = plan(o, noon)
	require.Equal(t, [2]int32{1, 1}, [2]int32{p.updated, p.ready})
	require.Len(t, p.updates.restored, 1, "tools wait for the condition")
	c := p.updates.restored[0].body.Status.Conditions[0]
	require.Equal(t, [2]any{corev1.ConditionTrue, ReasonAllUpgradable}, [2]any{c.Status, *c.Reason})
	require.JSONEq(t, `{"log":true}`, *c.Message)
	is.Status.Conditions = append(is.Status.Conditions, corev1.PodCondition{Type: keys.SidecarSetUpgradable, Status: corev1.ConditionTrue, Message: *c.Message})
	require.Empty(t, plan(o, noon).updates.restored)
	is.Status.ContainerStatuses[1].Image, is.Status.ContainerStatuses[1].ImageID = "docker.io/library/log:2", "sha256:log:1"
	done, _ = updated("log", is)
	require.True(t, done, "another name of the same image")
	is.Status.ContainerStatuses = nil
	done, serves = updated("log", is)
	require.False(t, done || serves)
}

func TestANativeSidecarIsUpdated(t *testing.T) {
	t.Parallel()
	was := admitted(t, `{spec: {containers: null, initContainers: [{name: log, image: "log:1", restartPolicy: Always}, {name: setup, image: "setup:1"}]}}`)
	pod := runs(runningPod(t, "web-0", was))
	next := was.DeepCopy()
	next.Spec.InitContainers[0].Image, next.Spec.InitContainers[1].Image = "log:2", "setup:2"
	rehash(t, next)
	o := seen(t, next, pod)
	p := plan(o, noon)
	require.Len(t, p.updates.images, 1)
	require.Empty(t, p.updates.immutable)
	is := patched(t, p.updates.images[0])
	require.Equal(t, "log:2", containerOf(is, "log").Image)
	require.Equal(t, "setup:1", containerOf(is, "setup").Image, "it has ended, and would not run again")
	require.Equal(t, map[string]pods.InPlaceContainerStatus{"log": {ImageID: "sha256:log:1"}}, inplace.SidecarStates(is)["log"].LastContainerStatuses)
	done, serves := updated("log", is)
	require.False(t, done)
	require.True(t, serves)
	o.pods = []*corev1.Pod{runs(is)}
	p = plan(o, noon)
	require.Empty(t, p.updates.images)
	require.EqualValues(t, 1, p.updatedReady)
}

func TestAHotUpgrade(t *testing.T) {
	t.Parallel()
	was := admitted(t, hotSidecar)
	pod := runs(runningPod(t, "web-0", was))
	o := seen(t, withImage(t, was, "log:2", "30"), pod)
	p := plan(o, noon)
	require.Len(t, p.updates.images, 1)
	require.Empty(t, p.updates.resets)
	is := patched(t, p.updates.images[0])
	require.Equal(t, "log:1", containerOf(is, "log-1").Image, "it works on")
	require.Equal(t, "log:2", containerOf(is, "log-2").Image)
	require.Equal(t, map[string]string{"log": "log-2"}, workingIn(is))
	versions := func(pod *corev1.Pod) [4]string {
		a := pod.Annotations
		return [4]string{
			a[keys.SidecarSetVersionPrefix+"log-1"], a[keys.SidecarSetVersionAltPrefix+"log-1"],
			a[keys.SidecarSetVersionPrefix+"log-2"], a[keys.SidecarSetVersionAltPrefix+"log-2"],
		}
	}
	require.Equal(t, [4]string{"1", "30", "30", "1"}, versions(is))

	o.pods = []*corev1.Pod{is}
	p = plan(o, noon)
	require.Empty(t, p.updates.resets, "the new one does not work yet")
	require.Zero(t, p.ready)

	o.pods = []*corev1.Pod{runs(is)}
	p = plan(o, noon)
	require.Len(t, p.updates.resets, 1)
	is = runs(patched(t, p.updates.resets[0]))
	require.Equal(t, "empty:1", containerOf(is, "log-1").Image)
	require.Equal(t, "0", versions(is)[0])

	o = seen(t, withImage(t, o.set, "log:3", "40"), is)
	p = plan(o, noon)
	require.Len(t, p.updates.images, 1)
	is = patched(t, p.updates.images[0])
	require.Equal(t, "log:3", containerOf(is, "log-1").Image, "the other one takes over again")
	require.Equal(t, [4]string{"40", "30", "30", "40"}, versions(is))
}

func TestWhichContainerTakesOver(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name   string
		a, b   string // Versions.
		unable string // The one that is not ready.
		want   bool
	}{
		{name: "the idle one", a: "0", b: "1", want: true},
		{name: "not the other one", a: "1", b: "0"},
		{name: "the one that is not ready", a: "9", b: "7", unable: "a", want: true},
		{name: "not the one that is", a: "7", b: "9", unable: "b"},
		{name: "the older one", a: "7", b: "10", want: true},
		{name: "not the newer one", a: "10", b: "7"},
		{name: "one that does not say", a: "", b: "7", want: true},
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
	// told changes the image of a pod's own container. The kubelet still reports the previous one.
	told := func(pod *corev1.Pod, seen int64) {
		containerOf(pod, "app").Image = "app:next"
		pod.Generation, pod.Status.ObservedGeneration = 2, seen
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
		{name: "as many as may be unavailable", set: strategy(`maxUnavailable: 50%`), want: "web-0 web-1", hold: rollout.ReasonInFlight},
		{name: "none beyond the partition", set: strategy(`maxUnavailable: 3, partition: 2`), want: "web-0"},
		{name: "at least one beyond a percentage", set: strategy(`maxUnavailable: 3, partition: 90%`), want: "web-0"},
		{name: "none while paused", set: strategy(`paused: true`), hold: rollout.ReasonPaused},
		{name: "none by NotUpdate", set: strategy(`type: NotUpdate`)},
		{name: "those that are selected", set: strategy(`maxUnavailable: 3, selector: {matchLabels: {canary: "true"}}`), change: label(2, "canary", "true"), want: "web-2", hold: rollout.ReasonNotInPlace},
		{name: "those of priority first", set: strategy(`priorityStrategy: {weightPriority: [{weight: 10, matchSelector: {matchLabels: {first: "true"}}}]}`), change: label(2, "first", "true"), want: "web-2", hold: rollout.ReasonInFlight},
		{
			name: "one whose sidecar does not run is no loss", set: `{}`, want: "web-2", hold: rollout.ReasonInFlight, change: failing,
		},
		{
			name: "all whose sidecars do not run, at no cost", set: `{}`, want: "web-0 web-1 web-2",
			change: func(list []*corev1.Pod) { down(list[0]); down(list[1]); down(list[2]) },
		},
		{
			name: "one beside an older one that is not ready and can't be updated", set: `{}`, want: "web-1", hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHashWithoutImage, `{"log":{"hash":"x"}}`)
				down(list[0])
			},
		},
		{
			name: "a canary beside one that is not ready and not selected", set: strategy(`selector: {matchLabels: {canary: "true"}}`),
			change: func(list []*corev1.Pod) { list[2].Labels["canary"] = "true"; down(list[0]) }, want: "web-2", hold: rollout.ReasonNotInPlace,
		},
		{
			name: "none beside one that is about to restart for the update before", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetInPlaceState, `{"log":{"revision":"x","updateTimestamp":null,"lastContainerStatuses":{"log":{"imageID":"sha256:log:0"}}}}`)
				i := slices.IndexFunc(list[0].Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "log" })
				list[0].Status.ContainerStatuses[i].Image, list[0].Status.ContainerStatuses[i].ImageID = "log:0", "sha256:log:0"
			},
		},
		{
			name: "one beside one whose sidecar does not run and that the partition keeps", set: strategy(
				`partition: 2, priorityStrategy: {weightPriority: [{weight: 10, matchSelector: {matchLabels: {first: "true"}}}]}`), want: "web-0",
			change: func(list []*corev1.Pod) { list[0].Labels["first"] = "true"; failing(list) },
		},
		{
			name: "none while one that was updated is not available", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				list[0].Status.Conditions[0].Status = corev1.ConditionFalse
			},
		},
		{
			name: "first one that was told to run another image by somebody else", set: `{}`, want: "web-1", hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) { told(list[1], 1) },
		},
		{
			name: "none beside an updated one that was told so", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				told(list[0], 1)
			},
		},
		{
			name: "none beside an updated one whose workload updates it in place", set: `{}`, hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				told(list[0], 2)
				i := slices.IndexFunc(list[0].Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return s.Name == "app" })
				annotate(list[0], keys.InPlaceUpdateState, `{"revision":"x","updateTimestamp":null,"lastContainerStatuses":{"app":{"imageID":"`+
					list[0].Status.ContainerStatuses[i].ImageID+`"}}}`)
			},
		},
		{
			name: "one beside an updated one whose image has another name in the runtime", set: `{}`, want: "web-1", hold: rollout.ReasonInFlight,
			change: func(list []*corev1.Pod) {
				annotate(list[0], keys.SidecarSetHash, `{"log":{"hash":"`+newHash(t)+`"}}`)
				told(list[0], 2)
			},
		},
		{
			name: "not one that needs more than an image", set: strategy(`maxUnavailable: 3`), want: "web-2 web-1", hold: rollout.ReasonNotInPlace,
			change: func(list []*corev1.Pod) { annotate(list[0], keys.SidecarSetHashWithoutImage, `{"log":{"hash":"x"}}`) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			was := admitted(t, tc.set)
			var list []*corev1.Pod
			for _, name := range []string{"web-0", "web-1", "web-2"} {
				pod := runs(runningPod(t, name, was))
				pod.Spec.NodeName = "node"
				list = append(list, pod)
			}
			if tc.change != nil {
				tc.change(list)
			}
			p := plan(seen(t, withImage(t, was, "log:2", "30"), list...), noon)
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

// newHash returns the hash of the SidecarSet with the next image.
func newHash(t *testing.T) string {
	t.Helper()
	return withImage(t, admitted(t), "log:2", "30").Annotations[keys.SidecarSetHash]
}

func TestTheConditionOfPodsThatNeedMoreThanAnImage(t *testing.T) {
	t.Parallel()
	was := admitted(t)
	pod := runs(runningPod(t, "web-0", was))
	s := was.DeepCopy()
	s.Spec.Containers[0].Command = []string{"run"}
	rehash(t, s)
	o := seen(t, s, pod)
	p := plan(o, noon)
	require.Len(t, p.updates.refused, 1)
	c := p.updates.refused[0].body.Status.Conditions[0]
	require.Equal(t, corev1.ConditionFalse, c.Status)
	require.Equal(t, ReasonImmutable, *c.Reason)
	require.JSONEq(t, `{"log":false}`, *c.Message)
	said, events := status(o, p, applied{revised: true, notUpgradable: []string{"web-0"}}, noon)
	require.Len(t, events, 1)
	of := func(s appsv1beta1.SidecarSetStatus) *metav1.Condition {
		return report.GetCondition(s.Conditions, appsv1beta1.SidecarSetUpgradable)
	}
	require.Equal(t, metav1.ConditionFalse, of(said).Status)
	require.Equal(t, "1 pods need more than other images: shop/web-0; restart their workloads, by kubectl kruise rollout restart, and they get "+
		"the sidecars when they are created again", of(said).Message)
	require.Equal(t, "1 pods can't be updated in place, as more than images has changed: web-0; they get the sidecars when they are created again", events[0].Note)

	told := func(message string, status corev1.ConditionStatus) {
		pod.Status.Conditions = append(pod.Status.Conditions[:1], corev1.PodCondition{Type: keys.SidecarSetUpgradable, Status: status, Message: message})
	}
	told(`{"log":false,"other":true}`, corev1.ConditionFalse)
	require.Empty(t, plan(o, noon).updates.refused, "it is said once")

	o = seen(t, was, pod)
	p = plan(o, noon)
	none, _ := status(o, p, applied{revised: true}, noon)
	require.Nil(t, of(none), "it has never been otherwise")
	o.set = o.set.DeepCopy()
	o.set.Status = said
	again, _ := status(o, p, applied{revised: true}, noon)
	require.Equal(t, metav1.ConditionTrue, of(again).Status)
	require.Equal(t, ReasonAllUpgradable, of(again).Reason)
	o.set.Spec.UpdateStrategy.Type = appsv1beta1.SidecarSetNotUpdate
	never, _ := status(o, plan(o, noon), applied{revised: true}, noon)
	require.Nil(t, of(never), "nothing is to be updated")
	o = seen(t, was, pod)
	require.Len(t, p.updates.restored, 1)
	c = p.updates.restored[0].body.Status.Conditions[0]
	require.Equal(t, corev1.ConditionTrue, c.Status)
	require.Equal(t, ReasonAllUpgradable, *c.Reason)
	told(`{"log":false,"other":false}`, corev1.ConditionFalse)
	c = plan(o, noon).updates.restored[0].body.Status.Conditions[0]
	require.Equal(t, corev1.ConditionFalse, c.Status, "another one still can't")
	told(`{`, corev1.ConditionFalse)
	require.Empty(t, plan(o, noon).updates.restored)
}

// ownedBy gives a pod a controller.
func ownedBy(pod *corev1.Pod, apiVersion, kind string) *corev1.Pod {
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: "web", UID: "w", Controller: new(true)}}
	return pod
}

func TestPodsThatNeedMoreThanAnImageAreRecreatedByTheirWorkloads(t *testing.T) {
	t.Parallel()
	const kruise = "apps.kruise.io/v1beta1"
	marked := func(pod *corev1.Pod) { pod.Labels[keys.SpecifiedDelete] = "true" }
	for _, tc := range []struct {
		name string
		// set holds fields of the spec, in addition to a command that the pods don't have.
		set string
		// of is the API version and kind of the workload. change is applied to the first of three pods.
		of     [2]string
		change func(*corev1.Pod)
		see    func(*observed)
		// again lists the pods that are recreated now, and waiting those that are not recreated. recheck is when time alone changes that.
		again, waiting []string
		recheck        time.Duration
	}{
		{name: "of a CloneSet", again: []string{"web-0"}},
		{name: "of a StatefulSet", of: [2]string{"apps.kruise.io/v1alpha1", "StatefulSet"}, again: []string{"web-0"}},
		{name: "of a DaemonSet", of: [2]string{kruise, "DaemonSet"}, again: []string{"web-0"}},
		{name: "of a native StatefulSet", of: [2]string{"apps/v1", "StatefulSet"}, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "of a BroadcastJob", of: [2]string{kruise, "BroadcastJob"}, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "within the budget", set: `updateStrategy: {maxUnavailable: 2}`, again: []string{"web-0", "web-1"}},
		{name: "as many as the partition lets", set: `updateStrategy: {maxUnavailable: 3, partition: 2}`, again: []string{"web-0"}},
		{name: "one that goes already counts", change: marked},
		{name: "and is one of those that the partition lets", set: `updateStrategy: {maxUnavailable: 3, partition: 1}`, change: marked, again: []string{"web-1"}},
		{name: "one that is not ready goes first", change: func(pod *corev1.Pod) { pod.Status.Conditions[0].Status = corev1.ConditionFalse }, again: []string{"web-0"}},
		{name: "those of the selector", set: `updateStrategy: {selector: {matchLabels: {canary: "true"}}}`, change: func(pod *corev1.Pod) { pod.Labels["canary"] = "true" }, again: []string{"web-0"}},
		{name: "none while it is paused", set: `updateStrategy: {paused: true}`},
		{name: "none with InPlaceOnly", set: `updateStrategy: {podUpdatePolicy: InPlaceOnly}`, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "none with NotUpdate", set: `updateStrategy: {type: NotUpdate}`},
		{name: "none if new pods get nothing", set: `injectionStrategy: {paused: true}`, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "none if new pods get an older revision", set: `injectionStrategy: {revision: {customVersion: v1}}`, waiting: []string{"web-0", "web-1", "web-2"}},
		{name: "none if a canary has their place", see: func(o *observed) { o.canaries = []*appsv1beta1.SidecarSet{{}} }, waiting: []string{"web-0", "web-1", "web-2"}},
		{
			name: "none if the webhook is not called", see: func(o *observed) { o.notSent = map[string]string{"shop": "exempt"} },
			waiting: []string{"web-0", "web-1", "web-2"},
		},
		{name: "not again at once", see: func(o *observed) {
			o.history = []*appsv1.ControllerRevision{o.wanted}
			o.wanted.CreationTimestamp = metav1.NewTime(noon.Add(-40 * time.Second))
			for _, pod := range o.pods {
				pod.CreationTimestamp = metav1.NewTime(noon.Add(-20 * time.Second))
			}
		}, recheck: 40 * time.Second},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			was := admitted(t)
			if tc.of[0] == "" {
				tc.of = [2]string{kruise, "CloneSet"}
			}
			var list []*corev1.Pod
			for _, name := range []string{"web-0", "web-1", "web-2"} {
				list = append(list, runs(ownedBy(runningPod(t, name, was), tc.of[0], tc.of[1])))
			}
			if tc.change != nil {
				tc.change(list[0])
			}
			s := admitted(t, `{spec: {updateStrategy: {podUpdatePolicy: InPlaceIfPossible}}}`, `{spec: {`+tc.set+`}}`)
			s.Spec.Containers[0].Command = []string{"run"}
			rehash(t, s)
			o := seen(t, s, list...)
			if tc.see != nil {
				tc.see(&o)
			}
			u := plan(o, noon).updates
			var again, waiting []string
			for _, w := range u.recreates {
				again = append(again, w.pod.Name)
				require.Equal(t, "true", *w.body.Metadata.Labels[keys.SpecifiedDelete])
				require.Equal(t, w.pod.ResourceVersion, w.body.Metadata.ResourceVersion)
			}
			for _, name := range u.immutable {
				waiting = append(waiting, strings.TrimPrefix(name, "shop/"))
			}
			require.Equal(t, tc.again, again)
			require.Equal(t, tc.waiting, waiting)
			require.Len(t, u.refused, len(tc.waiting), "only pods that wait are told so")
			require.Equal(t, tc.recheck, u.recheck)
			require.Empty(t, u.images)
			a := applied{revised: true, recreated: again}
			said, events := status(o, plan(o, noon), a, noon)
			c := report.GetCondition(said.Conditions, appsv1beta1.SidecarSetUpgradable)
			require.Equal(t, len(tc.waiting) > 0, c != nil && c.Status == metav1.ConditionFalse)
			if len(again) > 0 {
				require.Equal(t, ReasonRecreating, events[len(events)-1].Reason)
			}
		})
	}
}

func TestScatterOfAnyValue(t *testing.T) {
	t.Parallel()
	list := []*corev1.Pod{runningPod(t, "a"), runningPod(t, "b"), runningPod(t, "c")}
	list[0].Labels["zone"], list[1].Labels["zone"] = "z2", "z1"
	got := expanded([]pods.UpdateScatterTerm{{Key: "app", Value: "web"}, {Key: "zone", Value: "*"}}, list)
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
