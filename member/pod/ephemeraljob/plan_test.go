package ephemeraljob

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/testkit"
)

// summary describes a plan: the pods that get the containers, the phase, and the counts of waiting, running, succeeded and failed pods.
func summary(p planned) string {
	var out []string
	for _, pod := range p.add {
		out = append(out, "+"+pod.Name)
	}
	out = append(out, fmt.Sprintf("%s %d/%d/%d/%d", p.phase, p.waiting, p.running, p.succeeded, p.failed))
	if p.ending != nil {
		out = append(out, p.ending.reason)
	}
	for what, set := range map[string]bool{"remove": p.remove, "release": p.release} {
		if set {
			out = append(out, what)
		}
	}
	if p.invalidSpec != "" {
		out = append(out, p.invalidSpec)
	}
	return strings.Join(out, ", ")
}

func started(ago time.Duration) func(*appsv1alpha1.EphemeralJob) {
	return func(job *appsv1alpha1.EphemeralJob) { job.Status.StartTime = &metav1.Time{Time: noon.Add(-ago)} }
}

func deadline(seconds int64) func(*appsv1alpha1.EphemeralJob) {
	return spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.ActiveDeadlineSeconds = &seconds })
}

func paused(job *appsv1alpha1.EphemeralJob) { job.Spec.Paused = true }

func over(ago time.Duration) func(*appsv1alpha1.EphemeralJob) {
	return func(job *appsv1alpha1.EphemeralJob) {
		job.Status.Phase, job.Status.CompletionTime = appsv1alpha1.EphemeralJobSucceeded, &metav1.Time{Time: noon.Add(-ago)}
	}
}

func ttlOf(seconds int32) func(*appsv1alpha1.EphemeralJob) {
	return spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.TTLSecondsAfterFinished = &seconds })
}

func unscheduled(p *corev1.Pod) { p.Spec.NodeName = "" }

func older(p *corev1.Pod) { p.CreationTimestamp = metav1.NewTime(noon.Add(-time.Hour)) }

func relabelled(p *corev1.Pod) { p.Labels["app"] = "db" }

func all(pods ...*corev1.Pod) []*corev1.Pod { return pods }

