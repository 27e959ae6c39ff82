package image

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
)

var (
	noon  = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)
	early = metav1.NewTime(noon.Add(-time.Hour))
)

// nodeImage returns a NodeImage with these entries of image app, by tag.
func nodeImage(tags ...appsv1beta1.ImageTagSpec) *appsv1beta1.NodeImage {
	for i := range tags {
		tags[i].CreatedAt = &early
	}
	n := &appsv1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Generation: 1}}
	if len(tags) > 0 {
		n.Spec.Images = map[string]appsv1beta1.ImageSpec{"app": {Tags: tags}}
	}
	return n
}

func taskOf(tag string, version int64) task {
	return task{imagepull.Reference{Name: "app", Tag: tag}, version}
}

func tasks(orders []order) []task {
	var out []task
	for _, o := range orders {
		out = append(out, o.task)
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	one, two := appsv1beta1.ImageTagSpec{Tag: "1", Version: 1}, appsv1beta1.ImageTagSpec{Tag: "2", Version: 1}
	with := func(n *appsv1beta1.NodeImage, states ...appsv1beta1.ImageTagStatus) *appsv1beta1.NodeImage {
		n.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"app": {Tags: states}}
		return n
	}
	done := appsv1beta1.ImageTagStatus{Tag: "1", Version: 1, Phase: appsv1beta1.ImagePhaseSucceeded, StartTime: &early, CompletionTime: &early}
	sealed := func(key string) appsv1beta1.ImageTagSpec {
		return appsv1beta1.ImageTagSpec{Tag: "1", Version: 1, Credentials: &appsv1beta1.ImageCredentials{Key: key}}
	}
	undated := nodeImage(one)
	undated.Spec.Images["app"].Tags[0].CreatedAt = nil
	for _, tc := range []struct {
		name   string
		n      *appsv1beta1.NodeImage
		pulls  map[task]progress
		limit  int
		begin  []task
		cancel []task
		forget []task
		// counts are desired, pulling, waiting, succeeded and failed.
		counts [5]int32
		still  bool   // the status is as it is
		key    string // the key that the status then has
	}{
		{name: "no entry", n: nodeImage(), still: true},
		{name: "a new entry", n: nodeImage(one), begin: []task{taskOf("1", 1)}, counts: [5]int32{1, 1}},
		{name: "an entry without a date is left to the manager", n: undated, counts: [5]int32{1}},
		{name: "a pull in progress", n: nodeImage(one), pulls: map[task]progress{taskOf("1", 1): {began: noon}}, counts: [5]int32{1, 1}},
		{
			name: "credentials for an earlier key", n: nodeImage(sealed("other")), counts: [5]int32{1, 0, 1}, key: "key",
		},
		{name: "credentials for the current key", n: nodeImage(sealed("key")), begin: []task{taskOf("1", 1)}, counts: [5]int32{1, 1}},
		{
			name: "credentials change during the pull", n: nodeImage(sealed("other")), pulls: map[task]progress{taskOf("1", 1): {began: noon}},
			counts: [5]int32{1, 1},
		},
		{
			name: "a pull that succeeded", n: nodeImage(one), pulls: map[task]progress{taskOf("1", 1): {began: noon, ended: noon, id: "sha256:1"}},
			counts: [5]int32{1, 0, 0, 1},
		},
		{
			name: "a pull that failed", n: nodeImage(one), pulls: map[task]progress{taskOf("1", 1): {began: noon, ended: noon, failure: "no"}},
			counts: [5]int32{1, 0, 0, 0, 1},
		},
		{
			name: "a result that is in the status is forgotten", n: with(nodeImage(one), done),
			pulls: map[task]progress{taskOf("1", 1): {ended: noon}}, forget: []task{taskOf("1", 1)}, counts: [5]int32{1, 0, 0, 1},
		},
		{
			name: "another version is pulled again, and the pull of the old one is canceled", n: with(nodeImage(appsv1beta1.ImageTagSpec{Tag: "1", Version: 2}), done),
			pulls: map[task]progress{taskOf("1", 1): {}}, begin: []task{taskOf("1", 2)}, cancel: []task{taskOf("1", 1)}, counts: [5]int32{1, 1},
		},
		{name: "an unwanted pull is canceled", n: nodeImage(), pulls: map[task]progress{taskOf("1", 1): {}}, cancel: []task{taskOf("1", 1)}, still: true},
		{
			name: "no more than the limit", n: nodeImage(one, two), limit: 1, begin: []task{taskOf("1", 1)}, counts: [5]int32{2, 1, 1},
		},
		{
			name: "the next pull begins when one has ended", n: nodeImage(one, two), limit: 1,
			pulls: map[task]progress{taskOf("1", 1): {began: noon, ended: noon}}, begin: []task{taskOf("2", 1)}, counts: [5]int32{2, 1, 0, 1},
		},
		{
			name: "a pull that an earlier process had begun comes first", limit: 1, begin: []task{taskOf("2", 1)}, counts: [5]int32{2, 1, 1},
			n: with(nodeImage(one, two), appsv1beta1.ImageTagStatus{Tag: "2", Version: 1, Phase: appsv1beta1.ImagePhasePulling, StartTime: &early}),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			before := tc.n.DeepCopy()
			p := plan(tc.n, tc.pulls, tc.limit, "key", noon)
			require.Equal(t, before, tc.n)
			require.Equal(t, tc.begin, tasks(p.begin))
			require.Equal(t, tc.cancel, p.cancel)
			require.Equal(t, tc.forget, p.forget)
			s := p.status
			counts := [5]int32{s.Desired, s.Pulling, s.Waiting, s.Succeeded, s.Failed}
			require.Equal(t, tc.counts, counts)
			require.Equal(t, tc.still, !p.changed)
			require.Equal(t, tc.key, s.CredentialsKey)
			require.Equal(t, s.Desired > 0 && s.Succeeded+s.Failed == s.Desired, s.FirstSyncStatus != nil)

			// After the status is written and the planned pulls have started, the plan is the same except for what it has done.
			next, pulls := tc.n.DeepCopy(), maps.Clone(tc.pulls)
			next.Status = s
			for _, o := range p.begin {
				if pulls == nil {
					pulls = map[task]progress{}
				}
				pulls[o.task] = progress{began: o.began}
			}
			maps.DeleteFunc(pulls, func(id task, _ progress) bool { return slices.Contains(p.cancel, id) || slices.Contains(p.forget, id) })
			again := plan(next, pulls, tc.limit, "key", noon)
			require.Empty(t, again.begin)
			require.Empty(t, again.cancel)
			require.False(t, again.changed, "%+v", again.status)
		})
	}
}

