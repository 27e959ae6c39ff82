package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// The actions in go test -json that are used here.
const (
	start = "start"
	begin = "run"
	says  = "output"
	pass  = "pass"
	fail  = "fail"
	skip  = "skip"
)

const (
	// raceSuffix is part of a stage's file name if its tests ran with the race detector.
	raceSuffix = "-race"
	// flakyFolder, in the folder of the results, holds the logs of flaky tests. flakyFile has a line for each.
	flakyFolder, flakyFile = "flaky", "flaky.txt"
)

// event is a line in go test -json, with the fields that are used here.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// results are the results in one file. A failed test may have been run again.
type results struct {
	packages map[string]*packageResult
}

// packageResult is the result of a package in all its runs.
type packageResult struct {
	seconds float64
	// runs holds, for each run, the output that belongs to no test.
	runs []*strings.Builder
	// tests maps names of tests to their runs. Subtests count as part of their test.
	tests map[string][]*testRun
	// skips maps names of skipped tests and subtests to the reasons.
	skips map[string]string
	// sums holds what the simulator logs.
	sums []string
	// broken says why it isn't enough that the failed tests pass when they are run again.
	broken []string

	reasons map[string]string
}

type testRun struct {
	// run is the index of the run of the package.
	run    int
	result string
	took   float64
	output strings.Builder
}

func readResults(file string) (*results, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("read results: %w", err)
	}
	defer func() { _ = f.Close() }()
	r, err := parseResults(f)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", file, err)
	}
	return r, nil
}

func parseResults(in io.Reader) (*results, error) {
	r := &results{packages: map[string]*packageResult{}}
	decoder := json.NewDecoder(bufio.NewReader(in))
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			return r, nil
		}
		if err != nil {
			return nil, err
		}
		if e.Package == "" { // Compiler output about an imported package.
			continue
		}
		p := r.packages[e.Package]
		if p == nil {
			p = &packageResult{tests: map[string][]*testRun{}, skips: map[string]string{}, reasons: map[string]string{}}
			r.packages[e.Package] = p
		}
		p.add(e)
	}
}

func (p *packageResult) add(e event) {
	if e.Action == start || len(p.runs) == 0 {
		p.runs = append(p.runs, &strings.Builder{})
	}
	if e.Test == "" {
		p.addPackageEvent(e)
		return
	}
	top, _, sub := strings.Cut(e.Test, "/")
	switch e.Action {
	case begin:
		if !sub {
			p.tests[top] = append(p.tests[top], &testRun{run: len(p.runs) - 1})
		}
	case says:
		p.current(top).output.WriteString(e.Output)
		if m := sum.FindStringSubmatch(e.Output); m != nil {
			p.sums = append(p.sums, m[1])
		}
		if reason, ok := skipReason(e.Output); ok {
			p.reasons[e.Test] = reason
		}
	case pass, fail, skip:
		delete(p.skips, e.Test)
		if e.Action == skip {
			p.skips[e.Test] = p.reasons[e.Test]
		}
		if !sub {
			t := p.current(top)
			t.result, t.took = e.Action, e.Elapsed
		}
	}
}

// addPackageEvent adds an event about the package itself.
func (p *packageResult) addPackageEvent(e event) {
	switch e.Action {
	case says:
		_, _ = p.runs[len(p.runs)-1].WriteString(e.Output)
	case pass, fail, skip:
		p.seconds += e.Elapsed
		failed := false
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			t := p.current(name)
			if t.run != len(p.runs)-1 {
				continue
			}
			failed = failed || t.result == fail
			if t.result == "" {
				p.broken = append(p.broken, name+" did not end, so tests after it may not have run")
			}
		}
		if e.Action == fail && !failed {
			p.broken = append(p.broken, "it failed, and none of its tests did. Its TestMain printed:\n"+strings.TrimSpace(p.runs[len(p.runs)-1].String()))
		}
	}
}

// current returns the test's run that is in progress or was the last one.
func (p *packageResult) current(test string) *testRun {
	runs := p.tests[test]
	if len(runs) == 0 {
		runs = []*testRun{{run: len(p.runs) - 1}}
		p.tests[test] = runs
	}
	return runs[len(runs)-1]
}

func totalSeconds(runs []*testRun) float64 {
	var all float64
	for _, r := range runs {
		all += r.took
	}
	return all
}

func failed(r *testRun) bool { return r.result == fail }

// flaky reports whether a test failed and passed when it was run again.
func flaky(runs []*testRun) bool {
	return slices.ContainsFunc(runs, failed) && runs[len(runs)-1].result == pass
}

// sum matches what the simulator logs for a kind.
var sum = regexp.MustCompile(`: (\d+ of \d+ schedules) of \d+ scenarios in sum`)

// skipReason returns the text of a line such as "    build_test.go:12: no real nodes".
func skipReason(line string) (string, bool) {
	at, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
	return text, ok && strings.Contains(at, ".go:")
}

// flake is a test that failed and passed when it was run again.
type flake struct {
	stage, pkg, test string
	// failed and passed are files with the test's logs.
	failed []string
	passed string
}

func (f flake) String() string {
	return fmt.Sprintf("FLAKY %s %s.%s failed: %s passed: %s", f.stage, f.pkg, f.test, strings.Join(f.failed, " "), f.passed)
}

// flakes returns the flaky tests in a file. It writes their logs to files beside it.
func (r *results) flakes(file string) ([]flake, error) {
	stage := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	var out []flake
	for _, pkg := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[pkg]
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			if !flaky(p.tests[name]) {
				continue
			}
			short := strings.TrimPrefix(pkg, module)
			f := flake{stage: strings.TrimSuffix(stage, raceSuffix), pkg: short, test: name}
			for i, run := range p.tests[name] {
				log := filepath.Join(filepath.Dir(file), flakyFolder, stage, strings.ReplaceAll(short, "/", "_")+"."+name+fmt.Sprintf(".%d.log", i+1))
				// Output outside of tests mostly says where the logs of the clusters are.
				if err := writeLog(log, run.output.String()+p.runs[run.run].String()); err != nil {
					return nil, err
				}
				if failed(run) {
					f.failed = append(f.failed, log)
				} else {
					f.passed = log
				}
			}
			out = append(out, f)
		}
	}
	return out, nil
}

func writeLog(file, text string) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o750); err != nil {
		return fmt.Errorf("write the log of a flaky test: %w", err)
	}
	return os.WriteFile(file, []byte(text), 0o600)
}

// check checks the results of a stage that passed, perhaps because failed tests were run again. It prints which tests are flaky, and fails if
// anything failed other than tests that passed later.
func check(file string, out io.Writer) error {
	r, err := readResults(file)
	if err != nil {
		return err
	}
	flakes, err := r.flakes(file)
	if err != nil {
		return err
	}
	for _, f := range flakes {
		if _, err := fmt.Fprintln(out, f); err != nil {
			return err
		}
	}
	var errs []error
	for _, pkg := range slices.Sorted(maps.Keys(r.packages)) {
		p := r.packages[pkg]
		for _, why := range p.broken {
			errs = append(errs, fmt.Errorf("%s: %s", strings.TrimPrefix(pkg, module), why))
		}
		for _, name := range slices.Sorted(maps.Keys(p.tests)) {
			if runs := p.tests[name]; slices.ContainsFunc(runs, failed) && !flaky(runs) {
				errs = append(errs, fmt.Errorf("%s.%s failed, and its last result is %s", strings.TrimPrefix(pkg, module), name,
					cmp.Or(runs[len(runs)-1].result, "none")))
			}
		}
	}
	return errors.Join(errs...)
}