func TestPlan(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		job     *appsv1alpha1.EphemeralJob
		pods    []*corev1.Pod
		invalid []string
		want    string
		recheck time.Duration
	}{
		{name: "pods get the containers in order", job: debug(), pods: all(web("b"), web("a")), want: "+a, +b, Waiting 2/0/0/0"},
		{name: "one pod at a time by default", job: debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Parallelism = nil })), pods: all(web("a"), web("b")), want: "+a, Waiting 2/0/0/0"},
		{name: "no more than parallelism, which includes waiting pods", job: debug(parallel(2)), pods: all(web("a", quiet), web("b"), web("c")), want: "+b, Waiting 3/0/0/0"},
		{name: "a pod whose containers have ended makes room", job: debug(parallel(1)), pods: all(web("a", with(exit(0))), web("b")), want: "+b, Running 1/0/1/0"},
		{
			name: "a failed pod makes room when all of its containers have ended", job: debug(parallel(1)),
			pods: all(web("a", with(exit(1)), withNamed("two", runs)), web("b")), want: "Running 1/0/0/1",
		},
		{name: "a terminating pod takes room while its containers run", job: debug(parallel(1)), pods: all(web("a", with(runs), terminating), web("b")), want: "Running 1/1/0/0"},
		{name: "parallelism of 0 adds nothing", job: debug(parallel(0)), pods: all(web("a")), want: "Waiting 1/0/0/0"},
		{name: "replicas, the oldest first", job: debug(replicas(1)), pods: all(web("a"), web("b", older)), want: "+b, Waiting 1/0/0/0"},
		{name: "pods with a node come first", job: debug(replicas(1)), pods: all(web("a"), web("b", older, unscheduled)), want: "+a, Waiting 1/0/0/0"},
		{name: "a pod without a node is waited for", job: debug(), pods: all(web("a", with(exit(0))), web("b", unscheduled)), want: "Running 1/0/1/0"},
		{name: "pods that have the containers count towards replicas", job: debug(replicas(1)), pods: all(web("a", older), web("b", with(runs))), want: "Running 0/1/0/0"},
		{name: "pods that have the containers count even if their labels changed", job: debug(replicas(1)), pods: all(web("a"), web("b", with(runs), relabelled)), want: "Running 0/1/0/0"},
		{name: "pods that have the containers count even if replicas changed", job: debug(replicas(1)), pods: all(web("a", with(runs)), web("b", with(exit(0)))), want: "Running 0/1/1/0"},
		{name: "more replicas than pods", job: debug(replicas(5)), pods: all(web("a", with(exit(0)))), want: "Succeeded 0/0/1/0, JobSucceeded"},
		{name: "no pod waits with replicas of 0", job: debug(replicas(0)), pods: all(web("a")), want: "Waiting 0/0/0/0"},
		{name: "without a pod the job waits", job: debug(), want: "Waiting 0/0/0/0"},
		{
			name: "pods that can't get the containers are left out", job: debug(), want: "Waiting 0/0/0/0",
			pods: all(web("a", relabelled), web("b", terminating), web("c", phase(corev1.PodSucceeded)), web("d", func(p *corev1.Pod) {
				p.Annotations[corev1.MirrorPodAnnotationKey] = "static"
			}), web("e", func(p *corev1.Pod) {
				p.Spec.EphemeralContainers = []corev1.EphemeralContainer{added("dbg", "uid-other")}
			})),
		},
		{name: "an empty selector selects all pods", job: debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Selector = &metav1.LabelSelector{} })), pods: all(web("a", relabelled)), want: "+a, Waiting 1/0/0/0"},
		{name: "all have succeeded", job: debug(), pods: all(web("a", with(exit(0))), web("b", with(exit(0)))), want: "Succeeded 0/0/2/0, JobSucceeded"},
		{name: "some have failed", job: debug(), pods: all(web("a", with(exit(0))), web("b", with(exit(1)))), want: "Failed 0/0/1/1, ContainersFailed"},
		{name: "all have failed", job: debug(), pods: all(web("a", with(exit(1)))), want: "Failed 0/0/0/1, ContainersFailed"},
		{name: "a rejected pod has failed and keeps its place", job: debug(replicas(1)), pods: all(web("a", older), web("b")), invalid: []string{"b"}, want: "Failed 0/0/0/1, ContainersFailed"},
		{name: "the other pods get the containers", job: debug(), pods: all(web("a"), web("b")), invalid: []string{"b"}, want: "+a, Running 1/0/0/1"},
		{name: "a paused job adds nothing", job: debug(paused), pods: all(web("a"), web("b", with(runs))), want: "Pause 1/1/0/0"},
		{name: "a paused job does not end", job: debug(paused, started(time.Hour), deadline(1)), pods: all(web("a", with(exit(0)))), want: "Pause 0/0/1/0"},
		{name: "a deadline is awaited", job: debug(started(time.Minute), deadline(61)), pods: all(web("a", with(runs))), want: "Running 0/1/0/0", recheck: time.Second},
		{name: "the deadline ends the job", job: debug(started(time.Minute), deadline(60)), pods: all(web("a", with(runs)), web("b")), want: "Failed 1/1/0/0, DeadlineExceeded"},
		{name: "the deadline ends a job without pods", job: debug(started(time.Minute), deadline(60)), want: "Failed 0/0/0/0, DeadlineExceeded"},
		{name: "a job that is complete at the deadline has succeeded", job: debug(started(time.Minute), deadline(60)), pods: all(web("a", with(exit(0)))), want: "Succeeded 0/0/1/0, JobSucceeded"},
		{
			name: "without containers", job: debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Template.EphemeralContainers = nil })), pods: all(web("a")),
			want: "Error 0/0/0/0, spec.template.ephemeralContainers: it is empty: name a container to run in the pods",
		},
		{
			name: "with a selector that can't be read", pods: all(web("a")), want: `Error 0/0/0/0, spec.selector: "Is" is not a valid label selector operator`,
			job: debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) {
				s.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "a", Operator: "Is"}}
			})),
		},
		{name: "a finished job stays finished", job: debug(over(time.Minute)), pods: all(web("a", with(exit(0))), web("b")), want: " 0/0/1/0", recheck: 29 * time.Minute},
		{name: "a finished job is deleted after half an hour by default", job: debug(over(30 * time.Minute)), want: " 0/0/0/0, remove"},
		{name: "a finished job is deleted after its TTL", job: debug(over(time.Minute), ttlOf(60)), want: " 0/0/0/0, remove"},
		{name: "a job of a hub is kept", want: " 0/0/0/0", job: debug(over(time.Hour), func(job *appsv1alpha1.EphemeralJob) {
			job.Annotations = map[string]string{keys.FleetRowUID: "row"}
		})},
		{name: "a job that is being deleted adds nothing", job: debug(func(job *appsv1alpha1.EphemeralJob) { job.DeletionTimestamp = &metav1.Time{Time: noon} }), pods: all(web("a")), want: " 0/0/0/0"},
		{name: "OpenKruise's finalizer is removed from a job that is being deleted", want: " 0/0/0/0, release", job: debug(func(job *appsv1alpha1.EphemeralJob) {
			job.DeletionTimestamp, job.Finalizers = &metav1.Time{Time: noon}, []string{"example.com/other", keys.EphemeralJobCleanup}
		})},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := observed{job: tt.job, pods: tt.pods, invalid: map[types.UID]string{}}
			for _, name := range tt.invalid {
				o.invalid[types.UID("uid-"+name)] = "no such volume"
			}
			var p planned
			testkit.RequireSamePlan(t, tt.pods, Registration().Fields.Strip, func(pods []*corev1.Pod) string {
				o.pods = pods
				p = plan(o, noon)
				return summary(p)
			})
			require.Equal(t, tt.want, summary(p))
			require.Equal(t, tt.recheck, p.recheck)
		})
	}
}

