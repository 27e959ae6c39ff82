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
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// budgets are the seconds that a stage may take for each kind, warm. A kind that takes more is marked and does not fail, because
// the time of a test depends on the machine, too.
func budgets() map[string]float64 {
	return map[string]float64{"unit": 15, "simulate": 10, "integration": 25, "e2e": 15}
}

// brief is the minimal number of seconds for a package to have a line of its own.
const brief = 2

// kindsIn is the folder that has a folder for each kind.
const kindsIn = "member/workload"

// event is a line of go test -json, with the fields that are used here.
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64
}

// row is a kind, or a package that belongs to no kind, in a stage.
type row struct {
	stage, name    string
	kind           bool
	seconds        float64
	tests, skipped int
}

func (r row) over() float64 {
	if budget := budgets()[r.stage]; r.kind && budget > 0 {
		return r.seconds - budget
	}
	return 0
}

// tally adds up the events of a run.
type tally struct {
	kinds []string
	rows  map[[2]string]*row
	// skips counts skipped tests by stage and reason; others are lines about what was skipped besides.
	skips  map[[2]string]int
	others []string
}

func run(dir string, out io.Writer) error {
	kinds, err := folders(kindsIn)
	if err != nil {
		return err
	}
	t := newTally(kinds)
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	for _, e := range entries {
		if err := t.file(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return t.print(out)
}

func folders(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("read the kinds: %w", err)
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		if e.IsDir() {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func newTally(kinds []string) *tally {
	return &tally{kinds: kinds, rows: map[[2]string]*row{}, skips: map[[2]string]int{}}
}

func (t *tally) file(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return fmt.Errorf("read results: %w", err)
	}
	defer func() { _ = f.Close() }()
	stage := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	switch filepath.Ext(name) {
	case ".json":
		err = t.add(strings.TrimSuffix(stage, "-race"), f)
	case ".skipped":
		var text []byte
		text, err = io.ReadAll(f)
		t.others = append(t.others, stage+": "+strings.TrimSpace(string(text)))
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	return nil
}

// add counts the tests of one file. The time of a package is divided over its tests in proportion to their own times: parallel
// tests wait for each other, so their own times add up to more.
func (t *tally) add(stage string, in io.Reader) error {
	type test struct {
		took    float64
		skipped bool
	}
	tests := map[string]map[string]test{} // By package and name; no subtests.
	reasons := map[[2]string]string{}
	packages := map[string]float64{}
	decoder := json.NewDecoder(bufio.NewReader(in))
	for {
		var e event
		err := decoder.Decode(&e)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		top, _, sub := strings.Cut(e.Test, "/")
		switch e.Action {
		case "output":
			if m := sum.FindStringSubmatch(e.Output); m != nil {
				t.others = append(t.others, fmt.Sprintf("%s: %s of %s", stage, m[1], path.Base(e.Package)))
			}
			if reason, ok := cutReason(e.Output); ok {
				reasons[[2]string{e.Package, e.Test}] = reason
			}
		case "pass", "fail", "skip":
			switch {
			case e.Test == "":
				packages[e.Package] = e.Elapsed
				continue
			case e.Action == "skip":
				t.skips[[2]string{stage, reasons[[2]string{e.Package, e.Test}]}]++
			}
			if !sub {
				if tests[e.Package] == nil {
					tests[e.Package] = map[string]test{}
				}
				tests[e.Package][top] = test{took: e.Elapsed, skipped: e.Action == "skip"}
			}
		}
	}
	for pkg, byName := range tests {
		const atLeast = 0.001 // So that the time of a package whose tests all took 0.00 s is divided too.
		var all float64
		for _, one := range byName {
			all += one.took + atLeast
		}
		for name, one := range byName {
			r := t.row(stage, pkg, name)
			r.tests++
			if one.skipped {
				r.skipped++
			}
			r.seconds += packages[pkg] * (one.took + atLeast) / all
		}
	}
	return nil
}

// row returns the row of a test: that of the kind whose folder it is in or which its name has, or that of its
// package.
func (t *tally) row(stage, pkg, test string) *row {
	at := [2]string{stage, strings.TrimPrefix(pkg, "github.com/flotilla-io/flotilla/")}
	elements := strings.Split(pkg, "/")
	i := slices.IndexFunc(t.kinds, func(kind string) bool { return slices.Contains(elements, kind) })
	if i < 0 && slices.Contains(elements, "e2e") {
		i = slices.IndexFunc(t.kinds, func(kind string) bool { return strings.Contains(strings.ToLower(test), kind) })
	}
	if i >= 0 {
		at[1] = t.kinds[i]
	}
	if t.rows[at] == nil {
		t.rows[at] = &row{stage: at[0], name: at[1], kind: i >= 0}
	}
	return t.rows[at]
}

// sum is what the simulator logs of a kind.
var sum = regexp.MustCompile(`: (\d+ of \d+ schedules) of \d+ scenarios in sum`)

// cutReason returns the text of a line such as "    build_test.go:12: no real nodes".
func cutReason(line string) (string, bool) {
	at, text, ok := strings.Cut(strings.TrimSpace(line), ": ")
	return text, ok && strings.Contains(at, ".go:")
}

func (t *tally) print(out io.Writer) error {
	rows := slices.SortedFunc(maps.Values(t.rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name))
	})
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', tabwriter.AlignRight)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") } // Flush returns its error.
	line("stage", "seconds", "budget", "tests", "skipped", "kind or package")
	rest := row{}
	for i, r := range rows {
		if !r.kind && r.seconds < brief {
			rest = row{stage: r.stage, seconds: rest.seconds + r.seconds, tests: rest.tests + r.tests, skipped: rest.skipped + r.skipped}
		} else {
			budget := ""
			if seconds := budgets()[r.stage]; r.kind && seconds > 0 {
				budget = strconv.FormatFloat(seconds, 'f', 0, 64)
			}
			if r.over() > 0 {
				budget = "over " + budget
			}
			line(r.stage, strconv.FormatFloat(r.seconds, 'f', 1, 64), budget, strconv.Itoa(r.tests), strconv.Itoa(r.skipped), r.name)
		}
		if last := i == len(rows)-1 || rows[i+1].stage != r.stage; last && rest.tests > 0 {
			line(rest.stage, strconv.FormatFloat(rest.seconds, 'f', 1, 64), "", strconv.Itoa(rest.tests), strconv.Itoa(rest.skipped), "others")
			rest = row{}
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	return t.printSkipped(out)
}

func (t *tally) printSkipped(out io.Writer) error {
	lines := slices.Clone(t.others)
	for at, n := range t.skips {
		lines = append(lines, fmt.Sprintf("%s: %d skipped: %s", at[0], n, cmp.Or(at[1], "no reason given")))
	}
	if len(lines) == 0 {
		return nil
	}
	slices.Sort(lines)
	_, err := fmt.Fprintf(out, "\nnot run, or in part:\n  %s\n", strings.Join(lines, "\n  "))
	return err
}
