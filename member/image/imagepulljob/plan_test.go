package imagepulljob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/noded/imagepull"
	"github.com/flotilla-io/flotilla/testkit/golden"
)

var noon = time.Date(2026, 11, 24, 12, 0, 0, 0, time.UTC)

var nginx = imagepull.Reference{Name: "nginx", Tag: "1"}

// nodeImageWith returns a NodeImage with an entry of a job, in the given phase.
func nodeImageWith(name string, phase appsv1beta1.ImagePullPhase, entry *appsv1beta1.ImageTagSpec, image ...string) *appsv1beta1.NodeImage {
	n := nodeImage(name)
	repository := nginx.Name
	if len(image) > 0 {
		repository = image[0]
	}
	n.Spec.Images = map[string]appsv1beta1.ImageSpec{repository: {Tags: []appsv1beta1.ImageTagSpec{*entry}}}
	if phase != "" {
		n.Status.ImageStatuses = map[string]appsv1beta1.ImageStatus{repository: {Tags: []appsv1beta1.ImageTagStatus{{
			Tag: entry.Tag, Version: entry.Version, Phase: phase,
		}}}}
	}
	return n
}

// text returns a plan for a golden file.
func text(p planned) string {
	var out strings.Builder
	for _, s := range p.steps {
		what := "withdraw"
		if s.entry != nil {
			what = fmt.Sprintf("apply %s version=%d created=%s %s timeout=%d backoff=%d", imagepull.Reference{Name: s.ref.Name, Tag: s.entry.Tag},
				s.entry.Version, s.entry.CreatedAt.UTC().Format(time.TimeOnly), s.entry.ImagePullPolicy, *s.entry.PullPolicy.TimeoutSeconds,
				*s.entry.PullPolicy.BackoffLimit)
		}
		fmt.Fprintf(&out, "%s: %s  # %s: %s\n", s.node.Name, what, s.reason, s.why)
	}
	fmt.Fprintf(&out, "desired=%d active=%d succeeded=%d pending=%d failed=%v late=%v complete=%t remove=%t release=%t recheck=%s\n",
		p.desired, p.active, p.succeeded, p.pending, p.failed, p.late, p.complete, p.remove, p.release, p.recheck)
	if len(p.dark) > 0 {
		fmt.Fprintf(&out, "dark: %v\n", p.dark)
	}
	if p.invalid != "" {
		fmt.Fprintln(&out, "invalid: "+p.invalid)
	}
	return out.String()
}

