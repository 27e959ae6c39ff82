// Package admit registers the webhooks of a kind with a manager: defaulting, validation, conversion.
//
// The paths are those of OpenKruise: /mutate-<group>-<kind> and /validate-<group>-<kind> with the dots
// of the group as dashes (Kubernetes' core group has none: /validate-pod), and /convert for all kinds. A path carries no
// version, because a kind's webhooks see one version only: the chart registers the stored version with matchPolicy
// Equivalent, and the apiserver converts.
//
// A panic in a kind's webhook fails that one request. Decisions are logged at V(1), with the reason when a request was
// rejected; objects are never logged.
//
// Webhook configurations are part of the charts; package cert maintains the CA bundle in them.
package admit
