package lab

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Progress is called when a stage of work begins, and returns the function to call when it ends: done(nil) or done(err). It may be called
// concurrently. A nil Progress is silent.
type Progress func(stage string) (done func(error))

// run runs one stage of work and reports it.
func (p Progress) run(stage string, work func() error) error {
	if p == nil {
		return work()
	}
	done := p(stage)
	err := work()
	done(err)
	return err
}

// prefix adds the owner to the names of stages: "east: apiserver".
func (p Progress) prefix(name string) Progress {
	if p == nil {
		return nil
	}
	return func(stage string) func(error) { return p(name + ": " + stage) }
}

const (
	liveEvery  = time.Second      // A terminal shows a running counter.
	plainEvery = 30 * time.Second // A log file gets a sign of life.
	clearLine  = "\r\x1b[K"
	// The live line is truncated at the terminal's edge: if a line wraps, only its last part can be cleared.
	noWrap, wrap = "\x1b[?7l", "\x1b[?7h"
	indent       = "          "
)

// Printer shows progress as text: a line for each finished stage with the seconds that it took, and one line for all running stages. On a
// terminal that line is live, elsewhere it is printed now and then. Use Stage as a Progress, and call Close at the end.
type Printer struct {
	out   io.Writer
	live  bool
	clock clock.WithTicker

	mu      sync.Mutex
	running []stage // In start order.

	stop    chan struct{}
	stopped sync.WaitGroup
}

type stage struct {
	name  string
	since time.Time
}

// NewPrinter starts a printer. live means that out is a terminal. A nil clock means the machine's clock.
func NewPrinter(out io.Writer, live bool, c clock.WithTicker) *Printer {
	if c == nil {
		c = clock.RealClock{}
	}
	p := &Printer{out: out, live: live, clock: c, stop: make(chan struct{})}
	every := plainEvery
	if live {
		every = liveEvery
	}
	tick := c.NewTicker(every)
	p.stopped.Go(func() {
		defer tick.Stop()
		for {
			select {
			case <-p.stop:
				return
			case <-tick.C():
				p.show()
			}
		}
	})
	return p
}

// Close stops the counter. No stages may begin after it.
func (p *Printer) Close() {
	close(p.stop)
	p.stopped.Wait()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
}

// Stage is a Progress.
func (p *Printer) Stage(name string) func(error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := stage{name: name, since: p.clock.Now()}
	p.running = append(p.running, s)
	p.showLive()
	return func(err error) { p.end(s, err) }
}

func (p *Printer) end(s stage, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i := slices.Index(p.running, s); i >= 0 {
		p.running = slices.Delete(p.running, i, i+1)
	}
	result := "ok"
	if err != nil {
		result = "FAILED"
	}
	p.clear()
	p.print("%7.1fs  %s: %s\n", p.clock.Since(s.since).Seconds(), s.name, result)
	p.showLive()
}

// Note prints a line between the lines of the stages.
func (p *Printer) Note(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.clear()
	p.print("%s%s\n", indent, text)
	p.showLive()
}

// show prints the running stages at each tick.
func (p *Printer) show() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live {
		p.showLive()
	} else if len(p.running) > 0 {
		p.print("%s%s ...\n", indent, p.stages())
	}
}

// showLive rewrites the last line of the terminal.
func (p *Printer) showLive() {
	if p.live && len(p.running) > 0 {
		p.print("%s%s%s%s%s", clearLine, noWrap, indent, p.stages(), wrap)
	}
}

// stages lists the running stages.
func (p *Printer) stages() string {
	parts := make([]string, len(p.running))
	for i, s := range p.running {
		parts[i] = fmt.Sprintf("%s %.0fs", s.name, p.clock.Since(s.since).Seconds())
	}
	return strings.Join(parts, ", ")
}

func (p *Printer) clear() {
	if p.live {
		p.print(clearLine)
	}
}

// print ignores errors: the work continues without output.
func (p *Printer) print(format string, args ...any) {
	_, _ = fmt.Fprintf(p.out, format, args...)
}
