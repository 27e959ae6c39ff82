package allot_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// million is how many inputs make test-all draws for tests that depend on many draws.
const million = 1_000_000

// TestMain makes rapid try more than its default of a hundred cases, unless the command line sets the number.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("3000"); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// shards returns how often a property has to be checked to draw a million inputs in make test-all. Otherwise it returns 1. rapid takes the
// number of draws only from the command line, for all tests. lab.Full is not used here, because it would make this package depend on the
// Kubernetes clients.
func shards(t *testing.T) int {
	t.Helper()
	if os.Getenv("FLOTILLA_TEST") != "all" {
		return 1
	}
	each, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	require.NoError(t, err)
	return (million + each - 1) / each
}
