package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
)

// Limits for what a push member may send. Members are not trusted, and the hub keeps what it reads there in memory.
const (
	// answerBytes limits one response that is not a watch, uncompressed.
	answerBytes = 64 << 20
	// sessionBytes limits everything that a session reads, and therefore what its caches can hold. An honest member reaches it after many
	// thousands of changes. The next session starts with empty caches.
	sessionBytes = 256 << 20
	// answerTimeout limits the time until the end of the body of one response that is not a watch.
	answerTimeout = time.Minute
)

var (
	// errRedirect is returned for a redirect, which could lead to addresses that only the hub can reach.
	errRedirect = errors.New("the member answered with a redirect, which the hub does not follow")
	// errTooMuch means that a member sent more than the hub keeps.
	errTooMuch = errors.New("the member sent more data than the hub reads")
)

// readLimits limits what one session reads from a push member. It is safe for concurrent use.
type readLimits struct {
	answer, session int64
	timeout         time.Duration
	// exceeded ends the session.
	exceeded context.CancelCauseFunc

	read atomic.Int64
}

// limited returns cfg with a transport that refuses redirects and ends the session with exceeded when it reaches the limits.
func limited(cfg *rest.Config, exceeded context.CancelCauseFunc) *rest.Config {
	l := &readLimits{answer: answerBytes, session: sessionBytes, timeout: answerTimeout, exceeded: exceeded}
	cfg = rest.CopyConfig(cfg)
	cfg.Wrap(l.wrap)
	return cfg
}

func (l *readLimits) wrap(rt http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		watch := r.URL.Query().Get("watch")
		b := &limitedBody{limits: l, left: math.MaxInt64, cancel: func() {}}
		if watch != "true" && watch != "1" {
			ctx, cancel := context.WithTimeout(r.Context(), l.timeout)
			r, b.left, b.cancel = r.WithContext(ctx), l.answer, cancel
		}
		answer, err := rt.RoundTrip(r)
		if err != nil {
			b.cancel()
			return nil, err
		}
		if b.ReadCloser = answer.Body; answer.StatusCode >= 300 && answer.StatusCode < 400 {
			return nil, errors.Join(errRedirect, b.Close())
		}
		answer.Body = b
		return answer, nil
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// limitedBody counts what is read from a response.
type limitedBody struct {
	io.ReadCloser

	limits *readLimits
	left   int64
	cancel context.CancelFunc
}

func (b *limitedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	switch l := b.limits; {
	case b.left < 0:
		err = fmt.Errorf("%w: more than %d MiB in one response", errTooMuch, l.answer>>20)
		l.exceeded(err)
		return 0, err
	case l.read.Add(int64(n)) > l.session:
		err = fmt.Errorf("%w: more than %d MiB since it connected", errTooMuch, l.session>>20)
		l.exceeded(err)
		return 0, err
	}
	return n, err
}

func (b *limitedBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
