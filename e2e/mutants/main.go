// Mutants breaks the rules in docs/internals/invariants.md one by one, each by changing one line, and names those whose tests don't notice.
//
//	go run ./e2e/mutants [-only REGEXP]
//
// Run it in the root folder of the module. It changes no files: go test gets the broken line through an overlay. REGEXP selects by rule, as
// in I05. The exit code is 1 if the tests of a rule pass although it is broken, or if there is no result: a mutant doesn't compile or doesn't
// end, or the tests fail without it.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
)

func main() {
	only := flag.String("only", "", "regular expression that selects mutants by their rule")
	flag.Parse()
	selected, err := regexp.Compile(*only)
	if err != nil || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "usage: mutants [-only REGEXP]")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	if err := run(ctx, os.Stdout, ".", table(), selected); err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		stop()
		os.Exit(1)
	}
	stop()
}
