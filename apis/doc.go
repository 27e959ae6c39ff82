// Package apis is the root of Flotilla's APIs. It has no code: the kinds are in apps and fleet by version, structs that
// they share are in pods, names of labels, annotations and finalizers are in keys.
//
// The packages below import apimachinery and k8s.io/api and nothing else of Kubernetes, so that a client can import them
// cheaply. Validation is in the types' markers and goes from there into the CRDs of both charts; the tests here
// compare the CRDs with the schemas that users' manifests were written for (testdata/schemas), and check the types against
// the conventions for fields.
package apis

//go:generate go tool -modfile=../e2e/tools/go.mod controller-gen object paths=./...
//go:generate go run ../cmd/docgen crds --root ..
