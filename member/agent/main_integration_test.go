//go:build integration

package agent

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/flotilla-io/flotilla/pkg/testkit/site"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(site.Tests{M: m}, goleak.IgnoreAnyFunction("k8s.io/klog/v2.(*flushDaemon).run.func1"))
}
