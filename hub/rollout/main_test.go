package rollout_test

import (
	"flag"
	"testing"
)

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
