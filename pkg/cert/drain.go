package cert

import (
	"context"
	"net/http"
	"sync/atomic"
	"time"

	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook"
)

// drainPath is for the preStop hooks of the charts.
const drainPath = "/drain"

// drainTime is how long a preStop hook takes, in which every apiserver learns that the pod is no endpoint any more, and how long a
// server continues after its context is done.
const drainTime = 5 * time.Second

// drainingServer is a webhook server that closes its connections gracefully. An apiserver keeps connections to
// webhooks and calls by HTTP/1.1, even to a server that is no endpoint of its Service any more; a call on a
// connection that is just being closed fails, and is not retried. So while it drains, each response asks to close
// its connection. In the end it closes those that no client has used: the longer it has drained, the rarer is a call that
// takes up one of them at that moment. So it drains from a preStop hook on, and not only after ctx is done.
type drainingServer struct {
	webhook.Server
	clock clock.Clock
	// draining counts who drains. Nobody authenticates a hook: one that others call must not close connections for longer than
	// it takes.
	draining atomic.Int32
}

// newDrainingServer adds draining to a server that was not started.
func newDrainingServer(server webhook.Server, c clock.Clock) *drainingServer {
	s := &drainingServer{Server: server, clock: c}
	s.Register(drainPath, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { s.drain(r.Context()) }))
	return s
}

// bodyLimit is the largest body that is read. Admission has a limit of its own; a conversion has all objects of a page of a list.
// Nobody authenticates a caller, so without a limit anyone who reaches the port could fill the memory.
const bodyLimit = 64 << 20

// Register adds a handler for a path.
func (s *drainingServer) Register(path string, hook http.Handler) {
	s.Server.Register(path, http.MaxBytesHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if s.draining.Load() > 0 {
			w.Header().Set("Connection", "close")
		}
		hook.ServeHTTP(w, r)
	}), bodyLimit))
}

// Start serves until drainTime after ctx is done, or until the server fails.
func (s *drainingServer) Start(ctx context.Context) error {
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	defer end()
	stop := context.AfterFunc(ctx, func() {
		s.drain(serving)
		end()
	})
	defer stop()
	return s.Server.Start(serving)
}

// drain has connections closed after their next response for drainTime, at most until ctx is done.
func (s *drainingServer) drain(ctx context.Context) {
	s.draining.Add(1)
	defer s.draining.Add(-1)
	timer := s.clock.NewTimer(drainTime)
	defer timer.Stop()
	select {
	case <-timer.C():
	case <-ctx.Done():
	}
}
