// Package feature holds the feature gates: switches for behaviour that is new or optional.
//
// A gate is listed here only while code reads it. Names and defaults are those of OpenKruise. An unknown name is refused
// with the list of known ones, because a gate that is accepted and does nothing misleads. AllAlpha and AllBeta switch a whole
// stage, as in Kubernetes. Each kind declares the gates that it reads in its Registration; a program has those of its kinds.
//
// Users of OpenKruise keep the flag of their old installation. For a gate that OpenKruise has and this version does not:
//
//   - both values are accepted, with a log message, if there is no longer a choice;
//   - false is accepted in the same way if the feature is not supported, because that is what it requests;
//   - true is then rejected with the name of the missing feature, rather than accepting objects that no controller reconciles.
//
// Gates are read once, when a kind is set up, and are passed on as bools in its options, so that plans stay pure and tests need
// no globals.
package feature
