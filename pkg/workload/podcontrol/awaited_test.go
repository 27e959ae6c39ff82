package podcontrol

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/flotilla-io/flotilla/pkg/control"
	"github.com/flotilla-io/flotilla/pkg/pod/podwebhook"
)

// awaitingNamespaces is a podwebhook.Awaiting for which pods in these namespaces are not sent yet.
type awaitingNamespaces map[string]bool

func (u awaitingNamespaces) Awaited(_ context.Context, namespace string) (podwebhook.Wait, error) {
	if namespace == "broken" {
		return podwebhook.Wait{}, errors.New("no cache")
	}
	if u[namespace] {
		return podwebhook.Wait{Why: "not sent", Left: time.Second}, nil
	}
	return podwebhook.Wait{}, nil
}

func (awaitingNamespaces) Changes() <-chan event.GenericEvent { return nil }

func TestWhoWaitsForThePodWebhookIsReconciledWhenItChanges(t *testing.T) {
	t.Parallel()
	unsent := awaitingNamespaces{"shop": true}
	c := &Controller{Controller: &control.Controller{}, Awaiting: unsent}
	shop, bank, broken := types.NamespacedName{Namespace: "shop", Name: "web"}, types.NamespacedName{Namespace: "bank", Name: "web"}, types.NamespacedName{Namespace: "broken"}
	wait, err := c.Awaited(t.Context(), shop)
	require.NoError(t, err)
	require.Equal(t, podwebhook.Wait{Why: "not sent", Left: time.Second}, wait)
	wait, err = c.Awaited(t.Context(), bank)
	require.NoError(t, err)
	require.Empty(t, wait)
	require.Equal(t, map[types.NamespacedName]time.Time{shop: {}}, c.unsent.keys)
	_, err = c.Awaited(t.Context(), broken)
	require.ErrorContains(t, err, "check whether pods of namespace broken are sent to the pod webhook: no cache")

	delete(unsent, "shop")
	_, err = c.Awaited(t.Context(), shop)
	require.NoError(t, err)
	require.NotContains(t, c.unsent.keys, shop)
	wait, err = (&Controller{Controller: &control.Controller{}}).Awaited(t.Context(), shop)
	require.NoError(t, err)
	require.Empty(t, wait, "without the pod webhook")
}
