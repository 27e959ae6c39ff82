package cluster

import (
	"fmt"
	"slices"
	"strings"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/flotilla-io/flotilla/apis/fleet/v1alpha1"
	"github.com/flotilla-io/flotilla/apis/keys"
	"github.com/flotilla-io/flotilla/pkg/control/event"
	"github.com/flotilla-io/flotilla/pkg/control/report"
	"github.com/flotilla-io/flotilla/pkg/manager/link"
)

// Reasons of the conditions that the hub writes. kubeconfig.go and request.go have more.
const (
	reasonReady              = "Ready"
	reasonAccepted           = "Accepted"
	reasonRenewing           = "Renewing"
	reasonNeverSeen          = "NeverSeen"
	reasonHeartbeatLost      = "HeartbeatLost"
	reasonHubSideFault       = "HubSideFault"
	reasonNoRequest          = "NoRequest"
	reasonRequestDenied      = "RequestDenied"
	reasonCertificateSigned  = "CertificateSigned"
	reasonCertificateExpired = "CertificateExpired"
	reasonChecking           = "Checking"
	reasonNamespaceTaken     = "NamespaceTaken"
	reasonNamespaceGoing     = "NamespaceTerminating"
	reasonOtherHub           = "OwnedByOtherHub"
	reasonAPIUnhealthy       = "APIUnhealthy"
	reasonHubIncomplete      = "HubIncomplete"
	reasonVersionSkew        = "VersionSkew"
	reasonTainted            = "Tainted"
	reasonNoTaints           = "NoTaints"
)

// finding is the content of a condition.
type finding struct {
	status  metav1.ConditionStatus
	reason  string
	message string
}

func conditionTrue(reason, message string) finding {
	return finding{metav1.ConditionTrue, reason, message}
}

func conditionFalse(reason, message string) finding {
	return finding{metav1.ConditionFalse, reason, message}
}

func conditionUnknown(reason, message string) finding {
	return finding{metav1.ConditionUnknown, reason, message}
}

// status returns the hub's part of the new status, and the events for the change. The agent's parts are left out, because hub and agent each
// apply their own fields.
func status(o observed, p planned, a applied, now time.Time) (fleetv1alpha1.MemberClusterStatus, []event.Event) {
	next := fleetv1alpha1.MemberClusterStatus{
		ObservedGeneration: o.mc.Generation,
		Phase:              phase(o),
		Rows:               count(o.rows),
		Conditions:         hubConditions(o.mc.Status.Conditions),
	}
	if o.hub.Epoch > 0 {
		hub := o.hub
		next.Hub = &hub
	}
	accepted, provision, credential, beat, versions := acceptance(o), provision(o), credential(o, now), heartbeatFresh(o), versions(o)
	ready := readiness(o, p, a, accepted, credential, beat, versions)
	reconciling, stalled := unready(ready)
	for _, c := range []struct {
		kind  string
		found finding
	}{
		{fleetv1alpha1.ConditionAccepted, accepted},
		{fleetv1alpha1.ConditionProvisioned, provision},
		{fleetv1alpha1.ConditionCredentialValid, credential},
		{fleetv1alpha1.ConditionHeartbeatFresh, beat},
		{fleetv1alpha1.ConditionReady, ready},
		{keys.ConditionReconciling, reconciling},
		{keys.ConditionStalled, stalled},
		{fleetv1alpha1.ConditionSkewSupported, versions},
		{fleetv1alpha1.ConditionSchedulable, schedulable(o.mc)},
	} {
		if c.found == (finding{}) {
			next.Conditions = slices.DeleteFunc(next.Conditions, func(old metav1.Condition) bool { return old.Type == c.kind })
			continue
		}
		next.Conditions = report.SetCondition(next.Conditions, metav1.Condition{
			Type: c.kind, Status: c.found.status, Reason: c.found.reason, Message: c.found.message,
			ObservedGeneration: o.mc.Generation,
		}, now)
	}
	return next, eventsFor(o, p, a, next)
}

// hubConditions returns the conditions that the hub writes.
func hubConditions(all []metav1.Condition) []metav1.Condition {
	mine := []string{
		fleetv1alpha1.ConditionAccepted, fleetv1alpha1.ConditionProvisioned, fleetv1alpha1.ConditionCredentialValid,
		fleetv1alpha1.ConditionHeartbeatFresh, fleetv1alpha1.ConditionReady, fleetv1alpha1.ConditionSkewSupported,
		fleetv1alpha1.ConditionSchedulable, keys.ConditionReconciling, keys.ConditionStalled,
	}
	return slices.DeleteFunc(slices.Clone(all), func(c metav1.Condition) bool { return !slices.Contains(mine, c.Type) })
}

