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

// What a push member may send. A member is not trusted, and the hub keeps in its memory what it reads there.
const (
	// answerBytes bounds one answer that is not a watch, uncompressed.
	answerBytes = 64 << 20
	// sessionBytes bounds all that a session reads, and with it what its caches can hold. An honest member reaches it after many
	// thousand changes; the next session begins with empty caches.
	sessionBytes = 256 << 20
	// answerTimeout bounds one answer that is not a watch, to the end of its body.
	answerTimeout = time.Minute
)

var (
	// errRedirect: a redirect could lead to addresses that only the hub reaches.
	errRedirect = errors.New("the member answered with a redirect, which the hub does not follow")
	// errTooMuch: a member sent more than the hub keeps.
	errTooMuch = errors.New("the member sent more than the hub reads")
)

// readLimits limits what one session reads from a push member. It may be used concurrently.
type readLimits struct {
	answer, session int64
	timeout         time.Duration
	// exceeded ends the session.
	exceeded context.CancelCauseFunc

	read atomic.Int64
}

// limited returns cfg with a transport that refuses redirects and ends the session with exceeded at its limits.
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

// limitedBody counts what is read of an answer.
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
		err = fmt.Errorf("%w: more than %d MiB in one answer", errTooMuch, l.answer>>20)
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
