package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"
)

// lines prints a line for each change.
type lines struct {
	out  io.Writer
	last string
	// printed are the texts of the details that the reader has seen last, by what they are about.
	printed map[string]string
}

func (l *lines) print(s rolloutState) error {
	line := s.end()
	if !s.done {
		line = fmt.Sprintf("Waiting for %s %q rollout to finish: %s...", s.noun, s.name, s.waits)
	}
	if line != l.last {
		if _, err := fmt.Fprintln(l.out, line); err != nil {
			return err
		}
	}
	var changed []string
	seen := map[string]string{}
	for _, d := range slices.Concat(s.progressOfWaves(), s.details) {
		was, known := l.printed[d.about]
		if d.quiet && !known {
			continue
		}
		if seen[d.about] = d.text; d.text != was {
			changed = append(changed, d.text)
		}
	}
	l.last, l.printed = line, seen
	return printAll(l.out, changed)
}

// progressOfWaves returns the waves and the budget as details.
func (s rolloutState) progressOfWaves() []detail {
	if len(s.waves) == 0 {
		return nil
	}
	var out []detail
	for i, text := range listWaves(s.waves, 0) {
		out = append(out, detail{about: "wave " + s.waves[i].name, text: text})
	}
	return append(out, detail{about: "budget", text: "  " + s.budget})
}

func (l *lines) end() error { return nil }

// bar draws the rollout's progress in one line of a terminal, redrawing it each time. Waves have a line each below it. Details follow at the
// end.
type bar struct {
	out io.Writer
	// width and height are the size of the terminal. A height of 0 means that it is unknown.
	width, height int
	// rows is how many rows are drawn; 0 if none is.
	rows    int
	details []string
}

const (
	// cells is the width of the bar itself.
	cells = 30
	// redraw moves to the start of the line and clears it. redrawAll moves up before, and clears everything below too.
	redraw    = "\r\x1b[K"
	redrawAll = "\x1b[%dA\r\x1b[J"
	// waitRows is how many rows are filled at most with what the rollout waits for.
	waitRows = 6
)

func (b *bar) print(s rolloutState) error {
	start := redraw
	if b.rows > 1 {
		start = fmt.Sprintf(redrawAll, b.rows-1)
	}
	text, rows := b.render(s)
	if _, err := fmt.Fprint(b.out, start, text); err != nil {
		return err
	}
	b.rows, b.details = rows, nil
	for _, d := range s.details {
		if !d.quiet {
			b.details = append(b.details, d.text)
		}
	}
	if !s.done {
		return nil
	}
	b.rows = 0
	return printAll(b.out, append([]string{"\n" + s.end()}, b.details...))
}

// render returns what is drawn, and how many rows of the terminal it fills. What the rollout waits for may fill several: the terminal breaks the
// line, so that a command in it can be copied.
func (b *bar) render(s rolloutState) (text string, rows int) {
	if len(s.waves) == 0 {
		return fit(renderBar(s), b.width-1), 1
	}
	below := []string{fit("  "+s.budget, b.width-1)}
	rows = 2
	if s.waits != "" {
		waits := fit("  "+s.waits, waitRows*b.width-1)
		n := utf8.RuneCountInString(waits)
		if n%b.width == 0 {
			waits += " " // Terminals differ in where the cursor is after a row that is full.
		}
		below = append([]string{waits}, below...)
		rows += n/b.width + 1
	}
	s.waits = ""
	lines := []string{fit(renderBar(s), b.width-1)}
	room := len(s.waves)
	if b.height > 0 {
		room = b.height - rows
	}
	for _, line := range listSome(s.waves, b.width-1, room) {
		lines = append(lines, fit(line, b.width-1))
		rows++
	}
	return strings.Join(append(lines, below...), "\n"), rows
}

// end moves the cursor below what is drawn.
func (b *bar) end() error {
	if b.rows == 0 {
		return nil
	}
	b.rows = 0
	return printAll(b.out, append([]string{""}, b.details...))
}

func printAll(out io.Writer, lines []string) error {
	for _, line := range lines {
		if _, err := fmt.Fprintln(out, line); err != nil {
			return err
		}
	}
	return nil
}

func renderBar(s rolloutState) string {
	text := fmt.Sprintf("%s [%s] %d/%d updated, %d ready, %d available", s.name, renderGauge(s), s.updated, s.goal, s.ready, s.available)
	if kept := s.want - s.goal; kept > 0 {
		text += fmt.Sprintf(", partition keeps %d", kept)
	}
	if s.waits != "" {
		text += ": " + s.waits
	}
	return text
}

// renderGauge returns the bar: the pods in the order of their state, each with its share of the wanted pods.
func renderGauge(s rolloutState) string {
	at := func(n int32) int {
		if s.want <= 0 {
			return cells
		}
		return int(min(max(n, 0), s.want)) * cells / int(s.want)
	}
	complete, updated, goal := at(s.complete), at(max(s.updated, s.complete)), at(s.goal)
	if s.goal < s.want {
		goal = max(goal-1, 0) // Leave a cell for the partition's mark.
	}
	var out strings.Builder
	for i := range cells {
		switch {
		case i == goal && s.goal < s.want:
			out.WriteByte('|')
		case i < complete:
			out.WriteByte('=')
		case i < updated:
			out.WriteByte('-')
		case i < goal:
			out.WriteByte('.')
		default:
			out.WriteByte(' ')
		}
	}
	return out.String()
}

// fit truncates the text, because a line that wraps can't be redrawn.
func fit(text string, width int) string {
	text = strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, text)
	runes := []rune(text)
	if len(runes) <= width || width < 4 {
		return text
	}
	return string(runes[:width-3]) + "..."
}

// terminalSize returns the size of the terminal, or 0 if out is not one.
func terminalSize(out io.Writer) (width, height int) {
	f, ok := out.(*os.File)
	if !ok {
		return 0, 0
	}
	width, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0, 0
	}
	return width, height
}