func TestPlan(t *testing.T) {
	t.Parallel()
	job := func(change ...func(*appsv1beta1.ImagePullJob)) *appsv1beta1.ImagePullJob {
		j := pulling(change...)
		j.UID = "job"
		j.CreationTimestamp, j.Status.StartTime = metav1.NewTime(noon.Add(-time.Hour)), new(metav1.NewTime(noon.Add(-time.Hour)))
		return j
	}
	own := newEntry(job(), nginx, "a", 3, metav1.NewTime(noon.Add(-time.Minute)))
	shared := own.DeepCopy()
	shared.OwnerReferences = append(shared.OwnerReferences, appsv1beta1.ImageTagOwner{Kind: kind, Namespace: "x", Name: "newer", UID: "newer"})
	newer := job()
	newer.UID, newer.CreationTimestamp = "newer", metav1.NewTime(noon)
	theirs := own.DeepCopy()
	theirs.OwnerReferences = shared.OwnerReferences[1:]
	redis := newEntry(job(), imagepull.Reference{Name: "redis", Tag: "7"}, "a", 0, metav1.NewTime(noon))
	slower := func(j *appsv1beta1.ImagePullJob) { j.Spec.PullPolicy.TimeoutSeconds = new(int32(900)) }
	complete := func(ago time.Duration) func(*appsv1beta1.ImagePullJob) {
		return func(j *appsv1beta1.ImagePullJob) {
			j.Status.CompletionTime, j.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(metav1.NewTime(noon.Add(-ago))), new(int32(60))
		}
	}
	deadline := func(seconds int64) func(*appsv1beta1.ImagePullJob) {
		return func(j *appsv1beta1.ImagePullJob) { j.Spec.CompletionPolicy.ActiveDeadlineSeconds = &seconds }
	}
	ofDeadline := newEntry(job(deadline(3600)), nginx, "a", 3, metav1.NewTime(noon.Add(-time.Minute)))
	const waiting, pulls, done, failed = appsv1beta1.ImagePhaseWaiting, appsv1beta1.ImagePhasePulling, appsv1beta1.ImagePhaseSucceeded, appsv1beta1.ImagePhaseFailed
	going := nodeImage("gone")
	going.DeletionTimestamp = &metav1.Time{Time: noon}
	type nodes = []*appsv1beta1.NodeImage
	for _, tc := range []struct {
		name   string
		job    *appsv1beta1.ImagePullJob
		nodes  nodes
		used   map[string]bool
		others map[types.UID]*appsv1beta1.ImagePullJob
		dark   map[string]bool
	}{
		{name: "the first nodes by name start", job: job(), nodes: nodes{nodeImage("c"), nodeImage("b"), nodeImage("a"), going}},
		{name: "without nodes a job is complete", job: job()},
		{name: "without nodes a job that never completes waits for them", job: job(never)},
		{name: "with parallelism 0 no node starts", job: job(func(j *appsv1beta1.ImagePullJob) { j.Spec.Parallelism = new(intstr.FromInt32(0)) }), nodes: nodes{nodeImage("a")}},
		{name: "nodes that are not done count for parallelism", job: job(), nodes: nodes{nodeImageWith("a", waiting, own), nodeImageWith("b", pulls, own), nodeImage("c")}},
		{
			name: "nodes without a daemon start last", job: job(), nodes: nodes{nodeImage("a"), nodeImageWith("b", pulls, own), nodeImage("c")},
			dark: map[string]bool{"a": true, "b": true},
		},
		{name: "nodes without a daemon start", job: job(), nodes: nodes{nodeImage("a"), nodeImage("b")}, dark: map[string]bool{"a": true}},
		{name: "nodes that are done make room for others", job: job(), nodes: nodes{nodeImageWith("a", done, own), nodeImageWith("b", failed, own), nodeImage("c")}},
		{name: "when all nodes are done the job is complete", job: job(), nodes: nodes{nodeImageWith("a", done, own), nodeImageWith("b", failed, own)}},
		{name: "a pull of another job is joined", job: job(), nodes: nodes{nodeImageWith("a", pulls, theirs)}},
		{name: "a pull of another job that is done is repeated", job: job(), nodes: nodes{nodeImageWith("a", done, theirs)}},
		{name: "other limits apply to pulls and to failures", job: job(slower), nodes: nodes{nodeImageWith("a", pulls, own), nodeImageWith("b", failed, own), nodeImageWith("c", done, own)}},
		{
			name: "the newer of two jobs decides", job: job(slower), nodes: nodes{nodeImageWith("a", pulls, shared)},
			others: map[types.UID]*appsv1beta1.ImagePullJob{"newer": newer},
		},
		{name: "a newer job that is complete no longer decides", job: job(slower), nodes: nodes{nodeImageWith("a", pulls, shared)}},
		{name: "a new image waits until the previous one is withdrawn", job: job(), nodes: nodes{nodeImageWith("a", pulls, redis, "redis"), nodeImageWith("b", done, redis, "redis"), nodeImage("c")}},
		{
			name: "a deselected node is withdrawn, and counted until then", job: job(func(j *appsv1beta1.ImagePullJob) {
				j.Spec.Selector = &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"b", "c"}}
			}), nodes: nodes{nodeImageWith("a", pulls, own), nodeImage("b"), nodeImage("c")},
		},
		{
			name: "the nodes of pods", job: job(func(j *appsv1beta1.ImagePullJob) { j.Spec.PodSelector = &metav1.LabelSelector{} }),
			nodes: nodes{nodeImage("a"), nodeImage("b")}, used: map[string]bool{"b": true},
		},
		{name: "before the deadline", job: job(deadline(3601)), nodes: nodes{nodeImageWith("a", pulls, newEntry(job(deadline(3601)), nginx, "a", 3, metav1.NewTime(noon)))}},
		{name: "at the deadline", job: job(deadline(3600)), nodes: nodes{nodeImageWith("a", pulls, ofDeadline), nodeImageWith("b", done, ofDeadline), nodeImage("c")}},
		{name: "a complete job pulls nothing", job: job(complete(time.Second)), nodes: nodes{nodeImageWith("a", pulls, own), nodeImageWith("b", done, own), nodeImage("c")}},
		{name: "the TTL has passed", job: job(complete(time.Minute)), nodes: nodes{nodeImageWith("b", done, own), nodeImage("c")}},
		{
			name: "deleted, with entries", job: job(func(j *appsv1beta1.ImagePullJob) { j.DeletionTimestamp = &metav1.Time{Time: noon} }),
			nodes: nodes{nodeImageWith("a", pulls, own), nodeImageWith("b", done, own), nodeImage("c")},
		},
		{name: "deleted, without entries", job: job(func(j *appsv1beta1.ImagePullJob) { j.DeletionTimestamp = &metav1.Time{Time: noon} }), nodes: nodes{nodeImage("c")}},
		{
			name:  "an invalid image is not pulled",
			job:   job(func(j *appsv1beta1.ImagePullJob) { j.Spec.Parallelism = new(intstr.FromString("10%")) }),
			nodes: nodes{nodeImage("a")},
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			o := observed{job: tc.job, nodes: tc.nodes, used: tc.used, others: tc.others, dark: tc.dark}
			golden.Equal(t, "plan-"+strings.ReplaceAll(strings.ReplaceAll(tc.name, " ", "-"), ",", ""), text(plan(o, noon)))
		})
	}
}

