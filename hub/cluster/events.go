package cluster

import (
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Reasons of events on a MemberCluster.
const (
	// eventJoined means that the member is ready for the first time, or again after it was not accepted.
	eventJoined = "Joined"
	// eventUnreachable means that no renewal of its Lease was seen for failAfterSeconds.
	eventUnreachable = "Unreachable"
	// eventRecovered means that the member has been renewing its Lease again for recoverAfterSeconds.
	eventRecovered = "Recovered"
	// eventLeaving means that the MemberCluster is being deleted and its rows are withdrawn.
	eventLeaving = "Leaving"
	// eventLeft means that the member is released.
	eventLeft = "Left"
	// eventClusterDeleting means that Cluster API is deleting the member's cluster.
	eventClusterDeleting = "ClusterDeleting"
	// eventTombstone means that the member did not answer in time. It finds a tombstone when it is back.
	eventTombstone = "TombstoneLeft"
	// eventTombstoneWaits is recorded on a tombstone. It says why a push member can't follow the tombstone yet.
	eventTombstoneWaits = "TombstoneWaits"
	// eventTombstoneObeyed is recorded on a tombstone. It means that a push member has followed the tombstone, which is being deleted.
	eventTombstoneObeyed = "TombstoneObeyed"
	// eventHubIncomplete means that the hub has lost its epoch and changes nothing.
	eventHubIncomplete = "HubIncomplete"
	// eventCredential means that the kubeconfig can't be used.
	eventCredential = "CredentialRefused" //nolint:gosec // A reason, no credential.
	// eventTwoCredentials means that the member reports a certificate that it had already replaced.
	eventTwoCredentials = "TwoCredentials"
	// eventRequestApproved means that a certificate request of the member was approved.
	eventRequestApproved = "RequestApproved"
	// eventRequestDenied means that a certificate request in the member's name was denied.
	eventRequestDenied = "RequestDenied"
)

func joinedEvent() event.Event {
	return event.Normal(eventJoined, "Join", "The member is ready")
}

func unreachableEvent(why string) event.Event {
	return event.Warning(eventUnreachable, "Watch", "%s", why)
}

func recoveredEvent() event.Event {
	return event.Normal(eventRecovered, "Watch", "The member renews its Lease again")
}

func leavingEvent(rows int, policy string) event.Event {
	return event.Normal(eventLeaving, "Leave", "Withdrawing all rows (%d) with policy %s", rows, policy)
}

func leftEvent() event.Event {
	return event.Normal(eventLeft, "Leave", "Nothing of this hub is left in the member")
}

func clusterDeleting(what string) event.Event {
	return event.Normal(eventClusterDeleting, "Watch", "%s", what)
}

func releasedEvent(why string) event.Event {
	return event.Normal(eventLeft, "Leave", "The hub no longer waits for the member: %s", why)
}

func tombstoneLeft(name string) event.Event {
	return event.Warning(eventTombstone, "Leave", "The member did not answer in time; it follows ConfigMap %s once it is back", name)
}

func tombstoneWaits(why string) event.Event {
	return event.Warning(eventTombstoneWaits, "Leave", "The hub connects to the member until it has followed this ConfigMap or the ConfigMap is deleted: %s", why)
}

func tombstoneObeyed(cluster, policy string) event.Event {
	return event.Normal(eventTombstoneObeyed, "Leave", "Member cluster %s has withdrawn the objects of this hub with policy %s", cluster, policy)
}

func hubIncomplete(why string) event.Event {
	return event.Warning(eventHubIncomplete, "Watch", "%s", why)
}

func credentialRefused(why string) event.Event {
	return event.Warning(eventCredential, "Connect", "%s", why)
}

func twoCredentials(serial string) event.Event {
	return event.Warning(eventTwoCredentials, "Watch", "The member uses the certificate with serial %s again, after another one: two agents have "+
		"credentials of this cluster. If one of them is not yours, set accepted to false, and let the cluster leave and join again", serial)
}

func requestApproved(o outcome) event.Event {
	return event.Normal(eventRequestApproved, "Approve", "Approved the %s", o.message)
}

func requestDenied(user string, o outcome) event.Event {
	return event.Warning(eventRequestDenied, "Deny", "Denied a certificate request by %q: %s: %s", user, o.reason, o.message)
}
