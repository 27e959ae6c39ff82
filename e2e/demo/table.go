package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"k8s.io/utils/clock"

	appsv1beta1 "github.com/flotilla-io/flotilla/apis/apps/v1beta1"
)

// plainEvery is the minimum interval between lines in plain output, if something changed.
const plainEvery = 500 * time.Millisecond

// A row that wraps would take two lines, and redrawing would clear only one of them.
const noWrap, wrap = "\x1b[?7l", "\x1b[?7h"

// table shows a UnitedDeployment by cluster and subset while it changes: redrawn in place on a terminal, otherwise one line per change.
type table struct {
	out   io.Writer
	live  bool
	clock clock.PassiveClock
	began time.Time

	lines   int
	shown   string
	shownAt time.Time
	pending string
}

func newTable(out io.Writer, live bool, c clock.PassiveClock) *table {
	return &table{out: out, live: live, clock: c, began: c.Now()}
}

// draw shows the current state.
func (t *table) draw(ud *appsv1beta1.UnitedDeployment) {
	if t.live {
		t.redraw(ud)
		return
	}
	parts := make([]string, 0, len(ud.Status.SubsetStatuses))
	for _, s := range ud.Status.SubsetStatuses {
		parts = append(parts, fmt.Sprintf("%s/%s %d desired %d ready %d updated %d available", s.Cluster, s.Name,
			s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.AvailableReplicas))
	}
	text := strings.Join(parts, ", ")
	if text == t.shown {
		t.pending = ""
		return
	}
	t.pending = text
	if t.clock.Since(t.shownAt) >= plainEvery {
		t.print()
	}
}

func (t *table) print() {
	if t.pending == "" {
		return
	}
	_, _ = fmt.Fprintf(t.out, "%7.1fs  %s\n", t.clock.Since(t.began).Seconds(), t.pending)
	t.shown, t.shownAt, t.pending = t.pending, t.clock.Now(), ""
}

// redraw goes back to the table's first line and writes it again.
func (t *table) redraw(ud *appsv1beta1.UnitedDeployment) {
	var b strings.Builder
	if t.lines > 0 {
		fmt.Fprintf(&b, "\x1b[%dA\x1b[J", t.lines)
	}
	row := func(format string, args ...any) {
		fmt.Fprintf(&b, "\x1b[K"+format+"\n", args...)
		t.lines++
	}
	t.lines = 0
	row("%7.1fs  %-10s %-10s %8s %8s %8s %10s", t.clock.Since(t.began).Seconds(), "CLUSTER", "SUBSET", "DESIRED", "READY", "UPDATED", "AVAILABLE")
	for _, s := range ud.Status.SubsetStatuses {
		row("          %-10s %-10s %8d %8d %8d %10d  %s", s.Cluster, s.Name, s.Replicas, s.ReadyReplicas, s.UpdatedReplicas, s.AvailableReplicas, s.Reason)
	}
	_, _ = fmt.Fprint(t.out, noWrap+b.String()+wrap)
}

// close shows the last state.
func (t *table) close() {
	if !t.live {
		t.print()
	}
}
