package predownload

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/apis/pods"
	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/testkit"
)

// template returns a template whose containers app and side have these images.
func template(app, side string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: app}, {Name: "side", Image: side}}},
	}
}

func revisionOf(tb testing.TB, name string, number int64, t corev1.PodTemplateSpec) *appsv1.ControllerRevision {
	tb.Helper()
	data, err := revision.Data(t)
	require.NoError(tb, err)
	return &appsv1.ControllerRevision{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: name, OwnerReferences: []metav1.OwnerReference{
			{APIVersion: appsv1beta1.GroupVersion.String(), Kind: "CloneSet", Name: "web", UID: "web", Controller: new(true)},
		}},
		Data: runtime.RawExtension{Raw: data}, Revision: number,
	}
}

// cloneSet returns a CloneSet with ten replicas that is updated in place from revision web-1 to web-2.
func cloneSet(change ...func(*appsv1beta1.CloneSet)) *appsv1beta1.CloneSet {
	set := &appsv1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: testkit.Namespace, Name: "web", UID: "web", Generation: 2},
		Spec: appsv1beta1.CloneSetSpec{
			Replicas: new(int32(10)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			UpdateStrategy: appsv1beta1.CloneSetUpdateStrategy{RollingUpdate: &appsv1beta1.CloneSetRollingUpdateStrategy{
				PodUpdatePolicy: appsv1beta1.PodInPlaceIfPossible,
			}},
		},
		Status: appsv1beta1.CloneSetStatus{ObservedGeneration: 2, CurrentRevision: "web-1", UpdateRevision: "web-2"},
	}
	for _, c := range change {
		c(set)
	}
	return set
}

func rolling(change func(*appsv1beta1.CloneSetRollingUpdateStrategy)) func(*appsv1beta1.CloneSet) {
	return func(set *appsv1beta1.CloneSet) { change(set.Spec.UpdateStrategy.RollingUpdate) }
}

