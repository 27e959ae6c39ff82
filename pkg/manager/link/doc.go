// Package link contains what both ends of a connection between a hub and a member share.
//
// A Link is one such connection: a client and a cache for the hub, a client and a cache for the member, and their identities. The member's agent
// works on a Link and doesn't know which end opened it. In mode Pull the member opens the Link with its own client certificate; in mode Push the
// hub opens it with the member's kubeconfig and runs the same agent.
//
// It also contains the names that both ends use and that are not part of a type in apis/fleet: field managers, the annotation on a certificate
// request, and the keys of a tombstone. In addition, it has the limits of an agent's cache of the hub.
//
// CauseOf classifies why a request to the other cluster's API server failed, and Peer.Explain turns that into a sentence with the remedy, which
// names the settings for address, CA and credential. The sentence is always the same for the same cause: it contains no time, no port and
// nothing that the other end sent, so that a condition with it doesn't change on each attempt. Scrub removes credentials from an error's text
// before it is logged.
//
// CheckSkew checks which versions of hub and member work together: the same major version, and minor versions that differ by at most one, in
// either direction, so that each side can be upgraded first and rolled back. A build whose version isn't of the form vMAJOR.MINOR.PATCH, or is
// v0.0, is a development build and works with all versions; so does a hub that reports no version.
//
// The package neither opens connections nor reconciles anything: member/agent dials in mode Pull, hub/cluster in mode Push.
package link
