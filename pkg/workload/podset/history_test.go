package podset

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/pkg/control/revision"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/testkit"
)

// TestAKindDefinesTheRevisionOfAPod: a SidecarSet doesn't own its pods. Their label holds the revision of their owner, and an annotation the
// revision of the SidecarSet.
func TestAKindDefinesTheRevisionOfAPod(t *testing.T) {
	t.Parallel()
	const annotation = "sidecarset-hash"
	var all []*appsv1.ControllerRevision
	for i, image := range []string{"proxy:1", "proxy:2", "proxy:3"} {
		template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "proxy", Image: image}}}}
		r, err := revision.New(revision.Spec{Owner: testkit.CloneSet("proxy").Obj(), Template: template})
		require.NoError(t, err)
		r.Revision = int64(i + 1)
		all = append(all, r)
	}
	var pods []*corev1.Pod
	for i, r := range all[1:] {
		pod := testkit.Pod(fmt.Sprintf("web-%d", i)).Rev("web-other").Serving(now).Obj()
		pod.Annotations = map[string]string{annotation: revision.Short(r.Name)}
		pod.Spec.Containers[0].Name = "proxy"
		pods = append(pods, pod)
	}
	p := NewPlan(History{
		All: all, Wanted: all[2], Pods: pods, RevisionOf: func(pod *corev1.Pod) string { return pod.Annotations[annotation] },
	})
	require.Equal(t, all[1].Name, p.Current.Name, "the oldest revision of a pod")
	p.Classify(pods, ViewOptions{Selector: &metav1.LabelSelector{}, Differ: &Differ{History: all}}, now)
	require.True(t, p.Pods[0].Old)
	require.Empty(t, p.Pods[0].NotInPlace, "compared from the revision that the annotation names")
	require.False(t, p.Pods[1].Old)
	p.Next(rollout.Goal{Replicas: 2, MaxUnavailable: 1, Mode: rollout.InPlaceIfPossible}, now)
	require.Len(t, p.Steps, 1)
	require.Equal(t, pods[0].Name, p.Steps[0].Pod.Key)
	p.TruncateHistory(0)
	require.Equal(t, all[:1], p.RevisionsToDelete, "no pod is at the revision")
}

// TestAnOriginIsKeptWhilePodsAreAtTheRevision: pods don't record which volumeClaimTemplates they were made from; their revision does.
func TestAnOriginIsKeptWhilePodsAreAtTheRevision(t *testing.T) {
	t.Parallel()
	const origin = "claims"
	for _, tc := range []struct {
		name     string
		recorded map[string]string
		pod      string // the image in the template that a pod was made from
		back     bool   // the template of the older revision is wanted again
		want     string
	}{
		{name: "recorded while a pod was at the revision", recorded: map[string]string{origin: "one"}, pod: "app:2", want: "one"},
		{name: "replaced without a pod at the revision", recorded: map[string]string{origin: "one"}, pod: "app:1", want: "two"},
		{name: "an empty value is kept too", recorded: map[string]string{origin: ""}, pod: "app:2"},
		{name: "a missing value is added", pod: "app:2", want: "two"},
		{name: "kept by a pod at a revision that is wanted again", recorded: map[string]string{origin: "one"}, pod: "app:1", back: true, want: "one"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			revisionOf := func(image string, number int64, annotations map[string]string) *appsv1.ControllerRevision {
				template := &corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: image}}}}
				r, err := revision.New(revision.Spec{Owner: testkit.CloneSet("web").Obj(), Template: template})
				require.NoError(t, err)
				r.Revision, r.Annotations = number, annotations
				return r
			}
			all := map[string]*appsv1.ControllerRevision{"app:1": revisionOf("app:1", 1, tc.recorded), "app:2": revisionOf("app:2", 2, tc.recorded)}
			image := "app:2"
			if tc.back {
				image = "app:1"
			}
			p := NewPlan(History{
				All: []*appsv1.ControllerRevision{all["app:1"], all["app:2"]}, Wanted: revisionOf(image, 0, map[string]string{origin: "two"}),
				Pods: []*corev1.Pod{testkit.Pod("web-a").Rev(all[tc.pod].Name).Obj()}, Origins: []string{origin},
			})
			require.Equal(t, all[image].Name, p.Revision.Revision.Name)
			got, has := p.Revision.Revision.Annotations[origin]
			require.True(t, has)
			require.Equal(t, tc.want, got)
		})
	}
}