func TestPlan(t *testing.T) {
	t.Parallel()
	first, second := revisionOf(t, "web-1", 1, template("app:1", "side:1")), revisionOf(t, "web-2", 2, template("app:2", "side:1"))
	both := []*appsv1.ControllerRevision{first, second}
	marked := second.DeepCopy()
	marked.Labels = map[string]string{keys.PreDownloadCreated: "true"}
	newWorkload := func(change ...func(*appsv1beta1.CloneSet)) workload {
		w := cloneSets().read(cloneSet(change...))
		w.gvk = cloneSets().gvk
		return w
	}
	set := newWorkload()
	job := func(name string, change ...func(*appsv1beta1.ImagePullJob)) *appsv1beta1.ImagePullJob {
		tpl := template("app:2", "side:1")
		j := (&observed{workload: set}).job("web-2", &tpl, &tpl.Spec.Containers[0])
		j.Name = name
		for _, c := range change {
			c(j)
		}
		return j
	}
	done := func(j *appsv1beta1.ImagePullJob) { j.Status.CompletionTime = new(metav1.Now()) }
	wider := rolling(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) {
		r.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{ImagePreDownloadParallelism: new(intstr.FromInt32(5))}
	})
	after := func(n int32) func(*appsv1beta1.CloneSet) {
		return rolling(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) {
			r.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{ImagePreDownloadMinUpdatedReadyPods: &n}
		})
	}
	ready := func(n int32) func(*appsv1beta1.CloneSet) {
		return func(set *appsv1beta1.CloneSet) { set.Status.UpdatedReadyReplicas = n }
	}
	for _, tc := range []struct {
		name     string
		workload workload
		history  []*appsv1.ControllerRevision
		jobs     []*appsv1beta1.ImagePullJob
		want     string // create, change and drop, by names, then whether the revision is marked
		why      string
	}{
		{name: "a new image", workload: set, want: "+web-2-app mark"},
		{name: "the job exists, and the revision is not marked", workload: set, jobs: []*appsv1beta1.ImagePullJob{job("web-2-app")}, want: "mark"},
		{name: "the revision is marked", workload: set, history: []*appsv1.ControllerRevision{first, marked}, jobs: []*appsv1beta1.ImagePullJob{job("web-2-app")}},
		{name: "a job that was deleted after its TTL is not re-created", workload: set, history: []*appsv1.ControllerRevision{first, marked}},
		{
			name: "a job changes while it runs", workload: newWorkload(wider), history: []*appsv1.ControllerRevision{first, marked},
			jobs: []*appsv1beta1.ImagePullJob{job("web-2-app")}, want: "~web-2-app",
		},
		{
			name: "a complete job is not updated", workload: newWorkload(wider), history: []*appsv1.ControllerRevision{first, marked},
			jobs: []*appsv1beta1.ImagePullJob{job("web-2-app", done)},
		},
		{name: "jobs of a previous update are deleted", workload: set, jobs: []*appsv1beta1.ImagePullJob{job("web-0-app")}, want: "+web-2-app -web-0-app mark"},
		{
			name: "all jobs are deleted when all pods are updated", why: "all pods are updated", want: "-web-2-app",
			workload: newWorkload(func(set *appsv1beta1.CloneSet) { set.Status.CurrentRevision = "web-2" }),
			jobs:     []*appsv1beta1.ImagePullJob{job("web-2-app", done)},
		},
		{
			name: "the controller has not observed the spec", why: "behind the spec", jobs: []*appsv1beta1.ImagePullJob{job("web-2-app")},
			workload: newWorkload(func(set *appsv1beta1.CloneSet) { set.Generation = 3 }),
		},
		{
			name: "a revision is not in the cache", workload: set, history: both[:1], why: "not in the cache",
			jobs: []*appsv1beta1.ImagePullJob{job("web-2-app")},
		},
		{name: "too few pods are ready", workload: newWorkload(after(3), ready(2)), why: "not enough pods are updated and ready"},
		{ // A pod that is unready for a moment must neither stop the pulls nor restart them.
			name: "jobs stay when too few pods are ready", workload: newWorkload(after(3), ready(2)), history: []*appsv1.ControllerRevision{first, marked},
			jobs: []*appsv1beta1.ImagePullJob{job("web-2-app")},
		},
		{
			name: "the revision is marked when all jobs exist", workload: newWorkload(after(3), ready(2)), jobs: []*appsv1beta1.ImagePullJob{job("web-2-app")},
			want: "mark",
		},
		{
			name: "jobs of a previous update are deleted when too few pods are ready", workload: newWorkload(after(3), ready(2)), why: "not enough pods are updated and ready",
			jobs: []*appsv1beta1.ImagePullJob{job("web-0-app")}, want: "-web-0-app",
		},
		{name: "enough pods are ready", workload: newWorkload(after(3), ready(3)), want: "+web-2-app mark"},
		{name: "the same images", workload: set, history: []*appsv1.ControllerRevision{first, revisionOf(t, "web-2", 2, template("app:1", "side:1"))}, why: "no image has changed"},
		{
			name: "not in place", workload: set, why: "volumes changed", history: []*appsv1.ControllerRevision{first, func() *appsv1.ControllerRevision {
				tpl := template("app:2", "side:1")
				tpl.Spec.Volumes = []corev1.Volume{{Name: "data"}}
				return revisionOf(t, "web-2", 2, tpl)
			}()},
		},
		{name: "re-created pods", workload: newWorkload(rolling(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) { r.PodUpdatePolicy = "" })), why: "re-created"},
		{name: "few replicas", workload: newWorkload(func(set *appsv1beta1.CloneSet) { set.Spec.Replicas = new(int32(3)) }), why: "3 replica(s)"},
		{name: "OnDelete", workload: newWorkload(func(set *appsv1beta1.CloneSet) { set.Spec.UpdateStrategy.Type = appsv1beta1.CloneSetOnDelete }), why: "when they are deleted"},
		{
			name: "all at once", why: "at once",
			workload: newWorkload(rolling(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) { r.MaxUnavailable = new(intstr.FromString("100%")) })),
		},
		{
			name: "all at once except for a partition", want: "+web-2-app mark",
			workload: newWorkload(rolling(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) {
				r.MaxUnavailable, r.Partition = new(intstr.FromString("100%")), new(intstr.FromInt32(1))
			})),
		},
		{
			name: "a value that can't be resolved", why: `resolve "many"`,
			workload: newWorkload(rolling(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) { r.MaxUnavailable = new(intstr.FromString("many")) })),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if tc.history == nil {
				tc.history = both
			}
			p := plan(observed{workload: tc.workload, history: tc.history, jobs: tc.jobs})
			var got []string
			for sign, jobs := range map[string][]*appsv1beta1.ImagePullJob{"+": p.create, "~": p.change, "-": p.drop} {
				for _, j := range jobs {
					got = append(got, sign+j.Name)
				}
			}
			require.LessOrEqual(t, len(got), 2)
			if p.mark != nil {
				got = append(got, "mark")
			}
			require.ElementsMatch(t, strings.Fields(tc.want), got)
			if tc.why == "" {
				require.Empty(t, p.why)
			} else {
				require.Contains(t, p.why, tc.why)
			}
		})
	}
}

