// Tally prints how long the tests of a run of make test took: seconds and counts of each kind and package, the slowest first,
// and what was skipped and why.
//
//	go run ./e2e/tally bin/test
//
// The folder has the output of go test -json, in files that are named after their stage: unit.json, unit-race.json. A file
// such as lab-test.skipped has the reason why a stage did nothing.
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: tally FOLDER")
		os.Exit(2)
	}
	if err := run(os.Args[1], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
