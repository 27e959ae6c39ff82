// Package feature holds the feature gates: switches for behaviour that is new or optional.
//
// A gate is listed here only while code reads it. Names and defaults are those of OpenKruise. An unknown name is refused
// with the list of known ones, because it is likely a typing error. AllAlpha and AllBeta switch a whole stage, as in
// Kubernetes. Each kind declares the gates that it reads in its Registration; a program has those of its kinds.
//
// Users of OpenKruise keep the flag of their old installation, of which the chart switches on ImagePullJobGate. A gate that
// OpenKruise has and this version does not is accepted with either value, and a log message says that it has no effect, and
// why: there is no choice, or its feature is not served yet.
//
// Gates are read once, when a kind is set up, and are passed on as bools in its options, so that plans stay pure and tests need
// no globals.
package feature