// hubPart returns the hub's part of a status, for comparison with what it would write now.
func hubPart(s fleetv1alpha1.MemberClusterStatus) fleetv1alpha1.MemberClusterStatus {
	return fleetv1alpha1.MemberClusterStatus{
		ObservedGeneration: s.ObservedGeneration, Phase: s.Phase, Hub: s.Hub, Rows: s.Rows, Conditions: hubConditions(s.Conditions),
	}
}

func phase(o observed) fleetv1alpha1.ClusterPhase {
	ownership := report.GetCondition(o.mc.Status.Conditions, fleetv1alpha1.ConditionOwnedByThisHub)
	switch {
	case !o.mc.DeletionTimestamp.IsZero():
		return fleetv1alpha1.ClusterLeaving
	case !o.mc.Spec.Accepted:
		return fleetv1alpha1.ClusterPending
	case o.heartbeat == livenessStale && hubSide(o):
		return o.mc.Status.Phase // A lost epoch doesn't concern the member.
	case o.heartbeat == livenessStale:
		return fleetv1alpha1.ClusterUnreachable
	case o.unsteadyFor > 0:
		return fleetv1alpha1.ClusterJoining
	case o.heartbeat == livenessFresh && ownership != nil && ownership.Status == metav1.ConditionTrue && rightIdentity(o.mc):
		return fleetv1alpha1.ClusterReady
	default:
		return fleetv1alpha1.ClusterJoining
	}
}

// hubSide reports whether the hub itself can't connect to the member because the credential is missing or refused on the hub.
func hubSide(o observed) bool {
	return o.mc.Spec.Mode == fleetv1alpha1.ModePush && o.push.refused != nil
}

// rightIdentity reports whether the agent reports the identity that the cluster joined with, or none.
func rightIdentity(mc *fleetv1alpha1.MemberCluster) bool {
	id, reported := mc.Spec.Identity, mc.Status.ClusterUID
	return id == nil || reported == "" || reported == id.ClusterUID
}

// versions returns whether the versions of hub and agent are compatible. The agent makes the same check and takes no work if they are not.
// There is no finding until the agent has reported its version.
func versions(o observed) finding {
	if o.mc.Status.AgentVersion == "" {
		return finding{}
	}
	v := link.CheckSkew(o.hub.Version, o.mc.Status.AgentVersion)
	return finding{report.ConditionStatus(v.Supported), v.Reason, v.Message}
}

// schedulable reports whether the cluster has no taints.
func schedulable(mc *fleetv1alpha1.MemberCluster) finding {
	if len(mc.Spec.Taints) == 0 {
		return conditionTrue(reasonNoTaints, "The cluster has no taints")
	}
	return conditionFalse(reasonTainted,
		"Only objects that tolerate its taints are placed in the cluster: "+event.Names(fleetv1alpha1.TaintNames(mc.Spec.Taints)))
}

func acceptance(o observed) finding {
	if o.mc.Spec.Accepted {
		return conditionTrue(reasonAccepted, "The cluster is accepted")
	}
	return conditionFalse(reasonNotAccepted, "An administrator has not accepted the cluster: run kubectl kruise cluster accept "+o.mc.Name)
}

// credential returns whether there is a usable credential.
func credential(o observed, now time.Time) finding {
	switch {
	case !o.mc.Spec.Accepted:
		return conditionUnknown(reasonNotAccepted, "The credential of a cluster that is not accepted is not checked")
	case o.mc.Spec.Mode == fleetv1alpha1.ModePush:
		return pushCredential(o)
	}
	token := "run kubectl kruise cluster token " + o.mc.Name
	end, reported := certificateEnd(o.mc)
	previous := report.IsConditionTrue(o.mc.Status.Conditions, fleetv1alpha1.ConditionCredentialValid)
	switch {
	case reported && !end.After(now):
		return conditionFalse(reasonCertificateExpired, "The member's certificate has expired: "+token+" and give the token to the agent")
	case previous, o.heartbeat != livenessUnknown, answered(o.request, certificatesv1.CertificateApproved) != nil:
		return conditionTrue(reasonCertificateSigned, "The member's certificate request was approved")
	}
	if c := answered(o.request, certificatesv1.CertificateDenied); c != nil {
		return conditionFalse(reasonRequestDenied, fmt.Sprintf("The last certificate request was denied (%s): %s", c.Reason, c.Message))
	}
	return conditionFalse(reasonNoRequest, "There is no certificate request yet: "+token+" and install the agent with it")
}

