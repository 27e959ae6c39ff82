package broadcastjob

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var noon = time.Date(2026, time.January, 1, 12, 0, 0, 0, time.UTC)

// on returns a pod of the job scan for a node. It is bound to the node unless it is pending.
func on(node string, phase corev1.PodPhase, changes ...func(*corev1.Pod)) *corev1.Pod {
	pod := newPod(scan().Obj(), node)
	pod.Status.Phase, pod.CreationTimestamp = phase, metav1.NewTime(noon)
	if phase != corev1.PodPending {
		pod.Spec.NodeName = node
	}
	for _, change := range changes {
		change(pod)
	}
	return pod
}

func named(name string) func(*corev1.Pod) { return func(p *corev1.Pod) { p.Name = name } }

func deleted(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: noon} }

func restarted(init, main int32) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.RestartPolicy = corev1.RestartPolicyOnFailure
		p.Status.InitContainerStatuses = []corev1.ContainerStatus{{Name: "init", RestartCount: init}}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "app", RestartCount: main}}
	}
}

// tainted returns a node with a taint.
func tainted(name string, effect corev1.TaintEffect) *corev1.Node {
	n := sim.Node(name)
	n.Spec.Taints = []corev1.Taint{{Key: "kept", Effect: effect}}
	return n
}

// sized returns a node with that much memory.
func sized(name, memory string) *corev1.Node {
	n := sim.Node(name)
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
	return n
}

// summary describes what a plan does.
func summary(p planned) string {
	var out []string
	for _, s := range p.Steps {
		what := "+" + s.Slot
		if s.Pod != nil {
			what = "-" + s.Pod.Key
		}
		out = append(out, what)
	}
	for _, h := range p.Holds {
		out = append(out, fmt.Sprintf("%s %d", h.Reason, h.Pods))
	}
	out = append(out, fmt.Sprintf("%s %d/%d/%d/%d", p.phase, p.desired, p.active, len(p.succeeded), p.failed))
	if p.ending != nil {
		out = append(out, p.ending.reason)
	}
	for what, set := range map[string]bool{"pause": p.pause, "remove": p.remove, "crowded": p.crowded, "resumes": p.resumes} {
		if set {
			out = append(out, what)
		}
	}
	if p.InvalidSpec != "" {
		out = append(out, p.InvalidSpec)
	}
	return strings.Join(out, ", ")
}