// OpenKruise creates jobs of the same form.
func TestJob(t *testing.T) {
	t.Parallel()
	w := cloneSets().read(cloneSet(func(set *appsv1beta1.CloneSet) {
		set.Annotations = map[string]string{keys.ImagePreDownloadParallelism: "3", keys.ImagePreDownloadTimeoutSeconds: "x"}
	}, rolling(func(r *appsv1beta1.CloneSetRollingUpdateStrategy) {
		r.InPlaceUpdateStrategy = &pods.InPlaceUpdateStrategy{
			ImagePreDownloadParallelism: new(intstr.FromInt32(9)), ImagePreDownloadTimeoutSeconds: new(int32(60)),
		}
	})))
	w.gvk = cloneSets().gvk
	tpl := template("app:2", "side:1")
	tpl.Annotations = map[string]string{"team": "sea"}
	job := (&observed{workload: w}).job("web-2", &tpl, &tpl.Spec.Containers[0])
	require.Equal(t, "web-2-app", job.Name)
	require.Equal(t, map[string]string{"app": "web", keys.ControllerRevisionHash: "2"}, job.Labels)
	require.Equal(t, map[string]string{"app": "web"}, tpl.Labels, "the template is not changed")
	require.True(t, metav1.IsControlledBy(job, w.object))
	s := job.Spec
	require.Equal(t, "app:2", s.Image)
	require.Equal(t, appsv1beta1.PullIfNotPresent, s.ImagePullPolicy)
	require.Equal(t, 3, s.Parallelism.IntValue(), "an annotation takes precedence")
	require.EqualValues(t, 60, *s.PullPolicy.TimeoutSeconds, "an invalid annotation is ignored")
	require.EqualValues(t, 1, *s.PullPolicy.BackoffLimit)
	require.EqualValues(t, 600, *s.CompletionPolicy.TTLSecondsAfterFinished)
	require.Equal(t, &appsv1beta1.SandboxConfig{Labels: tpl.Labels, Annotations: tpl.Annotations}, s.SandboxConfig)
	long := template("app:2", "side:1")
	long.Annotations = map[string]string{"long": strings.Repeat("x", imagepull.MaxSandbox)}
	require.Nil(t, (&observed{workload: w}).job("web-2", &long, &long.Spec.Containers[0]).Spec.SandboxConfig, "a job with such a value is refused")
	require.Equal(t, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}, MatchExpressions: []metav1.LabelSelectorRequirement{
		{Key: keys.ControllerRevisionHash, Operator: metav1.LabelSelectorOpNotIn, Values: []string{"web-2", "2"}},
	}}, s.PodSelector)
	require.Empty(t, cloneSet().Spec.Selector.MatchExpressions)
	require.Len(t, jobName(strings.Repeat("a", 240)+"-2", strings.Repeat("c", 63)), 253)
	require.True(t, strings.HasSuffix(jobName(strings.Repeat("a", 240)+"-2", "c"), "-2-c"))
}

