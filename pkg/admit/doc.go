// Package admit registers the webhooks of a kind with a manager: defaulting, validation, conversion.
//
// The paths are those that users of these APIs know: /mutate-<group>-<kind> and /validate-<group>-<kind> with the dots
// of the group as dashes (Kubernetes' core group has none: /validate-pod), and /convert for all kinds. A path carries no
// version, because a kind's webhooks see one version only: the chart registers the stored version with matchPolicy
// Equivalent, and the apiserver converts.
//
// What is true of all kinds is said here: a label that users know as a protection, and that is not served, is warned of.
//
// A panic in a kind's code becomes an error of that one request. Decisions are logged at V(1), with the reason when a
// request was refused; objects are never logged.
//
// It writes no webhook configuration; charts do, and package cert keeps the CA bundle in them.
package admit
