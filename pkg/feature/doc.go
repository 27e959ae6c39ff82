// Package feature holds the feature gates: switches for behaviour that is new or that not everybody wants.
//
// A gate is here only while something reads it. Its name and default are those that users of these APIs know. An unknown
// name is refused with the list of known ones, because a gate that is accepted and does nothing misleads. AllAlpha and
// AllBeta switch a whole stage, as in Kubernetes.
//
// Who comes from OpenKruise brings the flag of his old installation. Of a gate that exists there and not here
//
//   - both values are taken, with a note for the log, where there is nothing left to choose;
//   - false is taken likewise where the feature is not served, because that is what he asks for;
//   - true is refused then, with the name of what is missing: better at start than as objects that nothing acts on.
//
// Gates are read once, in Setup, and travel on as bools in options, so that plans stay pure and tests need no globals.
package feature
