package broadcastjob

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "scan"}

// Annotations on the job tell the simulated kubelets on which nodes its pods fail, and on which they keep running.
const (
	failsOn = "test/fails-on"
	hangsOn = "test/hangs-on"
)

// scan begins a BroadcastJob.
func scan() *testkit.BroadcastJobBuilder { return testkit.BroadcastJob("scan") }

// with sets annotations, given as keys and values.
func with(b *testkit.BroadcastJobBuilder, annotations ...string) *testkit.BroadcastJobBuilder {
	for i := 0; i < len(annotations); i += 2 {
		metav1.SetMetaDataAnnotation(&b.Obj().ObjectMeta, annotations[i], annotations[i+1])
	}
	return b
}

// podEnds returns how pods end, see sim.Kubelet.
func podEnds(w *sim.World, pod *corev1.Pod) corev1.PodPhase {
	job := current(w)
	on := func(annotation string) bool {
		return job != nil && slices.Contains(strings.Split(job.Annotations[annotation], ","), pod.Spec.NodeName)
	}
	switch {
	case on(failsOn):
		return corev1.PodFailed
	case on(hangsOn):
		return ""
	}
	return corev1.PodSucceeded
}

func story(name string, b *testkit.BroadcastJobBuilder, edits ...sim.Edit) sim.Scenario {
	last := sim.Node("n4", "tier", "b")
	last.Spec.Taints = []corev1.Taint{{Key: "kept", Value: "db", Effect: corev1.TaintEffectNoSchedule}}
	return sim.Scenario{Name: name, Edits: edits, Objects: []client.Object{
		b.Obj(), sim.Node("n1", "tier", "a"), sim.Node("n2", "tier", "a"), sim.Node("n3", "tier", "b"), last,
	}}
}

// stories returns what happens with a BroadcastJob. Node n4 has a taint that its pods do not tolerate.
func stories() []sim.Scenario {
	spec := func(name string, change func(*appsv1beta1.BroadcastJobSpec)) sim.Edit { return edit(name, nil, change) }
	resume := func(s *appsv1beta1.BroadcastJobSpec) { s.Paused = false }
	return []sim.Scenario{
		story("one pod on each node that fits", scan()),
		story("one node after the other", scan().Parallelism("1")),
		story("a percentage is rounded up", scan().Parallelism("34%")),
		story("fail fast", with(scan(), failsOn, "n2", hangsOn, "n1,n3")),
		story("go on after a failure", with(scan().OnFailure(appsv1beta1.BroadcastJobContinue), failsOn, "n2").Parallelism("1")),
		story("pause after a failure and resume", with(scan().OnFailure(appsv1beta1.BroadcastJobPause), failsOn, "n1").Parallelism("1"),
			edit("resume", pausedBy(1), resume)),
		story("each new failure pauses", with(scan().OnFailure(appsv1beta1.BroadcastJobPause), failsOn, "n1,n2").Parallelism("1"),
			edit("resume", pausedBy(1), resume), edit("resume again", pausedBy(2), resume)),
		story("a failed pod that is deleted is tried again",
			with(scan().OnFailure(appsv1beta1.BroadcastJobPause), failsOn, "n1"),
			annotate("the reason is gone", pausedBy(1), failsOn), deletePod("n1", pausedBy(1)), spec("resume", resume)),
		story("a pod that restarts too often has failed", with(scan().OnFailure(appsv1beta1.BroadcastJobContinue).Spec(func(s *appsv1beta1.BroadcastJobSpec) {
			s.Template.Spec.RestartPolicy, s.FailurePolicy.RestartLimit = corev1.RestartPolicyOnFailure, 1
		}), failsOn, "n2")),
		story("paused from the start", scan().Spec(func(s *appsv1beta1.BroadcastJobSpec) { s.Paused = true }), spec("resume", resume)),
		story("a deadline", with(scan().Spec(func(s *appsv1beta1.BroadcastJobSpec) {
			s.CompletionPolicy.ActiveDeadlineSeconds = new(int64(2))
		}), hangsOn, "n3")),
		story("the job is deleted after its TTL", scan().Spec(func(s *appsv1beta1.BroadcastJobSpec) {
			s.CompletionPolicy.TTLSecondsAfterFinished = new(int32(3))
		})),
		story("nodes come and go", with(scan().Parallelism("1"), hangsOn, "n2"),
			sim.AddNode(nil, "n5", "tier", "b"), sim.RemoveNode(nil, "n2"), sim.AddNode(hasEnded, "n6", "tier", "b")),
		story("never complete", scan().Never(),
			sim.AddNode(nil, "n5", "tier", "b"), deletePod("n1", recorded("n1")),
			sim.RemoveNode(recorded("n3"), "n3"), sim.AddNode(notRecorded("n3"), "n3", "tier", "b")),
		story("a node is cordoned and drained", with(scan().Parallelism("2"), hangsOn, "n1"),
			sim.CordonNode(runsOn("n1"), "n1"), annotate("it ends", nil, hangsOn)),
		story("nodes no longer fit", with(scan().Never().Spec(func(s *appsv1beta1.BroadcastJobSpec) {
			s.Template.Spec.NodeSelector = map[string]string{"tier": "a"}
		}), hangsOn, "n1"), sim.LabelNode(nil, "n1", "tier", "b"), sim.LabelNode(nil, "n3", "tier", "a")),
		story("parallelism is lowered", with(scan(), hangsOn, "n1,n2,n3"),
			spec("one at a time", func(s *appsv1beta1.BroadcastJobSpec) { s.Parallelism = new(intstr.FromInt32(1)) }),
			sim.AddNode(nil, "n5"), annotate("they end", nil, hangsOn)),
		story("a running pod that is deleted is run again", with(scan(), hangsOn, "n2"), deletePod("n2", nil), annotate("it ends", nil, hangsOn)),
		surplus(), startedByOpenKruise(),
	}
}

