package testenv

import (
	"testing"

	"github.com/stretchr/testify/require"
	ctrl "sigs.k8s.io/controller-runtime"
)

func TestConcurrentTestsDiscardTheLogOnce(t *testing.T) {
	t.Parallel()
	const many = 8
	done := make(chan bool, many)
	for range many {
		go func() {
			discardLogs()
			done <- ctrl.Log.Enabled()
		}()
	}
	for range many {
		require.False(t, <-done)
	}
}