func TestTheMessageNamesNodesWithoutADaemon(t *testing.T) {
	t.Parallel()
	o := observed{job: pulling(), nodes: []*appsv1beta1.NodeImage{nodeImage("a"), nodeImage("b")}, dark: map[string]bool{"b": true}}
	s, events := status(o, plan(o, noon), applied{}, noon)
	require.Equal(t, "job is running, progress 0.0%; 1 node(s) without a live node daemon that pulls images: b", s.Message)
	require.Empty(t, events)
	o.dark = nil
	s, _ = status(o, plan(o, noon), applied{}, noon)
	require.Equal(t, "job is running, progress 0.0%", s.Message)
}

func TestEntriesHaveLimits(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		change   func(*appsv1beta1.ImagePullJob)
		ttl      spread
		deadline *int64
	}{
		{"all attempts", func(*appsv1beta1.ImagePullJob) {}, spread{2100, 2400}, nil},
		{"the deadline", func(j *appsv1beta1.ImagePullJob) { j.Spec.CompletionPolicy.ActiveDeadlineSeconds = new(int64(700)) }, spread{1000, 1300}, new(int64(700))},
		{"the TTL", func(j *appsv1beta1.ImagePullJob) { j.Spec.CompletionPolicy.TTLSecondsAfterFinished = new(int32(10)) }, spread{310, 610}, nil},
		{"type Never, by attempts", never, spread{85800, 87000}, new(int64(2400))},
		{"type Never, at least half an hour", func(j *appsv1beta1.ImagePullJob) {
			never(j)
			j.Spec.PullPolicy.TimeoutSeconds = new(int32(60))
		}, spread{85800, 87000}, new(int64(1800))},
	} {
		job := pulling(tc.change)
		p := policyOf(job, "a")
		require.Equal(t, tc.deadline, p.ActiveDeadlineSeconds, tc.name)
		require.GreaterOrEqual(t, *p.TTLSecondsAfterFinished, tc.ttl.least, tc.name)
		require.Less(t, *p.TTLSecondsAfterFinished, tc.ttl.most, tc.name)
	}
}

func TestNodesThatDoNotExistAreSeen(t *testing.T) {
	t.Parallel()
	job := &appsv1beta1.ImagePullJob{}
	job.UID, job.Spec.Image, job.Spec.Parallelism = "job", "nginx:1", new(intstr.FromInt32(1))
	job.Spec.Selector = &appsv1beta1.ImagePullJobNodeSelector{Names: []string{"typo", "node-1"}}
	o := observed{job: job, nodes: []*appsv1beta1.NodeImage{nodeImage("node-1")}}
	p := plan(o, noon)
	require.Equal(t, []string{"typo"}, p.unknown)
	s, _ := status(o, p, applied{}, noon)
	require.Equal(t, "job is running, progress 0.0%; 1 node(s) in selector.names do not exist, or have no NodeImage yet: typo", s.Message)
	o.nodes = nil
	s, events := status(o, plan(o, noon), applied{}, noon)
	require.Contains(t, s.Message, "2 node(s) in selector.names do not exist")
	require.Equal(t, "Warning", events[0].Type)
	job.Spec.Selector = nil
	require.Empty(t, plan(o, noon).unknown)
}
