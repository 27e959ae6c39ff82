// Package feature holds the feature gates: switches for behaviour that is new or optional.
//
// A gate is listed here only while code reads it. Names and defaults match OpenKruise. An unknown name is rejected along with the list of known
// ones, because it is probably a typo. AllAlpha and AllBeta switch a whole stage, as in Kubernetes. Each kind declares the gates that it reads
// in its Registration; a program has the gates of its kinds.
//
// Users of OpenKruise keep the flag of their old installation, where the OpenKruise chart enables ImagePullJobGate. A gate that OpenKruise has
// but this version doesn't is accepted with either value, and a log message says that it has no effect, and why: there is no choice, or its
// feature is not served yet.
//
// Gates are read once, when a kind is set up, and are passed on as bools in its options, so that plans stay pure and tests need no globals.
package feature
