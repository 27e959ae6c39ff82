// Package admit registers the webhooks of a kind with a manager: defaulting, validation, conversion.
//
// The paths match OpenKruise: /mutate-<group>-<kind> and /validate-<group>-<kind> with dashes for the dots of the group (the core group of
// Kubernetes is left out: /validate-pod), and /convert for all kinds. A path contains no version, because a kind's webhooks see only one
// version: the chart registers the stored version with matchPolicy Equivalent, and the API server converts.
//
// A panic in a kind's webhook only fails that request. Decisions are logged at V(1), with the reason if a request was rejected; objects are
// never logged.
//
// Webhook configurations are part of the charts; package cert maintains the CA bundle in them.
package admit
