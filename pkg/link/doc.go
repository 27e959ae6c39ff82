// Package link holds what both ends of a connection between a hub and a member share.
//
// A Link is one such connection: a client and a cache of the hub, a client and a cache of the member, and their identities.
// The member's agent works on a Link and does not know who dialed. In mode Pull the member made the Link with its own
// client certificate; in mode Push the hub made it with the member's kubeconfig and runs the same agent.
//
// Names that both ends use and that are not part of a type in apis/fleet are here too: field managers, the annotation of a
// certificate request, the keys of a tombstone; and what an agent's cache of the hub may hold.
//
// CauseOf classifies why a request to the other cluster's apiserver failed, and Peer.Explain puts it into a sentence with
// the remedy, in the names under which the reader configured address, CA and credential. The sentence is the same for the
// same cause: it contains no time, no port and nothing that the other end sent, so that a condition made of it does not
// change with each try. Scrub removes credentials from an error's text before it is logged.
//
// CheckSkew tells which versions of hub and member work together: the same major version, and minor versions that differ by
// one at most, either way, so that each side can be upgraded first and rolled back. A build without a version of the form
// vMAJOR.MINOR.PATCH, or of v0.0, is a development build and works with all; so does a hub that reports no version.
//
// The package opens no connection and reconciles nothing: member/agent dials in mode Pull, hub/cluster in mode Push.
package link
