package testkit

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Writes records the writes of a fake client, and fails some of them. The zero value is ready to use. It is not safe for concurrent use.
type Writes struct {
	// Verbs lists the verbs of the writes so far, including failed ones.
	Verbs []string
	// Fail returns the error to answer a write with. If it returns nil, the write is executed. A nil Fail executes all writes.
	Fail func(verb string, o client.Object) error
}

// Funcs returns interceptor functions for a fake client.
func (w *Writes) Funcs() interceptor.Funcs {
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			return w.write("create", o, func() error { return c.Create(ctx, o, opts...) })
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.UpdateOption) error {
			return w.write("update", o, func() error { return c.Update(ctx, o, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, opts ...client.PatchOption) error {
			return w.write("patch", o, func() error { return c.Patch(ctx, o, p, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.DeleteOption) error {
			return w.write("delete", o, func() error { return c.Delete(ctx, o, opts...) })
		},
		SubResourcePatch: func(
			ctx context.Context, c client.Client, sub string, o client.Object, p client.Patch, opts ...client.SubResourcePatchOption,
		) error {
			return w.write("patch "+sub, o, func() error { return c.SubResource(sub).Patch(ctx, o, p, opts...) })
		},
	}
}

func (w *Writes) write(verb string, o client.Object, do func() error) error {
	w.Verbs = append(w.Verbs, verb)
	if w.Fail != nil {
		if err := w.Fail(verb, o); err != nil {
			return err
		}
	}
	return do()
}