// surplus is about a job that has two pods for one node, as OpenKruise may leave them.
func surplus() sim.Scenario {
	onePod := func(w *sim.World) bool {
		n := 0
		for _, pod := range sim.All[*corev1.Pod](w) {
			if pod.Spec.NodeName == "n1" {
				n++
			}
		}
		return n == 1
	}
	s := story("surplus pods are removed", with(scan(), hangsOn, "n1,n2"), annotate("they end", onePod, hangsOn))
	s.Objects = append(s.Objects, openKruisePod("scan-aaaaa", "n1"), openKruisePod("scan-bbbbb", "n1"))
	return s
}

// startedByOpenKruise is about a job that OpenKruise has started.
func startedByOpenKruise() sim.Scenario {
	s := story("a run of OpenKruise is continued", scan().Parallelism("1").Status(appsv1beta1.BroadcastJobStatus{
		Phase: appsv1beta1.BroadcastJobRunning, Desired: 3, Succeeded: 1, Active: 1, StartTime: &metav1.Time{Time: time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC)},
	}))
	done, runs := openKruisePod("scan-aaaaa", "n1"), openKruisePod("scan-bbbbb", "n2")
	done.Status.Phase, runs.Status.Phase = corev1.PodSucceeded, corev1.PodRunning
	s.Objects = append(s.Objects, done, runs)
	return s
}

// openKruisePod is a pod that OpenKruise has created for a job.
func openKruisePod(name, node string) *corev1.Pod {
	job := scan().Obj()
	job.UID = sim.FirstUID()
	pod := newPod(job, node)
	pod.Name, pod.Spec.NodeName = name, node
	pod.OwnerReferences[0].APIVersion = "apps.kruise.io/v1alpha1"
	return pod
}

// edit changes the spec at rest, or when it is due.
func edit(name string, when func(*sim.World) bool, change func(*appsv1beta1.BroadcastJobSpec)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(job *appsv1beta1.BroadcastJob) { change(&job.Spec) })
	}}
}

