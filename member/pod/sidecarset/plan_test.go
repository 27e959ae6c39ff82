package sidecarset

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
)

// admitted returns a SidecarSet with its defaults and hashes, as the webhook leaves it.
func admitted(tb testing.TB, changes ...string) *appsv1beta1.SidecarSet {
	tb.Helper()
	s := setOf(tb, changes...)
	setDefaults(&s.Spec)
	rehash(tb, s)
	return s
}

func rehash(tb testing.TB, s *appsv1beta1.SidecarSet) {
	tb.Helper()
	h, err := hashesOf(&s.Spec)
	require.NoError(tb, err)
	if s.Annotations == nil {
		s.Annotations = map[string]string{}
	}
	s.Annotations[keys.SidecarSetHash], s.Annotations[keys.SidecarSetHashWithoutImage] = h.full, h.withoutImage
}

// runningPod returns a ready pod with the sidecars of SidecarSets.
func runningPod(tb testing.TB, name string, sets ...*appsv1beta1.SidecarSet) *corev1.Pod {
	tb.Helper()
	pod := podOf(tb, basePod)
	pod.Name, pod.GenerateName, pod.CreationTimestamp = name, "", metav1.NewTime(noon)
	var all []injection
	for _, s := range sets {
		in, err := currentInjection(s)
		require.NoError(tb, err)
		all = append(all, in)
	}
	_, err := inject(pod, all, options{now: metav1.NewTime(noon)})
	require.NoError(tb, err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}
	return pod
}

// observedFor returns what a reconcile has read for a SidecarSet and pods.
func observedFor(tb testing.TB, s *appsv1beta1.SidecarSet, pods ...*corev1.Pod) observed {
	tb.Helper()
	return observed{set: s, wanted: revisionOf(tb, s), pods: pods}
}

func TestCounts(t *testing.T) {
	t.Parallel()
	hotSet := `{spec: {containers: [{name: log, image: "log:1", upgradeStrategy: {upgradeType: HotUpgrade, hotUpgradeEmptyImage: "e:1"}}]}}`
	notReady := func(p *corev1.Pod) { p.Status.Conditions[0].Status = corev1.ConditionFalse }
	for _, tc := range []struct {
		name   string
		set    string
		change func(*corev1.Pod)
		// matched, updated, ready and updatedReady for one pod, and why it counts as none of them.
		want [4]int32
		why  string
	}{
		{name: "a pod with the sidecars", set: `{}`, want: [4]int32{1, 1, 1, 1}},
		{name: "a pod that is not ready", set: `{}`, change: notReady, want: [4]int32{1, 1, 0, 0}},
		{name: "a pod that does not run yet", set: `{}`, change: func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, want: [4]int32{1, 1, 0, 0}},
		{
			name: "a pod with older sidecars", set: `{}`, want: [4]int32{1, 0, 1, 0},
			change: func(p *corev1.Pod) { annotate(p, keys.SidecarSetHash, `{"log":{"hash":"older"}}`) },
		},
		{
			name: "the kubelet has not restarted the sidecar yet", set: `{}`, want: [4]int32{1, 1, 0, 0},
			change: func(p *corev1.Pod) {
				p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "log", Image: "log:0", ImageID: "sha256:0", Ready: true}}
				annotate(p, keys.SidecarSetInPlaceState, `{"log":{"lastContainerStatuses":{"log":{"imageID":"sha256:0"}}}}`)
			},
		},
		{name: "a pod with two containers for a sidecar", set: hotSet, want: [4]int32{1, 1, 1, 1}},
		{name: "a sidecar that is handing over", set: hotSet, change: func(p *corev1.Pod) { annotate(p, "version.sidecarset.kruise.io/log-2", "5") }, want: [4]int32{1, 1, 0, 0}},
		{
			name: "the second container is the working one", set: hotSet, want: [4]int32{1, 1, 1, 1},
			change: func(p *corev1.Pod) {
				p.Spec.Containers[0].Image, p.Spec.Containers[1].Image = "e:1", "log:1"
				annotate(p, keys.SidecarSetWorking, `{"log":"log-2"}`)
				annotate(p, "version.sidecarset.kruise.io/log-1", "0")
				annotate(p, "version.sidecarset.kruise.io/log-2", "5")
			},
		},
		{name: "a container is missing", set: hotSet, change: func(p *corev1.Pod) { p.Spec.Containers = p.Spec.Containers[1:] }, why: "container log-1 of the SidecarSet is missing"},
		{
			name: "no annotation names the working container", set: hotSet, why: "container log of the SidecarSet is missing",
			change: func(p *corev1.Pod) { delete(p.Annotations, keys.SidecarSetWorking) },
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := admitted(t, tc.set)
			pod := runningPod(t, "web-0", s)
			if tc.change != nil {
				tc.change(pod)
			}
			p := plan(observedFor(t, s, pod), noon)
			require.Equal(t, tc.want, [4]int32{p.matched, p.updated, p.ready, p.updatedReady})
			if tc.why == "" {
				require.Empty(t, p.uninjected)
				return
			}
			require.Equal(t, []uninjectedPods{{why: tc.why, count: 1, first: "shop/web-0"}}, p.uninjected)
		})
	}
}