func pushCredential(o observed) finding {
	switch {
	case !mayConnect(o):
		return provision(o)
	case o.push.refused != nil:
		return conditionFalse(o.push.refused.reason, o.push.refused.message)
	case o.holder != "":
		return conditionFalse(reasonIdentityTaken, "The kubeconfig leads to a cluster that has already joined as "+o.holder+": it must leave there first")
	case o.push.cause.Untrusted(), o.push.cause == link.Unauthorized, o.push.cause == link.Forbidden:
		return conditionFalse(string(o.push.cause), "The kubeconfig can't be used: "+o.push.problem)
	case !o.push.checked, o.push.cause == "" && o.push.clusterUID == "" && o.push.problem == "":
		// After a restart the previous state stays until the first check.
		if c := report.GetCondition(o.mc.Status.Conditions, fleetv1alpha1.ConditionCredentialValid); c != nil && c.Reason != reasonNotAccepted {
			return finding{c.Status, c.Reason, c.Message}
		}
		return conditionUnknown(reasonChecking, "The kubeconfig is being checked")
	default:
		return conditionTrue(reasonKubeconfigValid, "The kubeconfig is valid")
	}
}

func answered(csr *certificatesv1.CertificateSigningRequest, kind certificatesv1.RequestConditionType) *certificatesv1.CertificateSigningRequestCondition {
	if csr == nil {
		return nil
	}
	for i := range csr.Status.Conditions {
		if csr.Status.Conditions[i].Type == kind {
			return &csr.Status.Conditions[i]
		}
	}
	return nil
}

func heartbeatFresh(o observed) finding {
	suffix := ""
	if o.push.problem != "" {
		suffix = "; the last attempt to connect: " + o.push.problem
	}
	if o.heartbeat != livenessFresh && hubSide(o) {
		return conditionUnknown(reasonHubSideFault, "The hub can't connect to the member: "+o.push.refused.message)
	}
	switch o.heartbeat {
	case livenessFresh:
		return conditionTrue(reasonRenewing, "The member renews its Lease")
	case livenessStale:
		return conditionFalse(reasonHeartbeatLost, fmt.Sprintf("No renewal of the member's Lease was seen for %d s; its numbers are frozen%s",
			o.mc.Spec.Heartbeat.FailAfterSeconds, suffix))
	case livenessUnknown:
	}
	if o.mc.Spec.Mode != fleetv1alpha1.ModePush {
		suffix = "; for the reason, run in the member: kubectl describe membership " + fleetv1alpha1.MembershipName
	}
	if o.push.cause.Unanswered() || o.push.cause == link.NotServed {
		return conditionUnknown(string(o.push.cause), "The hub can't reach the member: "+o.push.problem)
	}
	return conditionUnknown(reasonNeverSeen, "The member's agent has not renewed its Lease yet"+suffix)
}

// unready returns the conditions that accompany Ready. A cluster that is not ready is stalled if somebody has to change something, and
// reconciling otherwise.
func unready(ready finding) (reconciling, stalled finding) {
	switch ready.reason {
	case reasonReady:
		return finding{}, finding{}
	case reasonNamespaceTaken, reasonRequestDenied, reasonWrongIdentity, reasonVersionSkew, reasonOtherHub:
		return finding{}, conditionTrue(ready.reason, ready.message)
	}
	return conditionTrue(ready.reason, ready.message), finding{}
}

// readiness returns the condition Ready, based on the first other condition that is not met.
func readiness(o observed, p planned, a applied, accepted, credential, beat, versions finding) finding {
	agent := o.mc.Status.Conditions
	switch {
	case !o.mc.DeletionTimestamp.IsZero():
		return conditionFalse(reasonLeaving, "The cluster is leaving: "+p.why)
	case accepted.status != metav1.ConditionTrue:
		return conditionFalse(accepted.reason, accepted.message)
	case o.lost:
		return conditionFalse(reasonHubIncomplete, "The hub is incomplete: "+p.why)
	case a.namespaceTaken:
		return conditionFalse(reasonNamespaceTaken, fmt.Sprintf(
			"Namespace %s exists and was not created for this MemberCluster: delete it, or choose another cluster name",
			fleetv1alpha1.Namespace(o.mc.Name)))
	case terminating(o):
		return conditionFalse(reasonNamespaceGoing, "The cluster is waiting: "+p.why)
	case credential.status != metav1.ConditionTrue:
		return conditionFalse(credential.reason, credential.message)
	case beat.status != metav1.ConditionTrue:
		return conditionFalse(beat.reason, beat.message)
	case !rightIdentity(o.mc):
		return conditionFalse(reasonWrongIdentity, "The agent reports a different cluster UID than the one that joined under this name")
	case versions.status == metav1.ConditionFalse:
		return conditionFalse(reasonVersionSkew, versions.message)
	case o.unsteadyFor > 0:
		return conditionFalse(fleetv1alpha1.ReasonUnsteady, fmt.Sprintf(
			"The member has changed between healthy and unhealthy more than %d times within %s: "+
				"its reports count again once they stay the same for as long", unsteadyChanges, unsteadyWindow))
	}
	for _, c := range []struct{ kind, reason string }{
		{fleetv1alpha1.ConditionOwnedByThisHub, reasonOtherHub},
		{fleetv1alpha1.ConditionAPIHealthy, reasonAPIUnhealthy},
	} {
		if found := report.GetCondition(agent, c.kind); found != nil && found.Status == metav1.ConditionFalse {
			return conditionFalse(c.reason, found.Message)
		}
	}
	return conditionTrue(reasonReady, "The cluster is ready")
}

