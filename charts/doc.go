// Package charts contains the Helm charts for hub and member. It has no code except their tests and what the kubectl plugin has to know
// about their values.
//
// The files in files/ of each chart are generated from the code: the CRDs from the types, the roles from the markers next to the code that
// needs them. Templates only add names, namespaces and labels to them.
package charts