func TestPlan(t *testing.T) {
	t.Parallel()
	three := []*corev1.Node{sim.Node("a"), sim.Node("b"), sim.Node("c")}
	spec := func(change func(*appsv1beta1.BroadcastJobSpec)) *testkit.BroadcastJobBuilder {
		return scan().Spec(change)
	}
	needs := func(memory string) *testkit.BroadcastJobBuilder {
		return spec(func(s *appsv1beta1.BroadcastJobSpec) {
			s.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}
		})
	}
	running := appsv1beta1.BroadcastJobStatus{Phase: appsv1beta1.BroadcastJobRunning, StartTime: &metav1.Time{Time: noon.Add(-time.Minute)}}
	pausedStatus := appsv1beta1.BroadcastJobStatus{Phase: appsv1beta1.BroadcastJobPaused}
	done := appsv1beta1.BroadcastJobStatus{Phase: appsv1beta1.BroadcastJobFailed, CompletionTime: &metav1.Time{Time: noon}}
	tests := []struct {
		name  string
		job   *testkit.BroadcastJobBuilder
		nodes []*corev1.Node
		pods  []*corev1.Pod
		ran   []string
		want  string
	}{
		{name: "a pod for each node, in order", job: scan(), nodes: three, want: "+a, +b, +c, running 3/0/0/0"},
		{name: "without a node the job waits", job: scan(), want: "running 0/0/0/0"},
		{name: "parallelism", job: scan().Parallelism("2"), nodes: three, want: "+a, +b, Parallelism 1, running 3/0/0/0"},
		{name: "parallelism of 0 creates nothing", job: scan().Parallelism("0"), nodes: three, want: "Parallelism 3, running 3/0/0/0"},
		{name: "a percentage is rounded up", job: scan().Parallelism("34%"), nodes: three, want: "+a, +b, Parallelism 1, running 3/0/0/0"},
		{name: "unset parallelism means all nodes", job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.Parallelism = nil }), nodes: three, want: "+a, +b, +c, running 3/0/0/0"},
		{
			name: "an invalid parallelism creates nothing", job: scan().Parallelism("half"), nodes: three,
			want: `running 3/0/0/0, spec.parallelism: resolve "half" of 3 pod(s): invalid value for IntOrString: invalid type: string is not a percentage`,
		},
		{
			name: "a terminating pod counts for parallelism, but not as active", job: scan().Parallelism("1"), nodes: three,
			pods: []*corev1.Pod{on("a", corev1.PodRunning, deleted)}, want: "Parallelism 2, running 3/0/0/0",
		},
		{
			name: "a pod on an unknown node is left alone, and counts", job: scan().Parallelism("1"), nodes: three,
			pods: []*corev1.Pod{on("z", corev1.PodRunning)}, want: "Parallelism 3, running 3/1/0/0",
		},
		{
			name: "more pods are active than allowed", job: scan().Parallelism("1"), nodes: three,
			pods: []*corev1.Pod{on("a", corev1.PodRunning), on("b", corev1.PodRunning)}, want: "Parallelism 1, running 3/2/0/0, crowded",
		},
		{name: "a taint keeps pods away", job: scan(), nodes: []*corev1.Node{
			sim.Node("a"), tainted("b", corev1.TaintEffectNoSchedule),
			tainted("c", corev1.TaintEffectNoExecute), tainted("d", corev1.TaintEffectPreferNoSchedule),
		}, want: "+a, +d, running 2/0/0/0"},
		{
			name: "a running pod stays on a tainted node, a pending one does not", job: scan(),
			nodes: []*corev1.Node{tainted("a", corev1.TaintEffectNoSchedule), tainted("b", corev1.TaintEffectNoExecute), tainted("c", corev1.TaintEffectNoSchedule)},
			pods:  []*corev1.Pod{on("a", corev1.PodRunning), on("b", corev1.PodRunning), on("c", corev1.PodPending, named("late"))},
			want:  "-late, running 2/3/0/0",
		},
		{name: "a node that is too small gets no pod", job: needs("2Gi"), nodes: []*corev1.Node{sized("a", "1Gi"), sized("b", "2Gi"), sim.Node("c")}, want: "+b, running 1/0/0/0"},
		{name: "a virtual node gets a pod", job: scan(), nodes: []*corev1.Node{sim.Node("v", "type", "virtual-kubelet")}, want: "+v, running 1/0/0/0"},
		{name: "a template with a nodeName runs on that node", job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.Template.Spec.NodeName = "b" }), nodes: three, want: "+b, running 1/0/0/0"},
		{name: "a running pod on a node that no longer fits is deleted", job: spec(func(s *appsv1beta1.BroadcastJobSpec) {
			s.Template.Spec.NodeSelector = map[string]string{"x": "y"}
		}), nodes: three, pods: []*corev1.Pod{on("a", corev1.PodRunning, named("unfit")), on("b", corev1.PodSucceeded)}, want: "-unfit, running 1/1/1/0"},
		{
			name: "all pods have ended", job: scan(), nodes: three,
			pods: []*corev1.Pod{on("a", corev1.PodSucceeded), on("b", corev1.PodSucceeded), on("c", corev1.PodSucceeded)}, want: "completed 3/0/3/0, Complete",
		},
		{
			name: "a succeeded pod on a deleted node counts", job: scan(), nodes: three[:1],
			pods: []*corev1.Pod{on("z", corev1.PodSucceeded), on("a", corev1.PodSucceeded)}, want: "completed 1/0/2/0, Complete",
		},
		{
			name: "a succeeded pod that is being deleted counts", job: scan(), nodes: three[:1],
			pods: []*corev1.Pod{on("a", corev1.PodSucceeded, deleted)}, want: "completed 1/0/1/0, Complete",
		},
		{name: "a pod that was deleted after it succeeded is not run again", job: scan(), nodes: three, ran: []string{"a"}, want: "+b, +c, running 3/0/1/0"},
		{
			name: "a pod on a node that has succeeded is deleted", job: scan(), nodes: three[:1], ran: []string{"a"},
			pods: []*corev1.Pod{on("a", corev1.PodRunning, named("late"))}, want: "-late, running 1/1/1/0",
		},
		{name: "Never goes on", job: scan().Never(), nodes: three[:1], pods: []*corev1.Pod{on("a", corev1.PodSucceeded)}, want: "running 1/0/1/0"},
		{name: "FailFast", job: scan(), nodes: three, pods: []*corev1.Pod{on("a", corev1.PodFailed), on("b", corev1.PodRunning)}, want: "failed 3/1/0/1, Failed"},
		{name: "FailFast is the default", job: scan().OnFailure(""), nodes: three[:1], pods: []*corev1.Pod{on("a", corev1.PodFailed)}, want: "failed 1/0/0/1, Failed"},
		{
			name: "Continue", job: scan().OnFailure(appsv1beta1.BroadcastJobContinue), nodes: three,
			pods: []*corev1.Pod{on("a", corev1.PodFailed), on("b", corev1.PodRunning)}, want: "+c, running 3/1/0/1",
		},
		{
			name: "Continue to the end", job: scan().OnFailure(appsv1beta1.BroadcastJobContinue), nodes: three[:2],
			pods: []*corev1.Pod{on("a", corev1.PodFailed), on("b", corev1.PodSucceeded)}, want: "completed 2/0/1/1, Complete",
		},
		{
			name: "a failed pod that is being deleted doesn't count as failed", job: scan(), nodes: three[:1],
			pods: []*corev1.Pod{on("a", corev1.PodFailed, deleted)}, want: "running 1/0/0/0",
		},
		{name: "Pause", job: scan().OnFailure(appsv1beta1.BroadcastJobPause), nodes: three, pods: []*corev1.Pod{on("a", corev1.PodFailed)}, want: "paused 3/0/0/1, pause"},
		{
			name: "a user resumes", nodes: three, pods: []*corev1.Pod{on("a", corev1.PodFailed)}, want: "+b, +c, running 3/0/0/1, resumes",
			job: scan().OnFailure(appsv1beta1.BroadcastJobPause).Status(pausedStatus),
		},
		{
			name: "restarts of all containers beyond the limit are a failure", nodes: three[:1], pods: []*corev1.Pod{on("a", corev1.PodRunning, restarted(1, 2))},
			job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.FailurePolicy.RestartLimit = 2 }), want: "failed 1/0/0/1, Failed",
		},
		{
			name: "restarts within the limit are not a failure", nodes: three[:1], pods: []*corev1.Pod{on("a", corev1.PodRunning, restarted(1, 1))},
			job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.FailurePolicy.RestartLimit = 2 }), want: "running 1/1/0/0",
		},
		{name: "paused", job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.Paused = true }), nodes: three, pods: []*corev1.Pod{on("a", corev1.PodFailed)}, want: "paused 3/0/0/1"},
		{
			name: "of two pods for a node, the running one stays", job: scan(), nodes: three[:1],
			pods: []*corev1.Pod{on("a", corev1.PodPending, named("second")), on("a", corev1.PodRunning, named("first"))}, want: "-second, running 1/2/0/0",
		},
		{
			name: "of two pods for a node, the succeeded one stays", job: scan(), nodes: three[:1],
			pods: []*corev1.Pod{on("a", corev1.PodRunning, named("second")), on("a", corev1.PodSucceeded, named("first"))}, want: "-second, running 1/1/1/0",
		},
		{
			name: "the deadline", nodes: three, pods: []*corev1.Pod{on("a", corev1.PodRunning)}, want: "failed 3/1/0/0, DeadlineExceeded",
			job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(60)) }).Status(running),
		},
		{
			name: "no deadline for a complete job", nodes: three[:1], pods: []*corev1.Pod{on("a", corev1.PodSucceeded)}, want: "completed 1/0/1/0, Complete",
			job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(60)) }).Status(running),
		},
		{
			name: "pods that run after the end are deleted", nodes: three, job: scan().Status(done), want: "-late, failed 0/1/0/1",
			pods: []*corev1.Pod{on("a", corev1.PodFailed), on("b", corev1.PodRunning, named("late")), on("c", corev1.PodRunning, deleted)},
		},
		{
			name: "the TTL has passed", nodes: three, pods: []*corev1.Pod{on("a", corev1.PodFailed)}, want: "failed 0/0/0/1, remove",
			job: spec(func(s *appsv1beta1.BroadcastJobSpec) { s.CompletionPolicy.TTLSecondsAfterFinished = new(int32(0)) }).Status(done),
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := observed{job: tt.job.Obj(), nodes: tt.nodes, pods: tt.pods, succeeded: map[string]bool{}}
			for _, node := range tt.ran {
				o.succeeded[node] = true
			}
			require.Equal(t, tt.want, summary(plan(o, noon)))
			whole := o
			for i := range o.pods {
				o.pods[i] = o.pods[i].DeepCopy()
				Registration().Fields.Strip(o.pods[i])
			}
			o.nodes = slices.Clone(o.nodes)
			for i := range o.nodes {
				o.nodes[i] = o.nodes[i].DeepCopy()
				Registration().Fields.StripNode(o.nodes[i])
			}
			require.Equal(t, summary(plan(whole, noon)), summary(plan(o, noon)), "the plan is the same from what the cache keeps")
		})
	}
}

