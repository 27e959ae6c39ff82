// Package charts holds the Helm charts of hub and member; it has no code except their tests.
//
// Files in files/ of each chart are generated from the code: the CRDs from the types, the roles from the markers
// beside the code that needs them. Templates add names, namespaces and labels to them, and nothing else.
package charts
