package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

const (
	// testTimeout is how long the tests of one mutant may run, not counting compilation.
	testTimeout = 2 * time.Minute
	// shown is how much of the tests' output is printed.
	shown = 2000
)

// mutant breaks a rule.
type mutant struct {
	// rule is I and the number of an invariant, or A and the number of an attack.
	rule string
	// file is the path from the root of the module. from occurs in one line, and nowhere else. to replaces it.
	file, from, to string
	// tests are the tests, at least one of which must fail, by folder and function as the line of the rule names them.
	tests []string
}

// verdict is the result of a mutant.
type verdict string

const (
	killed   verdict = "killed"
	survived verdict = "SURVIVED"
	// failed: there is no result.
	failed verdict = "ERROR"
)

// mutate returns the text of a file with the mutant's change.
func (m mutant) mutate(text string) (string, error) {
	switch n := strings.Count(text, m.from); {
	case n != 1:
		return "", fmt.Errorf("%s: %s occurs %d times in %s, and must occur once: name the line as it is now", m.rule, m.from, n, m.file)
	case strings.Contains(m.from+m.to, "\n"):
		return "", fmt.Errorf("%s: %s is more than one line", m.rule, m.from)
	case m.from == m.to:
		return "", fmt.Errorf("%s: %s is replaced by itself", m.rule, m.from)
	}
	return strings.Replace(text, m.from, m.to, 1), nil
}

// packages returns the tests by their package.
func (m mutant) packages() map[string][]string {
	by := map[string][]string{}
	for _, test := range m.tests {
		folder, name, _ := strings.Cut(test, ".")
		by[folder] = append(by[folder], name)
	}
	return by
}

// run runs the tests of the selected mutants, and then reports the results.
func run(ctx context.Context, out io.Writer, root string, all []mutant, only *regexp.Regexp) error {
	mutants := slices.DeleteFunc(slices.Clone(all), func(m mutant) bool { return !only.MatchString(m.rule) })
	if len(mutants) == 0 {
		return fmt.Errorf("no mutant of a rule matches %q", only)
	}
	if err := unbroken(ctx, root, mutants); err != nil {
		return err
	}
	say := func(format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }
	count := map[verdict]int{}
	for _, m := range mutants {
		began := time.Now()
		v, text, err := try(ctx, root, m)
		if err != nil {
			return err
		}
		count[v]++
		say("%-8s %s %5.1f s  %s: %s -> %s\n", v, m.rule, time.Since(began).Seconds(), m.file, m.from, m.to)
		switch v {
		case survived:
			say("         these tests pass: %s\n", strings.Join(m.tests, ", "))
		case failed:
			say("%s\n", text[:min(len(text), shown)])
		case killed:
		}
	}
	say("%d mutants: %d killed, %d survived, %d errors\n", len(mutants), count[killed], count[survived], count[failed])
	if count[killed] < len(mutants) {
		return errors.New("mend the tests that don't notice, or the mutant")
	}
	return nil
}

// unbroken checks that the tests pass without a mutant. Otherwise they would kill any mutant.
func unbroken(ctx context.Context, root string, mutants []mutant) error {
	by := map[string][]string{}
	for _, m := range mutants {
		for folder, names := range m.packages() {
			by[folder] = append(by[folder], names...)
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(by)) {
		if text, err := test(ctx, root, folder, by[folder]); err != nil {
			return fmt.Errorf("the tests of %s fail without a mutant: %w\n%s", folder, err, text[:min(len(text), shown)])
		}
	}
	return nil
}

// try runs the tests with a mutant. text is their output.
func try(ctx context.Context, root string, m mutant) (v verdict, text string, err error) {
	dir, err := os.MkdirTemp("", "mutant")
	if err != nil {
		return "", "", fmt.Errorf("make a folder for the overlay: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	overlay, err := m.overlay(root, dir)
	if err != nil {
		return "", "", err
	}
	v = survived
	by := m.packages()
	for _, folder := range slices.Sorted(maps.Keys(by)) {
		said, ended := test(ctx, root, folder, by[folder], "-overlay", overlay)
		if ctx.Err() != nil {
			return "", "", fmt.Errorf("test the mutants: %w", ctx.Err())
		}
		if ended == nil {
			continue
		}
		if v != failed {
			v, text = judge(said), said
		}
	}
	return v, text, nil
}

// overlay writes the mutated file and the overlay that refers to it to dir, and returns the path of the overlay.
func (m mutant) overlay(root, dir string) (string, error) {
	original, err := filepath.Abs(filepath.Join(root, m.file))
	if err != nil {
		return "", fmt.Errorf("find %s: %w", m.file, err)
	}
	text, err := os.ReadFile(original)
	if err != nil {
		return "", fmt.Errorf("read the file of %s: %w", m.rule, err)
	}
	broken, err := m.mutate(string(text))
	if err != nil {
		return "", err
	}
	with, overlay := filepath.Join(dir, filepath.Base(m.file)), filepath.Join(dir, "overlay.json")
	list, err := json.Marshal(map[string]map[string]string{"Replace": {original: with}})
	if err == nil {
		err = errors.Join(os.WriteFile(with, []byte(broken), 0o600), os.WriteFile(overlay, list, 0o600))
	}
	if err != nil {
		return "", fmt.Errorf("write the overlay: %w", err)
	}
	return overlay, nil
}

// test runs tests of a package and returns their output.
func test(ctx context.Context, root, folder string, names []string, flags ...string) (string, error) {
	slices.Sort(names)
	args := slices.Concat([]string{"test", "-vet=off", "-failfast", "-timeout", testTimeout.String()}, flags,
		[]string{"-run", "^(" + strings.Join(slices.Compact(names), "|") + ")$", "./" + folder}, ofRapid(root, folder))
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	text, err := cmd.CombinedOutput()
	return string(text), err //nolint:wrapcheck // The caller says what failed.
}

// ofRapid returns flags for package rapid, if a package's tests use it: don't shrink a failure, which takes half a minute, and don't write it
// to the source tree.
func ofRapid(root, folder string) []string {
	files, _ := filepath.Glob(filepath.Join(root, folder, "*_test.go")) // The pattern is good.
	for _, f := range files {
		if text, err := os.ReadFile(f); err == nil && strings.Contains(string(text), `"pgregory.net/rapid"`) {
			return []string{"-rapid.nofailfile", "-rapid.shrinktime=0s"}
		}
	}
	return nil
}

// judge returns the verdict on failed tests. Only a failed test kills a mutant.
func judge(text string) verdict {
	if strings.Contains(text, "panic: test timed out") || !strings.Contains(text, "--- FAIL: ") {
		return failed
	}
	return killed
}
