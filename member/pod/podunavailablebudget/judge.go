package podunavailablebudget

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/flotilla-io/flotilla/apis/keys"
	policyv1beta1 "github.com/flotilla-io/flotilla/apis/policy/v1beta1"
	"github.com/flotilla-io/flotilla/pkg/control/ownership"
	"github.com/flotilla-io/flotilla/pkg/pod/inplace"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
	"github.com/flotilla-io/flotilla/pkg/workload/podset"
)

const (
	// deletionTime is how long a granted deletion or eviction may take to start.
	deletionTime = 20 * time.Second
	// updateTime is how long a granted update or resize may take to show in the pod. The grant is kept longer while the kubelet has not acted on
	// the update: until then the pod is ready with what it ran before.
	updateTime = 10 * time.Second
	// maxGrants is the maximum number of grants in flight. More would make the object too large.
	maxGrants = 2000
	// retryAfter is when to retry an eviction. Pods take about that long to become ready.
	retryAfter = 5 * time.Second
	// retrySoon is when to retry if only the controller has to count first.
	retrySoon = time.Second
)

// verdict is the answer to a request. A nil refusal allows it.
type verdict struct {
	refusal *podwebhook.Refusal
	// took means that the status was edited. The answer is valid only once the status is written.
	took bool
}

// isSatisfied reports whether enough pods are available.
func isSatisfied(s *policyv1beta1.PodUnavailableBudgetStatus) bool {
	return s.CurrentAvailable >= s.DesiredAvailable
}

// judge answers a request from the status of a budget, and takes the units that the request needs.
func judge(b *policyv1beta1.PodUnavailableBudget, r podwebhook.Request, now time.Time) verdict {
	s := &b.Status
	serves, _ := available(r.Old, now)
	switch {
	case b.DeletionTimestamp != nil || !judges(b, r):
		return verdict{}
	case s.ObservedGeneration < b.Generation:
		return newRefusal(b, retrySoon, "its pods have not been counted since it was last changed; try again in a moment",
			fmt.Sprintf("The budget %s is at generation %d and was counted at generation %d", b.Name, b.Generation, s.ObservedGeneration))
	case s.DesiredAvailable == 0:
		return verdict{}
	case !serves:
		if isSatisfied(s) || !protectsNotReady(b, r) {
			return verdict{}
		}
		return newRefusal(b, retryAfter, fmt.Sprintf("the pod is not ready but is protected anyway (spec.protectNotReady), because %d pods are "+
			"available and %d must be; try again when others are ready", s.CurrentAvailable, s.DesiredAvailable), describeCounts(b))
	}
	if granted, lasts := hasGrant(s, r, now); granted {
		if !lasts {
			recordGrant(s, r, now)
		}
		return verdict{took: !lasts}
	}
	switch {
	case s.UnavailableAllowed <= 0:
		return newRefusal(b, retryAfter, fmt.Sprintf("no more pods may become unavailable: %d of %d are available and not about to change, and %d must be; "+
			"try again when others are ready, or change the budget", s.CurrentAvailable, s.TotalReplicas, s.DesiredAvailable), describeCounts(b))
	case len(s.DisruptedPods)+len(s.UnavailablePods) >= maxGrants:
		return newRefusal(b, retryAfter, fmt.Sprintf("%d granted requests are in progress, and no more are allowed; try again when pods have changed",
			len(s.DisruptedPods)+len(s.UnavailablePods)), describeCounts(b))
	}
	s.UnavailableAllowed--
	s.CurrentAvailable-- // The controller will count the same.
	recordGrant(s, r, now)
	return verdict{took: true}
}

func newRefusal(b *policyv1beta1.PodUnavailableBudget, after time.Duration, why, cause string) verdict {
	return verdict{refusal: &podwebhook.Refusal{Message: podwebhook.BudgetMessage(b.Name, why), Cause: cause, RetryAfter: after}}
}

// describeCounts describes what is missing, in the words of a PodDisruptionBudget.
func describeCounts(b *policyv1beta1.PodUnavailableBudget) string {
	return fmt.Sprintf("The budget %s needs %d available pods and has %d currently, of which %d may become unavailable",
		b.Name, b.Status.DesiredAvailable, b.Status.CurrentAvailable, b.Status.UnavailableAllowed)
}