func TestOrder(t *testing.T) {
	t.Parallel()
	n := nodeImage(appsv1beta1.ImageTagSpec{Tag: "1"}, appsv1beta1.ImageTagSpec{
		Tag: "2", ImagePullPolicy: appsv1beta1.PullIfNotPresent, PullPolicy: &appsv1beta1.ImageTagPullPolicy{
			TimeoutSeconds: new(int32(5)), BackoffLimit: new(int32(0)), ActiveDeadlineSeconds: new(int64(7)),
		},
	}, appsv1beta1.ImageTagSpec{Tag: "3", PullPolicy: &appsv1beta1.ImageTagPullPolicy{
		TimeoutSeconds: new(int32(-1)), BackoffLimit: new(int32(-1)), ActiveDeadlineSeconds: new(int64(1 << 62)),
	}})
	older := metav1.NewTime(early.Add(-time.Minute))
	n.Spec.Images["app"].Tags[2].CreatedAt = &older
	n.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"app": {Tags: []appsv1beta1.ImageTagStatus{
		{Tag: "2", Phase: appsv1beta1.ImagePhasePulling, StartTime: &early},
	}}}
	p := plan(n, nil, 0, "key", noon)
	require.Equal(t, []order{
		{task: taskOf("2", 0), began: early.Time, since: early.Time, present: true, timeout: 5 * time.Second, attempts: 1, deadline: early.Add(7 * time.Second)},
		{task: taskOf("3", 0), began: noon, since: older.Time, timeout: 10 * time.Minute, attempts: 1, deadline: noon.Add(longest * time.Second)},
		{task: taskOf("1", 0), began: noon, since: early.Time, timeout: 10 * time.Minute, attempts: 4},
	}, p.begin)
}

