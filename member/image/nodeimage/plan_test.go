package nodeimage

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

func TestANodeGetsANodeImageWhenItHasBeenReadyForTheDelay(t *testing.T) {
	t.Parallel()
	node := func(status corev1.ConditionStatus, ago time.Duration, labels ...string) *corev1.Node {
		n := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{
			Type: corev1.NodeReady, Status: status, LastTransitionTime: metav1.NewTime(noon.Add(-ago)),
		}}}}
		n.Labels = map[string]string{"type": "worker"}
		if len(labels) > 0 {
			n.Labels["type"] = labels[0]
		}
		return n
	}
	require.Equal(t, planned{create: true, labels: map[string]string{"type": "worker"}}, plan(observed{node: node("True", defaultDelay)}, noon, defaultDelay))
	require.Equal(t, planned{recheck: time.Second}, plan(observed{node: node("True", defaultDelay-time.Second)}, noon, defaultDelay))
	require.Equal(t, planned{}, plan(observed{node: node("False", time.Hour)}, noon, defaultDelay))
	require.Equal(t, planned{}, plan(observed{node: node("True", time.Hour, "virtual-kubelet")}, noon, defaultDelay))
	require.Equal(t, planned{}, plan(observed{}, noon, defaultDelay))
}

func TestPlanOfEntries(t *testing.T) {
	t.Parallel()
	const pulls, done = appsv1beta1.ImagePhasePulling, appsv1beta1.ImagePhaseSucceeded
	at := func(ago time.Duration) *metav1.Time { return new(metav1.NewTime(noon.Add(-ago))) }
	for _, tc := range []struct {
		name    string
		change  func(*appsv1beta1.ImageTagSpec, *appsv1beta1.ImageTagStatus)
		job     func(*appsv1beta1.ImagePullJob) // nil: it does not exist
		ends    bool
		fails   string
		recheck time.Duration
	}{
		{name: "a job that is not complete keeps its entry", job: func(*appsv1beta1.ImagePullJob) {}},
		{name: "an entry without its job is removed", ends: true},
		{name: "a complete job keeps its entry for the TTL", job: complete, recheck: time.Second},
		{name: "the entry of a complete job is removed after the TTL", job: complete, ends: true, change: func(_ *appsv1beta1.ImageTagSpec, s *appsv1beta1.ImageTagStatus) {
			s.CompletionTime = at(time.Minute)
		}},
		{
			name: "a job that never completes pulls again after the TTL", ends: true, job: func(j *appsv1beta1.ImagePullJob) {
				j.Spec.CompletionPolicy.Type = appsv1beta1.ImagePullJobNever
			},
			change: func(_ *appsv1beta1.ImageTagSpec, s *appsv1beta1.ImageTagStatus) { s.CompletionTime = at(time.Minute) },
		},
		{name: "an entry without owners stays for the TTL", recheck: time.Second, change: func(e *appsv1beta1.ImageTagSpec, _ *appsv1beta1.ImageTagStatus) {
			e.OwnerReferences = nil
		}},
		{name: "an entry without a creation time is removed", ends: true, change: func(e *appsv1beta1.ImageTagSpec, _ *appsv1beta1.ImageTagStatus) {
			e.OwnerReferences, e.CreatedAt = nil, nil
		}},
		{
			name: "a silent node is given time", job: func(*appsv1beta1.ImagePullJob) {}, recheck: 9 * time.Minute,
			change: func(_ *appsv1beta1.ImageTagSpec, s *appsv1beta1.ImageTagStatus) { s.Version = 0 },
		},
		{
			name: "a silent node fails after that time", job: func(*appsv1beta1.ImagePullJob) {}, fails: messageNoAnswer,
			change: func(e *appsv1beta1.ImageTagSpec, s *appsv1beta1.ImageTagStatus) {
				s.Version, e.CreatedAt = 0, at(patience)
			},
		},
		{
			name: "a pull without a limit may take long", job: func(*appsv1beta1.ImagePullJob) {},
			change: func(_ *appsv1beta1.ImageTagSpec, s *appsv1beta1.ImageTagStatus) {
				s.Phase, s.StartTime = pulls, at(time.Hour)
			},
		},
		{
			name: "a pull with a limit may not take longer", job: func(*appsv1beta1.ImagePullJob) {}, fails: messageTooLong,
			change: func(e *appsv1beta1.ImageTagSpec, s *appsv1beta1.ImageTagStatus) {
				s.Phase, s.StartTime, e.PullPolicy.ActiveDeadlineSeconds = pulls, at(time.Hour), new(int64(3000))
			},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			e := entry("1", 1)
			e.CreatedAt = at(time.Minute)
			s := appsv1beta1.ImageTagStatus{Tag: "1", Version: 1, Phase: done, CompletionTime: at(59 * time.Second)}
			if tc.change != nil {
				tc.change(&e, &s)
			}
			n := withEntries("a", done, e)
			n.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {Tags: []appsv1beta1.ImageTagStatus{s}}}
			o := observed{node: &corev1.Node{}, image: n, jobs: map[types.UID]*appsv1beta1.ImagePullJob{}}
			if tc.job != nil {
				j := job(1, tc.job)
				if j.Annotations[isComplete] != "" {
					j.Status.CompletionTime = at(0)
				}
				o.jobs[uid(1)] = j
			}
			before := n.DeepCopy()
			p := plan(o, noon, defaultDelay)
			require.Equal(t, before, n, "the cache's object was changed")
			require.Equal(t, tc.ends, p.changed)
			require.Equal(t, tc.ends, len(p.spec.Images) == 0)
			require.Equal(t, tc.fails, p.failed[imagepull.Reference{Name: "nginx", Tag: "1"}])
			require.Equal(t, tc.recheck, p.recheck)
			if tc.fails != "" {
				status := statusOf(n, p.failed, noon)
				require.Equal(t, int32(1), status.Failed)
				require.Equal(t, int32(1), status.Desired)
				require.Len(t, status.ImageStatuses["nginx"].Tags, 1)
				require.Equal(t, int64(1), status.ImageStatuses["nginx"].Tags[0].Version)
			}
		})
	}
}

