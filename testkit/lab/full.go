package lab

import (
	"os"
	"testing"
)

// tierEnv is the env variable with which make test limits tests to those that the gate runs.
const tierEnv = "FLOTILLA_TEST"

// Full must be called first by a test that make test-all runs and the gate does not. docs/internals/tests.md explains why. Without make, the
// test runs.
func Full(tb testing.TB) {
	tb.Helper()
	if os.Getenv(tierEnv) == "gate" {
		tb.Skip("make test-all runs it")
	}
}