func TestWhyPodsHaveNoSidecars(t *testing.T) {
	t.Parallel()
	canary := admitted(t, `{metadata: {name: next, annotations: {apps.kruise.io/sidecarset-canary: "true", apps.kruise.io/sidecarset-base: log}}, spec: {updateStrategy: {type: NotUpdate}}}`)
	for _, tc := range []struct {
		name   string
		set    string
		sets   []*appsv1beta1.SidecarSet
		change func(*corev1.Pod)
		seen   func(*observed)
		want   string
	}{
		{name: "a static pod", set: `{}`, change: func(p *corev1.Pod) { annotate(p, corev1.MirrorPodAnnotationKey, "x") }, want: "it is a static pod"},
		{name: "a pod of the canary", set: `{}`, sets: []*appsv1beta1.SidecarSet{canary}, want: "canary next replaces the SidecarSet"},
		{name: "a namespace whose pods are not sent to the webhook", set: `{}`, seen: func(o *observed) { o.notSent = map[string]string{"shop": "namespace shop is exempt"} }, want: "namespace shop is exempt"},
		{
			name: "an older pod", set: `{}`, seen: func(o *observed) { o.set.CreationTimestamp = metav1.NewTime(noon.Add(time.Second)) },
			want: "it is older than the SidecarSet, and pods get sidecars only when they are created",
		},
		{name: "a name that is taken", set: `{}`, change: func(p *corev1.Pod) { p.Spec.Containers[0].Name = "log" }, want: "it has a container log of its own: rename one of them"},
		{name: "a paused injection", set: `{spec: {injectionStrategy: {paused: true}}}`, want: "injection is paused (spec.injectionStrategy.paused)"},
		{name: "no known reason", set: `{}`, want: "it got none when it was created: kubectl kruise explain pod shows what it would get now"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			s := admitted(t, tc.set)
			pod := runningPod(t, "web-0", tc.sets...)
			if tc.change != nil {
				tc.change(pod)
			}
			o := observedFor(t, s, pod)
			o.canaries = []*appsv1beta1.SidecarSet{canary}
			if tc.seen != nil {
				tc.seen(&o)
			}
			p := plan(o, noon)
			require.Equal(t, []uninjectedPods{{why: tc.want, count: 1, first: "shop/web-0"}}, p.uninjected)
			require.Zero(t, p.matched)
		})
	}
}

func TestASidecarSetIsActiveWhenThePodWebhookGetsItsPods(t *testing.T) {
	t.Parallel()
	o := observedFor(t, admitted(t))
	o.whyNotActive = "the pod webhook does not get the pods of the namespace yet"
	before, _ := status(o, plan(o, noon), applied{revised: true}, noon)
	c := report.GetCondition(before.Conditions, appsv1beta1.SidecarSetActive)
	require.Equal(t, metav1.ConditionFalse, c.Status)
	require.Equal(t, reasonNotSent, c.Reason)
	require.Equal(t, o.whyNotActive, c.Message)

	o.set.Status, o.whyNotActive = before, ""
	after, events := status(o, plan(o, noon), applied{revised: true}, noon)
	require.True(t, report.IsConditionTrue(after.Conditions, appsv1beta1.SidecarSetActive))
	require.False(t, mayWait(&before, &after, events), "users and tools wait for a changed condition")
	again, _ := status(o, plan(o, noon), applied{revised: true}, noon)
	require.True(t, mayWait(&after, &again, nil))
}

func TestConditionOfPodsWithoutSidecars(t *testing.T) {
	t.Parallel()
	s := admitted(t)
	s.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour))
	injectedPod, brokenPod := runningPod(t, "web-0", s), runningPod(t, "web-3", s)
	brokenPod.Spec.Containers = brokenPod.Spec.Containers[1:]
	o := observedFor(t, s, injectedPod, runningPod(t, "web-1"), runningPod(t, "web-2"), brokenPod)
	p := plan(o, noon)
	got, events := status(o, p, applied{revised: true}, noon)
	require.Equal(t, int32(1), got.MatchedPods)
	require.Equal(t, p.revision.Revision.Name, got.LatestRevision)
	require.Len(t, report.ButReadiness(got.Conditions, report.ConditionForm(0)), 2)
	want := "selected pods without its sidecars: 3; shop/web-1 and 1 more: it got none when it was created: " +
		"kubectl kruise explain pod shows what it would get now; shop/web-3: container log of the SidecarSet is missing"
	injected := report.GetCondition(got.Conditions, appsv1beta1.SidecarSetInjected)
	require.Equal(t, want, injected.Message)
	require.Equal(t, metav1.ConditionFalse, injected.Status)
	require.Len(t, events, 1)
	require.Equal(t, want, events[0].Note)

	o.set.Status = got
	_, events = status(o, p, applied{revised: true}, noon)
	require.Empty(t, events, "the event is recorded only once")

	o.pods = []*corev1.Pod{injectedPod}
	got, events = status(o, plan(o, noon), applied{revised: true}, noon)
	require.True(t, report.IsConditionTrue(got.Conditions, appsv1beta1.SidecarSetInjected))
	require.Empty(t, events)

	many := planned{uninjected: []uninjectedPods{{"a", 1, "x/1"}, {"b", 1, "x/2"}, {"c", 1, "x/3"}, {"d", 1, "x/4"}, {"e", 1, "x/5"}}}
	require.Equal(t, "selected pods without its sidecars: 5; x/1: a; x/2: b; x/3: c; 2 more reason(s)", many.notInjected())
}

