package containerrecreaterequest

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/lifecycle"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

// silence is how long a node daemon has to answer.
const silence = time.Minute

// planned is the next write. The zero value means no write.
type planned struct {
	// step and reason identify the write. why is a human-readable sentence.
	step, reason, why string
	// status is the new status, for stepReport and stepComplete.
	status appsv1beta1.ContainerRecreateRequestStatus
	// recheck is when time alone changes the plan. 0 means never.
	recheck time.Duration
}

// plan is a pure function of what was observed and of the time.
func plan(o observed, now time.Time) planned {
	r := o.request
	switch {
	case r.DeletionTimestamp != nil:
		return release(o, reasonDeleted, "the request is being deleted")
	case recreate.Done(r):
		return finished(o, now)
	case o.pod == nil:
		return complete(r, reasonPodGone, "pod has gone", now)
	case podpatch.Ended(o.pod):
		return complete(r, reasonPodGone, fmt.Sprintf("pod has gone: its phase is %s", o.pod.Status.Phase), now)
	}
	due, recheck := timing.Passed(&r.CreationTimestamp, r.Spec.ActiveDeadlineSeconds, now)
	if due {
		return complete(r, reasonDeadlineExceeded, fmt.Sprintf("not all containers were restarted within the %d seconds of activeDeadlineSeconds",
			*r.Spec.ActiveDeadlineSeconds), now)
	}
	if r.Status.Phase == "" {
		left := r.CreationTimestamp.Add(silence).Sub(now)
		if left <= 0 {
			return complete(r, reasonNoDaemon, fmt.Sprintf("daemon has not responded for a long time: does flotilla-noded run on node %s?",
				r.Labels[keys.RecreateNode]), now)
		}
		return planned{recheck: timing.Sooner(recheck, left)}
	}
	p := progress(o, now)
	p.recheck = recheck
	return p
}

// progress makes the pod of a request in progress unready if necessary, and reports its containers.
func progress(o observed, now time.Time) planned {
	r := o.request
	if r.Status.Phase != appsv1beta1.RecreateRecreating {
		return planned{}
	}
	const why = "the pod is not ready while its containers are restarted"
	s := *r.Status.DeepCopy()
	if wantsUnready(r) {
		c := metav1.Condition{Type: appsv1beta1.RecreatePreGrace, Status: metav1.ConditionTrue, Reason: appsv1beta1.RecreatePreGrace, Message: why}
		switch {
		case !podpatch.Gated(o.pod, keys.KruisePodReady):
			c.Status, c.Reason, c.Message = metav1.ConditionFalse, recreate.NoReadinessGate, ungated
		case !slices.Contains(r.Finalizers, keys.RecreateUnready):
			return planned{step: stepHold, reason: reasonGrace, why: why}
		case !lifecycle.Blocks(o.pod, recreate.Agent, recreate.Key(r)):
			return planned{step: stepUnready, reason: reasonGrace, why: why}
		}
		s.Conditions = report.SetCondition(s.Conditions, c, now)
	}
	s.ContainerStatusSnapshot = snapshot(r, o.pod)
	if apiequality.Semantic.DeepEqual(s, r.Status) {
		return planned{}
	}
	return planned{step: stepReport, reason: reasonSnapshot, why: "the pod reports its containers", status: s}
}

// ungated is the message that a pod stays ready while its connections drain.
const ungated = "the pod has no readiness gate " + string(keys.KruisePodReady) + ", so it stays ready until its containers are stopped; add the " +
	"gate to the pod template; only pods created after that have it"

// wantsUnready reports whether a request wants its pod to be unready.
func wantsUnready(r *appsv1beta1.ContainerRecreateRequest) bool {
	return r.Spec.Strategy != nil && r.Spec.Strategy.UnreadyGracePeriodSeconds != nil
}

// snapshot returns the request's containers that started after the request was created and are running.
func snapshot(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) []appsv1beta1.ContainerStatusSnapshot {
	var out []appsv1beta1.ContainerStatusSnapshot
	for i := range r.Spec.Containers {
		st := inplace.Status(pod, r.Spec.Containers[i].Name)
		if st == nil || st.State.Running == nil || st.State.Running.StartedAt.Before(&r.CreationTimestamp) {
			continue
		}
		out = append(out, appsv1beta1.ContainerStatusSnapshot{Name: st.Name, Ready: st.Ready, RestartCount: st.RestartCount, ContainerID: st.ContainerID})
	}
	return out
}

// lastReport reports the containers that a complete request has restarted. The daemon learns of restarts from the pod, so it may complete the
// request before the controller reports them. Containers that started later don't belong to the request.
func lastReport(o observed) planned {
	r := o.request
	if o.pod == nil || r.Status.CompletionTime == nil {
		return planned{}
	}
	s := *r.Status.DeepCopy()
	for _, observed := range snapshot(r, o.pod) {
		sameName := func(recorded appsv1beta1.ContainerStatusSnapshot) bool { return recorded.Name == observed.Name }
		at := slices.IndexFunc(s.ContainerStatusSnapshot, sameName)
		switch {
		case r.Status.CompletionTime.Before(&inplace.Status(o.pod, observed.Name).State.Running.StartedAt):
		case at < 0:
			s.ContainerStatusSnapshot = append(s.ContainerStatusSnapshot, observed)
		case s.ContainerStatusSnapshot[at].ContainerID != observed.ContainerID:
			s.ContainerStatusSnapshot[at] = observed
		}
	}
	if apiequality.Semantic.DeepEqual(s, r.Status) {
		return planned{}
	}
	return planned{step: stepReport, reason: reasonSnapshot, why: "the pod reports its containers", status: s}
}

// complete ends a request that the daemon has not completed.
func complete(r *appsv1beta1.ContainerRecreateRequest, reason, why string, now time.Time) planned {
	s := *r.Status.DeepCopy()
	s.Phase, s.Message, s.CompletionTime = appsv1beta1.RecreateCompleted, why, new(metav1.NewTime(now).Rfc3339Copy())
	return planned{step: stepComplete, reason: reason, why: why, status: s}
}

// finished releases what a complete request holds, and deletes the request after its TTL.
func finished(o observed, now time.Time) planned {
	r := o.request
	if p := lastReport(o); p.step != "" {
		return p
	}
	if p := release(o, reasonOver, "the request is complete"); p.step != "" {
		return p
	}
	if due, left := timing.Passed(r.Status.CompletionTime, r.Spec.TTLSecondsAfterFinished, now); !due {
		return planned{recheck: left}
	}
	return planned{step: stepRemove, reason: reasonTTL, why: "its TTL has passed"}
}

// release makes the pod ready, and then removes the finalizer and the label from the request.
func release(o observed, reason, why string) planned {
	r := o.request
	if o.pod != nil && lifecycle.Blocks(o.pod, recreate.Agent, recreate.Key(r)) {
		return planned{step: stepReady, reason: reason, why: why}
	}
	_, active := r.Labels[keys.RecreateActive]
	if slices.Contains(r.Finalizers, keys.RecreateUnready) || active && r.DeletionTimestamp == nil {
		return planned{step: stepRelease, reason: reason, why: why}
	}
	return planned{}
}
