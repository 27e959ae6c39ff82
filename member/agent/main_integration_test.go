//go:build integration

package agent

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flotilla-io/flotilla/testkit/testenv"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(testenv.Tests{M: m}, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
