// Package charts holds the Helm charts of hub and member; it has no code except their tests, and what the
// plugin of kubectl has to know of their values.
//
// Files in files/ of each chart are generated from the code: the CRDs from the types, the roles from the markers
// beside the code that needs them. Templates add names, namespaces and labels to them, and nothing else.
package charts
