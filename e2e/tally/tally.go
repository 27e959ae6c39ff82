package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// budgets returns the seconds that a stage may take for each kind, with a warm cache. A kind that takes longer is marked and doesn't fail,
// because the time of a test also depends on the machine.
func budgets() map[string]float64 {
	return map[string]float64{"unit": 15, "simulate": 10, "integration": 25, "e2e": 15}
}

// brief is the minimum number of seconds for a package to get its own line.
const brief = 2

// module is the prefix of the names of our packages.
const module = "github.com/flotilla-io/flotilla/"

// kindsIn is the folder that contains a folder for each kind.
const kindsIn = "member/workload"

// row is a kind, or a package that belongs to no kind, in a stage.
type row struct {
	stage, name    string
	kind           bool
	seconds        float64
	tests, skipped int
	flaky          int
}

func (r row) overBudget() float64 {
	if budget := budgets()[r.stage]; r.kind && budget > 0 {
		return r.seconds - budget
	}
	return 0
}

// cells returns the columns of the row's line.
func (r row) cells() []string {
	budget, flaky := "", ""
	if seconds := budgets()[r.stage]; r.kind && seconds > 0 {
		budget = strconv.FormatFloat(seconds, 'f', 0, 64)
	}
	if r.overBudget() > 0 {
		budget = "over " + budget
	}
	if r.flaky > 0 {
		flaky = strconv.Itoa(r.flaky)
	}
	return []string{r.stage, strconv.FormatFloat(r.seconds, 'f', 1, 64), budget, strconv.Itoa(r.tests), strconv.Itoa(r.skipped), flaky, r.name}
}

// tally adds up the events of a run.
type tally struct {
	kinds []string
	rows  map[[2]string]*row
	// skips counts skipped tests by stage and reason. others holds lines about other skipped work.
	skips  map[[2]string]int
	others []string
	flakes []flake
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
	if err := t.print(out); err != nil {
		return err
	}
	return t.printFlakes(dir, out)
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
	stage := strings.TrimSuffix(filepath.Base(name), filepath.Ext(name))
	switch filepath.Ext(name) {
	case ".json":
		r, err := readResults(name)
		if err != nil {
			return err
		}
		t.add(strings.TrimSuffix(stage, raceSuffix), r)
		flakes, err := r.flakes(name)
		t.flakes = append(t.flakes, flakes...)
		return err
	case ".skipped":
		text, err := os.ReadFile(name)
		if err != nil {
			return fmt.Errorf("read results: %w", err)
		}
		t.others = append(t.others, stage+": "+strings.TrimSpace(string(text)))
	}
	return nil
}

// add counts the tests in one file, each once, however often it ran. A package's time is divided among its tests in proportion to their own
// times: parallel tests wait for each other, so their own times add up to more.
func (t *tally) add(stage string, r *results) {
	for pkg, p := range r.packages {
		for _, text := range p.sums {
			t.others = append(t.others, fmt.Sprintf("%s: %s of %s", stage, text, path.Base(pkg)))
		}
		for _, reason := range p.skips {
			t.skips[[2]string{stage, reason}]++
		}
		const atLeast = 0.001 // This way, the time of a package whose tests all took 0.00 s is divided too.
		var all float64
		for _, runs := range p.tests {
			all += totalSeconds(runs) + atLeast
		}
		for name, runs := range p.tests {
			row := t.row(stage, pkg, name)
			row.tests++
			if runs[len(runs)-1].result == skip {
				row.skipped++
			}
			if flaky(runs) {
				row.flaky++
			}
			row.seconds += p.seconds * (totalSeconds(runs) + atLeast) / all
		}
	}
}

// row returns the row for a test: the row of the kind whose folder contains it or whose name it has, or else the row of its package.
func (t *tally) row(stage, pkg, test string) *row {
	at := [2]string{stage, strings.TrimPrefix(pkg, module)}
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

func (t *tally) print(out io.Writer) error {
	rows := slices.SortedFunc(maps.Values(t.rows), func(a, b *row) int {
		return cmp.Or(cmp.Compare(a.stage, b.stage), cmp.Compare(b.seconds, a.seconds), cmp.Compare(a.name, b.name))
	})
	w := tabwriter.NewWriter(out, 0, 8, 3, ' ', tabwriter.AlignRight)
	line := func(cells ...string) { _, _ = fmt.Fprintln(w, strings.Join(cells, "\t")+"\t") } // Flush returns its error.
	line("stage", "seconds", "budget", "tests", "skipped", "flaky", "kind or package")
	rest := row{}
	for i, r := range rows {
		if !r.kind && r.seconds < brief {
			rest = row{
				stage: r.stage, name: "others", seconds: rest.seconds + r.seconds, tests: rest.tests + r.tests,
				skipped: rest.skipped + r.skipped, flaky: rest.flaky + r.flaky,
			}
		} else {
			line(r.cells()...)
		}
		if last := i == len(rows)-1 || rows[i+1].stage != r.stage; last && rest.tests > 0 {
			line(rest.cells()...)
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

// printFlakes prints the flaky tests, and writes the same lines to a file for programs that print more output after that.
func (t *tally) printFlakes(dir string, out io.Writer) error {
	if len(t.flakes) == 0 {
		return nil
	}
	lines := make([]string, 0, len(t.flakes))
	for _, f := range t.flakes {
		lines = append(lines, f.String()+"\n")
	}
	text := strings.Join(lines, "")
	if _, err := fmt.Fprintf(out, "\n%d flaky, each a bug to find before the next change to its package:\n%s", len(lines), text); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, flakyFile), []byte(text), 0o600)
}
