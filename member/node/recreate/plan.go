package recreate

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/member/node/stop"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
)

// Shorter names.
type (
	request = appsv1beta1.ContainerRecreateRequest
	state   = appsv1beta1.ContainerRecreateRequestState
)

// planned is the next step for a pod. The zero value means no step.
type planned struct {
	// step and reason name the step.
	step, reason string
	// request is the request that is written or carried out. status is its new status; it is not written if there is a container to stop.
	request *request
	status  appsv1beta1.ContainerRecreateRequestStatus
	stop    *stop.Container
	// waits is why a container is not stopped yet.
	waits string
	// recheck is when the passing of time alone changes the plan; 0 means never.
	recheck time.Duration
}

// plan returns the next step. It is a pure function of a pod, its requests and the time. pod is nil if it is gone. If it is gone or being
// deleted, the manager completes the requests.
func plan(pod *corev1.Pod, all []*request, now time.Time) planned {
	if pod == nil || pod.DeletionTimestamp != nil {
		return planned{}
	}
	var queue []*request
	for _, r := range all {
		if r.DeletionTimestamp == nil && !recreate.Done(r) && r.Labels[keys.RecreatePodUID] == string(pod.UID) {
			queue = append(queue, r)
		}
	}
	if len(queue) == 0 {
		return planned{}
	}
	slices.SortFunc(queue, func(a, b *request) int {
		return cmp.Or(
			cmp.Compare(weight(a), weight(b)), a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name),
		)
	})
	first := queue[0]
	// Waiting requests report that first, because the manager gives up requests that nobody answers.
	for _, r := range queue[1:] {
		if r.Status.Phase == "" {
			s := *r.Status.DeepCopy()
			s.Phase, s.Message = appsv1beta1.RecreatePending, fmt.Sprintf("waiting for ContainerRecreateRequest %s of the same pod", first.Name)
			return planned{step: stepQueue, reason: reasonOther, request: r, status: s}
		}
	}
	if first.Status.Phase != appsv1beta1.RecreateRecreating {
		return planned{step: stepBegin, reason: reasonAsked, request: first, status: newStatus(first, now)}
	}
	return carryOut(pod, first, now)
}

// weight is lower for the request that is under way.
func weight(r *request) int {
	if r.Status.Phase == appsv1beta1.RecreateRecreating {
		return 0
	}
	return 1
}

// newStatus returns the status of a request that begins.
func newStatus(r *request, now time.Time) appsv1beta1.ContainerRecreateRequestStatus {
	s := *r.Status.DeepCopy()
	s.Phase, s.Message, s.ContainerRecreateStates = appsv1beta1.RecreateRecreating, "", nil
	for i := range r.Spec.Containers {
		s.ContainerRecreateStates = append(s.ContainerRecreateStates, state{Name: r.Spec.Containers[i].Name, Phase: appsv1beta1.RecreatePending})
	}
	s.Conditions = report.SetCondition(s.Conditions, metav1.Condition{
		Type: recreate.Began, Status: metav1.ConditionTrue, Reason: recreate.Began, Message: "containers are being restarted",
	}, now)
	return s
}

// carryOut takes the next step of the request that is under way.
func carryOut(pod *corev1.Pod, r *request, now time.Time) planned {
	s := *r.Status.DeepCopy()
	strategy := r.Spec.Strategy
	if strategy == nil {
		strategy = &appsv1beta1.ContainerRecreateRequestStrategy{}
	}
	p := planned{request: r}
	p.waits, p.recheck = grace(r, strategy, now)
	s.ContainerRecreateStates = nil
	var next *stop.Container
	held := p.waits != "" // No container may be stopped yet, or no further one.
	failed, done := "", true
	for i := range r.Spec.Containers {
		c := &r.Spec.Containers[i]
		result, kill, recheck := judge(pod, r, c, strategy, now)
		p.recheck = timing.Sooner(p.recheck, recheck)
		if kill != nil && !held {
			held = true // One at a time.
			if result.IsKilled {
				next = kill
			}
			result.Phase, result.IsKilled, result.Message = appsv1beta1.RecreateRecreating, true, "the container is being stopped"
		}
		switch {
		case result.Phase == appsv1beta1.RecreateFailed:
			if failed == "" {
				failed = fmt.Sprintf("container %s: %s", result.Name, result.Message)
			}
			held = held || strategy.FailurePolicy != appsv1beta1.RecreateIgnore
		case result.Phase != appsv1beta1.RecreateSucceeded:
			done, held = false, held || strategy.OrderedRecreate
		}
		s.ContainerRecreateStates = append(s.ContainerRecreateStates, result)
	}
	if done || failed != "" && strategy.FailurePolicy != appsv1beta1.RecreateIgnore {
		s.Phase, s.CompletionTime, s.Message = appsv1beta1.RecreateCompleted, new(metav1.NewTime(now).Rfc3339Copy()), failed
		return planned{step: stepEnd, reason: reasonState, request: r, status: s}
	}
	p.status = s
	switch {
	case !apiequality.Semantic.DeepEqual(s, r.Status):
		p.step, p.reason = stepReport, reasonState
	case next != nil:
		p.step, p.reason, p.stop = stepStop, reasonAsked, next
	}
	return p
}

