package ephemeraljob

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/testkit"
	"github.com/flotilla-io/flotilla/testkit/sim"
)

// exits is a label of pods in the simulator: the exit code of jobs' containers in them, or hang.
const (
	exits = "exits"
	hang  = "hang"
)

// key is the key of the job in the stories.
var key = types.NamespacedName{Namespace: testkit.Namespace, Name: "debug"}

// runner acts as the kubelet for ephemeral containers: it starts those of running pods, and ends them.
type runner struct{}

func (runner) Steps(w *sim.World) []sim.Step {
	var out []sim.Step
	for _, pod := range sim.All[*corev1.Pod](w) {
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		next := pod.DeepCopy()
		changed := false
		for _, c := range pod.Spec.EphemeralContainers {
			if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == keys.EphemeralJobID }) {
				continue
			}
			changed = advanceContainer(next, c.Name) || changed
		}
		if changed {
			out = append(out, sim.Step{Name: "ephemeral containers of " + pod.Name, Do: func(ctx context.Context) error {
				next.ResourceVersion = "" // The kubelet patches only the status.
				return client.IgnoreNotFound(w.User().Status().Update(ctx, next))
			}})
		}
	}
	return out
}

// advanceContainer starts or ends an ephemeral container of a pod. It reports whether there was anything to do.
func advanceContainer(pod *corev1.Pod, name string) bool {
	all := &pod.Status.EphemeralContainerStatuses
	i := slices.IndexFunc(*all, func(st corev1.ContainerStatus) bool { return st.Name == name })
	if i < 0 {
		*all = append(*all, corev1.ContainerStatus{Name: name, State: runs})
		return true
	}
	st := &(*all)[i].State
	if st.Running == nil || pod.Labels[exits] == hang {
		return false
	}
	code, _ := strconv.ParseInt(pod.Labels[exits], 10, 32) // Without the label, the code is 0.
	*st = exit(int32(code))
	return true
}

// target returns a pod for a story. ends says how containers in it end, with "" for exit code 0.
func target(name, ends string) *corev1.Pod {
	pod := testkit.Pod(name).Running().Label(exits, ends).Obj()
	pod.CreationTimestamp = metav1.Time{}
	if ends == "" {
		delete(pod.Labels, exits)
	}
	return pod
}

// story returns a scenario with some pods and a job.
func story(name string, job *appsv1alpha1.EphemeralJob, pods []*corev1.Pod, edits ...sim.Edit) sim.Scenario {
	objects := []client.Object{job}
	for _, pod := range pods {
		objects = append(objects, pod)
	}
	return sim.Scenario{Name: name, Objects: objects, Edits: edits}
}