func TestRevisions(t *testing.T) {
	t.Parallel()
	version := func(image string) *appsv1beta1.SidecarSet {
		return admitted(t, `{spec: {containers: [{name: log, image: "`+image+`"}]}}`)
	}
	history := make([]*appsv1.ControllerRevision, 0, 5)
	for i, image := range []string{"log:1", "log:2", "log:3", "log:4", "log:5"} {
		r := revisionOf(t, version(image))
		r.Revision = int64(i + 1)
		history = append(history, r)
	}
	names := func(list []*appsv1.ControllerRevision) []int64 {
		out := make([]int64, 0, len(list))
		for _, r := range list {
			out = append(out, r.Revision)
		}
		return out
	}
	limit := func(s *appsv1beta1.SidecarSet, n int32) *appsv1beta1.SidecarSet {
		s.Spec.RevisionHistoryLimit = &n
		return s
	}
	for _, tc := range []struct {
		name    string
		set     *appsv1beta1.SidecarSet
		pods    []*corev1.Pod
		change  revision.Change
		surplus []int64
		label   bool
	}{
		{name: "the current revision is the newest", set: version("log:5"), change: revision.Keep, surplus: []int64{}},
		{name: "a new revision", set: version("log:6"), change: revision.Create, surplus: []int64{}},
		{name: "back to an older revision", set: version("log:2"), change: revision.Renew, surplus: []int64{}},
		{name: "the limit includes the current revision", set: limit(version("log:5"), 2), change: revision.Keep, surplus: []int64{1, 2, 3}},
		{name: "the current revision is always kept", set: limit(version("log:5"), 0), change: revision.Keep, surplus: []int64{1, 2, 3, 4}},
		{
			name: "revisions that pods have are kept and don't count towards the limit", set: limit(version("log:5"), 1), change: revision.Keep, surplus: []int64{2, 3, 4},
			pods: []*corev1.Pod{runningPod(t, "web-0", version("log:1"))},
		},
		{
			name: "a revision that new pods get is kept", change: revision.Keep, surplus: []int64{2, 3, 4},
			set: limit(admitted(t, `{spec: {containers: [{name: log, image: "log:5"}], injectionStrategy: {revision: {revisionName: `+history[0].Name+`}}}}`), 1),
		},
		{
			name: "the current revision gets the customVersion", change: revision.Keep, label: true, surplus: []int64{},
			set: admitted(t, `{spec: {containers: [{name: log, image: "log:5"}], customVersion: v5}}`),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observedFor(t, tc.set, tc.pods...)
			o.history = history
			p := plan(o, noon)
			require.Equal(t, tc.change, p.revision.Change)
			require.Equal(t, tc.surplus, names(p.surplus))
			require.Equal(t, tc.label, p.toRelabel != nil)
		})
	}
}

func TestACollisionIsCounted(t *testing.T) {
	t.Parallel()
	s := admitted(t)
	o := observedFor(t, s)
	before := o.wanted.Name
	got, _ := status(o, plan(o, noon), applied{collided: true}, noon)
	require.Equal(t, int32(1), *got.CollisionCount)
	require.Empty(t, got.LatestRevision)
	s.Status = got
	require.NotEqual(t, before, revisionOf(t, s).Name, "the collision count changes the next name")
}

// After a takeover the status stays, nothing is written, and no pod is outdated.
func TestTheStatusStaysThatOfOpenKruise(t *testing.T) {
	t.Parallel()
	known := openKruise(t)
	for set, name := range map[string]string{"take-sidecar": "take-sidecar-xx4cp", "side-a1": "spread-8q8tn", "side-b1": ""} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			s, pods := known.sets[set], []*corev1.Pod(nil)
			if name != "" {
				pods = append(pods, known.pods[name])
			}
			if strings.HasPrefix(name, "spread") { // One of three pods.
				s.Status.MatchedPods, s.Status.UpdatedPods, s.Status.ReadyPods, s.Status.UpdatedReadyPods = 1, 1, 1, 1
			}
			wanted, err := newRevision(s, system)
			require.NoError(t, err)
			o := observed{set: s, wanted: wanted, history: []*appsv1.ControllerRevision{known.revisions[set]}, pods: pods}
			p := plan(o, noon)
			require.Equal(t, revision.Keep, p.revision.Change)
			require.Empty(t, p.surplus)
			require.Empty(t, p.uninjected)
			got, events := status(o, p, applied{revised: true}, noon)
			require.Empty(t, events)
			got.Conditions = nil // OpenKruise has none.
			require.Empty(t, cmp.Diff(s.Status, got))
		})
	}
}
