// Package writeback paces writes that put back what another writer has changed, so that two which do not agree about an object don't
// write as fast as they can for as long as both run.
package writeback

import (
	"sync"
	"time"
)

// Bounds of the wait before something is written back. The first time it is at once; after a quiet time of twice the longest wait
// it is again.
const (
	Min = time.Second
	Max = time.Minute
)

// Pace knows what was written, by any name. The zero value is ready, and its methods may be called concurrently.
type Pace struct {
	mu      sync.Mutex
	written map[string]write
}

type write struct {
	content string
	at      time.Time
	// wait is how long the same content waits from then on.
	wait time.Duration
}

// Wait returns how long to wait until content is written to what has this name: 0 unless the same was written before.
func (p *Pace) Wait(name, content string, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, ok := p.written[name]
	if !ok || last.content != content {
		return 0
	}
	return max(0, last.at.Add(last.wait).Sub(now))
}

// Wrote remembers a write. It returns how long the next one of the same content waits.
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
