// Package writeback paces writes that restore what another writer has changed, so that two writers that disagree about an object don't overwrite
// each other at full speed for as long as both run.
package writeback

import (
	"sync"
	"time"
)

// Bounds of the wait before something is written back. The first write back happens at once, and so does the next after a quiet period of twice
// the longest wait.
const (
	Min = time.Second
	Max = time.Minute
)

// Pace remembers what was written, under any name. The zero value is ready to use, and its methods may be called concurrently.
type Pace struct {
	mu      sync.Mutex
	written map[string]write
}

type write struct {
	content string
	at      time.Time
	// wait is how long the same content has to wait from then on.
	wait time.Duration
}

// Wait returns how long to wait before writing content under this name: 0 unless the same content was written before.
func (p *Pace) Wait(name, content string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.written[name]
	if !ok || last.content != content {
		return 0
	}
	return max(0, last.at.Add(last.wait).Sub(now))
}

// Wrote records a write. It returns how long the next write of the same content has to wait.
func (p *Pace) Wrote(name, content string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.written == nil {
		p.written = map[string]write{}
	}
	next := write{content: content, at: now}
	if last, ok := p.written[name]; ok && last.content == content && now.Sub(last.at) < 2*Max {
		next.wait = min(max(2*last.wait, Min), Max)
	}
	p.written[name] = next
	return next.wait
}
