package image

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"time"

	"k8s.io/utils/clock"

	"github.com/flotilla-io/flotilla/member/node/background"
	"github.com/flotilla-io/flotilla/pkg/noded/credentialprovider"
	"github.com/flotilla-io/flotilla/pkg/noded/cri"
	"github.com/flotilla-io/flotilla/pkg/noded/pullsecret"
)

const (
	// A failed attempt is retried after firstRetry, doubling up to lastRetry.
	firstRetry = time.Second
	lastRetry  = time.Minute
	// runtimeRetry is how soon to look again for a runtime that answers.
	runtimeRetry = 10 * time.Second
	// marker is the annotation on the sandbox of a pull. Source: OpenKruise.
	marker, markedBy = "apps.kruise.io/pulling-image-by", "kruise-daemon"
)

var (
	errDeadline = errors.New("it was not pulled within activeDeadlineSeconds")
	errTimeout  = errors.New("the attempt did not finish within timeoutSeconds")
)

// runtimes finds the runtime that pulls.
type runtimes interface {
	First() (*cri.Runtime, error)
}

// pulls are the pulls of this process. They end with the context of the process.
type pulls struct {
	background.Pool[task, progress]

	runtimes runtimes
	// providers are the node's credential provider plugins; nil means none.
	providers *credentialprovider.Providers
	clock     clock.Clock
	// ended is called when a pull has ended.
	ended func()
}

// begin starts a pull.
func (s *pulls) begin(ctx context.Context, o order) {
	s.Begin(ctx, o.task, progress{began: o.began}, func(ctx context.Context, update func(func(*progress))) {
		id, err := s.run(ctx, o)
		if ctx.Err() != nil { // The process ends, or the pull was forgotten.
			return
		}
		update(func(p *progress) {
			p.ended, p.id = s.clock.Now(), id
			if err != nil {
				p.failure = err.Error()
			}
		})
		s.ended()
	})
}

// run pulls until it succeeds, the attempts or the time are used up, or ctx ends. It returns the image's ID.
func (s *pulls) run(ctx context.Context, o order) (string, error) {
	failed, wait := 0, firstRetry
	for {
		id, err := s.attempt(ctx, o)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, errDeadline):
			return id, err
		case errors.Is(err, cri.ErrNoRuntime):
			if !s.pause(ctx, runtimeRetry, o.deadline) {
				return "", fmt.Errorf("%w: %w", errDeadline, err)
			}
			continue
		}
		failed++
		measure.Wait(reasonFailed)
		if failed >= o.attempts {
			return "", err
		}
		if !s.pause(ctx, wait, o.deadline) {
			return "", fmt.Errorf("%w: %w", errDeadline, err)
		}
		wait = min(2*wait, lastRetry)
	}
}

// pause waits, and reports whether it did. It doesn't wait if that would exceed the deadline.
func (s *pulls) pause(ctx context.Context, d time.Duration, deadline time.Time) bool {
	if !deadline.IsZero() && s.clock.Now().Add(d).After(deadline) {
		return false
	}
	return background.Pause(ctx, s.clock, d)
}

// pull tries each login of the job, then those of the node's plugins, then no login, until one succeeds. It returns the first error, because
// the others say less.
func (s *pulls) pull(ctx context.Context, runtime *cri.Runtime, o order, sandbox cri.Sandbox) (string, error) {
	var first error
	for l, err := range s.logins(ctx, o) {
		if err != nil {
			first = cmp.Or(first, err)
			continue
		}
		id, err := runtime.Pull(ctx, o.ref.String(), sandbox, l)
		if err == nil || ctx.Err() != nil {
			return id, err
		}
		first = cmp.Or(first, err)
	}
	return "", first
}

// logins yields the logins for an image in the order in which they are tried; nil means no login. Plugins are called only when it is their
// turn.
func (s *pulls) logins(ctx context.Context, o order) iter.Seq2[*cri.Auth, error] {
	return func(yield func(*cri.Auth, error) bool) {
		all := func(logins []pullsecret.Login) bool {
			for _, l := range logins {
				auth := &cri.Auth{Username: l.Username, Password: l.Password, IdentityToken: l.IdentityToken, RegistryToken: l.RegistryToken}
				if !yield(auth, nil) {
					return false
				}
			}
			return true
		}
		if !all(o.logins) {
			return
		}
		logins, err := s.providers.Logins(ctx, o.ref.Name)
		if err != nil && !yield(nil, err) {
			return
		}
		_ = all(logins) && yield(nil, nil)
	}
}

// attempt makes one attempt to pull.
func (s *pulls) attempt(ctx context.Context, o order) (string, error) {
	limit, why := o.timeout, errTimeout
	if !o.deadline.IsZero() {
		left := o.deadline.Sub(s.clock.Now())
		if left <= 0 {
			return "", errDeadline
		}
		if left < limit {
			limit, why = left, errDeadline
		}
	}
	runtime, err := s.runtimes.First()
	if err != nil {
		return "", err
	}
	ctx, cancel := background.WithTimeout(ctx, s.clock, limit, why)
	defer cancel()
	if o.present {
		if id, err := runtime.Image(ctx, o.ref.String()); !errors.Is(err, cri.ErrNoImage) {
			return id, err
		}
	}
	sandbox := cri.Sandbox{Annotations: map[string]string{}}
	if o.sandbox != nil {
		sandbox.Labels = o.sandbox.Labels
		maps.Copy(sandbox.Annotations, o.sandbox.Annotations)
	}
	sandbox.Annotations[marker] = markedBy
	return s.pull(ctx, runtime, o, sandbox)
}
