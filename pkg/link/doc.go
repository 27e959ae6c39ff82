// Package link is what the two ends of a connection between a hub and a member have in common.
//
// A Link is one such connection: a client and a cache of the hub, a client and a cache of the member, and who is who.
// The member's agent works on a Link and does not know who dialled. In mode Pull the member made the Link with its own
// client certificate; in mode Push the hub made it with the member's kubeconfig and runs the same agent.
//
// What both ends must spell alike and what is not part of a type in apis/fleet is here too: field managers, the
// annotation of a certificate request, the keys of a tombstone, and what an agent's cache of the hub may hold.
//
// The package opens no connection and reconciles nothing: dialling is the business of member/agent (Pull) and
// hub/cluster (Push).
package link