// count counts the rows by phase.
func count(rows []*fleetv1alpha1.MemberWork) *fleetv1alpha1.RowCounts {
	counts := &fleetv1alpha1.RowCounts{Total: int32(len(rows))} //nolint:gosec // a list has fewer than 2^31 entries
	for _, row := range rows {
		blocked := row.Status.Phase == fleetv1alpha1.WorkBlocked
		if row.Status.ObservedGeneration == row.Generation && row.Status.Phase != "" && !blocked {
			counts.Applied++
		}
		if row.Status.Phase == fleetv1alpha1.WorkHealthy {
			counts.Healthy++
		}
		if blocked || row.Status.Phase == fleetv1alpha1.WorkDegraded {
			counts.Degraded++
		}
	}
	return counts
}

// changedTo returns the condition of a type if it has that reason now and had a different one before.
func changedTo(old, next []metav1.Condition, kind, reason string) *metav1.Condition {
	previous, current := report.GetCondition(old, kind), report.GetCondition(next, kind)
	if current == nil || current.Reason != reason || previous != nil && previous.Reason == reason {
		return nil
	}
	return current
}

// eventsFor returns the events for a change of status.
func eventsFor(o observed, p planned, a applied, next fleetv1alpha1.MemberClusterStatus) []event.Event {
	var events []event.Event
	old, liveness := o.mc.Status, previousLiveness(o.mc)
	before := report.GetCondition(old.Conditions, fleetv1alpha1.ConditionReady)
	after := report.GetCondition(next.Conditions, fleetv1alpha1.ConditionReady)
	if after.Reason == reasonHubIncomplete && o.hub.Epoch > 0 && (before == nil || before.Reason != after.Reason) {
		events = append(events, hubIncomplete(after.Message))
	}
	if o.twice {
		events = append(events, twoCredentials(o.mc.Status.Credential.Serial))
	}
	if c := changedTo(old.Conditions, next.Conditions, fleetv1alpha1.ConditionProvisioned, reasonClusterDeleting); c != nil {
		events = append(events, clusterDeleting(c.Message))
	}
	switch {
	case next.Phase == fleetv1alpha1.ClusterLeaving:
		if old.Phase != fleetv1alpha1.ClusterLeaving {
			events = append(events, leavingEvent(len(o.rows), string(o.mc.Spec.Leave.Policy)))
		}
		switch {
		case a.released && p.tombstone != "":
			events = append(events, tombstoneLeft(p.tombstone))
		case a.released && p.unanswered != "":
			events = append(events, releasedEvent(p.unanswered))
		case a.released:
			events = append(events, leftEvent())
		}
		return events
	case next.Phase == fleetv1alpha1.ClusterPending:
		return nil
	case liveness == livenessFresh && o.heartbeat == livenessStale && !hubSide(o):
		c := report.GetCondition(next.Conditions, fleetv1alpha1.ConditionHeartbeatFresh)
		events = append(events, unreachableEvent(c.Message))
	case liveness == livenessStale && o.heartbeat == livenessFresh:
		events = append(events, recoveredEvent())
	case next.Phase == fleetv1alpha1.ClusterReady && old.Phase != next.Phase:
		events = append(events, joinedEvent())
	}
	before = report.GetCondition(old.Conditions, fleetv1alpha1.ConditionCredentialValid)
	after = report.GetCondition(next.Conditions, fleetv1alpha1.ConditionCredentialValid)
	refused := strings.HasPrefix(after.Reason, "Kubeconfig") || after.Reason == reasonWrongIdentity || after.Reason == reasonIdentityTaken ||
		o.push.cause != "" && after.Reason == string(o.push.cause)
	if after.Status == metav1.ConditionFalse && refused && (before == nil || before.Reason != after.Reason) {
		events = append(events, credentialRefused(after.Message))
	}
	return events
}