// stories are played undisturbed, with their record in testdata, and with faults.
func stories() []sim.Scenario {
	three := func(ends ...string) []*corev1.Pod {
		return all(target("a", ends[0]), target("b", ends[1]), target("c", ends[2]))
	}
	two := debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) {
		s.Template.EphemeralContainers = append(s.Template.EphemeralContainers, container("more"))
	}))
	bad := debug(spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Template.EphemeralContainers[0].TargetContainerName = "side" }))
	fits := target("b", "")
	fits.Spec.Containers = append(fits.Spec.Containers, corev1.Container{Name: "side", Image: "side:1"})
	fits.Status.ContainerStatuses = append(fits.Status.ContainerStatuses, corev1.ContainerStatus{
		Name: "side", Image: "side:1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Ready: true,
	})
	keep := func(job *appsv1alpha1.EphemeralJob) { job.Annotations = map[string]string{keys.FleetRowUID: "row"} } // No TTL.
	return []sim.Scenario{
		story("all succeed", debug(keep), three("", "", "")),
		story("one pod at a time", debug(keep, parallel(1)), three("", "", "")),
		story("two containers in each pod", changed(two, keep), three("", "", "")),
		story("some succeed and some fail", debug(keep, parallel(2)), three("", "1", "")),
		story("replicas", debug(keep, replicas(2), parallel(1)), three("", "", "")),
		story("more replicas than pods", debug(keep, replicas(5)), three("", "", "1")),
		story("the containers are invalid for a pod", changed(bad, keep), all(target("a", ""), fits)),
		story("pods come later", debug(keep), nil, create(target("a", hang)), create(target("b", "1"), runningInA), relabel("a", exits, "0", endedInB)),
		story("a pod without a node is waited for", debug(keep), all(target("a", ""), testkit.Pod("b").Obj())),
		story("a pod is deleted while its container runs", debug(keep, replicas(1)), all(target("a", hang), target("b", "")), remove("a", runningInA)),
		story("a pod is created while others run", debug(keep), all(target("a", hang)), create(target("b", "")), relabel("a", exits, "0", endedInB)),
		story("a pod is no longer selected", debug(keep, parallel(1)), all(target("a", hang), target("b", "")),
			relabel("a", "app", "db", runningInA), relabel("a", exits, "0")),
		story("paused and resumed", debug(keep, parallel(1)), all(target("a", hang), target("b", "")),
			edit("pause", runningInA, func(s *appsv1alpha1.EphemeralJobSpec) { s.Paused = true }),
			relabel("a", exits, "0"), edit("resume", nil, func(s *appsv1alpha1.EphemeralJobSpec) { s.Paused = false })),
		story("more replicas and a higher parallelism", debug(keep, replicas(1), parallel(1)), three(hang, hang, "0"),
			edit("all", runningInA, func(s *appsv1alpha1.EphemeralJobSpec) { s.Replicas, s.Parallelism = nil, new(int32(3)) }),
			relabel("a", exits, "0"), relabel("b", exits, "1")),
		story("a deadline", debug(keep, deadline(60)), all(target("a", hang), target("b", "")), relabel("a", exits, "0", jobFinished)),
		story("the job is deleted after its TTL", debug(), three("", "", "")),
		story("a job of OpenKruise is deleted", debug(keep, func(job *appsv1alpha1.EphemeralJob) {
			job.Finalizers = []string{keys.EphemeralJobCleanup}
		}), all(target("a", hang)), removeJob(runningInA)),
		story("an invalid spec is corrected", debug(keep, spec(func(s *appsv1alpha1.EphemeralJobSpec) { s.Template.EphemeralContainers = nil })), all(target("a", "")),
			edit("name a container", nil, func(s *appsv1alpha1.EphemeralJobSpec) {
				s.Template.EphemeralContainers = []corev1.EphemeralContainer{container("dbg")}
			})),
	}
}

// changed changes a job further.
func changed(job *appsv1alpha1.EphemeralJob, change func(*appsv1alpha1.EphemeralJob)) *appsv1alpha1.EphemeralJob {
	change(job)
	return job
}

func edit(name string, when func(*sim.World) bool, change func(*appsv1alpha1.EphemeralJobSpec)) sim.Edit {
	return sim.Edit{Name: name, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, key, func(job *appsv1alpha1.EphemeralJob) { change(&job.Spec) })
	}}
}

func create(pod *corev1.Pod, when ...func(*sim.World) bool) sim.Edit {
	e := sim.Edit{Name: "create pod " + pod.Name, Do: func(ctx context.Context, w *sim.World) error {
		changed := pod.DeepCopy()
		changed.UID, changed.ResourceVersion, changed.Spec.NodeName = "", "", ""
		return w.User().Create(ctx, changed)
	}}
	if len(when) > 0 {
		e.When = when[0]
	}
	return e
}

func remove(pod string, when func(*sim.World) bool) sim.Edit {
	return sim.Edit{Name: "delete pod " + pod, When: when, Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, podNamed(w, pod).DeepCopy()))
	}}
}

