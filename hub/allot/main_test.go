package allot_test

import (
	"flag"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

// million is how many inputs make test-all draws where the number of draws is what a test is worth.
const million = 1_000_000

// TestMain makes rapid try more than its hundred cases, unless the command line says how many.
func TestMain(m *testing.M) {
	flag.Parse()
	if checks := flag.Lookup("rapid.checks"); checks.Value.String() == checks.DefValue {
		if err := checks.Value.Set("3000"); err != nil {
			panic(err)
		}
	}
	m.Run()
}

// shards is how many times a property has to be checked to draw a million inputs in make test-all, and once otherwise. rapid
// takes the number of draws from the command line only, for all tests alike. lab.Full is not used here: it would make this
// package depend on Kubernetes' clients.
func shards(t *testing.T) int {
	t.Helper()
	if os.Getenv("FLOTILLA_TEST") != "all" {
		return 1
	}
	each, err := strconv.Atoi(flag.Lookup("rapid.checks").Value.String())
	require.NoError(t, err)
	return (million + each - 1) / each
}
