package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

const (
	// tolerance is how much worse a figure may be.
	tolerance = 0.10
	// noise is the maximum difference between runs of the same code. A recorded figure that is this close to the new one is kept, so that
	// recording changes only what has really changed.
	noise = 0.02
	// module is the prefix that is removed from the names of packages.
	module = "github.com/flotilla-io/flotilla/"
)

const hint = "if that is meant, run make bench-record, commit the file that it changes, and say in the commit why"

// figures are the figures of benchmarks, by name and unit. In all units, less is better.
type figures map[string]map[string]float64

// read returns the figures in the output of go test -bench, and the times per operation. If a benchmark has several results, it takes the
// lowest. If a benchmark reports its own figures, it takes only those: what the benchmark allocates to count them doesn't matter. The format
// is the one of golang.org/x/perf/benchfmt, which is not used because it requires newer modules than the product has.
func read(in io.Reader) (figures, map[string]time.Duration, error) {
	all, times, folder := figures{}, map[string]time.Duration{}, ""
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		if pkg, found := strings.CutPrefix(lines.Text(), "pkg: "); found {
			folder = strings.TrimPrefix(pkg, module)
			continue
		}
		// A name, the number of iterations, and pairs of value and unit. A benchmark's log may begin the same way.
		fields := strings.Fields(lines.Text())
		if len(fields) < 4 || len(fields)%2 != 0 || !strings.HasPrefix(fields[0], "Benchmark") {
			continue
		}
		name := folder + "." + strings.TrimPrefix(fields[0], "Benchmark")
		if all[name] == nil {
			all[name] = map[string]float64{}
		}
		for i := 2; i < len(fields); i += 2 {
			value, err := strconv.ParseFloat(fields[i], 64)
			if err != nil {
				return nil, nil, fmt.Errorf("read the output of the benchmarks: %s: %w", name, err)
			}
			switch unit := fields[i+1]; unit {
			case "ns/op":
				times[name] = time.Duration(value)
			case "MB/s": // Equivalent to the time.
			default:
				if least, found := all[name][unit]; !found || value < least {
					all[name][unit] = value
				}
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, nil, fmt.Errorf("read the output of the benchmarks: %w", err)
	}
	for _, f := range all {
		if slices.ContainsFunc(slices.Collect(maps.Keys(f)), own) {
			maps.DeleteFunc(f, func(unit string, _ float64) bool { return !own(unit) })
		}
	}
	if len(all) == 0 {
		return nil, nil, errors.New("the input has no result of a benchmark")
	}
	return all, times, nil
}

// own reports whether a benchmark counts a figure itself, instead of go test -benchmem.
func own(unit string) bool { return unit != "B/op" && unit != "allocs/op" }

// worse reports whether a figure is worse than tolerated.
func worse(before, now float64) bool { return now > before*(1+tolerance) }

// check returns an error that names all differences: worse figures, and what was added or removed.
func check(recorded, now figures) error {
	var problems []string
	each(recorded, now, func(name, unit string, before, current float64, recordedBefore, there bool) {
		switch {
		case !recordedBefore:
			problems = append(problems, fmt.Sprintf("%s: %s is not recorded; now it is %s", name, unit, number(current)))
		case !there:
			problems = append(problems, fmt.Sprintf("%s: %s is recorded with %s, but the benchmark no longer reports it", name, unit, number(before)))
		case worse(before, current):
			problems = append(problems, fmt.Sprintf("%s: %s was %s and is %s%s", name, unit, number(before), number(current), change(before, current)))
		}
	})
	if len(problems) == 0 {
		return nil
	}
	return fmt.Errorf("%d figures are more than %.0f %% worse than recorded, new or removed:\n  %s\n%s",
		len(problems), 100*tolerance, strings.Join(problems, "\n  "), hint)
}

// each calls do for all figures in order, with the recorded and the current value.
func each(recorded, now figures, do func(name, unit string, before, current float64, recordedBefore, there bool)) {
	for _, name := range sortedKeys(recorded, now) {
		for _, unit := range sortedKeys(recorded[name], now[name]) {
			before, recordedBefore := recorded[name][unit]
			current, there := now[name][unit]
			do(name, unit, before, current, recordedBefore, there)
		}
	}
}

func sortedKeys[V any](a, b map[string]V) []string {
	keys := slices.AppendSeq(slices.Collect(maps.Keys(a)), maps.Keys(b))
	slices.Sort(keys)
	return slices.Compact(keys)
}

// number formats a number without insignificant digits.
func number(n float64) string {
	if n == math.Trunc(n) || n >= 1000 {
		return fmt.Sprintf("%.0f", n)
	}
	return fmt.Sprintf("%.4g", n)
}

func change(before, now float64) string {
	percent := math.Round(100 * (now/before - 1))
	if before == 0 || percent == 0 {
		return ""
	}
	return fmt.Sprintf(", %+.0f %%", percent)
}

// printAll prints each figure next to the recorded one, and the times.
func printAll(out io.Writer, recorded, now figures, times map[string]time.Duration) {
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "benchmark\tfigure\trecorded\tnow\t")
	last, better := "", 0
	each(recorded, now, func(name, unit string, before, current float64, recordedBefore, there bool) {
		if name != last {
			if t, found := times[name]; found {
				_, _ = fmt.Fprintf(table, "%s\ttime\t\t%s\tis not compared\n", name, t.Round(time.Microsecond))
			}
			last = name
		}
		if !recordedBefore || !there {
			return // check reports it.
		}
		if worse(current, before) {
			better++
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", name, unit, number(before), number(current), strings.TrimPrefix(change(before, current), ", "))
	})
	_ = table.Flush()
	if better > 0 {
		_, _ = fmt.Fprintf(out, "%d figures are better by more than a tenth: make bench-record keeps that.\n", better)
	}
}

// steady returns the current figures, but keeps recorded ones if the difference is noise.
func steady(recorded, now figures) figures {
	out := figures{}
	each(recorded, now, func(name, unit string, before, current float64, recordedBefore, there bool) {
		if !there {
			return
		}
		if recordedBefore && math.Abs(current-before) <= noise*before {
			current = before
		}
		if out[name] == nil {
			out[name] = map[string]float64{}
		}
		out[name][unit] = current
	})
	return out
}

// load reads recorded figures. Without the file there are none.
func load(file string) (figures, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return figures{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read recorded figures: %w", err)
	}
	var f figures
	if err := json.Unmarshal(text, &f); err != nil {
		return nil, fmt.Errorf("read recorded figures in %s: %w", file, err)
	}
	return f, nil
}

func save(file string, f figures) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return fmt.Errorf("record figures: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o600); err != nil {
		return fmt.Errorf("record figures: %w", err)
	}
	return nil
}