func TestPodsAreNamedByTheirNode(t *testing.T) {
	t.Parallel()
	job := scan().Obj()
	a := newPod(job, "a")
	require.Equal(t, a.Name, newPod(job, "a").Name)
	require.NotEqual(t, a.Name, newPod(job, "b").Name)
	require.Equal(t, map[string]string{"app": "scan", "broadcastjob-name": "scan", "broadcastjob-controller-uid": "uid-scan"}, a.Labels)
	require.NotContains(t, job.Spec.Template.Labels, "broadcastjob-name", "the template is not changed")
	other := job.DeepCopy()
	other.UID = "uid-later"
	require.NotEqual(t, a.Name, newPod(other, "a").Name, "a previous job of the same name doesn't matter")
}

func TestConcerns(t *testing.T) {
	t.Parallel()
	job := scan().Spec(func(s *appsv1beta1.BroadcastJobSpec) {
		s.Template.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	}).Obj()
	require.True(t, concerns(job, nil, sized("a", "1Gi")))
	require.True(t, concerns(job, sized("a", "1Gi"), nil))
	require.True(t, concerns(job, sized("a", "1Gi"), sized("a", "1Mi")))
	require.False(t, concerns(job, sized("a", "1Gi"), sized("a", "2Gi")))
	labelled := sized("a", "1Gi")
	labelled.Labels = map[string]string{"x": "y"}
	require.False(t, concerns(job, sized("a", "1Gi"), labelled))
	job.Status.Phase = appsv1beta1.BroadcastJobCompleted
	require.False(t, concerns(job, nil, sized("a", "1Gi")), "it has ended")
}
