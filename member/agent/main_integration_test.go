//go:build integration

package agent

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flotilla-io/flotilla/testkit/testenv"
)

func TestMain(m *testing.M) {
	testenv.MainWithoutLeaks(m,
		// These wait for a cache of some namespaces that ended before it was synced, because its apiserver failed.
		goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer.func1"),
		goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformerHandlerRegistration.func1"))
}
