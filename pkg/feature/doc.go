// Package feature holds the feature gates: switches for behaviour that is new or that not everybody wants.
//
// A gate is here only while something reads it. Its name and default are those that users of these APIs know. An unknown
// name is refused with the list of known ones, because a gate that is accepted and does nothing misleads. AllAlpha and
// AllBeta switch a whole stage, as in Kubernetes.
//
// Gates are read once, in Setup, and travel on as bools in options, so that plans stay pure and tests need no globals.
package feature
