// Package apis is the root of Flotilla's APIs. It contains no code: the kinds are in apps, policy and fleet, by version; the structs they
// share are in pods; the names of labels, annotations and finalizers are in keys.
//
// The packages below import only apimachinery and k8s.io/api from Kubernetes, so that clients can import them cheaply. Validation lives in
// the markers on the types, from which the CRDs of both charts are generated. The tests in this package compare the CRDs with the schemas
// that users' manifests were written for (testdata/schemas), and check the types against the field conventions.
package apis

//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen object paths=./...
//go:generate go run ../cmd/docgen crds --root ..
