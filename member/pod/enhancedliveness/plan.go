package enhancedliveness

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	appsv1alpha1 "github.com/flotilla-io/flotilla/apis/apps/v1alpha1"
	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/noded/podprobe"
	"github.com/flotilla-io/flotilla/pkg/noded/recreate"
	"github.com/flotilla-io/flotilla/pkg/plan/rollout"
	"github.com/flotilla-io/flotilla/pkg/plan/timing"
	"github.com/flotilla-io/flotilla/pkg/pod/podpatch"
)

const (
	// The first back-off between restarts of a container is firstBackoff. It doubles up to lastBackoff, as in the kubelet.
	firstBackoff = 10 * time.Second
	lastBackoff  = 5 * time.Minute
	// memory is how long requests are kept. Older restarts don't count.
	memory = time.Hour
	// retryBudget is when to recheck a container that waits for a budget. Pods without such probes may become ready meanwhile.
	retryBudget = 10 * time.Second
)

// failing is a container whose liveness probe has failed.
type failing struct {
	pod       *corev1.Pod
	container string
	// id is the container ID.
	id string
	// grace is the container's grace period in seconds. Nil means the pod's.
	grace *int64
	// since is when the probe began to fail. message is the output of the probe.
	since   time.Time
	message string
	// available means that the pod serves.
	available bool
}

// name returns the name of the request that restarts the container. It is unique for each run of the container.
func (f *failing) name() string { return requestName(f.pod, f.container, f.id) }

// requestName derives a request's name from the pod UID and the container ID.
func requestName(pod *corev1.Pod, container, id string) string {
	const longest = 200
	sum := sha256.Sum256([]byte(string(pod.UID) + "/" + container + "/" + id))
	return control.NamePrefix(pod.Name, longest) + "-liveness-" + hex.EncodeToString(sum[:8])
}

// delayed is a container that has to wait.
type delayed struct {
	failing
	why string
}

// planned is the next step.
type planned struct {
	// restarts holds the containers to restart, in this order.
	restarts []failing
	// drop holds the requests that completed without restarting their container, which still fails.
	drop []*appsv1beta1.ContainerRecreateRequest
	// delayed holds the containers that wait for the budget.
	delayed []delayed
	// unreadable maps pods whose annotation can't be parsed to the reason.
	unreadable map[*corev1.Pod]string
	// waits holds a reason for each failing container that is not restarted.
	waits []string
	// recheck is when time alone changes the plan. 0 means never.
	recheck time.Duration
}

// plan is a pure function of what was observed and of the time.
func plan(o observed, now time.Time) planned {
	p := planned{unreadable: map[*corev1.Pod]string{}}
	var all []failing
	serve := 0
	for _, pod := range o.pods {
		available, at := o.available(pod, now)
		busy := slices.ContainsFunc(o.requests[pod.UID], func(r *appsv1beta1.ContainerRecreateRequest) bool { return underWay(r, pod) })
		switch {
		case available && !busy:
			serve++
		case at.After(now):
			p.recheck = timing.Sooner(p.recheck, at.Sub(now))
		}
		if !podpatch.Active(pod) || busy {
			continue
		}
		for _, f := range p.failing(o, pod, now) {
			f.available = available
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b failing) int {
		return cmp.Or(rollout.FalseFirst(a.available, b.available), a.since.Compare(b.since),
			cmp.Compare(a.pod.Name, b.pod.Name), cmp.Compare(a.container, b.container))
	})
	// Restarting a pod that doesn't serve costs nothing, so such pods come first.
	out := max(0, o.replicas-serve)
	restarted := map[types.UID]bool{}
	for _, f := range all {
		switch {
		case restarted[f.pod.UID]: // Restart the containers of a pod one by one.
			continue
		case f.available && out >= o.budget:
			p.wait(reasonBudget, retryBudget)
			p.delayed = append(p.delayed, delayed{f, fmt.Sprintf(
				"%d of %d pods are unavailable, and at most %d may be (maxUnavailable): the container is restarted when others are ready",
				out, o.replicas, o.budget)})
			continue
		case f.available:
			out++
		}
		restarted[f.pod.UID] = true
		p.restarts = append(p.restarts, f)
	}
	return p
}

// failing returns the containers of a pod that may be restarted now if the budget allows it.
func (p *planned) failing(o observed, pod *corev1.Pod, now time.Time) []failing {
	probes, err := podprobe.Liveness(pod)
	if err != nil {
		p.unreadable[pod] = err.Error()
		return nil
	}
	var out []failing
	for i := range probes {
		name := probes[i].Name
		id := podprobe.Started(pod, name)
		if id == "" || recreate.Container(pod, name) == nil {
			continue
		}
		s := podprobe.State(o.results[pod.UID], podprobe.LivenessName(name, id))
		switch {
		case s == nil || s.State != appsv1alpha1.ProbeFailed:
			continue
		case !o.alive[pod.Spec.NodeName]:
			p.wait(reasonNoDaemon, 0) // Its next Lease starts a reconcile.
			continue
		}
		f := failing{
			pod: pod, container: name, id: id, grace: probes[i].LivenessProbe.TerminationGracePeriodSeconds, since: s.LastTransitionTime.Time, message: s.Message,
		}
		left, undone := untilRestart(o.requests[pod.UID], f, now)
		switch {
		case left > 0:
			p.wait(reasonBackoff, left)
		case undone != nil:
			p.wait(reasonRequested, 0)
			p.drop = append(p.drop, undone)
		default:
			out = append(out, f)
		}
	}
	return out
}

// untilRestart returns how long until the container may be restarted, given the requests that restarted it before. undone is the request for
// the current run of the container if it completed without restarting it.
func untilRestart(
	requests []*appsv1beta1.ContainerRecreateRequest, f failing, now time.Time,
) (left time.Duration, undone *appsv1beta1.ContainerRecreateRequest) {
	var last time.Time
	n := 0
	for _, r := range requests {
		if r.Name == f.name() {
			undone = r
		}
		if r.Labels[keys.RecreateLiveness] != f.container || now.Sub(r.CreationTimestamp.Time) > memory {
			continue
		}
		n++
		if at := r.CreationTimestamp.Time; at.After(last) {
			last = at
		}
	}
	if n == 0 {
		return 0, undone
	}
	return last.Add(backoff(n)).Sub(now), undone
}

// backoff returns the back-off after n restarts.
func backoff(n int) time.Duration {
	d := firstBackoff
	for range n - 1 {
		if d *= 2; d >= lastBackoff {
			return lastBackoff
		}
	}
	return d
}

// underWay reports whether a request is about to restart a container of the pod, or has done so but the pod doesn't show it yet.
func underWay(r *appsv1beta1.ContainerRecreateRequest, pod *corev1.Pod) bool {
	if !recreate.Done(r) {
		return r.DeletionTimestamp == nil
	}
	for i := range r.Spec.Containers {
		c := &r.Spec.Containers[i]
		restarted := slices.ContainsFunc(r.Status.ContainerRecreateStates, func(s appsv1beta1.ContainerRecreateRequestState) bool {
			return s.Name == c.Name && s.Phase == appsv1beta1.RecreateSucceeded
		})
		if restarted && c.StatusContext != nil && podprobe.Started(pod, c.Name) == c.StatusContext.ContainerID {
			return true
		}
	}
	return false
}

// wait records why a container is not restarted, and when to check again.
func (p *planned) wait(reason string, recheck time.Duration) {
	p.waits = append(p.waits, reason)
	p.recheck = timing.Sooner(p.recheck, recheck)
}