// An annotation that has no effect, as admission warns, leaves the field in effect.
func TestAnnotationsThatCannotBeReadLeaveTheFields(t *testing.T) {
	t.Parallel()
	type annotations = map[string]string
	fields := &pods.InPlaceUpdateStrategy{
		ImagePreDownloadParallelism: new(intstr.FromInt32(9)), ImagePreDownloadTimeoutSeconds: new(int32(60)),
		ImagePreDownloadMinUpdatedReadyPods: new(int32(4)),
	}
	asking := func(parallelism, timeout int32, ready intstr.IntOrString) ask {
		return ask{parallelism: new(intstr.FromInt32(parallelism)), timeout: timeout, minReady: &ready}
	}
	all := func(parallelism, timeout, ready string) annotations {
		return annotations{
			keys.ImagePreDownloadParallelism: parallelism, keys.ImagePreDownloadTimeoutSeconds: timeout, keys.ImagePreDownloadMinUpdatedReadyPods: ready,
		}
	}
	for _, tc := range []struct {
		name   string
		by     annotations
		fields *pods.InPlaceUpdateStrategy
		want   ask
	}{
		{"none", nil, fields, asking(9, 60, intstr.FromInt32(4))},
		{"numbers", all("3", "30", "2"), fields, asking(3, 30, intstr.FromInt32(2))},
		{"zeros", all("0", "0", "0"), fields, asking(0, 0, intstr.FromInt32(0))},
		{"a percentage of pods", all("3", "30", "20%"), fields, asking(3, 30, intstr.FromString("20%"))},
		{"other percentages", all("3%", "30%", "2"), fields, asking(9, 60, intstr.FromInt32(2))},
		{"negative numbers", all("-3", "-30", "-2"), fields, asking(9, 60, intstr.FromInt32(4))},
		{"text", all("x", "5m", "some"), fields, asking(9, 60, intstr.FromInt32(4))},
		{"text without fields", all("x", "5m", "some"), nil, ask{}},
		{"nothing", nil, nil, ask{}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			require.Equal(t, tc.want, readAsk(&appsv1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Annotations: tc.by}}, tc.fields))
		})
	}
}

func TestKinds(t *testing.T) {
	t.Parallel()
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	sts := statefulSets().read(&appsv1beta1.StatefulSet{
		ObjectMeta: metav1.ObjectMeta{Generation: 1, Annotations: map[string]string{keys.ImagePreDownloadMinUpdatedReadyPods: "20%"}},
		Spec: appsv1beta1.StatefulSetSpec{
			Replicas: new(int32(10)), Selector: selector, UpdateStrategy: appsv1beta1.StatefulSetUpdateStrategy{
				RollingUpdate: &appsv1beta1.StatefulSetRollingUpdateStrategy{PodUpdatePolicy: appsv1beta1.PodInPlaceOnly, Partition: new(int32(2))},
			},
		},
		Status: appsv1beta1.StatefulSetStatus{ObservedGeneration: 1, CurrentRevision: "web-1", UpdateRevision: "web-2", UpdatedReadyReplicas: 1},
	})
	require.Empty(t, sts.useless)
	history := []*appsv1.ControllerRevision{revisionOf(t, "web-1", 1, template("app:1", "side:1")), revisionOf(t, "web-2", 2, template("app:2", "side:1"))}
	require.Contains(t, plan(observed{workload: sts, history: history}).why, "not enough pods", "20% of 10 are 2")
	sts.ready = 2
	require.Len(t, plan(observed{workload: sts, history: history}).create, 1)

	daemons := &appsv1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Generation: 1}, Spec: appsv1beta1.DaemonSetSpec{Selector: selector},
		Status: appsv1beta1.DaemonSetStatus{ObservedGeneration: 1, UpdateRevision: "web-3", DesiredNumberScheduled: 2, UpdatedNumberScheduled: 1},
	}
	ds := daemonSets().read(daemons)
	require.Empty(t, ds.useless, "few nodes suffice, as pods are updated one after the other")
	third := template("app:2", "side:3")
	third.Spec.Volumes = []corev1.Volume{{Name: "data"}}
	history = append(history, revisionOf(t, "web-3", 3, third))
	var images []string
	for _, j := range plan(observed{workload: ds, history: history}).create {
		images = append(images, j.Spec.Image)
	}
	require.Equal(t, []string{"app:2", "side:3"}, images, "pods of all previous revisions may be left, and are re-created on their nodes")
	daemons.Spec.UpdateStrategy = appsv1beta1.DaemonSetUpdateStrategy{Type: appsv1beta1.DaemonSetOnDelete}
	require.Empty(t, daemonSets().read(daemons).useless, "OnDelete has an empty strategy")
	daemons.Status.UpdatedNumberScheduled = 2
	require.True(t, daemonSets().read(daemons).done)
}
