package testkit

import (
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Change reads o by name, changes it and writes it. It retries after a conflict with the controllers under test. Afterwards o is the object
// as written.
func Change[T client.Object](tb testing.TB, c client.Client, o T, change func(T)) {
	tb.Helper()
	write(tb, c, o, change, func() error { return c.Update(tb.Context(), o) })
}

// ChangeStatus is Change for the status.
func ChangeStatus[T client.Object](tb testing.TB, c client.Client, o T, change func(T)) {
	tb.Helper()
	write(tb, c, o, change, func() error { return c.Status().Update(tb.Context(), o) })
}

func write[T client.Object](tb testing.TB, c client.Client, o T, change func(T), update func() error) {
	tb.Helper()
	require.NoError(tb, retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if err := c.Get(tb.Context(), client.ObjectKeyFromObject(o), o); err != nil {
			return err
		}
		change(o)
		return update()
	}))
}