func TestTheNodeImageOfANodeThatIsGone(t *testing.T) {
	t.Parallel()
	n := withEntries("a", "")
	require.True(t, plan(observed{image: n}, noon, defaultDelay).remove)
	n.Labels = map[string]string{keys.FakeNodeImage: ""}
	require.False(t, plan(observed{image: n}, noon, defaultDelay).remove)
}

func TestAttack28PlacesAreFreed(t *testing.T) {
	t.Parallel()
	ended := metav1.NewTime(noon.Add(-time.Hour))
	// ends reports whether the first of some entries ends an hour after it was pulled, when its jobs are as change says.
	ends := func(ttl int32, entries int, change func(*appsv1beta1.ImagePullJob)) bool {
		n := &appsv1beta1.NodeImage{Spec: appsv1beta1.NodeImageSpec{Images: map[string]appsv1beta1.ImageSpec{}}}
		n.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"nginx": {}}
		o := observed{node: &corev1.Node{}, image: n, jobs: map[types.UID]*appsv1beta1.ImagePullJob{}}
		image, state := appsv1beta1.ImageSpec{}, appsv1beta1.ImageStatus{}
		for i := range entries {
			e := entry(strconv.Itoa(i), i)
			e.CreatedAt, e.PullPolicy.TTLSecondsAfterFinished = &ended, &ttl
			image.Tags = append(image.Tags, e)
			state.Tags = append(state.Tags, appsv1beta1.ImageTagStatus{
				Tag: e.Tag, Version: e.Version, Phase: appsv1beta1.ImagePhaseSucceeded, CompletionTime: &ended,
			})
			j := job(i, func(*appsv1beta1.ImagePullJob) {})
			change(j)
			o.jobs[uid(i)] = j
		}
		n.Spec.Images["nginx"], n.Status.ImageStatuses["nginx"] = image, state
		return plan(o, noon, defaultDelay).changed
	}
	complete := func(j *appsv1beta1.ImagePullJob) { j.Status.CompletionTime = &ended }
	never := func(j *appsv1beta1.ImagePullJob) { j.Spec.CompletionPolicy.Type = appsv1beta1.ImagePullJobNever }
	const hours = 7200
	require.False(t, ends(hours, imagepull.Crowded-1, complete), "while there is room, entries stay for their TTL")
	require.True(t, ends(hours, imagepull.Crowded, complete), "entries of complete jobs make room for others")
	require.False(t, ends(hours, imagepull.Crowded, never), "a job that never completes keeps its entry")
	require.False(t, ends(hours, imagepull.Crowded, func(*appsv1beta1.ImagePullJob) {}), "an entry whose result is not counted yet is kept")

	// Whatever TTL is stored, a day is the maximum.
	ended = metav1.NewTime(noon.Add(-25 * time.Hour))
	require.True(t, ends(1<<30, 1, complete))
	ended = metav1.NewTime(noon.Add(-23 * time.Hour))
	require.False(t, ends(1<<30, 1, complete))
}