// If a daemon restarts with a lower limit, pulls that had begun may wait. Their deadlines count from when they began.
func TestAPullThatWaitsAgainKeepsItsStart(t *testing.T) {
	t.Parallel()
	n := nodeImage(appsv1beta1.ImageTagSpec{Tag: "1"}, appsv1beta1.ImageTagSpec{Tag: "2"}, appsv1beta1.ImageTagSpec{Tag: "3"})
	later := metav1.NewTime(early.Add(time.Minute))
	n.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{"app": {Tags: []appsv1beta1.ImageTagStatus{
		{Tag: "1", Phase: appsv1beta1.ImagePhasePulling, StartTime: &early}, {Tag: "2", Phase: appsv1beta1.ImagePhasePulling, StartTime: &later},
	}}}
	p := plan(n, nil, 1, "key", noon)
	require.Equal(t, []task{taskOf("1", 0)}, tasks(p.begin))
	require.ElementsMatch(t, []appsv1beta1.ImageTagStatus{
		{Tag: "1", Phase: appsv1beta1.ImagePhasePulling, StartTime: &early},
		{Tag: "2", Phase: appsv1beta1.ImagePhaseWaiting, StartTime: &later},
		{Tag: "3", Phase: appsv1beta1.ImagePhaseWaiting},
	}, p.status.ImageStatuses["app"].Tags)
}

func TestTheFirstSyncIsToldOnce(t *testing.T) {
	t.Parallel()
	n := nodeImage(appsv1beta1.ImageTagSpec{Tag: "1"})
	failed := plan(n, map[task]progress{taskOf("1", 0): {began: noon, ended: noon, failure: "no such tag"}}, 0, "key", noon).status
	require.Equal(t, &appsv1beta1.ImageSyncStatus{SyncAt: metav1.NewTime(noon), Status: appsv1beta1.ImagePhaseFailed, Message: "not pulled: app:1"}, failed.FirstSyncStatus)
	n.Status = failed
	n.Spec.Images["app"].Tags[0].Version = 1
	later := plan(n, map[task]progress{taskOf("1", 1): {began: noon, ended: noon, id: "sha256:1"}}, 0, "key", noon.Add(time.Hour)).status
	require.Equal(t, failed.FirstSyncStatus, later.FirstSyncStatus)
	require.Equal(t, "app@sha256:1", later.ImageStatuses["app"].Tags[0].ImageID)
}

func TestAttack28PullsOfANamespaceLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	entry := func(namespace, tag string) appsv1beta1.ImageTagSpec {
		return appsv1beta1.ImageTagSpec{Tag: tag, OwnerReferences: []appsv1beta1.ImageTagOwner{
			{Namespace: "first", UID: "1"}, {Namespace: namespace, UID: "2", Version: new(int64(0))},
		}}
	}
	var tags []appsv1beta1.ImageTagSpec
	for i := range 10 {
		tags = append(tags, entry("greedy", fmt.Sprintf("greedy-%d", i)))
	}
	n := nodeImage(append(tags, entry("victim", "victim"))...)
	p := plan(n, nil, 8, "key", noon)
	require.Equal(t, []task{taskOf("greedy-0", 0), taskOf("greedy-1", 0), taskOf("greedy-2", 0), taskOf("greedy-3", 0), taskOf("victim", 0)}, tasks(p.begin))

	// Pulls under way count.
	pulls := map[task]progress{}
	for _, o := range p.begin {
		pulls[o.task] = progress{began: noon}
	}
	require.Empty(t, plan(n, pulls, 8, "key", noon).begin)
	delete(pulls, taskOf("victim", 0))
	require.Equal(t, []task{taskOf("victim", 0)}, tasks(plan(n, pulls, 8, "key", noon).begin))
	require.Len(t, plan(n, nil, 0, "key", noon).begin, 11, "0 is any number")
}

// A registry chooses the text of a failure. If the status became too large to be written, no pull on the node would be reported.
func TestAttack28FailuresLeaveRoomForOthers(t *testing.T) {
	t.Parallel()
	n := nodeImage(appsv1beta1.ImageTagSpec{Tag: "1", Version: 1})
	failed := progress{began: noon, ended: noon, failure: "pull image app:1: " + strings.Repeat("é", 1<<20)}
	p := plan(n, map[task]progress{taskOf("1", 1): failed}, 0, "", noon)
	message := p.status.ImageStatuses["app"].Tags[0].Message
	require.LessOrEqual(t, len(message), maxMessage)
	require.True(t, utf8.ValidString(message))
	require.Contains(t, message, "pull image app:1: é")
}
