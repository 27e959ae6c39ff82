package lab

import (
	"os"
	"testing"
)

// tierEnv is the environment variable by which make test limits tests to what the gate runs.
const tierEnv = "FLOTILLA_TEST"

// Full is called first by a test that make test-all runs and the gate does not; docs/internals/tests.md says why it lies
// there. Run by hand, without make, the test runs.
func Full(tb testing.TB) {
	tb.Helper()
	if os.Getenv(tierEnv) == "gate" {
		tb.Skip("make test-all runs it")
	}
}
