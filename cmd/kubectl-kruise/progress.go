package main

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"
)

// lines prints a line for each change.
type lines struct {
	out  io.Writer
	last string
	// printed are the details that the reader has seen last.
	printed []string
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
	changed := slices.DeleteFunc(slices.Clone(s.details), func(d string) bool { return slices.Contains(l.printed, d) })
	l.last, l.printed = line, s.details
	return printAll(l.out, changed)
}

func (l *lines) end() error { return nil }

// bar draws the rollout's progress in one line of a terminal, redrawing it each time. Details follow at the end.
type bar struct {
	out     io.Writer
	width   int
	open    bool
	details []string
}

const (
	// cells is the width of the bar itself.
	cells = 30
	// redraw moves to the start of the line and clears it.
	redraw = "\r\x1b[K"
)

func (b *bar) print(s rolloutState) error {
	if _, err := fmt.Fprint(b.out, redraw, fit(renderBar(s), b.width-1)); err != nil {
		return err
	}
	b.open, b.details = true, s.details
	if !s.done {
		return nil
	}
	b.open = false
	return printAll(b.out, append([]string{"\n" + s.end()}, s.details...))
}

// end moves the cursor below the bar.
func (b *bar) end() error {
	if !b.open {
		return nil
	}
	b.open = false
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

// terminalWidth returns the width of the terminal, or 0 if out is not one.
func terminalWidth(out io.Writer) int {
	f, ok := out.(*os.File)
	if !ok {
		return 0
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return width
}