func removeJob(when func(*sim.World) bool) sim.Edit {
	return sim.Edit{Name: "delete the job", When: when, Do: func(ctx context.Context, w *sim.World) error {
		return client.IgnoreNotFound(w.User().Delete(ctx, current(w).DeepCopy()))
	}}
}

func relabel(pod, label, value string, when ...func(*sim.World) bool) sim.Edit {
	e := sim.Edit{Name: fmt.Sprintf("pod %s: %s=%s", pod, label, value), Do: func(ctx context.Context, w *sim.World) error {
		return sim.Set(ctx, w, types.NamespacedName{Namespace: key.Namespace, Name: pod}, func(p *corev1.Pod) { p.Labels[label] = value })
	}}
	if len(when) > 0 {
		e.When = when[0]
	}
	return e
}

func podNamed(w *sim.World, name string) *corev1.Pod {
	return sim.Find[*corev1.Pod](w, types.NamespacedName{Namespace: key.Namespace, Name: name})
}

// runningInA reports, for sim.Edit.When, whether a container of the job runs in pod a.
func runningInA(w *sim.World) bool {
	pod := podNamed(w, "a")
	return pod != nil && slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, func(st corev1.ContainerStatus) bool {
		return st.State.Running != nil && slices.Contains(containers(pod), st.Name)
	})
}

// endedInB reports likewise whether one has finished in pod b.
func endedInB(w *sim.World) bool {
	pod := podNamed(w, "b")
	return pod != nil && slices.ContainsFunc(pod.Status.EphemeralContainerStatuses, func(st corev1.ContainerStatus) bool {
		return st.State.Terminated != nil && slices.Contains(containers(pod), st.Name)
	})
}

// jobFinished reports likewise whether the job has finished.
func jobFinished(w *sim.World) bool { return current(w) != nil && finished(current(w)) }

// current returns the current job, or nil.
func current(w *sim.World) *appsv1alpha1.EphemeralJob {
	return sim.Find[*appsv1alpha1.EphemeralJob](w, key)
}

// cached returns the job in the controller's cache.
func cached(w *sim.World) *appsv1alpha1.EphemeralJob {
	for _, job := range sim.Cached[*appsv1alpha1.EphemeralJob](w) {
		if job.Name == key.Name {
			return job
		}
	}
	return nil
}

// summarize returns the final state of a story: the status, and the containers of each pod.
func summarize(w *sim.World) string {
	var lines []string
	for _, pod := range sim.All[*corev1.Pod](w) {
		if c := containersIn(pod); c != "" {
			lines = append(lines, pod.Name+": "+c)
		}
	}
	slices.Sort(lines)
	if job := current(w); job != nil {
		lines = append(lines, jobLines(job)...)
	}
	return strings.Join(lines, "\n")
}

// containersIn describes the containers of jobs in a pod.
func containersIn(pod *corev1.Pod) string {
	var out []string
	for _, c := range pod.Spec.EphemeralContainers {
		if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool { return e.Name == keys.EphemeralJobID }) {
			continue
		}
		switch st := statusOf(pod, c.Name); {
		case st.Running != nil:
			out = append(out, c.Name+" runs")
		case st.Terminated != nil:
			out = append(out, fmt.Sprintf("%s ended with %d", c.Name, st.Terminated.ExitCode))
		default:
			out = append(out, c.Name+" waits")
		}
	}
	return strings.Join(out, ", ")
}

// jobLines returns the lines about a job in a story.
func jobLines(job *appsv1alpha1.EphemeralJob) []string {
	st := &job.Status
	out := []string{fmt.Sprintf("%s: match %d, waiting %d, running %d, succeeded %d, failed %d", st.Phase, st.Matches, st.Waiting, st.Running, st.Succeeded, st.Failed)}
	for _, c := range st.Conditions {
		if c.Type != appsv1alpha1.EphemeralJobInitialized {
			out = append(out, fmt.Sprintf("%s %s: %s", c.Type, c.Reason, c.Message))
		}
	}
	return out
}
