//go:build integration

package agent

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flotilla-io/flotilla/testkit/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Tests{M: m}, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"),
		// The shared cluster outlives this process, which may have started it.
		goleak.IgnoreAnyFunction("github.com/flotilla-io/flotilla/testkit/lab.startAndReap.func1"),
		// What waits for a cache of some namespaces that ended before it was synced, because its apiserver failed.
		goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformer.func1"),
		goleak.IgnoreAnyFunction("sigs.k8s.io/controller-runtime/pkg/cache.newMultiNamespaceInformerHandlerRegistration.func1"))
}