// annotate removes an annotation of the job.
func annotate(name string, when func(*sim.World) bool, annotation string) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(job *appsv1beta1.BroadcastJob) { delete(job.Annotations, annotation) })
	}}
}

// pausedBy reports, for sim.Edit.When, whether the job is paused after that many failures.
func pausedBy(failures int32) func(*sim.World) bool {
	return func(w *sim.World) bool {
		job := current(w)
		return job != nil && job.Spec.Paused && job.Status.Phase == appsv1beta1.BroadcastJobPaused && job.Status.Failed == failures
	}
}

// recorded reports, for sim.Edit.When, whether the status says that a node has succeeded.
func recorded(node string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		return current(w) != nil && slices.Contains(current(w).Status.SucceededNodes, node)
	}
}

// notRecorded reports, for sim.Edit.When, whether the status no longer says that a node has succeeded.
func notRecorded(node string) func(*sim.World) bool {
	return func(w *sim.World) bool { return !recorded(node)(w) }
}

// runsOn reports, for sim.Edit.When, whether a pod runs on a node.
func runsOn(node string) func(*sim.World) bool {
	return func(w *sim.World) bool {
		return slices.ContainsFunc(own(w), func(p *corev1.Pod) bool { return p.Spec.NodeName == node && p.Status.Phase == corev1.PodRunning })
	}
}

// hasEnded reports, for sim.Edit.When, whether the job has ended.
func hasEnded(w *sim.World) bool { return current(w) != nil && finished(current(w)) }

// deletePod deletes the pods of a node as a user would.
func deletePod(node string, when func(*sim.World) bool) sim.Edit {
	return sim.Edit{Name: "delete the pod of " + node, When: when, Do: func(ctx context.Context, w *sim.World) error {
		for _, p := range own(w) {
			if podset.Node(p) != node {
				continue
			}
			if err := w.User().Delete(ctx, p); err != nil {
				return err
			}
		}
		return nil
	}}
}

// current returns the job as it is; nil if there is none.
func current(w *sim.World) *appsv1beta1.BroadcastJob {
	return sim.Find[*appsv1beta1.BroadcastJob](w, key)
}

// own returns the job's pods.
func own(w *sim.World) []*corev1.Pod {
	return slices.DeleteFunc(sim.All[*corev1.Pod](w), func(p *corev1.Pod) bool { return !owned(w, p) })
}

func owned(w *sim.World, p *corev1.Pod) bool {
	job := current(w)
	if job == nil {
		job = cachedJob(w)
	}
	return job != nil && ownership.ControlledBy(p, job, Kind())
}

// cachedJob returns the job in the controller's cache.
func cachedJob(w *sim.World) *appsv1beta1.BroadcastJob {
	for _, job := range sim.Cached[*appsv1beta1.BroadcastJob](w) {
		if job.Name == key.Name {
			return job
		}
	}
	return nil
}

// end returns the final state of a story: the status, and the pod of each node.
func end(w *sim.World) string {
	var lines []string
	for _, p := range own(w) {
		if p.Labels[keys.BroadcastJobName] != key.Name {
			lines = append(lines, p.Name+" has no label of its job")
		}
		lines = append(lines, fmt.Sprintf("%s: %s", podset.Node(p), p.Status.Phase))
	}
	slices.Sort(lines)
	if job := current(w); job != nil {
		lines = append(lines, counts(job)...)
		lines = append(lines, fmt.Sprintf("paused=%t nodes=%v", job.Spec.Paused, job.Status.SucceededNodes))
	}
	return strings.Join(lines, "\n")
}

// counts returns the lines of a story about a job.
func counts(job *appsv1beta1.BroadcastJob) []string {
	st := &job.Status
	out := []string{fmt.Sprintf("%s: desired %d, active %d, succeeded %d, failed %d, accepted %d",
		st.Phase, st.Desired, st.Active, st.Succeeded, st.Failed, st.AcceptedFailures)}
	for _, c := range st.Conditions {
		out = append(out, fmt.Sprintf("%s %s %s: %s", c.Type, c.Status, c.Reason, c.Message))
	}
	return out
}