func TestWhyAJobHasFailed(t *testing.T) {
	t.Parallel()
	o := observed{
		job:     debug(started(time.Minute), deadline(60)),
		pods:    all(web("b", with(exit(2))), web("a", with(waits("RunContainerError"))), web("c", with(exit(0))), web("d", with(runs)), web("e")),
		invalid: map[types.UID]string{"uid-e": "no such volume"},
	}
	require.Equal(t, "the job did not end within the 60 seconds of activeDeadlineSeconds: of 5 pods, the containers have succeeded in 1 and failed in 3 "+
		"(a: dbg could not be run: no such file; b: dbg ended with exit code 2); e could not get them: no such volume; "+
		"in 1 pod(s) they keep running, since only the end of a pod stops an ephemeral container", plan(o, noon).ending.why)
}

func TestStatus(t *testing.T) {
	t.Parallel()
	o := observed{job: debug(), pods: all(web("a"), web("b", with(exit(1))))}
	p := plan(o, noon)
	s, events := status(o, p, applied{added: []string{"a"}}, noon)
	require.Equal(t, []string{reasonContainersAdded}, testkit.Reasons(events))
	at := metav1.NewTime(noon)
	bare := s
	bare.Conditions = report.ButReadiness(s.Conditions, conditionForm())
	require.Equal(t, appsv1alpha1.EphemeralJobStatus{
		ObservedGeneration: o.job.Generation, Phase: appsv1alpha1.EphemeralJobRunning, StartTime: &at, Matches: 2, Failed: 1, Waiting: 1,
		Conditions: []appsv1alpha1.EphemeralJobCondition{{
			Type: appsv1alpha1.EphemeralJobInitialized, Status: corev1.ConditionTrue, Reason: "Initialized", LastProbeTime: at, LastTransitionTime: at,
		}},
	}, bare)

	// The pods are gone. Then one is rejected, then all have finished.
	o.job.Status, o.pods = s, nil
	later := noon.Add(time.Minute)
	s, events = status(o, plan(o, later), applied{}, later)
	require.Empty(t, events)
	require.Equal(t, "no pod in the namespace that could get the containers is selected", findCondition(s.Conditions, appsv1alpha1.EphemeralJobMatchedEmpty).Message)
	o.job.Status, o.pods, o.invalid = s, all(web("a"), web("b", with(exit(0)))), map[types.UID]string{"uid-a": "no such volume"}
	p = plan(o, later)
	s, events = status(o, p, applied{}, later)
	require.Equal(t, []string{reasonCreateFailed, reasonContainersFailed}, testkit.Reasons(events))
	require.Nil(t, findCondition(s.Conditions, appsv1alpha1.EphemeralJobMatchedEmpty))
	require.Equal(t, "no such volume", findCondition(s.Conditions, appsv1alpha1.EphemeralJobConditionError).Message)
	require.Equal(t, reasonContainersFailed, findCondition(s.Conditions, appsv1alpha1.EphemeralJobConditionFailed).Reason)
	require.Equal(t, later, s.CompletionTime.Time)
	require.False(t, countsOnly(o.job.Status, s))

	// After that, only what still runs can change.
	o.job.Status, o.pods = s, nil
	got, events := status(o, plan(o, later), applied{}, later)
	require.Empty(t, events)
	require.Equal(t, s, got)
	o.pods = all(web("c", with(runs)))
	got, _ = status(o, plan(o, later), applied{}, later)
	require.Equal(t, int32(1), got.Running)
	require.True(t, countsOnly(s, got))
}
