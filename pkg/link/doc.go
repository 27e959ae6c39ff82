// Package link holds what both ends of a connection between a hub and a member share.
//
// A Link is one such connection: a client and a cache of the hub, a client and a cache of the member, and their identities.
// The member's agent works on a Link and does not know which end opened it. In mode Pull the member opens the Link with its own
// client certificate; in mode Push the hub opens it with the member's kubeconfig and runs the same agent.
//
// Names that both ends use and that are not part of a type in apis/fleet are here too: field managers, the annotation of a
// certificate request, the keys of a tombstone; and the limits of an agent's cache of the hub.
//
// CauseOf classifies why a request to the other cluster's apiserver failed, and Peer.Explain puts it into a sentence with
// the remedy, which names the settings for address, CA and credential. The sentence is the same for the same cause: it has no
// time, no port and nothing that the other end sent, so that a condition with it does not change with each attempt.
// Scrub removes credentials from an error's text before it is logged.
//
// CheckSkew checks which versions of hub and member work together: the same major version, and minor versions that differ by
// one at most, either way, so that each side can be upgraded first and rolled back. A build without a version of the form
// vMAJOR.MINOR.PATCH, or of v0.0, is a development build and works with all; so does a hub that reports no version.
//
// The package neither opens connections nor reconciles anything: member/agent dials in mode Pull, hub/cluster in mode Push.
package link
