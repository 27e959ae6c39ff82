// Tally prints how long the tests in a run of make test took: seconds and counts for each kind and package, slowest first, what was skipped
// and why, and finally which tests are flaky: they failed, and passed when they were run again.
//
//	go run ./e2e/tally bin/test
//	go run ./e2e/tally check bin/test/e2e.json
//
// The folder contains the output of go test -json, in files that are named after their stage: unit.json, unit-race.json. A file such as
// lab-test.skipped contains the reason why a stage did nothing. "check" checks one stage that passed after failed tests were run again. It
// fails if a package failed in a way that this doesn't repair.
package main

import (
	"fmt"
	"os"
)

func main() {
	var err error
	switch args := os.Args[1:]; {
	case len(args) == 1:
		err = run(args[0], os.Stdout)
	case len(args) == 2 && args[0] == "check":
		err = check(args[1], os.Stdout)
	default:
		fmt.Fprintln(os.Stderr, "usage: tally FOLDER, or tally check FILE")
		os.Exit(2)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