// judges reports whether a budget judges the request at all.
func judges(b *policyv1beta1.PodUnavailableBudget, r podwebhook.Request) bool {
	exempt, err := strconv.ParseBool(r.Old.Annotations[keys.NoProtect])
	return (err != nil || !exempt) && !isIgnored(b, r.Old) && slices.Contains(protectedOperations(b), policyv1beta1.Operation(r.Operation))
}

// protectedOperations returns the operations that a budget judges.
func protectedOperations(b *policyv1beta1.PodUnavailableBudget) []policyv1beta1.Operation {
	if len(b.Spec.ProtectOperations) == 0 {
		return []policyv1beta1.Operation{policyv1beta1.Delete, policyv1beta1.Update, policyv1beta1.Evict}
	}
	return b.Spec.ProtectOperations
}

// isIgnored reports whether a budget doesn't protect a pod. Such a pod still counts.
func isIgnored(b *policyv1beta1.PodUnavailableBudget, pod *corev1.Pod) bool {
	return b.Spec.IgnoredPodSelector != nil && ownership.Selects(b.Spec.IgnoredPodSelector, pod)
}

// available reports whether a pod serves: it is ready, its containers are not about to be replaced, no in-place update keeps it out of
// service, and no label marks it as unavailable. changesAt is when time alone can change the result, zero if never.
func available(pod *corev1.Pod, now time.Time) (ok bool, changesAt time.Time) {
	f := podset.View(pod, podset.Rules{}, time.Time{})
	if !f.Active || !f.Ready || isMarked(pod) {
		return false, time.Time{}
	}
	outdated, changesAt := inplace.Outdated(pod, now)
	return !outdated, changesAt
}

// isMarked reports whether a label marks the pod as unavailable.
func isMarked(pod *corev1.Pod) bool {
	for label := range pod.Labels {
		if strings.HasPrefix(label, keys.UnavailablePodPrefix) {
			return true
		}
	}
	return false
}

// protectsNotReady reports whether a budget protects an unavailable pod from a request that removes it. As with a PodDisruptionBudget, a pod
// that has not started to run is not protected. Updates are allowed: an update may repair the pod, or complete the one for which the pod was
// taken out of service.
func protectsNotReady(b *policyv1beta1.PodUnavailableBudget, r podwebhook.Request) bool {
	return b.Spec.ProtectNotReady && removesPod(r.Operation) && r.Old.Status.Phase == corev1.PodRunning
}

// removesPod reports whether an operation removes the pod.
func removesPod(o podwebhook.Operation) bool { return o == podwebhook.Delete || o == podwebhook.Evict }

// hasGrant reports whether the pod of a request already has a grant. lasts reports whether that grant is kept until this request has taken
// effect as well. If not, the grant has to be recorded again, which takes no further unit. Grants for an earlier pod with the same name don't
// count.
func hasGrant(s *policyv1beta1.PodUnavailableBudgetStatus, r podwebhook.Request, now time.Time) (granted, lasts bool) {
	check := func(grants map[string]metav1.Time, lifetime time.Duration) (granted, lasts bool) {
		at, ok := grants[r.Old.Name]
		if !ok || at.Before(&r.Old.CreationTimestamp) {
			return false, false
		}
		return true, now.Before(at.Add(lifetime / 2))
	}
	disrupted, lasts := check(s.DisruptedPods, deletionTime)
	if disrupted && (lasts || removesPod(r.Operation)) {
		return true, lasts
	}
	unavailable, lasts := check(s.UnavailablePods, updateTime)
	return disrupted || unavailable, unavailable && lasts && !removesPod(r.Operation)
}

// recordGrant records a grant in the status.
func recordGrant(s *policyv1beta1.PodUnavailableBudgetStatus, r podwebhook.Request, now time.Time) {
	grants := &s.UnavailablePods
	if removesPod(r.Operation) {
		grants = &s.DisruptedPods
	}
	if *grants == nil {
		*grants = map[string]metav1.Time{}
	}
	(*grants)[r.Old.Name] = grantTime(now, r.Old)
}

// grantTime returns the time to record for a grant, in whole seconds like the times of pods. It is never before the pod's creation, even if this
// replica's clock is behind the apiserver's; otherwise the grant would seem to be for an earlier pod with the same name. pod is nil if it is
// unknown.
func grantTime(now time.Time, pod *corev1.Pod) metav1.Time {
	at := now.UTC().Truncate(time.Second)
	if pod != nil && at.Before(pod.CreationTimestamp.Time) {
		return pod.CreationTimestamp
	}
	return metav1.NewTime(at)
}
