package testkit

import "sigs.k8s.io/controller-runtime/pkg/client"

// Copies returns copies of objects for a fake client. A fake client writes to the objects that it gets, and parallel tests may share those.
func Copies(objects []client.Object) []client.Object {
	out := make([]client.Object, 0, len(objects))
	for _, o := range objects {
		out = append(out, o.DeepCopyObject().(client.Object)) //nolint:forcetypeassert // A copy has the type of its original.
	}
	return out
}