// grace returns why no container may be stopped yet, and for how long. The pod must be unready for that long first.
func grace(r *request, s *appsv1beta1.ContainerRecreateRequestStrategy, now time.Time) (waits string, left time.Duration) {
	if s.UnreadyGracePeriodSeconds == nil {
		return "", 0
	}
	c := report.GetCondition(r.Status.Conditions, appsv1beta1.RecreatePreGrace)
	if c == nil || c.Status != metav1.ConditionTrue && c.Reason != recreate.NoReadinessGate {
		return reasonGrace, 0
	}
	if due, left := timing.Passed(&c.LastTransitionTime, s.UnreadyGracePeriodSeconds, now); !due {
		return reasonGrace, left
	}
	return "", 0
}

// judge returns the state of a container, the container to stop if that comes next, and when the passing of time alone changes this.
func judge(
	pod *corev1.Pod, r *request, c *appsv1beta1.ContainerRecreateRequestContainer, s *appsv1beta1.ContainerRecreateRequestStrategy, now time.Time,
) (current state, kill *stop.Container, recheck time.Duration) {
	current = state{Name: c.Name, Phase: appsv1beta1.RecreatePending}
	for _, before := range r.Status.ContainerRecreateStates {
		if before.Name == c.Name {
			current = before
		}
	}
	if current.Phase == appsv1beta1.RecreateFailed || current.Phase == appsv1beta1.RecreateSucceeded {
		return current, nil, 0
	}
	container, st := recreate.Container(pod, c.Name), inplace.Status(pod, c.Name)
	switch {
	case container == nil:
		current.Phase, current.Message = appsv1beta1.RecreateFailed, "the pod has no such container"
	case st == nil || st.ContainerID == "":
		current.Message = "the container hasn't been started"
	case st.State.Running == nil:
		if current.Phase, current.Message = appsv1beta1.RecreateRecreating, "the container is about to be started"; !willStart(container, pod, st) {
			current.Phase = appsv1beta1.RecreateFailed
			current.Message = fmt.Sprintf("the container has ended, and its restart policy %s doesn't start it again", inplace.RestartPolicy(container, pod))
		}
	case needsRestart(r, c, s, st):
		if current.Phase != appsv1beta1.RecreateRecreating {
			current.Message = ""
		}
		x := stop.Of(pod, container, st.ContainerID, recreate.Cause(r))
		if g := s.TerminationGracePeriodSeconds; g != nil {
			x.Grace = timing.Seconds(*g)
		}
		kill = &x
	case !st.Ready:
		current.Phase, current.Message = appsv1beta1.RecreateRecreating, "the new container isn't ready"
	default:
		if left := st.State.Running.StartedAt.Add(time.Duration(s.MinStartedSeconds) * time.Second).Sub(now); left > 0 {
			current.Phase, current.Message = appsv1beta1.RecreateRecreating, "the new container hasn't been running for minStartedSeconds"
			return current, nil, left
		}
		current.Phase, current.Message = appsv1beta1.RecreateSucceeded, ""
	}
	return current, kill, 0
}

// needsRestart reports whether a running container is one that the request should restart.
func needsRestart(
	r *request, c *appsv1beta1.ContainerRecreateRequestContainer, s *appsv1beta1.ContainerRecreateRequestStrategy, st *corev1.ContainerStatus,
) bool {
	if !s.ForceRecreate {
		return c.StatusContext != nil && c.StatusContext.ContainerID == st.ContainerID
	}
	began := report.GetCondition(r.Status.Conditions, recreate.Began)
	return began != nil && st.State.Running.StartedAt.Before(&began.LastTransitionTime)
}

// willStart reports whether the kubelet will start a container that is not running.
func willStart(c *corev1.Container, pod *corev1.Pod, st *corev1.ContainerStatus) bool {
	ended, policy := st.State.Terminated, inplace.RestartPolicy(c, pod)
	return ended == nil || policy == corev1.RestartPolicyAlways || policy == corev1.RestartPolicyOnFailure && ended.ExitCode != 0
}
