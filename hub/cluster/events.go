package cluster

import (
	"github.com/flotilla-io/flotilla/pkg/control/event"
)

// Reasons of events on a MemberCluster.
const (
	// EventJoined means that the member is ready for the first time, or again after it was not accepted.
	EventJoined = "Joined"
	// EventUnreachable means that no renewal of its Lease was seen for failAfterSeconds.
	EventUnreachable = "Unreachable"
	// EventRecovered means that the member has been renewing its Lease again for recoverAfterSeconds.
	EventRecovered = "Recovered"
	// EventLeaving means that the MemberCluster is being deleted and its rows are withdrawn.
	EventLeaving = "Leaving"
	// EventLeft means that the member is released.
	EventLeft = "Left"
	// EventClusterDeleting means that Cluster API is deleting the member's cluster.
	EventClusterDeleting = "ClusterDeleting"
	// EventTombstone means that the member did not answer in time. It finds a tombstone when it is back.
	EventTombstone = "TombstoneLeft"
	// EventTombstoneWaits is recorded on a tombstone. It says why a push member can't follow the tombstone yet.
	EventTombstoneWaits = "TombstoneWaits"
	// EventTombstoneObeyed is recorded on a tombstone. It means that a push member has followed the tombstone, which is being deleted.
	EventTombstoneObeyed = "TombstoneObeyed"
	// EventHubIncomplete means that the hub has lost its epoch and changes nothing.
	EventHubIncomplete = "HubIncomplete"
	// EventCredential means that the kubeconfig can't be used.
	EventCredential = "CredentialRefused" //nolint:gosec // A reason, no credential.
	// EventTwoCredentials means that the member reports a certificate that it had already replaced.
	EventTwoCredentials = "TwoCredentials"
	// EventRequestApproved means that a certificate request of the member was approved.
	EventRequestApproved = "RequestApproved"
	// EventRequestDenied means that a certificate request in the member's name was denied.
	EventRequestDenied = "RequestDenied"
)

func joinedEvent() event.Event {
	return event.Normal(EventJoined, "Join", "The member is ready")
}

func unreachableEvent(why string) event.Event {
	return event.Warning(EventUnreachable, "Watch", "%s", why)
}

func recoveredEvent() event.Event {
	return event.Normal(EventRecovered, "Watch", "The member renews its Lease again")
}

func leavingEvent(rows int, policy string) event.Event {
	return event.Normal(EventLeaving, "Leave", "Withdrawing all rows (%d) with policy %s", rows, policy)
}

func leftEvent() event.Event {
	return event.Normal(EventLeft, "Leave", "Nothing of this hub is left in the member")
}

func clusterDeleting(what string) event.Event {
	return event.Normal(EventClusterDeleting, "Watch", "%s", what)
}

func releasedEvent(why string) event.Event {
	return event.Normal(EventLeft, "Leave", "The hub no longer waits for the member: %s", why)
}

func tombstoneLeft(name string) event.Event {
	return event.Warning(EventTombstone, "Leave", "The member did not answer in time; it follows ConfigMap %s once it is back", name)
}

func tombstoneWaits(why string) event.Event {
	return event.Warning(EventTombstoneWaits, "Leave", "The hub connects to the member until it has followed this ConfigMap or the ConfigMap is deleted: %s", why)
}

func tombstoneObeyed(cluster, policy string) event.Event {
	return event.Normal(EventTombstoneObeyed, "Leave", "Member cluster %s has withdrawn the objects of this hub with policy %s", cluster, policy)
}

func hubIncomplete(why string) event.Event {
	return event.Warning(EventHubIncomplete, "Watch", "%s", why)
}

func credentialRefused(why string) event.Event {
	return event.Warning(EventCredential, "Connect", "%s", why)
}

func twoCredentials(serial string) event.Event {
	return event.Warning(EventTwoCredentials, "Watch", "The member uses the certificate with serial %s again, after another one: two agents have "+
		"credentials of this cluster. If one of them is not yours, set accepted to false, and let the cluster leave and join again", serial)
}

func requestApproved(o outcome) event.Event {
	return event.Normal(EventRequestApproved, "Approve", "Approved the %s", o.message)
}

func requestDenied(user string, o outcome) event.Event {
	return event.Warning(EventRequestDenied, "Deny", "Denied a certificate request by %q: %s: %s", user, o.reason, o.message)
}
