// Package charts holds the Helm charts of hub and member; it has no code but their tests.
//
// What the code decides is generated into files/ of each chart: the CRDs from the types, the roles from the markers
// beside the code that needs them. Templates add names, namespaces and labels to it, and nothing else.
package charts
