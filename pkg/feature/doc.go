// Package feature holds the feature gates: switches for behaviour that is new or that not everybody wants.
//
// A gate is listed here only while something reads it. Names and defaults are those of OpenKruise. An unknown name is refused
// with the list of known ones, because a gate that is accepted and does nothing misleads. AllAlpha and AllBeta switch a whole
// stage, as in Kubernetes. Each kind says in its Registration which gates it reads; a program knows those of its kinds.
//
// Users of OpenKruise bring the flag of their former installation. For a gate that OpenKruise has and this version has not:
//
//   - both values are accepted, with a note in the log, if there is no longer anything to choose;
//   - false is accepted in the same way if the feature is not served, because that is what it asks for;
//   - true is then refused with the name of the missing feature, rather than leaving objects that no controller acts on.
//
// Gates are read once, when a kind is set up, and are passed on as bools in its options, so that plans stay pure and tests need
// no globals.
package feature
