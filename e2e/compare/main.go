// Compare reads the output of benchmarks, and fails if a figure that hardly depends on the machine is more than a tenth worse than the
// recorded one: allocations and bytes per operation, and what a benchmark counts itself, such as writes per pod. Times are only printed. With
// -record it stores the figures instead.
//
//	make bench-compare
//	make bench-record
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	record := flag.Bool("record", false, "store the figures instead of comparing them")
	flag.Usage = func() {
		_, _ = fmt.Fprintln(flag.CommandLine.Output(), "usage: go test -bench . -benchmem ... | compare [-record] FILE")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() != 1 {
		flag.Usage()
		os.Exit(2)
	}
	if err := run(flag.Arg(0), *record, os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run compares the output of benchmarks with the figures in a file, or stores it there.
func run(file string, record bool, in io.Reader, out io.Writer) error {
	now, times, err := read(in)
	if err != nil {
		return err
	}
	recorded, err := load(file)
	if err != nil {
		return err
	}
	if record {
		return save(file, steady(recorded, now))
	}
	printAll(out, recorded, now, times)
	return check(recorded, now)
}
